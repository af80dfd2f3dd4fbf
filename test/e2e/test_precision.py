"""Computing in bf16 and f16: losses near those of f32, alike on every mesh, memory as promised and less; steps left out where f16 overflows."""
import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import checkpoint_files
import harness as h
import test_cuda

STEPS = 10
TYPES = ("bf16", "f16")
SCALE = {"bf16": (), "f16": ("--loss-scale", "4096")}  # leaves no first step out, as 65536 does with the ViT's large gradients
ROUNDING = {"bf16": 2.0**-9, "f16": 2.0**-12}  # half a unit in the last place


def losses(entries):
    return np.array([entry["loss"] for entry in entries])


def compiled(program, variant, dtype, *options):
    return program(variant, "1", ("--train", "adamw", *(("--dtype", dtype) if dtype != "f32" else ()), *options))


def train(program, variant, dtype, folder, *options, steps=STEPS, arguments=()):
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    return compiled(program, variant, dtype, *options).train(folder, data, steps, *arguments)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", ["mlp", pytest.param("gpt2", marks=pytest.mark.whole)])
def test_outputs(program, tmp_path, variant, dtype):
    inputs = h.model_inputs(variant, h.input_names(variant))
    exact = compiled(program, variant, "f32").infer(tmp_path / "f32", inputs)
    got = compiled(program, variant, dtype).infer(tmp_path / dtype, inputs)
    assert got.keys() == exact.keys()
    for name, array in exact.items():
        assert got[name].dtype == (np.float32 if dtype == "bf16" else np.float16)
        assert np.abs(got[name] - array).max() <= 1e-2 * np.abs(array).max()
        assert np.abs(got[name] - array).max() > 0, "computed in f32"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", [
    pytest.param(v, marks=() if v in ("gpt2", "llama") else pytest.mark.whole) for v in ("gpt2", "llama", "bert", "vit", "t5", "mixtral", "resnet")])
def test_losses_are_near_those_of_f32(program, tmp_path, variant, dtype):
    entries = train(program, variant, dtype, tmp_path / dtype, arguments=SCALE[dtype])
    np.testing.assert_allclose(losses(entries), losses(train(program, variant, "f32", tmp_path / "f32")), rtol=1e-2)
    assert all(("loss_scale" in entry) == (dtype == "f16") for entry in entries)


MESHES = {
    "tp2": ("--tp", "2"), "dp2": ("--dp", "2"), "zero3": ("--dp", "2", "--zero", "3"), "pp2": ("--pp", "2", "--microbatches", "2"),
    "2d": ("--tp", "4", "--tp-mode", "2d"), "ring2": ("--sp", "2"), "micro2": ("--microbatches", "2"), "megatron": ("--tp", "2", "--sp-mode", "megatron"),
}


@pytest.mark.parametrize("variant,mesh,dtype", [
    pytest.param(v, m, d, marks=() if v == "gpt2" and (d == "bf16" or m == "pp2") else pytest.mark.whole)
    for v in ("gpt2", "llama") for m in MESHES for d in TYPES])
