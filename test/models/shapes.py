"""Models of sizes that nobody runs here, without their weights: `python shapes.py NAME OUT.onnx [--layers N] [--width N] ...`.

Operators are those that torch's exporter writes in opset 23, names those of `transformers`; dimensions are `batch` and
`seq`. Weights are external data, with offset and length, in OUT.onnx.data, which is not written: `tessera plan`,
`simulate` and `compile --to memory` do without it.
"""
import argparse
import dataclasses

import onnx
from onnx import TensorProto, helper


class Graph:
    """A graph that grows by a node a call; values are names."""

    def __init__(self, data):
        self.data, self.offset = data, 0
        self.nodes, self.initializers, self.counts = [], [], {}

    def op(self, kind, *inputs, at="", outputs=1, **attributes):
        """A node of module `at`, such as `transformer.h.0.attn`; one result, or a list of several."""
        scope = "".join(f"/{part}" for part in at.split(".") if part) + f"/{kind}"
        self.counts[scope] = number = self.counts.get(scope, -1) + 1
        name = scope + (f"_{number}" if number else "")
        results = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, name=name, **attributes))
        return results[0] if outputs == 1 else results

    def weight(self, name, *dims):
        if any(tensor.name == name for tensor in self.initializers[:4]):  # a table that the head is tied to
            return name
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        length = 4
        for dim in dims:
            length *= dim
        for key, value in (("location", self.data), ("offset", self.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.offset += length
        self.initializers.append(tensor)
        return name

    def ints(self, *values):
        return self.constant(list(values), TensorProto.INT64, [len(values)])

    def constant(self, values, kind=TensorProto.FLOAT, dims=()):
        name = f"constant_{kind}_{'_'.join(map(str, values))}_{len(dims)}"
        if name not in self.counts:
            self.counts[name] = 0
            self.initializers.append(helper.make_tensor(name, kind, dims, values))
        return name

    def linear(self, x, name, inputs, outputs, bias=True, conv1d=False):
        """x [.., inputs] by a matrix as torch's Linear keeps it (or GPT-2's Conv1D)."""
        shape = (inputs, outputs) if conv1d else (outputs, inputs)
        matrix = self.weight(f"{name}.weight", *shape)
        if not conv1d:
            matrix = self.op("Transpose", matrix, at=name, perm=[1, 0])
        y = self.op("MatMul", x, matrix, at=name)
        return self.op("Add", y, self.weight(f"{name}.bias", outputs), at=name) if bias else y

    def layer_norm(self, x, name, width, epsilon=1e-5):
        return self.op("LayerNormalization", x, self.weight(f"{name}.weight", width), self.weight(f"{name}.bias", width), at=name, axis=-1,
                       epsilon=epsilon)

    def rms_norm(self, x, name, width):
        return self.op("RMSNormalization", x, self.weight(f"{name}.weight", width), at=name, axis=-1, epsilon=1e-5)

    def heads(self, x, at, count, width):
        """[batch, seq, count * width] as [batch, count, seq, width]."""
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, count, width), at=at), at=at, perm=[0, 2, 1, 3])

    def attention(self, q, k, v, at, width, *mask, causal):
        """Of heads, as [batch, seq, width]; keys and values of fewer heads are shared."""
        y = self.op("Attention", q, k, v, *mask, at=at, is_causal=int(causal))
        return self.op("Reshape", self.op("Transpose", y, at=at, perm=[0, 2, 1, 3]), self.ints(0, 0, width), at=at)

    def positions(self, ids, at):
        """0 .. seq - 1, as [1, seq]."""
        seq = self.op("Squeeze", self.op("Shape", ids, at=at, start=1, end=2), at=at)
        scalars = [self.constant([value], TensorProto.INT64) for value in (0, 1)]
        return self.op("Unsqueeze", self.op("Range", scalars[0], seq, scalars[1], at=at), self.ints(0), at=at)


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    vocabulary: int
    hidden: int = 0  # of the MLP; 0: 4 * width
    length: int = 2048
    kv_heads: int = 0
    experts: int = 0


