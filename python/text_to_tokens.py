#!/usr/bin/env python3
"""Writes the bytes of text files as tokens, uint16 little endian, the format that `train --tokens` reads.

    python/text_to_tokens.py FILE... -o tokens.bin
"""
import argparse
import pathlib

import numpy as np


def main():
    parser = argparse.ArgumentParser(description="Writes the bytes of text files as tokens of 16 bits.")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path)
    options = parser.parse_args()
    text = b"\n\n".join(path.read_bytes() for path in options.files)
    np.frombuffer(text, np.uint8).astype("<u2").tofile(options.output)
    print(f"{len(options.files)} files, {len(text)} bytes -> {options.output}")


if __name__ == "__main__":
    main()
