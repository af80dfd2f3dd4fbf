"""Dropout and random values: the same on every mesh, equal to their definition, and gone from inference."""
import json

import numpy as np
import pytest

import gpu
import harness as h

STEPS = 6


def mulhilo(a, b):
    product = np.uint64(a) * b.astype(np.uint64)
    return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)


def philox(counter, key):
    """Philox4x32-10 of arrays of counters (Salmon et al. 2011); `key` has 64 bits."""
    c, k = [np.asarray(x, np.uint32) for x in counter], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        (h0, l0), (h1, l1) = mulhilo(0xD2511F53, c[0]), mulhilo(0xCD9E8D57, c[2])
        c = [h1 ^ c[1] ^ np.uint32(k[0]), l1, h0 ^ c[3] ^ np.uint32(k[1]), l0]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(shape, seed, step, id):
    """The words of all elements of an operator."""
    one = [np.array([x], np.uint32) for x in (step & 0xFFFFFFFF, step >> 32, 0, 0)]
    first = philox(one, seed)
    key = int(first[0][0]) | int(first[1][0]) << 32
    n = np.arange(np.prod(shape), dtype=np.uint64)
    quads = np.unique(n // np.uint64(4))
    high = np.zeros_like(quads)
    made = philox((quads & np.uint64(0xFFFFFFFF), quads >> np.uint64(32), high + np.uint64(id & 0xFFFFFFFF),
                   high + np.uint64(id >> 32)), key)
    return np.stack(made, 1).reshape(-1)[:len(n)].reshape(shape)


# Inputs [6, 10, 20] split in all ways; a dropout that inference keeps, as text before assignment may have it.
TEXT = """module {
  func.func @infer(%x: TENSOR {nn.name = "x", nn.kind = #nn<kind data>}, %key: tensor<i64> {nn.name = "random", nn.kind = #nn<kind random>})
      -> (TENSOR {nn.name = "dropped"}, TENSOR {nn.name = "uniform"}, TENSOR {nn.name = "normal"}) {
    %d = nn.dropout %x, %key {ratio = 0.3 : f64, id = 12884901893 : i64} : (TENSOR, tensor<i64>) -> TENSOR
    %u = nn.random %key {distribution = "uniform", id = 6 : i64} : (tensor<i64>) -> TENSOR
    %xu = nn.add %x, %u : (TENSOR, TENSOR) -> TENSOR
    %n = nn.random %key {distribution = "normal", id = 7 : i64} : (tensor<i64>) -> TENSOR
    %xn = nn.add %x, %n : (TENSOR, TENSOR) -> TENSOR
    return %d, %xu, %xn : TENSOR, TENSOR, TENSOR
  }
}
""".replace("TENSOR", "tensor<6x10x20xf32>")
SPLITS = {"one": {}, "batch": {0: 2}, "batch4": {0: 4}, "tokens": {1: 3}, "features": {2: 2}, "uneven": {0: 4, 2: 3},
          "all": {0: 2, 1: 2, 2: 2}}


def text_program(folder, splits):
    (folder / "model.mlir").write_text(TEXT)
    plan = ["[mesh]"] + [f"a{dim} = {size}" for dim, size in splits.items()]
    for dim in splits:
        plan += ["[[input]]", 'match = "x"', f"dim = {dim}", f'axes = ["a{dim}"]']
    (folder / "plan.toml").write_text("\n".join(plan) + "\n")
    options = ("--plan", folder / "plan.toml") if splits else ()
    h.checked(h.TESSERA, "compile", folder / "model.mlir", "--from", "assign", "-o", folder / "program", *options)
    return h.Program(folder / "program", int(np.prod(list(splits.values()) or [1])))


@pytest.mark.parametrize("splits", SPLITS.values(), ids=SPLITS)
def test_numbers_are_those_of_the_definition(tmp_path, splits):
    compiled = text_program(tmp_path, splits)
    shape = (6, 10, 20)
    ones = {"x": np.ones(shape, np.float32)}
    out = compiled.infer(tmp_path / "run", ones, "--seed", "81985529216486895")
    key = (81985529216486895, 0)
    kept = words(shape, *key, 12884901893) >= round(0.3 * 2**32)
    np.testing.assert_array_equal(out["dropped"], np.where(kept, np.float32(1 / 0.7), np.float32(0)))
    uniform = (words(shape, *key, 6) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
    np.testing.assert_array_equal(out["uniform"], 1 + uniform)
    assert abs(np.mean(out["normal"]) - 1) < 0.2 and abs(np.std(out["normal"]) - 1) < 0.1
    other = compiled.infer(tmp_path / "other", ones, "--seed", "1")
    assert np.any(other["dropped"] != out["dropped"])


def data():
    arrays = h.training_data("gpt2", ["input_ids", "labels"])
    return {**arrays, "attention_mask": np.ones_like(arrays["input_ids"])}


def train(compiled, folder, *options, **keywords):
    return np.array([e["loss"] for e in compiled.train(folder, data(), STEPS, *options, **keywords)])


@pytest.fixture(scope="module")
def one_rank(program, tmp_path_factory):
    return train(program("gpt2_dropout", "1", ("--train", "adamw")), tmp_path_factory.mktemp("one"))


MESHES = {
    "dp2": ("--dp", "2"), "tp2": ("--tp", "2"), "tp3": ("--tp", "3"), "micro2": ("--microbatches", "2"),
    "zero3": ("--dp", "2", "--zero", "3"), "ring2": ("--sp", "2", "--sp-mode", "ring"),
    "ulysses2": ("--sp", "2", "--sp-mode", "ulysses"), "rsa2": ("--sp", "2", "--sp-mode", "rsa"),
    "dp3tp2": ("--dp", "3", "--tp", "2"), "pp2": ("--pp", "2", "--microbatches", "2"),
    "pp2dp2": ("--pp", "2", "--dp", "2", "--microbatches", "2", "--pp-schedule", "zero-bubble"),
}


def ranks_of(options):
    sizes = [int(size) for axis, size in zip(options, options[1:]) if axis in ("--dp", "--tp", "--sp", "--pp")]
    return int(np.prod(sizes or [1]))


def compiled(folder, options, *more):
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2_dropout.onnx", "-o", folder / "program", "--train", "adamw",
              *options, *more)
    return h.Program(folder / "program", ranks_of(options))


@pytest.mark.parametrize("options", MESHES.values(), ids=MESHES)
def test_losses_are_one_rank_s(tmp_path, one_rank, options):
    np.testing.assert_allclose(train(compiled(tmp_path, options), tmp_path / "run"), one_rank, rtol=1e-5)


def test_steps_and_seeds_drop_others(program, tmp_path, one_rank):
    model = program("gpt2_dropout", "1", ("--train", "adamw"))
    other = train(model, tmp_path / "seed", "--seed", "1")
    assert np.all(np.abs(other[:3] / one_rank[:3] - 1) > 1e-4)
    # The same batch again under a learning rate of nothing: another mask alone.
    batch = {name: array[:4] for name, array in data().items()}
    still = [e["loss"] for e in model.train(tmp_path / "still", batch, 3, "--lr", "0")]
    assert len(set(still)) == 3


def test_restart_goes_on_with_the_masks(program, tmp_path, one_rank):
    model = program("gpt2_dropout", "1", ("--train", "adamw"))
    arguments = model.train_arguments(tmp_path / "run", data(), 3, "--checkpoint", tmp_path / "saved", "--every", "3")
    h.checked(*model.command(*arguments))
    log = tmp_path / "log.jsonl"
    arguments = model.train_arguments(tmp_path / "run", data(), STEPS, "--resume", tmp_path / "saved", "--log", log)
    h.checked(*model.command(*arguments))
    got = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    np.testing.assert_allclose(got, one_rank[3:], rtol=1e-6)


@pytest.mark.parametrize("options", [(), ("--train", "adamw")], ids=["infer", "train"])
def test_inference_is_that_of_a_model_without(tmp_path, options):
    out = {}
    for model in ("gpt2_dropout", "gpt2_ts_eager"):
        h.checked(h.TESSERA, "compile", h.MODELS / f"{model}.onnx", "-o", tmp_path / model, *options)
        program = h.Program(tmp_path / model, 1)
        assert "random" not in [i["name"] for i in program.info("infer")["inputs"]]
        inputs = h.model_inputs("gpt2", ["input_ids", "attention_mask"])
        out[model] = program.infer(tmp_path / f"{model}.run", inputs)["logits"]
    np.testing.assert_array_equal(out["gpt2_dropout"], out["gpt2_ts_eager"])


def test_attention_drops_in_it(tmp_path):
    """The attention of the exported graph is one operator, its dropout with it."""
    text = h.checked(h.TESSERA, "compile", h.MODELS / "gpt2_dropout.onnx", "--to", "normalize").stdout
    assert text.count("nn.attention ") == 2 and text.count("nn.softmax") == 0 and text.count("ratio = ") == 7


def test_operators_that_attention_is_made_of_drop_the_same(tmp_path, one_rank):
    """A Relu of what is not negative keeps the graph from being raised."""
    import onnx

    model = onnx.load(h.MODELS / "gpt2_dropout.onnx")
    for i, node in reversed(list(enumerate(model.graph.node))):
        if node.op_type == "Dropout" and "/attn/Dropout" in node.name:
            dropped = node.output[0]
            node.output[0] = dropped + "_before"
            relu = onnx.helper.make_node("Relu", [dropped + "_before"], [dropped], name=f"relu_{i}")
            model.graph.node.insert(i + 1, relu)
    onnx.save(model, tmp_path / "m.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / "program", "--train", "adamw", "--tp", "2")
    got = train(h.Program(tmp_path / "program", 2), tmp_path / "run")
    assert "nn.softmax" in h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "--to", "normalize").stdout
    np.testing.assert_allclose(got, one_rank, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_half_types_drop_the_same(tmp_path, one_rank, dtype):
    got = train(compiled(tmp_path, ("--tp", "2"), "--dtype", dtype), tmp_path / "run")
    np.testing.assert_allclose(got, one_rank, rtol=0.02)


def test_random_nodes(tmp_path):
    """Their distributions, in inference too; the same numbers on two ranks; two nodes and two seeds differ."""
    from onnx import TensorProto, helper, save

    shape = [64, 512]
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["u"], low=-1.0, high=3.0),
             helper.make_node("RandomUniformLike", ["x"], ["v"], low=-1.0, high=3.0),
             helper.make_node("RandomUniform", [], ["w"], shape=shape, seed=2.5),
             helper.make_node("RandomNormalLike", ["x"], ["n"], mean=2.0, scale=0.5),
             helper.make_node("RandomNormal", [], ["m"], shape=shape, dtype=TensorProto.FLOAT),
             helper.make_node("Bernoulli", ["x"], ["b"])]
    names = [node.output[0] for node in nodes]
    outputs = []
    for name in names:  # beside the input, so that the batch splits them
        nodes.append(helper.make_node("Add", [name, "zeros"], [f"out_{name}"]))
        outputs.append(helper.make_tensor_value_info(f"out_{name}", TensorProto.FLOAT, shape))
    nodes.insert(0, helper.make_node("Sub", ["x", "x"], ["zeros"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], outputs)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    out = {}
    for name, options in (("one", ()), ("two", ("--dp", "2"))):
        h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / name, *options)
        inputs = {"x": np.full(shape, 0.25, np.float32)}
        out[name] = h.Program(tmp_path / name, 1).infer(tmp_path / f"{name}.run", inputs)
    one = {name: out["one"][f"out_{name}"] for name in names}
    for name in names:
        np.testing.assert_array_equal(one[name], out["two"][f"out_{name}"])
    deviation = 5 / np.sqrt(np.prod(shape))
    expected = {"u": (1, 4 / 12**0.5), "v": (1, 4 / 12**0.5), "w": (0.5, 1 / 12**0.5), "n": (2, 0.5), "m": (0, 1),
                "b": (0.25, 0.1875**0.5)}
    for name, (mean, spread) in expected.items():
        assert abs(one[name].mean() - mean) < deviation * spread and abs(one[name].std() / spread - 1) < deviation, name
    assert set(np.unique(one["b"])) == {0, 1} and one["u"].min() >= -1 and one["u"].max() < 3
    assert abs(np.corrcoef(one["u"].ravel(), one["v"].ravel())[0, 1]) < deviation


