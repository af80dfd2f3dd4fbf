"""Decisions made from computed numbers (roundings, comparisons, casts, indices) are IEEE's, on both CPU levels and on the checking GPU; integers divide as docs/ops.md says."""
import os
import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import gpu
import harness as h

LEVELS = ("v3", "v4")
DIVISORS = np.arange(1, 258)
FEW = np.array([3, 7, 10, 41, 49, 100, 128, 255])  # for the GPU's simulator


class Graph:
    """An ONNX model, node by node."""

    def __init__(self):
        self.nodes, self.inputs, self.given, self.initializers, self.outputs = [], [], {}, [], []

    def input(self, name, array):
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        self.given[name] = array
        return name

    def input_with_nan(self, name, array):
        """Files hold none, so it is put in for another number."""
        marker = np.float32(12345)
        x = self.input(name, np.where(np.isnan(array), marker, array))
        return self("Where", self("Equal", x, marker), np.float32(np.nan), x)

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def __call__(self, op, *operands, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [o if isinstance(o, str) else self.constant(o) for o in operands], [name], **attributes))
        return name

    def output(self, value, name):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_empty_tensor_value_info(name))

    def save(self, path):
        graph = helper.make_graph(self.nodes, "decisions", self.inputs, self.outputs, self.initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
        return path


def run_on_cpu(graph, folder):
    """level -> outputs; of both, where the machine has both."""
    h.checked(h.TESSERA, "compile", graph.save(folder / "model.onnx"), "-o", folder / "program")
    program = h.Program(folder / "program", 1)
    results = {}
    for level in LEVELS:
        arguments = program.infer_arguments(folder / level, graph.given)
        result = h.run(*program.command(*arguments), env={**os.environ, "TESSERA_CPU_LEVEL": level})
        if level == "v4" and "v4" in result.first_error:  # a machine without AVX-512
            continue
        assert result.returncode == 0, result.stderr
        results[level] = {p.stem: np.load(p) for p in (folder / level / "out").glob("*.npy")}
    return results


def run_on_gpu(graph, folder):
    path, run = gpu.compiled(folder / "cuda", graph.save(folder / "model.onnx"))
    result = run(*h.Program(path, 1).infer_arguments(folder, graph.given))
    assert result.returncode == 0, result.stderr
    assert "checking driver" not in result.stderr
    return {"gpu": {p.stem: np.load(p) for p in (folder / "out").glob("*.npy")}}


def results_of(graph, folder, target):
    return run_on_gpu(graph, folder) if target == "gpu" else run_on_cpu(graph, folder)


def assert_equal(results, expected):
    for where, got in results.items():
        assert got.keys() == expected.keys()
        for name, array in expected.items():
            assert got[name].shape == array.shape, (where, name)
            wrong = np.argwhere(got[name] != array)
            assert not len(wrong), f"{where}: {name} is wrong in {len(wrong)} places, the first {wrong[0]}: {got[name][tuple(wrong[0])]}, expected {array[tuple(wrong[0])]}"


def decisions(g, x, c, f=np.float32):
    """name -> a decision made from x / c and the like, of x [1, n] and c [k, 1], as numbers of type f. The same code makes ONNX nodes and, with g = numpy's, arrays."""
    q = g("Div", x, c)
    to_int = {"to": TensorProto.INT32}
    number = lambda v: g("Cast", v, to=helper.np_dtype_to_tensor_dtype(np.dtype(f)))
    i, d = (g("Cast", v, **to_int) for v in (g("Sub", x, f(100)), c))
    return {
        "floor": g("Floor", q),
        "ceil": g("Ceil", q),
        "round": g("Round", q),
        "cast": number(g("Cast", q, **to_int)),
        "equal": number(g("Equal", g("Mul", q, c), x)),
        "floored": number(g("Equal", g("Sub", x, g("Mul", g("Floor", q), c)), f(0))),
        "less": number(g("Less", g("Mul", x, g("Div", f(1), c)), q)),
        "where": g("Where", g("Greater", g("Div", q, f(0.1)), g("Mul", q, f(10))), f(3), f(5)),
        "added": number(g("Equal", g("Sub", g("Add", q, f(0.1)), f(0.1)), q)),
        "inverse": number(g("Equal", g("Mul", g("Div", f(1), g("Add", q, f(1))), g("Add", q, f(1))), f(1))),
        "fused": number(g("Greater", g("Sub", g("Mul", q, f(0.1)), g("Div", x, g("Mul", c, f(10)))), f(0))),
        "root": g("Floor", g("Mul", g("Sqrt", q), f(3))),
        "fmod": g("Mod", x, c, fmod=1),
        "integer-mod": number(g("Mod", i, d)),
        "integer-fmod": number(g("Mod", i, d, fmod=1)),
    }


class Numpy:
    """The same operators on arrays."""
    OPS = {"Div": np.divide, "Mul": np.multiply, "Sub": np.subtract, "Add": np.add, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round,
           "Sqrt": np.sqrt, "Equal": np.equal, "Less": np.less, "Greater": np.greater, "Where": np.where}

    def __call__(self, op, *operands, to=None, fmod=0):
        if op == "Mod":
            return (np.fmod if fmod else np.mod)(*operands)
        if op == "Cast":
            return operands[0].astype(helper.tensor_dtype_to_np_dtype(to))
        return self.OPS[op](*operands)


def weights(n):
    """Odd numbers, by which sums of products of small integers tell which are different."""
    return (np.arange(n, dtype=np.int32) * np.int32(-1640531527)) | np.int32(1)


def checksums(values, n):
    with np.errstate(over="ignore"):
        return {name: (array.astype(np.int32) * weights(n)).sum(axis=1, dtype=np.int32) for name, array in values.items()}


def add_checksums(g, values, n, prefix):
    for name, value in values.items():
        terms = g("Mul", g("Cast", value, to=TensorProto.INT32), weights(n)[None])
        g.output(g("ReduceSum", terms, np.array([1]), keepdims=0), prefix + name)


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_quotients(tmp_path, target):
    """All x in 0..65535 by all divisors: an input, a parameter and constants of their own; by a sum that tells them apart, and a few divisors element by element."""
    every = target == "cpu" or h.ALL
    divisors = DIVISORS if every else FEW
    x, c = np.arange(65536, dtype=np.float32)[None], divisors.astype(np.float32)[:, None]
    g = Graph()
    given, divisor = g.input("x", x), g.input("c", c)
    add_checksums(g, decisions(g, given, divisor), x.size, "input.")
    parameter = g.constant(np.resize(c, (max(len(c), 300), 1)))  # more than 1 KiB: not folded
    add_checksums(g, decisions(g, given, parameter), x.size, "parameter.")
    constants = FEW if every else FEW[:4]
    for k in constants:
        for name, value in decisions(g, given, np.full((1, 1), k, np.float32)).items():
            g.output(value, f"constant{k}.{name}")
    for name, value in decisions(g, given, g("Gather", divisor, np.array([2]), axis=0)).items():
        g.output(value, f"row.{name}")
    results = results_of(g, tmp_path, target)
    sums = checksums(decisions(Numpy(), x, c), x.size)
    expected = {f"input.{name}": array for name, array in sums.items()}
    expected |= {f"parameter.{name}": np.resize(array, max(len(c), 300)) for name, array in sums.items()}
    for k in constants:
        expected |= {f"constant{k}.{name}": array for name, array in decisions(Numpy(), x, np.float32(k)).items()}
    expected |= {f"row.{name}": array for name, array in decisions(Numpy(), x, c[2:3]).items()}
    assert_equal(results, expected)
    if target == "gpu":  # which the simulator does not execute: none is contracted by ptxas, none is approximate
        loose = re.findall(r"\b(?:add|sub|mul|div|sqrt|rcp)(?!\.rn)\.(?:\w+\.)*f32", "".join(p.read_text() for p in (tmp_path / "cuda" / "phases").glob("*.ptx")))
        assert not loose, set(loose)


@pytest.mark.whole
@pytest.mark.parametrize("first", range(1, 258, 33))
@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_quotients_by_constants(tmp_path, target, first):
    """Every divisor as a constant: 33 in a model, since each has code of its own."""
    x = np.arange(65536, dtype=np.float32)[None]
    g, expected = Graph(), {}
    given = g.input("x", x)
    for k in range(first, min(first + 33, 258)):
        add_checksums(g, decisions(g, given, np.full((1, 1), k, np.float32)), x.size, f"constant{k}.")
        sums = checksums(decisions(Numpy(), x, np.full((1, 1), k, np.float32)), x.size)
        expected |= {f"constant{k}.{name}": array for name, array in sums.items()}
    assert_equal(results_of(g, tmp_path, target), expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_quotients_of_half_types(tmp_path, target, dtype):
    """Every result on the way to a decision is rounded to the type, though a kernel computes in f32."""
    x, c = np.arange(256).astype(dtype)[None], (DIVISORS if target == "cpu" or h.ALL else FEW).astype(dtype)[:, None]
    g = Graph()
    given = [g("Cast", g.input(name, array.astype(np.float32)), to=helper.np_dtype_to_tensor_dtype(x.dtype)) for name, array in (("x", x), ("c", c))]
    for name, value in decisions(g, *given, dtype).items():
        g.output(g("Cast", value, to=TensorProto.FLOAT), name)
    expected = decisions(Numpy(), x, c, dtype)
    assert_equal(results_of(g, tmp_path, target), {name: array.astype(np.float32) for name, array in expected.items()})


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_means(tmp_path, target):
    """A mean is divided by the count: that of equal numbers is that number, whatever the count."""
    counts = (3, 41, 49, 100, 255)
    x = np.arange(2048, dtype=np.float32)[:, None]
    g, expected = Graph(), {}
    for n in counts:
        rows = g.input(f"x{n}", np.tile(x, n))
        g.output(g("Floor", g("ReduceMean", rows, np.array([1]), keepdims=0)), f"mean{n}")
        g.output(g("Floor", g("GlobalAveragePool", g("Reshape", rows, np.array([1, 2048, n])))), f"pool{n}")
        expected |= {f"mean{n}": x[:, 0], f"pool{n}": x[None]}
    assert_equal(results_of(g, tmp_path, target), expected)


def test_positions_of_nan(tmp_path):
    """The first one, as numpy has it; without it the last one, and never a place that is not there."""
    x = np.random.default_rng(1).integers(0, 4, (64, 9)).astype(np.float32)
    x[np.random.default_rng(2).random(x.shape) < 0.2] = np.nan
    g = Graph()
    given = g.input_with_nan("x", x)
    g.output(g("ArgMax", given, axis=1, keepdims=0), "max")
    g.output(g("ArgMin", given, axis=1, keepdims=0), "min")
    g.output(g("ArgMax", given, axis=1, keepdims=0, select_last_index=1), "last")
    assert_equal(run_on_cpu(g, tmp_path), {"max": x.argmax(1), "min": x.argmin(1), "last": 8 - x[:, ::-1].argmax(1)})


def divided(op, x, y, fmod=0):
    """As docs/ops.md says: 0 for a division by 0, wrapped around for the least number by -1."""
    with np.errstate(all="ignore"):
        one = np.where(y == 0, y.dtype.type(1), y)
        rest = np.fmod(x, one) if fmod else np.mod(x, one)
        if op == "Mod":
            return np.where(y == 0, 0, rest).astype(x.dtype)
        quotient = np.where(one == -1, np.negative(x), (x - np.fmod(x, one)) // one)
        return np.where(y == 0, 0, quotient).astype(x.dtype)


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_integers(tmp_path, target):
    """Every pair of edges, by a divisor that is an input, a constant, and of constants folded at import."""
    g, expected = Graph(), {}
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.min + 1, -100, -7, -2, -1, 0, 1, 2, 7, 100, info.max], dtype)
        x, y = edges[:, None], edges[None]
        given, divisor = g.input(f"{dtype.__name__}.x", x), g.input(f"{dtype.__name__}.y", y)
        for op, limit in (("ReduceMin", info.max), ("ReduceMax", info.min)) if dtype in (np.int32, np.int64) else ():
            ends = g.input(f"{dtype.__name__}.{op}", np.full((2, 3), limit, dtype))
            g.output(g(op, ends, np.array([1]), keepdims=0), f"{dtype.__name__}.{op}.end")
            expected[f"{dtype.__name__}.{op}.end"] = np.full(2, limit, dtype)
        for op, attributes in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})):
            key = f"{dtype.__name__}.{op}{len(attributes)}"
            g.output(g(op, given, divisor, **attributes), f"{key}.given")
            g.output(g("Concat", *(g(op, given, np.array([[k]]), **attributes) for k in edges), axis=1), f"{key}.constants")
            g.output(g(op, g.constant(x), g.constant(y), **attributes), f"{key}.folded")
            expected |= {f"{key}.{how}": divided(op, x, y, **attributes) for how in ("given", "constants", "folded")}
    assert_equal(results_of(g, tmp_path, target), expected)


