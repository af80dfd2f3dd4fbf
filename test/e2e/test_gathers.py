"""What is made of parameters alone, on a GPT of 16 layers: conversions and gathers stand by their first readers, one layer ahead, and half types send half the bytes."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness as h

LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, TOKENS = 16, 64, 4, 64, 4, 16
LAYER = 12 * WIDTH * WIDTH + 13 * WIDTH  # parameters of one
BYTES = {"f32": 4, "bf16": 2, "i64": 8, "i1": 1}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """As GPT-2 is built: two layer norms, attention and a product each way in a layer."""
    random, nodes, weights = np.random.default_rng(0), [], []

    def weight(name, *shape, value=None):
        array = random.standard_normal(shape) * 0.05 if value is None else np.full(shape, value)
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(op, out, *inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def norm(name, x):
        return node("LayerNormalization", name, x, weight(f"{name}.g", WIDTH, value=1), weight(f"{name}.b", WIDTH, value=0))

    def linear(name, x, i, o):
        return node("Add", name, node("MatMul", f"{name}.product", x, weight(f"{name}.w", i, o)), weight(f"{name}.b", o, value=0))

    x = node("Add", "embedded", node("Gather", "token", weight("wte", VOCABULARY, WIDTH), "ids"), weight("wpe", TOKENS, WIDTH))
    for layer in range(LAYERS):
        p = f"h{layer}."
        y = norm(p + "n1", x)
        y = node("Attention", p + "attention", *(linear(p + c, y, WIDTH, WIDTH) for c in "qkv"), q_num_heads=HEADS, kv_num_heads=HEADS, is_causal=1)
        x = node("Add", p + "x", x, linear(p + "o", y, WIDTH, WIDTH))
        y = node("Gelu", p + "gelu", linear(p + "f", norm(p + "n2", x), WIDTH, 4 * WIDTH), approximate="tanh")
        x = node("Add", p + "y", x, linear(p + "p", y, 4 * WIDTH, WIDTH))
    node("MatMul", "logits", norm("n", x), weight("head", WIDTH, VOCABULARY))
    graph = helper.make_graph(nodes, "gpt", [helper.make_tensor_value_info("ids", TensorProto.INT64, (BATCH, TOKENS))],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (BATCH, TOKENS, VOCABULARY))], weights)
    path = tmp_path_factory.mktemp("gathers") / "gpt16.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    return path


def compiled(model, folder, *options):
    """The program, and the lines of its training function as scheduled."""
    h.checked(h.TESSERA, "compile", model, "-o", folder / "program", "--train", "sgd", "--dump-phases", folder / "phases", *options)
    schedule, = (folder / "phases").glob("*-schedule.mlir")
    return h.Program(folder / "program", 1), re.split(r"\n  } ", schedule.read_text().split("func.func @train(")[1])[0].splitlines()


def results(line):
    """Names and bytes of the tensors that a line makes."""
    name, count = re.match(r"\s*%(\w+)(?::(\d+))? = ", line).groups()
    types = re.findall(r"tensor<((?:\d+x)*)(\w+)>", line.rsplit("->", 1)[-1])
    sizes = [BYTES[e] * int(np.prod([int(n) for n in shape.split("x")[:-1]], initial=1)) for shape, e in types]
    return list(zip([f"{name}#{i}" for i in range(int(count))] if count else [name], sizes))


def most_live(lines, copies):
    """The most bytes of what `copies` says of a line, and of what is unpacked of it, live at one line."""
    lives, of = [], {}  # [first line, last line, bytes]; a value's
    for i, line in enumerate(re.sub(r" loc\(.*", "", line) for line in lines):
        sources = [of[o] for o in re.findall(r"%(\w+(?:#\d+)?)", line.split(" = ", 1)[-1]) if o in of]
        for life in sources:
            life[1] = i
        if copies(line) or sources and "dist.unpack" in line:
            for name, size in results(line):
                of[name] = [i, i, size]
                lives.append(of[name])
        elif sources and re.search(r"collective_wait|dist.unflatten|nn.reshape", line):
            (name, _), = results(line)
            of[name], = sources
    assert lives
    return max(sum(size for first, end, size in lives if first <= i <= end) for i in range(len(lines)))


def is_gather(line):
    return "all_gather" in line


def is_conversion(line):
    return 'kind = "cast"' in line and "bf16" in line.rsplit("->", 1)[1]


def test_half_types_gather_half_the_bytes(model, tmp_path):
    sent = {}
    for dtype in ("f32", "bf16"):
        program, lines = compiled(model, tmp_path / dtype, "--dp", "2", "--zero", "3", "--dtype", dtype)
        assert most_live(lines, is_gather) <= 2 * LAYER * BYTES[dtype], dtype
        starts = sum("collective_start" in line for line in lines if is_gather(line))
        assert starts > 0.9 * sum(map(is_gather, lines)), "gathers wait for nothing"
        sent[dtype] = {kind: figures["bytes"] for kind, figures in program.info("train")["sent"]["data"].items()}
    # All but gains, offsets and the table, which are looked up in or added in f32.
    assert sent["bf16"]["all_gather"] < 0.53 * sent["f32"]["all_gather"]
    assert sent["bf16"]["reduce_scatter"] == sent["f32"]["reduce_scatter"], "gradients are summed in f32"


def test_conversions_stand_by_their_readers(model, tmp_path):
    """No second copy of the model lives through the step."""
    _, lines = compiled(model, tmp_path, "--dtype", "bf16")
    assert most_live(lines, is_conversion) <= 2 * LAYER * BYTES["bf16"]
