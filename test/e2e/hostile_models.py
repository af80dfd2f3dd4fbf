"""Models that no exporter writes: a table for test_hostile_input.py."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def info(name, shape, kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def const(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.array(value, dtype), name)


def node(op, inputs, outputs=("y",), name="it", **attributes):
    return helper.make_node(op, list(inputs), list(outputs), name=name, **attributes)


def model(nodes, inputs=None, outputs=None, initializers=(), opset=20, functions=(), domains=()):
    graph = helper.make_graph(list(nodes), "g", [info("x", [2, 3])] if inputs is None else inputs,
                              [info("y", None)] if outputs is None else outputs, list(initializers))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def external(location, offset=None, length=None, shape=(2, 3)):
    """A model whose weight lies in another file."""
    weight = TensorProto(name="w", data_type=F32, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            entry = weight.external_data.add()
            entry.key, entry.value = key, str(value)
    return model([node("Add", ["x", "w"])], initializers=[weight])


def raw(name, dims, data=b"", kind=F32):
    return TensorProto(name=name, data_type=kind, dims=dims, raw_data=data)


def nested(depth):
    """An If in an If in an If ..., written as bytes: protobuf's own writer would not go as deep."""
    def head(number, length):
        out, n = b"", length
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return bytes([number << 3 | 2]) + out + bytes([n])

    heads, size, tail = [], 0, b"\xa0\x01\x05"  # AttributeProto.type = GRAPH
    for _ in range(depth):  # AttributeProto.g = 6 in NodeProto.attribute = 5 in GraphProto.node = 1
        attribute = head(1, 11) + b"then_branch" + head(6, size)
        node = head(4, 2) + b"If" + head(5, len(attribute) + size + len(tail))
        graph = head(1, len(node) + len(attribute) + size + len(tail))
        heads.append(graph + node + attribute)
        size += len(heads[-1]) + len(tail)
    graph = b"".join(reversed(heads)) + tail * depth
    return b"\x08\x0a" + head(7, len(graph)) + graph + head(8, 4) + b"\x0a\x00\x10\x14"


def function(name, calls, domain="f"):
    """A function of one input that calls others in a row."""
    nodes, last = [], "a"
    for i, call in enumerate(calls):
        nodes.append(helper.make_node(call, [last], [f"v{i}"], domain="" if call == "Neg" else domain))
        last = f"v{i}"
    nodes.append(helper.make_node("Identity", [last], ["b"]))
    return helper.make_function(domain, name, ["a"], ["b"], nodes, [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)])


def calling(functions):
    return model([node("f0", ["x"], domain="f")], functions=functions, domains=["f"])


def shaped(dims, op="Neg"):
    return model([node(op, ["x"])], [info("x", dims)])


def of_shape(op, shape, *more):
    """An operator whose second operand is a shape, or another list of integers."""
    return model([node(op, ["x", "s"])], initializers=[const("s", shape), *more])


def link_outside(folder):
    (folder.parent / "secret").write_bytes(bytes(24))
    os.symlink(folder.parent / "secret", folder / "w.bin")
    return external("w.bin")


def link_folder_outside(folder):
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "w.bin").write_bytes(bytes(24))
    os.symlink(folder.parent / "elsewhere", folder / "sub")
    return external("sub/w.bin")


def link_loop(folder):
    os.symlink(folder / "w.bin", folder / "w.bin")
    return external("w.bin")


def with_file(size, *arguments):
    def write(folder):
        (folder / "w.bin").write_bytes(bytes(size))
        return external("w.bin", *arguments)
    return write


def nul_in_name(folder):
    (folder / "w.bin").write_bytes(bytes(24))
    return external("w.bin\0elsewhere")


def fifo(folder):
    os.mkfifo(folder / "w.bin")
    return external("w.bin")


def twice(attribute):
    softmax = node("Softmax", ["x"], **{attribute: 1})
    softmax.attribute.append(helper.make_attribute(attribute, 0))
    return model([softmax])


def opsets(sets):
    changed = model([node("Neg", ["x"])])
    del changed.opset_import[:]
    changed.opset_import.extend(helper.make_opsetid(*entry) for entry in sets)
    return changed