def test_every_mesh_gives_the_losses_of_one_rank(program, tmp_path, variant, mesh, dtype):
    """Sums are cut in other places, so that other values are rounded: each loss is off by a few roundings of what leads to it, and ten updates
    with AdamW, which looks at signs where gradients are small, carry that on. Four units in the last place hold both."""
    got = train(program, variant, dtype, tmp_path / mesh, *MESHES[mesh])
    one = train(program, variant, dtype, tmp_path / "one")
    np.testing.assert_allclose(losses(got), losses(one), rtol=8 * ROUNDING[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mesh", ["one", "tp2", "zero3"])
def test_memory_and_bytes_are_as_promised_and_less(program, tmp_path, mesh, dtype):
    options = MESHES.get(mesh, ())
    half, full = compiled(program, "gpt2", dtype, *options), compiled(program, "gpt2", "f32", *options)
    stats = tmp_path / "stats.json"
    train(program, "gpt2", dtype, tmp_path, *options, steps=2, arguments=("--stats", stats))
    promised, measured = half.info("train"), json.loads(stats.read_text())
    assert promised["dtype"] == measured["dtype"] == dtype
    assert [m["device"]["peak"] for m in promised["memory"]] == [m["device"]["peak"] for m in measured["memory"]]
    assert promised["sent"] == measured["sent"]
    assert promised["memory"][0]["device"]["activations"] < full.info("train")["memory"][0]["device"]["activations"]
    if mesh == "tp2":  # activations are exchanged as they are
        bytes_of = lambda p: p.info("infer")["sent"]["tensor"]["all_reduce"]["bytes"]
        assert bytes_of(half) <= 0.6 * bytes_of(full)


@pytest.mark.parametrize("mesh", ["one", "tp2", "pp2", "zero3"])
def test_overflow_leaves_the_step_out_on_every_rank(program, tmp_path, mesh):
    from safetensors.numpy import load_file

    options, program_ = MESHES.get(mesh, ()), compiled(program, "gpt2", "f16", *MESHES.get(mesh, ()))
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    log, saved = tmp_path / "log.jsonl", tmp_path / "saved.safetensors"
    arguments = program_.train_arguments(tmp_path, data, 2, "--loss-scale", "1e9", "--log", log, "--checkpoint", tmp_path / "c", "--every", "2", "--save", saved)
    result = h.run(*program_.command(*arguments))
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(e["skipped"], e["loss_scale"], e["grad_norm"]) for e in entries] == [(True, 1e9, None), (True, 5e8, None)]
    before, after = load_file(f"{program_.path}.safetensors"), checkpoint_files.variables_of(checkpoint_files.path_of(tmp_path / "c", 2))
    assert all(np.array_equal(before[name], after[name]) for name in before if name in after), "something changed"
    # Nothing was learned: that is no success, and nothing is saved as if it were.
    h.assert_error(result, "nothing was learned", "of 2 steps all were left out", "1e+09 to 5e+08", "--loss-scale (65536 is the default)")
    assert not saved.exists()


def test_a_scale_that_is_too_large_for_a_whole_run(program, tmp_path):
    """147 halvings lead from the largest number to one that fits. A resumed run counts its own steps."""
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    program_ = compiled(program, "mlp", "f16")

    def run(steps, *options):
        return h.run(*program_.command(*program_.train_arguments(tmp_path, data, steps, "--checkpoint", tmp_path / "c", "--every", "5", *options)))
    h.assert_error(run(5, "--loss-scale", "1e38"), "nothing was learned", "1e+38")
    h.assert_error(run(10, "--resume", tmp_path / "c"), "nothing was learned", "of 5 steps", "3.125e+36")
    assert run(200, "--resume", tmp_path / "c").returncode == 0
    h.assert_error(run(1, "--loss-scale", "1e38"), "of 1 step all were")
    assert run(0, "--loss-scale", "1e38").returncode == 0


def test_scale_goes_on_from_a_checkpoint(program, tmp_path):
    def run(name, steps, *arguments):
        return train(program, "mlp", "f16", tmp_path / name, steps=steps, arguments=("--loss-scale", "524288", *arguments))
    checkpoint = tmp_path / "checkpoint"
    whole = run("whole", 8)
    assert whole[0]["skipped"] and not whole[-1]["skipped"], "expected to find a scale that fits"
    run("first", 4, "--checkpoint", checkpoint, "--every", "4")
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    program_ = compiled(program, "mlp", "f16")
    arguments = program_.train_arguments(tmp_path / "rest", data, 8, "--resume", checkpoint, "--log", tmp_path / "rest.jsonl")
    h.checked(program_.path, *arguments)
    rest = [json.loads(line) for line in (tmp_path / "rest.jsonl").read_text().splitlines()]
    key = lambda e: (e["step"], e["loss"], e["loss_scale"], e["skipped"])
    assert [key(e) for e in rest] == [key(e) for e in whole[4:]]


def test_the_plan_says_it_too(program, tmp_path):
    plan = tmp_path / "plan.toml"
    model = h.MODELS / "mlp.onnx"
    plan.write_text(h.checked(h.TESSERA, "plan", model, "--dtype", "bf16").stdout)
    assert 'compute = "bf16"' in plan.read_text()
    h.checked(h.TESSERA, "compile", model, "-o", tmp_path / "p", "--plan", plan)
    assert h.Program(tmp_path / "p", 1).info()["dtype"] == "bf16"
    h.assert_error(h.tessera("compile", model, "-o", tmp_path / "q", "--plan", plan, "--dtype", "f16"), "--dtype=f16", 'compute = "bf16"')
    text = tmp_path / "text.mlir"
    h.checked(h.TESSERA, "compile", model, "--train", "sgd", "--to", "differentiate", "-o", text)
    h.assert_error(h.tessera("compile", text, "-o", tmp_path / "q", "--dtype", "bf16"), "computes in f32 and cannot change to bf16")


def test_wrong_types_and_scales(program, tmp_path):
    h.assert_error(h.tessera("compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", "--dtype", "f8"), "--dtype=f8", "f32, bf16 or f16", status=2)
    path = compiled(program, "mlp", "bf16").path
    given = ("train", "--steps", "1", "--data", "x=x.npy", "--loss-scale")
    h.assert_error(h.run(path, *given, "8"), "--loss-scale", "computes in bf16", status=2)
    for scale in ("0", "1e-7", "1e39", "inf"):
        h.assert_error(h.run(path, *given, scale), f"--loss-scale {scale}" if scale != "inf" else "'inf'", status=2)


def in_f16(path):
    """A model whose weights, inputs and arithmetic are f16, as converters make them."""
    model = onnx.load(path)
    narrow = lambda tensor: tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            narrow(tensor)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.FLOAT16
            if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == onnx.TensorProto.FLOAT:
                narrow(attribute.t)
    return model


@pytest.mark.parametrize("variant", ["mlp", pytest.param("vit", marks=pytest.mark.whole)])
def test_a_model_in_f16_stays_so(program, tmp_path, variant):
    """Without --dtype. Trained parameters are f32 all the same, and saved so."""
    from safetensors.numpy import load_file

    model, half = tmp_path / "half.onnx", lambda arrays: {name: a.astype(np.float16) if a.dtype == np.float32 else a for name, a in arrays.items()}
    onnx.save(in_f16(h.MODELS / f"{variant}.onnx"), model)
    inputs, data = h.model_inputs(variant, h.input_names(variant)), h.training_data(variant, [*h.input_names(variant), "labels"])
    for options in ((), ("--train", "adamw")):
        h.checked(h.TESSERA, "compile", model, "-o", tmp_path / "p", *options)
        ours = h.Program(tmp_path / "p", 1)
        assert ours.info()["dtype"] == "f16"
        got, exact = ours.infer(tmp_path / "infer", half(inputs)), compiled(program, variant, "f32").infer(tmp_path / "f32", inputs)
        for name, array in exact.items():
            assert got[name].dtype == np.float16 and 0 < np.abs(got[name] - array).max() <= 1e-2 * np.abs(array).max()
    h.checked(h.TESSERA, "compile", model, "-o", tmp_path / "other", "--dtype", "bf16")
    other = h.Program(tmp_path / "other", 1)
    assert other.info()["dtype"] == "bf16"
    for name, array in other.infer(tmp_path / "bf16", half(inputs)).items():
        assert 0 < np.abs(array - got[name]).max() <= 2e-2 * np.abs(got[name]).max()
    entries = ours.train(tmp_path / "train", half(data), STEPS, *SCALE["f16"], "--save", tmp_path / "saved.safetensors")
    np.testing.assert_allclose(losses(entries), losses(train(program, variant, "f32", tmp_path / "exact")), rtol=1e-2)
    assert all("loss_scale" in entry for entry in entries)
    assert {array.dtype for name, array in load_file(tmp_path / "saved.safetensors").items() if name.endswith(".weight")} == {np.dtype(np.float32)}


@pytest.mark.parametrize("variant,dtype", [
    pytest.param(v, d, marks=() if v == "mlp" or (v, d) == ("bert", "bf16") else pytest.mark.whole) for v in ("mlp", "gpt2", "bert") for d in TYPES])
def test_a_gpu_gives_the_cpus_losses(program, tmp_path, variant, dtype):
    """Sums are added in another order, and an activation behind a product sees the sum before or after it is rounded."""
    options = ("--train", "adamw", "--dtype", dtype)
    gpu, cpu = (run(program, variant, tmp_path / run.__name__, options) for run in (test_cuda.train_on_gpu, test_cuda.train_on_cpu))
    np.testing.assert_allclose(losses(gpu), losses(cpu), rtol=ROUNDING[dtype])
    assert [e.get("skipped") for e in gpu] == [e.get("skipped") for e in cpu]
