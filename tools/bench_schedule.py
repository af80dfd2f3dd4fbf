"""The tables of docs/scheduling.md: mean completion on the built-in trace by policy; `tools/bench schedule` is the way in.

Each line is one run of `tessera schedule --simulate --trace ones`; where pauses are not those measured, with a cluster file that says
which. Nothing is timed but the decisions, so that a busy machine does not matter.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = ROOT / "build" / "bin" / "tessera"
GAPS = (30, 45, 60)
# Parameters, seconds of a resize and of a restart, by `tools/bench elastic`: as the trace has them without a cluster file.
MEASURED = ((14e6, 0.2, 2.9), (61e6, 0.9, 4.2), (110e6, 2.5, 11.3))
RIVALS = ("tiresias", "optimus")


def cluster(folder, resize=None, restart=None, flat=None, lost=0):
    """A cluster file: measured pauses, with the same resize or restart for all jobs, or `flat`: both the same for all."""
    text = "".join(f'[[host]]\nname = "host{i}"\nplaces = 4\n' for i in range(1, 17)) + f"[costs]\nlost_per_doubling = {lost}\n"
    if flat:
        text += f"resize = {flat[0]}\nrestart = {flat[1]}\n"
    else:
        for parameters, own_resize, own_restart in MEASURED:
            text += (f"[[costs.measured]]\nparameters = {parameters}\nresize = {own_resize if resize is None else resize}\n"
                     f"restart = {own_restart if restart is None else restart}\n")
    path = folder / "cluster.toml"
    path.write_text(text)
    return "--cluster", path


def simulate(folder, *options):
    """Means by (policy, gap), and the seconds of the slowest decision."""
    path = folder / "r.json"
    command = [str(word) for word in (TESSERA, "schedule", "--simulate", "--trace", "ones", *options, "--json", path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: status {result.returncode}: {' '.join(command)}\n{result.stderr}")
    return json.loads(path.read_text())


def means(folder, *options, policy=None, seeds=()):
    """policy -> means at the three gaps, over the standard seeds or others."""
    options += ("--policy", policy) if policy else ()
    if not seeds:
        found = simulate(folder, *options)["means"]
        return {mean["policy"]: [m["mean_completion"] for m in found if m["policy"] == mean["policy"]] for mean in found}
    rows = [[simulate(folder, *options, "--gap", gap, "--seed", seed)["mean_completion"] for seed in seeds] for gap in GAPS]
    return {policy: [sum(row) / len(row) for row in rows]}


def line(label, figures):
    print(f"| {label} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


def compare(found):
    """A line a policy, and how far `ones` is below its rivals."""
    for policy, figures in found.items():
        line(policy, figures)
    for rival in RIVALS:
        below = [100 * (ours / theirs - 1) for ours, theirs in zip(found["ones"], found[rival])]
        print(f"| ones against {rival} | " + " | ".join(f"{part:.1f} %" for part in below) + " |")
    print(f"\nAgainst Optimus on the mean of the gaps: {100 * (sum(found['ones']) / sum(found['optimus']) - 1):.1f} %\n")


def idle(folder, policy):
    """The part of place time that is idle, by gap."""
    parts = []
    for gap in GAPS:
        spent = [simulate(folder, "--gap", gap, "--seed", seed, "--policy", policy)["place_seconds"] for seed in range(1, 6)]
        parts.append(sum(one["idle"] for one in spent) / sum(sum(one.values()) for one in spent))
    return ", ".join(f"{100 * part:.0f} %" for part in parts)


def sensitivity(folder):
    def ones(label, *options):
        line(label, means(folder, *options, policy="ones")["ones"])

    def beside(label, **costs):
        options = cluster(folder, **costs)
        for policy in ("ones", *RIVALS):
            line(label if policy == "ones" else f"... {policy}", means(folder, *options, policy=policy)[policy])

    ones("exact prediction (--told)", "--told")
    for scatter in (0, 0.5):
        ones(f"epochs scatter by {scatter}", "--scatter", scatter)
    line("... tiresias", means(folder, "--scatter", 0.5, policy="tiresias")["tiresias"])
    for seconds in (0, 5, 10):
        ones(f"a resize takes {seconds} s", *cluster(folder, resize=seconds))
    for seconds in (0, 30):
        beside(f"restarts take {seconds} s", restart=seconds)
    for parameters, resize, restart in MEASURED:
        beside(f"all jobs as with {parameters / 1e6:.0f} M parameters: {resize} s and {restart} s", flat=(resize, restart))
    beside("all jobs as a cluster file's defaults: 1 s and 10 s", flat=(1, 10))
    for lost in (0.02, 0.05, 0.1):
        ones(f"{100 * lost:.0f} % of samples lost per doubling", *cluster(folder, lost=lost))


def main():
    argparse.ArgumentParser(prog="tools/bench schedule", description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("Five seeds, mean gaps of 30, 45 and 60 s\n")
        compare(means(folder))
        print("With --elastic\n")
        for policy in ("drf", "optimus"):
            line(policy, means(folder, "--elastic", policy=policy)[policy])
        for first in (11, 21, 31, 41):
            print(f"\nSeeds {first} to {first + 4}\n")
            policies = ("fifo", "fifo-backfill", "drf", *RIVALS, "ones") if first == 11 else (*RIVALS, "ones")
            compare({policy: means(folder, policy=policy, seeds=range(first, first + 5))[policy] for policy in policies})
        for policy in ("ones-published", "ones"):
            print(f"Idle places of {policy}: {idle(folder, policy)}")
        print("\nWithout parts of ones\n")
        for parts in ("table", "forecast", "batch", "evolution", "kinds", "table,forecast,batch,kinds"):
            line(parts, means(folder, "--without", parts, policy="ones")["ones"])
        print("\nSensitivity\n")
        sensitivity(folder)
        alone = simulate(folder, "--gap", 600, "--policy", "ones")["means"][0]["mean_completion"]
        print(f"\nAlone on the cluster (gaps of 600 s): {alone:.1f}")


if __name__ == "__main__":
    main()
