"""Plans that are wrong, or do not fit the model: one error that names the line of the plan."""
import re

import pytest

import harness as h

GPT2 = h.MODELS / "gpt2.onnx"
MESH = "[mesh]\ntensor = 2\n"


def op(match, pattern, axes='["tensor"]', mesh=MESH):
    return f'{mesh}[[op]]\nmatch = "{match}"\npattern = "{pattern}"\naxes = {axes}\n'


def pipeline(more, mesh="[mesh]\npipe = 2\n"):
    return f'{mesh}[pipeline]\naxis = "pipe"\n{more}'


def place(more, match='"*"', mesh=MESH):
    return f"{mesh}[[place]]\nmatch = {match}\n{more}\n"


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
    # memory
    'unknown key "devise" in [memory]; the nearest is "device"': (MESH + '[memory]\ndevise = "1GiB"\n', "4"),
    '"memory" must be a table, with device and host': ('memory = "1GiB"\n' + MESH, "1"),
    '"device" must be a size above 0, such as "16GiB" or "500MiB"': (MESH + '[memory]\ndevice = "0GiB"\n', "4"),
    '"host" must be a size above 0, such as "16GiB" or "500MiB"': (MESH + '[memory]\ndevice = "1GiB"\nhost = 16\n', "5"),
    '"offload" must be "none", "auto", or a list of "optimizer", "parameters", "activations"':
        (MESH + '[memory]\ndevice = "1GiB"\noffload = ["weights"]\n', "5"),
    "host memory is given, and no device memory": (MESH + '[memory]\nhost = "1GiB"\n', "4"),
    "what may leave the device is given, and no device memory": (MESH + '[memory]\noffload = "auto"\n', "4"),
    'unknown key "teir" in [[place]]; the nearest is "tier"': (place('teir = "host"\ntier = "host"'), "5"),
    '"tier" is "hots"; the nearest is "host"': (place('tier = "hots"'), "5"),
    'tier "nvme" is wanted, and nobody gave --nvme': (place('tier = "nvme"'), "3"),
    '"what" is "parameters"; the nearest is "parameter"': (place('what = "parameters"\ntier = "host"'), "5"),
    '"match" must be a glob or a list of globs': (place('tier = "host"', "[1]"), "4"),
    '"moves" must be a list of moves, each a list of a gap and the positions': (place('tier = "host"\nprogram = "train"\nmoves = [[0, 1]]'), "7"),
    '"moves" are of values that leave the device, and this entry has them stay':
        (place('tier = "device"\nprogram = "train"\nmoves = [[0, -1, -1, 4]]'), "7"),
    '"moves" are of one program: say which by "program"': (place('tier = "host"\nmoves = [[0, -1, -1, 4]]'), "6"),
    '"update" says where parameters are updated, in every program, and has no "tier"': (place('update = "host"\ntier = "host"'), "5"),
    '"update" says where parameters are updated, in every program, and has no "recompute"':
        (place('update = "host"\nrecompute = true'), "5"),
    '"recompute" of a [[place]] must be true': (place("recompute = false"), "5"),
    '"recompute" says what is made again, wherever it is, and has no "tier"': (place('recompute = true\ntier = "host"'), "5"),
    '"recompute" is of activations, and this entry is of what = "optimizer"': (place('what = "optimizer"\nrecompute = true'), "6"),
    '"update" is "nvme"; the nearest is': (place('update = "nvme"'), "5"),
    'no parameter is named "*.mlq.*"; the nearest is': (place('update = "host"', '"*.mlq.*"'), "3"),
    'no value is named "*.mlq.*"; the nearest is': (place('tier = "host"', '"*.mlq.*"'), "3"),
    'no parameter is named "node_linear"; the nearest is': (place('what = "parameter"\ntier = "host"', '"node_linear"'), "3"),
    'there is no program "trian"; programs are train, train_clipped and infer': (place('tier = "host"\nprogram = "trian"'), "3"),
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
    result = h.compile_fails(tmp_path, h.MODELS / "gpt2_1layer.onnx", "--plan", tmp_path / "plan.toml", words=[said])
    assert re.search(rf"plan\.toml:{line}:\d+", result.first_error), result.first_error


def test_plan_and_recipe_contradict(tmp_path):
    (tmp_path / "plan.toml").write_text(MESH)
    h.compile_fails(tmp_path, GPT2, "--plan", tmp_path / "plan.toml", "--tp", "4", words=["tensor"])


@pytest.mark.parametrize("options,words", [
    (("--device-memory", "2GiB"), '--device-memory=2GiB: the plan says device = "1GiB"; give one of them'),
    (("--host-memory", "3GiB"), '--host-memory=3GiB: the plan says host = "4GiB"; give one of them'),
    (("--offload", "none"), '--offload=none: the plan says offload = "auto"; give one of them'),
    (("--recompute", "none"), '--recompute=none: the plan says recompute = "block"; give one of them'),
])
def test_plan_and_option_name_two_sizes(tmp_path, options, words):
    (tmp_path / "plan.toml").write_text('[memory]\ndevice = "1GiB"\nhost = "4GiB"\noffload = "auto"\nrecompute = "block"\n')
    h.compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--plan", tmp_path / "plan.toml", *options, words=[words, "plan.toml"])


def test_missing_plan(tmp_path):
    h.compile_fails(tmp_path, GPT2, "--plan", tmp_path / "nothing.toml", words=["nothing.toml"])


def test_plan_and_option_name_two_types(tmp_path):
    (tmp_path / "plan.toml").write_text('[precision]\ncompute = "bf16"\n')
    h.compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--plan", tmp_path / "plan.toml", "--dtype", "f16",
                    words=['--dtype=f16: the plan says compute = "bf16"; give one of them'])
