#!/usr/bin/env python3
"""Samples text from a byte-level language model, by running an executable's `infer` once for every new byte.

    python/sample.py ./gpt --weights trained.safetensors --prompt "The licence"

Every row of the model's batch continues the prompt on its own. The model is causal, so what stands after the last byte
does not matter; a context that is full slides.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def softmax(logits, temperature):
    scaled = (logits - logits.max(axis=-1, keepdims=True)) / max(temperature, 1e-6)
    weights = np.exp(scaled)
    return weights / weights.sum(axis=-1, keepdims=True)


def sample(executable, weights, prompt, count, temperature, seed):
    """Returns one continuation a row of the batch, as bytes."""
    info = json.loads(subprocess.run([executable, "info", "--program", "infer", "--json"], check=True, capture_output=True).stdout)
    ids = next(i for i in info["inputs"] if i["type"] == "int64")
    output = info["outputs"][0]
    rows, length = ids["shape"]
    rng = np.random.default_rng(seed)
    texts = np.tile(np.frombuffer(prompt, np.uint8).astype(np.int64), (rows, 1))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for _ in range(count):
            window = texts[:, -length:]
            context = np.zeros((rows, length), np.int64)
            context[:, :window.shape[1]] = window
            np.save(folder / "ids.npy", context)
            command = [executable, "infer", "--input", f"{ids['name']}={folder}/ids.npy", "--output", folder / "out"]
            subprocess.run([*command, *(("--weights", weights) if weights else ())], check=True, stdout=subprocess.DEVNULL)
            logits = np.load(folder / "out" / f"{output['name']}.npy")[:, window.shape[1] - 1]
            chances = softmax(logits.astype(np.float64), temperature)
            drawn = [rng.choice(chances.shape[1], p=row) for row in chances]
            texts = np.concatenate([texts, np.array(drawn)[:, None]], axis=1)
    return [bytes(row.astype(np.uint8)) for row in texts]


def main():
    parser = argparse.ArgumentParser(description="Samples text from a byte-level language model.")
    parser.add_argument("executable", type=pathlib.Path)
    parser.add_argument("--weights", type=pathlib.Path)
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--count", type=int, default=100, help="new bytes")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2, help="continuations shown")
    options = parser.parse_args()
    if not options.prompt:
        sys.exit("error: the prompt is empty; give at least one byte")
    try:
        texts = sample(options.executable.resolve(), options.weights, options.prompt.encode(), options.count, options.temperature,
                       options.seed)
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {options.executable} ended with status {error.returncode}\n{(error.stderr or b'').decode()}")
    for text in texts[:options.rows]:
        print("  | " + text.decode("utf-8", "replace").replace("\n", "\n  | "))
        print()


if __name__ == "__main__":
    main()
