"""Rows of tools/bench_cuda.py that run many programs: the suite's models, recipes and mixes, and trainings below caps of memory."""
import concurrent.futures
import json
import os

import harness as h
import numpy as np
from gpu_programs import Failed, NotRun, Row

ADAMW = ("--train", "adamw")


def models(bench):
    """Three steps of every model, recipe and mix of the suite have the CPU's losses, and the promised peaks and bytes sent; --jobs at once."""
    import test_cuda_models as suite

    bench.options.folder.mkdir(parents=True, exist_ok=True)
    cases = {}
    for id, (variant, *_) in suite.CASES.items():
        if variant in (bench.options.models or [variant]):
            cases[id] = variant, (*h.bindings(variant), *suite.options_of(id, bench.options.folder / "plans")[1])
    expected = {variant: case_losses(bench, variant) for variant in sorted({variant for variant, _ in cases.values()})}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = dict(zip(cases, pool.map(lambda case: compiled(bench, *case), cases.values())))
    missing = [id for id, program in programs.items() if not program]
    for id in missing:
        del cases[id], programs[id]
    if not cases:
        raise NotRun("none of the programs is there")

    def fault(id):
        variant, options = cases[id]
        promised = bench.info(programs[id])
        settings = {"TESSERA_CHECK_GPUS": str(promised["ranks"])} if bench.options.check else {}
        try:
            losses, stats = bench.train(programs[id], variant, 3, promised["ranks"], **settings)
        except (Failed, AssertionError) as failure:
            return str(failure)
        worst = float(np.max(np.abs(losses / expected[variant] - 1)))
        return (f"losses are off by {worst:.1e}" if not worst <= 1e-5 else "other bytes sent than promised" if stats["sent"] != promised["sent"] else
                "another peak than promised" if [m["device"]["peak"] for m in stats["memory"]] != [m["device"]["peak"] for m in promised["memory"]] else None)

    faults = {}
    with concurrent.futures.ThreadPoolExecutor(bench.options.jobs) as pool:
        for number, (id, words) in enumerate(zip(cases, pool.map(fault, cases)), 1):
            if words:
                faults[id] = words
            if words or number % 50 == 0:
                print(f"  {number} of {len(cases)}{f', {id}: {words}' if words else ''}", flush=True)
    if faults:
        raise Failed(f"{len(faults)} of {len(cases)} programs: " + "; ".join(f"{id}: {words}" for id, words in faults.items()))
    return Row("passed", f"{len(cases)} programs of {len(expected)} models, up to {max(bench.info(p)['ranks'] for p in programs.values())} ranks"
                         + (f"; {len(missing)} are not there" if missing else ""))


def compiled(bench, variant, options):
    """A program for the GPU; None where --compiled takes those that are there, and it is not."""
    try:
        return bench.compile(variant, *options)
    except NotRun:
        return None


def case_losses(bench, variant):
    return bench.train(bench.compile(variant, *h.bindings(variant), *ADAMW, gpu=False), variant, 3)[0]


def tiers(bench):
    """Training below half of what the program takes, with the host, NVMe, recomputation, microbatches and slots: losses and weights to the bit."""
    model, figures = bench.transformer(), []
    for others in ((), ("--microbatches", "4"), ("--dtype", "bf16")):
        whole = bench.compile(model, *ADAMW, *others)
        cap = ("--device-memory", f"{bench.info(whole)['memory'][0]['device']['peak'] // 2 >> 10}KiB")
        expected = outcome(bench, whole, model)
        for name, options in {"host": ("--recompute", "none", "--host-memory", "1GiB"), "recompute": ("--recompute", "auto", "--host-memory", "1GiB"),
                              "NVMe": ("--recompute", "none", "--host-memory", "800KiB", "--nvme", "/scratch:1GiB")}.items():
            title = " ".join([name, *others])
            program = bench.compile(model, *ADAMW, *others, *cap, *options)
            for slots in (False, True):
                losses, weights, stats = outcome(bench, program, model, name == "NVMe", slots)
                if (losses, weights) != expected[:2]:
                    raise Failed(f"{title}{' with slots' if slots else ''}: other losses or weights")
                if stats["memory"][0]["device"]["peak"] != bench.info(program)["memory"][0]["device"]["peak"]:
                    raise Failed(f"{title}: another peak than promised")
            figures.append(f"{title} {sum(stats['moved'].values()) >> 10} KiB a step")
    return Row("passed", f"{model}, moved by: {', '.join(figures)}")


def outcome(bench, program, model, nvme=False, slots=False):
    """Losses, weights and --stats of up to twenty steps."""
    folder = program.parent / "run"
    extra = ["--save", folder / "weights"]
    for name, used, options in (("nvme", nvme, ["--nvme", f"{folder / 'nvme'}:1GiB"]),
                                ("slots", slots, ["--slots-in", folder / "slots", "--checkpoint", folder / "checkpoint", "--every", "1000"])):
        if used:
            (folder / name).mkdir(parents=True, exist_ok=True)
            extra += options
    bench.run(program, [*bench.train_arguments(program, model, folder, min(20, bench.options.steps)), *extra])
    losses = [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]
    return losses, (folder / "weights").read_bytes(), json.loads((folder / "stats.json").read_text())
