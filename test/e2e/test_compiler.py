"""The compiler's other commands and options: plan, explain, verify, dumps and resuming from them, reports."""
import json
import math
import os
import subprocess
import sys
import tomllib

import onnx
import pytest

import harness as h
from small_gpt import small_gpt

TRAIN = ("--train", "adamw")
GPT2 = h.MODELS / "gpt2.onnx"


def test_plan_can_be_given_back(tmp_path, program):
    text = h.checked(h.TESSERA, "plan", GPT2, "--dp", "2", "--tp", "2", *TRAIN).stdout
    plan = tomllib.loads(text)
    assert plan["mesh"] == {"data": 2, "tensor": 2} and list(plan["mesh"]) == ["data", "tensor"]
    assert {"column", "row", "heads"} <= {op["pattern"] for op in plan["op"]}
    assert "#" in text
    (tmp_path / "plan.toml").write_text(text)
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--plan", tmp_path / "plan.toml", *TRAIN)
    by_plan, by_recipe = h.Program(tmp_path / "p", 4).info(), program("gpt2", "dp2tp2", TRAIN).info()
    for key in ("mesh", "memory", "sent"):
        assert by_plan[key] == by_recipe[key]


def test_plan_by_hand(tmp_path):
    """Patterns by module path and a value's layout, on a mesh whose axes have other names."""
    (tmp_path / "plan.toml").write_text("""
[mesh]
batch = 2
model = 2
[[input]]
match = "*"
dim = 0
axes = ["batch"]
[[op]]
match = "fc1*"
pattern = "column"
axes = ["model"]
[[op]]
match = "fc2*"
pattern = "row"
axes = ["model"]
[[value]]
match = "logits"
split = { 0 = ["batch"] }
""")
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", "--plan", tmp_path / "plan.toml", *TRAIN)
    compiled = h.Program(tmp_path / "p", 4)
    inputs = h.model_inputs("mlp", ["x"])
    expected = h.onnxruntime_outputs(h.MODELS / "mlp.onnx", inputs)
    h.assert_outputs_close(compiled.infer(tmp_path / "run", inputs), expected)
    sent = compiled.info("infer")["sent"]
    assert sent["model"]["all_reduce"]["count"] == 1


def test_explain_names_operators_patterns_and_parameters():
    text = h.checked(h.TESSERA, "explain", GPT2, "--tp", "2", *TRAIN).stdout
    for word in ("column", "row", "heads", "all_reduce", "transformer.h.0.mlp.c_fc", "lm_head.weight"):
        assert word in text
    one = h.checked(h.TESSERA, "explain", GPT2, "--tp", "2", *TRAIN, "--op", "transformer.h.1.mlp*").stdout
    assert "transformer.h.1.mlp.c_fc" in one and "transformer.h.0.mlp.c_fc" not in one


@pytest.mark.parametrize("variant,mesh", [
    ("gpt2", "dp2tp2"), ("bert", "tp2"),
    pytest.param("llama", "tp4", marks=pytest.mark.whole), pytest.param("vit", "dp2tp2", marks=pytest.mark.whole),
    pytest.param("gpt2", "tp4", marks=pytest.mark.whole)])
def test_verify(variant, mesh):
    h.checked(h.TESSERA, "verify", h.MODELS / f"{variant}.onnx", *h.MESHES[mesh][0], *TRAIN)


def test_verify_reports_the_worst_value():
    result = h.tessera("verify", GPT2, "--tp", "2", *TRAIN, "--tolerance", "1e-12")
    assert result.returncode == 1


