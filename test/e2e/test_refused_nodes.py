"""Nodes that the importer refuses: each with what is said of it, the node's name and operator before it."""
import dataclasses

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import harness as h

OPSET = 24


@dataclasses.dataclass
class Node:
    """One node. An input is a shape (of a graph input of f32), `ids(shape)` (one of i64), an array (an initializer),
    another Node (its first result) or None (left out)."""
    op: str
    inputs: tuple
    outputs: int
    domain: str
    attributes: dict


@dataclasses.dataclass
class Ids:
    shape: tuple


def node(op, *inputs, outputs=1, domain="", **attributes):
    return Node(op, inputs, outputs, domain, attributes)


def ids(*shape):
    return Ids(shape)


def ints(*values):
    return np.array(values, np.int64)


def floats(*shape):
    return np.zeros(shape, np.float32)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


def moe(*inputs, **attributes):
    return node("MoE", *inputs, domain="com.microsoft", **attributes)


def model_of(root, opset=OPSET):
    nodes, inputs, initializers = [], [], []

    def add(given):
        if given is None:
            return ""
        name = f"v{len(nodes) + len(inputs) + len(initializers)}"
        if isinstance(given, np.ndarray):
            initializers.append(onnx.numpy_helper.from_array(given, name))
        elif isinstance(given, Node):
            operands = [add(operand) for operand in given.inputs]
            name = f"r{len(nodes)}"
            nodes.append(helper.make_node(given.op, operands, [name + "_" * i for i in range(given.outputs)], name=f"n{len(nodes)}",
                                          domain=given.domain, **given.attributes))
        else:
            kind, shape = (TensorProto.INT64, given.shape) if isinstance(given, Ids) else (TensorProto.FLOAT, given)
            inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    result = helper.make_tensor_value_info(add(root), TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [result], initializers)
    return helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])


