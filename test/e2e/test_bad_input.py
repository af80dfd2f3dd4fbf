"""Input that users get wrong: one clear error line, the right status, no signal, no hang, no partial file."""
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

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
    compile_fails(tmp_path, tmp_path / "nothing.onnx", words=["nothing.onnx"])


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

@pytest.mark.parametrize("options", [
    ("--no-such-option",), ("--host-memory", "1GiB"), ("--tp",), ("--tp", "two"), ("--tp", "0"), ("--tp", "-1"), ("--train", "adamx"),
    ("--microbatches", "0"), ("--microbatches", "1.5"), ("--bind", "batch"), ("--bind", "batch=" + "9" * 20), ("--dtype", "f99"),
    ("--to", "nowhere"), ("--timing=maybe",), ("--as-written=3",), ("-v=x", "--no-such-option"), ("--threads", "nan"),
    ("another.onnx",), ("--dp", "2", "--zero", "4"), ("--dp", "2", "--zero", "all"), ("--regather", "sometimes")])
def test_wrong_usage(tmp_path, options):
    result = compile_fails(tmp_path, GPT2, *options, status=2)
    assert result.stderr.count("error") == 1, "one error, and in our own words"


def test_the_last_of_an_option_given_twice_wins():
    plan = h.checked(h.TESSERA, "plan", GPT2, "--tp", "4", "--dp", "8", "--tp", "2", "--dp", "1").stdout
    assert '"tensor" = 2' in plan and '"tensor" = 4' not in plan


@pytest.mark.parametrize("options,word", [
    (("--train", "adamw", "--loss", "cross_entropy:nothing"), "nothing"),
    (("--train", "adamw", "--loss", "nothing"), "nothing"),
    (("--train", "adamw", "--frozen", "no.such.*"), "no.such.*"),
    (("--train", "adamw", "--frozen", "*"), "trained"),
    (("--train", "adamw", "--microbatches", "8"), "8"),
    (("--train", "adamw", "--zero", "2"), "--dp"),
    (("--bind", "nodim=3"), "nodim")])
def test_options_that_do_not_fit_the_model(tmp_path, options, word):
    result = compile_fails(tmp_path, GPT2, *options)
    assert word in result.stderr


def test_no_command_is_wrong_usage():
    h.assert_error(h.tessera(), status=2)
    h.assert_error(h.tessera("frobnicate"), "frobnicate", status=2)
    h.assert_error(h.tessera("compile"), status=2)


# ---- plans

MESH = "[mesh]\ntensor = 2\n"
# kind -> (plan, the line that the error names: of the key, else of its table; a name that is offered instead)
PLANS = {
    "syntax": ("[mesh\ntensor = 2\n", "1:", ""),
    "unknown-table": (MESH + "[meshes]\nx = 1\n", "3:", "mesh"),
    "unknown-key": (MESH + '[[op]]\nmatch = "*.c_fc*"\npatern = "column"\naxes = ["tensor"]\n', "5:", "pattern"),
    "unknown-axis": (MESH + '[[op]]\nmatch = "*.c_fc*"\npattern = "column"\naxes = ["tensr"]\n', "6:", "tensor"),
    "unknown-pattern": (MESH + '[[op]]\nmatch = "*.c_fc*"\npattern = "colum"\naxes = ["tensor"]\n', "5:", "column"),
    "glob-without-match": (MESH + '[[op]]\nmatch = "*.c_fd*"\npattern = "column"\naxes = ["tensor"]\n', "[34]:", "c_fc"),
    "axis-count": (MESH + '[[op]]\nmatch = "*.c_fc*"\npattern = "column"\naxes = ["tensor", "tensor"]\n', "[36]:", ""),
    "axis-size": ("[mesh]\ntensor = 0\n", "2:", ""),
    "axis-type": ('[mesh]\ntensor = "two"\n', "2:", ""),
    "missing-match": (MESH + '[[op]]\npattern = "column"\naxes = ["tensor"]\n', "3:", "match"),
    "input-dim": (MESH + '[[input]]\nmatch = "*"\ndim = 7\naxes = ["tensor"]\n', "[35]:", ""),
    "zero-stage": (MESH + '[zero]\nstage = 4\naxes = ["tensor"]\n', "4:", "3"),
    "zero-axis": (MESH + '[zero]\nstage = 1\naxes = ["data"]\n', "5:", "tensor"),
    "value-dim": (MESH + '[[value]]\nmatch = "logits"\nsplit = { 9 = ["tensor"] }\n', "[35]:", ""),
}


@pytest.mark.parametrize("kind", PLANS)
def test_plan_errors(tmp_path, kind):
    text, place, near = PLANS[kind]
    (tmp_path / "plan.toml").write_text(text)
    result = compile_fails(tmp_path, GPT2, "--plan", tmp_path / "plan.toml", notes=near)
    assert re.search(rf"plan\.toml:{place}\d+", result.first_error), result.first_error


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
    ("input_ids", IDS.astype(np.float32), ["input_ids", "int64", "float32"]),
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


@pytest.mark.parametrize("arguments", [
    ("frobnicate",), ("train",), ("train", "--steps", "x"), ("train", "--steps", "9" * 20), ("train", "--steps"),
    ("train", "--shuffle=maybe"), ("train", "--lr", "nan"), ("train", "--lr", "inf"), ("train", "--betas", "0.9,x"),
    ("train", "--clip-norm", "-1"), ("info", "--threads", "0.5"), ("info", "--json=x"), ("infer", "--nothing"),
    ("infer", "--repeat", "1e3", "--output", "d")])
def test_wrong_usage_of_the_executable(gpt2, arguments):
    result = h.run(*gpt2.command(*arguments))
    h.assert_error(result, *(arguments[1:2] if "=" not in "".join(arguments) else ()), status=2)
    assert result.stderr.count("error") == 1


def test_the_last_value_of_the_executables_options_wins(gpt2, tmp_path):
    data = h.training_data("gpt2", ["input_ids", "labels"])
    arguments = gpt2.train_arguments(tmp_path, data, 1, "--lr", "5", "--lr", "1e-3", "--steps", "2")
    h.checked(*gpt2.command(*arguments))


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
