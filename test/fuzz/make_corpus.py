"""Writes the seeds of the fuzz targets below test/fuzz/Inputs: small valid inputs, one for each thing that the readers know.

    tools/build && .venv/bin/python test/fuzz/make_corpus.py
"""
import io
import json
import pathlib
import re
import subprocess
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
INPUTS = ROOT / "test" / "fuzz" / "Inputs"
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(0)


def put(folder, name, data):
    (INPUTS / folder).mkdir(parents=True, exist_ok=True)
    (INPUTS / folder / name).write_bytes(data)


def weight(name, *shape):
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def ints(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, inputs, initializers=(), functions=(), opset=20):
    """`nodes`: (operator, inputs, output, attributes); the last output is the graph's."""
    made = [helper.make_node(op, ins.split(), [out], name=f"n{i}", domain="f" if op == "F" else "", **attributes)
            for i, (op, ins, out, attributes) in enumerate(nodes)]
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
                              [helper.make_tensor_value_info(nodes[-1][2], F32, None)], list(initializers))
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("f", 1)] if functions else [])
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10).SerializeToString()


X = {"x": (F32, [4, 8])}
IMAGE = {"x": (F32, [2, 3, 6, 6])}
IDS = {"x": (I64, [4, 8])}


def onnx_seeds():
    one = [
        ("unary", "Neg Abs Exp Sqrt Reciprocal Tanh Sigmoid Relu Erf Sin Cos Floor Ceil Softplus Gelu HardSwish Elu".split()),
        ("twice", "Add Sub Mul Div Min Max Pow".split()),
        ("rows", "Softmax LogSoftmax ReduceSum ReduceMean ReduceMax ReduceL2 ReduceLogSumExp Flatten Transpose Identity".split()),
    ]
    for name, operators in one:
        nodes, last = [], "x"
        for i, op in enumerate(operators):
            nodes.append((op, f"{last} x" if name == "twice" else last, f"v{i}",
                          {"keepdims": 1} if op.startswith("Reduce") else {}))
            last = f"v{i}"
        put("onnx", f"{name}.onnx", model(nodes, X))
    put("onnx", "mlp.onnx", model(
        [("Gemm", "x w b", "h", {"transB": 1}), ("Relu", "h", "r", {}), ("MatMul", "r u", "y", {})], X,
        [weight("w", 16, 8), weight("b", 16), weight("u", 16, 4)]))
    put("onnx", "embedding.onnx", model([("Gather", "w x", "e", {}), ("MatMul", "e u", "logits", {})], IDS,
                                        [weight("w", 20, 8), weight("u", 8, 20)]))
    put("onnx", "layernorm.onnx", model(
        [("LayerNormalization", "x w b", "h", {"axis": -1}), ("ReduceMean", "h a", "m", {}), ("Sub", "h m", "d", {}),
         ("Mul", "d d", "q", {}), ("ReduceMean", "q a", "s", {}), ("Sqrt", "s", "r", {}), ("Div", "d r", "y", {})], X,
        [weight("w", 8), weight("b", 8), ints("a", [-1])]))
    put("onnx", "attention.onnx", model(
        [("MatMul", "x w", "qkv", {}), ("Reshape", "qkv s", "r", {}), ("Transpose", "r", "t", {"perm": [2, 0, 3, 1, 4]}),
         ("Gather", "t i0", "q", {"axis": 0}), ("Gather", "t i1", "k", {"axis": 0}), ("Gather", "t i2", "v", {"axis": 0}),
         ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", "q kt", "p", {}), ("Mul", "p c", "pc", {}),
         ("Softmax", "pc", "a", {"axis": -1}), ("MatMul", "a v", "o", {}), ("Transpose", "o", "ot", {"perm": [0, 2, 1, 3]}),
         ("Reshape", "ot z", "y", {})],
        {"x": (F32, [2, 4, 8])}, [weight("w", 8, 24), ints("s", [2, 4, 3, 2, 4]), ints("z", [0, 0, -1]), ints("i0", 0),
                                  ints("i1", 1), ints("i2", 2), weight("c")]))
    put("onnx", "attention23.onnx", model([("Attention", "x x x", "y", {"is_causal": 1})], {"x": (F32, [2, 2, 4, 8])}, opset=23))
    put("onnx", "conv.onnx", model(
        [("Conv", "x w b", "c", {"pads": [1, 1, 1, 1], "strides": [2, 2]}), ("BatchNormalization", "c s s s s", "n", {}),
         ("Relu", "n", "r", {}), ("GlobalAveragePool", "r", "p", {}), ("Flatten", "p", "f", {"axis": 1}), ("MatMul", "f u", "y", {})],
        IMAGE, [weight("w", 4, 3, 3, 3), weight("b", 4), weight("s", 4), weight("u", 4, 5)]))
    put("onnx", "shapes.onnx", model(
        [("Shape", "x", "s", {}), ("Gather", "s i", "n", {"axis": 0}), ("Concat", "n m", "t", {"axis": 0}), ("Reshape", "x t", "r", {}),
         ("Unsqueeze", "r i", "u", {}), ("Expand", "u e", "ex", {}), ("Squeeze", "ex i", "q", {}), ("Slice", "q i o i o", "sl", {}),
         ("Pad", "sl p", "pd", {}), ("Tile", "pd w", "y", {})],
        X, [ints("i", [0]), ints("o", [1]), ints("m", [-1]), ints("e", [1, 4, 8]), ints("p", [0, 1, 0, 1]), ints("w", [1, 2])]))
    put("onnx", "masks.onnx", model(
        [("Shape", "x", "s", {}), ("ConstantOfShape", "s", "o", {}), ("Trilu", "o", "t", {"upper": 1}), ("Range", "a b c", "r", {}),
         ("Less", "r b", "l", {}), ("Cast", "l", "lf", {"to": F32}), ("Where", "l x t", "w", {}), ("Mul", "w lf", "y", {})],
        {"x": (F32, [4, 4])}, [ints("a", 0), ints("b", 4), ints("c", 1)]))
    put("onnx", "index.onnx", model(
        [("OneHot", "x d v", "h", {}), ("ArgMax", "h", "m", {"axis": -1, "keepdims": 0}), ("CumSum", "m a", "c", {}),
         ("GatherElements", "h2 c", "y", {"axis": 1})], IDS,
        [ints("d", 6), numpy_helper.from_array(np.array([0, 1], np.float32), "v"), ints("a", 1), weight("h2", 4, 40)]))
    put("onnx", "sequence.onnx", model(
        [("SplitToSequence", "x o", "q", {"axis": 1}), ("SequenceAt", "q i", "s", {}), ("SequenceConstruct", "s s", "r", {}),
         ("ConcatFromSequence", "r", "y", {"axis": 0})], X, [ints("o", 4), ints("i", 1)]))
    put("onnx", "einsum.onnx", model([("Einsum", "x x", "y", {"equation": "bi,bj->ij"})], X))
    put("onnx", "dynamic.onnx", model([("MatMul", "x w", "y", {})], {"x": (F32, ["batch", "seq * 2"])}, [weight("w", 8, 4)]))
    function = helper.make_function("f", "F", ["a"], ["b"], [
        helper.make_node("Softmax", ["a"], ["t"], name="s"), helper.make_node("Neg", ["t"], ["b"], name="n")],
        [helper.make_opsetid("", 20)])
    put("onnx", "function.onnx", model([("F", "x", "y", {})], X, functions=[function]))
    put("onnx", "varint.onnx", b"\x08" + b"\x80" * 11 + b"\x00")  # longer than 64 bits


