"""Whether a recipe is faster, by simulation, than the plan that `plan --auto` finds; `tools/bench recipes` is the way in.

Of each model, number of ranks and machine: recipes by chance out of all (spreads over the axes, modes, schedules, microbatches, ZeRO), then such as differ from
the fastest in one choice, as long as one of them is faster; each is compiled and simulated. And a plan found; then the same below caps, parts of what the plan
found without one takes. Where one of the recipes that fit is faster, or only a recipe was found, the row says so, and the command ends with status 1.
"""
import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import random
import sys

from bench_predict import ROOT, TESSERA, ZOO, make_model, run

SAME = 1.0005  # flips below a thousandth are none


def factorisations(number, parts):
    if parts == 1:
        return [(number,)]
    return [(first, *rest) for first in range(1, number + 1) if number % first == 0 for rest in factorisations(number // first, parts - 1)]


def recipes(ranks, batch, has_experts):
    """All recipes, as their choices: spread, modes of tensor and sequence, schedule, microbatches, stage of ZeRO."""
    found = []
    for sizes in factorisations(ranks, 5):
        dp, tp, sp, ep, pp = sizes
        if ep > 1 and not has_experts:
            continue
        spread = " ".join(f"--{axis} {size}" for axis, size in zip(("dp", "tp", "sp", "ep", "pp"), sizes) if size > 1)
        tensor = ["", "--tp-mode 2d", "--tp-mode 2.5d", "--tp-mode 3d"] if tp > 1 else [""]
        sequence = ["", "--sp-mode ulysses", "--sp-mode rsa"] if sp > 1 else ["", "--sp-mode megatron"] if tp > 1 else [""]
        schedule = ["", "--pp-schedule gpipe", "--pp-schedule interleaved", "--pp-schedule zero-bubble"] if pp > 1 else [""]
        micro = [f"--microbatches {1 << power}" if power else "" for power in range(batch.bit_length())]
        zero = [f"--zero {stage}" if stage else "" for stage in range(4)] if dp * ep > 1 else [""]
        found += [choices for choices in itertools.product([spread], tensor, sequence, schedule, micro, zero)
                  if not (choices[1] and choices[2] == "--sp-mode megatron")]
    return found


def sample(everything, count, chance):
    """So many by chance, with as many of each spread as can be."""
    groups = [chance.sample(group, len(group)) for group in (list(group) for _, group in itertools.groupby(everything, lambda choices: choices[0]))]
    chance.shuffle(groups)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*groups))
    return list(itertools.islice((choices for choices in turns if choices), count))


