"""Whether steps are promised in the order in which they are measured, and how the plan that `plan --auto` finds stands among recipes; `tools/bench rank` is the way in.

In turns, for the machine is not the same from one minute to the next: calibrate, then each model under each recipe and the plan found by those rates, compiled,
promised by `info` and run. Of a model: the medians of promises and of measured steps; Kendall's tau between them, over pairs whose measured medians differ by
more than 5 % and whose promises are not the same, and beside it that between what was measured in one turn and in another; and the plan found, which may be
another in each turn, against the recipe that was measured as the fastest.
"""
import argparse
import itertools
import json
import math
import pathlib
import statistics

from bench_predict import TESSERA, ZOO, make_data, make_model, median_step, run

# Of each number of ranks; where one is refused, a line says why.
RECIPES = {
    2: ["--dp 2", "--dp 2 --zero 1", "--dp 2 --zero 3", "--dp 2 --microbatches 2", "--tp 2", "--tp 2 --sp-mode megatron", "--sp 2", "--sp 2 --sp-mode ulysses",
        "--sp 2 --sp-mode rsa", "--pp 2 --microbatches 4", "--pp 2 --microbatches 4 --pp-schedule gpipe", "--pp 2 --microbatches 2"],
    4: ["--dp 4", "--dp 4 --zero 1", "--dp 4 --zero 3", "--dp 4 --microbatches 2", "--tp 4", "--tp 4 --sp-mode megatron", "--tp 4 --tp-mode 2d", "--sp 4",
        "--sp 4 --sp-mode ulysses", "--sp 4 --sp-mode rsa", "--pp 4 --microbatches 4", "--pp 4 --microbatches 8", "--pp 4 --microbatches 4 --pp-schedule gpipe",
        "--pp 2 --microbatches 4 --dp 2", "--pp 2 --microbatches 4 --dp 2 --zero 1", "--pp 2 --microbatches 4 --dp 2 --pp-schedule interleaved",
        "--pp 2 --microbatches 4 --dp 2 --pp-schedule zero-bubble", "--pp 2 --microbatches 4 --tp 2", "--pp 2 --microbatches 4 --tp 2 --sp-mode megatron",
        "--pp 2 --microbatches 4 --sp 2", "--dp 2 --tp 2", "--dp 2 --tp 2 --zero 1", "--dp 2 --tp 2 --zero 3", "--dp 2 --tp 2 --zero 3 --microbatches 2",
        "--dp 2 --tp 2 --sp-mode megatron", "--dp 2 --sp 2", "--dp 2 --sp 2 --sp-mode ulysses --zero 3", "--dp 2 --sp 2 --sp-mode rsa --zero 2", "--tp 2 --sp 2",
        "--tp 2 --sp 2 --sp-mode rsa --microbatches 2", "--tp 4 --sp-mode megatron --stream always"],
}
EXPERTS = {2: ["--ep 2"], 4: ["--ep 4", "--dp 2 --ep 2", "--ep 2 --tp 2", "--dp 2 --ep 2 --zero 3"]}
FOUND = "plan --auto"
NEAR = 0.05  # measured medians that are no further apart have no order


class Contender:
    """A model under a recipe, or under the plan found."""

    def __init__(self, recipe):
        self.recipe, self.promised, self.measured = recipe, [], []

    def turn(self, folder, common, data, threads, steps):
        """One more promise and measurement. Returns why it is not compiled, if it is not."""
        program, log = folder / "program", folder / "log.jsonl"
        words = ("--plan", folder / "found.toml") if self.recipe == FOUND else self.recipe.split()
        made = run(TESSERA, "compile", *common, *words, "-o", program, check=self.recipe == FOUND)
        if made.returncode:
            return made.stderr.strip()[:120].partition("\n")[0]
        info = run(program, "info", "--json", *threads, "--machine", folder / "machine.toml")
        self.promised.append(json.loads(info.stdout)["step_seconds"])
        run(program, "train", *data, "--steps", steps, *threads, "--log", log)
        self.measured.append(median_step(log))
        return None

    def medians(self):
        return statistics.median(self.promised), statistics.median(self.measured)


