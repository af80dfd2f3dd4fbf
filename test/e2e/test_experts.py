"""Mixtures of experts: what is exchanged, experts that nobody chooses, and the forms besides that of test/models/experts.py."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness as h


def test_an_expert_without_tokens(tmp_path):
    """A router of zeros: by ties all tokens choose the first two experts of four, so that one rank of two has nothing to do."""
    model = onnx.load(h.MODELS / "mixtral.onnx")
    gates = [t for t in model.graph.initializer if t.name.endswith("mlp.gate.weight")]
    assert len(gates) == 2
    for gate in gates:
        gate.CopyFrom(numpy_helper.from_array(0 * numpy_helper.to_array(gate), gate.name))
    onnx.save(model, tmp_path / "model.onnx")
    h.checked(h.TESSERA, "verify", tmp_path / "model.onnx", "--train", "sgd", "--ep", "2")


@pytest.mark.parametrize("options,ranks,layer", [
    # A layer of 4 experts, 128 tokens, 32 wide: two exchanges forward and two backward of a rank's block of 4 * 128 / N * 32.
    ("--ep 2", 2, 4 * (4 * 64 * 32) // 2),
    ("--ep 4", 4, 4 * (4 * 32 * 32) * 3 // 4),
    ("--dp 2 --ep 2", 4, 4 * (4 * 32 * 32) // 2),
])
def test_golden_bytes_of_experts(tmp_path, options, ranks, layer):
    h.checked(h.TESSERA, "compile", h.MODELS / "mixtral.onnx", "-o", tmp_path / "p", "--train", "sgd", *options.split())
    program = h.Program(tmp_path / "p", ranks)
    sent = program.info()["sent"]["expert"]["all_to_all"]
    assert sent == {"count": 2 * 4, "bytes": 2 * 4 * layer}
    forward = program.info("infer")["sent"]["expert"]["all_to_all"]
    assert forward == {"count": 2 * 2, "bytes": 2 * 4 * layer // 2}


@pytest.mark.parametrize("recipe", ["--ep 2", "--dp 2 --ep 2 --zero 3", pytest.param("--sp 2", marks=pytest.mark.whole),
                                    pytest.param("--ep 2 --tp 2", marks=pytest.mark.whole), pytest.param("--pp 1 --tp 2", marks=pytest.mark.whole)])
def test_a_loss_that_balances_the_load(recipe):
    """A model that computes its own loss, with the share of tokens that each expert gets in it: shares are of the whole batch, on any mesh."""
    h.checked(h.TESSERA, "verify", h.MODELS / "mixtral_loss.onnx", "--train", "sgd", "--loss", "loss", *recipe.split())


def test_a_loss_of_the_models_own_is_onnx_runtimes(tmp_path):
    rng = np.random.default_rng(0)
    inputs = {"input_ids": rng.integers(0, 64, (4, 16)), "labels": rng.integers(0, 64, (4, 16))}
    inputs["labels"][1, 3:7] = -100
    h.checked(h.TESSERA, "compile", h.MODELS / "mixtral_loss.onnx", "-o", tmp_path / "p", "--dp", "2")
    ours = h.Program(tmp_path / "p", 2).infer(tmp_path / "run", inputs)
    h.assert_outputs_close(ours, h.onnxruntime_outputs(h.MODELS / "mixtral_loss.onnx", inputs))


@pytest.mark.parametrize("model,options,why", [
    ("gpt2", "--ep 2", "--ep: the model has no mixture of experts"),
    ("mixtral", "--ep 8", "no expert for each of 8 ranks here, where there are 4; an axis of at most 4 would do"),
])
def test_experts_that_are_not_there(model, options, why):
    result = h.tessera("plan", h.MODELS / f"{model}.onnx", *options.split())
    assert result.returncode == 1 and why in result.first_error, result.stderr


EXPERTS, BATCH, SEQ, WIDTH, INNER = 4, 4, 6, 8, 12


def save_model(path, nodes, weights, outputs=("logits",), opsets=(("", 20),)):
    """A model of x [BATCH, SEQ, WIDTH] -> logits of the same shape, with metadata that says that all weights are trained."""
    rng = np.random.default_rng(0)
    tensors = [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.5 if isinstance(shape, tuple) else shape, name)
               for name, shape in weights.items()]
    shape = [BATCH, SEQ, WIDTH]
    graph = helper.make_graph(nodes, "experts", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in outputs], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=10), path)


def check(path, *recipes):
    """Inference against ONNX Runtime, and each recipe against one rank."""
    inputs = {"x": np.random.default_rng(1).standard_normal((BATCH, SEQ, WIDTH)).astype(np.float32)}
    program = path.parent / "program"
    h.checked(h.TESSERA, "compile", path, "-o", program)
    h.assert_outputs_close(h.Program(program, 1).infer(path.parent / "run", inputs), h.onnxruntime_outputs(path, inputs))
    for recipe in recipes:
        h.checked(h.TESSERA, "verify", path, "--train", "sgd", "--loss", "mse:logits", *recipe.split())


def test_dense_products(tmp_path):
    """Every expert works on every token, and the router's softmax weighs what they say."""
    node = helper.make_node
    save_model(tmp_path / "dense.onnx", [
        node("Reshape", ["x", "flat"], ["tokens"], name="tokens"),
        node("MatMul", ["tokens", "router.weight"], ["scores"], name="router"),
        node("Softmax", ["scores"], ["probabilities"], name="probabilities", axis=-1),
        node("Expand", ["tokens", "each"], ["rows"], name="rows"),
        node("MatMul", ["rows", "up.weight"], ["a"], name="up"),
        node("Relu", ["a"], ["r"], name="act"),
        node("MatMul", ["r", "down.weight"], ["y"], name="down"),
        node("Transpose", ["probabilities"], ["by_expert"], name="by_expert", perm=[1, 0]),
        node("Unsqueeze", ["by_expert", "last"], ["weights"], name="weights"),
        node("Mul", ["y", "weights"], ["weighted"], name="weighted"),
        node("ReduceSum", ["weighted", "first"], ["sum"], name="sum", keepdims=0),
        node("Reshape", ["sum", "shape"], ["logits"], name="out"),
    ], {"router.weight": (WIDTH, EXPERTS), "up.weight": (EXPERTS, WIDTH, INNER), "down.weight": (EXPERTS, INNER, WIDTH),
        "flat": np.array([BATCH * SEQ, WIDTH]), "each": np.array([EXPERTS, BATCH * SEQ, WIDTH]), "shape": np.array([BATCH, SEQ, WIDTH]),
        "last": np.array([2]), "first": np.array([0])})
    check(tmp_path / "dense.onnx", "--ep 2", "--ep 3", "--dp 2 --ep 2")


