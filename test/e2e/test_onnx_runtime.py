"""Single operators against ONNX Runtime: the cases of test_single_operators.py that it has, compiled. Where we differ,
it differs from numpy."""
import collections
import dataclasses
import re

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import operator_cases as cases
import test_single_operators as single

# What ONNX Runtime computes otherwise: cases, reason.
DIFFERS = [
    (r"(Sigmoid|Swish)_f(32|64).*", "its sigmoid loses digits, and what is below 1e-8"),
    (r"(Gelu|Attention|GroupNormalization)_f64.*", "it computes in f32, or has constants of f32"),
    (r"(Elu|Selu|Celu)_f32.*", "e^x - 1 without expm1: near 0 it loses digits"),
    (r"Relu_f.*", "of -0 it is -0"),
    (r"Sign_f16", "of NaN it is 0"),
    (r"Shrink_(f64|i|u).*", "lambda, bias and integers go through f32"),
    (r"PRelu_f.*", "of 0 it is 0, whatever the slope"),
    (r"(Max|Min|Clip)_i64.*|Sign_i64", "it compares differences, which overflow"),
    (r"Pow_i(32|64).*", "integer powers go through f64 and saturate"),
    (r"Mod_[iu]64_fmod", "64-bit remainders go through f64"),
    (r"Pow_f32_(by_0p5|to_.*)", "a root by pow, of -inf too; odd exponents that f32 does not hold are even"),
    (r"Where_f16", "it adds the chosen element and 0, which -0 does not survive"),
    (r"Reduce.*_i(32|64)", "it saturates where numpy wraps"),
    (r"Reduce(Max|Min)_f.*", "NaN at the end of a row is lost"),
    (r"LogSoftmax_f64", "of a row with an infinity it is -inf"),
    (r"Scatter(Elements|ND)_f.*_(max|min).*", "NaN loses"),
    (r"TopK_f.*|Arg(Max|Min)_f.*", "NaN is below all numbers, or nowhere"),
    (r"Range_i64_.*", "it is computed in f64"),
]


def session_of(case):
    """A session for the node alone; raises what ONNX Runtime says if it lacks it."""
    given = {f"x{i}": a for i, a in enumerate(case.inputs) if a is not None and i not in case.known}
    known = [single.tensor(a, f"x{i}") for i, a in enumerate(case.inputs) if a is not None and i in case.known]
    outputs = [f"y{k}" for k in range(case.outputs)]
    names = ["" if a is None else f"x{i}" for i, a in enumerate(case.inputs)]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **single.attributes_of(case))
    inputs = [helper.make_tensor_value_info(name, single.element(a), a.shape) for name, a in given.items()]
    graph = helper.make_graph([node], "g", inputs, list(map(helper.make_empty_tensor_value_info, outputs)), known)
    opsets = [helper.make_opsetid("", cases.OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session, given


def results_of(cases_):
    """case name -> ONNX Runtime's outputs, and reason -> the cases that it does not run."""
    results, missing = {}, collections.defaultdict(list)
    for case in cases_:
        try:
            session, given = session_of(case)
            results[case.name] = [single.stored(output) for output in session.run(None, given)]
        except Exception as error:  # of many classes: a missing kernel, a type that its Python cannot hold
            missing[re.sub(r"(?s).*: (\d+ : )?([A-Z_]{8,}) .*", r"\2", str(error))[:60]].append(case.name)
    return results, missing


@pytest.mark.whole
@pytest.mark.parametrize("group", single.GROUPS)
def test_against_onnx_runtime(group, tmp_path, capsys):
    chosen = [case for case in cases.all_cases() if case.type in single.GROUPS[group]]
    theirs, missing = results_of(chosen)
    with capsys.disabled():
        for reason, names in missing.items():
            print(f"\n{group}: {len(names)} cases that ONNX Runtime does not run ({reason}): {' '.join(names)}")
    chosen = [case for case in chosen if case.name in theirs]
    if not chosen:
        pytest.skip("ONNX Runtime runs none of the cases")
    ours = single.results_of(chosen, tmp_path, folded=False)
    different, agree_with_numpy = {}, []
    for case in chosen:
        apart = dataclasses.replace(case, ulps=2 * case.ulps)  # each may be as far off on either side
        for mine, other, expected in zip(ours[case.name], theirs[case.name], single.expected_of(case), strict=True):
            type_ = case.result_type(np.asarray(expected))
            if text := single.differences(apart, mine, other, type_):
                different[case.name] = text
                if not single.differences(case, other, expected, type_):
                    agree_with_numpy.append(case.name)
    rows = {row: [name for name in different if re.fullmatch(row[0], name)] for row in DIFFERS}
    unlisted = different.keys() - {name for names in rows.values() for name in names}
    assert not {name: different[name] for name in sorted(unlisted)}
    assert not agree_with_numpy  # then it is we who are wrong
    matching = [row for row in DIFFERS if any(re.fullmatch(row[0], case.name) for case in chosen)]
    assert not [row for row in matching if not rows[row]], "not needed"
