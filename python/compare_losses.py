#!/usr/bin/env python3
"""Compares the losses of two training logs step by step, as far as the shorter one goes; status 1 when they differ.

    python/compare_losses.py a.jsonl b.jsonl [--tolerance 1e-5]
"""
import argparse
import json
import pathlib
import sys


def main():
    parser = argparse.ArgumentParser(description="Compares the losses of two training logs.")
    parser.add_argument("logs", nargs=2, type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=1e-5, help="largest relative difference")
    options = parser.parse_args()
    first, second = ([json.loads(line)["loss"] for line in path.read_text().splitlines()] for path in options.logs)
    steps = min(len(first), len(second))
    if not steps:
        sys.exit("error: no steps to compare")
    worst, step = max((abs(a / b - 1), i + 1) for i, (a, b) in enumerate(zip(first, second)))
    print(f"{steps} steps: the losses differ by at most {worst:.1e} relative (step {step})")
    if not worst <= options.tolerance:
        sys.exit(f"error: that is more than {options.tolerance:g}")


if __name__ == "__main__":
    main()
