"""convert: trained weights for torch, and models with their plan."""
import json
import re

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

import harness as h

MLP = h.MODELS / "mlp.onnx"
ADAMW = ("--train", "adamw")


def saved(program, folder, variant, mesh="1", steps=2, options=()):
    """What an executable saves after some steps of training."""
    compiled = program(variant, mesh, ADAMW)
    names = [i["name"] for i in compiled.info()["inputs"]]
    path = folder / "trained.safetensors"
    compiled.train(folder / "run", h.training_data(variant, names), steps, "--save", path, *options)
    return path, compiled


def to_torch(folder, weights, variant, *options):
    out = folder / "torch.safetensors"
    result = h.checked(h.TESSERA, "convert", weights, "--model", h.MODELS / f"{variant}.onnx", "--format", "torch", "-o", out, *options)
    return load_file(out), result


def signature(variant):
    """The names of the torch module's parameters, as the file's metadata has them."""
    graph = onnx.load(h.MODELS / f"{variant}.onnx").graph
    text = next(p.value for p in graph.metadata_props if p.key.endswith("graph_signature"))
    return set(re.findall(r": PARAMETER target='([^']*)'", text))


def test_trained_weights_are_torchs_own(program, tmp_path):
    """The parameters after ten steps are those that torch has after ten steps, by name and shape."""
    path, _ = saved(program, tmp_path, "mlp", "dp2tp2", 10, ("--lr", "1e-3"))
    state, _ = to_torch(tmp_path, path, "mlp")
    expected = h.part(h.reference("mlp"), "param.")
    assert state.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(state[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("variant", ["gpt2", "gpt2_fresh"])
def test_names_and_shapes_are_the_modules(program, tmp_path, variant):
    """gpt2_raw was exported without optimization: its initializers are the module's parameters."""
    path, _ = saved(program, tmp_path, variant)
    state, _ = to_torch(tmp_path, path, variant)
    raw = {t.name: tuple(t.dims) for t in onnx.load(h.MODELS / "gpt2_raw.onnx").graph.initializer}
    assert state.keys() == signature(variant)
    for name, array in state.items():
        assert array.shape == raw["lm_head.weight" if name == "transformer.wte.weight" else name], name
    np.testing.assert_array_equal(state["transformer.wte.weight"], state["lm_head.weight"])


@pytest.mark.parametrize("variant", ["llama", "bert", "vit"])
def test_every_value_is_the_saved_one_turned_back(program, tmp_path, variant):
    path, compiled = saved(program, tmp_path, variant)
    trained = load_file(path)
    state, result = to_torch(tmp_path, path, variant)
    parameters = compiled.info()["parameters"]["list"]
    assert any(p["transposed"] for p in parameters)
    for p in parameters:
        expected = trained[p["name"]].T if p["transposed"] else trained[p["name"]]
        np.testing.assert_array_equal(state[p["source"]], expected, err_msg=p["source"])
    # BERT's head has a bias of its own besides its product's, tied to that by no operator of the file.
    absent = {"cls.predictions.bias"} if variant == "bert" else set()
    assert signature(variant) - state.keys() == absent
    assert ("1 tensors of the framework's module are not written, since the model has no parameter for them: 'cls.predictions.bias'"
            in result.stderr) == bool(absent)


def test_names_that_the_file_does_not_tell_stay_and_are_noted(program, tmp_path):
    path, _ = saved(program, tmp_path, "llama_ts")
    state, result = to_torch(tmp_path, path, "llama_ts")
    assert state.keys() == load_file(path).keys() \
        and "the model does not tell the framework's names and shapes of 21 parameters, which keep their own" in result.stderr


def test_tensors_of_others_are_left_out(tmp_path):
    names = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(MLP).graph.initializer}
    save_file(names | {"other": np.zeros(2, np.float32)}, tmp_path / "w.safetensors")
    state, result = to_torch(tmp_path, tmp_path / "w.safetensors", "mlp")
    assert "other" not in state and "1 tensors are not of this model and are left out: 'other'" in result.stderr


def test_a_model_without_parameters_takes_no_weights(tmp_path):
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    save_file({"w": np.zeros(2, np.float32)}, tmp_path / "w.safetensors")
    result = h.tessera("convert", tmp_path / "w.safetensors", "--model", tmp_path / "m.onnx", "--format", "torch", "-o", tmp_path / "out")
    h.assert_error(result, "the model has no parameters; text takes weights up to phase partition")


def test_weights_of_another_model(program, tmp_path):
    path, _ = saved(program, tmp_path, "mlp")
    out = tmp_path / "x.safetensors"
    result = h.tessera("convert", path, "--model", h.MODELS / "gpt2.onnx", "--format", "torch", "-o", out)
    h.assert_error(result, "lack", "they hold others, such as", "fc1.weight")
    assert not out.exists()


@pytest.mark.parametrize("arguments,words", [
    ((MLP, "--format", "torch", "-o", "x"), ("--model MODEL",)), ((MLP, "--format", "pytorch", "-o", "x"), ("--format=pytorch", "torch")),
    ((MLP, "--format", "mlir"), ("-o OUT",)), ((MLP, "--model", MLP, "--format", "mlir", "-o", "x"), ("--model",)),
])
def test_wrong_usage(arguments, words):
    h.assert_error(h.tessera("convert", *arguments), *words, status=2)


def test_text_with_the_plan_compiles_to_the_same_program(tmp_path):
    options = ("--dp", "2", "--tp", "2", *ADAMW)
    model = h.MODELS / "gpt2.onnx"
    h.checked(h.TESSERA, "convert", model, *options, "--format", "mlir", "-o", tmp_path / "t.mlir")
    text = (tmp_path / "t.mlir").read_text()
    assert 'dist.pattern = #dist.pattern<"column", ["tensor"]>' in text and '["data"]' in text
    for source, extra in ((model, options), (tmp_path / "t.mlir", ())):
        h.checked(h.TESSERA, "compile", source, *extra, "--to", "lower", "-o", tmp_path / f"{source.suffix}.json")
    programs = [json.loads((tmp_path / f"{s}.json").read_text()) for s in (".onnx", ".mlir")]
    assert programs[0] == programs[1]


def test_text_takes_trained_weights(program, tmp_path):
    path, _ = saved(program, tmp_path, "mlp")
    h.checked(h.TESSERA, "convert", MLP, "--weights", path, "--format", "mlir", "-o", tmp_path / "t.mlir")
    trained, written = load_file(path), load_file(tmp_path / "t.mlir.safetensors")
    for name, array in trained.items():
        np.testing.assert_array_equal(written[name], array)


def test_text_without_a_training_program_is_not_trained(tmp_path):
    h.checked(h.TESSERA, "convert", MLP, "--tp", "2", "--format", "mlir", "-o", tmp_path / "t.mlir")
    result = h.tessera("compile", tmp_path / "t.mlir", *ADAMW, "-o", tmp_path / "p")
    h.assert_error(result, "without a training program", "--train adamw")
