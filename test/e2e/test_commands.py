"""plan, explain, verify, reports, and resuming from text: what they say, and how they refuse what is wrong."""
import json
import tomllib

import onnx
import pytest
from onnx import TensorProto, helper

import harness as h

MLP = h.MODELS / "mlp.onnx"
GPT2 = h.MODELS / "gpt2.onnx"
SGD = ("--train", "sgd")
PHASES = ("import", "normalize", "differentiate", "assign", "propagate", "partition", "schedule", "memory", "lower")


def test_plan_merges_with_a_file_and_the_files_entries_win(tmp_path):
    (tmp_path / "p.toml").write_text('[mesh]\ntensor = 2\n[[op]]\nmatch = "*lm_head*"\npattern = "row"\naxes = ["tensor"]\n')
    text = h.checked(h.TESSERA, "plan", GPT2, "--plan", tmp_path / "p.toml", "--dp", "2", "--tp", "2").stdout
    plan = tomllib.loads(text)
    assert plan["mesh"] == {"tensor": 2, "data": 2}
    assert plan["op"][0]["pattern"] == "row" and len(plan["op"]) > 1


@pytest.mark.parametrize("loss, added", [((), "labels"), (("--loss", "mse:logits"), "target")])
def test_plan_without_train_serves_training_too(tmp_path, loss, added):
    """Labels are split as the batch is; else each rank would compute the loss of all."""
    plan = h.checked(h.TESSERA, "plan", MLP, "--dp", "2", *loss).stdout
    assert [entry["match"] for entry in tomllib.loads(plan)["input"]] == ["x", added]
    assert tomllib.loads(plan) == tomllib.loads(h.checked(h.TESSERA, "plan", MLP, "--dp", "2", *SGD, *loss).stdout)
    (tmp_path / "plan.toml").write_text(plan)
    h.checked(h.TESSERA, "compile", MLP, "--plan", tmp_path / "plan.toml", "--to", "partition", "-o", tmp_path / "infer.mlir")


def test_plan_with_two_sizes_of_an_axis(tmp_path):
    (tmp_path / "p.toml").write_text("[mesh]\ntensor = 4\n")
    h.assert_error(h.tessera("plan", GPT2, "--plan", tmp_path / "p.toml", "--tp", "2"), "tensor", "2")


def test_plan_writes_what_it_prints(tmp_path):
    h.checked(h.TESSERA, "plan", GPT2, "--tp", "2", "-o", tmp_path / "p.toml")
    assert (tmp_path / "p.toml").read_text() == h.checked(h.TESSERA, "plan", GPT2, "--tp", "2").stdout
    h.assert_error(h.tessera("plan", GPT2, "--tp", "2", "-o", tmp_path / "none" / "p.toml"), "none/p.toml", status=1)


@pytest.mark.parametrize("variant,options", [
    ("mlp", ("--dp", "2", "--tp", "2")), ("mlp", ("--dp", "3")), ("gpt2_mask", ("--tp", "3")),
    ("bert", ("--dp", "2", "--microbatches", "2")),
])
def test_verify_finds_equal_programs_equal(variant, options):
    result = h.checked(h.TESSERA, "verify", h.MODELS / f"{variant}.onnx", *options)
    for word in ("infer:", "train:", "gradients", "parameters after a step", "worst"):
        assert word in result.stdout


def test_verify_tells_the_worst_value_where_programs_differ():
    result = h.tessera("verify", MLP, "--tp", "2", "--tolerance", "1e-30")
    h.assert_error(result, "the programs differ beyond 1e-30: worst ", " of the tensor's largest magnitude, at ", " on 1 rank, ")


def test_verify_compares_what_programs_in_f16_compute():
    """With a scale that keeps gradients where f16 has digits: at 0, which memory that nobody set may hold, both programs' would vanish."""
    llama = h.MODELS / "llama.onnx"
    half = ("--dtype", "f16", "--microbatches", "2")
    result = h.checked(h.TESSERA, "verify", llama, *half, "--tolerance", "0.01")
    worst = float(result.stdout.split("worst ")[-1].split()[0])
    assert 0 < worst <= 0.01
    assert "grad:" in result.stdout.split("worst ")[-1]
    h.assert_error(h.tessera("verify", llama, *half, "--tolerance", "1e-30"), "they compute in f16", "give --tolerance, or verify the plan in f32")


def test_verify_runs_within_a_cap_that_one_program_keeps():
    """Two stages' variables do not lie alike in all programs, so that the programs together take more than the largest of them."""
    options = ("--pp", "2", "--pp-schedule", "zero-bubble", "--microbatches", "4", "--train", "sgd", "--host-memory", "1GiB")
    h.checked(h.TESSERA, "verify", h.MODELS / "llama_ts_eager.onnx", *options, "--device-memory", "1685913")


