"""What the compiler is given wrong, plans apart: one clear error line, the right status, no signal, no hang, no partial file."""
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import harness as h

GPT2 = h.MODELS / "gpt2.onnx"

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
    h.compile_fails(tmp_path, tmp_path / "m.onnx", words=["m.onnx"])


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
    h.compile_fails(tmp_path, tmp_path / "nothing.onnx", words=[f'there is no file "{tmp_path}/nothing.onnx"'])


def test_unsupported_operators_are_listed_at_once(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])
    nodes = [helper.make_node("Det", ["x"], ["a"]), helper.make_node("GridSample", ["x", "x"], ["b"]),
             helper.make_node("NoSuchOperator", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "m.onnx")
    result = h.compile_fails(tmp_path, tmp_path / "m.onnx")
    for name in ("Det", "GridSample", "NoSuchOperator"):
        assert name in result.stderr


def test_unbound_dimensions(tmp_path):
    result = h.compile_fails(tmp_path, h.MODELS / "gpt2_dyn.onnx")
    assert "batch" in result.stderr and "seq" in result.stderr and "--bind" in result.stderr
    h.compile_fails(tmp_path, h.MODELS / "gpt2_dyn.onnx", "--bind", "batch=4", words=["seq"])
    h.compile_fails(tmp_path, h.MODELS / "gpt2_dyn.onnx", "--bind", "batch=4", "--bind", "sequence=32", words=["sequence"],
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
        h.compile_fails(tmp_path, tmp_path / "sub" / "m.onnx", words=["m.onnx"])


def test_no_permission_to_write(tmp_path):
    h.assert_error(h.tessera("compile", GPT2, "-o", tmp_path / "no" / "such" / "folder" / "p"))


# ---- options

USAGE = [
    ("--no-such-option", 'unknown option "--no-such-option" of tessera compile; see tessera compile --help'),
    ("--nvme 1GiB", "--nvme=1GiB: expected a folder and a size above 0, such as /scratch:500GiB"),
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
    ("--tp-mode 2d", "--tp-mode=2d: needs --tp N"), ("--dp 2 --tp-mode 3d", "--tp-mode=3d: needs --tp N"),
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
    result = h.compile_fails(tmp_path, GPT2, *options.split(), words=[said], status=2)
    assert result.stderr.count("error") == 1, "one error, and in our own words"


@pytest.mark.parametrize("command,said", [
    ("", "no command given; see tessera --help"), ("frobnicate", "Unknown subcommand 'frobnicate'"),
    ("compile", "no model given: tessera compile MODEL ..."), ("compile m.onnx", "no output given: add -o OUT"),
    ("compile m.mlir -o p --from lower --to assign", "--from=lower is behind --to=assign"),
    ("compile m.mlir -o p --from assign --capacity-factor 2",
     "--capacity-factor=2: is for phase normalize, which --from=assign leaves out"),
    ("verify m.onnx --tolerance small", "--tolerance=small: expected a number of at least 0"),
    ("convert m.onnx --format pytorch -o p", "--format=pytorch: expected onnx, mlir, torch or safetensors"),
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
    h.compile_fails(tmp_path, GPT2, *options.split(), words=[said])


def test_no_batch_and_no_residual_stream(tmp_path):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    h.compile_fails(tmp_path, tmp_path / "m.onnx", "--dp", "2", words=["--dp: the model has no input with a batch dimension"])
    h.compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--tp", "2", "--sp-mode", "megatron",
                    words=["--sp-mode megatron: no row product is added to a residual stream of [batch, sequence, width]"])


def test_no_sequence_to_split(tmp_path):
    h.compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--sp", "2", words=["--sp: no attention, softmax(scale q k + masks) v, is recognised in the model"])


def test_zero_without_training_is_a_warning(tmp_path):
    result = h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--dp", "2", "--zero", "1", "--to", "assign", "-o", tmp_path / "a.mlir")
    assert "stage 1 of ZeRO stores optimizer state in pieces, and the program has none; add --train" in result.stderr


# ---- what linking needs

def test_no_compiler_driver(tmp_path):
    """Executables are linked by the driver of a C++ compiler, which may be missing or fail."""
    (tmp_path / "bin").mkdir()
    fails = lambda: h.tessera("compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", env={**os.environ, "PATH": str(tmp_path / "bin")})
    h.assert_error(fails(), "no C++ compiler driver found to link the executable: looked for c++, g++ and clang++ in PATH")
    (tmp_path / "bin" / "c++").write_text("#!/bin/sh\necho no disk left >&2\nexit 1\n")
    (tmp_path / "bin" / "c++").chmod(0o755)
    h.assert_error(fails(), "linking '", f"p' with {tmp_path}/bin/c++ failed: no disk left")
    assert not list(tmp_path.glob("p*"))