@pytest.mark.parametrize("k,normalize,activation,fusion", [(2, 0, "silu", 0), (2, 1, "gelu", 0), (1, 0, "relu", 0), (3, 1, "swiglu", 1)])
def test_onnx_runtimes_operator(tmp_path, k, normalize, activation, fusion):
    inner = INNER * (2 if fusion else 1)
    node = helper.make_node
    save_model(tmp_path / "moe.onnx", [
        node("Reshape", ["x", "flat"], ["tokens"], name="tokens"),
        node("MatMul", ["tokens", "router.weight"], ["scores"], name="router"),
        node("MoE", ["x", "scores", "up.weight", "up.bias", "down.weight", "down.bias"], ["logits"], name="experts", domain="com.microsoft", k=k,
             activation_type=activation, normalize_routing_weights=normalize, **({"swiglu_fusion": fusion} if fusion else {})),
    ], {"router.weight": (WIDTH, EXPERTS), "up.weight": (EXPERTS, inner, WIDTH), "up.bias": (EXPERTS, inner),
        "down.weight": (EXPERTS, WIDTH, INNER), "down.bias": (EXPERTS, WIDTH), "flat": np.array([BATCH * SEQ, WIDTH])},
        opsets=(("", 20), ("com.microsoft", 1)))
    check(tmp_path / "moe.onnx", *(("--ep 2", "--tp 2") if k == 2 else ("--ep 3",)))


