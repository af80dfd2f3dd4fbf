"""Simulates what papers measured and compares the figures; tools/reproduce is the way in, docs/reproduction.md says what came out.

A claim of tools/reproduce_claims.py has a model without weights, a machine file, contenders with their plans, and figures of the
paper. Each contender is compiled up to its plan of memory and simulated twice: with the collectives that the paper's own code has
("theirs"), and as the compiler would have it ("ours").
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build")) / "bin" / "tessera"
sys.path.insert(0, str(ROOT / "test" / "models"))
import shapes  # noqa: E402
from reproduce_claims import CLAIMS, Figure  # noqa: E402

COLUMNS = ("theirs", "ours")
MACHINES = ROOT / "tools" / "machines"
BOUNDS = {"at least": ">= ", "at most": "<= "}


class Failure(Exception):
    """What a plan came to instead of a figure."""


def outcome(command, limit):
    """What a command prints, or a Failure."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return Failure(f"not done after {limit:.0f} s")
    errors = [line for line in result.stderr.splitlines() if line.startswith("error")]
    return json.loads(result.stdout) if result.returncode == 0 else Failure(errors[0] if errors else f"status {result.returncode}")


class Runs:
    """Runs of the compiler, each made once."""

    def __init__(self, folder, says):
        self.folder, self.says, self.done, self.count = pathlib.Path(folder), says, {}, 0

    def model(self, name, shape):
        path = self.folder / ("-".join([name, *(f"{key}{value}" for key, value in sorted(shape.items()))]) + ".onnx")
        if not path.exists():
            shapes.write(name, str(path), **shape)
        return path

    def placed(self, claim, shape, options, order):
        """A plan file of a recipe, its mesh with the axes in another order, slowest varying first."""
        path = self.folder / f"{claim.name}{options}{shape}.toml".replace(" ", "")
        if not path.exists():
            binds = [text for key, value in {"batch": 1 << 10, **claim.binds}.items() for text in ("--bind", f"{key}={value}")]
            plan = subprocess.run([str(TESSERA), "plan", str(self.model(claim.model, {**claim.shape, **shape})), *binds, *claim.options.split(), *options.split()],
                                  check=True, capture_output=True, text=True).stdout
            axes = {line.split(" = ")[0].strip('"'): line for line in plan.splitlines()[2:] if re.fullmatch(r'"\w+" = \d+', line)}
            path.write_text("[mesh]\n" + "\n".join(axes[name] for name in order) + "\n" + plan.split("\n\n", 1)[1])
        return path

    def command(self, what, claim, shape, options, binds, limit=None):
        bound = [text for key, value in sorted(binds.items()) for text in ("--bind", f"{key}={value}")]
        command = [str(TESSERA), what, str(self.model(claim.model, {**claim.shape, **shape})), *bound, "--json", "--threads", "1", "--target", "cuda",
                   "--machine", str(MACHINES / f"{claim.machine}.toml"), *claim.options.split(), *options.split()]
        key = tuple(command)
        if key not in self.done:
            self.count += 1
            self.says(f"{claim.name}: {options} {' '.join(f'{k}={v}' for k, v in sorted(binds.items()))}")
            self.done[key] = outcome(command, limit)
        if isinstance(self.done[key], Failure):
            raise self.done[key]
        return self.done[key]


