"""Measures against PyTorch eager and ONNX Runtime; tools/bench is the way in.

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


def gpt(layers, width, heads, vocabulary, sequence):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=vocabulary, n_positions=sequence, n_embd=width, n_layer=layers, n_head=heads,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=None, eos_token_id=None)
    return GPT2LMHeadModel(config)


def export(model, path, batch, sequence):
    import torch

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = torch.zeros((batch, sequence), dtype=torch.int64)
        torch.onnx.export(model.eval(), (), str(path), kwargs={"input_ids": ids}, dynamo=True, external_data=True,
                          input_names=["input_ids"], output_names=["logits"], opset_version=20, verbose=False)
    return path


class TorchTrainer:
    """PyTorch eager with its fused AdamW, on one batch after another."""

    def __init__(self, model, data, batch):
        import torch

        self.torch, self.model, self.batch = torch, model.train(), batch
        self.data = {k: torch.from_numpy(v) for k, v in data.items()}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
        self.done = 0

    def step(self):
        begin = self.done * self.batch % len(self.data["labels"])
        ids, labels = (self.data[k][begin:begin + self.batch] for k in ("input_ids", "labels"))
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


def in_turns(rounds, first, second):
    """Medians of both over the rounds, after one round of each that does not count."""
    first(), second()
    pairs = [(first(), second()) for _ in range(rounds)]
    for index, (a, b) in enumerate(pairs):
        print(f"  round {index + 1}: {a * 1e3:8.1f} ms   {b * 1e3:8.1f} ms", flush=True)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def prepare(folder, batch, sequence, vocabulary, threads):
    """The 14M GPT: its module, its compiled program, and random data for eight steps as files beside it."""
    model = gpt(layers=6, width=384, heads=6, vocabulary=vocabulary, sequence=sequence)
    program = folder / "gpt14m"
    run(TESSERA, "compile", export(model, folder / "gpt14m.onnx", batch, sequence), "-o", program, "--train", "adamw")
    rng = np.random.default_rng(0)
    data = {k: rng.integers(0, vocabulary, (8 * batch, sequence)) for k in ("input_ids", "labels")}
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
    return model, program, data


def train(folder, threads, rounds, steps):
    batch, sequence = 4, 256
    print(f"training step: GPT of 14M parameters, batch {batch} x {sequence}, f32, {threads} threads")
    model, program, data = prepare(folder, batch, sequence, 8192, threads)
    trainer = TorchTrainer(model, data, batch)
    command = [program, "train", *(f for k in data for f in ("--data", f"{k}={folder / k}.npy")), "--threads", threads]

    run(*command, "--steps", 8, "--log", folder / "log.jsonl")
    ours = np.array([json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()])
    theirs = np.array([trainer.step() for _ in range(8)])
    worst = np.max(np.abs(ours / theirs - 1))
    print(f"  losses of 8 steps differ by at most {worst:.1e} relative")
    if not worst <= 1e-5:
        sys.exit(f"error: the losses differ\nours   {ours}\ntheirs {theirs}")

    def tessera():
        run(*command, "--steps", steps, "--stats", folder / "stats.json")
        return json.loads((folder / "stats.json").read_text())["step_seconds"]

    a, b = in_turns(rounds, tessera, lambda: trainer.median_step(steps))
    print(f"  Tessera {a * 1e3:.1f} ms, PyTorch eager {b * 1e3:.1f} ms: {a / b:.2f} x PyTorch's time")


def infer(folder, threads, rounds, steps):
    import onnxruntime

    batch, sequence = 4, 256
    print(f"inference: GPT of 14M parameters, batch {batch} x {sequence}, f32, {threads} threads")
    _, program, data = prepare(folder, batch, sequence, 8192, threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / "gpt14m.onnx", options, providers=["CPUExecutionProvider"])
    ids = data["input_ids"][:batch]
    np.save(folder / "ids.npy", ids)
    command = [program, "infer", "--input", f"input_ids={folder}/ids.npy", "--output", folder / "out", "--threads", threads]

    run(*command)
    expected = session.run(None, {"input_ids": ids})[0]
    worst, bound = np.abs(np.load(folder / "out" / "logits.npy") - expected).max(), 2e-5 + 1e-5 * np.abs(expected).max()
    print(f"  outputs differ by at most {worst:.1e}, {bound:.1e} is allowed")
    if not worst <= bound:
        sys.exit("error: the outputs differ")

    def tessera():
        run(*command, "--repeat", steps, "--stats", folder / "stats.json")
        return json.loads((folder / "stats.json").read_text())["step_seconds"]

    def runtime():
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            session.run(None, {"input_ids": ids})
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    a, b = in_turns(rounds, tessera, runtime)
    print(f"  Tessera {a * 1e3:.1f} ms, ONNX Runtime {b * 1e3:.1f} ms: {a / b:.2f} x ONNX Runtime's time")


def compile_time(folder, threads, rounds, steps):
    batch, sequence = 16, 128
    print(f"compile time: GPT-2 124M, batch {batch} x {sequence}, --train adamw")
    model = export(gpt(12, 768, 12, 50257, sequence=1024), folder / "gpt2.onnx", batch, sequence)
    seconds = {}
    for name, mesh in (("1 rank", ()), ("4 ranks", ("--dp", 2, "--tp", 2)), ("64 ranks", ("--dp", 16, "--tp", 4))):
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            run(TESSERA, "compile", model, "-o", folder / "gpt2", "--train", "adamw", *mesh)
            times.append(time.perf_counter() - start)
        seconds[name] = statistics.median(times)
        print(f"  {name}: {seconds[name]:.1f} s", flush=True)
    print(f"  64 ranks take {seconds['64 ranks'] / seconds['4 ranks']:.2f} x the time of 4")


PARTS = {"train": train, "infer": infer, "compile": compile_time}


def main():
    parser = argparse.ArgumentParser(description="Compares with PyTorch eager and ONNX Runtime.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="in each round")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no part is called {', '.join(unknown)}")
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    for part in options.parts or PARTS:
        PARTS[part](options.folder, options.threads, options.rounds, options.steps)


if __name__ == "__main__":
    main()
