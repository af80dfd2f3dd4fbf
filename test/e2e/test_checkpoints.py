"""What a checkpoint says of the program that wrote it, and what a resumed run makes of it and of its log."""
import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import harness as h

ADAMW, MOMENTUM = ("--train", "adamw"), ("--train", "sgd-momentum")


@pytest.fixture(scope="module")
def data():
    return h.training_data("mlp", [*h.input_names("mlp"), "labels"])


@pytest.fixture(scope="module")
def written(program, data, tmp_path_factory):
    """A folder with the checkpoints of steps 2 and 4, and the log of 5 steps."""
    folder = tmp_path_factory.mktemp("written")
    program("mlp", "1", ADAMW).train(folder, data, 5, "--checkpoint", folder / "c", "--every", "2")
    return folder


def resumed(compiled, folder, data, checkpoint, *options, steps=6):
    return h.run(*compiled.command(*compiled.train_arguments(folder, data, steps, "--resume", checkpoint, *options)))


def metadata_of(path):
    with safe_open(path, "numpy") as file:
        return file.metadata()


def test_checkpoint_names_its_program(program, written):
    metadata = metadata_of(written / "c" / "step-4.safetensors")
    assert metadata["optimizer"] == "adam or adamw" and len(metadata["model"]) == 64 and metadata["step"] == "4"


def test_another_optimizer_is_refused(program, written, data, tmp_path):
    result = resumed(program("mlp", "1", MOMENTUM), tmp_path, data, written / "c")
    h.assert_error(result, "step-4.safetensors' was trained with adam or adamw", "this program trains with sgd-momentum", "--weights")
    result = resumed(program("mlp", "tp2", ("--train", "sgd")), tmp_path, data, written / "c")
    h.assert_error(result, "trained with adam or adamw", "this program trains with sgd,")


def test_another_model_is_refused(program, written, data, tmp_path):
    result = resumed(program("mlp_ts", "1", ADAMW), tmp_path, data, written / "c")
    h.assert_error(result, "step-4.safetensors' is of another model", metadata_of(written / "c" / "step-4.safetensors")["model"], "--weights")


def test_older_checkpoints_are_read_with_a_note(program, written, data, tmp_path):
    path = written / "c" / "step-4.safetensors"
    (tmp_path / "old").mkdir()
    save_file(load_file(path), tmp_path / "old" / path.name, {"step": "4"})
    result = resumed(program("mlp", "1", ADAMW), tmp_path, data, tmp_path / "old")
    assert result.returncode == 0, result.stderr
    assert "does not say its model" in result.stdout and "does not say its optimizer" in result.stdout


def test_a_resumed_run_has_the_seed_of_the_first(program, data, tmp_path):
    """Which decides what samples it sees; another one is taken where it is given, and said. Older checkpoints know none."""
    compiled = program("mlp", "1", ADAMW)
    whole = compiled.train(tmp_path / "whole", data, 6, "--shuffle", "--seed", "7", "--checkpoint", tmp_path / "c", "--every", "3")

    def rest(*options):
        log = tmp_path / "rest.jsonl"
        log.unlink(missing_ok=True)
        result = resumed(compiled, tmp_path / "rest", data, tmp_path / "c", "--shuffle", "--log", log, *options)
        assert result.returncode == 0, result.stderr
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()], result.stdout

    (tmp_path / "c" / "step-6.safetensors").unlink()
    expected = [e["loss"] for e in whole[3:]]
    for options in ((), ("--seed", "7")):
        losses, said = rest(*options)
        assert losses == expected and "seed" not in said
    losses, said = rest("--seed", "8")
    assert losses != expected and "step-3.safetensors' is of a training with --seed 7; it goes on with --seed 8" in said
    path = tmp_path / "c" / "step-3.safetensors"
    metadata = metadata_of(path)
    del metadata["seed"]
    save_file(load_file(path), path, metadata)
    assert rest()[0] == rest("--seed", "0")[0] != expected
    save_file(load_file(path), path, metadata | {"seed": "-1"})
    h.assert_error(resumed(compiled, tmp_path / "rest", data, tmp_path / "c"), "the seed of checkpoint '", "step-3.safetensors' is '-1', expected a number")