PLANS = {
    "data": '[mesh]\ndata = 2\n\n[[input]]\nmatch = "*"\ndim = 0\naxes = ["data"]\n',
    "megatron": '[mesh]\ndata = 2\ntensor = 4\n[[op]]\nmatch = "*mlp.c_fc*"\npattern = "column"\naxes = ["tensor"]\n'
                '[[op]]\nmatch = "*mlp.c_proj*"\npattern = "row"\naxes = ["tensor"]\n[[op]]\nmatch = "lm_head*"\npattern = "vocab"\n'
                'axes = ["tensor"]\n[pipeline]\nmicrobatches = 2\n',
    "heads": '[mesh]\nt = 3\n[[op]]\nmatch = "*attention*"\npattern = "heads"\naxes = ["t"]\n',
    "value": '[mesh]\na = 2\nb = 2\n[[value]]\nmatch = "logits"\nsplit = { 0 = ["a"], -1 = ["b"] }\n',
    "key": "[}esh]\n",
    "space": "\ufdff[mesh]\n",  # not white space, which toml++ takes for granted between U+FC67 and U+FEFE
    "forms": "mesh = { x = 0x2 }\ninput = [ { match = 'input_ids', dim = -2, axes = ['x'] } ]\n# \"\"\"\n",
}

CLUSTER = "[[host]]\nname = 'a'\nplaces = 4\n[[host]]\nname = 'b'\nplaces = 2\n"
JOB = "[[job]]\nname = 'a'\narrival = 0\nplaces = 2\nbatch = 8\nlargest_batch = 32\nthroughput = {1 = 10.0, 2 = 19, 4 = 30}\nsamples = 1000\n"
LOSS = "[[job]]\nname = 'b'\nkind = 'k'\narrival = 2.5\nplaces = 1\nbatch = 4\nthroughput = {1 = 5}\nsamples = 200\ndata_size = 20\n" \
       "learning_rate = 1e-3\nfirst_loss = 6.5\ntarget_loss = 1.5\n"
