"""Text between phases, weights and models beside it that the compiler refuses, with what it says of them."""
import json
import struct

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import save_file

import harness as h
from test_hostile_input import EARLY, FORMED

MLP = h.MODELS / "mlp.onnx"
HUGE = "tensor<1000000x1000000x1000000xi64>"


def added(before, line):
    return before, f"    {line}\n{before}"


FUNCTION = "  func.func @infer"
# what is said: (text, what of it, what in its place)
TEXTS = {
    "the text has no func.func: it is no program": (EARLY, EARLY, "module {}\n"),
    "function @g must have one block": (EARLY, *added(FUNCTION, "func.func private @g()")),
    "argument 0 of @g has type 'i64'; expected a tensor with fixed sizes, of at most 2^48 elements":
        (EARLY, *added(FUNCTION, "func.func @g(%i: i64) {\n    return\n    }")),
    "result 0 of @g has type 'i64'; expected a tensor with fixed sizes, of at most 2^48 elements":
        (EARLY, *added(FUNCTION, "func.func @g(%x: tensor<4xf32>) -> i64 {\n    %i = arith.constant 1 : i64\n    return %i : i64\n    }")),
    "a program has no operator 'arith.addf'; expected those of nn, dist and exec":
        (EARLY, *added("    return", "%z = arith.addf %x, %x : tensor<4xf32>")),
    f"a result has type '{HUGE}'; expected fixed sizes, of at most 2^48 elements":
        (EARLY, *added("    return", f"%z = nn.iota {{dim = 0 : i64}} : () -> {HUGE}")),
    "the only module inside of a program is @kernels": (EARLY, *added(FUNCTION, "module @others {}")),
    "a program holds variables, a mesh, functions and kernels, not 'arith.constant'":
        (EARLY, *added(FUNCTION, "%i = arith.constant 1 : i64")),
    "a program has one mesh": (EARLY, *added(FUNCTION, 'dist.mesh @other = <["data"=2]>')),
    "the text is said to be past assign and has no dist.mesh": (EARLY, '  dist.mesh @mesh = <["data"=2]>\n', ""),
    "the text is said to be past schedule and has no module @kernels": (FORMED, FORMED[FORMED.index("  module @kernels"):], "}\n"),
    "argument 0 of @infer lacks the attributes dist.shape and dist.layout that partition gives it":
        (FORMED, "dist.shape = array<i64: 2, 4>, nn.kind", "nn.kind"),
    'wrong.mlir" is text after phase "asign", which does not exist': (EARLY, '"assign"', '"asign"'),
}


@pytest.mark.parametrize("said", TEXTS)
def test_texts_that_are_no_programs(tmp_path, said):
    text, old, new = TEXTS[said]
    assert text.count(old) == 1
    (tmp_path / "wrong.mlir").write_text(text.replace(old, new))
    h.assert_error(h.tessera("compile", tmp_path / "wrong.mlir", "-o", tmp_path / "p"), said)
    assert not (tmp_path / "p").exists()


def test_texts_of_the_wrong_phase(tmp_path):
    for phase in ("assign", "partition"):
        h.checked(h.TESSERA, "compile", MLP, "--to", phase, "-o", tmp_path / f"{phase}.mlir")
    for command, text, options, said in (
            ("compile", "assign", ("--from", "schedule", "-o", tmp_path / "p"),
             "is text after phase assign and cannot be resumed from schedule; use --from propagate"),
            ("compile", "assign", ("--to", "import", "-o", tmp_path / "p"), "is text after phase assign, which is behind --to import"),
            ("compile", "partition", ("--train", "sgd", "-o", tmp_path / "p"),
             "is text after phase partition without a training program; write it with --train sgd"),
            ("verify", "assign", (), "is text after phase assign, where its plan is part of it; verify takes it up to differentiate"),
            ("explain", "partition", (), "is text after phase partition, where layouts are gone; explain takes it up to propagate")):
        h.assert_error(h.tessera(command, tmp_path / f"{text}.mlir", *options), f'{text}.mlir" {said}')
    assert not (tmp_path / "p").exists()


def test_operators_that_no_description_holds(tmp_path):
    (tmp_path / "formed.mlir").write_text(FORMED)
    h.checked(h.TESSERA, "compile", tmp_path / "formed.mlir", "--to", "memory", "-o", tmp_path / "memory.mlir")
    text = (tmp_path / "memory.mlir").read_text()
    assert text.count("    return loc") == 1
    late = "    %z = nn.constant dense<1.0> : tensor<4xf32> : tensor<4xf32>\n    %n = nn.neg %z : (tensor<4xf32>) -> tensor<4xf32>\n    return loc"
    (tmp_path / "wrong.mlir").write_text(text.replace("    return loc", late))
    h.assert_error(h.tessera("compile", tmp_path / "wrong.mlir", "-o", tmp_path / "p"), "wrong.mlir:", "'nn.neg' op has no place in a program description")
    assert not (tmp_path / "p").exists()