def test_explain_lists_moves_parameters_and_padding():
    text = h.checked(h.TESSERA, "explain", GPT2, "--tp", "3", *SGD, "--frozen", "*wpe*").stdout
    trained, frozen = text.split("parameters trained")[1].split("parameters not trained")
    assert "transformer.wpe.weight" in frozen and "transformer.wpe.weight" not in trained
    assert "all_reduce tensor" in text and "bytes sent a rank" in text
    assert "160 stored as 162" in text.split("\npadded")[1]
    assert "no pattern on layer_norm" in text.split("replicated parameters")[1]


def test_products_that_every_rank_repeats_are_a_warning(tmp_path):
    """The head of RoBERTa begins with a product that pairs with no row product; a plan that names it quiets the warning. The patches of ViT
    are a convolution that does neither."""
    roberta, vit = (h.MODELS / f"{model}.onnx" for model in ("roberta", "vit"))
    said = h.checked(h.TESSERA, "explain", roberta, "--tp", "2").stderr
    assert 'every rank of "tensor" computes all of 1 contract operator (4096 bytes of weights): node_MatMul_180' in said
    (tmp_path / "p.toml").write_text('[mesh]\ntensor = 2\n[[op]]\nmatch = "node_MatMul_180"\npattern = "column"\naxes = ["tensor"]\n')
    assert "computes all of" not in h.checked(h.TESSERA, "explain", roberta, "--tp", "2", "--plan", tmp_path / "p.toml").stderr
    assert "computes all of" not in h.checked(h.TESSERA, "explain", roberta, "--dp", "2").stderr
    assert "computes all of 1 conv operator" in h.checked(h.TESSERA, "explain", vit, "--tp", "2").stderr


def why(model, name, *options):
    return h.checked(h.TESSERA, "explain", model, *options, "--why", name).stdout.splitlines()


def test_why_an_operator_is_laid_out_so():
    column = why(GPT2, "node_addmm", "--tp", "2")
    assert column[0] == "node_addmm"
    assert '  propagate: contract: pattern "column" over "tensor", which recipe gives it, says how it is split' in column
    assert '  propagate: contract: its result is split over "tensor"=2' in column
    # Its bias follows.
    assert '  propagate: add: no pattern is given to it, so it follows operand 0 (contract), which is split over "tensor"=2' in column
    row = why(GPT2, "node_addmm_1", "--tp", "2")
    assert any("is a sum over \"tensor\"=2, which is reduced before anything reads it: whole on every rank" in line for line in row)
    assert len(column) == len(set(column))  # each reason once
    stored = why(GPT2, "lm_head.weight", "--tp", "2")
    assert stored == ["lm_head.weight", '  propagate: it is stored as its first reader wants it, split over "tensor"=2']


def test_why_an_attention_is_none(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4, 8, 8])
    def model(axis):
        nodes = [helper.make_node("Transpose", ["x"], ["k"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["x", "k"], ["s"], name="scores"),
                 helper.make_node("Softmax", ["s"], ["p"], name="weights", axis=axis), helper.make_node("MatMul", ["p", "x"], ["y"], name="values")]
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4, 8, 8])
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"
    assert "  normalize: RaiseAttention rewrote it" in why(model(-1), "values")
    lines = why(model(-2), "values")
    assert not any("RaiseAttention rewrote" in line for line in lines)
    assert any("RaiseAttention did not: " in line and "no operand is a softmax" not in line for line in lines), lines


def test_why_of_a_name_that_does_not_exist():
    h.assert_error(h.tessera("explain", GPT2, "--why", "decoder.*"), "nothing was decided about", "decoder.*")


def test_explain_of_a_name_that_does_not_exist():
    h.assert_error(h.tessera("explain", GPT2, "--op", "decoder.*"), "decoder.*")


def test_every_phase_resumes_to_the_same_program(tmp_path):
    options = ("--dp", "2", "--tp", "2", *SGD)
    h.checked(h.TESSERA, "compile", MLP, *options, "--to", "lower", "-o", tmp_path / "whole.json")
    whole = json.loads((tmp_path / "whole.json").read_text())
    for done, following in zip(PHASES, PHASES[1:]):
        text, out = tmp_path / f"{done}.mlir", tmp_path / f"{done}.json"
        h.checked(h.TESSERA, "compile", MLP, *options, "--to", done, "-o", text)
        h.checked(h.TESSERA, "compile", text, *options, "--from", following, "--to", "lower", "-o", out)
        assert json.loads(out.read_text()) == whole, f"from {following}"