def test_scores_looked_up_by_number(tmp_path):
    """A router that looks its scores up and marks its choices by number, in a vector of all tokens' scores, where four scores a token are held as six."""
    tokens = BATCH * SEQ
    nodes = [helper.make_node("MatMul", ["x", "router"], ["scores"], name="router"),
             helper.make_node("Reshape", ["scores", "flat"], ["rows"]),
             helper.make_node("ArgMax", ["rows"], ["best"], axis=1, keepdims=1),
             helper.make_node("GatherElements", ["rows", "best"], ["chosen"], axis=1),
             helper.make_node("ScatterElements", ["zeros", "best", "chosen"], ["marked"], axis=1),
             helper.make_node("MatMul", ["marked", "out"], ["mixed"]),
             helper.make_node("Reshape", ["mixed", "shape"], ["logits"])]
    save_model(tmp_path / "m.onnx", nodes, {
        "router": (WIDTH, EXPERTS), "out": (EXPERTS, WIDTH), "flat": np.array([tokens, EXPERTS]), "shape": np.array([BATCH, SEQ, WIDTH]),
        "zeros": np.zeros((tokens, EXPERTS), np.float32)})
    (tmp_path / "plan.toml").write_text('[mesh]\nt = 3\n[[op]]\nmatch = "router"\npattern = "column"\naxes = ["t"]\n')
    h.checked(h.TESSERA, "verify", tmp_path / "m.onnx", "--train", "sgd", "--plan", tmp_path / "plan.toml")


def reference_with_capacity(x, weights, factor):
    """The mixture of test_capacity in numpy, one choice after another; and how many were dropped."""
    capacity = min(int(np.ceil(factor * SEQ * 2 / EXPERTS - 1e-9)), SEQ)
    out, dropped = np.zeros_like(x), 0
    for b in range(x.shape[0]):
        taken = [0] * EXPERTS
        for s in range(SEQ):
            scores = x[b, s] @ weights["router.weight"]
            p = np.exp(scores - scores.max())
            p /= p.sum()
            for e in np.argsort(-p, kind="stable")[:2]:
                taken[e] += 1
                if taken[e] > capacity:
                    dropped += 1
                    continue
                inner = np.maximum(weights["up.weight"][e] @ x[b, s] + weights["up.bias"][e], 0)
                out[b, s] += p[e] * (weights["down.weight"][e] @ inner + weights["down.bias"][e])
    return out, dropped


@pytest.fixture
def mixture(tmp_path):
    """A mixture as one operator, two of four experts for each of 4 x 6 tokens."""
    node = helper.make_node
    save_model(tmp_path / "moe.onnx", [
        node("Reshape", ["x", "flat"], ["tokens"], name="tokens"),
        node("MatMul", ["tokens", "router.weight"], ["scores"], name="router"),
        node("MoE", ["x", "scores", "up.weight", "up.bias", "down.weight", "down.bias"], ["logits"], name="experts", domain="com.microsoft", k=2),
    ], {"router.weight": (WIDTH, EXPERTS), "up.weight": (EXPERTS, INNER, WIDTH), "up.bias": (EXPERTS, INNER),
        "down.weight": (EXPERTS, WIDTH, INNER), "down.bias": (EXPERTS, WIDTH), "flat": np.array([BATCH * SEQ, WIDTH])},
        opsets=(("", 20), ("com.microsoft", 1)))
    return tmp_path / "moe.onnx"


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.25])
def test_capacity(mixture, tmp_path, factor):
    """Choices beyond an expert's places in a row of the batch are dropped, in the tokens' order, and on every mesh the same ones."""
    weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(mixture).graph.initializer}
    x = np.random.default_rng(1).standard_normal((BATCH, SEQ, WIDTH)).astype(np.float32)
    expected, dropped = reference_with_capacity(x, weights, factor)
    assert 0 < dropped < 2 * BATCH * SEQ
    for i, (options, ranks) in enumerate([("--dp 1", 1), ("--ep 2", 2), ("--dp 2 --ep 2", 4)]):
        h.checked(h.TESSERA, "compile", mixture, "-o", tmp_path / f"p{i}", "--capacity-factor", str(factor), *options.split())
        ours = h.Program(tmp_path / f"p{i}", ranks).infer(tmp_path / f"run{i}", {"x": x})
        np.testing.assert_allclose(ours["logits"], expected, rtol=2e-5, atol=2e-5)


