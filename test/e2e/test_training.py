"""Training against torch's losses, on every mesh, in threads and under mpirun, and the options of `train`."""
import json

import numpy as np
import pytest

import harness as h

STEPS = 10
MODELS = tuple(h.FAMILIES)
# What some exports of a family fold into constants: then torch's run without training it is the reference.
FOLDED = {"t5": "relative_attention_bias", "transformer": "position.weight", "gemma2": "norm.weight"}
# The variants whose training is tried too: by default only those of GPT-2 and BERT.
OTHERS = [v for v, f in h.VARIANTS.items() if v != f]


def losses(entries):
    return np.array([e["loss"] for e in entries])


def run_name(program, variant):
    folded = FOLDED.get(h.VARIANTS[variant])
    trained = [f"{p['name']} {p.get('source')}" for p in program.info()["parameters"]["list"] if p["trained"]]
    return "adamw" if folded is None or any(folded in name for name in trained) else "adamw-folded"


def assert_losses_close(got, variant, run):
    reference = h.reference(variant)
    f32, f64 = reference[f"loss.{run}.f32"], reference[f"loss.{run}.f64"]
    allowed = np.maximum(1e-5, 4 * np.abs(f32 / f64 - 1))
    off = np.abs(got / f32 - 1)
    assert np.all(off <= allowed), f"relative differences {off}\nours  {got}\ntorch {f32}"


def train(program, variant, folder, *options, mpi=False, steps=STEPS):
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    return program.train(folder, data, steps, *options, mpi=mpi)


def mesh_cases():
    sample = {(m, "1", False) for m in MODELS}
    sample |= {("gpt2", mesh, False) for mesh in ("1", "tp4", "dp2tp2", *h.MICRO)} | {("gpt2", "dp2tp2", True)}
    sample |= {(m, "dp2tp2", True) for m in ("llama", "bert", "vit")} | {("gpt2_fresh", "tp2", False)}
    sample |= {("gpt2", mesh, False) for mesh in h.UNEVEN}
    sample |= {("llama", "tp3", False), ("llama", "tp4", False), ("vit", "dp3", False)}
    sample |= {("mlp", f"dp2zero{s}", False) for s in (1, 2, 3)} | {("gpt2", mesh, False) for mesh in ("dp2tp2zero1", "dp3zero2", "dp2zero3", "dp2micro2zero2", "dp2micro2zero3")}
    sample |= {(m, "dp2tp2zero3", m == "llama") for m in ("llama", "vit")} | {("gpt2_fresh", "dp2zero3", False)}
    sample |= {("gptneox", "dp2tp2", True), ("qwen3", "tp4", False), ("mistral", "tp2", False)}
    sample |= {("mixtral", mesh, False) for mesh in ("ep2tp2", "dp2ep2zero3", "tp2")} | {("mixtral", "dp2ep2", True)}
    sample |= {("qwen2moe", "ep4", False), ("olmoe", "dp2ep2zero3", False)}
    sample |= {("resnet", "dp2tp2", False), ("convnext", "dp2tp2", False), ("bart", "dp2tp2", False), ("bloom", "tp2", False)}
    for variant in MODELS:
        for mesh, (_, ranks) in h.meshes_of(variant, h.ALL_MESHES).items():
            if variant == "mlp" and "tp" in mesh:
                continue
            for mpi in (False, True) if ranks > 1 else (False,):
                marks = () if (variant, mesh, mpi) in sample else pytest.mark.whole
                yield pytest.param(variant, mesh, mpi, id=f"{variant}-{mesh}-{'mpi' if mpi else 'threads'}", marks=marks)


@pytest.mark.parametrize("variant,mesh,mpi", list(mesh_cases()))
def test_losses_match_torch_and_one_rank(program, tmp_path, variant, mesh, mpi):
    options = ("--train", "adamw")
    compiled = program(variant, mesh, options)
    got = losses(train(compiled, variant, tmp_path / "run", mpi=mpi))
    assert_losses_close(got, variant, run_name(compiled, variant))
    one = losses(train(program(variant, "1", options), variant, tmp_path / "one"))
    np.testing.assert_allclose(got, one, rtol=1e-5)


def test_statistics_of_the_whole_batch_forbid_microbatches(tmp_path):
    result = h.tessera("compile", h.MODELS / "resnet_train.onnx", "-o", tmp_path / "p", "--train", "adamw", "--microbatches", "2")
    h.assert_error(result, "BatchNormalization", "train without microbatches")


