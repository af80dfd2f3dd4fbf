"""Every ONNX operator that is imported, in every element type, on edge values: folded at import and compiled, against numpy and ONNX Runtime."""
import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import harness as h
import operator_cases as cases
from operator_cases import TYPES


def tensor(array, name=""):
    return numpy_helper.from_array(np.array(array, order="C"), name)


def attributes_of(case):
    return {name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in case.attributes.items()}


def element(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


class Model:
    """One model of many nodes: `cases` with every value a constant where `folded`. `arrays` are for its inputs. Nodes share values."""

    def __init__(self, chosen, folded):
        self.folded, self.nodes, self.inputs, self.outputs, self.arrays, self.names = folded, [], [], [], {}, {}
        for case in chosen:
            operands = ["" if a is None else self.constant(a) if folded or i in case.known else self.given(a)
                        for i, a in enumerate(case.inputs)]
            results = [f"{case.name}.{k}" for k in range(case.outputs)]
            self.nodes.append(helper.make_node(case.op, operands, results, name=case.name, domain=case.domain, **attributes_of(case)))
            self.outputs += [helper.make_empty_tensor_value_info(name) for name in results]
        if not self.inputs:  # a program needs one
            self.nodes.append(helper.make_node("Identity", [self.given(np.zeros(1, np.float32))], ["unused"]))
            self.outputs.append(helper.make_empty_tensor_value_info("unused"))

    def once(self, kind, array, make):
        key = kind, array.dtype.name, array.shape, array.tobytes()
        if key not in self.names:
            self.names[key] = f"{kind}{len(self.names)}"
            make(self.names[key])
        return self.names[key]

    def constant(self, array):
        return self.once("c", array, lambda name: self.nodes.append(helper.make_node("Constant", [], [name], value=tensor(array))))

    def input(self, array):
        def make(name):
            self.inputs.append(helper.make_tensor_value_info(name, element(array), array.shape))
            self.arrays[name] = array
        return self.once("x", array, make)

    def given(self, array):
        """A value of the run. Programs refuse inputs that are NaN, so those are put in by the model."""
        if not cases.is_float(array.dtype) or not np.isnan(wide(array)).any():
            return self.input(array)
        isNan = np.isnan(wide(array))
        operands = [self.input(isNan), self.constant(np.array(np.nan, array.dtype)), self.input(np.where(isNan, np.zeros_like(array), array))]
        return self.once("w", array, lambda name: self.nodes.append(helper.make_node("Where", operands, [name])))

    def proto(self):
        opsets = [helper.make_opsetid("", cases.OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(helper.make_graph(self.nodes, "operators", self.inputs, self.outputs), opset_imports=opsets, ir_version=10)


def stored(array):
    """As .npy files hold it: bf16 is f32 there."""
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def results_of(chosen, folder, folded):
    """case name -> outputs of one executable for all `chosen`."""
    folder.mkdir(parents=True, exist_ok=True)
    model = Model(chosen, folded)
    onnx.save(model.proto(), folder / "model.onnx")
    h.checked(h.TESSERA, "compile", folder / "model.onnx", "-o", folder / "program", timeout=600)
    got = h.Program(folder / "program", 1).infer(folder / "run", {name: stored(a) for name, a in model.arrays.items()})
    return {case.name: [got[h.file_name(f"{case.name}.{k}")] for k in range(case.outputs)] for case in chosen}


def wide(array):
    """Floating arrays as f64."""
    return array.astype(np.float64) if array is not None and cases.is_float(array.dtype) else array


def onnx_reference(case):
    """ONNX's own reference, in f64."""
    from onnx.reference import ReferenceEvaluator

    inputs = {f"x{i}": wide(a) for i, a in enumerate(case.inputs) if a is not None}
    names = ["" if a is None else f"x{i}" for i, a in enumerate(case.inputs)]
    results = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.op, names, results, domain=case.domain, **attributes_of(case))
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, element(a), a.shape) for n, a in inputs.items()],
                              [helper.make_empty_tensor_value_info(n) for n in results])
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", cases.OPSET)])).run(None, inputs)


def expected_of(case):
    with np.errstate(all="ignore"):
        value = onnx_reference(case) if case.reference is None else case.reference(*map(wide, case.inputs))
    return list(value) if isinstance(value, (tuple, list)) else [value]


def unit(x, dtype):
    """The distance of neighbouring numbers of a floating type around x, an f64."""
    info = ml_dtypes.finfo(dtype)
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 1))
    return np.maximum(np.ldexp(1.0, exponent - 1 - info.nmant), float(info.smallest_subnormal))