def gpt(g, size):
    """GPT-2, GPT-3 and Megatron-LM's: one packed product for q, k and v, the head tied to the table."""
    w, hidden, table = size.width, size.hidden or 4 * size.width, g.weight("transformer.wte.weight", size.vocabulary, size.width)
    x = g.op("Gather", table, "input_ids", at="transformer.wte", axis=0)
    places = g.op("Gather", g.weight("transformer.wpe.weight", size.length, w), g.positions("input_ids", "transformer"), at="transformer.wpe", axis=0)
    x = g.op("Add", x, places, at="transformer")
    for layer in range(size.layers):
        at = f"transformer.h.{layer}"
        packed = g.linear(g.layer_norm(x, f"{at}.ln_1", w), f"{at}.attn.c_attn", w, 3 * w, conv1d=True)
        parts = g.op("Split", packed, at=f"{at}.attn", outputs=3, axis=2, num_outputs=3)
        q, k, v = (g.heads(part, f"{at}.attn", size.heads, w // size.heads) for part in parts)
        y = g.attention(q, k, v, f"{at}.attn", w, causal=True)
        x = g.op("Add", g.linear(y, f"{at}.attn.c_proj", w, w, conv1d=True), x, at=at)
        y = g.linear(g.layer_norm(x, f"{at}.ln_2", w), f"{at}.mlp.c_fc", w, hidden, conv1d=True)
        y = g.op("Gelu", y, at=f"{at}.mlp", approximate="tanh")
        x = g.op("Add", x, g.linear(y, f"{at}.mlp.c_proj", hidden, w, conv1d=True), at=at)
    x = g.layer_norm(x, "transformer.ln_f", w)
    return g.op("MatMul", x, g.op("Transpose", table, at="lm_head", perm=[1, 0]), at="lm_head")


def llama(g, size):
    """Llama's and, with experts, Mixtral's: rotary positions, gated MLP, keys and values of fewer heads."""
    w, each = size.width, size.width // size.heads
    x = g.op("Gather", g.weight("model.embed_tokens.weight", size.vocabulary, w), "input_ids", at="model.embed_tokens", axis=0)
    tables = rotary_tables(g, each)
    for layer in range(size.layers):
        at = f"model.layers.{layer}"
        y = g.rms_norm(x, f"{at}.input_layernorm", w)
        q, k, v = (g.heads(g.linear(y, f"{at}.self_attn.{which}_proj", w, count * each, bias=False), f"{at}.self_attn", count, each)
                   for which, count in (("q", size.heads), ("k", size.kv_heads), ("v", size.kv_heads)))
        q, k = (rotated(g, part, tables, each, f"{at}.self_attn") for part in (q, k))
        y = g.attention(q, k, v, f"{at}.self_attn", w, causal=True)
        x = g.op("Add", x, g.linear(y, f"{at}.self_attn.o_proj", w, w, bias=False), at=at)
        y = g.rms_norm(x, f"{at}.post_attention_layernorm", w)
        x = g.op("Add", x, (mixture if size.experts else gated)(g, y, f"{at}.mlp", size), at=at)
    return g.linear(g.rms_norm(x, "model.norm", w), "lm_head", w, size.vocabulary, bias=False)


def rotary_tables(g, width):
    """cos and sin [1, 1, seq, width]."""
    at = "model.rotary_emb"
    places = g.op("Cast", g.op("Unsqueeze", g.positions("input_ids", at), g.ints(2), at=at), at=at, to=TensorProto.FLOAT)
    half = g.op("Mul", places, g.constant([500000.0 ** (-2 * i / width) for i in range(width // 2)], dims=[width // 2]), at=at)
    angles = g.op("Concat", half, half, at=at, axis=-1)
    return [g.op("Unsqueeze", g.op(kind, angles, at=at), g.ints(1), at=at) for kind in ("Cos", "Sin")]


def rotated(g, x, tables, width, at):
    first, second = (g.op("Slice", x, g.ints(begin), g.ints(end), g.ints(3), g.ints(1), at=at)
                     for begin, end in ((0, width // 2), (width // 2, 2**63 - 1)))
    turned = g.op("Concat", g.op("Neg", second, at=at), first, at=at, axis=-1)
    return g.op("Add", g.op("Mul", x, tables[0], at=at), g.op("Mul", turned, tables[1], at=at), at=at)


def silu(g, x, at):
    return g.op("Mul", x, g.op("Sigmoid", x, at=at), at=at)


def gated(g, x, at, size):
    gate, up = (g.linear(x, f"{at}.{which}_proj", size.width, size.hidden, bias=False) for which in ("gate", "up"))
    return g.linear(g.op("Mul", silu(g, gate, at), up, at=at), f"{at}.down_proj", size.hidden, size.width, bias=False)


def mixture(g, x, at, size):
    """The two best experts of each token, by gathering their weights, as `experts_implementation="batched_mm"` does."""
    w, rows, last = size.width, g.op("Reshape", x, g.ints(-1, size.width), at=at), g.ints(-1)
    router = g.op("Softmax", g.op("Gemm", rows, g.weight(f"{at}.gate.weight", size.experts, w), at=f"{at}.gate", transB=1), at=at, axis=-1)
    best, which = g.op("TopK", router, g.ints(2), at=at, outputs=2, axis=-1)
    shares = g.op("Div", best, g.op("ReduceSum", best, last, at=at, keepdims=1), at=at)
    twice = g.op("Expand", g.op("Unsqueeze", rows, g.ints(1), at=at), g.ints(1, 2, 1), at=at)
    twice = g.op("Unsqueeze", g.op("Reshape", twice, g.ints(-1, w), at=at), last, at=at)
    which = g.op("Unsqueeze", g.op("Reshape", which, last, at=at), last, at=at)

    def product(name, y, inputs, outputs):
        matrices = g.op("GatherND", g.weight(f"{at}.experts.{name}", size.experts, outputs, inputs), which, at=at)
        return g.op("Squeeze", g.op("MatMul", matrices, y, at=at), last, at=at)

    gate, up = g.op("Split", product("gate_up_proj", twice, w, 2 * size.hidden), at=at, outputs=2, axis=1, num_outputs=2)
    y = g.op("Unsqueeze", g.op("Mul", silu(g, gate, at), up, at=at), last, at=at)
    y = product("down_proj", y, size.hidden, w)
    y = g.op("Mul", y, g.op("Unsqueeze", g.op("Reshape", shares, last, at=at), last, at=at), at=at)
    y = g.op("ReduceSum", g.op("Reshape", y, g.ints(-1, 2, w), at=at), g.ints(1), at=at, keepdims=0)
    return g.op("Reshape", y, g.op("Shape", x, at=at), at=at)


def encoder_layer(g, x, at, size, first, *mask):
    """BERT's, whose norms come behind, or ViT's (`first`)."""
    w, hidden, attention = size.width, size.hidden or 4 * size.width, f"{at}.attention"
    y = g.layer_norm(x, f"{at}.layernorm_before", w, 1e-12) if first else x
    q, k, v = (g.heads(g.linear(y, f"{attention}.{which}", w, w), attention, size.heads, w // size.heads) for which in ("query", "key", "value"))
    y = g.attention(q, k, v, attention, w, *mask, causal=False)
    x = g.op("Add", g.linear(y, f"{attention}.output.dense", w, w), x, at=at)
    if not first:
        x = g.layer_norm(x, f"{attention}.output.LayerNorm", w, 1e-12)
    y = g.layer_norm(x, f"{at}.layernorm_after", w, 1e-12) if first else x
    y = g.op("Gelu", g.linear(y, f"{at}.intermediate.dense", w, hidden), at=f"{at}.intermediate")
    x = g.op("Add", g.linear(y, f"{at}.output.dense", hidden, w), x, at=at)
    return x if first else g.layer_norm(x, f"{at}.output.LayerNorm", w, 1e-12)


def bert(g, size):
    w, at = size.width, "bert.embeddings"
    table = g.weight(f"{at}.word_embeddings.weight", size.vocabulary, w)
    x = g.op("Gather", table, "input_ids", at=at, axis=0)
    x = g.op("Add", x, g.op("Gather", g.weight(f"{at}.token_type_embeddings.weight", 2, w), "token_type_ids", at=at, axis=0), at=at)
    places = g.op("Gather", g.weight(f"{at}.position_embeddings.weight", size.length, w), g.positions("input_ids", at), at=at, axis=0)
    x = g.layer_norm(g.op("Add", x, places, at=at), f"{at}.LayerNorm", w, 1e-12)
    mask = g.op("Unsqueeze", g.op("Cast", "attention_mask", at="bert", to=TensorProto.BOOL), g.ints(1, 2), at="bert")
    for layer in range(size.layers):
        x = encoder_layer(g, x, f"bert.encoder.layer.{layer}", size, False, mask)
    at = "cls.predictions.transform"
    x = g.layer_norm(g.op("Gelu", g.linear(x, f"{at}.dense", w, w), at=at), f"{at}.LayerNorm", w, 1e-12)
    x = g.op("MatMul", x, g.op("Transpose", table, at="cls.predictions.decoder", perm=[1, 0]), at="cls.predictions.decoder")
    return g.op("Add", x, g.weight("cls.predictions.bias", size.vocabulary), at="cls.predictions.decoder")


def t5(g, size):
    """T5's, in which all layers of the encoder, and all of the decoder, add one bias to their scores: by distance, without T5's logarithms."""
    w, hidden, each = size.width, size.hidden or 4 * size.width, size.width // size.heads
    table = g.weight("shared.weight", size.vocabulary, w)

    def bias(ids, at):
        places = g.positions(ids, at)
        apart = g.op("Abs", g.op("Sub", g.op("Transpose", places, at=at, perm=[1, 0]), places, at=at), at=at)
        apart = g.op("Min", apart, g.constant([31], TensorProto.INT64), at=at)
        scores = g.op("Gather", g.weight(f"{at}.relative_attention_bias.weight", 32, size.heads), apart, at=at, axis=0)
        return g.op("Unsqueeze", g.op("Transpose", scores, at=at, perm=[2, 0, 1]), g.ints(0), at=at)

    def attention(x, states, at, *mask, causal):
        q, k, v = (g.heads(g.linear(y, f"{at}.{which}", w, w, bias=False), at, size.heads, each) for which, y in (("q", x), ("k", states), ("v", states)))
        return g.linear(g.attention(q, k, v, at, w, *mask, causal=causal), f"{at}.o", w, w, bias=False)

    def stack(ids, name, states=None):
        x, mask = g.op("Gather", table, ids, at=f"{name}.embed_tokens", axis=0), bias(ids, f"{name}.block.0.layer.0.SelfAttention")
        for block in range(size.layers):
            at = f"{name}.block.{block}.layer"
            y = g.rms_norm(x, f"{at}.0.layer_norm", w)
            x = g.op("Add", x, attention(y, y, f"{at}.0.SelfAttention", mask, causal=states is not None), at=f"{at}.0")
            if states is not None:
                x = g.op("Add", x, attention(g.rms_norm(x, f"{at}.1.layer_norm", w), states, f"{at}.1.EncDecAttention", causal=False), at=f"{at}.1")
            at = f"{at}.{1 if states is None else 2}"
            y = g.linear(g.rms_norm(x, f"{at}.layer_norm", w), f"{at}.DenseReluDense.wi", w, hidden, bias=False)
            x = g.op("Add", x, g.linear(g.op("Relu", y, at=at), f"{at}.DenseReluDense.wo", hidden, w, bias=False), at=at)
        return g.rms_norm(x, f"{name}.final_layer_norm", w)

    x = stack("decoder_input_ids", "decoder", stack("input_ids", "encoder"))
    return g.linear(x, "lm_head", w, size.vocabulary, bias=False)


def vit(g, size):
    w, at, patch = size.width, "vit.embeddings", 16
    x = g.op("Conv", "pixel_values", g.weight(f"{at}.patch_embeddings.projection.weight", w, 3, patch, patch),
             g.weight(f"{at}.patch_embeddings.projection.bias", w), at=at, kernel_shape=[patch, patch], strides=[patch, patch])
    x = g.op("Transpose", g.op("Reshape", x, g.ints(0, w, -1), at=at), at=at, perm=[0, 2, 1])
    batch = g.op("Concat", g.op("Shape", "pixel_values", at=at, start=0, end=1), g.ints(1, 1), at=at, axis=0)
    token = g.op("Expand", g.weight(f"{at}.cls_token", 1, 1, w), batch, at=at)
    places = g.weight(f"{at}.position_embeddings", 1, (size.length // patch) ** 2 + 1, w)
    x = g.op("Add", g.op("Concat", token, x, at=at, axis=1), places, at=at)
    for layer in range(size.layers):
        x = encoder_layer(g, x, f"vit.encoder.layer.{layer}", size, True)
    x = g.op("Gather", g.layer_norm(x, "vit.layernorm", w, 1e-12), g.constant([0], TensorProto.INT64), at="vit", axis=1)
    return g.linear(x, "classifier", w, size.vocabulary)


def blocks(g, size):
    """Layers alone, from [batch, seq, width] to the same, as papers about the layers of a transformer measure them."""
    x = "hidden_states"
    for layer in range(size.layers):
        x = encoder_layer(g, x, f"encoder.layer.{layer}", size, True)
    return x


def linear(g, size):
    """Pairs of layers, each from [batch, width] to [batch, hidden] and back, with nothing between them."""
    x, hidden = "hidden_states", size.hidden or 4 * size.width
    for layer in range(size.layers):
        x = g.linear(g.linear(x, f"layer.{layer}.up", size.width, hidden), f"layer.{layer}.down", hidden, size.width)
    return x


TOKENS = {"input_ids": (TensorProto.INT64, ["batch", "seq"])}
INPUTS = {gpt: TOKENS, llama: TOKENS, t5: {name: TOKENS["input_ids"] for name in ("input_ids", "decoder_input_ids")}, bert: {name: TOKENS["input_ids"] for name in ("input_ids", "attention_mask", "token_type_ids")}}

# A vocabulary of 51200 and the sizes of Megatron-LM: arXiv 2205.05198, table 3. For ViT `length` is the image's, `vocabulary` its classes.
SIZES = {
    "gpt2": (gpt, Size(12, 768, 12, 50257, length=1024)),
    "gpt2-xl": (gpt, Size(48, 1600, 25, 50257, length=1024)),
    "gpt3-175b": (gpt, Size(96, 12288, 96, 50257)),
    "megatron-22b": (gpt, Size(48, 6144, 64, 51200)),
    "megatron-175b": (gpt, Size(96, 12288, 96, 51200)),
    "megatron-530b": (gpt, Size(105, 20480, 128, 51200)),
    "megatron-1t": (gpt, Size(128, 25600, 160, 51200)),
    "llama-8b": (llama, Size(32, 4096, 32, 128256, hidden=14336, kv_heads=8)),
    "mixtral": (llama, Size(32, 4096, 32, 32000, hidden=14336, kv_heads=8, experts=8)),
    "bert": (bert, Size(12, 768, 12, 30522, length=512)),
    "t5": (t5, Size(12, 768, 12, 32128)),
    "vit": (vit, Size(12, 768, 12, 1000, length=224)),
    "blocks": (blocks, Size(12, 768, 12, 0)),
    "linear": (linear, Size(1, 1024, 0, 0)),
}


def inputs_and_result(family, size):
    """The types and shapes of the inputs, by name, and the name and the shape of the result."""
    if family is vit:
        return {"pixel_values": (TensorProto.FLOAT, ["batch", 3, size.length, size.length])}, "logits", ["batch", size.vocabulary]
    if family in (blocks, linear):
        shape = ["batch", "seq", size.width] if family is blocks else ["batch", size.width]
        return {"hidden_states": (TensorProto.FLOAT, shape)}, "output", shape
    return INPUTS[family], "logits", ["batch", "seq", size.vocabulary]


def write(name, path, **changes):
    """Writes the model `name` with some fields of its `Size` changed; the number of its parameters."""
    family, size = SIZES[name]
    size = dataclasses.replace(size, **changes)
    g = Graph(path.rsplit("/", 1)[-1] + ".data")
    inputs, result, shape = inputs_and_result(family, size)
    g.nodes.append(helper.make_node("Identity", [family(g, size)], [result], name=result))
    graph = helper.make_graph(g.nodes, name, [helper.make_tensor_value_info(key, *value) for key, value in inputs.items()],
                              [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)], g.initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11, producer_name="shapes.py"), path)
    return g.offset // 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SIZES)
    parser.add_argument("out")
    for field in dataclasses.fields(Size):
        parser.add_argument("--" + field.name.replace("_", "-"), type=int, metavar="N", help="instead of the model's own")
    options = vars(parser.parse_args())
    name, out = options.pop("name"), options.pop("out")
    print(f"{out}: {write(name, out, **{key: value for key, value in options.items() if value is not None})} parameters")


if __name__ == "__main__":
    main()
