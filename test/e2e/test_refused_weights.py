"""Weights, attributes and tokens that nearly fit a model: of another type, of another shape, in two copies."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

import harness as h


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def saved(path, nodes, inputs, output, **arrays):
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize("kind,text", [(np.float16, "f16"), (np.int32, "i32")])
def test_weights_of_another_type(tmp_path, kind, text):
    """The bytes of integers would fit."""
    model = h.MODELS / "mlp.onnx"
    names = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(model).graph.initializer}
    save_file(names | {"fc1.weight": names["fc1.weight"].astype(kind)}, tmp_path / "w.safetensors")
    result = h.tessera("convert", model, "--weights", tmp_path / "w.safetensors", "--format", "onnx", "-o", tmp_path / "out.onnx")
    h.assert_error(result, f"the weights hold 'fc1.weight' as {text}, the model as f32; convert them before")
    assert not (tmp_path / "out.onnx").exists()


def test_copies_that_were_trained_apart(tmp_path):
    """A weight that is used twice, which its exporter transposed for each use; --as-written trains both."""
    w = np.arange(9, dtype=np.float32).reshape(3, 3)
    model = saved(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "val_1"], ["h"]), helper.make_node("MatMul", ["h", "val_2"], ["y"])],
                  [info("x", [2, 3])], info("y", [2, 3]), val_1=w, val_2=w)
    for name in ("val_1", "val_2"):
        model.graph.value_info.append(info(name, [3, 3]))
        model.graph.value_info[-1].metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value="['w']")
    model.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value="w: PARAMETER target='w'\n")
    onnx.save(model, tmp_path / "m.onnx")
    save_file({"val_1": w + 1, "val_2": w + 2}, tmp_path / "w.safetensors")
    result = h.checked(h.TESSERA, "convert", tmp_path / "w.safetensors", "--model", tmp_path / "m.onnx", "--as-written", "--format", "torch", "-o", tmp_path / "torch")
    assert "warning: 'val_2' is another copy of 'w', which the exporter untied, and was trained to other values; those of the first copy are written" in result.stderr
    np.testing.assert_array_equal(load_file(tmp_path / "torch")["w"], (w + 1).T)


@pytest.mark.parametrize("op,name,inputs", [("Constant", "value", []), ("Constant", "value_floats", []), ("ConstantOfShape", "value", ["s"]),
                                            ("Dropout", "seed", ["x"]), ("RandomUniformLike", "seed", ["x"])])
def test_attributes_of_another_type(tmp_path, op, name, inputs):
    node = helper.make_node(op, inputs, ["y"], name="it")
    node.attribute.add(name=name, type=onnx.AttributeProto.SPARSE_TENSOR)
    saved(tmp_path / "m.onnx", [node], [info("x", [2, 3])], info("y", None), s=np.array([2, 3]))
    h.assert_error(h.tessera("compile", tmp_path / "m.onnx", "-o", tmp_path / "p"),
                   f"node 'it' ({op}): attribute '{name}' has another type than ONNX defines")


def test_tokens_for_other_shapes(tmp_path):
    """They are rows of the batch, and their labels as many."""
    table, tokens = np.ones((10, 3), np.float32), tmp_path / "t.bin"
    np.zeros(100, "<u2").tofile(tokens)
    looked_up = helper.make_node("Gather", ["table", "ids"], ["rows"])
    for name, ids, nodes, inputs, loss, said in (
            ("bag", [5], [helper.make_node("ReduceMean", ["rows", "axis"], ["mean"], keepdims=0), helper.make_node("Add", ["x", "mean"], ["y"])],
             [info("x", [4, 3])], "mse:y", "--tokens cannot fill input 'ids' of shape [5]: [batch, sequence] is expected"),
            ("classes", [4, 8], [helper.make_node("ReduceMean", ["rows", "axis"], ["y"], keepdims=0)],
             [], "cross_entropy:y", "--tokens cannot fill 'labels' of shape [4] beside 'ids' of shape [4, 8]")):
        saved(tmp_path / "m.onnx", [looked_up, *nodes], [info("ids", ids, TensorProto.INT64), *inputs], info("y", [4, 3]),
              table=table, axis=np.array([len(ids) - 1]))
        h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / name, "--train", "sgd", "--loss", loss)
        h.assert_error(h.run(tmp_path / name, "train", "--tokens", tokens, "--steps", "1"), said)
