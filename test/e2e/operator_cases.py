"""Cases of single ONNX operators: inputs of edge values and what must come out, computed in double or exact integers."""
import dataclasses
import functools
import math

import ml_dtypes
import numpy as np
import onnx

OPSET = 24
TYPES = {
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64),
    "bool": np.dtype(bool),
}
FLOATS, SIGNED, UNSIGNED = ("f32", "f64", "f16", "bf16"), ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
ONNX_NAMES = dict(zip(("float", "double", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                       "uint64", "bool"), TYPES))


def is_float(dtype):
    return dtype in map(TYPES.get, FLOATS)


@dataclasses.dataclass
class Case:
    """One node. `inputs` are arrays, or None where one is left out; those of `known` are constants in both forms, as ONNX exporters
    write them. `reference(*inputs)` has floating inputs as f64; the default is onnx's own reference in f64. A floating result may be
    `ulps` units of its type off: units of the result itself, or where terms cancel `scaled` by the largest finite "result" or by the
    "input". A zero has the expected sign unless `any_zero`. `to` is the result's type where it is not that of the
    reference, f64 standing for `type`."""
    op: str
    type: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    known: tuple = ()
    outputs: int = 1
    reference: object = None
    ulps: float = 2
    scaled: str = ""
    any_zero: bool = False
    to: str = ""
    label: str = ""
    domain: str = ""

    @property
    def name(self):
        return "_".join(filter(None, (self.op, self.type, self.label)))

    def result_type(self, expected):
        return TYPES[self.to or self.type] if self.to or expected.dtype.kind == "f" or is_float(expected.dtype) else expected.dtype


@functools.cache
def allowed_types(op, name="T"):
    """Our names of the types that ONNX allows for the first input of `op`."""
    schema = onnx.defs.get_schema(op, OPSET)
    strings = next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == name)
    return [ours for theirs, ours in ONNX_NAMES.items() if f"tensor({theirs})" in strings]


def edges(type_):
    """Zeros, ordinary numbers of both signs, tiny, large and the extremes, and what is no number."""
    dtype = TYPES[type_]
    if type_ == "bool":
        return np.array([False, True])
    if is_float(dtype):
        info = ml_dtypes.finfo(dtype)
        tiny, most = float(info.smallest_subnormal), float(info.max)
        half = [0.25, 0.5, 1, 1.5, 2, 2.5, 3, 3.7, 10, 17.25, 41, 88, 100.5, 1000, 1e-2, 1e-4, 1e-7, 1e-12, 1e-30, 3e4, 1e8, 8388609, 1e30,
                most, float(info.tiny), tiny, 5 * tiny, math.inf]
        with np.errstate(over="ignore"):
            values = np.array([0.0, *half], np.float64).astype(dtype)
        values = np.array(list(dict.fromkeys(values.tolist())), np.float64).astype(dtype)
        return np.concatenate([values, -values, np.array([math.nan], dtype)])
    info = np.iinfo(dtype)
    numbers = [0, 1, 2, 3, 5, 7, 10, 41, 100, 127, 128, 200, 255, 1000, 65535, 2**24 + 1, 2**31, 2**53 + 1, 2**62 + 3]
    numbers += [-n for n in numbers] + [info.min, info.min + 1, info.max, info.max - 1, -128, -129]
    return np.array(list(dict.fromkeys(n for n in numbers if info.min <= n <= info.max)), dtype)


def pairs(type_):
    """Every value with every other one, as a column and a row."""
    values = edges(type_)
    return values[:, None], values[None, :]


def divisors(type_):
    """As pairs, where a quotient of integers is defined: not by 0, nor of the least number by -1."""
    x, y = pairs(type_)
    kept = (y != 0) & ~((y + 1 == 0) & np.bool_(type_ in SIGNED))
    return x, y[kept][None, :]