def test_the_scale_of_the_loss(program, tmp_path):
    """One that a checkpoint cannot have is refused; and where no scale keeps the gradient finite, the training ends."""
    compiled = program("mlp", "1", ("--train", "sgd", "--dtype", "f16"))
    data = h.training_data("mlp", [i["name"] for i in compiled.info()["inputs"]])
    compiled.train(tmp_path / "run", data, 2, "--checkpoint", tmp_path / "c", "--every", "2")
    path = tmp_path / "c" / "step-2.safetensors"
    save_file(load_file(path), path, metadata_of(path) | {"loss_scale": "-1"})
    h.assert_error(resumed(compiled, tmp_path / "rest", data, tmp_path / "c"),
                   "the checkpoint's 'loss_scale' is '-1', expected a finite number of at least 0")
    data["x"] = np.full_like(data["x"], 1e30)
    result = h.run(*compiled.command(*compiled.train_arguments(tmp_path, data, 100)))
    h.assert_error(result, "the gradient is not finite in f16, whatever the loss is scaled by; compile the model with --dtype bf16")


@pytest.mark.parametrize("mesh", ["1", "dp2"])
def test_log_of_a_resumed_run_has_every_step_once(program, written, data, tmp_path, mesh):
    """The first run ended after step 5, its last checkpoint is that of step 4."""
    shutil.copy(written / "log.jsonl", tmp_path / "log.jsonl")
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, written / "c", "--log", tmp_path / "log.jsonl", steps=7)
    assert result.returncode == 0, result.stderr
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [e["step"] for e in entries] == [1, 2, 3, 4, 5, 6, 7]
    before = [json.loads(line) for line in (written / "log.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([e["loss"] for e in entries[:5]], [e["loss"] for e in before], rtol=1e-5)


@pytest.mark.parametrize("mesh", ["1", "dp2"])
def test_a_checkpoint_cut_short_is_passed_over(program, written, data, tmp_path, mesh):
    """With a warning that names its file and tensor; where no whole one is left, it is an error."""
    shutil.copytree(written / "c", tmp_path / "c")
    newest, before = tmp_path / "c" / "step-4.safetensors", tmp_path / "c" / "step-2.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    log = tmp_path / "log.jsonl"
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, tmp_path / "c", "--log", log)
    assert result.returncode == 0, result.stderr
    said = "warning: a checkpoint is passed over, since it is damaged: "
    assert result.stderr.count(said) == 1 and "step-4.safetensors" in result.stderr and "tensor '" in result.stderr
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [3, 4, 5, 6]
    before.write_bytes(b"\0" * 100)
    h.assert_error(resumed(program("mlp", mesh, ADAMW), tmp_path, data, tmp_path / "c"), "step-4.safetensors", "is the file cut short?")


@pytest.mark.parametrize("mesh", ["1", "dp2"])
def test_a_checkpoint_beyond_the_last_step_is_refused(program, written, data, tmp_path, mesh):
    """That of the last step is not: whoever starts the same command again has what it left."""
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, written / "c", steps=3)
    h.assert_error(result, "step-4.safetensors' is of step 4, beyond --steps 3: there is nothing left to do")
    assert resumed(program("mlp", mesh, ADAMW), tmp_path, data, written / "c", steps=4).returncode == 0


@pytest.mark.parametrize("mesh", ["1", "dp2"])
@pytest.mark.parametrize("failing", [(1, 2), (1, 3, 4), (2, 3, 4)])
def test_a_checkpoint_that_cannot_be_written(program, data, tmp_path, mesh, failing):
    """Is warned of; three of them one after the other end the training. What has its name here is a folder."""
    for step in failing:
        (tmp_path / "c" / f"step-{step}.safetensors").mkdir(parents=True)
    compiled = program("mlp", mesh, ADAMW)
    result = h.run(*compiled.command(*compiled.train_arguments(tmp_path, data, 5, "--checkpoint", tmp_path / "c", "--every", "1")))
    if failing == (2, 3, 4):
        assert result.returncode == 1 and result.stderr.count("warning: no checkpoint of step ") == 2
        last = result.stderr.splitlines()[-1]
        assert last.startswith("error: ") and "step-4.safetensors': it exists and is not a regular file" in last
        return
    assert result.returncode == 0, result.stderr
    for step in range(1, 6):
        assert not list((tmp_path / "c").glob("*.partial"))
        assert (f"warning: no checkpoint of step {step}: " in result.stderr) == (step in failing)
        assert (tmp_path / "c" / f"step-{step}.safetensors").is_file() == (step not in failing)


def test_a_checkpoint_beyond_the_limit_of_files(program, data, tmp_path):
    """Leaves no part of itself behind, and the training goes on."""
    compiled = program("mlp", "1", ADAMW)
    arguments = compiled.train_arguments(tmp_path, data, 2, "--checkpoint", tmp_path / "c", "--every", "1")
    command = " ".join(str(a) for a in compiled.command(*arguments))
    result = h.run("bash", "-c", f"ulimit -f 1; exec {command}")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("warning: no checkpoint of step ") == 2 and "File too large" in result.stderr
    assert not list((tmp_path / "c").iterdir())
