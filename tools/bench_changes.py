"""Peaks of the suite's programs as this build promises them against those of another build; `tools/bench changes` is the way in.

Each model of the suite under each plan is compiled by both up to its plan of memory; nothing is run. A row says of a kind of plan how many programs
need less memory than by the other build, as much and more, and names those that need most more. Where a pipeline needs more, `seconds` are those of
its simulated step here over there: by this build's simulator, whose program the other's text is.
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = ROOT / "build" / "bin" / "tessera"
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import harness  # noqa: E402

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
MORE = ("", "--dp 2", "--tp 2", "--dp 2 --zero 3")


def plans(variant):
    """Kind and options of each plan that a variant is compiled for; more of the first of a family."""
    family = harness.VARIANTS[variant]
    first = harness.FAMILIES[family][0] == variant
    for options, _ in harness.meshes_of(family, harness.ALL_MESHES if first else harness.MESHES).values():
        yield "plain", " ".join(options)
    if family in harness.WHOLE_BATCH or not first:
        return
    for schedule, stages, more in itertools.product(SCHEDULES, (2, 4), MORE):
        if stages == 2 or not more:
            yield "pipelines", f"--pp {stages} --pp-schedule {schedule} --microbatches {2 if more else 4} {more}".strip()


def peak(tessera, model, words):
    """Bytes of the device of the rank that needs most; None where it does not compile."""
    command = [tessera, "compile", model, "--train", "adamw", "--threads", "1", "--to", "memory", "-o", "-", *words]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return None if result.returncode else max(map(int, re.findall(r"\bpeak = (\d+)", result.stdout)))


def seconds(tessera, model, words):
    """Of a step, simulated by this build, of the program as `tessera` cuts it."""
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "assigned.mlir"
        commands = ([tessera, "compile", model, "--train", "adamw", "--to", "assign", "-o", text, *words], [TESSERA, "simulate", text, "--threads", "1", "--json"])
        for command in commands:
            result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            if result.returncode:
                return None
    return json.loads(result.stdout)["seconds"]


def compared(other, variant, options):
    words = (*options.split(), *harness.bindings(variant))
    model = ROOT / "test" / "models" / f"{variant}.onnx"
    ours, theirs = peak(TESSERA, model, words), peak(other, model, words)
    times = (None, None)
    if ours and theirs and ours > theirs and "--pp" in options:
        times = seconds(TESSERA, model, words), seconds(other, model, words)
    return {"peak": (ours, theirs), "seconds": times}


def row(kind, programs):
    """`programs`: by name the ratio of peaks, and that of seconds where it is known."""
    more = sorted(((ratio, name, time) for name, (ratio, time) in programs.items() if ratio > 1), reverse=True)
    less = sum(ratio < 1 for ratio, _ in programs.values())
    mean = math.exp(sum(math.log(ratio) for ratio, _ in programs.values()) / len(programs))
    print(f"{kind:<10} {len(programs):5} programs: {less:5} less {len(programs) - less - len(more):5} equal {len(more):5} more, mean {mean:.3f} x")
    for ratio, name, time in more:
        print(f"    {ratio:.4f} x  {name}" + (f", seconds {time:.3f} x" if time else ""))


def main():
    parser = argparse.ArgumentParser(prog="tools/bench changes", description=__doc__.splitlines()[0])
    parser.add_argument("other", type=pathlib.Path, help="`tessera` of the other build")
    parser.add_argument("--kind", choices=["plain", "pipelines"], help="these alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    options = parser.parse_args()
    if not os.access(options.other, os.X_OK) or not options.other.is_file():
        parser.error(f"{options.other} is no program; give the other build's bin/tessera")
    cases = [(kind, variant, plan) for variant in harness.VARIANTS for kind, plan in plans(variant) if options.kind in (None, kind)]
    rows, alone, figures = collections.defaultdict(dict), collections.Counter(), {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = pool.map(lambda case: compared(options.other, *case[1:]), cases)
        for number, ((kind, variant, plan), found) in enumerate(zip(cases, done)):
            name = f"{variant} {plan}".strip()
            figures[name] = found
            (ours, theirs), (here, there) = found["peak"], found["seconds"]
            alone[kind, bool(ours), bool(theirs)] += 1
            if ours and theirs:
                rows[kind][name] = ours / theirs, here / there if here and there else None
            if number % 50 == 0:
                print(f"{number} of {len(cases)}", file=sys.stderr, flush=True)
    for kind, programs in sorted(rows.items()):
        row(kind, programs)
    for (kind, ours, theirs), count in sorted(alone.items()):
        if not (ours and theirs):
            print(f"{kind:<10} {count:5} compiled by {'this build alone' if ours else 'the other alone' if theirs else 'neither'}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