# A cluster file, a line, a jobs file.
SCHEDULES = {
    "two": f"{CLUSTER}# jobs\n{JOB}{LOSS}",
    "costs": f"{CLUSTER}[links]\nspread = 0.5\n[costs]\nresize = 0\nrestart = 1e3\nlost_per_doubling = 0.1\n# jobs\n{LOSS}",
    "measured": f"{CLUSTER}[costs]\nresize = 2\n[[costs.measured]]\nparameters = 14e6\nresize = 0.2\nrestart = 2.9\n[[costs.measured]]\n"
                f"parameters = 61e6\nresize = 0.9\nrestart = 4.2\n# jobs\n{JOB}parameters = 25.6e6\n{LOSS}resize = 0\nrestart = 7.5\n",
    "forms": f"host = [{{name = 'a', places = 0x4}}]\n# jobs\njob = [{{name = 'j', arrival = 1_0, places = 4, batch = 1, throughput.4 = 1e3, samples = 9}}]\n",
    "empty": "# jobs\n",
    "late": f"{CLUSTER}# jobs\n{LOSS}{JOB}",
    "far": f"{CLUSTER}# jobs\n{JOB.replace('arrival = 0', 'arrival = 1e9')}",
}


def small_models():
    """Models of little, whose text is short at every phase."""
    x = {"x": (F32, [2, 4])}
    return {
        "one": model([("MatMul", "x w", "y", {})], x, [weight("w", 4, 4)]),
        "pair": model([("MatMul", "x w", "h", {}), ("Relu", "h", "r", {}), ("MatMul", "r u", "y", {})], x,
                      [weight("w", 4, 4), weight("u", 4, 4)]),
        "biased": model([("MatMul", "x w", "h", {}), ("Add", "h b", "a", {}), ("Gelu", "a", "g", {}), ("MatMul", "g w", "y", {})], x, [weight("w", 4, 4), weight("b", 4)]),
        "norm": model([("LayerNormalization", "x w b", "y", {"axis": -1})], x, [weight("w", 4), weight("b", 4)]),
        "rows": model([("Softmax", "x", "s", {}), ("ReduceSum", "s", "y", {"keepdims": 0})], x),
        "views": model([("Transpose", "x", "t", {"perm": [1, 0]}), ("Reshape", "t s", "r", {}), ("Slice", "r i o i o", "sl", {}),
                        ("Pad", "sl p", "y", {})], x, [ints("s", [2, 4]), ints("i", [0]), ints("o", [1]), ints("p", [0, 1, 0, 1])]),
    }


