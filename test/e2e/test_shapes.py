"""Models without their weights: what shapes.py writes loads, and all that needs no values does without them."""
import json
import subprocess
import sys

import onnx
import pytest

import harness as h

# Published numbers of parameters; of Mixtral and Llama what `transformers` counts.
PARAMETERS = {"gpt2": 124439808, "gpt2-xl": 1557611200, "llama-8b": 8030261248, "mixtral": 46702792704, "bert": 109514298, "vit": 86567656,
              "blocks": 12 * (12 * 768**2 + 13 * 768), "linear": 2 * 1024 * 4096 + 5 * 1024}
BATCH = ("--bind", "batch=2")
BINDS = {name: BATCH if name in ("vit", "linear") else (*BATCH, "--bind", "seq=64") for name in PARAMETERS}
# With dimensions to bind: those of fixed sizes have masks among their data.
EXTERNAL = ("gpt2_dyn_nomask", "vit_ts_dyn", "resnet_dyn")


def shapes(name, path, *options):
    return subprocess.run([sys.executable, h.MODELS / "shapes.py", name, path, *options], check=True, capture_output=True, text=True).stdout


def external(variant, folder, threshold=1024):
    """The model with its data in `weights.bin`; with 0 of all tensors, small constants too."""
    onnx.save(onnx.load(h.MODELS / f"{variant}.onnx"), folder / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=threshold)
    return folder / "m.onnx", folder / "weights.bin"


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_shape_has_its_models_parameters(name, tmp_path):
    assert shapes(name, tmp_path / "m.onnx") == f"{tmp_path / 'm.onnx'}: {PARAMETERS[name]} parameters\n"
    with open(tmp_path / "m.onnx.data", "wb") as data:  # of holes; the checker wants it
        data.truncate(4 * PARAMETERS[name])
    onnx.checker.check_model(tmp_path / "m.onnx")


def test_a_shape_with_other_sizes(tmp_path):
    said = shapes("blocks", tmp_path / "m.onnx", "--layers", "2", "--width", "64", "--hidden", "128", "--heads", "4")
    assert said == f"{tmp_path / 'm.onnx'}: {2 * (4 * 64 * 65 + 2 * 64 * 128 + 128 + 5 * 64)} parameters\n"


@pytest.mark.parametrize("name", ("gpt2", "llama-8b", "mixtral", "bert", "vit", "blocks"))
def test_a_shape_is_planned_and_simulated(name, tmp_path):
    shapes(name, tmp_path / "m.onnx", "--layers", "2")
    options = (tmp_path / "m.onnx", *BINDS[name], "--tp", "2")
    plan = h.checked(h.TESSERA, "plan", *options)
    assert 'pattern = "column"' in plan.stdout and 'pattern = "row"' in plan.stdout
    assert "external data 'm.onnx.data' is missing, which an executable needs" in plan.stderr
    step = json.loads(h.checked(h.TESSERA, "simulate", *options, "--train", "adamw", "--json").stdout)
    assert step["ranks"] == 2 and step["seconds"] > 0


def test_the_experts_of_a_shape_are_found_and_trained(tmp_path):
    shapes("mixtral", tmp_path / "m.onnx", "--layers", "1")
    model = (tmp_path / "m.onnx", *BINDS["mixtral"])
    plan = h.checked(h.TESSERA, "plan", *model, "--ep", "2")
    assert 'pattern = "expert"' in plan.stdout
    step = json.loads(h.checked(h.TESSERA, "simulate", *model, "--train", "adamw", "--json").stdout)
    device = step["memory"][0]["device"]
    assert 1.99 * device["parameters"] < device["optimizer"] <= 2 * device["parameters"]


@pytest.mark.parametrize("variant", EXTERNAL)
@pytest.mark.parametrize("command", (("plan",), ("explain",), ("simulate", "--train", "adamw", "--json"), ("compile", "--to", "memory"),
                                     ("compile", "--to", "lower")), ids=" ".join)
def test_absent_data_changes_nothing_but_a_note(variant, command, tmp_path):
    model, data = external(variant, tmp_path)
    arguments = (*command, model, *h.bindings(variant), "--dp", "2", "--threads", "1")
    with_data = h.checked(h.TESSERA, *arguments)
    data.unlink()
    without = h.checked(h.TESSERA, *arguments)
    assert without.stdout == with_data.stdout
    notes = [line for line in without.stderr.splitlines() if "is missing, which an executable needs" in line]
    assert len(notes) == 1 and notes[0].startswith("note: ") and "external data 'weights.bin'" in notes[0]
    assert [line for line in without.stderr.splitlines() if line not in notes] == with_data.stderr.splitlines()


def test_text_of_absent_data_has_no_weights(tmp_path):
    model, data = external("mlp", tmp_path)
    data.unlink()
    h.checked(h.TESSERA, "compile", model, "--to", "normalize", "-o", tmp_path / "m.mlir")
    assert not (tmp_path / "m.mlir.safetensors").exists()
    h.checked(h.TESSERA, "compile", tmp_path / "m.mlir", "--to", "memory", "-o", tmp_path / "memory.mlir")
    h.compile_fails(tmp_path, tmp_path / "m.mlir", words=["the weights hold no values for"])


def test_what_needs_values_does_not_do_without(tmp_path):
    model, data = external("gpt2", tmp_path)
    data.unlink()
    h.compile_fails(tmp_path, model, words=["cannot open external data 'weights.bin' in"])
    for command in (("verify", model), ("convert", model, "--format", "mlir", "-o", tmp_path / "c.mlir")):
        h.assert_error(h.tessera(*command), "external data 'weights.bin'")


@pytest.mark.parametrize("command", ("plan", "simulate", "explain"))
def test_data_that_is_wrong_is_not_absent(command, tmp_path):
    model, data = external("gpt2", tmp_path)
    size = data.stat().st_size
    with open(data, "r+b") as file:
        file.truncate(size - 1)
    h.assert_error(h.tessera(command, model), "the file is truncated or another one")
    data.unlink()
    data.symlink_to("/nowhere/weights.bin")
    h.assert_error(h.tessera(command, model), "cannot open external data 'weights.bin' in")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "sub").symlink_to(tmp_path)
    proto = onnx.load(model, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "sub/absent.bin"
    (tmp_path / "m" / "m.onnx").write_bytes(proto.SerializeToString())
    h.assert_error(h.tessera(command, tmp_path / "m" / "m.onnx"), "external data 'sub/absent.bin' is a link to")


def test_a_constant_that_must_be_known_is_named(tmp_path):
    model, data = external("gpt2", tmp_path)
    h.checked(h.TESSERA, "plan", model)
    data.unlink()
    h.assert_error(h.tessera("plan", model), "'val_161' is no parameter: it must be known at compile time, and its external data 'weights.bin' is missing")