class Contest:
    """The contenders of a claim, by one column's plans."""

    def __init__(self, runs, claim, column):
        self.runs, self.claim, self.column = runs, claim, column

    def options(self, label):
        plan = self.claim.plans[label]
        if self.column == "theirs" and plan.order:
            return f"--plan {self.runs.placed(self.claim, plan.shape, plan.theirs, plan.order)}"
        return plan.ours if self.column == "ours" and plan.ours else plan.theirs

    def step(self, label, train=True, **binds):
        options = self.options(label) + (" " + self.claim.train if train else "")
        return self.runs.command("simulate", self.claim, self.claim.plans[label].shape, options, {**self.claim.binds, **binds})

    def seconds(self, label, **binds):
        return self.step(label, **binds)["seconds"]

    def memory(self, label, **binds):
        """Bytes of the device a rank: the compiler's exact peak."""
        return self.step(label, **binds)["device_bytes"]

    def largest(self, label, dim="batch", unit=1, card=None, **binds):
        """The most of a dimension, in units, that fits the card (bytes), by bisection to 2 %."""
        def fits(count):
            return self.memory(label, **{**binds, dim: count * unit}) <= (card or self.claim.card)
        if not fits(1):
            raise Failure(f"{label}: {dim} {unit} does not fit")
        low, high = 1, 2
        while fits(high):
            low, high = high, 2 * high
            if high > 1 << 20:
                raise Failure(f"{label}: {dim} does not end")
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low * unit

    def throughput(self, label, **binds):
        """Samples a second."""
        return {**self.claim.binds, **binds}["batch"] / self.seconds(label, **binds)

    def best_throughput(self, label, unit=1, **binds):
        """At the largest batch that fits."""
        return self.throughput(label, batch=self.largest(label, unit=unit, **binds), **binds)

    def deep(self, label, layers, stages, microbatches, copies=1):
        """Seconds of a pipeline, `copies` of which share the batch, from three of 2 and 4 stages with as many layers in each: affine in
        microbatches, of a sample each, and in stages."""
        def seconds(stages_here, microbatches):
            options = f"{self.options(label)} {self.claim.train} --pp {stages_here} --microbatches {microbatches}" + (f" --dp {copies}" if copies > 1 else "")
            return self.runs.command("simulate", self.claim, {**self.claim.plans[label].shape, "layers": layers // stages * stages_here}, options,
                                     {**self.claim.binds, "batch": microbatches * copies})["seconds"]
        shallow, base, more = seconds(2, 8), seconds(4, 8), seconds(4, 16)
        return more + (microbatches - 16) * (more - base) / 8 + (stages - 4) * (base - shallow) / 2


def judged(figure, of):
    """A figure of one column."""
    try:
        value = of()
    except Failure as failure:
        return {"failure": str(failure), "close": False, "side": False}
    ratio, close, side = figure.judge(value)
    return {"value": value, "ratio": ratio, "close": close, "side": side}


def measured(runs, claim, figure):
    """A row: the paper's figure and both columns."""
    return {"claim": claim.name, "what": figure.what, "paper": figure.paper, "says": figure.says,
            **{column: judged(figure, lambda column=column: figure.of(Contest(runs, claim, column))) for column in COLUMNS}}


def planned(runs, claim, seconds):
    """What `plan --auto` finds on the claim's machine, as a row, against the paper's winner."""
    figure = Figure(f"plan --auto, {claim.ranks} ranks, against {claim.winner}", 1, None, "at least", close=0.001)
    row = {"claim": claim.name, "what": figure.what, "paper": figure.paper, "says": figure.says}

    def gain():
        contest = Contest(runs, claim, "ours")
        binds = {**claim.binds, "batch": claim.binds.get("batch") or contest.largest(claim.winner, unit=claim.ranks)}
        options = f"{claim.train} --auto --ranks {claim.ranks} --plan-seconds {seconds:g}"
        if claim.card < float("inf"):  # papers' contenders keep everything on the device, and so do ours
            options += f" --device-memory {int(claim.card)} --offload none" + ("" if "--recompute" in claim.train else " --recompute none")
        plan, = runs.command("plan", claim, claim.plans[claim.winner].shape, options, binds, limit=60 + 5 * seconds)["plans"]
        row["recipe"] = plan["recipe"]
        return contest.seconds(claim.winner, **binds) / plan["seconds"]
    row["ours"] = judged(figure, gain)
    return row


def shown(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def cell(result):
    """A figure, its ratio to the paper's, and what is to be said of it."""
    if result is None or "failure" in result:
        return f"{'-':>7} {'':16}"
    return f"{shown(result['value']):>7} {shown(result['ratio']):>5} {('close' if result['close'] else 'off') if result['side'] else 'reversed':10}"


def print_rows(claim, rows):
    print(f"\n{claim.title}\n  {claim.source}; {claim.machine}.toml" + (f"; assumed: {claim.assumed}" if claim.assumed else ""))
    print(f"  {'':56} {'paper':>8} {'theirs':>7} {'ratio':>5} {'':10} {'ours':>7} {'ratio':>5}")
    for row in rows:
        paper = BOUNDS.get(row["says"], "") + shown(row["paper"])
        print(f"  {row['what']:56} {paper:>8} {cell(row.get('theirs'))} {cell(row['ours'])} {row.get('recipe', '')}".rstrip())
        for column in COLUMNS:
            if "failure" in row.get(column, ()):
                print(f"    {column}: {row[column]['failure']}")


def summary(rows, column):
    cells = [row[column] for row in rows if column in row]
    return f"{column}: {sum(each['close'] for each in cells)} of {len(cells)} figures are close to the papers', {sum(each['side'] for each in cells)} have their order"


def main():
    names = "\n".join(f"  {claim.name:12} {claim.title}" for claim in CLAIMS)
    parser = argparse.ArgumentParser(prog="tools/reproduce", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=f"claims:\n{names}",
                                     description="Simulates what papers measured and compares the figures: the paper's, with its own collectives, and the compiler's.")
    parser.add_argument("name", nargs="*", help="only these claims")
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    parser.add_argument("--auto", type=float, metavar="SECONDS", help="let plan --auto look for so long for something better on each machine")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    options = parser.parse_args()
    unknown = set(options.name) - {claim.name for claim in CLAIMS}
    if unknown:
        parser.error(f"there is no claim {', '.join(sorted(unknown))}; there are {', '.join(claim.name for claim in CLAIMS)}")
    start, every = time.monotonic(), []

    def says(text):
        if not options.quiet:
            print(f"reproduce: {time.monotonic() - start:4.0f} s  {text}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="tessera-reproduce-") as folder:
        runs = Runs(folder, says)
        for claim in CLAIMS:
            if options.name and claim.name not in options.name:
                continue
            rows = [measured(runs, claim, figure) for figure in claim.figures]
            if options.auto and claim.ranks:
                rows.append(planned(runs, claim, options.auto))
            print_rows(claim, rows)
            sys.stdout.flush()
            every += rows
    print()
    for column in COLUMNS:
        print(summary(every, column))
    print(f"{runs.count} runs of the compiler in {time.monotonic() - start:.0f} s")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(every, indent=2) + "\n")


if __name__ == "__main__":
    main()