class Case:
    """A model on so many ranks of a machine."""

    def __init__(self, options, path, name, model, ranks, machine):
        self.ranks, self.title = ranks, f"{name:8} {ranks:3} {machine.stem:16}"
        target = () if machine.stem == "cpu" else ("--target", "cuda")
        self.common = (path, "--train", "adamw", *model.binds(), "--machine", machine, "--threads", 1, *target)
        self.everything, self.count = recipes(ranks, model.batch, name == "mixtral"), options.sample
        self.chance = random.Random(f"{options.seed} {name} {ranks} {machine.stem}")
        self.pool, self.folder = concurrent.futures.ThreadPoolExecutor(os.cpu_count()), options.folder

    def simulate(self, words, cap=None):
        """Seconds and bytes of the device; none where it does not compile."""
        result = run(TESSERA, "simulate", *self.common, *words, *(("--device-memory", cap) if cap else ()), "--json", check=False)
        if result.returncode:
            return None
        said = json.loads(result.stdout)
        return said["seconds"], said["device_bytes"]

    def judge(self, list):
        """What these come to, of each that compiles."""
        texts = [" ".join(filter(None, choices)) for choices in list]
        verdicts = zip(list, texts, self.pool.map(lambda text: self.simulate(text.split()), texts))
        return {choices: (text, *verdict) for choices, text, verdict in verdicts if verdict}

    def walk(self):
        """Recipes by chance, and those about the fastest: text, seconds and bytes."""
        known, tried = {}, set()
        fresh = sample(self.everything, self.count, self.chance)
        while fresh:
            tried.update(fresh)
            before = min((verdict[1] for verdict in known.values()), default=float("inf"))
            known.update(self.judge(fresh))
            if not known:
                sys.exit(f"error: {self.title}: none of {len(tried)} recipes compiles; try a larger --sample")
            best = min(known, key=lambda choices: known[choices][1])
            isFaster = known[best][1] < before
            near = [each for each in self.everything if each not in tried and sum(a != b for a, b in zip(each, best)) == 1]
            fresh = self.chance.sample(near, min(len(near), self.count)) if isFaster else []
        return list(known.values()), len(tried)

    def found(self, cap=None):
        """The plan's recipe, seconds and bytes; none where there is none."""
        result = run(TESSERA, "plan", *self.common, "--auto", "--ranks", self.ranks, *(("--device-memory", cap) if cap else ()), "--json", "-o",
                     self.folder / "found.toml", check=False)
        if result.returncode:
            return None
        plan = json.loads(result.stdout)["plans"][0]
        return plan["recipe"] + (f" +{plan['flips']}" if plan["flips"] else ""), plan["seconds"], plan["device_bytes"], "ended by" in result.stderr

    def below(self, known, cap, limit):
        """The fastest of the recipes that keep the cap; of those that are larger only such as take less than `limit` seconds without it."""
        def judge(each):
            recipe, seconds, size = each
            if size > cap:
                capped = self.simulate(recipe.split(), cap) if seconds < limit else None
                seconds = capped[0] if capped else float("inf")
            return seconds, recipe
        return min(self.pool.map(judge, known))

    def rows(self, parts):
        """Prints a row without a cap, and one for each part. Whether no recipe was better."""
        known, tried = self.walk()
        free = self.found()
        if not free:
            sys.exit(f"error: no plan was found for {self.title}")
        isBest = self.row("", free, *self.below(known, float("inf"), 0), f"{len(known)} of {tried} recipes compile")
        for part in parts:
            cap = int(part * free[2])
            plan = self.found(cap)
            isBest &= self.row(f"{part:.0%}", plan, *self.below(known, cap, plan[1] * SAME if plan else float("inf")), "")
        return isBest

    def row(self, cap, plan, best, recipe, note):
        if plan:
            isBest = plan[1] <= best * SAME
            verdict = "" if isBest else "SLOWER, and cut short" if plan[3] else "SLOWER"
            text = f"{plan[1] * 1e3:10.3f} {best * 1e3:10.3f} {best / plan[1]:6.2f}x  {plan[0]} | {recipe}"
        else:
            isBest = best == float("inf")
            verdict, text = "" if isBest else "MISSED", f"{'none':>10} {best * 1e3:10.3f} {'':7}  - | {recipe}"
        print(f"{self.title} {cap:>5} {text}  {note}{'  ' if verdict else ''}{verdict}", flush=True)
        return isBest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/tessera-bench-recipes"))
    parser.add_argument("--models", nargs="*", default=["gpt", "llama", "bert", "vit", "mixtral", "t5"], choices=list(ZOO))
    parser.add_argument("--ranks", nargs="*", type=int, default=[2, 3, 4, 6, 8, 16])
    parser.add_argument("--machines", nargs="*", default=["cpu", "a100", "frontera-rtx"], help="of tools/machines, or files")
    parser.add_argument("--caps", nargs="*", type=float, default=[0.5, 0.25], help="parts of what the plan found without a cap takes")
    parser.add_argument("--layers", type=int, help="instead of the models' own few")
    parser.add_argument("--sample", type=int, default=40, help="how many recipes of each model, number of ranks and machine at first, and in each step of the walk")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.ranks, default=0) < 1:
        parser.error("--ranks: expected whole numbers of at least 1")
    if options.sample < 1:
        parser.error("--sample: expected a whole number of at least 1")
    if not all(0 < part <= 1 for part in options.caps):
        parser.error("--caps: expected parts above 0, at most 1")
    machines = [pathlib.Path(name) if name.endswith(".toml") else ROOT / "tools" / "machines" / f"{name}.toml" for name in options.machines]
    for missing in (file for file in machines if not file.exists()):
        parser.error(f"--machines: there is no {missing.name}")
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'model':8} {'':>3} {'machine':16} {'cap':>5} {'found':>10} {'recipe':>10} {'gain':>7}  (ms a step)")
    isBest = True
    for name in options.models:
        family, model = ZOO[name]
        if options.layers and model.size:
            model = dataclasses.replace(model, size=dataclasses.replace(model.size, layers=options.layers))
        path = make_model(options.folder, name, family, model)
        for ranks, machine in itertools.product(options.ranks, machines):
            isBest &= Case(options, path, name, model, ranks, machine).rows(options.caps)
    sys.exit(0 if isBest else 1)


if __name__ == "__main__":
    main()