def rows(type_):
    """Rows of eight: ordinary ones, and ones with an extreme, an infinity, both, or nothing but."""
    dtype = TYPES[type_]
    ordinary = np.resize(np.array([1, 3, 2, 5, 0, 7, 4]), (3, 8))
    if type_ == "bool":
        return np.array([[0] * 8, [1] * 8, [0, 1] * 4, [1] + [0] * 7, [0] * 7 + [1]], bool)
    if not is_float(dtype):
        info = np.iinfo(dtype)
        parts = [ordinary, [[info.max] * 8], [[info.min] * 8], [[0] * 8], [[info.min, info.max] * 4]]
        parts += [-ordinary, [[-1, 2, -3, 4, -5, 6, -7, 7]]] if info.min < 0 else []
        return np.concatenate([np.array(part, dtype) for part in parts])
    inf = math.inf
    table = np.concatenate([
        ordinary, -ordinary / 4, ordinary * 1e-3, [[0.0] * 8, [-0.0] * 8, [0.0, -0.0] * 4, [inf] * 8, [-inf] * 8,
        [-inf] * 7 + [1], [inf] + [1] * 7, [inf, -inf] * 4, [math.nan] + [1] * 7, [1] * 7 + [math.nan], [-math.nan] * 8,
        [100, -100, 50, 0, 1, 2, 3, 4], [1e-3] * 7 + [20]]])
    return table.astype(dtype)


def ordinary(shape, type_="f32", seed=0):
    """Repeatable numbers around 0 for products, norms and windows; small integers for integer types."""
    generator = np.random.default_rng(seed)
    if is_float(TYPES[type_]):
        return generator.standard_normal(shape).astype(TYPES[type_])
    low = 0 if type_ in UNSIGNED or type_ == "bool" else -9
    return generator.integers(low, 2 if type_ == "bool" else 10, shape).astype(TYPES[type_])


# --- elementwise, each with a formula in numpy

def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def softplus(x):
    return np.logaddexp(0, x)


def gelu(x):
    return np.where(np.isinf(x), np.where(x > 0, x, np.nan), 0.5 * x * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2)))


def gelu_tanh(x):
    # 1 + tanh(u) as 2 sigmoid(2u), without cancellation.
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def elu(alpha, scale=1.0):
    return lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def celu(alpha):
    return lambda x: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


# Which of 0 and -0 is the larger, or an exponential's distance from 1, is not said.
ANY_ZERO = {"Max", "Min", "ReduceMax", "ReduceMin", "Elu", "Selu", "Celu", "LogSoftmax"}
# name -> formula, and how many units the result may be off in f32 and f64. Half types compute in f32.
FLOAT_UNARY = {
    "Exp": (np.exp, 2), "Log": (np.log, 2), "Sqrt": (np.sqrt, 1), "Reciprocal": (lambda x: 1 / x, 1), "Tanh": (np.tanh, 4), "Sigmoid": (sigmoid, 4),
    "Erf": (erf, 6), "Sin": (np.sin, 4), "Cos": (np.cos, 4), "Atan": (np.arctan, 4), "Floor": (np.floor, 0), "Ceil": (np.ceil, 0), "Round": (np.rint, 0),
    "HardSigmoid": (lambda x: np.clip(np.float64(np.float32(0.2)) * x + 0.5, 0, 1), 2), "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 8), "Softplus": (softplus, 4),
    "Softsign": (lambda x: x / (1 + np.abs(x)), 2), "Mish": (lambda x: x * np.tanh(softplus(x)), 6), "Swish": (lambda x: x * sigmoid(x), 4), "Gelu": (gelu, 6, "input"),
    "Elu": (elu(1.0), 3), "Selu": (elu(1.67326319217681884765625, 1.05070102214813232421875), 4), "Celu": (celu(1.0), 3),
    "LeakyRelu": (lambda x: np.where(x > 0, x, np.float64(np.float32(0.01)) * x), 1),
    "ThresholdedRelu": (lambda x: np.where(x > 1, x, 0.0), 0), "Relu": (lambda x: np.maximum(x, 0), 0), "Neg": (np.negative, 0), "Abs": (np.abs, 0),
    "Sign": (np.sign, 0), "Shrink": (lambda x: np.where(x < -0.5, x, np.where(x > 0.5, x, 0.0)), 0),
    "IsNaN": (np.isnan, 0), "IsInf": (np.isinf, 0),
}
# Variants by attributes: (label, attributes, formula, units).
VARIANTS = {
    "Gelu": [("tanh", {"approximate": "tanh"}, gelu_tanh, 8)],
    "Elu": [("alpha", {"alpha": 0.3}, elu(np.float64(np.float32(0.3))), 4)],
    "Celu": [("alpha", {"alpha": 2.0}, celu(2.0), 4)],
    "Swish": [("alpha", {"alpha": 2.0}, lambda x: x * sigmoid(2 * x), 4)],
    "Shrink": [("bias", {"lambd": 1.5, "bias": 0.5}, lambda x: np.where(x < -1.5, x + 0.5, np.where(x > 1.5, x - 0.5, 0.0)), 1)],
    "IsInf": [("positive", {"detect_negative": 0}, np.isposinf, 0), ("negative", {"detect_positive": 0}, np.isneginf, 0)],
}
INTEGER_UNARY = {
    "Neg": np.negative, "Abs": np.abs, "Sign": np.sign, "Relu": lambda x: np.maximum(x, 0),
    "Shrink": lambda x: np.where(x.astype(np.float64) < -0.5, x, np.where(x.astype(np.float64) > 0.5, x, x.dtype.type(0))),
}


