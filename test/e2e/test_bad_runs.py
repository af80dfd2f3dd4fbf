"""What executables are given wrong, and ranks that die: one clear error line, the right status, no signal, no hang, no partial file."""
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
    ("", "no command; the commands are train, infer, info and calibrate (see --help)"),
    ("frobnicate", "unknown command 'frobnicate'; the commands are train, infer, info and calibrate (see --help)"),
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
    ("train --steps 5 --tokens t.bin --continue", "--continue is about the checkpoints of --checkpoint DIR, which is not given"),
    ("train --steps 5 --tokens t.bin --keep 0", "--keep is 0, at least 1 is expected"),
    ("train --steps 5 --tokens t.bin --checkpoint c --every 1 --keep-every 2", "--keep-every says what stays beside the newest: give --keep N, too"),
    ("train --steps 5 --tokens t.bin --checkpoint c --every 1 --continue --resume d",
     "--continue goes on from the newest of --checkpoint, --resume from the newest of another folder: give one of them"),
    ("train --steps 5 --token-type u16 --data x=x.npy", "--token-type says how to read --tokens, which is not given"),
    ("train --device-memory much", "--device-memory needs a size such as 16GiB or 500MiB, not 'much'"),
    ("train --device-memory 0", "--device-memory is 0, a size above 0 is expected"),
    ("train --host-memory 0MiB", "--host-memory is 0MiB, a size above 0 is expected"),
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


def test_save_in_place_of_the_programs_constants(program, tmp_path):
    """Gemma's mask is a constant of the executable's own file, which weights alone would leave without it; GPT-2 has none."""
    for name, is_refused in (("gemma2", True), ("gpt2", False)):
        compiled = program(name, "1", TRAIN)
        path = tmp_path / name
        shutil.copy(compiled.path, path)
        shutil.copy(f"{compiled.path}.safetensors", f"{path}.safetensors")
        weights = (tmp_path / f"{name}.safetensors").read_bytes()
        data = h.training_data(name, ["input_ids", "labels"])
        arguments = compiled.train_arguments(tmp_path, data, 1, "--save", f"{tmp_path}/../{tmp_path.name}/{name}.safetensors")
        result = h.run(path, *arguments)
        if is_refused:
            h.assert_error(result, "is the executable's own file, with constants that saved weights do not hold")
            assert (tmp_path / f"{name}.safetensors").read_bytes() == weights
        else:
            assert result.returncode == 0, result.stderr


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


def test_more_memory_than_is_allowed(tmp_path, gpt2):
    """What the error proposes works: fewer threads where their workspaces are what is too much, else the bytes that are needed."""
    data = h.training_data("gpt2", ["input_ids", "labels"])

    def started(program, name, *options):
        return h.run(*program.command(*program.train_arguments(tmp_path / name, data, 1, *options)))

    path = tmp_path / "capped"
    needed = json.loads(h.checked(gpt2.path, "info", "--json", "--threads", "2").stdout)["memory"][0]["device"]["peak"]
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", path, *TRAIN, "--threads", "2", "--device-memory", needed)
    capped = h.Program(path, 1)
    result = started(capped, "many", "--threads", "4096")
    h.assert_error(result, "bytes of device memory a rank (with 4096 threads)", f", {needed} are allowed; with --threads ")
    fits = int(re.search(r"with --threads (\d+) it fits", result.first_error)[1])
    assert started(capped, "fits", "--threads", str(fits)).returncode == 0
    h.assert_error(started(capped, "above", "--threads", str(fits + 1)), f"with --threads {fits} it fits")
    result = started(gpt2, "little", "--device-memory", "1KiB", "--threads", "1")
    h.assert_error(result, ", 1024 are allowed; give --device-memory ", " or more, or compile for less of it")
    enough = re.search(r"give --device-memory (\d+)", result.first_error)[1]
    assert started(gpt2, "enough", "--device-memory", enough, "--threads", "1").returncode == 0


def test_tiers_without_anything_in_them(tmp_path, gpt2):
    """A cap or a folder for a tier that nothing of the program is in has no effect, which a note says."""
    data = h.training_data("gpt2", ["input_ids", "labels"])
    result = h.checked(*gpt2.command(*gpt2.train_arguments(tmp_path, data, 1, "--host-memory", "1GiB", "--nvme", f"{tmp_path}:1GiB")))
    for option, where in (("host-memory", "the host"), ("nvme", "NVMe")):
        assert result.stdout.count(f"note: --{option} changes nothing: the program was compiled to keep nothing on {where}; compile it with --{option}\n") == 1