CAPACITY_RECIPES = ["--ep 2", "--dp 2 --ep 2", "--sp 2", "--sp 3", "--sp 2 --ep 2 --dp 2 --zero 3", "--ep 4 --microbatches 1", "--dp 2 --microbatches 2",
                    "--ep 2 --tp 2", "--tp 2", "--sp 2 --sp-mode ulysses", "--sp 8", "--pp 2 --ep 2 --microbatches 2", "--tp 4 --tp-mode 2d"]


@pytest.mark.parametrize("recipe", [pytest.param(r, marks=[] if i < 5 else pytest.mark.whole) for i, r in enumerate(CAPACITY_RECIPES)])
def test_capacity_on_every_mesh(recipe):
    """Gradients and losses with drops; ring orders (zig-zag) hold tokens in another order than they are dropped in."""
    h.checked(h.TESSERA, "verify", h.MODELS / "mixtral.onnx", "--train", "sgd", "--capacity-factor", "0.75", *recipe.split())


def test_capacity_for_all_is_no_capacity(tmp_path):
    """Where every choice has a place, training is that without a capacity."""
    logs = []
    tokens = np.random.default_rng(2).integers(0, 64, 4 * 32 * 5 + 1).astype(np.uint16)
    tokens.tofile(tmp_path / "tokens.bin")
    for name, options in [("free", []), ("limited", ["--capacity-factor", "2"])]:
        h.checked(h.TESSERA, "compile", h.MODELS / "mixtral.onnx", "-o", tmp_path / name, "--train", "sgd", *options)
        h.checked(tmp_path / name, "train", "--tokens", tmp_path / "tokens.bin", "--steps", "5", "--lr", "0.1", "--log", tmp_path / f"{name}.jsonl")
        logs.append([json.loads(line)["loss"] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()])
    np.testing.assert_allclose(logs[1], logs[0], rtol=1e-5)


def test_capacity_makes_work_and_memory_smaller(tmp_path):
    figures = []
    for name, options in [("free", []), ("limited", ["--capacity-factor", "1"])]:
        h.checked(h.TESSERA, "compile", h.MODELS / "mixtral.onnx", "-o", tmp_path / name, "--train", "sgd", "--ep", "2", *options)
        figures.append(h.Program(tmp_path / name, 2).info())
    free, limited = (f["sent"]["expert"]["all_to_all"] for f in figures)
    # Of 32 tokens in a row an expert of 4 has places for 16.
    assert limited == {"count": free["count"], "bytes": free["bytes"] // 2}
    activations = [f["memory"][0]["device"]["activations"] for f in figures]
    assert activations[1] < activations[0]


@pytest.mark.parametrize("model,options,why", [
    ("gpt2", "--capacity-factor 1", "--capacity-factor: the model has no mixture of experts"),
    ("mixtral", "--capacity-factor 0", "--capacity-factor=0: expected a number above 0, such as 1.25"),
    ("mixtral", "--capacity-factor much", "--capacity-factor=much: expected a number above 0, such as 1.25"),
])
def test_capacities_that_cannot_be(model, options, why):
    result = h.tessera("plan", h.MODELS / f"{model}.onnx", *options.split())
    assert result.returncode in (1, 2) and why in result.first_error, result.stderr
