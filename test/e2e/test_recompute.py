"""Activations that are made again for the backward: the same bits in less memory, with and without a cap."""
import json
import re

import numpy as np
import pytest

import gpu
import harness as h

STEPS = 3
GPT = h.ROOT / "python" / "gpt_bytes.onnx"
MESHES = {
    "1": (), "tp2": ("--tp", "2"), "dp2": ("--dp", "2"), "dp2zero1": ("--dp", "2", "--zero", "1"), "dp2zero3": ("--dp", "2", "--zero", "3"),
    "micro2": ("--microbatches", "2"), "pp2": ("--pp", "2", "--microbatches", "2"), "bf16": ("--dtype", "bf16"), "sgd": (),
}
MODELS = ("gpt_bytes", "gpt2", "bert", "llama", "vit", "t5", "mixtral", "resnet", "gpt2_dropout")
CASES = [(variant, mesh) for variant in MODELS for mesh in MESHES]
SAMPLE = {("gpt_bytes", "1"), ("gpt2", "micro2"), ("t5", "tp2"), ("bert", "dp2zero3"), ("llama", "bf16"), ("gpt2", "pp2"), ("resnet", "1"), ("vit", "pp2"), ("vit", "dp2zero3")}


def file_of(variant):
    return GPT if variant == "gpt_bytes" else h.MODELS / f"{variant}.onnx"


def compile_to(path, variant, mesh, *options, fails=False):
    command = (h.TESSERA, "compile", file_of(variant), "-o", path, "--train", "sgd" if mesh == "sgd" else "adamw", *MESHES[mesh], *options)
    result = h.run(*command)
    if fails:
        return result
    assert result.returncode == 0, result.stderr
    return h.Program(path, 1 if not MESHES[mesh] or mesh in ("micro2", "bf16") else 2), result.stderr


def data_of(variant):
    if variant == "gpt_bytes":
        tokens = np.random.default_rng(0).integers(0, 256, (STEPS * 8, 129))
        return {"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
    return h.training_data(variant.removesuffix("_dropout"), [*h.input_names(variant), "labels"])


def trained(program, folder, variant):
    """The log without its seconds, the weights, and what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    log = program.train(folder, data_of(variant), STEPS, "--save", folder / "w.safetensors", "--stats", folder / "stats.json")
    return ([(e["loss"], e["grad_norm"]) for e in log], (folder / "w.safetensors").read_bytes()), json.loads((folder / "stats.json").read_text())


def peak_of(program, *names):
    """Of the fullest rank, in the fullest of these programs; both that train without any."""
    return max(rank["device"]["peak"] for name in names or ("train", "train_clipped") for rank in program.info(name)["memory"])


def assert_kept(program, stats):
    promised = program.info("train")
    assert [r["device"]["peak"] for r in promised["memory"]] == [r["device"]["peak"] for r in stats["memory"]]
    assert promised["moved"] == stats["moved"]
    assert promised["sent"] == stats["sent"]


@pytest.mark.parametrize("variant,mesh", [pytest.param(*case, marks=() if case in SAMPLE else pytest.mark.whole) for case in CASES])
def test_same_bits(tmp_path, variant, mesh):
    """Block by block without a cap; then with caps, where recomputation alone, and together with transfers, makes the program fit."""
    full, said = compile_to(tmp_path / "full", variant, mesh)
    assert "made again" not in said
    want, _ = trained(full, tmp_path / "f", variant)
    block, said = compile_to(tmp_path / "block", variant, mesh, "--recompute", "block")
    got, stats = trained(block, tmp_path / "b", variant)
    assert got == want
    assert_kept(block, stats)
    for name in ("train", "train_clipped"):
        assert peak_of(block, name) < peak_of(full, name) or f"program '{name}'" not in said
    if peak_of(block) == peak_of(full):
        return  # nothing saves memory in the fullest program
    refused = compile_to(tmp_path / "refused", variant, mesh, "--device-memory", "1", fails=True)
    least = int(re.search(r"the least possible for this plan is .*?(\d+) bytes\)? on the device", refused.stderr)[1])
    for cap, offload in ((peak_of(block), "none"), ((peak_of(full) + peak_of(block)) // 2, "none"), (max(int(0.9 * peak_of(block)), int(1.2 * least)), "auto")):
        capped, _ = compile_to(tmp_path / "capped", variant, mesh, "--device-memory", cap, "--offload", offload)
        got, stats = trained(capped, tmp_path / "c", variant)
        assert got == want, f"cap {cap}"
        assert_kept(capped, stats)
        assert peak_of(capped) <= cap
        assert offload == "auto" or stats["moved"]["host_to_device"] == 0


def test_resumed_text(tmp_path):
    """What runs again is in the text after the schedule, which compiles to the same program; the verifier reads it."""
    _, said = compile_to(tmp_path / "block", "gpt2", "1", "--recompute", "block", "--dump-phases", tmp_path / "phases")
    text = next((tmp_path / "phases").glob("*schedule.mlir")).read_text()
    assert text.count("dist.recompute = ") > 5 and "made again" in said
    changed = tmp_path / "changed.mlir"
    name = re.search(r'dist.recompute = "(apply_\d+)"', text)[1]
    changed.write_text(text.replace(f'dist.recompute = "{name}"', 'dist.recompute = "nothing"', 1))
    h.assert_error(h.run(h.TESSERA, "compile", changed, "-o", "/dev/null", "--from", "memory", "--to", "memory"), "which no operator before it is called")


def test_on_gpus(tmp_path):
    """The checking driver finds nothing, and the bits are those of the program without."""
    data, seen = data_of("gpt2"), []
    for what in ("none", "block"):
        path, execute = gpu.compiled(tmp_path / what, h.MODELS / "gpt2.onnx", "--train", "adamw", "--recompute", what)
        log = gpu.trained(path, execute, tmp_path / what / "run", data, "--save", tmp_path / what / "w")
        seen.append(([e["loss"] for e in log], (tmp_path / what / "w").read_bytes()))
    assert seen[0] == seen[1]
    assert peak_of(h.Program(tmp_path / "block" / "program", 1)) < peak_of(h.Program(tmp_path / "none" / "program", 1))


def test_what_is_said(tmp_path):
    """Values, bytes and operations that are made again; the operations are those that `info` counts."""
    full, _ = compile_to(tmp_path / "full", "gpt_bytes", "1")
    block, said = compile_to(tmp_path / "block", "gpt_bytes", "1", "--recompute", "block")
    values, more = re.search(r"program 'train': .* of activations \((\d+) values\) are made again, \+([0-9.]+) % operations", said).groups()
    assert int(values) > 10
    assert block.info("train")["flops"] / full.info("train")["flops"] == pytest.approx(1 + float(more) / 100, abs=0.002)


def test_refused_without(tmp_path):
    """A cap that only recomputation keeps: refused with that advice, and compiled with it."""
    block, _ = compile_to(tmp_path / "block", "gpt_bytes", "1", "--recompute", "block")
    cap = int(1.02 * peak_of(block))
    refused = compile_to(tmp_path / "none", "gpt_bytes", "1", "--device-memory", cap, "--offload", "none", "--recompute", "none", fails=True)
    h.assert_error(refused, "of device memory a rank", notes="--recompute=auto may make activations again: it fits")
    compile_to(tmp_path / "auto", "gpt_bytes", "1", "--device-memory", cap, "--offload", "none")


def test_bad_option():
    h.assert_error(h.run(h.TESSERA, "compile", GPT, "-o", "/dev/null", "--recompute", "all"), "--recompute=all: expected none, block or auto", status=2)