def truncated(x, dtype):
    """As docs/ops.md says: what int32 (int64) cannot hold becomes its least number, narrower types take the low bits."""
    wide = np.dtype(np.int64 if dtype == np.int64 else np.int32)
    limit = -float(np.iinfo(wide).min)
    fits = (x.astype(np.float64) > -limit - 1) & (x < limit)
    return np.where(fits, x, -limit).astype(wide).astype(dtype)


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_casts(tmp_path, target):
    """Truncation to integers, of numbers that none can hold too, compiled and folded at import."""
    x = np.array([0, -0.0, 0.99999994, -0.99999994, 1.5, -1.5, 127.9, 128, 255, 300, -129, 32768, 65535.5, 2**31 - 128, 2**31, -2**31, -2**31 - 256, 3e9, 2**53,
                  9.2e18, 2**63, -2**63, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    g, expected = Graph(), {}
    given = g.input_with_nan("x", x)
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        g.output(g("Cast", given, to=to), f"{dtype.__name__}.given")
        g.output(g("Cast", g.constant(x), to=to), f"{dtype.__name__}.folded")
        expected |= {f"{dtype.__name__}.{how}": truncated(x, dtype) for how in ("given", "folded")}
    assert_equal(results_of(g, tmp_path, target), expected)


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_bools(tmp_path, target):
    """false is less than true, in every row of three."""
    rows = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)], bool)
    g, expected = Graph(), {}
    given = g.input("x", rows)
    for axis in (0, 1):
        for op, reference in (("ReduceMax", np.max), ("ReduceMin", np.min)):
            g.output(g(op, given, np.array([axis]), keepdims=0), f"{op}{axis}")
            g.output(g(op, g.constant(rows), np.array([axis]), keepdims=0), f"folded.{op}{axis}")
            expected |= {f"{op}{axis}": reference(rows, axis), f"folded.{op}{axis}": reference(rows, axis)}
    assert_equal(results_of(g, tmp_path, target), expected)


def test_reductions_over_ranks(tmp_path):
    """Over a dimension that is split: the mean of integers, whose division is of the whole sum, and extremes of bools."""
    x = np.arange(64, dtype=np.int64).reshape(8, 8) * 5 - 77
    flags = x % 3 == 0
    g = Graph()
    given, bools = g.input("x", x), g.input("b", flags)
    axis = np.array([0])
    g.output(g("ReduceMean", given, axis, keepdims=0), "mean")
    g.output(g("ReduceMax", bools, axis, keepdims=0), "any")
    g.output(g("ReduceMin", bools, axis, keepdims=0), "all")
    h.checked(h.TESSERA, "compile", g.save(tmp_path / "model.onnx"), "-o", tmp_path / "program", "--dp", "2")
    got = h.Program(tmp_path / "program", 2).infer(tmp_path / "run", g.given)
    assert_equal({"dp2": got}, {"mean": divided("Div", x.sum(0), np.full(8, 8)), "any": flags.any(0), "all": flags.all(0)})
