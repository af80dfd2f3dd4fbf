"""Decisions made from computed numbers (roundings, comparisons, casts, indices) are IEEE's, on both CPU levels and on the checking GPU."""
import os
import re

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


def decisions(g, x, c):
    """name -> a decision made from x / c and the like, of x [1, n] and c [k, 1], as numbers. The same code makes ONNX nodes and, with g = numpy's, arrays."""
    q = g("Div", x, c)
    to_int = {"to": TensorProto.INT32}
    number = lambda v: g("Cast", v, to=TensorProto.FLOAT)
    f = np.float32
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
    }


class Numpy:
    """The same operators on arrays."""
    OPS = {"Div": np.divide, "Mul": np.multiply, "Sub": np.subtract, "Add": np.add, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round,
           "Sqrt": np.sqrt, "Equal": np.equal, "Less": np.less, "Greater": np.greater, "Where": np.where}

    def __call__(self, op, *operands, to=None):
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