def test_dumps_resume_by_themselves(tmp_path):
    options = ("--tp", "2", *SGD)
    h.checked(h.TESSERA, "compile", MLP, *options, "-o", tmp_path / "p", "--dump-phases", tmp_path / "d")
    assert sorted(f.name for f in (tmp_path / "d").glob("*.mlir")) == [f"{i:02}-{p}.mlir" for i, p in enumerate(PHASES)]
    h.checked(h.TESSERA, "compile", tmp_path / "d" / "04-propagate.mlir", "-o", tmp_path / "q")
    assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()
    assert (tmp_path / "p.safetensors").read_bytes() == (tmp_path / "q.safetensors").read_bytes()


SUM_THROUGH_GELU = """
dist.mesh @mesh = <["t"=2]>
nn.variable @w : tensor<8x4xf32, #dist.layout<[[8 : "t"=2], [4]]>> {role = "parameter", init = "zero"}
func.func @infer(%x: tensor<2x8xf32, #dist.layout<[[2], [8 : "t"=2]]>> {nn.name = "x", nn.kind = #nn<kind data>})
    -> (tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x4xf32, #dist.layout<[[8 : "t"=2], [4]]>>
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"}
     : (tensor<2x8xf32, #dist.layout<[[2], [8 : "t"=2]]>>, tensor<8x4xf32, #dist.layout<[[8 : "t"=2], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]], partial = ["t"=2]>>
  %1 = nn.gelu %0 {tanh = true} : (tensor<2x4xf32, #dist.layout<[[2], [4]], partial = ["t"=2]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]], partial = ["t"=2]>>
  %2 = dist.reshard %1 : tensor<2x4xf32, #dist.layout<[[2], [4]], partial = ["t"=2]>> -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
  return %2 : tensor<2x4xf32, #dist.layout<[[2], [4]]>>
}
"""


def test_text_is_verified_before_partition(tmp_path):
    """Whoever wrote the layouts: what would compute something else on two ranks than on one does not compile."""
    (tmp_path / "m.mlir").write_text(SUM_THROUGH_GELU)
    h.assert_error(h.tessera("compile", tmp_path / "m.mlir", "--from", "partition", "-o", tmp_path / "p"), "nn.gelu", "partial sum", "reduce it first")
    assert not (tmp_path / "p").exists()


def test_text_resumes_only_where_it_stopped(tmp_path):
    h.checked(h.TESSERA, "compile", MLP, "--to", "assign", "-o", tmp_path / "a.mlir")
    h.assert_error(h.tessera("compile", tmp_path / "a.mlir", "--from", "schedule", "-o", tmp_path / "p"), "--from propagate")
    h.assert_error(h.tessera("compile", tmp_path / "a.mlir", "--to", "import", "-o", tmp_path / "p"), "assign", "import")
    assert not (tmp_path / "p").exists()


def test_report(tmp_path):
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--tp", "2", *SGD, "--report", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["mesh"] == {"tensor": 2}
    assert {"column [tensor]", "row [tensor]"} <= {op["pattern"] for op in report["operators"]}
    assert any(r["collectives"] == ["all_reduce tensor"] and r["bytes"] > 0 for r in report["reshards"])
    assert any(p["replicated"] and p["why"] for p in report["parameters"])
    assert report["memory"]["train"]["peak"] > 0 and report["sent"]["train"]["tensor"]["all_reduce"]["bytes"] > 0
    assert {"import", "lower", "link"} <= report["seconds"].keys()


def test_a_report_of_no_kind(tmp_path):
    result = h.tessera("compile", GPT2, "-o", tmp_path / "q", "--report", tmp_path / "r.txt")
    h.assert_error(result, "r.txt", "FILE.html", status=2)


def test_the_chosen_loss_is_a_note(tmp_path):
    said = "note: the loss is cross_entropy:logits; choose another by --loss"
    assert said in h.checked(h.TESSERA, "compile", GPT2, *SGD, "--to", "differentiate", "-o", tmp_path / "a").stderr
    named = h.checked(h.TESSERA, "compile", GPT2, *SGD, "--loss", "cross_entropy:logits", "--to", "differentiate", "-o", tmp_path / "b")
    assert "the loss is" not in named.stderr


def test_help_lists_commands_and_options():
    text = h.checked(h.TESSERA, "--help").stdout
    assert all(command in text for command in ("compile", "plan", "explain", "verify")) and len(text.splitlines()) < 40
    text = h.checked(h.TESSERA, "compile", "--help").stdout
    assert all(option in text for option in ("--bind", "--dump-phases", "--microbatches")) and len(text.splitlines()) < 60