def differences(case, got, expected, dtype):
    """What is wrong with `got`, as text; empty where it is right. `dtype` is the type that it must have."""
    expected = np.asarray(expected)
    if got.shape != expected.shape or got.dtype != stored(np.zeros(1, dtype)).dtype:
        return f"{got.dtype} {got.shape}, expected {dtype} {expected.shape}"
    if not cases.is_float(dtype):
        return report(got != expected.astype(dtype), got, expected)
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded = expected.astype(dtype).astype(np.float64)
        finite = expected[np.isfinite(expected)]
        size = np.abs(finite).max(initial=0) if case.scaled == "result" else np.abs(wide(case.inputs[0])) if case.scaled == "input" else expected
        # Functions may lose what lies below the smallest normal number.
        allowed = case.ulps * unit(size, dtype) + (float(info.tiny) if case.ulps >= 2 else 0)
        near = np.abs(got - expected) <= allowed
        # Around the largest number infinity is near too.
        most = float(info.max)
        near |= (np.abs(expected) >= most - allowed) & (np.abs(got) >= most - allowed) & (np.sign(got) == np.sign(expected))
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        wrong_zero = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded)) & (not case.any_zero)
        off = np.abs(got - expected) / unit(expected, dtype)
    return report(~(same | near) | wrong_zero, got, expected, off)


def report(wrong, got, expected, off=None):
    if not wrong.any():
        return ""
    places = [tuple(map(int, p)) for p in np.argwhere(wrong)[:4]]
    finite = off[wrong & np.isfinite(off)] if off is not None else np.zeros(0)
    worst = f", up to {finite.max():.3g} units" if finite.size else ""
    return f"{int(wrong.sum())} of {wrong.size} wrong{worst}: " + "; ".join(f"{p}: {got[p]!r}, expected {expected[p]!r}" for p in places)


def imported_operators():
    """The names that the importer has a handler for."""
    return {name for file in (h.ROOT / "lib" / "Import" / "ops").glob("*.cpp") for name in re.findall(r'r\.add\("(\w+)"', file.read_text())}


# Where we differ from numpy: cases, forms, reason.
BOTH = ("folded", "compiled")
LISTED = [
    (r"Reduce(Sum|Mean)_b?f(16|32|64)", BOTH, "a sum of -0 alone is -0, as in ONNX Runtime; numpy's begins with 0"),
]
# What ONNX allows and no case has: operator, what of it, the types, reason.
UNTESTED = [
    ("CastLike", ("T1", "T2"), TYPES, "it is Cast with a known type"),
    ("Reduce(L2|LogSum|LogSumExp)", ("T",), cases.INTEGERS, "ONNX does not say which integer a root or a logarithm is"),
    ("Resize", ("T1",), (*cases.INTEGERS, "bool"), "refused: test_refused"),
    ("Attention", ("U",), cases.INTEGERS, "a mask of integers is cast to floating numbers; one case is of i64"),
    ("Dropout", ("T2",), ("bool",), "test_dropout.py"),
    ("RotaryEmbedding", ("M",), ("i64",), "positions are looked up, as Gather does"),
    ("OneHot", ("T1", "T2", "T3"), TYPES, "by labels: of_TYPE are the values' types, and some of the indices'"),
]
SEQUENCES = {"SplitToSequence", "SequenceAt", "SequenceConstruct", "ConcatFromSequence"}  # of more than one node: test_sequences
RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"}  # no function of their operands: test_dropout.py
GROUPS = {"f32": ("f32",), "f64": ("f64",), "half": ("f16", "bf16"), "i64": ("i64",), "signed": ("i8", "i16", "i32"),
          "unsigned": ("u8", "u32"), "unsigned_others": ("u16", "u64"), "bool": ("bool",)}


def listed(name, form):
    return [entry for entry in LISTED if re.fullmatch(entry[0], name) and form in entry[1]]


def types_of(case):
    """The types of its inputs and of what it gives, which the label tells of some."""
    inputs = [a.dtype for a in case.inputs if a is not None]
    return {name for name, dtype in TYPES.items() if dtype in inputs} | {case.type, case.to}


def test_every_operator_has_cases():
    have = {}
    for case in cases.all_cases():
        have.setdefault(case.op, set()).update(types_of(case))
    assert imported_operators() - SEQUENCES - RANDOM == have.keys()
    missing = []
    for op, types in have.items():
        if not onnx.defs.has(op):
            continue  # of another domain
        schema = onnx.defs.get_schema(op, cases.OPSET)
        inputs = {value.type_str for value in schema.inputs}
        for constraint in schema.type_constraints:
            name = constraint.type_param_str
            rows = [row for row in UNTESTED if re.fullmatch(row[0], op) and name in row[1]]
            left = set(cases.allowed_types(op, name)) - types - {t for row in rows for t in row[2]}
            missing += [(op, name, sorted(left))] if left and name in inputs else []
    assert not missing