# A product with a bias and a kept operand of its activation; one with its derivative; one with sums of an operand.
FUSED = """module attributes {dist.micro = 1 : i64, nn.phase = "schedule"} {
  dist.mesh @mesh = <[]>
  func.func @infer(%x: tensor<3x4xf32> {dist.layout = #dist.layout<[[3], [4]]>, dist.shape = array<i64: 3, 4>, nn.kind = #nn<kind data>, nn.name = "x"},
      %w: tensor<4x5xf32> {dist.layout = #dist.layout<[[4], [5]]>, dist.shape = array<i64: 4, 5>, nn.kind = #nn<kind data>, nn.name = "w"},
      %b: tensor<5xf32> {dist.layout = #dist.layout<[[5]]>, dist.shape = array<i64: 5>, nn.kind = #nn<kind data>, nn.name = "b"})
      -> (tensor<3x5xf32> {dist.layout = #dist.layout<[[3], [5]]>, dist.shape = array<i64: 3, 5>, nn.name = "y"},
      tensor<4x5xf32> {dist.layout = #dist.layout<[[4], [5]]>, dist.shape = array<i64: 4, 5>, nn.name = "z"},
      tensor<5xf32> {dist.layout = #dist.layout<[[5]]>, dist.shape = array<i64: 5>, nn.name = "s"}) {
    %y, %kept = nn.fused_contract %x, %w, %b {activation = "gelu_tanh", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo",
      operandSegmentSizes = array<i32: 1, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 1, 0>} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>)
    %d = nn.fused_contract %x, %w, %kept {activation = "gelu_tanh", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo",
      operandSegmentSizes = array<i32: 1, 1, 0, 1>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    %z, %s = nn.fused_contract %x, %d {lhs_letters = "bi", rhs_letters = "bo", out_letters = "io", sums_of = "rhs",
      operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 1>} : (tensor<3x4xf32>, tensor<3x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>)
    return %y, %z, %s : tensor<3x5xf32>, tensor<4x5xf32>, tensor<5xf32>
  }
  module @kernels {
  }
}
"""