def python_mod(x, y):
    return np.mod(x, y)


# x^y is e^(y log |x|), in f32 off by as many units as y log |x| is large: 100 at the most.
POWER = 100
FLOAT_BINARY = {
    "Add": (np.add, 1), "Sub": (np.subtract, 1), "Mul": (np.multiply, 1), "Div": (np.divide, 1), "Max": (np.maximum, 0), "Min": (np.minimum, 0),
    "Equal": (np.equal, 0), "Less": (np.less, 0), "LessOrEqual": (np.less_equal, 0), "Greater": (np.greater, 0), "GreaterOrEqual": (np.greater_equal, 0),
    "Pow": (np.power, POWER), "Sum": (np.add, 1), "PRelu": (lambda x, s: np.where(x > 0, x, s * x), 1),
}


def truncated(x, y):
    """C's quotient; 0 by zero, the least number by -1 wraps."""
    safe = np.where(y == 0, np.ones_like(y), y)
    if x.dtype.kind == "u":
        return np.where(y == 0, np.zeros_like(x), x // safe)
    q, r = np.divmod(x, safe)
    return np.where(y == 0, np.zeros_like(q), q + ((r != 0) & ((x < 0) != (y < 0))).astype(q.dtype))


def integer_mod(x, y):
    return np.where(y == 0, np.zeros_like(x + y), np.mod(x, np.where(y == 0, np.ones_like(y), y)))


def integer_fmod(x, y):
    return np.where(y == 0, np.zeros_like(x + y), np.fmod(x, np.where(y == 0, np.ones_like(y), y)))


def integer_pow(x, y):
    """As numpy in the base's type where exponents are not negative; else the power truncated: 0, 1 or -1, and 0 for a base of 0."""
    def one(base, exponent):
        base, exponent = int(base), int(exponent)
        if exponent < 0:
            return base ** (-exponent % 2 + 2) if abs(base) == 1 else 0
        return pow(base, exponent, 2**64)
    wide = np.vectorize(one, otypes=[object])(x, y)
    bits = x.dtype.itemsize * 8
    return np.vectorize(lambda n: (n + 2**(bits - 1)) % 2**bits - 2**(bits - 1) if x.dtype.kind == "i" else n % 2**bits, otypes=[object])(wide).astype(x.dtype)


INTEGER_BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": truncated, "Max": np.maximum, "Min": np.minimum, "Mod": integer_mod,
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "Pow": integer_pow,
    "PRelu": lambda x, s: np.where(x > 0, x, s * x), "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}


def elementwise_cases():
    for op, (formula, ulps, *scaled) in FLOAT_UNARY.items():
        for type_ in allowed_types(op, onnx.defs.get_schema(op, OPSET).inputs[0].type_str):
            if type_ in FLOATS:
                yield Case(op, type_, [edges(type_)], reference=formula, ulps=ulps, scaled="".join(scaled))
                for label, attributes, other, units in VARIANTS.get(op, ()):
                    yield Case(op, type_, [edges(type_)], attributes, reference=other, ulps=units, label=label, scaled="".join(scaled))
    angles = np.ldexp(np.random.default_rng(5).uniform(0.5, 1, (64, 112)), np.arange(17, 129)).astype(np.float32)
    # 16367173 2^72 is of all the one nearest to a multiple of a quarter turn.
    angles = np.append(angles, np.ldexp(np.float32(16367173), [72, 73, 40]))
    for op in ("Sin", "Cos"):
        yield Case(op, "f32", [angles[np.isfinite(angles)]], reference=FLOAT_UNARY[op][0], ulps=4, label="large")
    for op, formula in INTEGER_UNARY.items():
        for type_ in allowed_types(op):
            if type_ not in FLOATS:
                yield Case(op, type_, [edges(type_)], reference=formula)
    yield Case("Not", "bool", [edges("bool")], reference=np.logical_not)
    for op, (formula, ulps) in FLOAT_BINARY.items():
        for type_ in allowed_types(op):
            if type_ in FLOATS:
                yield Case(op, type_, list(pairs(type_)), reference=formula, ulps=ulps)
    for op, formula in INTEGER_BINARY.items():
        for type_ in allowed_types(op):
            if type_ not in FLOATS:
                yield Case(op, type_, list(divisors(type_) if op in ("Div", "Mod") else pairs(type_)), reference=formula)
    for type_ in allowed_types("Mod"):
        if type_ in FLOATS:
            yield Case("Mod", type_, list(pairs(type_)), {"fmod": 1}, reference=np.fmod, ulps=0, label="fmod")
        else:
            yield Case("Mod", type_, list(divisors(type_)), {"fmod": 1}, reference=integer_fmod, label="fmod")
    for base in ("i32", "i64", "f32"):
        for exponent in allowed_types("Pow", "T1"):
            if base != exponent and exponent not in ("f64", "f16", "bf16"):
                yield mixed_pow(base, exponent)
    for value in (2, 3, 0.5, -1, 0):
        for type_ in ("f32", "i64"):
            if type_ == "f32" or value in (2, 3, 0):
                exponent = np.array(value, TYPES[type_])
                yield Case("Pow", type_, [edges(type_), exponent], known=(1,), ulps=POWER, label=f"by_{value}".replace(".", "p").replace("-", "m"),
                           reference=np.power if type_ == "f32" else integer_pow)
    yield from neutral_cases()
    for type_ in allowed_types("Clip"):
        low, high = (np.array(v, TYPES[type_]) for v in (2, 41))
        yield Case("Clip", type_, [edges(type_), low, high], reference=np.clip, ulps=0)
        yield Case("Clip", type_, [edges(type_), None, high], reference=lambda x, low, high: np.minimum(x, high), ulps=0, label="high")
    for type_ in TYPES:
        condition = np.arange(edges(type_).size) % 3 == 0
        yield Case("Where", type_, [condition, edges(type_), edges(type_)[::-1].copy()], reference=np.where, ulps=0)
        yield Case("Identity", type_, [edges(type_)], reference=lambda x: x, ulps=0)


def neutral_cases():
    """With a constant that changes no number, or nearly none: -0 + 0 is 0, inf * 0 is no number."""
    for type_ in (*FLOATS, "i64"):
        constants = {"zero": 0, "one": 1}
        if type_ in FLOATS:
            constants.update(minus_zero=-0.0, infinity=math.inf, minus_infinity=-math.inf)
        for label, number in constants.items():
            x, number = edges(type_), np.array(number, TYPES[type_])
            for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
                if type_ == "i64" and op == "Div" and label == "zero":
                    continue  # not defined
                formula, ulps = FLOAT_BINARY[op] if type_ in FLOATS else (INTEGER_BINARY[op], 0)
                yield Case(op, type_, [x, number], known=(1,), reference=formula, ulps=ulps, label=label)
            formula, ulps = FLOAT_BINARY["Add"] if type_ in FLOATS else (np.add, 0)
            yield Case("Add", type_, [number, x], known=(0,), reference=formula, ulps=ulps, label=f"{label}_left")


def mixed_pow(base, exponent):
    x, y = edges(base)[:, None], edges(exponent)[None, :]
    if exponent == "f32":  # ONNX Runtime truncates the power in double; what does not fit is undefined
        x, y = np.array([0, 1, -1, 2, -3, 10], TYPES[base])[:, None], np.array([0, 1, 2, 3, 0.5], np.float32)[None, :]
        reference = lambda a, b: np.trunc(np.where((a < 0) & (b % 1 != 0), 0, np.power(np.abs(a).astype(np.float64), b) * np.where((a < 0) & (b % 2 == 1), -1, 1))).astype(TYPES[base])
        x = np.abs(x)
    elif base == "f32":  # as a float a large exponent would be even
        flips = lambda a, b: np.signbit(a) & (b % 2 == 1)
        reference = lambda a, b: np.power(np.abs(a), b.astype(np.float64)) * np.where(flips(a, b), -1, 1)
    else:
        reference = integer_pow
    return Case("Pow", base, [x, y], reference=reference, ulps=POWER, label=f"to_{exponent}")


def cast_reference(to):
    """Truncation to integers within range, wrapping between integers; out of range and not a number is undefined in ONNX, so such
    elements are left out by `in_range`."""
    def compute(x):
        if TYPES[to] == bool:
            return x != 0
        if is_float(TYPES[to]) or x.dtype.kind != "f":
            with np.errstate(over="ignore"):
                return x.astype(np.float64) if is_float(TYPES[to]) else x.astype(TYPES[to])
        return np.trunc(x).astype(np.float64).astype(TYPES[to])
    return compute


def in_range(x, to):
    if not is_float(x.dtype) or is_float(TYPES[to]) or TYPES[to] == bool:
        return x
    info, wide = np.iinfo(TYPES[to]), x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return x[np.isfinite(wide) & (np.trunc(wide) >= info.min) & (np.trunc(wide) < float(info.max) + (1 if info.bits < 64 else 0))]


def cast_cases():
    for from_ in TYPES:
        for to in TYPES:
            number = {ours: getattr(onnx.TensorProto, theirs.upper()) for theirs, ours in ONNX_NAMES.items()}[to]
            x = in_range(edges(from_), to)
            yield Case("Cast", from_, [x], {"to": number}, reference=cast_reference(to), ulps=0.51, to=to, label=f"to_{to}")
    yield Case("CastLike", "f32", [in_range(edges("f32"), "u8"), np.zeros(1, np.uint8)], known=(1,), to="u8",
               reference=lambda x, like: np.trunc(x).astype(np.uint8))
    yield Case("CastLike", "i64", [edges("i64"), np.zeros(1, np.float32)], known=(1,), to="f32", reference=lambda x, like: x.astype(np.float64), ulps=0.5)


# --- reductions along rows

def accumulate(function):
    """For sums of integers, which wrap."""
    return lambda x: function(x, axis=-1, keepdims=True, **({"dtype": x.dtype} if x.dtype.kind in "iu" else {}))


def log_sum_exp(x, axis=-1):
    most = np.max(x, axis=axis, keepdims=True)
    safe = np.where(np.isfinite(most), most, 0)
    return np.log(np.sum(np.exp(x - safe), axis=axis, keepdims=True)) + safe


def log_softmax(x):
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


REDUCTIONS = {
    "ReduceSum": accumulate(np.sum), "ReduceProd": accumulate(np.prod), "ReduceMax": accumulate(lambda x, dtype=None, **k: np.max(x, **k)),
    "ReduceMin": accumulate(lambda x, dtype=None, **k: np.min(x, **k)), "ReduceMean": None, "ReduceL1": lambda x: accumulate(np.sum)(np.abs(x)),
    "ReduceL2": lambda x: np.sqrt(np.sum(x * x, axis=-1, keepdims=True)), "ReduceSumSquare": lambda x: accumulate(np.sum)(x * x),
    "ReduceLogSum": lambda x: np.log(np.sum(x, axis=-1, keepdims=True)), "ReduceLogSumExp": log_sum_exp,
}


def reduced_mean(x):
    if x.dtype.kind == "f":
        return np.mean(x, axis=-1, keepdims=True)
    total, count = np.sum(x, axis=-1, keepdims=True, dtype=x.dtype), np.array(x.shape[-1], x.dtype)
    return truncated(total, np.broadcast_to(count, total.shape))


def reduction_cases():
    axes = np.array([-1], np.int64)
    for op, formula in REDUCTIONS.items():
        for type_ in allowed_types(op):
            if type_ not in FLOATS and op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
                continue  # of integers ONNX says nothing: roots and logarithms are not integers
            yield Case(op, type_, [rows(type_), axes], known=(1,), ulps=4, reference=lambda x, axes, f=formula or reduced_mean: f(x))
    for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for type_ in allowed_types(op):
            x = rows(type_)
            yield Case(op, type_, [x], {"axis": -1, "keepdims": 0}, reference=lambda x, f=function: f(x, axis=-1))
            last = lambda x, f=function: x.shape[-1] - 1 - f(x[..., ::-1], axis=-1)
            yield Case(op, type_, [x], {"axis": -1, "keepdims": 0, "select_last_index": 1}, reference=last, label="last")
    for type_ in allowed_types("CumSum"):
        yield Case("CumSum", type_, [rows(type_), np.array(1, np.int64)], known=(1,), ulps=4, reference=lambda x, axis: np.cumsum(x, axis=1, dtype=x.dtype))
        reverse = lambda x, axis: np.cumsum(x[:, ::-1], axis=1, dtype=x.dtype)[:, ::-1] - x
        if type_ not in FLOATS:
            yield Case("CumSum", type_, [rows(type_), np.array(1, np.int64)], {"exclusive": 1, "reverse": 1}, known=(1,), reference=reverse, label="reverse")
    for type_ in allowed_types("Softmax"):
        yield Case("Softmax", type_, [rows(type_)], reference=softmax, ulps=6)
        yield Case("LogSoftmax", type_, [rows(type_)], reference=log_softmax, ulps=8, scaled="result")
    for type_ in allowed_types("TopK"):
        x = rows(type_)

        def top(x, k, sign=-1):  # NaN is the largest
            isNan = np.isnan(x) if x.dtype.kind == "f" else np.zeros_like(x, bool)
            numbers = np.where(isNan, 0, x.astype(object if x.dtype.kind in "iu" else np.float64))
            order = np.lexsort((sign * numbers, sign * isNan.astype(int)), axis=-1)[:, :3]
            return np.take_along_axis(x, order, -1), order
        yield Case("TopK", type_, [x, np.array([3], np.int64)], known=(1,), outputs=2, reference=top, ulps=0)
        yield Case("TopK", type_, [x, np.array([3], np.int64)], {"largest": 0}, known=(1,), outputs=2, reference=lambda x, k, t=top: t(x, k, 1), ulps=0, label="least")


# --- movement: every bit stays

def index_array(*numbers):
    return np.array(numbers, np.int64)


def moving(op, type_, inputs, attributes=None, **options):
    return Case(op, type_, inputs, attributes or {}, ulps=0, **options)


def table(type_):
    """[4, 6] of edge values."""
    return np.resize(edges(type_), (4, 6))


def movement_cases():
    for type_ in TYPES:
        x, many = table(type_), {"known": (1,)}
        yield moving("Reshape", type_, [x, index_array(3, -1)], **many)
        yield moving("Flatten", type_, [x.reshape(2, 2, 6)])
        yield moving("Transpose", type_, [x], {"perm": [1, 0]})
        yield moving("Squeeze", type_, [x[None], index_array(0)], **many)
        yield moving("Unsqueeze", type_, [x, index_array(1)], **many)
        yield moving("Expand", type_, [x[:, :1], index_array(4, 3)], **many)
        yield moving("Tile", type_, [x, index_array(2, 1)], **many)
        yield moving("Concat", type_, [x, x[::-1].copy()], {"axis": 1})
        yield moving("Split", type_, [x, index_array(2, 4)], {"axis": 1}, outputs=2, **many)
        yield moving("Slice", type_, [x, index_array(3, 1), index_array(-5, 6), index_array(0, 1), index_array(-1, 2)], known=(1, 2, 3, 4))
        yield moving("Pad", type_, [x, index_array(1, 0, 0, 2), x.ravel()[1]], known=(1, 2))
        yield moving("Gather", type_, [x, index_array(3, 0, -1)], {"axis": 1})
        yield moving("GatherND", type_, [x, np.array([[0, 1], [3, -1]], np.int64)])
        yield moving("GatherElements", type_, [x, np.array([[0, 1, -1, 3, 2, 0]], np.int64)])
        yield moving("Trilu", type_, [x, np.array(1, np.int64)], known=(1,))
        yield moving("DepthToSpace", type_, [x.reshape(1, 4, 2, 3)], {"blocksize": 2})
        yield moving("SpaceToDepth", type_, [x.reshape(1, 1, 4, 6)], {"blocksize": 2})
        yield moving("ConstantOfShape", type_, [index_array(2, 3)], {"value": np.array([edges(type_)[-1]])}, known=(0,))
        yield moving("Constant", type_, [], {"value": x})
        yield moving("Shape", type_, [x])
        yield moving("Size", type_, [x])
        yield moving("EyeLike", type_, [x], {"k": 1}, reference=lambda x: np.eye(*x.shape, 1, x.dtype))
        for op in ("ScatterElements", "ScatterND"):
            yield from scatter_cases(op, type_)
    for type_ in allowed_types("OneHot", "T3"):
        hot = lambda i, depth, values: np.where((i % 4)[:, None] == np.arange(4), values[1], values[0])
        yield moving("OneHot", "i64", [index_array(0, 2, -1, 3), np.array(4, np.int64), edges(type_)[-2:]], known=(1,), label=f"of_{type_}",
                     to=type_, reference=hot)
    for index in ("i32", "f32", "u8", "i8", "u64"):
        inputs = [np.array([0, 2, 1, 3], TYPES[index]), np.array(4, TYPES[index]), edges("f32")[-2:]]
        yield moving("OneHot", index, inputs, known=(1,), label="of_f32", to="f32", reference=hot)
    for type_ in allowed_types("Range"):
        yield moving("Range", type_, [np.array(v, TYPES[type_]) for v in (2, 11, 3)], known=(0, 1, 2))
    ranges = {"wide": (2**53 + 1, 2**53 + 10, 3), "down": (2**62 + 3, 2**62 - 4, -3), "all": (-2**63, 2**63 - 1, 2**61)}
    for label, bounds in ranges.items():
        yield moving("Range", "i64", [np.array(v, np.int64) for v in bounds], known=(0, 1, 2), label=label)


def scattered(data, indices, updates, reduction):
    """ScatterElements along axis 0, in order."""
    result = data.copy()
    with np.errstate(all="ignore"):
        for position in np.ndindex(indices.shape):
            place = (indices[position], *position[1:])
            old, new = result[place], updates[position]
            result[place] = {"none": lambda: new, "add": lambda: old + new, "mul": lambda: old * new, "max": lambda: np.maximum(old, new),
                             "min": lambda: np.minimum(old, new)}[reduction]()
    return result


def scatter_cases(op, type_):
    reductions = ("none",) if type_ == "bool" else ("none", "add", "mul", "max", "min")
    for reduction in reductions:
        for label, rows_ in (("", 4), ("long", 70)):  # few elements are compared one by one
            # Where numbers meet, the order they are taken in is free.
            meets = type_ in FLOATS and reduction in ("add", "mul")
            values = np.append(np.arange(-9, 10) / 2, -0.0) if meets else edges(type_)
            data = np.resize(values[::-1], (rows_, 6)).astype(TYPES[type_])
            middle = len(values) // 2 - 2  # of floating types -0 is there
            updates = np.resize(np.roll(values, -middle), (3, 6)).astype(TYPES[type_])
            repeated = [[0, 1, -1, 3, 2, 0], [2, 2, 1, 2, 3, 0], [1, 0, 2, 1, 0, 1 if reduction != "none" else 3]]
            indices = np.array([[0, 1, -1, 3, 2, 0], [2, 2, 1, 2, 3, 1], [1, 0, 2, 1, 0, 3]] if reduction == "none" else repeated, np.int64)
            if op == "ScatterND":
                chosen = np.array([[0], [-1], [0 if reduction != "none" else 2]], np.int64)
                wide = np.broadcast_to(chosen, (3, 6))
                reference = lambda d, i, u, r=reduction, w=wide: scattered(d, w, u, r)
                yield Case(op, type_, [data, chosen, updates], {"reduction": reduction}, reference=reference, ulps=1, label=f"{reduction}{label}")
            else:
                reference = lambda d, i, u, r=reduction: scattered(d, i, u, r)
                yield Case(op, type_, [data, indices, updates], {"reduction": reduction}, reference=reference, ulps=1, label=f"{reduction}{label}")


# --- products, windows, norms: ordinary numbers

def dense_cases():
    for type_ in allowed_types("MatMul"):
        a, b = ordinary((3, 5), type_), ordinary((5, 4), type_, 1)
        yield Case("MatMul", type_, [a, b], ulps=8, scaled="result")
        yield Case("Gemm", type_, [a, b.T.copy(), ordinary(4, type_, 2)], {"transB": 1, "alpha": 2.0, "beta": 3.0}, ulps=8, scaled="result")
    for type_ in allowed_types("Einsum"):
        yield Case("Einsum", type_, [ordinary((3, 5), type_), ordinary((5, 4), type_, 1)], {"equation": "ij,jk->ki"}, ulps=8, scaled="result")
    for type_ in FLOATS:
        image, one = ordinary((2, 4, 5, 6), type_), ordinary((4,), type_, 3)
        yield Case("Conv", type_, [image, ordinary((6, 2, 3, 3), type_, 1), ordinary(6, type_, 2)], {"group": 2, "pads": [1, 1, 0, 1]}, ulps=8, scaled="result")
        yield Case("ConvTranspose", type_, [image, ordinary((4, 3, 3, 3), type_, 1)], {"strides": [2, 1]}, ulps=16, scaled="result")
        equal = np.full((1, 1, 7, 7), 41, TYPES[type_])
        yield Case("AveragePool", type_, [equal], {"kernel_shape": [7, 7], "pads": [3, 3, 3, 3]}, ulps=0, label="equal")
        yield Case("MaxPool", type_, [np.resize(edges(type_)[:-1], (1, 2, 5, 6))], {"kernel_shape": [2, 3], "strides": [1, 2]}, ulps=0)
        yield Case("AveragePool", type_, [image], {"kernel_shape": [2, 3], "pads": [0, 1, 1, 0]}, ulps=8, scaled="result")
        yield Case("GlobalAveragePool", type_, [image], ulps=8, scaled="result")
        yield Case("GlobalMaxPool", type_, [np.resize(edges(type_)[:-1], (1, 2, 5, 6))], ulps=0)
        yield Case("Resize", type_, [image, None, np.array([1, 1, 2, 0.5], np.float32)], {"mode": "linear"}, known=(2,), ulps=8, scaled="result")
        wide = np.abs(one) + 1
        yield Case("BatchNormalization", type_, [image, one, one[::-1].copy(), one * 2, wide], ulps=8, scaled="result")
        yield Case("InstanceNormalization", type_, [image, one, one[::-1].copy()], ulps=16, scaled="result")
        yield Case("GroupNormalization", type_, [image, one, one[::-1].copy()], {"num_groups": 2}, ulps=16, scaled="result", reference=group_norm)
        yield Case("LayerNormalization", type_, [image, ordinary(6, type_, 5), ordinary(6, type_, 6)], ulps=16, scaled="result")
        yield Case("RMSNormalization", type_, [image, ordinary(6, type_, 5)], ulps=16, scaled="result")
        yield Case("Dropout", type_, [image], reference=lambda x: x, ulps=0)
        q = ordinary((1, 2, 4, 8), type_)
        yield Case("Attention", type_, [q, q[:, :, ::-1].copy(), ordinary(q.shape, type_, 4)], ulps=16, scaled="result")
        if type_ != "f64":
            angle = ordinary((1, 4, 4), type_, 7)
            yield Case("RotaryEmbedding", type_, [q, np.cos(angle.astype(np.float64)).astype(angle.dtype), np.sin(angle.astype(np.float64)).astype(angle.dtype)], ulps=8, scaled="result")
        scores, labels = ordinary((4, 7), type_), index_array(3, 0, 6, 1)
        yield Case("SoftmaxCrossEntropyLoss", type_, [scores, labels], ulps=8, scaled="result")
        yield Case("NegativeLogLikelihoodLoss", type_, [scores, labels], ulps=8, scaled="result")
    for type_ in ("i8", "u8"):
        image = np.resize(edges(type_), (1, 2, 5, 6))
        yield Case("MaxPool", type_, [image], {"kernel_shape": [2, 3], "strides": [1, 2]}, ulps=0)
    q = ordinary((1, 2, 4, 8))
    for type_ in ("bool", "i64"):
        mask = ordinary((4, 4), type_)
        mask[:, 0] = 1
        yield Case("Attention", "f32", [q, q[:, :, ::-1].copy(), ordinary(q.shape, seed=4), mask], ulps=16,
                   scaled="result", label=f"mask_{type_}")
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        labels = np.array([3, 0, 6, 1], np.int32)
        yield Case(op, "f32", [ordinary((4, 7)), labels], ulps=8, scaled="result", label="labels_i32")
    yield Case("MoE", "f32", [ordinary((5, 8)), ordinary((5, 3), seed=1), ordinary((3, 16, 8), seed=2), None, ordinary((3, 8, 16), seed=3)],
               {"k": 2, "activation_type": "relu", "normalize_routing_weights": 1}, domain="com.microsoft", ulps=16, scaled="result", reference=mixture)


def group_norm(x, scale, bias):
    groups = x.reshape(x.shape[0], 2, -1)
    normal = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + np.float64(np.float32(1e-5)))
    return normal.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]


def mixture(x, scores, first, _, second):
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :2]
    weights = softmax(np.take_along_axis(scores, order, -1))
    experts = np.einsum("eti,eoi->eto", np.maximum(np.einsum("ti,eoi->eto", x, first), 0), second)
    return np.einsum("tk,tko->to", weights, experts[order, np.arange(len(x))[:, None]])


def all_cases():
    for family in (elementwise_cases, cast_cases, reduction_cases, movement_cases, dense_cases):
        yield from (dataclasses.replace(case, any_zero=True) if case.op in ANY_ZERO else case for case in family())
