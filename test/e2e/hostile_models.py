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
    "cycle": (model([node("Add", ["x", "y"], ["a"], "first"), node("Neg", ["a"], ["y"], "second")]),
        ["node 'first' (Add) uses 'y' before anything defines it: the file's nodes are not in topological order"]),
    "self-cycle": (model([node("Add", ["x", "y"])]),
        ["node 'it' (Add) uses 'y' before anything defines it: the file's nodes are not in topological order"]),
    "unsorted": (model([node("Neg", ["a"], ["y"], "late"), node("Neg", ["x"], ["a"])]),
        ["node 'late' (Neg) uses 'a' before anything defines it: the file's nodes are not in topological order"]),
    "dangling-input": (model([node("Add", ["x", "nowhere"])]),
        ["node 'it' (Add) uses 'nowhere' before anything defines it: the file's nodes are not in topological order"]),
    "dangling-output": (model([node("Neg", ["x"], ["z"])]), ["nothing defines the graph output 'y'"]),
    "no-output": (model([node("Neg", ["x"])], outputs=[]), ["the graph has no outputs"]),
    "value-twice": (model([node("Neg", ["x"]), node("Abs", ["x"], name="again")]),
        ["value 'y' is defined twice, the second time by node 'again'"]),
    "input-twice": (model([node("Neg", ["x"])], [info("x", [2]), info("x", [2])]),
        ["value 'x' is defined twice, the second time by a graph input"]),
    "output-twice": (model([node("Neg", ["x"])], outputs=[info("y", [2, 3]), info("y", [2, 3])]),
        ["the graph output 'y' is listed twice"]),
    "initializer-twice": (model([node("Add", ["x", "w"])], initializers=[const("w", [1.0], np.float32)] * 2),
        ["value 'w' is defined twice, the second time by an initializer"]),
    "initializer-shadows-value": (model([node("Neg", ["x"], ["w"]), node("Add", ["x", "w"])],
                                        initializers=[const("w", [1.0], np.float32)]),
                                            ["value 'w' is defined twice, the second time by node 'it'"]),
    "unnamed-input": (model([node("Neg", [""])], [info("", [2])]), ["a graph input has no name"]),
    "missing-operand": (model([node("Add", ["x"])]), ["node 'it' (Add): input 1 is missing"]),
    "too-many-operands": (model([node("Neg", ["x", "x"])]),
        ["node 'it' (Neg): input 1 ('x') is one too many: the operator takes 1, or more are not supported"]),
    "no-operands": (model([node("Add", [])]), ["node 'it' (Add): input 0 is missing"]),
    # types and shapes
    "string-input": (model([node("Identity", ["x"])], [info("x", [2], TensorProto.STRING)]),
        ["graph input 'x' has the element type 8, which is not supported"]),
    "unknown-type": (model([node("Identity", ["x"])], [info("x", [2], 99)]),
        ["graph input 'x' has the element type 99, which is not supported"]),
    "complex-initializer": (model([node("Add", ["x", "w"])],
        initializers=[raw("w", [1], bytes(8), TensorProto.COMPLEX64)]),
        ["initializer 'w' has the element type 14, which is not supported"]),
    "unknown-initializer-type": (model([node("Add", ["x", "w"])], initializers=[raw("w", [1], bytes(8), 77)]),
        ["initializer 'w' has the element type 77, which is not supported"]),
    "string-initializer": (model([node("Add", ["x", "w"])],
        initializers=[helper.make_tensor("w", TensorProto.STRING, [1], [b"a"])]),
        ["initializer 'w' has the element type 8, which is not supported"]),
    "types-differ": (model([node("Add", ["x", "w"])], initializers=[const("w", [1])]),
        ["node 'it' (Add): operands have different element types"]),
    "sequence-input": (model([node("Identity", ["x"])], [helper.make_tensor_sequence_value_info("x", F32, [2])]),
        ["graph input 'x' has no shape in the file: export the model with one"]),
    "shapeless-input": (model([node("Neg", ["x"])], [info("x", None)]),
        ["graph input 'x' has no shape in the file: export the model with one"]),
    "negative-dimension": (shaped([2, -3]), ["dimension 1 of graph input 'x' would be -3; sizes begin at 1"]),
    "zero-dimension": (shaped([2, 0]), ["dimension 1 of graph input 'x' would be 0; sizes begin at 1"]),
    "huge-dimension": (shaped([2**63 - 1]),
        ["graph input 'x' has more elements than any machine can hold; is a dimension wrong?"]),
    "overflowing-shape": (shaped([HUGE, HUGE]),
        ["graph input 'x' has more elements than any machine can hold; is a dimension wrong?"]),
    "overflow-to-small": (shaped([1 << 32, 1 << 32]),
        ["graph input 'x' has more elements than any machine can hold; is a dimension wrong?"]),
    "overflowing-product": (model([node("MatMul", ["x", "w"])], [info("x", [HUGE, 1]), info("w", [1, HUGE])]),
        ["it", "a value of type tensor<1099511627776x1099511627776xf32> has more elements than any machine can hold"]),
    "overflowing-broadcast": (model([node("Add", ["x", "w"])], [info("x", [HUGE, 1]), info("w", [1, HUGE])]),
        ["it", "a value of type tensor<1099511627776x1099511627776xf32> has more elements than any machine can hold"]),
    "negative-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [-1])]),
        ["initializer 'w' has an impossible shape: a dimension is -1"]),
    "overflowing-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [1 << 62, 8])]),
        ["initializer 'w' has an impossible shape: a dimension is 4611686018427387904"]),
    "overflowing-empty-initializer": (model([node("Add", ["x", "w"])],
        initializers=[raw("w", [0, 1 << 62, 1 << 62])]),
        ["initializer 'w' has an impossible shape: a dimension is 4611686018427387904"]),
    "short-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [2, 3], bytes(20))]),
        ["initializer 'w' has 20 bytes, its shape and type need 24"]),
    "long-initializer": (model([node("Add", ["x", "w"])], initializers=[raw("w", [2, 3], bytes(28))]),
        ["initializer 'w' has 28 bytes, its shape and type need 24"]),
    # operands that must be constants of a certain rank
    "reshape-to-matrix": (of_shape("Reshape", [[6]]),
        ["node 'it' (Reshape): input 1 ('s') has 2 dimensions, a list of integers has one"]),
    "reshape-two-unknown": (of_shape("Reshape", [-1, -1]),
        ["node 'it' (Reshape): the new shape has more than one -1, or a negative size"]),
    "reshape-negative": (of_shape("Reshape", [-2, -3]),
        ["node 'it' (Reshape): the new shape has more than one -1, or a negative size"]),
    "reshape-overflow": (of_shape("Reshape", [HUGE, HUGE]), ["node 'it' (Reshape): the new shape is impossible"]),
    "reshape-by-data": (model([node("Reshape", ["x", "s"])], [info("x", [2, 3]), info("s", [2], I64)]),
        ["node 'it' (Reshape): input 1 ('s') must be known at compile time, here it depends on the data"]),
    "expand-overflow": (of_shape("Expand", [HUGE, HUGE, 2, 3]), ["node 'it' (Expand): the shape is impossible"]),
    "expand-huge": (of_shape("Expand", [1 << 50, 2, 3]),
        ["it", "a value of type tensor<1125899906842624x2x3xf32> has more elements than any machine can hold"]),
    "tile-overflow": (of_shape("Tile", [HUGE, HUGE]),
        ["it", "a value of type tensor<1099511627776x2x1099511627776x3xf32> has more elements than any machine can hold"]),
    "tile-negative": (of_shape("Tile", [-1, 1]), ["node 'it' (Tile): the repeats are impossible"]),
    "tile-short": (of_shape("Tile", [2]), ["node 'it' (Tile): one repeat for each dimension is expected"]),
    "pad-overflow": (of_shape("Pad", [2**63 - 1] * 4),
        ["it", "the pads 9223372036854775807 and 9223372036854775807 are impossible for dimension 0 of size 2"]),
    "pad-cut-overflow": (of_shape("Pad", [-2**63] * 4),
        ["it", "the pads -9223372036854775808 and -9223372036854775808 are impossible for dimension 0 of size 2"]),
    "pad-short": (of_shape("Pad", [1]), ["node 'it' (Pad): two pads for each dimension are expected"]),
    "squeeze-outside": (of_shape("Squeeze", [7]), ["it", "axis 7 is outside a tensor of 2 dimensions"]),
    "squeeze-large": (of_shape("Squeeze", [0]), ["node 'it' (Squeeze): cannot squeeze dimension 0 of size 2"]),
    "unsqueeze-twice": (of_shape("Unsqueeze", [0, 0]), ["node 'it' (Unsqueeze): an axis is named twice"]),
    "split-huge": (of_shape("Split", [2**62, 2**62]), ["node 'it' (Split): a part has an impossible size"]),
    "split-many": (model([node("Split", ["x"], ["y"], num_outputs=2**40)]),
        ["node 'it' (Split): a split into 1099511627776 parts is not supported, up to 65536 are"]),
    "split-chunks": (model([node("SplitToSequence", ["x", "s"], ["q"]), node("SequenceAt", ["q", "s"])], [info("x", [HUGE])],
                           initializers=[const("s", 1)]),
                               ["it", "a split into 1099511627776 parts is not supported, up to 65536 are"]),
    "slice-ragged": (model([node("Slice", ["x", "s", "t"])], initializers=[const("s", [0, 0]), const("t", [1])]),
        ["node 'it' (Slice): starts, ends, axes and steps differ in length"]),
    "slice-still": (model([node("Slice", ["x", "s", "t", "s", "u"])],
                             initializers=[const("s", [0]), const("t", [1]), const("u", [0])]),
                                 ["node 'it' (Slice): the step 0 of a Slice is impossible"]),
    "slice-huge-backward": (model([node("Slice", ["x", "s", "t", "a", "u"])], [info("x", [HUGE])],
                                  initializers=[const("s", [2**63 - 1]), const("t", [-2**63]), const("a", [0]), const("u", [-1])]),
                                      ["it", "this would need a list of 1099511627776 positions at compile time"]),
    "pad-huge-reflect": (model([node("Pad", ["x", "p"], mode="reflect")], [info("x", [HUGE])],
        initializers=[const("p", [1, 1])]),
        ["it", "this would need a list of 1099511627778 positions at compile time, at most 16777216 are possible"]),
    "pool-huge": (model([node("AveragePool", ["x"], kernel_shape=[2**31 - 1], pads=[1, 1])],
        [info("x", [1, 1, HUGE])]),
        ["it", "this would need a list of 1097364144132 positions at compile time, at most 16777216 are possible"]),
    "convtranspose-huge": (model([node("ConvTranspose", ["x", "w"], strides=[2**31 - 1])],
        [info("x", [1, 1, HUGE]), info("w", [1, 1, 2])]),
        ["it", "this would need a list of 1099511627776 positions at compile time, at most 16777216 are possible"]),
    "convtranspose-padding": (model([node("ConvTranspose", ["x", "w"], output_padding=[2**63 - 1])], [info("x", [1, 1, 8]), info("w", [1, 1, 2])]),
                              ["node 'it' (ConvTranspose): output_padding or output_shape is impossible"]),
    "spacetodepth-huge": (model([node("SpaceToDepth", ["w"], blocksize=2**62)],
        initializers=[raw("w", [1, 1, 0, 0])]),
        ["node 'it' (SpaceToDepth): the image of SpaceToDepth does not fit blocks of 4611686018427387904"]),
    "transpose-twice": (model([node("Transpose", ["x"], perm=[0, 0])]),
        ["node 'it' (Transpose): perm is not a permutation of the operand's dimensions"]),
    "concat-outside": (model([node("Concat", ["x", "x"], axis=5)]),
        ["node 'it' (Concat): axis 5 is outside a tensor of 2 dimensions"]),
    "concat-ranks": (model([node("Concat", ["x", "w"], axis=1)], initializers=[const("w", [1.0], np.float32)]),
        ["node 'it' (Concat): operands must have one rank and element type"]),
    "softmax-of-scalar": (model([node("Softmax", ["x"])], [info("x", [])]),
        ["node 'it' (Softmax): axis -1 is outside a tensor of 0 dimensions"]),
    "gather-outside": (model([node("Gather", ["x", "s"])], initializers=[const("s", [5])]),
        ["node 'it' (Gather): index 5 is outside a dimension of size 2"]),
    "onehot-of-scalars": (model([node("OneHot", ["s", "d", "d"])], [info("s", [2], I64)],
        initializers=[const("d", 3)]),
        ["node 'it' (OneHot): input 2, the values off and on, must be a vector of two"]),
    "onehot-huge": (model([node("OneHot", ["s", "d", "v"])], [info("s", [1 << 20], I64)],
                          initializers=[const("d", 2**62), const("v", [0, 1])]),
                              ["it", "a value of type tensor<1x4611686018427387904xi64> has more elements than any machine can hold"]),
    "cumsum-of-nothing": (model([node("CumSum", ["w", "a"])], initializers=[raw("w", [2, 0]), const("a", 0)]), None),
    "range-huge": (model([node("Range", ["a", "b", "c"])],
        initializers=[const("a", 0), const("b", 2**62), const("c", 1)]),
        ["node 'it' (Range): a Range from 0 to 4611686018427387904 by 1 is not possible"]),
    "range-still": (model([node("Range", ["a", "b", "a"])], initializers=[const("a", 0), const("b", 5)]),
        ["node 'it' (Range): a Range from 0 to 5 by 0 is not possible"]),
    "constant-of-huge-shape": (model([node("ConstantOfShape", ["s"])], initializers=[const("s", [HUGE, HUGE])]),
        ["node 'it' (ConstantOfShape): the shape is impossible"]),
    "matmul-sizes": (model([node("MatMul", ["x", "x"])]),
        ["node 'it' (MatMul): letter 'i' has size 3 in the first operand and 2 in the second"]),
    "conv-ranks": (model([node("Conv", ["x", "w"])], initializers=[raw("w", [1, 1, 3, 3], bytes(36))]),
        ["node 'it' (Conv): Conv needs operands [n, c, ..] and weights of equal rank, 3 or more"]),
    "conv-huge-pads": (model([node("Conv", ["x", "w"], pads=[2**62] * 4)], [info("x", [1, 1, 8, 8])],
                             initializers=[raw("w", [1, 1, 3, 3], bytes(36))]),
                                 ["node 'it' (Conv): the window, its strides, dilations or pads are impossible"]),
    "conv-zero-stride": (model([node("Conv", ["x", "w"], strides=[0, 0])], [info("x", [1, 1, 8, 8])],
                               initializers=[raw("w", [1, 1, 3, 3], bytes(36))]),
                                   ["node 'it' (Conv): the window, its strides, dilations or pads are impossible"]),
    "conv-zero-group": (model([node("Conv", ["x", "w"], group=0)], [info("x", [1, 1, 8, 8])],
                              initializers=[raw("w", [1, 1, 3, 3], bytes(36))]),
                                  ["it", "x has 1 channels, w [1, 1, 3, 3] takes 1 in each of 0 groups, which must divide its output channels"]),
    "attention-ranks": (model([node("Attention", ["x", "x", "x"])], opset=23),
        ["it", "a 3-D operand of Attention needs a number of heads that divides its last dimension"]),
    "layernorm-shapes": (model([node("LayerNormalization", ["x", "w"])], initializers=[raw("w", [5], bytes(20))]),
        ["node 'it' (LayerNormalization): cannot broadcast [5] to [3]"]),
    "einsum-malformed": (model([node("Einsum", ["x", "x"], equation="ij,jk,kl->il->")]),
        ["it", "the Einsum 'ij,jk,kl->il->' is not supported: two operands and an explicit result without '...' are"]),
    # attributes
    "attribute-type": (model([node("Softmax", ["x"], axis="last")]),
        ["node 'it' (Softmax): attribute 'axis' has another type than ONNX defines"]),
    "attribute-missing": (model([node("Constant", [])]),
        ["node 'it' (Constant): the constant has no value of a supported kind"]),
    "cast-unknown": (model([node("Cast", ["x"], to=99)]), ["node 'it' (Cast): cannot cast to element type 99"]),
    "axis-extreme": (model([node("Softmax", ["x"], axis=-2**63)]),
        ["node 'it' (Softmax): axis -9223372036854775808 is outside a tensor of 2 dimensions"]),
    "unknown-attribute": (model([node("Softmax", ["x"], axes=[1])]),
        ["node 'it' (Softmax): attribute 'axes' is not one that the operator has, or it is not supported"]),
    "attribute-twice": (twice("axis"), ["node 'it' (Softmax) has the attribute 'axis' twice"]),
    "kernel-shape": (model([node("Conv", ["x", "w"], kernel_shape=[2, 2])], [info("x", [1, 1, 8, 8])],
                           initializers=[raw("w", [1, 1, 3, 3], bytes(36))]),
                               ["node 'it' (Conv): kernel_shape differs from the window of the weights"]),
    "subgraph": (model([node("If", ["x"], then_branch=helper.make_graph([], "t", [], []), else_branch=helper.make_graph([], "e", [], []))]),
                 ["uses operators that are not supported in opset 20: If (1 node, first 'it')"]),
    # files
    "opset-old": (model([node("Neg", ["x"])], opset=9),
        ["uses opset 9; 13 to 27 are supported (export again, or convert it with onnx.version_converter)"]),
    "opset-future": (model([node("Neg", ["x"])], opset=99),
        ["uses opset 99; 13 to 27 are supported (export again, or convert it with onnx.version_converter)"]),
    "opset-twice": (opsets([("", 20), ("ai.onnx", 18)]), ["imports the domain 'ai.onnx' in opset 20 and in opset 18"]),
    "no-graph": (onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 20)]),
        ["is not an ONNX model: it has no graph or no opset"]),
    "other-domain": (model([node("Neg", ["x"], domain="com.example")]),
        ["uses operators that are not supported in opset 20: com.example::Neg (1 node, first 'it')"]),
    "outside-absolute": (external("/etc/passwd"),
        ["external data '/etc/passwd' is an absolute path; the model may name only files in its own folder"]),
    "outside-dots": (external("a/../../w.bin"),
        ["external data 'a/../../w.bin' leaves the folder by '..'; the model may name only files in its own folder"]),
    "outside-link": (link_outside,
        ["external data 'w.bin' is a link to '", "w.bin", "link"]),
    "outside-folder-link": (link_folder_outside,
        ["' outside of it; copy the file there; the model may name only files in its own folder", "w.bin", "link"]),
    "link-loop": (link_loop, ["cannot open external data 'w.bin' in"]),
    "external-folder": (external("."), ["is not a regular file"]),
    "external-nothing": (external(""),
        ["external data '' has no name; the model may name only files in its own folder"]),
    "external-nul": (nul_in_name,
        ["external data 'w.bin' goes on behind a NUL, where the names of files end; write the file's name alone"]),
    "external-missing": (external("w.bin"), ["cannot open external data 'w.bin' in"]),
    "external-pipe": (fifo, ["is not a regular file", "w.bin"]),
    "external-short": (with_file(20), ["which has 20: the file is truncated or another one", "w.bin"]),
    "external-negative-offset": (with_file(100, -8, 24),
        ["initializer 'w' has the external data offset '-8', not a number"]),
    "external-huge-offset": (with_file(100, 2**63, 24),
        ["initializer 'w' needs 24 bytes from byte 9223372036854775808 of"]),
    "external-overflow": (with_file(100, 2**64 - 8, 24), ["initializer 'w' needs 24 bytes from byte 18446744073709551608 of"]),
    "external-offset-text": (with_file(100, "eight"),
        ["initializer 'w' has the external data offset 'eight', not a number"]),
    "external-length": (with_file(100, 0, 20), ["initializer 'w' has 20 bytes, its shape and type need 24"]),
    # nesting
    "nested-subgraphs": (lambda _: nested(10000),
        ["is not a whole ONNX model: it is truncated, nested too deeply, or another kind of file", "m.onnx"]),
    "nested-subgraphs-a-little": (nested(20), ["node '' (If) has no output"]),
    "function-recursive": (calling([function("f0", ["f0"])]), ["function 'f0' calls itself, which ONNX forbids"]),
    "function-recursive-pair": (calling([function("f0", ["f1"]), function("f1", ["f0"])]),
        ["function 'f0' calls itself, which ONNX forbids"]),
    "function-deep": (lambda _: calling([*(function(f"f{i}", [f"f{i + 1}"]) for i in range(10000)),
        function("f10000", ["Neg"])]),
        ["functions are nested more than 100 deep, the last is 'f100'"]),
    "function-bomb": (lambda _: calling([*(function(f"f{i}", [f"f{i + 1}"] * 10) for i in range(20)),
        function("f20", ["Neg"])]),
        ["the file's functions expand to more than 100000 nodes"]),
    "function-missing": (calling([function("f0", ["nowhere"])]),
        ["uses operators that are not supported in opset 20: f::nowhere (1 node, first 'it/')"]),
    "function-attribute": (model([node("f0", ["x"], domain="f", axis=1)], functions=[function("f0", ["Neg"])], domains=["f"]),
        ["node 'it' passes the attribute 'axis', which function 'f0' does not have"]),
    "function-twice": (calling([function("f0", ["Neg"]), function("f0", ["Abs"])]),
        ["function 'f0' of domain 'f' is defined twice"]),
}


def write(kind, folder):
    """Writes `folder`/m.onnx; returns its path."""
    source = MODELS[kind][0]
    source = source(folder) if callable(source) else source
    path = folder / "m.onnx"
    path.write_bytes(source if isinstance(source, bytes) else source.SerializeToString())
    return path