def test_phases_can_be_dumped_and_resumed(tmp_path, program):
    dumps = tmp_path / "dumps"
    options = ("--sp", "2", "--tp", "2", *TRAIN)  # a ring, whose attentions have numbers as operands
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", *options, "--dump-phases", dumps)
    phases = ["import", "normalize", "differentiate", "assign", "propagate", "partition", "schedule", "memory"]
    files = sorted(p.name for p in dumps.glob("*.mlir"))
    for phase in phases:
        assert any(f.split("-", 1)[1].startswith(phase) for f in files), f"{phase} is not in {files}"
    size = sum(p.stat().st_size for p in dumps.glob("*.mlir"))
    assert size < 20 * 2**20, "constants are written into the dumps"
    inputs = h.model_inputs("gpt2", ["input_ids"])
    expected = h.Program(tmp_path / "p", 4).infer(tmp_path / "i", inputs)
    for phase in ("import", "propagate", "partition"):
        stopped = tmp_path / f"{phase}.mlir"
        h.checked(h.TESSERA, "compile", GPT2, *options, "--to", phase, "-o", stopped)
        resumed = tmp_path / f"from-{phase}"
        h.checked(h.TESSERA, "compile", stopped, "--from", phase, *options, "-o", resumed, "--weights",
                  tmp_path / "p.safetensors")
        h.assert_outputs_close(h.Program(resumed, 4).infer(tmp_path / f"i-{phase}", inputs), expected)


@pytest.mark.parametrize("said,otherwise,error", [
    ("bytes = 1152 : i64", "bytes = 1088 : i64", "programs[0].inputs[0] needs 1152 bytes"),  # the buffer of the input
    ("element = f32", "element = i7", "the runtime has no element type 'i7'"),
    ('kind = "data"', 'kind = "data", range = array<i64: 3>', "the range of input 'x' is not [low, high]"),
    ("workspace = 2097152 : i64}, shape", 'workspace = "much"}, shape', "attrs.workspace is not an integer"),
    (" m = 12 : i64", " m = 0x7F800000 : f32", "JSON has no number for an attribute of a call that is infinite or none"),
])
def test_what_the_runtime_refuses_is_not_linked(tmp_path, said, otherwise, error):
    """What the description says is looked at before there is an executable."""
    text = tmp_path / "p.mlir"
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--to", "memory", "-o", text)
    assert said in (whole := text.read_text())
    text.write_text(whole.replace(said, otherwise, 1))
    result = h.tessera("compile", text, "-o", tmp_path / "p")
    h.assert_error(result, "internal error", error, "no executable is written")
    assert not (tmp_path / "p").exists()


def test_a_stage_that_is_not_there(tmp_path):
    text = tmp_path / "p.mlir"
    h.checked(h.TESSERA, "compile", GPT2, "--pp", "2", "--to", "memory", "-o", text)
    text.write_text(text.read_text().replace("dist.stage = 1 ", "dist.stage = 7 "))
    h.assert_error(h.tessera("compile", text, "--to", "lower", "-o", tmp_path / "p"), "is of stage 7, and there are 2")


def test_report_and_timing(tmp_path):
    result = h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--tp", "2", *TRAIN, "--report",
                       tmp_path / "report.json", "--timing")
    assert json.loads((tmp_path / "report.json").read_text())
    assert "import" in result.stdout + result.stderr


def test_loss_is_printed(tmp_path):
    result = h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", *TRAIN)
    assert "cross_entropy" in result.stdout + result.stderr and "logits" in result.stdout + result.stderr


def test_list_patterns():
    text = h.checked(h.TESSERA, "compile", "--list-patterns").stdout
    for pattern in ("data", "column", "row", "heads", "vocab"):
        assert pattern in text


def test_info_describes_the_program(program):
    compiled = program("llama", "dp2tp2", TRAIN)
    info = compiled.info()
    assert info["mesh"] == {"data": 2, "tensor": 2} and info["ranks"] == 4
    assert info["target"] == "cpu" and info["dtype"] == "f32"
    assert info["inputs"][0] == {"name": "input_ids", "type": "int64", "shape": [4, 32]}
    parameters = {p["name"]: p for p in info["parameters"]["list"]}
    assert info["parameters"]["count"] == sum(_product(p["shape"]) for p in parameters.values())
    query = [p for p in parameters.values() if p.get("source") == "model.layers.0.self_attn.q_proj.weight"]
    assert len(query) == 1 and query[0]["transposed"] and query[0]["trained"]
    text = h.checked(*compiled.command("--help")).stdout
    for word in ("input_ids", "logits", "tensor", "train", "infer"):
        assert word in text
    assert "model.layers.0.self_attn.q_proj.weight" in h.checked(*compiled.command("info")).stdout