def test_a_folder_for_dumps_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    result = h.tessera("compile", MLP, "-o", tmp_path / "p", "--dump-phases", tmp_path / "file" / "d")
    h.assert_error(result, f'cannot create the folder "{tmp_path}/file/d": ')


# ---- weights beside text

def weights(header, data=bytes(8)):
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text)) + text.encode() + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
WEIGHTS = {
    "is not a safetensors file: it has fewer than 8 bytes": b"short",
    "is not a safetensors file: its header is truncated": b"\xff" * 16,
    "is not a safetensors file: [1:": weights("{"),
    "is not a safetensors file: its header is not an object": weights("[]"),
    "is not a safetensors file: the entry 'w' is malformed": weights({"w": {"dtype": "F32"}}),
    "is not a safetensors file: the entry 'w' does not fit the file": weights({"w": {**ENTRY, "data_offsets": [0, 80]}}),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "mlp.mlir"
    h.checked(h.TESSERA, "compile", MLP, "--to", "normalize", "-o", path)
    return path


@pytest.mark.parametrize("said", WEIGHTS)
def test_weights_that_are_none(text, tmp_path, said):
    (tmp_path / "w.safetensors").write_bytes(WEIGHTS[said])
    h.assert_error(h.tessera("compile", text, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "p"), "w.safetensors' " + said)


def test_weights_of_other_variables(text, tmp_path):
    variable = next(line for line in text.read_text().splitlines() if "nn.variable" in line).split("@")[1].split(" ")[0].strip('"')
    for name, said in (("other", "the weights hold no values for '"),
                       (variable, f"the weights hold another shape or type for '{variable}'")):
        (tmp_path / "w.safetensors").write_bytes(weights({name: ENTRY}))
        result = h.tessera("compile", text, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "p")
        assert result.returncode == 1 and said in result.stderr, result.stderr


def test_trained_weights_of_another_model(tmp_path):
    names = [tensor.name for tensor in onnx.load(MLP).graph.initializer]
    for tensors, *said in (({name: np.zeros(2, np.float32) for name in names}, "': parameter '", "' has shape [2], the model's has ["),
                           ({"other": np.zeros(2, np.float32)}, "' lack ", " parameters of the model: ",
                            "; they hold others, such as 'other'. Are they of this model?")):
        save_file(tensors, tmp_path / "w.safetensors")
        result = h.tessera("convert", tmp_path / "w.safetensors", "--model", MLP, "--format", "torch", "-o", tmp_path / "out")
        h.assert_error(result, "w.safetensors", *said)


# ---- models

def model(nodes, inputs=None, outputs=None, opset=20, **more):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", inputs or [info("x", TensorProto.FLOAT, [2, 3])],
                              outputs or [info("y", TensorProto.FLOAT, None)], **more)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


def without_standard_operators():
    proto = model([helper.make_node("Neg", ["x"], ["y"])])
    proto.opset_import[0].domain = "other"
    return proto


def with_too_many_values():
    proto = model([helper.make_node("f", ["x", "x"], ["y"], "it", domain="local")])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(helper.make_function("local", "f", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
                                                [helper.make_opsetid("", 20)]))
    return proto


def shaped(*dims):
    return model([helper.make_node("Neg", ["x"], ["y"])], [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)])


MODELS = {
    "does not import the standard operators (opset of domain ai.onnx)": without_standard_operators(),
    "has sparse initializers, which are not supported":
        model([helper.make_node("Neg", ["x"], ["y"])], sparse_initializer=[helper.make_sparse_tensor(
            helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]), helper.make_tensor("i", TensorProto.INT64, [1], [0]), [4])]),
    "node 'it' passes more values than function 'f' takes": with_too_many_values(),
    "graph output 'y' is a sequence, which is not supported":
        model([helper.make_node("SplitToSequence", ["x"], ["y"], "it")]),
    "node 'it' (Split): its output 'c' is not supported":
        model([helper.make_node("Split", ["x", "s"], ["y", "b", "c"], "it", axis=1)],
              initializer=[helper.make_tensor("s", TensorProto.INT64, [2], [1, 2])]),
    "dimension 0 of graph input 'x', 'batch//0', has no value under the given --bind": shaped("batch//0", 3),
    "these symbolic dimensions have no value: rows, columns; give each one, for example: ": shaped("rows", "columns"),
    "initializer 'w' has the element type 9999, which is not supported":
        model([helper.make_node("Neg", ["x"], ["y"])], initializer=[TensorProto(name="w", data_type=9999, dims=[1])]),
    "attribute value of node 'it', tensor '' has the element type 77, which is not supported":
        model([helper.make_node("Constant", [], ["y"], "it", value=TensorProto(data_type=77, dims=[1]))]),
}


@pytest.mark.parametrize("said", MODELS)
def test_models(tmp_path, said):
    (tmp_path / "m.onnx").write_bytes(MODELS[said].SerializeToString())
    binds = ("--bind", "batch=2") if "batch" in said else ()
    h.assert_error(h.tessera("compile", tmp_path / "m.onnx", *binds, "--to", "import", "-o", tmp_path / "p"), said)
    assert not (tmp_path / "p").exists()
