"""Checkpoints as docs/checkpoints.md describes them, read without the project's own code."""
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file

TYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}


def path_of(folder, step):
    return pathlib.Path(folder) / f"step-{step:09}"


def manifest_of(path):
    return json.loads((path / "manifest.json").read_text())["checkpoint"]


def steps_in(folder):
    return sorted(int(p.name[5:]) for p in pathlib.Path(folder).iterdir() if p.is_dir() and not p.suffix)


def box_of(piece):
    """Where a piece lies in its variable of shape `view`."""
    return tuple(slice(begin, end) for dimension in piece["box"] for begin, end in dimension)


def variables_of(path):
    """name -> array, put together from the pieces; every element must be there once."""
    manifest, result = manifest_of(path), {}
    contents = [(path / file["name"]).read_bytes() for file in manifest["files"]]
    for variable in manifest["variables"]:
        dtype = np.dtype(TYPES[variable["dtype"]])
        if "elsewhere" in variable:
            result[variable["name"]] = load_file(variable["elsewhere"]["file"])[variable["elsewhere"]["tensor"]]
            continue
        whole, times = np.zeros(variable["shape"], dtype), np.zeros(variable["shape"], np.int8)
        for piece in variable["pieces"]:
            view = [atom for dimension in piece["view"] for atom in dimension]
            box = whole.reshape(view)[box_of(piece)].copy()
            seen = times.reshape(view)[box_of(piece)].copy()
            begin, end = piece.get("range", (0, box.size))
            box.reshape(-1)[begin:end] = np.frombuffer(contents[piece["file"]], dtype, end - begin, piece["offset"])
            seen.reshape(-1)[begin:end] += 1
            whole.reshape(view)[box_of(piece)], times.reshape(view)[box_of(piece)] = box, seen
        assert (times == 1).all(), variable["name"]
        result[variable["name"]] = whole
    return result


def flip(path, offset, byte=0x40):
    """Changes one byte of a file."""
    contents = bytearray(path.read_bytes())
    contents[offset] ^= byte
    path.write_bytes(contents)