@pytest.mark.parametrize("variant", [
    pytest.param(v, marks=() if v in ("gpt2_dyn", "gpt2_ts", "gpt2_raw", "bert_dyn", "vit_dyn") else pytest.mark.whole)
    for v in OTHERS])
def test_variants_train_alike(program, tmp_path, variant):
    # TorchScript keeps no tie between the embedding and the head but in the values.
    compiled = program(variant, "1", ("--train", "adamw"))
    assert_losses_close(losses(train(compiled, variant, tmp_path)), variant, run_name(compiled, variant))


@pytest.mark.parametrize("variant", ["mlp", "gpt2"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd", "sgd-momentum"])
def test_optimizers(program, tmp_path, variant, optimizer):
    compiled = program(variant, "1", ("--train", optimizer))
    assert_losses_close(losses(train(compiled, variant, tmp_path)), variant, optimizer)


@pytest.mark.parametrize("mesh", ["1", "tp2"])
def test_schedule_and_clipping(program, tmp_path, mesh):
    compiled = program("gpt2", mesh, ("--train", "adamw"))
    entries = train(compiled, "gpt2", tmp_path, "--lr", "2e-3", "--min-lr", "1e-4", "--warmup", "3", "--schedule", "cosine",
                    "--clip-norm", "0.5")
    assert_losses_close(losses(entries), "gpt2", "cosine-clip")
    norms = [e["grad_norm"] for e in entries]
    np.testing.assert_allclose(norms, h.reference("gpt2")["norm.cosine-clip.f64"], rtol=1e-4)
    rates = [e["lr"] for e in entries]
    np.testing.assert_allclose(rates[:3], [2e-3 / 3, 4e-3 / 3, 2e-3], rtol=1e-6)
    assert rates[-1] == pytest.approx(1e-4, rel=1e-6) and entries[0]["tokens"] == 4 * 32


def test_mean_square_error(program, tmp_path):
    compiled = program("mlp", "1", ("--train", "adamw", "--loss", "mse:logits"))
    entries = compiled.train(tmp_path, h.training_data("mlp", ["x", "target"]), STEPS)
    assert_losses_close(losses(entries), "mlp", "mse")


def test_scalar_output_as_loss(tmp_path):
    """A model whose own output is the loss: mean square error written in ONNX."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(h.MODELS / "mlp.onnx")
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("wanted", TensorProto.FLOAT, [12, 10]))
    graph.node.append(helper.make_node("Sub", ["logits", "wanted"], ["difference"], name="difference"))
    graph.node.append(helper.make_node("Mul", ["difference", "difference"], ["square"], name="square"))
    graph.node.append(helper.make_node("ReduceMean", ["square"], ["my_loss"], keepdims=0, name="mean"))
    graph.output.append(helper.make_tensor_value_info("my_loss", TensorProto.FLOAT, []))
    onnx.save(model, tmp_path / "m.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / "p", "--train", "adamw", "--loss", "my_loss")
    data = h.training_data("mlp", ["x", "target"])
    data["wanted"] = data.pop("target")
    assert_losses_close(losses(h.Program(tmp_path / "p", 1).train(tmp_path / "run", data, STEPS)), "mlp", "mse")


def test_same_bits_again_and_under_mpirun(program, tmp_path):
    compiled = program("gpt2", "dp2tp2", ("--train", "adamw"))
    texts = []
    for name, mpi in (("a", False), ("b", False), ("c", True)):
        folder = tmp_path / name
        entries = train(compiled, "gpt2", folder, "--threads", "1", "--save", folder / "s.safetensors", mpi=mpi, steps=3)
        texts.append((losses(entries).tobytes(), (folder / "s.safetensors").read_bytes()))
    assert texts[0] == texts[1], "two runs in threads differ"
    assert texts[0] == texts[2], "threads and mpirun differ"


@pytest.mark.parametrize("variant", ["gpt2", "gpt2_fresh", "llama", "bert", "vit"])
def test_saved_weights(program, tmp_path, variant):
    """The same names, shapes and (to rounding) values whatever the mesh; they load into programs of another mesh."""
    from safetensors.numpy import load_file

    options = ("--train", "adamw")
    one, many = program(variant, "1", options), program(variant, "dp2tp2", options)
    saved = {}
    for name, compiled in (("one", one), ("many", many)):
        train(compiled, variant, tmp_path / name, "--save", tmp_path / f"{name}.safetensors", steps=3)
        saved[name] = load_file(tmp_path / f"{name}.safetensors")
    initial = load_file(f"{one.path}.safetensors")
    shapes = lambda arrays: {k: (v.shape, v.dtype) for k, v in arrays.items()}
    listed = {p["name"]: tuple(p["shape"]) for p in one.info()["parameters"]["list"]}
    # The file beside the executable holds the program's constants as well.
    parameters = {name: array for name, array in initial.items() if name in listed}
    assert shapes(saved["one"]) == shapes(saved["many"]) == shapes(parameters)
    assert {k: v.shape for k, v in saved["one"].items()} == listed
    inputs = h.model_inputs(variant, h.input_names(variant))
    first = many.infer(tmp_path / "i1", inputs, "--weights", tmp_path / "one.safetensors")
    second = one.infer(tmp_path / "i2", inputs, "--weights", tmp_path / "one.safetensors")
    h.assert_outputs_close(first, second)
    before = one.infer(tmp_path / "i3", inputs)
    assert np.abs(before["logits"] - second["logits"]).max() > 1e-2, "training changed nothing"


def test_saved_weights_leave_constants(program, tmp_path):
    """They hold parameters alone; a program's constants (Gemma's mask) come from the file beside it."""
    compiled = program("gemma2", "1", ("--train", "sgd"))
    train(compiled, "gemma2", tmp_path, "--lr", "0", "--save", tmp_path / "s.safetensors", steps=1)
    inputs = h.model_inputs("gemma2", ["input_ids"])
    h.assert_outputs_close(compiled.infer(tmp_path / "given", inputs, "--weights", tmp_path / "s.safetensors"), compiled.infer(tmp_path / "own", inputs))


def test_saved_weights_are_torchs(program, tmp_path):
    from safetensors.numpy import load_file

    compiled = program("mlp", "1", ("--train", "adamw"))
    train(compiled, "mlp", tmp_path, "--save", tmp_path / "s.safetensors")
    expected = h.part(h.reference("mlp"), "param.")
    saved = load_file(tmp_path / "s.safetensors")
    assert saved.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(saved[name], array, rtol=1e-4, atol=2e-6, err_msg=name)


def test_trainable_and_frozen(program, tmp_path):
    from safetensors.numpy import load_file

    compiled = program("gpt2", "tp2", ("--train", "sgd", "--frozen", "*", "--trainable", "*.mlp.*", "--frozen", "*.bias"))
    train(compiled, "gpt2", tmp_path, "--save", tmp_path / "s.safetensors", steps=2)
    before, after = load_file(f"{compiled.path}.safetensors"), load_file(tmp_path / "s.safetensors")
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {n for n in before if ".mlp." in n and not n.endswith(".bias")}
    trained = {p["name"] for p in compiled.info()["parameters"]["list"] if p["trained"]}
    assert trained == changed


def test_as_written_leaves_merged_parameters_merged(program):
    restored = program("gpt2_fresh", "1", ("--train", "adamw")).info()["parameters"]
    written = program("gpt2_fresh", "1", ("--train", "adamw", "--as-written")).info()["parameters"]
    assert restored["tensors"] == 28 and written["tensors"] == 12
    assert "transformer.ln_f.weight" in {p["name"] for p in restored["list"]}


def test_weights_saved_as_written_load_into_all_copies(program, tmp_path):
    written = program("gpt2_fresh", "1", ("--train", "adamw", "--as-written"))
    train(written, "gpt2_fresh", tmp_path, "--save", tmp_path / "s.safetensors", steps=2)
    inputs = h.model_inputs("gpt2_fresh", ["input_ids"])
    weights = ("--weights", tmp_path / "s.safetensors")
    a = written.infer(tmp_path / "a", inputs, *weights)
    b = program("gpt2_fresh", "tp2", ("--train", "adamw")).infer(tmp_path / "b", inputs, *weights)
    h.assert_outputs_close(b, a)


def test_tokens_file(program, tmp_path):
    """`--tokens` gives inputs and labels shifted by one, as the same arrays by `--data` do."""
    tokens = np.random.default_rng(5).integers(0, 160, 12 * 32 + 1 + 20).astype("<u2")
    tokens.tofile(tmp_path / "tokens.bin")
    log = tmp_path / "log.jsonl"
    compiled = program("gpt2_mask", "1", ("--train", "adamw"))
    h.checked(*compiled.command("train", "--tokens", tmp_path / "tokens.bin", "--steps", "4", "--log", log))
    got = losses([json.loads(line) for line in log.read_text().splitlines()])
    samples = 12
    ids = np.stack([tokens[i * 32:i * 32 + 32] for i in range(samples)]).astype(np.int64)
    labels = np.stack([tokens[i * 32 + 1:i * 32 + 33] for i in range(samples)]).astype(np.int64)
    data = {"input_ids": ids, "labels": labels, "attention_mask": np.ones_like(ids)}
    np.testing.assert_array_equal(got, losses(compiled.train(tmp_path / "run", data, 4)))
    tokens.astype("<u4").tofile(tmp_path / "tokens32.bin")
    h.checked(*compiled.command("train", "--tokens", tmp_path / "tokens32.bin", "--token-type", "u32", "--steps", "4", "--log",
                                log))
    np.testing.assert_array_equal(got, losses([json.loads(line) for line in log.read_text().splitlines()]))


def test_shuffle_depends_on_the_seed_alone(program, tmp_path):
    compiled = program("gpt2", "1", ("--train", "adamw"))
    runs = {key: losses(train(compiled, "gpt2", tmp_path / str(i), "--shuffle", "--seed", key, steps=3))
            for i, key in enumerate(("1", "2"))}
    again = losses(train(compiled, "gpt2", tmp_path / "again", "--shuffle", "--seed", "1", steps=3))
    assert np.array_equal(runs["1"], again) and not np.array_equal(runs["1"], runs["2"])


@pytest.mark.parametrize("reduction,options,works", [("mean", "--microbatches 2", True), ("mean", "--dp 2 --microbatches 2 --zero 2", True),
                                                     ("sum", "--microbatches 2", True), ("half", "--microbatches 2", False)])
def test_microbatches_of_a_models_own_loss(tmp_path, reduction, options, works):
    """The mean over labels, of which a microbatch may have more than another that count, and a sum are added up; what else a model makes of them may not
    be."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 5)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"], name="scores"),
             helper.make_node("Transpose", ["scores"], ["classes"], perm=[0, 2, 1]),
             helper.make_node("SoftmaxCrossEntropyLoss", ["classes", "targets"], ["mean" if reduction == "half" else "loss"], name="loss",
                              reduction="sum" if reduction == "sum" else "mean", ignore_index=1)]
    if reduction == "half":
        nodes.append(helper.make_node("Sqrt", ["mean"], ["loss"], name="half"))
    graph = helper.make_graph(nodes, "own", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6, 8]),
                                             helper.make_tensor_value_info("targets", TensorProto.INT64, [4, 6])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    data = {"x": rng.standard_normal((8, 6, 8)).astype(np.float32), "targets": rng.integers(0, 5, (8, 6))}
    data["targets"][0, :5] = 1
    found = []
    for name, more in [("one", ""), ("cut", options)]:
        result = h.tessera("compile", tmp_path / "m.onnx", "-o", tmp_path / name, "--train", "sgd", "--loss", "loss", *more.split())
        if name == "cut" and not works:
            assert result.returncode == 1 and "a sum over rows of the batch or the mean cross entropy of labels" in result.first_error, result.stderr
            return
        assert result.returncode == 0, result.stderr
        ranks = 2 if "--dp" in more else 1
        found.append(losses(h.Program(tmp_path / name, ranks).train(tmp_path / f"run {name}", data, 4, "--lr", "0.1")))
    assert found[0][0] != found[0][2]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_product_of_zeros_has_a_gradient(tmp_path):
    """Of a product's only zero it is the product of the others; beside a second zero it is zero. As torch.prod's."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file

    w = np.array([[0, 2, 3], [4, 5, 6], [0, 7, 0]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["z", "w"], ["s"]), helper.make_node("ReduceProd", ["s", "axes"], ["y"], keepdims=0)], "g",
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, w.shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array([1]), "axes")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / "program", "--train", "sgd", "--loss", "mse:y", "--trainable", "*")
    np.save(tmp_path / "z.npy", np.ones_like(w))
    np.save(tmp_path / "t.npy", np.full(3, 1, np.float32))
    h.checked(tmp_path / "program", "train", "--data", f"z={tmp_path / 'z.npy'}", "--data", f"target={tmp_path / 't.npy'}", "--steps", "1", "--lr", "0.001",
              "--weight-decay", "0", "--save", tmp_path / "s.safetensors")
    others = np.array([[6, 0, 0], [30, 24, 20], [0, 0, 0]], np.float32)
    slope = 2 / 3 * (w.prod(axis=1) - 1)[:, None] * others
    np.testing.assert_allclose(load_file(tmp_path / "s.safetensors")["w"], w - 0.001 * slope, rtol=1e-6)
