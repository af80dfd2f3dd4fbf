"""Convolutions of images split in both dimensions: windows over the seams, strides, pads and dilations, sizes that nothing divides."""
import numpy as np
import onnx
import pytest

import harness as h

# Ranks of height and width; the image; of two convolutions window, stride, pad, dilation.
CASES = {
    "rows": ((2, 1), (8, 8), (3, 1, 1, 1), (3, 1, 1, 1)),
    "rows and columns": ((2, 2), (8, 8), (3, 1, 1, 1), (3, 1, 1, 1)),
    "three ranks, wide window": ((3, 1), (9, 7), (3, 1, 1, 1), (5, 1, 2, 1)),
    "uneven, strided": ((2, 3), (9, 11), (3, 2, 1, 1), (3, 1, 1, 1)),
    "dilated": ((4, 1), (12, 6), (3, 1, 2, 2), (3, 1, 1, 1)),
    "strided twice, uneven": ((2, 2), (13, 12), (3, 2, 1, 1), (3, 2, 1, 1)),
    "without pads": ((3, 2), (11, 9), (3, 1, 0, 1), (1, 1, 0, 1)),
    "windows that do not overlap": ((4, 2), (16, 16), (2, 2, 0, 1), (2, 2, 0, 1)),
    "window larger than a block": ((5, 1), (11, 7), (4, 1, 2, 1), (7, 1, 3, 1)),
    "even window, more pad than needed": ((2, 2), (7, 6), (2, 1, 2, 1), (3, 3, 1, 1)),
}


def model(image, *convolutions):
    random = np.random.default_rng(0)
    nodes, weights, name, channels = [], [], "x", 3
    for i, (window, stride, pad, dilation) in enumerate(convolutions):
        w, b = f"w{i}", f"b{i}"
        weights += [onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / window, n)
                    for n, shape in ((w, (4 + i, channels, window, window)), (b, (4 + i,)))]
        nodes += [onnx.helper.make_node("Conv", [name, w, b], [f"c{i}"], f"conv{i}", kernel_shape=[window] * 2, strides=[stride] * 2,
                                        pads=[pad] * 4, dilations=[dilation] * 2), onnx.helper.make_node("Tanh", [f"c{i}"], [f"t{i}"], f"tanh{i}")]
        name, channels = f"t{i}", 4 + i
    graph = onnx.helper.make_graph(nodes, "images", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, *image])],
                                   [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)], weights)
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    return onnx.shape_inference.infer_shapes(made).SerializeToString(), name


def plan(ranks, more=""):
    return f"""
[mesh]
height = {ranks[0]}
width = {ranks[1]}
[[input]]
match = "x"
dim = 2
axes = ["height"]
[[input]]
match = "x"
dim = 3
axes = ["width"]
[[op]]
match = "conv*"
pattern = "spatial"
axes = ["height", "width"]
""" + more


def write(folder, image, convolutions, text):
    content, output = model(image, *convolutions)
    (folder / "m.onnx").write_bytes(content)
    (folder / "plan.toml").write_text(text)
    return (folder / "m.onnx", "--plan", folder / "plan.toml", "--train", "sgd", "--loss", f"mse:{output}")


@pytest.mark.parametrize("name", CASES)
def test_split_image(tmp_path, name):
    ranks, image, *convolutions = CASES[name]
    h.checked(h.TESSERA, "verify", *write(tmp_path, image, convolutions, plan(ranks)))


def test_only_edges_travel(tmp_path):
    """Of an image of 16 rows on 4 ranks a window of 3 needs a row from either side."""
    arguments = write(tmp_path, (16, 8), [(3, 1, 1, 1)], plan((4, 1)))
    h.checked(h.TESSERA, "compile", *arguments, "-o", tmp_path / "p")
    row = 2 * 3 * 8 * 4
    assert h.Program(tmp_path / "p", 4).info("infer")["sent"]["height"]["permute"] == {"count": 2, "bytes": 2 * row}


@pytest.mark.parametrize("image,convolution,text,words", [
    ((3, 8), (3, 1, 1, 1), plan((4, 1)), ("no row for each of 4 ranks", "split fewer ways")),
    ((8, 8), (3, 1, 1, 1), plan((2, 2)).replace('"conv*"', '"tanh0"'), ("splits the image of a convolution",)),
    ((8, 8), (3, 1, 1, 1), plan((2, 2)).replace("width = 2", "width = 2\ndepth = 1").replace('["height", "width"]', '["height", "width", "depth"]'), ("takes 1 to 2 axis names", "given 3")),
])
def test_bad_plans(tmp_path, image, convolution, text, words):
    h.assert_error(h.tessera("compile", *write(tmp_path, image, [convolution], text), "-o", tmp_path / "p"), *words)
