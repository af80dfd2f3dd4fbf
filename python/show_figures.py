#!/usr/bin/env python3
"""Prints what a compiled program promises: its mesh, the memory of each rank, and the bytes that a rank sends in a step.

    python/show_figures.py EXECUTABLE
"""
import json
import subprocess
import sys


def size(count):
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def main():
    if len(sys.argv) != 2:
        sys.exit(f"error: usage: {sys.argv[0]} EXECUTABLE")
    info = json.loads(subprocess.run([sys.argv[1], "info", "--json"], check=True, capture_output=True).stdout)
    mesh = " x ".join(f"{axis}={count}" for axis, count in info["mesh"].items()) or "one rank"
    print(f"mesh        {mesh}, {info['ranks']} ranks, {info['target']}, {info['dtype']}")
    print(f"parameters  {info['parameters']['count']:,} in {info['parameters']['tensors']} tensors")
    for entry in info["memory"]:
        parts = {k: v for k, v in entry["device"].items() if k not in ("peak", "capacity") and v}
        print(f"rank {entry['rank']:<6} peak {size(entry['device']['peak'])}: "
              + ", ".join(f"{k} {size(v)}" for k, v in sorted(parts.items(), key=lambda part: -part[1])))
    for axis, kinds in info["sent"].items():
        for kind, entry in kinds.items():
            if entry["count"]:
                print(f"sent        over {axis}: {entry['count']} x {kind}, {size(entry['bytes'])} a rank and step")


if __name__ == "__main__":
    main()