def test_every_listed_row_matches_a_case():
    names = [case.name for case in cases.all_cases()]
    assert not [row for row in LISTED if not any(re.fullmatch(row[0], name) for name in names)]


@pytest.mark.parametrize("form", ["folded", "compiled"])
@pytest.mark.parametrize("group", [g if g in ("f32", "unsigned") else pytest.param(g, marks=pytest.mark.whole) for g in GROUPS])
def test_against_numpy(group, form, tmp_path):
    chosen = [case for case in cases.all_cases() if case.type in GROUPS[group]]
    got = results_of(chosen, tmp_path, form == "folded")
    wrong = {}
    for case in chosen:
        for ours, expected in zip(got[case.name], expected_of(case), strict=True):
            if text := differences(case, ours, expected, case.result_type(np.asarray(expected))):
                wrong[case.name] = text
    assert not [f"{name}: {text}" for name, text in wrong.items() if not listed(name, form)]
    # A row is no longer needed where none of its cases is wrong.
    rows = [row for case in chosen for row in listed(case.name, form)]
    assert not [row for row in rows if not any(row in listed(name, form) for name in wrong)]


def test_integer_powers(tmp_path):
    """Several kernels of one program that each call a function."""
    chosen = [case for case in cases.all_cases() if case.op == "Pow" and not any(cases.is_float(a.dtype) for a in case.inputs)]
    got = results_of(chosen, tmp_path, folded=False)
    assert len(chosen) > 4
    for case in chosen:
        expected = np.asarray(expected_of(case)[0])
        assert not differences(case, got[case.name][0], expected, case.result_type(expected)), case.name


@pytest.mark.parametrize("form", ["folded", "compiled"])
def test_sequences(form, tmp_path):
    x = cases.table("f32")[:, :4]
    make = helper.make_node
    constant = lambda name, *numbers: make("Constant", [], [name], value=tensor(np.array(numbers[0] if len(numbers) == 1 else numbers, np.int64)))
    nodes = [constant("sizes", 1, 3), constant("second", 1), make("SplitToSequence", ["x", "sizes"], ["parts"], axis=0),
             make("SequenceAt", ["parts", "second"], ["part"]), make("SequenceConstruct", ["x", "part"], ["both"]),
             make("ConcatFromSequence", ["both"], ["y"], axis=0)]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    if form == "folded":
        nodes.insert(0, make("Constant", [], ["x"], value=tensor(x)))
        inputs = [helper.make_tensor_value_info("unused", onnx.TensorProto.FLOAT, (1,))]
        nodes.append(make("Identity", ["unused"], ["z"]))
    outputs = [helper.make_empty_tensor_value_info(n) for n in (["y", "z"] if form == "folded" else ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", cases.OPSET)], ir_version=10),
              tmp_path / "model.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "model.onnx", "-o", tmp_path / "program")
    given = {"unused": np.zeros(1, np.float32)} if form == "folded" else {"x": x}
    got = h.Program(tmp_path / "program", 1).infer(tmp_path / "run", given)["y"]
    np.testing.assert_array_equal(got, np.concatenate([x, x[1:]]))


def refused(node, inputs, folder):
    """What the compiler says of a model of one node."""
    given = [helper.make_tensor_value_info(name, type_, [2, 3]) for name, type_ in inputs.items()]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", cases.OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
    result = h.run(h.TESSERA, "compile", folder / "model.onnx", "-o", folder / "program")
    assert result.returncode == 1
    return result.first_error


def node(op, *inputs, **attributes):
    return helper.make_node(op, inputs, ["y"], name="n", **attributes)


P = onnx.TensorProto
REFUSED = {
    "integers resized": (node("Resize", "x", "", "", "s"), {"x": P.UINT8, "s": P.INT64},
                         r"node 'n' \(Resize\): .*floating image"),
    "to f8": (node("Cast", "x", to=P.FLOAT8E4M3FN), {"x": P.FLOAT}, r"node 'n' \(Cast\): .*element type 17"),
    "to strings": (node("Cast", "x", to=P.STRING), {"x": P.FLOAT}, r"node 'n' \(Cast\): .*element type 8"),
    "complex constant": (node("Constant", value=numpy_helper.from_array(np.zeros(2, np.complex64))), {"x": P.FLOAT},
                         r"node 'n', tensor '' has the element type 14"),
    "complex input": (node("Abs", "x"), {"x": P.COMPLEX64}, r"'x'.*element type"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    node, inputs, expected = REFUSED[case]
    assert re.search(expected, refused(node, inputs, tmp_path))