def _product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def test_one_kind_of_program_for_the_same_input(tmp_path):
    """Compiling twice gives the same bytes."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / name / "p", "--tp", "2", *TRAIN)
    assert (tmp_path / "a" / "p").read_bytes() == (tmp_path / "b" / "p").read_bytes()


def test_waste_is_a_warning(tmp_path):
    """More ranks than samples: half of them do what others do. A plan that shares the work is compiled in silence."""
    compile = lambda *mesh: h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", *TRAIN, *mesh).stderr
    assert "warning" not in compile("--dp", "2", "--tp", "2", "--microbatches", "2")
    text = compile("--dp", "8")
    assert "the 8 ranks together compute 2.0 times what one would" in text and "node_addmm" in text


def test_images_are_split_where_their_sequence_begins():
    """Of 17 tokens on four ranks products work on five: the patches' embedding is not a graph input, and yet nothing behind it is whole."""
    text = h.checked(h.TESSERA, "explain", h.MODELS / "vit.onnx", "--sp", "4").stdout
    product = text[text.index("contract node_MatMul_26"):].splitlines()[2]
    assert "operands f32[4, 17>20/seq, 64]" in product


def _compiling_product_peaks_at(folder, width):
    """Resident bytes of compiling x @ W, W [4096, width] in a file of its own."""
    folder.mkdir()
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4096, width], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    (folder / "w.bin").touch()
    with open(folder / "w.bin", "r+b") as file:
        file.truncate(4096 * width * 4)
    tensor = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [tensor("x", [8, 4096])],
                                   [tensor("y", [8, width])], [weight])
    (folder / "model.onnx").write_bytes(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]).SerializeToString())
    # A small parent stands between: a process starts with its parent's resident pages.
    measure = ("import resource, subprocess, sys; status = subprocess.run(sys.argv[1:]).returncode;"
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(status)")
    return int(subprocess.run([sys.executable, "-ISc", measure, str(h.TESSERA), "compile", folder / "model.onnx", "-o", folder / "p"],
                              check=True, capture_output=True, text=True).stdout)


def test_weights_in_external_data_cost_the_compiler_no_memory(tmp_path):
    small, large = (_compiling_product_peaks_at(tmp_path / str(width), width) for width in (64, 8192))
    assert large - small < 32 << 20, f"{small} bytes for 1 MiB of weights, {large} bytes for 128 MiB"


@pytest.mark.parametrize("recipe", ["--dp 2 --tp 2 --zero 3", "--tp 4 --tp-mode 2d"])
def test_time_is_linear_in_layers(tmp_path, recipe):
    """Of eight times the layers a compile may take eight times as long, and half of that for caches and noise. Kernels and linking are left
    out: layers share them. A pass that scans all operators for each operator takes 30 times as long."""
    def seconds(layers):
        model = small_gpt(tmp_path / "model.onnx", layers, 16, batch=4, tokens=8)
        before = h.processor_seconds()
        h.checked(h.TESSERA, "compile", model, *TRAIN, *recipe.split(), "--to", "memory", "-o", os.devnull)
        return h.processor_seconds() - before

    few, many = math.inf, math.inf
    for _ in range(4):  # noise only adds: the least of each counts, and a busy machine gets more turns
        few, many = min(few, seconds(6), seconds(6)), min(many, seconds(48))
        if many < 12 * few:
            break
    assert many < 12 * few, f"6 layers take {few:.2f} s, 48 take {many:.2f} s"
