"""Input that users get wrong: one clear error line, the right status, no signal, no hang, no partial file."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import load_file, save_file

import harness as h

TRAIN = ("--train", "adamw")
GPT2 = h.MODELS / "gpt2.onnx"


def compile_fails(tmp_path, model, *options, words=(), status=1, notes=""):
    out = tmp_path / "out" / "p"
    out.parent.mkdir(exist_ok=True)
    result = h.tessera("compile", model, "-o", out, *options)
    h.assert_error(result, *words, status=status, notes=notes)
    assert not list(out.parent.iterdir()), "something was left behind"
    return result


# ---- model files

BROKEN = {
    "empty": lambda good: b"",
    "short": lambda good: good[:10],
    "half": lambda good: good[:len(good) // 2],
    "one-byte-less": lambda good: good[:-1],
    "text": lambda good: b"This is not a model.\n" * 50,
    "zeros": lambda good: bytes(4096),
    "noise": lambda good: np.random.default_rng(0).bytes(5000),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files(tmp_path, kind):
    (tmp_path / "m.onnx").write_bytes(BROKEN[kind](GPT2.read_bytes()))
    compile_fails(tmp_path, tmp_path / "m.onnx", words=["m.onnx"])


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < 8 else pytest.mark.whole) for s in range(100)])
def test_damaged_bytes_never_crash(tmp_path, seed):
    """Bytes changed anywhere: whatever is said, it is no signal and no hang."""
    rng = np.random.default_rng(seed)
    data = np.frombuffer((h.MODELS / "mlp.onnx").read_bytes(), np.uint8).copy()
    data[rng.integers(0, len(data), 20)] = rng.integers(0, 256, 20)
    (tmp_path / "m.onnx").write_bytes(data.tobytes())
    result = h.tessera("compile", tmp_path / "m.onnx", "-o", tmp_path / "p", timeout=30)
    assert result.returncode in (0, 1)
    if result.returncode:
        h.assert_error(result)


def test_missing_model(tmp_path):
    compile_fails(tmp_path, tmp_path / "nothing.onnx", words=[f'there is no file "{tmp_path}/nothing.onnx"'])


def test_unsupported_operators_are_listed_at_once(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])
    nodes = [helper.make_node("Det", ["x"], ["a"]), helper.make_node("GridSample", ["x", "x"], ["b"]),
             helper.make_node("NoSuchOperator", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "m.onnx")
    result = compile_fails(tmp_path, tmp_path / "m.onnx")
    for name in ("Det", "GridSample", "NoSuchOperator"):
        assert name in result.stderr


def test_unbound_dimensions(tmp_path):
    result = compile_fails(tmp_path, h.MODELS / "gpt2_dyn.onnx")
    assert "batch" in result.stderr and "seq" in result.stderr and "--bind" in result.stderr
    compile_fails(tmp_path, h.MODELS / "gpt2_dyn.onnx", "--bind", "batch=4", words=["seq"])
    compile_fails(tmp_path, h.MODELS / "gpt2_dyn.onnx", "--bind", "batch=4", "--bind", "sequence=32", words=["sequence"],
                  notes="seq")


def test_external_data_stays_in_the_models_folder(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(1 << 20))
    (tmp_path / "sub").mkdir()
    for location in ("../secret", str(tmp_path / "secret"), "missing.bin"):
        model = onnx.load(GPT2)
        weight = next(i for i in model.graph.initializer if i.name == "lm_head.weight")
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", str(160 * 64 * 4))):
            entry = weight.external_data.add()
            entry.key, entry.value = key, value
        (tmp_path / "sub" / "m.onnx").write_bytes(model.SerializeToString())
        compile_fails(tmp_path, tmp_path / "sub" / "m.onnx", words=["m.onnx"])


def test_no_permission_to_write(tmp_path):
    h.assert_error(h.tessera("compile", GPT2, "-o", tmp_path / "no" / "such" / "folder" / "p"))


# ---- options

USAGE = [
    ("--no-such-option", 'unknown option "--no-such-option" of tessera compile; see tessera compile --help'),
    ("--host-memory 1GiB", 'unknown option "--host-memory" of tessera compile; see tessera compile --help'),
    ("-v=x --no-such-option", 'unknown option "--no-such-option" of tessera compile'),
    ("--microbatch 2", 'unknown option "--microbatch" of tessera compile; did you mean --microbatches?'),
    ("--tp", "for the --tp option: requires a value!"), ("another.onnx", "Too many positional arguments"),
    ("--tp two", "--tp=two: expected a whole number of at least 1"), ("--tp 0", "--tp=0: expected a whole number of at least 1"),
    ("--tp -1", "--tp=-1: expected a whole number"), ("--microbatches 0", "--microbatches=0: expected a whole number"),
    ("--microbatches 1.5", "--microbatches=1.5: expected a whole number"),
    ("--threads nan", "--threads=nan: expected a whole number of at least 0"), ("--threads 65537", "--threads=65537: expected at most 65536"),
    ("--capacity-factor 0", "--capacity-factor=0: expected a number above 0, such as 1.25"),
    ("--train adamx", "--train=adamx: expected adamw, adam, sgd or sgd-momentum"),
    ("--bind batch", "--bind=batch: expected NAME=N with N at least 1"), ("--bind batch=" + "9" * 20, "expected NAME=N with N at least 1"),
    ("--dtype f99", "--dtype=f99: expected f32, bf16 or f16"),
    ("--timing=maybe", "--timing=maybe: expected no value, or true or false"),
    ("--as-written=3", "--as-written=3: expected no value, or true or false"),
    ("--tp 2 --tp-mode 4d", "--tp-mode=4d: expected 1d, 2d, 2.5d or 3d"),
    ("--tp 4 --tp-mode 2.5d --tp-depth 3", "--tp-depth=3: expected with --tp-mode 2.5d, and a divisor of --tp"),
    ("--sp 2 --sp-mode star", "--sp-mode=star: expected megatron, ulysses, ring or rsa"),
    ("--sp 2 --sp-mode megatron", "--sp-mode=megatron: the sequence is split over the axis of --tp, which it needs"),
    ("--sp-mode ring", "--sp-mode=ring: needs --sp N"),
    ("--dp 2 --zero 4", "--zero=4: expected 0 (off), 1 (optimizer state), 2 (gradients too) or 3 (parameters too)"),
    ("--dp 2 --zero all", "--zero=all: expected 0 (off), 1 (optimizer state), 2 (gradients too) or 3 (parameters too)"),
    ("--regather sometimes", "--regather=sometimes: expected never, always or auto"),
    ("--stream sometimes", "--stream=sometimes: expected never, always or auto"),
    ("--pp 2 --pp-schedule 1b1f", "--pp-schedule=1b1f: expected one of gpipe, 1f1b, interleaved, zero-bubble"),
    ("--target tpu", "--target=tpu: expected cpu, cuda, or cuda: with one of "),
    ("--host-twins twins", "--host-twins=twins: kernels for cpu have no twins; expected with --target cuda"),
    ("--report r.txt", "--report=r.txt: expected FILE.json or FILE.html"),
    ("--to nowhere", "--to=nowhere is no phase; phases are import normalize differentiate assign propagate"),
    ("--from assign", '--from=assign needs .mlir text, and the model is "'),
]


@pytest.mark.parametrize("options,said", USAGE)
def test_wrong_usage(tmp_path, options, said):
    result = compile_fails(tmp_path, GPT2, *options.split(), words=[said], status=2)
    assert result.stderr.count("error") == 1, "one error, and in our own words"


@pytest.mark.parametrize("command,said", [
    ("", "no command given; see tessera --help"), ("frobnicate", "Unknown subcommand 'frobnicate'"),
    ("compile", "no model given: tessera compile MODEL ..."), ("compile m.onnx", "no output given: add -o OUT"),
    ("compile m.mlir -o p --from lower --to assign", "--from=lower is behind --to=assign"),
    ("compile m.mlir -o p --from assign --capacity-factor 2",
     "--capacity-factor=2: is for phase normalize, which --from=assign leaves out"),
    ("verify m.onnx --tolerance small", "--tolerance=small: expected a number of at least 0"),
    ("convert m.onnx --format pytorch -o p", "--format=pytorch: expected onnx, mlir or torch"),
    ("convert m.onnx --format onnx", "no output given: add -o OUT"),
    ("convert m.mlir --format onnx -o p", "--format onnx needs an .onnx model to write the plan into"),
    ("convert w.safetensors --format torch -o p", "--format torch: no model given: tessera convert FILE.safetensors --model MODEL"),
    ("convert m.onnx --model m.onnx --format onnx -o p", "--model goes with --format torch: tessera convert MODEL --format onnx"),
    ("convert w.safetensors --model m.onnx --weights v.safetensors --format torch -o p",
     "--weights: with --format torch the weights are the first argument"),
])
def test_wrong_commands(tmp_path, command, said):
    h.assert_error(h.run(h.TESSERA, *command.split(), cwd=tmp_path), said, status=2)
    assert not list(tmp_path.iterdir())


def test_the_last_of_an_option_given_twice_wins():
    plan = h.checked(h.TESSERA, "plan", GPT2, "--tp", "4", "--dp", "8", "--tp", "2", "--dp", "1").stdout
    assert '"tensor" = 2' in plan and '"tensor" = 4' not in plan


@pytest.mark.parametrize("options,said", [
    ("--train adamw --loss cross_entropy:nothing",
     "loss 'cross_entropy:nothing': there is no output called 'nothing'; the outputs are logits"),
    ("--train adamw --loss nothing", "there is no output called 'nothing'; the outputs are logits"),
    ("--train adamw --frozen no.such.*", "--frozen 'no.such.*' matches no parameter, neither by its name nor by its source"),
    ("--train adamw --frozen *", "has no trained parameter"),
    ("--train adamw --microbatches 8", 'input "input_ids" has a batch of 4, fewer than 8 microbatches; use at most 4'),
    ("--train adamw --microbatches 2000000", "2000000 microbatches are more than the 1048576 that there may be"),
    ("--dp 65537", "mesh: the mesh has more than 65536 ranks, the most that programs are made for"),
    ("--train adamw --zero 2", '--zero=2 stores training state in pieces over the axis "data", which the mesh does not have'),
    ("--pp-schedule 1f1b", "--pp-schedule 1f1b needs a pipeline: add --pp N, or a [pipeline] table to the plan"),
    ("--sp 64", "--sp: a sequence of 32 has no part for each of 64 ranks"),
    ("--bind nodim=3", "--bind nodim=3: the model has no symbolic dimension 'nodim'; all its shapes are fixed")])
def test_options_that_do_not_fit_the_model(tmp_path, options, said):
    compile_fails(tmp_path, GPT2, *options.split(), words=[said])


def test_no_batch_and_no_residual_stream(tmp_path):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    compile_fails(tmp_path, tmp_path / "m.onnx", "--dp", "2", words=["--dp: the model has no input with a batch dimension"])
    compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--tp", "2", "--sp-mode", "megatron",
                  words=["--sp-mode megatron: no row product is added to a residual stream of [batch, sequence, width]"])


def test_no_sequence_to_split(tmp_path):
    compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--sp", "2", words=["--sp: no attention, softmax(scale q k + masks) v, is recognised in the model"])


def test_zero_without_training_is_a_warning(tmp_path):
    result = h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--dp", "2", "--zero", "1", "--to", "assign", "-o", tmp_path / "a.mlir")
    assert "stage 1 of ZeRO stores optimizer state in pieces, and the program has none; add --train" in result.stderr


def test_plan_and_option_name_two_types(tmp_path):
    (tmp_path / "plan.toml").write_text('[precision]\ncompute = "bf16"\n')
    compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--plan", tmp_path / "plan.toml", "--dtype", "f16",
                  words=['--dtype=f16: the plan says compute = "bf16"; give one of them'])


# ---- plans

MESH = "[mesh]\ntensor = 2\n"


def op(match, pattern, axes='["tensor"]', mesh=MESH):
    return f'{mesh}[[op]]\nmatch = "{match}"\npattern = "{pattern}"\naxes = {axes}\n'


def pipeline(more, mesh="[mesh]\npipe = 2\n"):
    return f'{mesh}[pipeline]\naxis = "pipe"\n{more}'


LISTS = '[["*.h.0*"], ["*.lm_head*"], ["*.ln_f*"]]'
# what is said of it: (plan, the line that the error names: of the key, else of its table; options)
PLANS = {
    # text
    "expected ']', saw": ("[mesh\ntensor = 2\n", "1"),
    'unknown key "meshes" in the plan; the nearest is "mesh"': (MESH + "[meshes]\nx = 1\n", "3"),
    'unknown key "patern" in [[op]]; the nearest is "pattern"':
        (MESH + '[[op]]\nmatch = "*.c_fc*"\npatern = "column"\naxes = ["tensor"]\n', "5"),
    '"mesh" must be a table of axes and sizes': ("mesh = 2\n", "1"),
    'mesh axis "tensor" has size 0; sizes are at least 1': ("[mesh]\ntensor = 0\n", "2"),
    "the size of a mesh axis must be an integer": ('[mesh]\ntensor = "two"\n', "2"),
    '"micro" names microbatches and cannot be a mesh axis': ("[mesh]\nmicro = 2\n", "2"),
    "[mesh]: the mesh has more than 65536 ranks, the most that programs are made for":
        ("[mesh]\na = 65536\nb = 2\n", "1"),
    "[mesh]: an axis of the mesh has an empty name": ('[mesh]\n"" = 2\n', "1"),
    '"match" is missing': (MESH + '[[op]]\npattern = "column"\naxes = ["tensor"]\n', "3"),
    '"match" must be a string': (MESH + '[[op]]\nmatch = 1\npattern = "column"\naxes = ["tensor"]\n', "4"),
    '"axes" is missing': (MESH + '[[op]]\nmatch = "*.c_fc*"\npattern = "column"\n', "3"),
    'axes must be a list of mesh axes, such as ["tensor"]': (op("*.c_fc*", "column", '"tensor"'), "6"),
    "an axis must be a string": (op("*.c_fc*", "column", "[2]"), "6"),
    'the mesh has no axis "tensr"; the nearest is "tensor"': (op("*.c_fc*", "column", '["tensr"]'), "6"),
    'axis "tensor" is listed twice': (op("*.c_fc*", "column", '["tensor", "tensor"]'), "6"),
    'pattern "column" takes 1 axis names and was given 2':
        (op("*.c_fc*", "column", '["tensor", "data"]', MESH + "data = 2\n"), "7"),
    'there is no pattern "colum"; the nearest is "column"': (op("*.c_fc*", "colum"), "5"),
    '"op" is a list: write [[op]]': (MESH + '[op]\nmatch = "*.c_fc*"\n', "3"),
    'an entry of "op" must be a table': ("op = [1]\n" + MESH, "1"),
    '"dim" must be an integer': (MESH + '[[input]]\nmatch = "*"\ndim = "0"\naxes = ["tensor"]\n', "5"),
    '"split" must be a table from dimensions to axes, such as { 1 = ["tensor"] }':
        (MESH + '[[value]]\nmatch = "logits"\nsplit = 1\n', "5"),
    '"one" is not the number of a dimension':
        (MESH + '[[value]]\nmatch = "logits"\nsplit = { one = ["tensor"] }\n', "5"),
    'axis "tensor" splits two dimensions of one value':
        (MESH + '[[value]]\nmatch = "logits"\nsplit = { 0 = ["tensor"], 1 = ["tensor"] }\n', "5"),
    '"zero" must be a table, with a stage and axes': ("zero = 1\n" + MESH, "1"),
    '"stage" is missing': (MESH + '[zero]\naxes = ["tensor"]\n', "3"),
    '"stage" is 4; it is 0 (off), 1 (optimizer state), 2 (gradients too) or 3 (parameters too)':
        (MESH + '[zero]\nstage = 4\naxes = ["tensor"]\n', "4"),
    'the mesh has no axis "data"; the nearest is "tensor"': (MESH + '[zero]\nstage = 1\naxes = ["data"]\n', "5"),
    '"pipeline" must be a table': ("pipeline = 2\n" + MESH, "1"),
    '"microbatches" is 0; it is at least 1': (MESH + "[pipeline]\nmicrobatches = 0\n", "4"),
    '"microbatches" must be an integer': (MESH + "[pipeline]\nmicrobatches = 1.5\n", "4"),
    'the mesh has no axis "pip"; the nearest is "tensor"': (MESH + '[pipeline]\naxis = "pip"\n', "4"),
    'there is no pipeline schedule "1b1f"; the nearest is "1f1b"': (pipeline('schedule = "1b1f"\n'), "5"),
    '"stages" must be "auto" or one list of globs a stage': (pipeline("stages = 2\n"), "5"),
    'a stage must be a list of globs, such as ["*.h.0*"]': (pipeline('stages = ["*.h.0*", "*.h.1*"]\n'), "5"),
    '"precision" must be a table': ('precision = "bf16"\n' + MESH, "1"),
    '"compute" is "f99"; it is "f32", "bf16" or "f16"': (MESH + '[precision]\ncompute = "f99"\n', "4"),
    # names and dimensions of the model
    'no operator, module or parameter is named "*.c_fd*"; the nearest is "transformer.h.0.mlp.c_fc.weight"':
        (op("*.c_fd*", "column"), "3"),
    'no input is named "tokens"; the inputs are input_ids':
        (MESH + '[[input]]\nmatch = "tokens"\naxes = ["tensor"]\n', "3"),
    'no value is named "logitz"; the nearest is': (MESH + '[[value]]\nmatch = "logitz"\nsplit = { 1 = ["tensor"] }\n', "3"),
    '"lm_head.weight" is a parameter, and [[value]] lays down what nodes compute':
        (MESH + '[[value]]\nmatch = "lm_head.weight"\nsplit = { 0 = ["tensor"] }\n', "3"),
    'input "input_ids" has 2 dimensions and no dimension 7':
        (MESH + '[[input]]\nmatch = "*"\ndim = 7\naxes = ["tensor"]\n', "3"),
    'value "logits" has 3 dimensions and no dimension 9':
        (MESH + '[[value]]\nmatch = "logits"\nsplit = { 9 = ["tensor"] }\n', "3"),
    'axis "tensor" splits dimension 0 of input "input_ids" already':
        (MESH + '[[input]]\nmatch = "*"\ndim = 0\naxes = ["tensor"]\n[[input]]\nmatch = "*"\ndim = 1\naxes = ["tensor"]\n', "7"),
    # patterns on operators that they do not fit
    "'column' splits the columns of a weight, and this operator is no product with a parameter": (op("*.ln_1*", "column"), "3"),
    "'row' splits the rows of a weight, and this operator is no product with a parameter": (op("*.ln_1*", "row"), "3"),
    "'vocab' splits the rows of a table that is looked up, or the columns of the head, and this operator is neither":
        (op("*.ln_1*", "vocab"), "3"),
    "'2d' splits a product with a parameter or a look-up in a table over a grid, and this operator is neither":
        (op("*.ln_1*", "2d", '["a", "b"]', "[mesh]\na = 2\nb = 2\n"), "4"),
    "'3d' splits a product with a parameter or a look-up in a table over a cube, and this operator is neither":
        (op("*.ln_1*", "3d", '["a", "b", "c"]', "[mesh]\na = 2\nb = 2\nc = 2\n"), "5"),
    "'expert' splits a dimension of experts that a weight and what it multiplies have, and this operator has none":
        (op("*.ln_1*", "expert"), "3"),
    "'heads' splits the heads of an attention, and this operator is none": (op("*.ln_1*", "heads"), "3"),
    "'ring' passes the keys of an attention round, and this operator is none": (op("*.ln_1*", "ring"), "3"),
    "'rsa' splits the queries of an attention, and this operator is none": (op("*.ln_1*", "rsa"), "3"),
    "'ulysses' exchanges tokens for heads around an attention, and this operator is none": (op("*.ln_1*", "ulysses"), "3"),
    "'spatial' splits the image of a convolution, and this operator is none": (op("*.ln_1*", "spatial"), "3"),
    # pipelines
    "pipeline schedule 1f1b has one list of globs a stage, 2 here, not 3": (pipeline(f"stages = {LISTS}\n"), "3"),
    "pipeline schedule zero-bubble has two chunks a stage, so 4 lists of globs here, not 3":
        (pipeline(f'schedule = "zero-bubble"\nstages = {LISTS}\n'), "3"),
    "pipeline schedule interleaved has two or more chunks a stage, so a multiple of 2 lists of globs, not 3":
        (pipeline(f'schedule = "interleaved"\nstages = {LISTS}\n'), "3"),
    "pipeline schedule interleaved needs microbatches that the 2 stages divide, not 3; use --microbatches 4 or --pp-schedule 1f1b":
        (pipeline('schedule = "interleaved"\nmicrobatches = 3\n'), "3"),
    'no operator, module or parameter that belongs to a stage is named "*.h.7*"':
        (pipeline('stages = [["*.h.0*"], ["*.h.7*"]]\n'), "5"),
    "list 1 of stages has no operator of its own; earlier lists match all that it names":
        (pipeline('stages = [["*"], ["*.h.0*"]]\n'), "5"),
    "stages form a cycle": (pipeline('stages = [["lm_head*"], ["*.h.0*"]]\n'), "5"),
    'input "*" is split over "pipe", which is the pipeline\'s axis; split it over another axis':
        (pipeline('[[input]]\nmatch = "*"\naxes = ["pipe"]\n'), "5"),
    '"*.c_fc*" is given axis "pipe", which is the pipeline\'s; use another axis, or [pipeline] stages':
        (pipeline('[[op]]\nmatch = "*.c_fc*"\npattern = "column"\naxes = ["pipe"]\n'), "5"),
    'value "logits" is split over "pipe", which is the pipeline\'s axis; split it over another axis':
        (pipeline('[[value]]\nmatch = "logits"\nsplit = { 1 = ["pipe"] }\n'), "5"),
    '[zero] is given axis "pipe", which is the pipeline\'s: its ranks have different parameters; use another axis':
        (pipeline('[zero]\nstage = 1\naxes = ["pipe"]\n'), "5"),
    "the model has 6 layers (products and lookups with a parameter), fewer than the 16 stages of the pipeline":
        (pipeline("", "[mesh]\npipe = 16\n"), "3"),
}


@pytest.mark.parametrize("said", PLANS)
def test_plan_errors(tmp_path, said):
    text, line = PLANS[said]
    (tmp_path / "plan.toml").write_text(text)
    result = compile_fails(tmp_path, h.MODELS / "gpt2_1layer.onnx", "--plan", tmp_path / "plan.toml", words=[said])
    assert re.search(rf"plan\.toml:{line}:\d+", result.first_error), result.first_error


def test_plan_and_recipe_contradict(tmp_path):
    (tmp_path / "plan.toml").write_text(MESH)
    compile_fails(tmp_path, GPT2, "--plan", tmp_path / "plan.toml", "--tp", "4", words=["tensor"])


def test_missing_plan(tmp_path):
    compile_fails(tmp_path, GPT2, "--plan", tmp_path / "nothing.toml", words=["nothing.toml"])


# ---- executables

@pytest.fixture
def gpt2(program):
    return program("gpt2", "1", TRAIN)


def infer_fails(compiled, folder, name, array, *words, notes=""):
    path = folder / "x.npy"
    np.save(path, array)
    result = h.run(*compiled.command("infer", "--input", f"{name}={path}", "--output", folder / "out"))
    h.assert_error(result, *words, notes=notes)
    assert not list(folder.glob("out/*"))


IDS = np.zeros((4, 32), np.int64)


@pytest.mark.parametrize("name,array,words", [
    ("inputs", IDS, ["inputs"]),
    ("input_ids", IDS.astype(np.float32), ["'input_ids' (", ") has type float32, the program expects int64"]),
    ("input_ids", IDS[:, :16], ["input_ids", "16", "32"]),
    ("input_ids", IDS[0], ["input_ids"]),
    ("input_ids", np.where(np.arange(128).reshape(4, 32) == 70, 160, IDS), ["input_ids", "160", "[2, 6]"]),
    ("input_ids", np.where(np.arange(128).reshape(4, 32) == 33, -1, IDS), ["input_ids", "-1", "[1, 1]"]),
], ids=["name", "type", "shape", "rank", "token", "negative"])
def test_wrong_arrays(gpt2, tmp_path, name, array, words):
    infer_fails(gpt2, tmp_path, name, array, *words)


def test_wrong_arrays_on_every_rank(program, tmp_path):
    """Only one rank holds the bad token; all end, with one message."""
    bad = IDS.copy()
    bad[3, 31] = 200
    np.save(tmp_path / "x.npy", bad)
    compiled = program("gpt2", "dp2tp2", TRAIN)
    for mpi in (False, True):
        arguments = ("infer", "--input", f"input_ids={tmp_path}/x.npy", "--output", tmp_path / "out")
        result = h.run(*compiled.command(*arguments, mpi=mpi))
        assert result.returncode == 1
        assert "error: " in result.stderr and "200" in result.stderr and "[3, 31]" in result.stderr


def test_missing_input(gpt2, tmp_path):
    h.assert_error(h.run(*gpt2.command("infer", "--output", tmp_path / "out")), "input_ids")


def test_not_a_number(program, tmp_path):
    array = h.model_inputs("vit", ["pixel_values"])["pixel_values"]
    array[1, 2, 3, 4] = np.nan
    infer_fails(program("vit", "1", TRAIN), tmp_path, "pixel_values", array, "pixel_values", "[1, 2, 3, 4]")


@pytest.mark.parametrize("damage", ["empty", "short", "text", "huge-shape"])
def test_broken_arrays(gpt2, tmp_path, damage):
    np.save(tmp_path / "x.npy", IDS)
    good = (tmp_path / "x.npy").read_bytes()
    bad = {"empty": b"", "short": good[:-8], "text": b"hello\n" * 100,
           "huge-shape": good.replace(b"(4, 32)", b"(4, 9999999999)", 1)}[damage]
    (tmp_path / "x.npy").write_bytes(bad)
    result = h.run(*gpt2.command("infer", "--input", f"input_ids={tmp_path}/x.npy", "--output", tmp_path / "out"))
    h.assert_error(result, "x.npy")


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "header"])
def test_broken_weights(gpt2, tmp_path, damage):
    good = gpt2.path.with_name("program.safetensors").read_bytes()
    bad = {"empty": b"", "short": good[:-100], "header": b"\xff" * 8 + good[8:]}
    if damage != "missing":
        (tmp_path / "w.safetensors").write_bytes(bad[damage])
    np.save(tmp_path / "x.npy", IDS)
    result = h.run(*gpt2.command("infer", "--input", f"input_ids={tmp_path}/x.npy", "--output", tmp_path / "out", "--weights",
                                 tmp_path / "w.safetensors"))
    h.assert_error(result, "w.safetensors")


def test_weights_of_another_model(gpt2, program, tmp_path):
    np.save(tmp_path / "x.npy", IDS)
    other = program("llama", "1", TRAIN).path.with_name("program.safetensors")
    result = h.run(*gpt2.command("infer", "--input", f"input_ids={tmp_path}/x.npy", "--output", tmp_path / "out", "--weights",
                                 other))
    h.assert_error(result)


@pytest.mark.parametrize("arguments,said", [
    ("", "no command; the commands are train, infer and info (see --help)"),
    ("frobnicate", "unknown command 'frobnicate'; the commands are train, infer and info (see --help)"),
    ("train", "train needs --steps N"), ("train --steps 1", "train needs data: --tokens FILE.bin or --data NAME=FILE.npy"),
    ("infer", "infer needs --output DIR"), ("info now", "unexpected argument 'now'"),
    ("train --steps x", "--steps needs an integer, not 'x'"), ("train --steps " + "9" * 20, "--steps needs an integer, not '9"),
    ("train --steps -1", "--steps is -1, at least 0 is expected"), ("train --steps", "'--steps' needs a value"),
    ("train --shuffle=maybe", "'--shuffle' takes no value"), ("info --json=x", "'--json' takes no value"),
    ("train --lr nan", "--lr needs a number, not 'nan'"), ("train --lr inf", "--lr needs a number, not 'inf'"),
    ("train --lr -1", "--lr is -1, outside of what is possible"), ("train --clip-norm -1", "--clip-norm is -1, outside of what is possible"),
    ("train --clip-norm 0", "--clip-norm 0 would remove every gradient; leave the option off for no clipping"),
    ("train --betas 0.9", "--betas needs two numbers, such as 0.9,0.95, not '0.9'"),
    ("train --betas 0.9,x", "--betas needs a number, not 'x'"),
    ("train --schedule step", "--schedule is constant, linear or cosine, not 'step'"),
    ("train --comm smoke", "--comm is nccl or host, not 'smoke'"), ("train --token-type u64", "--token-type is u16 or u32, not 'u64'"),
    ("train --data labels.npy", "--data needs NAME=FILE, not 'labels.npy'"),
    ("train --loss-scale 1e-9", "--loss-scale 1e-9 would leave nothing of the gradients: a number from 1e-6 to 3.4e38 is expected"),
    ("train --steps 5 --warmup 6 --tokens t.bin", "--warmup 6 is more than --steps 5"),
    ("train --steps 5 --every 2 --tokens t.bin", "--checkpoint DIR and --every N go together"),
    ("train --steps 5 --token-type u16 --data x=x.npy", "--token-type says how to read --tokens, which is not given"),
    ("train --device-memory much", "--device-memory needs a size such as 16GiB or 500MiB, not 'much'"),
    ("info --threads 0.5", "--threads needs an integer, not '0.5'"), ("info --threads 65537", "--threads is 65537, at most 65536 is possible"),
    ("infer --nothing", "unknown option '--nothing'"), ("train --step 1", "unknown option '--step'; did you mean '--steps'?"),
    ("infer --steps 1", "'--steps' is no option of infer"),
    ("infer --repeat 1e3 --output d", "--repeat needs an integer, not '1e3'")])
def test_wrong_usage_of_the_executable(gpt2, arguments, said):
    result = h.run(*gpt2.command(*arguments.split()))
    h.assert_error(result, said, status=2)
    assert result.stderr.count("error") == 1


@pytest.mark.parametrize("arguments,said", [
    ("train --steps 1 --momentum 0.5 --tokens t.bin", "--momentum has no meaning here: the program trains with adam or adamw"),
    ("train --steps 1 --loss-scale 8 --tokens t.bin", "--loss-scale has no meaning here: the program computes in f32, which needs none"),
    ("train --steps 1 --no-decay nothing* --tokens t.bin",
     "--no-decay 'nothing*' matches no trained parameter (see info --json for their names)"),
    ("train --steps 1 --data x=t.bin", "--data names 'x', which is no input; the inputs are input_ids, labels"),
    ("train --steps 1 --data labels=x.npy --data labels=x.npy", "--data gives input 'labels' twice"),
    ("infer --output d --input x=t.bin", "--input names 'x', which is no input; the inputs are input_ids"),
    ("infer --output d --input input_ids=t.bin --input input_ids=t.bin", "--input gives 'input_ids' twice"),
    ("infer --output d --input input_ids=t.bin", "cannot read the array 'input_ids' from 't.bin': its name must end in .npy, .npz or .safetensors"),
    ("infer --output d", "no array for input 'input_ids' (int64 [4, 32]); give --input input_ids=FILE.npy"),
    ("info --program evaluate", "--program evaluate: the programs are infer, train, train_clipped"),
    ("train --steps 1 --tokens t.bin --resume nothing", "cannot read the folder 'nothing': "),
    ("train --steps 1 --tokens t.bin --resume .", "'.' holds no checkpoint (step-"),
    ("train --steps 1 --tokens t.bin --log /proc/x", "cannot create '/proc/x': "),
    ("train --steps 1 --tokens t.bin --device-memory 1", "bytes of device memory a rank (with "),
    ("train --steps 1 --tokens odd.bin", "'odd.bin' has 67 bytes, no multiple of the 2 bytes of a token (see --token-type)"),
    ("train --steps 1 --tokens wide.bin", "'wide.bin' holds tokens of 4 bytes (llm.c header); give --token-type u32"),
    ("train --steps 1 --tokens cut.bin", "'cut.bin' has 1224 bytes, its llm.c header says 2024"),
    ("train --steps 1 --tokens t.bin --comm nccl", "--comm nccl is for programs of GPUs, this one was compiled for cpu"),
])
def test_options_that_do_not_fit_the_program(gpt2, tmp_path, arguments, said):
    """Wrong for any file is wrong usage."""
    def write(name, magic, version, tokens):
        header = np.zeros(256, "<i4")
        header[:3] = magic, version, 500
        (tmp_path / name).write_bytes(header.tobytes() + tokens.tobytes())

    np.zeros(200, "<u2").tofile(tmp_path / "t.bin")
    np.save(tmp_path / "x.npy", IDS)
    (tmp_path / "odd.bin").write_bytes(bytes(67))
    write("wide.bin", 20240801, 7, np.zeros(500, "<u4"))
    write("cut.bin", 20240520, 1, np.zeros(100, "<u2"))
    before = sorted(os.listdir(tmp_path))
    h.assert_error(h.run(*gpt2.command(*arguments.split()), cwd=tmp_path), said, status=2 if re.search("--(comm|momentum|loss-scale|program)", arguments) else 1)
    assert sorted(os.listdir(tmp_path)) == before, "something was left behind"


def test_the_last_value_of_the_executables_options_wins(gpt2, tmp_path):
    data = h.training_data("gpt2", ["input_ids", "labels"])
    arguments = gpt2.train_arguments(tmp_path, data, 1, "--lr", "5", "--lr", "1e-3", "--steps", "2")
    h.checked(*gpt2.command(*arguments))


@pytest.mark.parametrize("arguments,said", [
    ("--data input_ids=none.npy --data labels=ids.npy", "'input_ids' (none.npy) has no samples"),
    ("--data input_ids=more.npy --data labels=ids.npy", "'ids.npy' has 4 samples, 'more.npy' has 5"),
    ("--data input_ids=ids.npy --data labels=ids.npy --weights shape.safetensors",
     "weights 'shape.safetensors': parameter 'lm_head.weight' has shape [2], the program was compiled for [160, 64]"),
    ("--data input_ids=ids.npy --data labels=ids.npy --weights type.safetensors",
     "weights 'type.safetensors': parameter 'lm_head.weight' has type I64, the program expects float32"),
])
def test_arrays_that_do_not_fit_the_program(gpt2, tmp_path, arguments, said):
    weights = load_file(gpt2.path.with_name("program.safetensors"))
    for name, wrong in (("shape", np.zeros(2, np.float32)), ("type", np.zeros((160, 64), np.int64))):
        save_file(weights | {"lm_head.weight": wrong}, tmp_path / f"{name}.safetensors")
    for name, samples in (("none", 0), ("ids", 4), ("more", 5)):
        np.save(tmp_path / f"{name}.npy", np.zeros((samples, 32), np.int64))
    h.assert_error(h.run(*gpt2.command("train", "--steps", "1", *arguments.split()), cwd=tmp_path), said)


def test_programs_that_lack_what_is_asked(gpt2, program, tmp_path):
    np.zeros(200, "<u2").tofile(tmp_path / "t.bin")
    train = ("train", "--steps", "1", "--tokens", tmp_path / "t.bin")
    h.assert_error(h.run(*program("mlp", "1", ()).command(*train)),
                   "this executable has no training program; compile the model with --train")
    h.assert_error(h.run(*program("mlp", "1", TRAIN).command(*train)),
                   "--tokens needs exactly one integer input to fill, the program has 0 (attention masks and position ids apart)")
    alone = shutil.copy(gpt2.path, tmp_path / "alone")
    h.assert_error(h.run(alone, *train), f"no weights beside the executable ('{alone}.safetensors'); give --weights FILE.safetensors")
    h.assert_error(h.run(*gpt2.command(*train), env={**os.environ, "TESSERA_CPU_LEVEL": "v9"}), "TESSERA_CPU_LEVEL is 'v9', expected v3 or v4")


def test_no_such_host(program, tmp_path):
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no.such.host.invalid", "MASTER_PORT": str(h.free_port())}
    result = h.run(program("mlp", "dp2", TRAIN).path, "train", "--steps", "1", "--tokens", "t.bin", env={**os.environ, **place})
    h.assert_error(result, "MASTER_ADDR 'no.such.host.invalid' is no host: ")


def test_outputs_of_one_file(tmp_path):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "a/b", "a_b")]
    nodes = [helper.make_node("Neg", ["x"], ["a/b"]), helper.make_node("Abs", ["x"], ["a_b"])]
    model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / "p")
    np.save(tmp_path / "x.npy", np.zeros(2, np.float32))
    h.assert_error(h.run(tmp_path / "p", "infer", "--input", f"x={tmp_path}/x.npy", "--output", tmp_path / "out"),
                   "two outputs would be written to 'a_b.npy'")


def test_no_compiler_driver(tmp_path):
    """Executables are linked by the driver of a C++ compiler, which may be missing or fail."""
    (tmp_path / "bin").mkdir()
    fails = lambda: h.tessera("compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", env={**os.environ, "PATH": str(tmp_path / "bin")})
    h.assert_error(fails(), "no C++ compiler driver found to link the executable: looked for c++, g++ and clang++ in PATH")
    (tmp_path / "bin" / "c++").write_text("#!/bin/sh\necho no disk left >&2\nexit 1\n")
    (tmp_path / "bin" / "c++").chmod(0o755)
    h.assert_error(fails(), "linking '", f"p' with {tmp_path}/bin/c++ failed: no disk left")
    assert not list(tmp_path.glob("p*"))


def test_tokens_out_of_the_vocabulary(gpt2, tmp_path):
    tokens = np.zeros(1000, "<u2")
    tokens[77] = 500
    tokens.tofile(tmp_path / "t.bin")
    result = h.run(*gpt2.command("train", "--tokens", tmp_path / "t.bin", "--steps", "2", "--save", tmp_path / "s.safetensors"))
    h.assert_error(result, "500")
    assert not (tmp_path / "s.safetensors").exists()


@pytest.mark.parametrize("size", [0, 1, 20, 32])
def test_too_few_tokens(gpt2, tmp_path, size):
    np.zeros(size, "<u2").tofile(tmp_path / "t.bin")
    result = h.run(*gpt2.command("train", "--tokens", tmp_path / "t.bin", "--steps", "1"))
    h.assert_error(result, "t.bin", f"{size} tokens", "one sample takes 33")


@pytest.mark.parametrize("size", [33, 64, 65])
def test_fewer_tokens_than_a_batch_are_read_again(gpt2, tmp_path, size):
    """Whole samples of 32 and the token after, in turns, until the batch of 4 is full; what is left over is not read."""
    tokens = np.random.default_rng(0).integers(0, 160, size)
    tokens.astype("<u2").tofile(tmp_path / "t.bin")
    log = tmp_path / "tokens.jsonl"
    h.checked(*gpt2.command("train", "--tokens", tmp_path / "t.bin", "--steps", "1", "--log", log))
    starts = [32 * (sample % ((size - 1) // 32)) for sample in range(4)]
    rows = lambda shift: np.stack([tokens[start + shift:start + shift + 32] for start in starts])
    given = gpt2.train(tmp_path / "arrays", {"input_ids": rows(0), "labels": rows(1)}, 1)
    assert json.loads(log.read_text())["loss"] == given[0]["loss"]


def test_labels_of_the_wrong_shape(gpt2, tmp_path):
    data = h.training_data("gpt2", ["input_ids", "labels"])
    data["labels"] = data["labels"][:, :5]
    h.assert_error(h.run(*gpt2.command(*gpt2.train_arguments(tmp_path, data, 1))), "labels")


def test_wrong_rank_count(program, tmp_path):
    compiled = program("gpt2", "dp2tp2", TRAIN)
    data = h.training_data("gpt2", ["input_ids", "labels"])
    result = h.run(*h.mpirun(3), compiled.path, *compiled.train_arguments(tmp_path, data, 1))
    assert result.returncode == 1
    line = next(line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert "3" in line and "4" in line


def test_file_size_limit(gpt2, tmp_path):
    """A write beyond `ulimit -f` is an error, not a signal, and leaves no partial file under its final name."""
    data = h.training_data("gpt2", ["input_ids", "labels"])
    arguments = gpt2.train_arguments(tmp_path, data, 1, "--save", tmp_path / "s.safetensors")
    command = " ".join(str(a) for a in gpt2.command(*arguments))
    result = h.run("bash", "-c", f"ulimit -f 16; exec {command}")
    h.assert_error(result, "s.safetensors")
    assert not (tmp_path / "s.safetensors").exists()


def test_save_into_a_missing_folder(gpt2, tmp_path):
    data = h.training_data("gpt2", ["input_ids", "labels"])
    save = tmp_path / "no" / "s.safetensors"
    h.assert_error(h.run(*gpt2.command(*gpt2.train_arguments(tmp_path, data, 1, "--save", save))), "s.safetensors")


@pytest.mark.parametrize("victim", [0, 2])
def test_killed_rank(program, tmp_path, victim):
    """When a rank is killed under mpirun the others end within ten seconds and the message names the rank."""
    compiled = program("gpt2", "dp2tp2", TRAIN)
    data = h.training_data("gpt2", ["input_ids", "labels"])
    arguments = compiled.train_arguments(tmp_path, data, 1000000, "--threads", "1")
    process = subprocess.Popen([*map(str, compiled.command(*arguments, mpi=True))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True, env=h.marked(tmp_path))
    ranks = {}
    try:
        assert h.wait_until(lambda: len(rank_processes(tmp_path)) == 4, 30), "training did not begin"
        time.sleep(2)  # into the middle of training
        ranks = rank_processes(tmp_path)
        assert sorted(ranks) == [0, 1, 2, 3]
        os.kill(ranks[victim], signal.SIGKILL)
        killed = time.monotonic()
        out, err = process.communicate(timeout=10)
        assert h.wait_until(lambda: not rank_processes(tmp_path), killed + 10 - time.monotonic()), "ranks were left running"
    finally:
        for pid in [process.pid, *ranks.values()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    assert process.returncode != 0
    assert f"rank {victim}" in out + err


def rank_processes(folder):
    """rank -> process id of the marked processes under mpirun."""
    return {int(environ[b"OMPI_COMM_WORLD_RANK"]): pid for pid, environ in h.marked_processes(folder).items()
            if b"OMPI_COMM_WORLD_RANK" in environ}
