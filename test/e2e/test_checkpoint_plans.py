"""A checkpoint that any plan wrote goes on under any other: with the same variables to the bit, and the losses of a run that was never broken off."""
import json

import numpy as np
import pytest

import checkpoint_files as c
import harness as h

MODEL, SAVED, STEPS = "mixtral", 3, 8
# What the plans cut: batch, heads, products in one, two and three dimensions, the sequence, experts, layers, and stored state; unevenly where
# nothing divides by three.
PLANS = {
    "one": ((), 1),
    "dp3": (("--dp", "3"), 3),
    "tp2": (("--tp", "2"), 2),
    "tp2d": (("--tp", "4", "--tp-mode", "2d"), 4),
    "tp3d": (("--tp", "8", "--tp-mode", "3d"), 8),
    "ring": (("--sp", "2"), 2),
    "ep4": (("--ep", "4"), 4),
    "pp2": (("--pp", "2", "--microbatches", "2"), 2),
    "zero1": (("--dp", "2", "--zero", "1"), 2),
    "tp2zero2": (("--dp", "2", "--tp", "2", "--zero", "2"), 4),
    "dp3zero3": (("--dp", "3", "--zero", "3"), 3),
    "ep2zero3": (("--dp", "2", "--ep", "2", "--zero", "3"), 4),
}
SAMPLE = ("one", "tp2zero2", "dp3zero3")  # of pairs; all of them by --all


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "plans"

    def get(plan):
        options, ranks = PLANS[plan]
        h.once(folder / plan, lambda: h.checked(h.TESSERA, "compile", h.MODELS / f"{MODEL}.onnx", "-o", folder / plan / "program",
                                                "--train", "adamw", *options))
        return h.Program(folder / plan / "program", ranks)

    return get


@pytest.fixture(scope="module")
def data():
    return h.training_data(MODEL, [*h.input_names(MODEL), "labels"])


@pytest.fixture(scope="module")
def unbroken(compiled, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    return [entry["loss"] for entry in compiled("one").train(folder, data, STEPS, "--threads", "1")]


@pytest.fixture(scope="module")
def saved(compiled, data, tmp_path_factory, worker_id):
    """Plan -> a folder with its checkpoint `new`, and the same as one file, `old`."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "saved"

    def make(plan):
        compiled(plan).train(folder / plan / "run", data, SAVED, "--threads", "1", "--checkpoint", folder / plan / "new", "--every", str(SAVED))
        (folder / plan / "old").mkdir()
        h.checked(h.TESSERA, "convert", folder / plan / "new", "--format", "safetensors", "-o", folder / plan / "old" / f"step-{SAVED}.safetensors")

    def get(plan):
        h.once(folder / plan, lambda: make(plan))
        return folder / plan

    return get


def pairs():
    for before in PLANS:
        for after in PLANS:
            marks = () if before in SAMPLE and after in SAMPLE else pytest.mark.whole
            yield pytest.param(before, after, id=f"{before} to {after}", marks=marks)


@pytest.mark.parametrize("plan", [pytest.param(plan, marks=() if plan in SAMPLE else pytest.mark.whole) for plan in PLANS])
def test_what_a_plan_writes(saved, plan):
    """Ranks share the writing; what is joined is what the manifest says, read by other means."""
    folder = c.path_of(saved(plan) / "new", SAVED)
    from safetensors.numpy import load_file

    joined, expected = load_file(saved(plan) / "old" / f"step-{SAVED}.safetensors"), c.variables_of(folder)
    assert joined.keys() == expected.keys() and all((joined[name] == expected[name]).all() for name in joined)
    sizes = [file["bytes"] - file["header_bytes"] for file in c.manifest_of(folder)["files"]]
    assert len(sizes) == PLANS[plan][1] and sum(sizes) == sum(array.nbytes for array in expected.values())
    if plan not in ("pp2", "ep4"):  # stages and experts are as large as they are
        assert max(sizes) - min(sizes) <= 2 * 16384, sizes


@pytest.mark.parametrize("before,after", list(pairs()))
def test_goes_on(compiled, data, saved, unbroken, tmp_path, before, after):
    runs = []
    for kind in ("new", "old"):
        folder, log = tmp_path / kind, tmp_path / f"{kind}.jsonl"
        arguments = compiled(after).train_arguments(tmp_path, data, STEPS, "--threads", "1", "--resume", saved(before) / kind, "--log", log,
                                                    "--checkpoint", folder, "--every", str(STEPS))
        assert "warning" not in h.checked(*compiled(after).command(*arguments)).stderr, "ranks that hold the same differ"
        runs.append(([json.loads(line)["loss"] for line in log.read_text().splitlines()], c.variables_of(c.path_of(folder, STEPS))))
    (losses, variables), (same, others) = runs
    np.testing.assert_allclose(losses, unbroken[SAVED:], rtol=1e-5)
    assert losses == same and variables.keys() == others.keys()
    for name in variables:
        np.testing.assert_array_equal(variables[name], others[name])
