"""A target that computes nothing (test/null-target): library, kernels and device of its own. What it is asked to
do is what the description says."""
import collections
import json
import os

import harness as h
import numpy as np
import pytest

COMPILER = h.BUILD / "bin" / "tessera-null"
STEPS = 3


def compiled(folder, variant, *options):
    """A program for the null target, and its description."""
    program, phases = folder / "program", folder / "phases"
    h.checked(COMPILER, "compile", h.MODELS / f"{variant}.onnx", "--target", "null", "--threads", "2", *options,
              "-o", program, "--dump-phases", phases)
    return program, json.loads((phases / "program.json").read_text())


def promised(description, name, stage):
    """What a rank of a stage does in one step: calls by function, kernels by symbol."""
    program, = (p for p in description["programs"] if p["name"] == name and p["stage"] == stage)
    counts, times = {"calls": collections.Counter(), "kernels": collections.Counter()}, 1
    for op in program["ops"]:
        if op["op"] in ("loop", "end"):
            times = op.get("times", 1)
        elif op["op"] in ("call", "kernel"):
            counts["calls" if op["op"] == "call" else "kernels"][op.get("function") or op["symbol"]] += times
    return counts


def counted(folder, rank):
    return json.loads((folder / f"{rank}.json").read_text())


# name -> (options, the stage of each rank)
PLANS = {
    "1": ((), (0,)),
    "dp2tp2micro2": (("--dp", "2", "--tp", "2", "--microbatches", "2"), (0, 0, 0, 0)),
    "pp2": (("--pp", "2", "--microbatches", "2"), (0, 1)),
}


@pytest.mark.parametrize("plan", PLANS)
def test_steps_do_what_the_description_says(tmp_path, plan):
    options, stages = PLANS[plan]
    program, description = compiled(tmp_path, "mlp", "--train", "adamw", *options)
    data = h.training_data("mlp", ["x", "labels"])
    arguments = [word for name, array in data.items() for word in ("--data", f"{name}={tmp_path / name}.npy")]
    for name, array in data.items():
        np.save(tmp_path / f"{name}.npy", array)
    h.checked(program, "train", *arguments, "--steps", STEPS, env={**os.environ, "TESSERA_NULL_COUNTS": str(tmp_path)})
    for rank, stage in enumerate(stages):
        expected = promised(description, "train", stage)
        assert expected["calls"]["gemm"] and expected["calls"]["adamw"] and expected["kernels"]
        assert counted(tmp_path, rank) == [expected] * STEPS, f"rank {rank}"


def test_the_target_says_what_its_library_has(tmp_path):
    """Its attention is a kernel, its products have its workspace, and its kernels are dumped as its text."""
    program, description = compiled(tmp_path, "gpt2_1layer")
    assert json.loads(h.checked(program, "info", "--json").stdout)["target"] == "null"
    calls = [op for op in description["programs"][0]["ops"] if op["op"] == "call"]
    products = [op for op in calls if op["function"] == "gemm"]
    assert products and all(op["attrs"]["workspace"] == 128 for op in products)
    assert all("workspace" not in op["attrs"] for op in calls if op not in products)
    assert not any(op["function"].startswith("attention") for op in calls)
    theirs = json.loads(h.checked(h.TESSERA, "compile", h.MODELS / "gpt2_1layer.onnx", "--to", "lower").stdout)
    assert any(op.get("function") == "attention_forward" for op in theirs["programs"][0]["ops"])
    symbols = {op["symbol"] for op in description["programs"][0]["ops"] if op["op"] == "kernel"}
    texts = sorted((tmp_path / "phases").glob("*.ll"))
    assert symbols and texts and "define" in texts[0].read_text()
    ids = h.model_inputs("gpt2_1layer", ["input_ids"])["input_ids"]
    np.save(tmp_path / "ids.npy", ids)
    h.checked(program, "infer", "--input", f"input_ids={tmp_path / 'ids.npy'}", "--output", tmp_path / "out",
              env={**os.environ, "TESSERA_NULL_COUNTS": str(tmp_path)})
    assert counted(tmp_path, 0) == [promised(description, "infer", 0)]
    logits = np.load(tmp_path / "out" / "logits.npy")
    assert np.abs(logits).max() < 1e-40, "computes nothing; a small integer's bytes may lie where ids were"


def test_the_compiler_as_it_is_shipped_does_not_have_it(tmp_path):
    said = h.tessera("compile", h.MODELS / "mlp.onnx", "--target", "null", "-o", tmp_path / "program")
    assert said.returncode == 2
    assert said.first_error.startswith("error: --target=null: expected cpu, cuda, or cuda: with one of ")
