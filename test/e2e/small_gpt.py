"""A GPT of any depth and width as ONNX, written without torch: what decides where a pipeline is cut."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS = 2


class Builder:
    """Nodes and initializers of a graph; every method that adds a node returns the name of its result."""

    def __init__(self):
        self.nodes, self.initializers, self.random = [], [], np.random.default_rng(0)

    def constant(self, value, name=None):
        name = name or f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, *shape):
        return self.constant((self.random.standard_normal(shape) * 0.1).astype(np.float32), name)

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"n{len(self.nodes)}_{op}", **attributes))
        return names[0] if outputs == 1 else names


def block_weights(g, prefix, width, tokens):
    """The parameters of one block, by what they are for."""
    shapes = {"norm1": (width,), "shift1": (width,), "qkv": (width, 3 * width), "qkv_bias": (3 * width,),
              "out": (width, width), "norm2": (width,), "shift2": (width,), "up": (width, 4 * width),
              "up_bias": (4 * width,), "down": (4 * width, width), "position": (width, tokens)}
    return {name: g.weight(f"{prefix}.{name}", *shape) for name, shape in shapes.items()}


def block(g, x, w, batch, tokens, width, positions=None):
    heads = g.constant(np.array([batch, tokens, HEADS, width // HEADS], np.int64))

    def split(value, perm):
        return g("Transpose", g("Reshape", value, heads), perm=perm)

    h = g("LayerNormalization", x, w["norm1"], w["shift1"])
    q, k, v = g("Split", g("Add", g("MatMul", h, w["qkv"]), w["qkv_bias"]), outputs=3, axis=2, num_outputs=3)
    scale = g.constant(np.float32((width // HEADS) ** -0.5))
    scores = g("Mul", g("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1])), scale)
    if positions is not None:
        scores = g("Add", scores, g("MatMul", positions, w["position"]))
    mask = g.constant(np.triu(np.full((tokens, tokens), -1e9, np.float32), 1))
    mixed = g("MatMul", g("Softmax", g("Add", scores, mask), axis=-1), split(v, [0, 2, 1, 3]))
    merged = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), g.constant(np.array([batch, tokens, width])))
    x = g("Add", x, g("MatMul", merged, w["out"]))
    h = g("LayerNormalization", x, w["norm2"], w["shift2"])
    h = g("Gelu", g("Add", g("MatMul", h, w["up"]), w["up_bias"]), approximate="tanh")
    return g("Add", x, g("MatMul", h, w["down"]))


def small_gpt(path, layers, width, tied=False, shared=False, relative=False, vocabulary=48, batch=8, tokens=4):
    """Writes the model. `tied`: the head is the table of tokens; `shared`: all blocks have the same parameters;
    `relative`: scores have a bias computed from parameters alone, of a table that is normalised once, as DeBERTa's."""
    g = Builder()
    table = g.weight("wte", vocabulary, width)
    x = g("Add", g("Gather", table, "ids"), g.weight("wpe", tokens, width))
    positions = None
    if relative:
        positions = g("LayerNormalization", g.weight("relative", tokens, width), g.weight("relative_norm", width),
                      g.weight("relative_shift", width))
    of_all = block_weights(g, "block", width, tokens) if shared else None
    for layer in range(layers):
        x = block(g, x, of_all or block_weights(g, f"h{layer}", width, tokens), batch, tokens, width, positions)
    x = g("LayerNormalization", x, g.weight("norm", width), g.weight("shift", width))
    head = g("Transpose", table, perm=[1, 0]) if tied else g.weight("head", width, vocabulary)
    g.nodes.append(helper.make_node("MatMul", [x, head], ["logits"], name="head"))
    used = {name for node in g.nodes for name in node.input}
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [batch, tokens])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, tokens, vocabulary])
    graph = helper.make_graph(g.nodes, "small_gpt", [ids], [logits], [i for i in g.initializers if i.name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path