def test_a_gpu_drops_the_same(tmp_path, one_rank):
    path, run = gpu.compiled(tmp_path / "gpu", h.MODELS / "gpt2_dropout.onnx", "--train", "adamw")
    got = gpu.losses(gpu.trained(path, run, tmp_path / "run", data()))
    np.testing.assert_allclose(got, one_rank[:gpu.STEPS], rtol=1e-5)


def dropout_model(folder, mode, ratio=0.5):
    from onnx import TensorProto, helper, save

    shape, inputs = [8, 16], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])]
    constants = [helper.make_tensor("ratio", TensorProto.FLOAT, [], [ratio])]
    if mode == "input":
        inputs.append(helper.make_tensor_value_info("mode", TensorProto.BOOL, []))
    elif mode is not None:
        constants.append(helper.make_tensor("mode", TensorProto.BOOL, [], [mode]))
    node = helper.make_node("Dropout", ["x", "ratio"] + (["mode"] if mode is not None else []), ["y"], name="drop")
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "m.onnx")
    return folder / "m.onnx"


def test_dropouts_without_a_mode_beside_others_are_told(tmp_path):
    """A warning for what torch's exporter leaves out; where no node is told to train, none of them was meant to."""
    import onnx

    model = onnx.load(dropout_model(tmp_path, True))
    model.graph.node[0].output[0] = "h"
    model.graph.node.add().CopyFrom(onnx.helper.make_node("Dropout", ["h", "ratio"], ["y"], name="idle"))
    onnx.save(model, tmp_path / "two.onnx")
    said = h.checked(h.TESSERA, "compile", tmp_path / "two.onnx", "-o", tmp_path / "p").stderr
    assert "warning: " in said and "1 Dropout nodes train and 1 (first 'idle') have no training_mode" in said, said
    for mode in (True, False, None):
        assert "warning" not in h.checked(h.TESSERA, "compile", dropout_model(tmp_path, mode), "-o", tmp_path / "p").stderr