HUGE = 1 << 40
# name -> (the model, or a function of the folder that gives it; words of the error, or None where the model may also pass)
MODELS = {
    # graphs
    "cycle": (model([node("Add", ["x", "y"], ["a"], "first"), node("Neg", ["a"], ["y"], "second")]), ["first", "'y'"]),
    "self-cycle": (model([node("Add", ["x", "y"])]), ["it", "'y'"]),
    "unsorted": (model([node("Neg", ["a"], ["y"], "late"), node("Neg", ["x"], ["a"])]), ["late", "'a'"]),
    "dangling-input": (model([node("Add", ["x", "nowhere"])]), ["it", "nowhere"]),
    "dangling-output": (model([node("Neg", ["x"], ["z"])]), ["'y'"]),
    "no-output": (model([node("Neg", ["x"])], outputs=[]), ["output"]),
    "value-twice": (model([node("Neg", ["x"]), node("Abs", ["x"], name="again")]), ["'y'", "again"]),
    "input-twice": (model([node("Neg", ["x"])], [info("x", [2]), info("x", [2])]), ["'x'"]),
    "output-twice": (model([node("Neg", ["x"])], outputs=[info("y", [2, 3]), info("y", [2, 3])]), ["'y'"]),
    "initializer-twice": (model([node("Add", ["x", "w"])], initializers=[const("w", [1.0], np.float32)] * 2), ["'w'"]),
    "initializer-shadows-value": (model([node("Neg", ["x"], ["w"]), node("Add", ["x", "w"])],
                                        initializers=[const("w", [1.0], np.float32)]), ["'w'"]),
    "unnamed-input": (model([node("Neg", [""])], [info("", [2])]), ["name"]),
    "missing-operand": (model([node("Add", ["x"])]), ["it", "input 1"]),
    "too-many-operands": (model([node("Neg", ["x", "x"])]), ["it"]),
    "no-operands": (model([node("Add", [])]), ["it", "input 0"]),
    # types and shapes
    "string-input": (model([node("Identity", ["x"])], [info("x", [2], TensorProto.STRING)]), ["x"]),
    "unknown-type": (model([node("Identity", ["x"])], [info("x", [2], 99)]), ["x", "99"]),
    "complex-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [1], bytes(8), TensorProto.COMPLEX64)]), ["'w'"]),
    "unknown-initializer-type": (model([node("Add", ["x", "w"])], initializers=[raw("w", [1], bytes(8), 77)]), ["'w'", "77"]),
    "string-initializer": (model([node("Add", ["x", "w"])], initializers=[helper.make_tensor("w", TensorProto.STRING, [1], [b"a"])]), ["'w'"]),
    "types-differ": (model([node("Add", ["x", "w"])], initializers=[const("w", [1])]), ["it"]),
    "sequence-input": (model([node("Identity", ["x"])], [helper.make_tensor_sequence_value_info("x", F32, [2])]), ["'x'"]),
    "shapeless-input": (model([node("Neg", ["x"])], [info("x", None)]), ["'x'", "shape"]),
    "negative-dimension": (shaped([2, -3]), ["'x'", "-3"]),
    "zero-dimension": (shaped([2, 0]), ["'x'", "0"]),
    "huge-dimension": (shaped([2**63 - 1]), ["'x'"]),
    "overflowing-shape": (shaped([HUGE, HUGE]), ["'x'"]),
    "overflow-to-small": (shaped([1 << 32, 1 << 32]), ["'x'"]),
    "overflowing-product": (model([node("MatMul", ["x", "w"])], [info("x", [HUGE, 1]), info("w", [1, HUGE])]), ["it"]),
    "overflowing-broadcast": (model([node("Add", ["x", "w"])], [info("x", [HUGE, 1]), info("w", [1, HUGE])]), ["it"]),
    "negative-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [-1])]), ["'w'"]),
    "overflowing-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [1 << 62, 8])]), ["'w'"]),
    "overflowing-empty-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [0, 1 << 62, 1 << 62])]), ["'w'"]),
    "short-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [2, 3], bytes(20))]), ["'w'", "20", "24"]),
    "long-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [2, 3], bytes(28))]), ["'w'", "28", "24"]),
    # operands that must be constants of a certain rank
    "reshape-to-matrix": (of_shape("Reshape", [[6]]), ["it"]),
    "reshape-two-unknown": (of_shape("Reshape", [-1, -1]), ["it"]),
    "reshape-negative": (of_shape("Reshape", [-2, -3]), ["it"]),
    "reshape-overflow": (of_shape("Reshape", [HUGE, HUGE]), ["it"]),
    "reshape-by-data": (model([node("Reshape", ["x", "s"])], [info("x", [2, 3]), info("s", [2], I64)]), ["it", "'s'"]),
    "expand-overflow": (of_shape("Expand", [HUGE, HUGE, 2, 3]), ["it"]),
    "expand-huge": (of_shape("Expand", [1 << 50, 2, 3]), ["it"]),
    "tile-overflow": (of_shape("Tile", [HUGE, HUGE]), ["it"]),
    "tile-negative": (of_shape("Tile", [-1, 1]), ["it"]),
    "tile-short": (of_shape("Tile", [2]), ["it"]),
    "pad-overflow": (of_shape("Pad", [2**63 - 1] * 4), ["it"]),
    "pad-cut-overflow": (of_shape("Pad", [-2**63] * 4), ["it"]),
    "pad-short": (of_shape("Pad", [1]), ["it"]),
    "squeeze-outside": (of_shape("Squeeze", [7]), ["it", "7"]),
    "squeeze-large": (of_shape("Squeeze", [0]), ["it"]),
    "unsqueeze-twice": (of_shape("Unsqueeze", [0, 0]), ["it"]),
    "split-huge": (of_shape("Split", [2**62, 2**62]), ["it"]),
    "split-many": (model([node("Split", ["x"], ["y"], num_outputs=2**40)]), ["it"]),
    "split-chunks": (model([node("SplitToSequence", ["x", "s"], ["q"]), node("SequenceAt", ["q", "s"])], [info("x", [HUGE])],
                           initializers=[const("s", 1)]), ["it"]),
    "slice-ragged": (model([node("Slice", ["x", "s", "t"])], initializers=[const("s", [0, 0]), const("t", [1])]), ["it"]),
    "slice-still": (model([node("Slice", ["x", "s", "t", "s", "u"])],
                             initializers=[const("s", [0]), const("t", [1]), const("u", [0])]), ["it", "0"]),
    "slice-huge-backward": (model([node("Slice", ["x", "s", "t", "a", "u"])], [info("x", [HUGE])],
                                  initializers=[const("s", [2**63 - 1]), const("t", [-2**63]), const("a", [0]), const("u", [-1])]), ["it"]),
    "pad-huge-reflect": (model([node("Pad", ["x", "p"], mode="reflect")], [info("x", [HUGE])], initializers=[const("p", [1, 1])]), ["it"]),
    "pool-huge": (model([node("AveragePool", ["x"], kernel_shape=[2**31 - 1], pads=[1, 1])], [info("x", [1, 1, HUGE])]), ["it"]),
    "convtranspose-huge": (model([node("ConvTranspose", ["x", "w"], strides=[2**31 - 1])], [info("x", [1, 1, HUGE]), info("w", [1, 1, 2])]), ["it"]),
    "convtranspose-padding": (model([node("ConvTranspose", ["x", "w"], output_padding=[2**63 - 1])], [info("x", [1, 1, 8]), info("w", [1, 1, 2])]),
                              ["it", "output_padding"]),
    "spacetodepth-huge": (model([node("SpaceToDepth", ["w"], blocksize=2**62)], initializers=[raw("w", [1, 1, 0, 0])]), ["it"]),
    "transpose-twice": (model([node("Transpose", ["x"], perm=[0, 0])]), ["it", "perm"]),
    "concat-outside": (model([node("Concat", ["x", "x"], axis=5)]), ["it", "5"]),
    "concat-ranks": (model([node("Concat", ["x", "w"], axis=1)], initializers=[const("w", [1.0], np.float32)]), ["it"]),
    "softmax-of-scalar": (model([node("Softmax", ["x"])], [info("x", [])]), ["it"]),
    "gather-outside": (model([node("Gather", ["x", "s"])], initializers=[const("s", [5])]), ["it", "5"]),
    "onehot-of-scalars": (model([node("OneHot", ["s", "d", "d"])], [info("s", [2], I64)], initializers=[const("d", 3)]), ["it"]),
    "onehot-huge": (model([node("OneHot", ["s", "d", "v"])], [info("s", [1 << 20], I64)],
                          initializers=[const("d", 2**62), const("v", [0, 1])]), ["it"]),
    "cumsum-of-nothing": (model([node("CumSum", ["w", "a"])], initializers=[raw("w", [2, 0]), const("a", 0)]), None),
    "range-huge": (model([node("Range", ["a", "b", "c"])], initializers=[const("a", 0), const("b", 2**62), const("c", 1)]), ["it"]),
    "range-still": (model([node("Range", ["a", "b", "a"])], initializers=[const("a", 0), const("b", 5)]), ["it"]),
    "constant-of-huge-shape": (model([node("ConstantOfShape", ["s"])], initializers=[const("s", [HUGE, HUGE])]), ["it"]),
    "matmul-sizes": (model([node("MatMul", ["x", "x"])]), ["it"]),
    "conv-ranks": (model([node("Conv", ["x", "w"])], initializers=[raw("w", [1, 1, 3, 3], bytes(36))]), ["it"]),
    "conv-huge-pads": (model([node("Conv", ["x", "w"], pads=[2**62] * 4)], [info("x", [1, 1, 8, 8])],
                             initializers=[raw("w", [1, 1, 3, 3], bytes(36))]), ["it"]),
    "conv-zero-stride": (model([node("Conv", ["x", "w"], strides=[0, 0])], [info("x", [1, 1, 8, 8])],
                               initializers=[raw("w", [1, 1, 3, 3], bytes(36))]), ["it"]),
    "conv-zero-group": (model([node("Conv", ["x", "w"], group=0)], [info("x", [1, 1, 8, 8])],
                              initializers=[raw("w", [1, 1, 3, 3], bytes(36))]), ["it"]),
    "attention-ranks": (model([node("Attention", ["x", "x", "x"])], opset=23), ["it"]),
    "layernorm-shapes": (model([node("LayerNormalization", ["x", "w"])], initializers=[raw("w", [5], bytes(20))]), ["it"]),
    "einsum-malformed": (model([node("Einsum", ["x", "x"], equation="ij,jk,kl->il->")]), ["it"]),
    # attributes
    "attribute-type": (model([node("Softmax", ["x"], axis="last")]), ["it", "axis"]),
    "attribute-missing": (model([node("Constant", [])]), ["it"]),
    "cast-unknown": (model([node("Cast", ["x"], to=99)]), ["it"]),
    "axis-extreme": (model([node("Softmax", ["x"], axis=-2**63)]), ["it"]),
    "unknown-attribute": (model([node("Softmax", ["x"], axes=[1])]), ["it", "axes"]),
    "attribute-twice": (twice("axis"), ["it", "axis", "twice"]),
    "kernel-shape": (model([node("Conv", ["x", "w"], kernel_shape=[2, 2])], [info("x", [1, 1, 8, 8])],
                           initializers=[raw("w", [1, 1, 3, 3], bytes(36))]), ["it", "kernel_shape"]),
    "subgraph": (model([node("If", ["x"], then_branch=helper.make_graph([], "t", [], []), else_branch=helper.make_graph([], "e", [], []))]),
                 ["If"]),
    # files
    "opset-old": (model([node("Neg", ["x"])], opset=9), ["9"]),
    "opset-future": (model([node("Neg", ["x"])], opset=99), ["99"]),
    "opset-twice": (opsets([("", 20), ("ai.onnx", 18)]), ["18", "20"]),
    "no-graph": (onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 20)]), ["graph"]),
    "other-domain": (model([node("Neg", ["x"], domain="com.example")]), ["com.example"]),
    "outside-absolute": (external("/etc/passwd"), ["/etc/passwd"]),
    "outside-dots": (external("a/../../w.bin"), [".."]),
    "outside-link": (link_outside, ["w.bin", "link"]),
    "outside-folder-link": (link_folder_outside, ["w.bin", "link"]),
    "link-loop": (link_loop, ["w.bin"]),
    "external-folder": (external("."), ["regular file"]),
    "external-nothing": (external(""), ["name"]),
    "external-nul": (nul_in_name, ["'w", "NUL"]),
    "external-missing": (external("w.bin"), ["w.bin"]),
    "external-pipe": (fifo, ["w.bin"]),
    "external-short": (with_file(20), ["w.bin", "has 20"]),
    "external-negative-offset": (with_file(100, -8, 24), ["'w'", "-8"]),
    "external-huge-offset": (with_file(100, 2**63, 24), ["'w'", str(2**63)]),
    "external-overflow": (with_file(100, 2**64 - 8, 24), ["'w'"]),
    "external-offset-text": (with_file(100, "eight"), ["'w'", "eight"]),
    "external-length": (with_file(100, 0, 20), ["'w'", "20", "24"]),
    # nesting
    "nested-subgraphs": (lambda _: nested(10000), ["m.onnx"]),
    "nested-subgraphs-a-little": (nested(20), ["If"]),
    "function-recursive": (calling([function("f0", ["f0"])]), ["f0"]),
    "function-recursive-pair": (calling([function("f0", ["f1"]), function("f1", ["f0"])]), ["f0", "itself"]),
    "function-deep": (lambda _: calling([*(function(f"f{i}", [f"f{i + 1}"]) for i in range(10000)), function("f10000", ["Neg"])]), ["nested"]),
    "function-bomb": (lambda _: calling([*(function(f"f{i}", [f"f{i + 1}"] * 10) for i in range(20)), function("f20", ["Neg"])]), ["nodes"]),
    "function-missing": (calling([function("f0", ["nowhere"])]), ["nowhere"]),
    "function-attribute": (model([node("f0", ["x"], domain="f", axis=1)], functions=[function("f0", ["Neg"])], domains=["f"]), ["it", "axis", "f0"]),
    "function-twice": (calling([function("f0", ["Neg"]), function("f0", ["Abs"])]), ["f0", "twice"]),
}


def write(kind, folder):
    """Writes `folder`/m.onnx; returns its path."""
    source = MODELS[kind][0]
    source = source(folder) if callable(source) else source
    path = folder / "m.onnx"
    path.write_bytes(source if isinstance(source, bytes) else source.SerializeToString())
    return path
