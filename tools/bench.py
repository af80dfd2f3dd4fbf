"""Measures against PyTorch and ONNX Runtime; tools/bench is the way in.

Whatever is compared is checked first to compute the same. The two then run in turns, so that what else the machine does
falls on both; each figure is the median of the rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = ROOT / "build" / "bin" / "tessera"


def run(*command):
    """Runs a command without the libraries that PyTorch was given; its failure ends the benchmark."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(f"error: status {result.returncode}: {' '.join(map(str, command))}\n{result.stderr[-3000:]}")
    return result


# A process starts with its parent's resident pages until it calls exec, and the peak remembers them: a small parent stands between.
MEASURER = """
import os, resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(status != 0)
"""


def measured(*command):
    """Seconds that a command took, and its peak resident bytes."""
    seconds, peak = run(sys.executable, "-ISc", MEASURER, *command).stdout.split()
    return float(seconds), int(peak)


def gpt(layers, width, heads, vocabulary, sequence):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=vocabulary, n_positions=sequence, n_embd=width, n_layer=layers, n_head=heads,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=None, eos_token_id=None)
    return GPT2LMHeadModel(config)


def bert():
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    return BertModel(BertConfig(), add_pooling_layer=False)


BATCH, SEQUENCE = 4, 256
# Name, vocabulary, and how to make it.
MODELS = {
    "gpt14m": (8192, lambda: gpt(6, 384, 6, 8192, SEQUENCE)),
    "gpt124m": (50257, lambda: gpt(12, 768, 12, 50257, SEQUENCE)),
    "bert": (30522, bert),
}


def export(model, path, batch=BATCH, sequence=SEQUENCE):
    """Writes an ONNX file, once; `model` makes the module."""
    import torch

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = torch.zeros((batch, sequence), dtype=torch.int64)
        torch.onnx.export(model().eval(), (), str(path), kwargs={"input_ids": ids}, dynamo=True, external_data=True,
                          input_names=["input_ids"], opset_version=20, verbose=False)
    return path