def kendall(rows):
    """Kendall's tau of promised and measured seconds over the pairs that have an order in both, and how many these are; not a number where there are none."""
    order = []
    for (promised, measured), (promised2, measured2) in itertools.combinations(rows, 2):
        if promised != promised2 and abs(measured - measured2) > NEAR * min(measured, measured2):
            order.append(1 if (promised < promised2) == (measured < measured2) else -1)
    return statistics.mean(order) if order else math.nan, len(order)


def measure(folder, name, ranks, turns, steps):
    """The contenders of a model, measured."""
    family, model = ZOO[name]
    path, data = make_model(folder, name, family, model), make_data(folder, name, model)
    threads = ("--threads", max(1, 2 // ranks))
    common = (path, "--train", "adamw", *model.binds(), *threads, "--machine", folder / "machine.toml")
    contenders = [Contender(recipe) for recipe in RECIPES[ranks] + (EXPERTS[ranks] if name == "mixtral" else []) + [FOUND]]
    for turn in range(turns):
        run(TESSERA, "calibrate", "-o", folder / "machine.toml", "--ranks", ranks, *threads)
        run(TESSERA, "plan", *common, "--auto", "--ranks", ranks, "-o", folder / "found.toml")
        for contender in list(contenders):
            if refusal := contender.turn(folder, common, data, threads, steps):
                print(f"{name:8} {ranks} {contender.recipe}: {refusal}", flush=True)
                contenders.remove(contender)
        print(f"{name:8} {ranks} ranks, turn {turn + 1} of {turns}: tau {kendall([(each.promised[-1], each.measured[-1]) for each in contenders])[0]:.2f}", flush=True)
    return contenders


def show(name, ranks, contenders):
    """Prints a model's figures; returns its tau and the plan found against the fastest recipe."""
    print(f"{'model':8} ranks {'simulated':>10} {'measured':>10} {'off':>7}  recipe   (ms; by what was measured)")
    for each in sorted(contenders, key=lambda each: each.medians()[1]):
        promised, measured = each.medians()
        print(f"{name:8} {ranks:5} {promised * 1e3:10.2f} {measured * 1e3:10.2f} {100 * (promised / measured - 1):+6.1f}%  {each.recipe}")
    tau, pairs = kendall([each.medians() for each in contenders])
    turns = range(len(contenders[0].measured))
    itself = [kendall([(each.measured[one], each.measured[other]) for each in contenders])[0] for one in turns for other in turns if one != other]
    off = [abs(promised / measured - 1) for promised, measured in (each.medians() for each in contenders)]
    measured = {each.recipe: each.medians()[1] for each in contenders}
    found = measured.pop(FOUND)
    best = min(measured, key=measured.get)
    print(f"{name}, {ranks} ranks: tau {tau:.2f} over {pairs} pairs" + (f", of what was measured in one turn with another {statistics.mean(itself):.2f}" if itself else "")
          + f"; off by {100 * statistics.mean(off):.0f} % in the mean, {sum(each <= 0.2 for each in off)} of {len(off)} within 20 %; "
          f"the plan found takes {found / measured[best]:.2f} of {best}", flush=True)
    return tau, found / measured[best]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/tessera-bench-rank"))
    parser.add_argument("--models", nargs="*", default=["gpt", "bert", "vit", "mixtral", "llama", "t5"], choices=list(ZOO))
    parser.add_argument("--ranks", nargs="*", type=int, default=[2, 4], choices=list(RECIPES))
    parser.add_argument("--turns", type=int, default=3, help="how often the machine is calibrated, a plan found, and each program run")
    parser.add_argument("--steps", type=int, default=12, help="of a run, of which the first is not counted")
    options = parser.parse_args()
    if options.turns < 1 or options.steps < 2:
        parser.error("--turns: expected a whole number of at least 1; --steps: of at least 2")
    options.folder.mkdir(parents=True, exist_ok=True)
    results = [show(name, ranks, measure(options.folder, name, ranks, options.turns, options.steps)) for name in options.models for ranks in options.ranks]
    taus, against = zip(*results)
    print(f"tau {statistics.mean(taus):.2f} in the mean, {min(taus):.2f} at least; plans found take {statistics.mean(against):.2f} of the fastest recipe in the mean, "
          f"{max(against):.2f} at most")


if __name__ == "__main__":
    main()
