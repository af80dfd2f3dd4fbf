"""Programs for tools/bench_cuda.py: compiled for the machine's GPU or for the CPU, and run there."""
import dataclasses
import json
import os
import pathlib
import subprocess

import harness as h
import numpy as np

TIMEOUT = 3600
# Of test/models, with data beside them.
MODELS = ("gpt2", "llama", "bert", "vit", "resnet", "convnext")


class NotRun(Exception):
    """Why a row cannot be run here."""


class Failed(Exception):
    """What a row has that it must not have."""


@dataclasses.dataclass
class Row:
    verdict: str
    figure: str


class Bench:
    """The rows' common ground: programs that are compiled once, and how they are run."""

    def __init__(self, options, machine):
        self.options, self.machine, self.compiled = options, machine, {}

    def compile(self, model, *options, gpu=True):
        """The executable of a model, for the machine's GPU or for the CPU."""
        key = (str(model), options, gpu)
        if key not in self.compiled:
            self.compiled[key] = self.make(model, options, gpu)
        return self.compiled[key]

    def make(self, model, options, gpu):
        path = h.MODELS / f"{model}.onnx" if not str(model).endswith(".onnx") else pathlib.Path(model)
        folder = self.options.folder / "-".join([path.stem, "gpu" if gpu else "cpu", *(o.strip("-").replace(str(self.options.folder), "").replace("/", "") for o in options)])
        target = ("--target", f"cuda:{self.machine.chip}") if gpu else ()
        twins = ("--host-twins", folder / "twins.so") if gpu and self.options.check else ()
        folder.mkdir(parents=True, exist_ok=True)
        if self.options.compiled:
            if not (folder / "program").exists():
                raise NotRun(f"{folder} has no program; compile it by the same command with --check, without --compiled")
            return folder / "program"
        result = h.run(h.TESSERA, "compile", path, "-o", folder / "program", *target, *twins, *options, timeout=TIMEOUT)
        if result.returncode:
            raise Failed(f"compile {path.name} {' '.join(map(str, options))}: {result.first_error}")
        return folder / "program"

    def start(self, program, arguments, ranks=1, **settings):
        """Its processes, one a rank, all on one GPU: NCCL takes them for different machines' by their host's name."""
        processes, port = [], str(h.free_port())
        for rank in range(ranks):
            several = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": port,
                       "TESSERA_SHARE_GPUS": "1", "NCCL_HOSTID": str(rank), "NCCL_MULTI_RANK_GPU_ENABLE": "1"} if ranks > 1 else {}
            environment = {**self.machine.environment(program.parent / "twins.so"), **several, **settings}
            processes.append(subprocess.Popen([str(program), *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment))
        return processes

    def run(self, program, arguments, ranks=1, **settings):
        """Runs it to its end."""
        processes = self.start(program, arguments, ranks, **settings)
        errors = [process.communicate(timeout=TIMEOUT)[1] for process in processes]
        if any(process.returncode for process in processes):
            raise Failed(next(e for e, p in zip(errors, processes) if p.returncode).strip().splitlines()[0])

    def train_arguments(self, program, model, folder, steps):
        names = [i["name"] for i in self.info(program)["inputs"]]
        return h.Program(program, 1).train_arguments(folder, h.training_data(model, names), steps, "--log", folder / "log.jsonl", "--stats", folder / "stats.json")

    def train(self, program, model, steps, ranks=1, **settings):
        """The losses of a run, and what --stats says of it."""
        folder = program.parent / "run"
        self.run(program, self.train_arguments(program, model, folder, steps), ranks, **settings)
        entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        return np.array([e["loss"] for e in entries]), json.loads((folder / "stats.json").read_text())

    def info(self, program, name="train"):
        return h.Program(program, 1).info(name)

    def spine(self):
        return self.options.models or MODELS

    def transformer(self):
        return (self.options.models or ("gpt2",))[0]