def mlir_seeds():
    """Small programs as they are after each phase, with and without training."""
    tessera = ROOT / "build" / "bin" / "tessera"
    small = small_models()
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        for name, options, longest in (
                ("mlp", ["--train", "adamw", "--tp", "2"], 12000), ("attention", ["--dp", "2"], 12000),
                ("embedding", ["--train", "sgd"], 12000), ("conv", [], 12000), ("one", ["--tp", "2"], 4096),
                ("one", ["--train", "sgd"], 4096), ("one", ["--train", "adamw", "--dp", "2"], 4096), ("pair", ["--tp", "2"], 4096),
                ("biased", [], 4096), ("biased", ["--train", "sgd"], 12000), ("norm", ["--dp", "2"], 4096), ("norm", ["--train", "sgd"], 4096), ("rows", ["--dp", "2"], 4096), ("views", [], 4096)):
            source = INPUTS / "onnx" / f"{name}.onnx"
            seed = name
            if name in small:
                source = pathlib.Path(folder, f"{name}.onnx")
                source.write_bytes(small[name])
                seed = "-".join([name, *(option.strip("-") for option in options)])
            dumps = pathlib.Path(folder, seed)
            subprocess.run([tessera, "compile", source, "-o", f"{folder}/p", "--dump-phases", dumps, "--to", "memory", *options],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for text in sorted(dumps.glob("*.mlir")):
                # Without locations, and no longer than what a mutation can still change much of.
                plain = re.sub(r'#loc\d* = .*\n|\s*loc\((#loc\d*|"[^"]*")\)', "", text.read_text())
                if len(plain) <= longest and plain not in seen:
                    put("mlir", f"{seed}-{text.stem}.mlir", plain.encode())
                    seen.add(plain)
    put("mlir", "fused.mlir", FUSED.encode())
    put("mlir", "doubled-aliases.mlir", ("#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(100))
                                         + "module attributes {nn.a = #a100} {}\n").encode())


def array_seeds():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, array in (("c", values), ("fortran", np.asfortranarray(values)), ("scalar", np.int64(3)), ("bool", np.ones(5, bool))):
        stream = io.BytesIO()
        np.save(stream, array)
        put("arrays", f"{name}.npy", stream.getvalue())
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        stream = io.BytesIO()
        save(stream, x=values, y=np.zeros(3, np.int32))
        put("arrays", f"{name}.npz", stream.getvalue())
    header = b'{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"z":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}}'
    put("arrays", "two.safetensors", len(header).to_bytes(8, "little") + header + values.tobytes() + b"\0\1")
    put("arrays", "u16.bin", np.arange(64, dtype="<u2").tobytes())
    put("arrays", "llmc.bin", np.array([20240520, 1, 8], "<i4").tobytes().ljust(1024, b"\0") + np.arange(8, dtype="<u2").tobytes())


def control_seeds():
    for name, text in {"size": "size = 2\n", "table": "[size]\nsize = 0x2\n", "more": 'size = -9223372036854775808\nother = "\\u0041"\n'}.items():
        put("control", f"{name}.toml", text.encode())


def manifest_seeds():
    """Bodies alone: the target puts them into the frame with their checksum."""
    zero, one = "0" * 32, "1" * 32

    def piece(view, box, offset, range_=None, file=0):
        return {"view": view, "box": box, "file": file, "offset": offset, "checksum": one} | ({"range": range_} if range_ else {})

    def manifest(variables, sizes):
        return {"format": 1, "step": 3, "samples": 12, "metadata": {"seed": "7"}, "variables": variables,
                "files": [{"name": f"rank-{i:05}.safetensors", "bytes": size, "header_bytes": 8, "header_checksum": zero}
                          for i, size in enumerate(sizes)]}

    def variable(name, shape, pieces, **more):
        return {"name": name, "role": "parameter", "dtype": "f32", "shape": shape, "pieces": pieces} | more

    seeds = {
        "whole": manifest([variable("w", [2, 3], [piece([[2], [3]], [[[0, 2]], [[0, 3]]], 8)]), variable("s", [], [piece([], [], 32)])], [36]),
        "packed": manifest([variable("q", [4, 6], [piece([[4], [3, 2]], [[[0, 4]], [[0, 3], [i, i + 1]]], 8, file=i) for i in range(2)])], [56, 56]),
        "ranges": manifest([variable("w", [5], [piece([[5]], [[[0, 5]]], 8, [0, 3]), piece([[5]], [[[0, 5]]], 8, [3, 5], 1)])], [20, 16]),
        "views": manifest([variable("w", [6], [piece([[6]], [[[0, 3]]], 8), piece([[2, 3]], [[[1, 2], [0, 3]]], 20)])], [32]),
        "elsewhere": manifest([variable("c", [2], [], elsewhere={"file": "/w.safetensors", "tensor": "c", "checksum": one})], []),
    }
    for name, seed in seeds.items():
        put("manifest", f"{name}.json", json.dumps(seed, separators=(",", ":")).encode())


if __name__ == "__main__":
    onnx_seeds()
    for name, text in PLANS.items():
        put("plan", f"{name}.toml", text.encode())
    for name, text in SCHEDULES.items():
        put("schedule", f"{name}.toml", text.encode())
    array_seeds()
    control_seeds()
    manifest_seeds()
    mlir_seeds()
