"""An executable needs the C and C++ libraries and zlib alone; what it finds beside them makes it faster, not different."""
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

import harness as h

TRAIN = ("--train", "adamw")
PLAIN = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "ld-linux-x86-64.so.2"}
WITHOUT = {**os.environ, "TESSERA_ONEDNN": "off"}
PLAIN_BUILD = pytest.mark.skipif(h.SANITIZED, reason="a sanitizer brings libraries of its own")


def losses(compiled, folder, data, env):
    log = folder / "log.jsonl"
    arguments = compiled.train_arguments(folder, data, 3, "--log", log)
    result = h.checked(*compiled.command(*arguments), env=env)
    return [float(loss) for loss in re.findall(r'"loss":([^,]+)', log.read_text())], result


def outputs(compiled, folder, inputs, env):
    h.checked(*compiled.command(*compiled.infer_arguments(folder, inputs)), env=env)
    return {path.stem: np.load(path) for path in (folder / "out").glob("*.npy")}


def needed(path):
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", h.checked("readelf", "-d", path).stdout))


@PLAIN_BUILD
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_needed_libraries(program, target):
    compiled = program("mlp", "1", (*TRAIN, "--target", target))
    assert needed(compiled.path) <= PLAIN


@pytest.mark.parametrize("variant,dtype", [("gpt2", "f32"), ("gpt2", "bf16"), ("resnet", "f32")])
def test_same_results_without_onednn(program, tmp_path, variant, dtype):
    """Of bf16 with and without oneDNN differ by the order of a sum before it is rounded; twice the same are the same bits."""
    compiled = program(variant, "1", (*TRAIN, "--dtype", dtype))
    names = h.input_names(variant)
    data = h.training_data(variant, [*names, "labels"])
    with_it, _ = losses(compiled, tmp_path / "with", data, os.environ)
    without, result = losses(compiled, tmp_path / "without", data, WITHOUT)
    again, _ = losses(compiled, tmp_path / "again", data, WITHOUT)
    assert without == again and len(without) == 3
    tolerance = 1e-5 if dtype == "f32" else 1e-2
    np.testing.assert_allclose(without, with_it, rtol=tolerance)
    assert "oneDNN" not in result.stderr, "what is switched off is not missed"
    inputs = h.model_inputs(variant, names)
    theirs = outputs(compiled, tmp_path / "with", inputs, os.environ)
    for name, ours in outputs(compiled, tmp_path / "without", inputs, WITHOUT).items():
        np.testing.assert_allclose(ours, theirs[name], rtol=0, atol=tolerance * np.abs(theirs[name]).max())


def make_root(root, executable):
    """The executable with its weights and the libraries that it needs, at the places where it looks for them; nothing else."""
    for line in h.checked("ldd", executable).stdout.splitlines():
        found = re.search(r"(/\S+) \(0x", line)
        if found:
            to = root / found[1].lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pathlib.Path(found[1]).resolve(), to)
    for path in (executable, executable.with_name(executable.name + ".safetensors")):
        shutil.copy(path, root / path.name)
    (root / "data").mkdir()


@PLAIN_BUILD
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize("variant,dtype", [("gpt2", "bf16"), ("resnet", "f32")])
def test_trains_in_an_empty_root(program, tmp_path, variant, dtype):
    compiled = program(variant, "1", (*TRAIN, "--dtype", dtype))
    names = h.input_names(variant)
    data = h.training_data(variant, [*names, "labels"])
    expected, _ = losses(compiled, tmp_path / "outside", data, WITHOUT)
    root = tmp_path / "root"
    make_root(root, compiled.path)
    assert {path.name for path in root.rglob("*.so*")} <= PLAIN
    given = []
    for name, array in data.items():
        np.save(root / "data" / f"{name}.npy", array)
        given += ["--data", f"{name}=/data/{name}.npy"]
    result = h.checked("/usr/sbin/chroot", root, "/program", "train", *given, "--steps", "3", "--log", "/data/log.jsonl")
    inside = [float(loss) for loss in re.findall(r'"loss":([^,]+)', (root / "data" / "log.jsonl").read_text())]
    assert inside == expected
    multiplies = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
    missed = "note: products of bf16 are done without oneDNN, slower: there is no libdnnl.so.2 on this machine"
    assert (missed in result.stderr) == (dtype == "bf16" and multiplies), result.stderr
    inputs = h.model_inputs(variant, names)
    given = []
    for name, array in inputs.items():
        np.save(root / "data" / f"{name}.npy", array)
        given += ["--input", f"{name}=/data/{name}.npy"]
    h.checked("/usr/sbin/chroot", root, "/program", "infer", *given, "--output", "/data/out")
    theirs = outputs(compiled, tmp_path / "outside", inputs, WITHOUT)
    for name, array in theirs.items():
        np.testing.assert_array_equal(np.load(root / "data" / "out" / f"{name}.npy"), array)