IMAGE, HEADS = (1, 2, 8, 8), (2, 4, 8, 16)
TOKENS, SCORES = (6, 8), (6, 4)
CASES = {
    # Attention
    "a 3-D operand of Attention needs a number of heads that divides its last dimension":
        node("Attention", (2, 8, 30), (2, 8, 30), (2, 8, 30), q_num_heads=4, kv_num_heads=4),
    "the mask of Attention has 5 dimensions": node("Attention", HEADS, HEADS, HEADS, (1, 1, 1, 8, 8)),
    "the mask of Attention is longer than the keys": node("Attention", HEADS, HEADS, HEADS, (8, 9)),
    "the mask of Attention has 3 heads, there are 4": node("Attention", HEADS, HEADS, HEADS, (1, 3, 8, 8)),
    "Attention with a key/value cache is not supported": node("Attention", HEADS, HEADS, HEADS, None, HEADS, HEADS),
    "only the first output of Attention is supported": node("Attention", HEADS, HEADS, HEADS, outputs=2),
    "Attention with softcap or a window is not supported": node("Attention", HEADS, HEADS, HEADS, softcap=2.0),
    "4 query heads cannot share 3 key/value heads": node("Attention", HEADS, (2, 3, 8, 16), (2, 3, 8, 16)),
    "causal Attention with 8 queries and 9 keys is not supported":
        node("Attention", HEADS, (2, 4, 9, 16), (2, 4, 9, 16), is_causal=1),
    "rotary_embedding_dim does not fit the heads":
        node("RotaryEmbedding", HEADS, (2, 8, 8), (2, 8, 8), rotary_embedding_dim=18),
    "the caches of RotaryEmbedding do not fit its heads": node("RotaryEmbedding", HEADS, (2, 8, 7), (2, 8, 7)),
    # constants
    "the constant has no value of a supported kind": node("Constant", value_string="text"),
    "the shape is impossible": node("ConstantOfShape", ints(-1)),
    "(Expand): the shape is impossible": node("Expand", (4,), ints(-2)),
    "the value must have one element":
        node("ConstantOfShape", ints(4), value=onnx.numpy_helper.from_array(floats(2))),
    "the bounds of a Range must be scalars known at compile time": node("Range", (), scalar(4), scalar(1)),
    "a Range from 0.000000 to 4.000000 by 0.000000 is not possible": node("Range", scalar(0), scalar(4), scalar(0)),
    "EyeLike needs a matrix": node("EyeLike", (4,)),
    "(EyeLike): the element type is not supported": node("EyeLike", (4, 4), dtype=TensorProto.COMPLEX64),
    # convolutions and pools
    "the window, its strides, dilations and pads must fit 2 spatial dimensions": node("Conv", IMAGE, (2, 2, 3, 3), strides=[1]),
    "the window, its strides, dilations or pads are impossible": node("Conv", IMAGE, (2, 2, 3, 3), strides=[0, 1]),
    "the window has more elements than any machine can hold": node("MaxPool", IMAGE, kernel_shape=[2**31 - 1, 2**31 - 1]),
    "auto_pad 'SAME' is unknown": node("Conv", IMAGE, (2, 2, 3, 3), auto_pad="SAME"),
    "the bias must have one element for each of 2 channels": node("Conv", IMAGE, (2, 2, 3, 3), (3,)),
    "Conv needs operands [n, c, ..] and weights of equal rank, 3 or more": node("Conv", (8, 8), (3, 3)),
    "kernel_shape differs from the window of the weights": node("Conv", IMAGE, (2, 2, 3, 3), kernel_shape=[3, 2]),
    "weights for 3 channels in 1 groups, the image has 2": node("ConvTranspose", IMAGE, (3, 2, 3, 3)),
    "output_padding and output_shape must fit 2 spatial dimensions": node("ConvTranspose", IMAGE, (2, 2, 3, 3), output_padding=[1]),
    "output_padding or output_shape is impossible": node("ConvTranspose", IMAGE, (2, 2, 3, 3), output_shape=[-1, 4]),
    "pads beyond the window are not supported in a ConvTranspose": node("ConvTranspose", IMAGE, (2, 2, 3, 3), pads=[3, 0, 0, 0]),
    "MaxPool needs an image [n, c, ..] of floating numbers or bytes, with spatial dimensions": node("MaxPool", (8, 8), kernel_shape=[2]),
    "MaxPool's indices in column-major order are not supported":
        node("MaxPool", IMAGE, kernel_shape=[2, 2], storage_order=1, outputs=2),
    # elementwise
    "cannot cast to element type 14": node("Cast", (4,), to=TensorProto.COMPLEX64),
    "Gelu's approximate is 'sigmoid', expected none or tanh": node("Gelu", (4,), approximate="sigmoid"),
    # mixtures of experts
    "input 2 must be weights of 4 experts for rows of 8": moe(TOKENS, SCORES, (4, 16, 7), None, (4, 8, 16)),
    "a swiglu that is not fused needs a third layer":
        moe(TOKENS, SCORES, (4, 16, 8), None, (4, 8, 16), activation_type="swiglu"),
    "the activation 'tanh' of a mixture of experts is unknown":
        moe(TOKENS, SCORES, (4, 16, 8), None, (4, 8, 16), activation_type="tanh"),
    "a mixture of experts with use_sparse_mixer is not supported":
        moe(TOKENS, SCORES, (4, 16, 8), None, (4, 8, 16), use_sparse_mixer=1),
    "tokens and scores of experts for each are expected": moe(TOKENS, (4,), (4, 16, 8), None, (4, 8, 16)),
    "there are scores for 5 tokens, and 6 tokens": moe(TOKENS, (5, 4), (4, 16, 8), None, (4, 8, 16)),
    # indices
    "the indices must be int32 or int64": node("Gather", (4,), (2,)),
    "GatherND with batch_dims is not supported": node("GatherND", (2, 4), ids(2, 1), batch_dims=1),
    "(GatherND): the last dimension of the indices does not fit the data": node("GatherND", (2, 4), ids(2, 3)),
    "(ScatterND): the last dimension of the indices does not fit the data": node("ScatterND", (2, 4), ids(2, 3), (2,)),
    "the indices must have as many dimensions as the data": node("GatherElements", (64, 4), ids(2)),
    "(GatherElements): the indices are larger than the data along dimension 1": node("GatherElements", (64, 4), ids(2, 5)),
    "(ScatterElements): the indices are larger than the data along dimension 1": node("ScatterElements", (64, 4), ids(2, 5), (2, 5)),
    "index 4 is outside a dimension of size 4": node("Gather", (4, 2), ints(0, 4)),
    "Trilu needs at least two dimensions": node("Trilu", (4,)),
    "the depth of OneHot must be positive": node("OneHot", ids(4), ints(0), floats(2)),
    "input 2, the values off and on, must be a vector of two": node("OneHot", ids(4), ints(3), floats(3)),
    "ScatterElements's reduction is 'mean', expected none, add, mul, max or min":
        node("ScatterElements", (64, 4), ids(2, 4), (2, 4), reduction="mean"),
    "ScatterND with reduction 'max' of 4096 indices into 65536 places is not supported; none and add are":
        node("ScatterND", (65536,), ids(4096, 1), (4096,), reduction="max"),
    "the indices are outside dimension 0 of size 4": node("ScatterND", (4, 2), ints(3, 4).reshape(2, 1), (2, 2)),
    "the updates do not have the shape that indices and data tell": node("ScatterND", (4, 2), ids(2, 1), (2, 3)),
    "indices and updates must have one shape, of as many dimensions as the data":
        node("ScatterElements", (4, 2), ids(2, 2), (2, 1)),
    "TopK of 5 elements of 4": node("TopK", (2, 4), ints(5), outputs=2),
    "TopK along a dimension of 5000, at most 4096 are supported": node("TopK", (2, 5000), ints(5), outputs=2),
    # losses
    "input 2 must be one weight for each of 4 classes": node("SoftmaxCrossEntropyLoss", (2, 4), ids(2), (3,)),
    "expected scores of [batch, classes, ..]": node("SoftmaxCrossEntropyLoss", (4,), ids(4)),
    "labels must be integers of the shape of the scores without dimension 1": node("SoftmaxCrossEntropyLoss", (2, 4), ids(3)),
    'reduction "max": expected mean, sum or none': node("SoftmaxCrossEntropyLoss", (2, 4), ids(2), reduction="max"),
    # normalisation
    "the outputs Mean and InvStdDev of LayerNormalization are not supported": node("LayerNormalization", (2, 4), (4,), (4,), outputs=2),
    "BatchNormalization needs a channel dimension": node("BatchNormalization", (4,), (4,), (4,), (4,), (4,)),
    "InstanceNormalization needs dimensions after the channels": node("InstanceNormalization", (2, 4), (4,), (4,)),
    "the groups of GroupNormalization do not fit its channels": node("GroupNormalization", (2, 4, 3), (4,), (4,), num_groups=3),
    "the scale and bias of GroupNormalization do not fit its channels": node("GroupNormalization", (2, 4, 3), (3,), (4,), num_groups=2),
    # products
    "a product of tensors with 15 dimensions is not supported": node("MatMul", (1,) * 13 + (2, 3), (3, 2)),
    "a scalar has no matrix product": node("MatMul", (), (3, 2)),
    "Gemm multiplies matrices": node("Gemm", (2, 3, 4), (4, 2)),
    "the Einsum '...i,ij->...j' is not supported: two operands and an explicit result without '...' are":
        node("Einsum", (2, 3), (3, 4), equation="...i,ij->...j"),
    # random numbers
    "its training_mode ('r0') is computed at run time, a constant is expected":
        node("Dropout", (4,), scalar(0.5), node("Cast", (), to=TensorProto.BOOL)),
    "its ratio ('v1') is computed at run time, a constant is expected": node("Dropout", (4,), (), scalar(True, bool)),
    "its ratio is 1, expected one in [0, 1)": node("Dropout", (4,), scalar(1), scalar(True, bool)),
    "its element type 14 is not supported": node("RandomNormal", shape=[4], dtype=TensorProto.COMPLEX64),
    "random numbers are of a floating type": node("RandomNormal", shape=[4], dtype=TensorProto.INT64),
    # resizes
    "coordinate_transformation_mode 'tf_crop_and_resize' of a Resize is not supported":
        node("Resize", IMAGE, floats(8), np.array([1, 1, 2, 2], np.float32), coordinate_transformation_mode="tf_crop_and_resize"),
    "nearest_mode 'round' is unknown": node("Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), nearest_mode="round"),
    "mode 'lanczos' of a Resize is unknown": node("Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), mode="lanczos"),
    "Resize needs a floating image of at most 8 dimensions": node("Resize", ids(2, 2), None, np.ones(2, np.float32)),
    "Resize with antialias or keep_aspect_ratio_policy is not supported":
        node("Resize", IMAGE, None, np.ones(4, np.float32), antialias=1),
    "the scales of a Resize must be known at compile time": node("Resize", IMAGE, None, (4,)),
    "Resize needs one size or scale for each of its axes": node("Resize", IMAGE, None, np.ones(2, np.float32)),
    "Resize of dimension 2 from size 8 to 0.000000 is impossible or too large":
        node("Resize", IMAGE, None, np.array([1, 1, 0.1, 1], np.float32)),
    "the channels of DepthToSpace do not fit blocks of 3": node("DepthToSpace", IMAGE, blocksize=3),
    "the image of SpaceToDepth does not fit blocks of 3": node("SpaceToDepth", IMAGE, blocksize=3),
    # shapes
    "the new shape copies dimension 2, which the operand lacks": node("Reshape", (2, 4), ints(2, 4, 0)),
    "the new shape has more than one -1, or a negative size": node("Reshape", (2, 4), ints(-1, -1)),
    "the new shape is impossible": node("Reshape", (2, 4), ints(2**40, 2**40)),
    "8 elements do not fill the new shape": node("Reshape", (2, 4), ints(3, -1)),
    "cannot reshape [2, 4] to [3, 3]": node("Reshape", (2, 4), ints(3, 3)),
    "cannot broadcast [2, 4] to [3, 4]": node("Expand", (2, 4), ints(3, 4)),
    "cannot broadcast [3] to [4]": node("LayerNormalization", (2, 4), (3,), (4,)),
    "perm is not a permutation of the operand's dimensions": node("Transpose", (2, 4), perm=[0, 0]),
    "cannot squeeze dimension 1 of size 4": node("Squeeze", (1, 4), ints(1)),
    "one repeat for each dimension is expected": node("Tile", (2, 4), ints(2)),
    "the repeats are impossible": node("Tile", (2, 4), ints(2, -1)),
    "a split into 100000 parts is not supported, up to 65536 are": node("SplitToSequence", (100000,), scalar(1, np.int64)),
    "the parts have no size": node("SplitToSequence", (4,), scalar(0, np.int64)),
    "the number of parts is not positive": node("Split", (4,), num_outputs=0),
    "a part has an impossible size": node("Split", (4,), ints(5, -1), outputs=2),
    "the parts add up to 5, the dimension has 4": node("Split", (4,), ints(2, 3), outputs=2),
    "the sequence is empty": node("ConcatFromSequence", node("SplitToSequence", floats(0, 2), scalar(1, np.int64)), axis=0),
    "starts, ends, axes and steps differ in length": node("Slice", (4, 4), ints(0), ints(1, 2)),
    "the step 0 of a Slice is impossible": node("Slice", (4, 4), ints(0), ints(1), ints(0), ints(0)),
    "a reflecting Pad must be smaller than its dimension of size 4": node("Pad", (4,), ints(4, 0), mode="reflect"),
    "the mode 'mirror' of a Pad is unknown": node("Pad", (4,), ints(1, 1), mode="mirror"),
    "two pads for each dimension are expected": node("Pad", (4,), ints(1)),
    "the pads are impossible": node("Pad", (4,), ints(40000, 0), mode="edge"),
    "the value of a Pad must be a constant": node("Pad", (4,), ints(1, 1), ()),
    "the pads -5 and 0 are impossible for dimension 0 of size 4": node("Pad", (4,), ints(-5, 0)),
    "the pads cut more than there is": node("Pad", (4,), ints(-3, -3)),
    # what every operator may be given
    "input 1 is missing": node("Add", (4,), None),
    "input 0 is a sequence, a tensor is expected": node("Exp", node("SplitToSequence", (4,), scalar(2, np.int64))),
    "input 0 is not a sequence": node("ConcatFromSequence", (4,), axis=0),
    "input 1 ('v1') has 2 dimensions, a list of integers has one": node("Reshape", (2, 4), np.array([[4, 2]], np.int64)),
    "input 1 ('v1') must be known at compile time, here it depends on the data": node("Reshape", (2, 4), ids(2)),
    "input 1 has 2 elements, one is expected": node("TopK", (2, 4), ints(1, 2), outputs=2),
    "attribute 'beta' is not one that the operator has, or it is not supported": node("Exp", (4,), beta=1.0),
    "input 1 ('v1') is one too many: the operator takes 1, or more are not supported": node("Exp", (4,), (4,)),
    "attribute 'axis' has another type than ONNX defines": node("Concat", (4,), (4,), axis="0"),
    "axis 2 is outside a tensor of 2 dimensions": node("Concat", (4, 2), (4, 2), axis=2),
    "an axis is named twice": node("Unsqueeze", (4,), ints(0, 0)),
    "this would need a list of 999999999 positions at compile time":
        node("Slice", (10**9,), ints(-2), ints(-10**10), ints(0), ints(-1)),
    "a value of type tensor<1125899906842624xf32> has more elements than any machine can hold": node("ConstantOfShape", ints(2**50)),
    "a constant of 1099511627776 elements would have to be expanded during import":
        node("Reshape", (4,), node("ConstantOfShape", ints(2**40), value=onnx.numpy_helper.from_array(ints(1)))),
    "a value has no elements ('tensor<0xf32>'), which is not supported; is a length zero?": node("Exp", floats(0)),
}


@pytest.mark.parametrize("said", CASES)
def test_refused_nodes(tmp_path, said):
    onnx.save(model_of(CASES[said]), tmp_path / "m.onnx")
    result = h.tessera("compile", tmp_path / "m.onnx", "-o", tmp_path / "p", "--to", "import")
    h.assert_error(result, said)
    assert not (tmp_path / "p").exists()