class TorchTrainer:
    """PyTorch with its fused AdamW, on one batch after another."""

    def __init__(self, model, data, batch, rank=0, ranks=1):
        import torch

        self.torch, self.model, self.batch = torch, model.train(), batch
        self.share = slice(rank * batch // ranks, (rank + 1) * batch // ranks)
        self.data = {k: torch.from_numpy(v) for k, v in data.items()}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
        self.done = 0

    def step(self):
        begin = self.done * self.batch % len(self.data["labels"])
        ids, labels = (self.data[k][begin:begin + self.batch][self.share] for k in ("input_ids", "labels"))
        logits = self.model(input_ids=ids).logits
        loss = self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.done += 1
        return loss.item()

    def median_step(self, steps):
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def share_of_products(self):
        """The part of a step's time that PyTorch's matrix products take."""
        with self.torch.profiler.profile(activities=[self.torch.profiler.ProfilerActivity.CPU]) as profile:
            self.step()
        events = profile.key_averages()
        products = sum(e.self_cpu_time_total for e in events if e.key in ("aten::mm", "aten::addmm", "aten::bmm"))
        return products / sum(e.self_cpu_time_total for e in events)


def in_turns(rounds, first, second):
    """Medians of both over the rounds, after one round of each that does not count."""
    first(), second()
    pairs = [(first(), second()) for _ in range(rounds)]
    for index, (a, b) in enumerate(pairs):
        print(f"  round {index + 1}: {a * 1e3:8.1f} ms   {b * 1e3:8.1f} ms", flush=True)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def prepare(folder, name, *options):
    """A model of MODELS: its compiled program, and random data for eight steps as files beside it."""
    vocabulary, make = MODELS[name]
    program = folder / (name + "".join(str(o) for o in options).replace("-", "_"))
    run(TESSERA, "compile", export(make, folder / f"{name}.onnx"), "-o", program, *options)
    rng = np.random.default_rng(0)
    data = {k: rng.integers(0, vocabulary, (8 * BATCH, SEQUENCE)) for k in ("input_ids", "labels")}
    for key, array in data.items():
        np.save(folder / f"{name}.{key}.npy", array)
    return program, data


def train_command(folder, name, program, threads, *launcher):
    files = (f for k in ("input_ids", "labels") for f in ("--data", f"{k}={folder}/{name}.{k}.npy"))
    return [*launcher, program, "train", *files, "--threads", threads]


def losses(command, folder, steps):
    run(*command, "--steps", steps, "--log", folder / "log.jsonl")
    return np.array([json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()])


def step_seconds(command, folder, steps):
    run(*command, "--steps", steps, "--stats", folder / "stats.json")
    return json.loads((folder / "stats.json").read_text())["step_seconds"]


def check_losses(ours, theirs):
    worst = np.max(np.abs(ours / theirs - 1))
    print(f"  losses of {len(ours)} steps differ by at most {worst:.1e} relative")
    if not worst <= 1e-5:
        sys.exit(f"error: the losses differ\nours   {ours}\ntheirs {theirs}")


def share_of_products(command):
    """The part of a step that the operations of kind gemm take, from --profile."""
    rows = [line.split() for line in run(*command, "--steps", 4, "--profile").stdout.splitlines()]
    step = next(float(r[2]) for r in rows if r[:1] == ["rank"])
    return next(float(r[2]) for r in rows if r[:1] == ["gemm"]) / step


def train(folder, options):
    import torch

    for name in ("gpt14m", "gpt124m"):
        print(f"training step: {name}, batch {BATCH} x {SEQUENCE}, f32, {options.threads} threads")
        program, data = prepare(folder, name, "--train", "adamw")
        command = train_command(folder, name, program, options.threads)
        trainer = TorchTrainer(MODELS[name][1](), data, BATCH)
        check_losses(losses(command, folder, 4), np.array([trainer.step() for _ in range(4)]))
        a, b = in_turns(options.rounds, lambda: step_seconds(command, folder, options.steps), lambda: trainer.median_step(options.steps))
        print(f"  Tessera {a * 1e3:.1f} ms, PyTorch eager {b * 1e3:.1f} ms: {a / b:.2f} x PyTorch's time")
        print(f"  products alone: {share_of_products(command):.0%} of Tessera's step, {trainer.share_of_products():.0%} of PyTorch's", flush=True)
        if options.compiled:
            trainer = TorchTrainer(torch.compile(MODELS[name][1]()), data, BATCH)
            a, b = in_turns(options.rounds, lambda: step_seconds(command, folder, options.steps), lambda: trainer.median_step(options.steps))
            print(f"  Tessera {a * 1e3:.1f} ms, torch.compile {b * 1e3:.1f} ms: {a / b:.2f} x torch.compile's time")


def ddp_worker(folder, name, rank, steps):
    """One of two ranks of PyTorch's DistributedDataParallel; prints the losses of two steps and the median time of more."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=2)
    torch.set_num_threads(1)
    data = {k: np.load(folder / f"{name}.{k}.npy") for k in ("input_ids", "labels")}
    trainer = TorchTrainer(torch.nn.parallel.DistributedDataParallel(MODELS[name][1]()), data, BATCH, rank, 2)
    first = [trainer.step() for _ in range(2)]
    dist.barrier()
    print(json.dumps({"losses": first, "seconds": trainer.median_step(steps)}))
    dist.destroy_process_group()


def ddp(folder, options):
    def peer(name):
        (folder / "ddp").unlink(missing_ok=True)
        command = [sys.executable, __file__, "--folder", str(folder), "--steps", str(options.steps), "--ddp-worker", name]
        workers = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)]
        texts = [w.communicate()[0] for w in workers]
        if any(w.returncode for w in workers):
            sys.exit("error: a rank of PyTorch failed")
        return [json.loads(text.splitlines()[-1]) for text in texts]

    for name in ("gpt14m", "gpt124m"):
        print(f"training step: {name}, batch {BATCH} x {SEQUENCE}, f32, 2 ranks data parallel, one thread each")
        program, _ = prepare(folder, name, "--train", "adamw", "--dp", 2)
        command = train_command(folder, name, program, 1)
        check_losses(losses(command, folder, 2), np.mean([r["losses"] for r in peer(name)], axis=0))
        a, b = in_turns(options.rounds, lambda: step_seconds(command, folder, options.steps), lambda: max(r["seconds"] for r in peer(name)))
        print(f"  Tessera {a * 1e3:.1f} ms, PyTorch DDP over gloo {b * 1e3:.1f} ms: {a / b:.2f} x PyTorch's time", flush=True)


def infer(folder, options):
    import onnxruntime

    for name in ("gpt14m", "gpt124m", "bert"):
        print(f"inference: {name}, batch {BATCH} x {SEQUENCE}, f32, {options.threads} threads")
        program, data = prepare(folder, name)
        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx", session_options, providers=["CPUExecutionProvider"])
        ids = data["input_ids"][:BATCH]
        np.save(folder / "ids.npy", ids)
        command = [program, "infer", "--input", f"input_ids={folder}/ids.npy", "--output", folder / "out", "--threads", options.threads]

        run(*command)
        expected = session.run(None, {"input_ids": ids})[0]
        actual = np.load(folder / "out" / f"{session.get_outputs()[0].name}.npy")
        worst, bound = np.abs(actual - expected).max(), 2e-5 + 1e-5 * np.abs(expected).max()
        print(f"  outputs differ by at most {worst:.1e}, {bound:.1e} is allowed")
        if not worst <= bound:
            sys.exit("error: the outputs differ")

        def tessera():
            run(*command, "--repeat", options.steps, "--stats", folder / "stats.json")
            return json.loads((folder / "stats.json").read_text())["step_seconds"]

        def runtime():
            times = []
            for _ in range(options.steps):
                start = time.perf_counter()
                session.run(None, {"input_ids": ids})
                times.append(time.perf_counter() - start)
            return statistics.median(times)

        a, b = in_turns(options.rounds, tessera, runtime)
        print(f"  Tessera {a * 1e3:.1f} ms, ONNX Runtime {b * 1e3:.1f} ms: {a / b:.2f} x ONNX Runtime's time", flush=True)


def memory_worker(folder, name):
    """Three steps in PyTorch; prints its peak, and what it held before it made the model."""
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(2)
    data = {k: np.load(folder / f"{name}.{k}.npy") for k in ("input_ids", "labels")}
    def peak():  # of this program: the process's own figure remembers its parent's pages
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024

    before = peak()
    trainer = TorchTrainer(MODELS[name][1](), data, BATCH)
    for _ in range(3):
        trainer.step()
    print(json.dumps({"before": before, "peak": peak()}))


def resident(folder, options):
    for name in ("gpt14m", "gpt124m"):
        program, _ = prepare(folder, name, "--train", "adamw")
        _, ours = measured(*train_command(folder, name, program, options.threads), "--steps", 3)
        text = subprocess.run([sys.executable, __file__, "--folder", str(folder), "--memory-worker", name], capture_output=True, text=True, check=True).stdout
        theirs = json.loads(text.splitlines()[-1])
        print(f"peak resident memory of training: {name}, batch {BATCH} x {SEQUENCE}: Tessera {ours / 1e6:.0f} MB, "
              f"PyTorch eager {theirs['peak'] / 1e6:.0f} MB, {(theirs['peak'] - theirs['before']) / 1e6:.0f} MB without its libraries", flush=True)


# Options on 8 ranks, and on 64.
RECIPES = {
    "2d": (("--tp", 8, "--tp-mode", "2d"), ("--tp", 64, "--tp-mode", "2d")),
    "2.5d": (("--tp", 8, "--tp-mode", "2.5d", "--tp-depth", 2), ("--tp", 64, "--tp-mode", "2.5d", "--tp-depth", 4)),
    "3d": (("--tp", 8, "--tp-mode", "3d"), ("--tp", 64, "--tp-mode", "3d")),
    "ring": (("--sp", 8), ("--sp", 64)),
    "pipeline": (("--pp", 4, "--tp", 2, "--microbatches", 8), ("--pp", 8, "--tp", 8, "--microbatches", 8)),
}


def compile_time(folder, options):
    def compiled(title, model, *mesh):
        figures = [measured(TESSERA, "compile", model, "-o", folder / "compiled", "--train", "adamw", *mesh) for _ in range(options.rounds)]
        seconds, peak = (statistics.median(f) for f in zip(*figures))
        weights = sum(f.stat().st_size for f in model.parent.glob(model.name + "*"))
        print(f"  {title}: {seconds:.1f} s, {peak / 1e6:.0f} MB at the peak, {weights / 1e6:.0f} MB of model", flush=True)
        return seconds

    print("compile time: batch 16 x 128, --train adamw")
    twelve = export(lambda: gpt(12, 768, 12, 50257, 1024), folder / "gpt2.onnx", 16, 128)
    compiled("GPT-2 124M, 1 rank", twelve)
    four = compiled("4 ranks", twelve, "--dp", 2, "--tp", 2)
    many = compiled("64 ranks", twelve, "--dp", 16, "--tp", 4)
    print(f"  64 ranks take {many / four:.2f} x the time of 4")
    for name, (few, many) in RECIPES.items():
        at8, at64 = compiled(f"{name}, 8 ranks", twelve, *few), compiled(f"{name}, 64 ranks", twelve, *many)
        print(f"  {name}: 64 ranks take {at64 / at8:.2f} x the time of 8")
    times = [compiled(f"{n} layers of width {w}", export(lambda: gpt(n, w, 12, 8192, 128), folder / f"layers{n}x{w}.onnx", 16, 128))
             for n, w in ((12, 192), (48, 192), (12, 768))]
    print(f"  48 layers take {times[1] / times[0]:.2f} x the time of 12")
    few, many = (compiled(f"{n} layers of width 192, 4 ranks", export(lambda: gpt(n, 192, 12, 8192, 128), folder / f"layers{n}x192.onnx", 16, 128),
                          "--dp", 2, "--tp", 2) for n in (12, 96))
    print(f"  96 layers take {many / few:.2f} x the time of 12")


PARTS = {"train": train, "ddp": ddp, "infer": infer, "resident": resident, "compile": compile_time}


def main():
    parser = argparse.ArgumentParser(description="Compares with PyTorch and ONNX Runtime.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="in each round")
    parser.add_argument("--compiled", action="store_true", help="compare training with torch.compile too")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--ddp-worker", nargs=2, metavar=("MODEL", "RANK"), help=argparse.SUPPRESS)
    parser.add_argument("--memory-worker", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.ddp_worker:
        return ddp_worker(options.folder, options.ddp_worker[0], int(options.ddp_worker[1]), options.steps)
    if options.memory_worker:
        return memory_worker(options.folder, options.memory_worker)
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no part is called {', '.join(unknown)}")
    import torch

    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    for part in options.parts or PARTS:
        PARTS[part](options.folder, options)


if __name__ == "__main__":
    main()