def test_an_input_may_be_called_as_the_key_is(tmp_path):
    """The program has an input of its own for the key of random numbers, which no user names."""
    from onnx import TensorProto, helper, save

    outputs = []
    for name in ("random", "x"):
        nodes = [helper.make_node("RandomNormalLike", [name], ["r"], name="draw"), helper.make_node("Add", [name, "r"], ["y"])]
        ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [4, 8]) for end in (name, "y")]
        save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
        plan = tmp_path / "plan.toml"
        plan.write_text(h.checked(h.TESSERA, "plan", tmp_path / "m.onnx", "--dp", "2").stdout)
        assert plan.read_text().count(f'match = "{name}"') == 1
        h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / "p", "--plan", plan)
        outputs.append(h.Program(tmp_path / "p", 2).infer(tmp_path / name, {name: np.ones((4, 8), np.float32)})["y"])
    np.testing.assert_array_equal(*outputs)


def test_modes_and_ratios_that_are_refused(tmp_path):
    result = h.tessera("compile", dropout_model(tmp_path, "input"), "-o", tmp_path / "p")
    h.assert_error(result, "'drop' (Dropout)", "training_mode ('mode')", "TrainingMode")
    result = h.tessera("compile", dropout_model(tmp_path, True, 1.0), "-o", tmp_path / "p")
    h.assert_error(result, "'drop' (Dropout)", "ratio is 1", "[0, 1)")
    for mode in (None, False):
        model = dropout_model(tmp_path, mode)
        assert "nn.dropout" not in h.checked(h.TESSERA, "compile", model, "--to", "import").stdout
