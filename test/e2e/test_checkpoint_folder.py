"""The folder of a run's checkpoints: which stay, who may write, what a run goes on from, and `tessera checkpoint` and `convert` on it."""
import fcntl
import json
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import checkpoint_files as c
import harness as h

ADAMW = ("--train", "adamw")
FROZEN = (*ADAMW, "--frozen", "*bias*")


@pytest.fixture(scope="module")
def data():
    return h.training_data("mlp", [*h.input_names("mlp"), "labels"])


def train(compiled, folder, data, steps, *options):
    return h.run(*compiled.command(*compiled.train_arguments(folder, data, steps, *options)))


def logged(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def written(program, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    program("mlp", "dp2", ADAMW).train(folder, data, 6, "--checkpoint", folder / "c", "--every", "2", "--save", folder / "w.safetensors")
    return folder


# ---- what stays, and who writes

def test_the_newest_stay_and_some_others(program, data, tmp_path):
    result = train(program("mlp", "dp2", ADAMW), tmp_path, data, 8, "--checkpoint", tmp_path / "c", "--every", "1", "--keep", "2", "--keep-every", "3")
    assert result.returncode == 0, result.stderr
    assert c.steps_in(tmp_path / "c") == [3, 6, 7, 8] == [int(p.name[5:]) for p in sorted((tmp_path / "c").iterdir())]


def test_later_ones_of_another_run_stay(program, written, data, tmp_path):
    shutil.copytree(written / "c", tmp_path / "c")
    assert train(program("mlp", "1", ADAMW), tmp_path, data, 3, "--checkpoint", tmp_path / "c", "--every", "1", "--keep", "1").returncode == 0
    assert c.steps_in(tmp_path / "c") == [3, 4, 6]


def test_one_run_a_folder(program, data, tmp_path):
    compiled = program("mlp", "1", ADAMW)
    options = ("--checkpoint", tmp_path / "c", "--every", "1")
    (tmp_path / "c").mkdir()
    with (tmp_path / "c" / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        result = train(compiled, tmp_path, data, 1, *options)
        h.assert_error(result, "the folder '", "c' is in use: another run writes its checkpoints there (it holds '", "end it, or give another folder")
        h.assert_error(h.tessera("checkpoint", "prune", tmp_path / "c", "--keep", "1"), "is in use: another run")
        assert not c.steps_in(tmp_path / "c")
    assert train(compiled, tmp_path, data, 1, *options).returncode == 0
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["step-000000001"], "the lock goes with the run"


def test_what_ended_runs_left_goes(program, data, tmp_path):
    for name in ("step-000000001.partial", "step-000000009.removed"):
        (tmp_path / "c" / name).mkdir(parents=True)
        (tmp_path / "c" / name / "manifest.json").write_text("")
    (tmp_path / "c" / "mine.partial").write_text("")
    assert train(program("mlp", "1", ADAMW), tmp_path, data, 1, "--checkpoint", tmp_path / "c", "--every", "1").returncode == 0
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["mine.partial", "step-000000001"]


def test_a_command_for_every_checkpoint(program, data, tmp_path):
    """It has the path; where it fails, training goes on."""
    script = tmp_path / "told"
    script.write_text(f'#!/bin/sh\ntest -f "$2/manifest.json" && echo "$1 $2" >> {tmp_path}/seen\nexit 3\n')
    script.chmod(0o755)
    result = train(program("mlp", "dp2", ADAMW), tmp_path, data, 2, "--checkpoint", tmp_path / "c", "--every", "1", "--on-checkpoint", f"{script} 'an argument'")
    assert result.returncode == 0 and result.stderr.count("warning: --on-checkpoint ended with status 3 for '") == 2
    assert (tmp_path / "seen").read_text() == "".join(f"an argument {c.path_of(tmp_path / 'c', step)}\n" for step in (1, 2))
    result = train(program("mlp", "1", ADAMW), tmp_path, data, 1, "--checkpoint", tmp_path / "d", "--every", "1", "--on-checkpoint", "kill -9 $$;")
    assert "warning: --on-checkpoint ended by signal 9 for '" in result.stderr and result.returncode == 0


# ---- going on

@pytest.mark.parametrize("mesh", ["1", "dp2"])
def test_continue(program, data, tmp_path, mesh):
    """The same command, again and again: from the start, from the newest, from the one before where that is damaged."""
    compiled = program("mlp", mesh, ADAMW)
    options = ("--checkpoint", tmp_path / "c", "--every", "2", "--continue", "--log", tmp_path / "log.jsonl", "--lr", "0.01")
    whole = compiled.train(tmp_path / "whole", data, 9, "--lr", "0.01")
    result = train(compiled, tmp_path, data, 5, *options)
    assert result.returncode == 0 and "no checkpoint in '" in result.stdout and "the training begins with step 1" in result.stdout
    result = train(compiled, tmp_path, data, 7, *options)
    assert result.returncode == 0 and "the training goes on from checkpoint '" in result.stdout and "step-000000004', of step 4" in result.stdout
    c.flip(c.path_of(tmp_path / "c", 6) / "rank-00000.safetensors", -5)
    result = train(compiled, tmp_path, data, 9, *options)
    assert result.returncode == 0 and "step-000000004', of step 4" in result.stdout and "is damaged: tensor '" in result.stderr
    assert [e["step"] for e in logged(tmp_path / "log.jsonl")] == list(range(1, 10))
    assert [e["loss"] for e in logged(tmp_path / "log.jsonl")] == [e["loss"] for e in whole]
    assert "whole" in h.tessera("checkpoint", "verify", tmp_path / "c").stdout and c.steps_in(tmp_path / "c") == [2, 4, 6, 8]


def test_processes_write_together(program, data, tmp_path):
    """Under mpirun every rank has a process, and what threads wrote is gone on from."""
    compiled = program("mlp", "dp2", ADAMW)
    compiled.train(tmp_path / "whole", data, 6, "--threads", "1", "--save", tmp_path / "whole.safetensors")
    options = ("--threads", "1", "--checkpoint", tmp_path / "c", "--every", "2", "--keep", "1", "--continue", "--log", tmp_path / "log.jsonl")
    for steps, mpi in ((2, False), (4, True), (6, True)):
        arguments = compiled.train_arguments(tmp_path, data, steps, *options, "--save", tmp_path / "w.safetensors")
        h.checked(*compiled.command(*arguments, mpi=mpi))
        assert [p.name for p in (tmp_path / "c").iterdir()] == [f"step-{steps:09}"]
    assert (tmp_path / "w.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert [e["step"] for e in logged(tmp_path / "log.jsonl")] == list(range(1, 7))


def test_another_batch_goes_on_with_the_next_sample(data, tmp_path):
    """Samples are counted, not steps: of 36 the first 24 were taken by two steps of 12."""
    for batch in (12, 6):
        h.checked(h.TESSERA, "compile", h.MODELS / "mlp_dyn.onnx", "-o", tmp_path / f"p{batch}", "--bind", f"batch={batch}", "--train", "sgd")
    twelve, six = (h.Program(tmp_path / f"p{batch}", 1) for batch in (12, 6))
    twelve.train(tmp_path, data, 2, "--checkpoint", tmp_path / "c", "--every", "2", "--save", tmp_path / "w.safetensors")
    result = train(six, tmp_path, data, 3, "--resume", tmp_path / "c", "--checkpoint", tmp_path / "c", "--every", "1", "--log", tmp_path / "log", "--lr", "0")
    assert result.returncode == 0 and "batch 12, now 6" in result.stdout, result.stderr
    assert c.manifest_of(c.path_of(tmp_path / "c", 3))["samples"] == 30
    rest = {name: array[24:] for name, array in data.items()}
    expected = six.train(tmp_path / "rest", rest, 1, "--weights", tmp_path / "w.safetensors", "--lr", "0")
    assert logged(tmp_path / "log")[-1]["loss"] == expected[0]["loss"]


def test_nothing_to_go_on_from(program, data, tmp_path):
    compiled = program("mlp", "1", ADAMW)
    (tmp_path / "c").mkdir()
    h.assert_error(train(compiled, tmp_path, data, 1, "--resume", tmp_path / "c"), "' holds no checkpoint (step-N)")
    h.assert_error(train(compiled, tmp_path, data, 1, "--resume", tmp_path / "no"), "cannot read the folder '", "No such file")


def test_other_data_is_an_error(program, written, data, tmp_path):
    compiled = program("mlp", "1", ADAMW)
    other = dict(data, labels=np.roll(data["labels"], 1))
    result = train(compiled, tmp_path, other, 7, "--resume", written / "c")
    h.assert_error(result, "is of a training with other samples or another order of them: data labels ", " bytes, the first MiB ", "--accept-changes")
    result = train(compiled, tmp_path, other, 7, "--resume", written / "c", "--accept-changes")
    assert result.returncode == 0 and "what differs from checkpoint '" in result.stdout and "data labels" in result.stdout


def test_what_differs_is_listed(program, written, data, tmp_path):
    result = train(program("mlp", "1", ADAMW), tmp_path, data, 7, "--resume", written / "c", "--lr", "0.5", "--betas", "0.8,0.9")
    assert result.returncode == 0, result.stderr
    assert "step-000000006': betas 0.9,0.95, now 0.8,0.9; lr 0.001, now 0.5; mesh data=2, now " in result.stdout


def test_a_checkpoint_of_another_step_is_damaged(program, written, data, tmp_path):
    shutil.copytree(written / "c", tmp_path / "c")
    c.path_of(tmp_path / "c", 6).rename(c.path_of(tmp_path / "c", 8))
    result = train(program("mlp", "1", ADAMW), tmp_path, data, 8, "--resume", tmp_path / "c", "--log", tmp_path / "log")
    assert result.returncode == 0 and "step-000000008' says that it is of step 6" in result.stderr
    assert logged(tmp_path / "log")[0]["step"] == 5


# ---- state that never changes

def test_frozen_parameters_are_not_written(program, data, tmp_path):
    compiled = program("mlp", "1", FROZEN)
    compiled.train(tmp_path, data, 2, "--checkpoint", tmp_path / "c", "--every", "2", "--save", tmp_path / "w.safetensors")
    stored = {v["name"]: v for v in c.manifest_of(c.path_of(tmp_path / "c", 2))["variables"]}
    frozen = [name for name, v in stored.items() if "elsewhere" in v]
    assert frozen and all("bias" in name for name in frozen) and not any(stored[name]["pieces"] for name in frozen)
    assert {stored[name]["elsewhere"]["file"] for name in frozen} == {f"{compiled.path}.safetensors"}
    expected = train(compiled, tmp_path, data, 4, "--resume", tmp_path / "c", "--save", tmp_path / "a.safetensors")
    assert expected.returncode == 0, expected.stderr
    result = train(program("mlp", "dp2", FROZEN), tmp_path, data, 4, "--resume", tmp_path / "c", "--checkpoint", tmp_path / "c", "--every", "2", "--save", tmp_path / "b.safetensors")
    assert result.returncode == 0, result.stderr
    a, b = (load_file(tmp_path / f"{name}.safetensors") for name in "ab")
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-4, atol=1e-6)
        assert name not in frozen or (a[name] == b[name]).all()
    assert [v["name"] for v in c.manifest_of(c.path_of(tmp_path / "c", 4))["variables"] if "elsewhere" in v] == frozen


def test_frozen_parameters_that_have_changed(program, data, tmp_path):
    """They are looked for in --weights, beside the executable and where they were; nothing else will do."""
    compiled = program("mlp", "1", FROZEN)
    weights = {name: array * 2 for name, array in load_file(f"{compiled.path}.safetensors").items()}
    save_file(weights, tmp_path / "w.safetensors")
    compiled.train(tmp_path, data, 2, "--checkpoint", tmp_path / "c", "--every", "2", "--weights", tmp_path / "w.safetensors")
    assert train(compiled, tmp_path, data, 4, "--resume", tmp_path / "c").returncode == 0
    shutil.move(tmp_path / "w.safetensors", tmp_path / "moved.safetensors")
    result = train(compiled, tmp_path, data, 4, "--resume", tmp_path / "c")
    h.assert_error(result, "which its training never changed, is not as it was in '", "w.safetensors'; give the file that it was trained from by --weights FILE")
    assert train(compiled, tmp_path, data, 4, "--resume", tmp_path / "c", "--weights", tmp_path / "moved.safetensors").returncode == 0
    h.assert_error(h.tessera("convert", tmp_path / "c", "--format", "safetensors", "-o", tmp_path / "x"), "cannot open '", "w.safetensors")
    save_file({name: array + 1 for name, array in weights.items()}, tmp_path / "w.safetensors")
    h.assert_error(h.tessera("convert", tmp_path / "c", "--format", "safetensors", "-o", tmp_path / "x"),
                   "which its training never changed, is no longer as it was in '")


# ---- without a program

def test_list_and_verify(written, tmp_path):
    shutil.copytree(written / "c", tmp_path / "c")
    result = h.tessera("checkpoint", "list", tmp_path / "c")
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[:2] for row in rows[1:]] == [["6", "72"], ["4", "48"], ["2", "24"]] and rows[1][4] == "2", result.stdout
    result = h.tessera("checkpoint", "verify", tmp_path / "c")
    assert result.returncode == 0 and result.stdout.count(": whole\n") == 3
    c.flip(c.path_of(tmp_path / "c", 4) / "rank-00001.safetensors", -5)
    result = h.tessera("checkpoint", "verify", tmp_path / "c")
    assert result.returncode == 1 and result.stdout.count(": whole\n") == 2 and "is damaged: tensor '" in result.stdout
    assert result.stderr == "error: 1 of 3 checkpoints are damaged\n"
    result = h.tessera("checkpoint", "verify", c.path_of(tmp_path / "c", 6))
    assert result.returncode == 0 and result.stdout.count("\n") == 1
    (c.path_of(tmp_path / "c", 2) / "manifest.json").unlink()
    assert "         2  damaged: cannot open '" in h.tessera("checkpoint", "list", tmp_path / "c").stdout


def test_prune(written, tmp_path):
    """Only whole ones count."""
    shutil.copytree(written / "c", tmp_path / "c")
    c.flip(c.path_of(tmp_path / "c", 6) / "rank-00001.safetensors", -5)
    result = h.tessera("checkpoint", "prune", tmp_path / "c", "--keep", "1")
    assert result.returncode == 0 and "step-000000006: stays, and is damaged: " in result.stdout and "step-000000002: removed" in result.stdout
    assert c.steps_in(tmp_path / "c") == [4, 6]


@pytest.mark.parametrize("arguments,words,status", [
    (("fly", "."), 'tessera checkpoint list|verify|prune DIR: no such action as "fly"', 2),
    (("list",), "no folder given: tessera checkpoint list DIR", 2),
    (("list", ".", "--keep", "1"), "--keep goes with tessera checkpoint prune", 2),
    (("prune", ".", "--keep", "none"), "--keep=none: expected a whole number of at least 1", 2),
    (("prune", "."), "tessera checkpoint prune needs --keep N, how many of the newest stay", 2),
    (("list", "."), "'.' holds no checkpoint (step-N)", 1),
    (("verify", "nowhere"), "cannot read the folder 'nowhere': No such file", 1)])
def test_wrong_usage(tmp_path, arguments, words, status):
    h.assert_error(h.tessera("checkpoint", *arguments, cwd=tmp_path), words, status=status)


def test_join(program, written, data, tmp_path):
    """One file with all that the checkpoint has, which older programs take, too."""
    path = c.path_of(written / "c", 6)
    one = tmp_path / "old" / "step-6.safetensors"
    one.parent.mkdir()
    for source in (written / "c", path):
        result = h.tessera("convert", source, "--format", "safetensors", "-o", one)
        assert result.returncode == 0, result.stderr
        joined, expected = load_file(one), c.variables_of(path)
        assert joined.keys() == expected.keys() and all((joined[name] == expected[name]).all() for name in joined)
    weights = load_file(written / "w.safetensors")
    assert len(joined) > len(weights) and all((joined[name] == weights[name]).all() for name in weights)
    assert train(program("mlp", "1", ADAMW), tmp_path, data, 7, "--resume", tmp_path / "old").returncode == 0
    h.assert_error(h.tessera("convert", tmp_path / "old", "--format", "safetensors", "-o", tmp_path / "x"), "is one safetensors file already")
    assert "step-6.safetensors: in form" in h.tessera("checkpoint", "verify", tmp_path / "old").stdout
    shutil.copytree(path, c.path_of(tmp_path / "c", 6))
    c.flip(c.path_of(tmp_path / "c", 6) / "rank-00000.safetensors", -5)
    h.assert_error(h.tessera("convert", tmp_path / "c", "--format", "safetensors", "-o", tmp_path / "x"), "no checkpoint in '", "is damaged: tensor '")
    assert not (tmp_path / "x").exists()


def test_join_for_the_framework(program, written, tmp_path):
    for source, output in ((written / "c", "a"), (written / "w.safetensors", "b")):
        result = h.tessera("convert", source, "--model", h.MODELS / "mlp.onnx", "--format", "torch", "-o", tmp_path / output)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_corruptions_of_the_newest():
    """A sample of tools/chaos --corrupt 1000."""
    result = h.run(sys.executable, h.ROOT / "tools" / "chaos_corrupt.py", "--corrupt", "25", "--seed", "7")
    assert result.returncode == 0 and "25 noticed and the one before gone on from, 0 not" in result.stdout, result.stdout
