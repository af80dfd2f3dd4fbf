"""What a checkpoint says of the program that wrote it, and what a resumed run makes of it and of its log."""
import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

import checkpoint_files as c
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


def metadata_of(folder, step):
    return c.manifest_of(c.path_of(folder, step))["metadata"]


def as_one_file(folder, step, into, metadata=None):
    """The checkpoint as programs wrote it before, with this metadata."""
    said = metadata if metadata is not None else metadata_of(folder, step) | {"step": str(step)}
    save_file(c.variables_of(c.path_of(folder, step)), into / f"step-{step}.safetensors", said)


def test_checkpoint_names_its_program(written):
    manifest = c.manifest_of(c.path_of(written / "c", 4))
    metadata = manifest["metadata"]
    assert metadata["optimizer"] == "adam or adamw" and len(metadata["model"]) == 64 and metadata["plan"] == ""
    assert manifest["format"] == 1 and manifest["step"] == 4 and manifest["samples"] == 4 * 12
    assert metadata["seed"] == "0" and metadata["lr"] == "0.001" and metadata["betas"] == "0.9,0.95"
    assert re.fullmatch("[0-9]+ bytes, the first MiB [0-9a-f]{32}", metadata["data labels"])


def test_another_optimizer_is_refused(program, written, data, tmp_path):
    result = resumed(program("mlp", "1", MOMENTUM), tmp_path, data, written / "c")
    h.assert_error(result, "step-000000004' was trained with adam or adamw", "this program trains with sgd-momentum", "--weights")
    result = resumed(program("mlp", "tp2", ("--train", "sgd")), tmp_path, data, written / "c")
    h.assert_error(result, "trained with adam or adamw", "this program trains with sgd,")


def test_another_model_is_refused(program, written, data, tmp_path):
    result = resumed(program("mlp_ts", "1", ADAMW), tmp_path, data, written / "c")
    h.assert_error(result, "step-000000004' is of another model", metadata_of(written / "c", 4)["model"], "--weights")


@pytest.mark.parametrize("mesh", ["1", "dp2"])
def test_older_checkpoints_are_read_with_a_note(program, written, data, tmp_path, mesh):
    """Those are one file, which says less."""
    (tmp_path / "old").mkdir()
    as_one_file(written / "c", 4, tmp_path / "old", {"step": "4"})
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, tmp_path / "old", "--save", tmp_path / "old.safetensors")
    assert result.returncode == 0, result.stderr
    assert "does not say its model" in result.stdout and "does not say its optimizer" in result.stdout
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, written / "c", "--save", tmp_path / "new.safetensors")
    assert result.returncode == 0 and (tmp_path / "old.safetensors").read_bytes() == (tmp_path / "new.safetensors").read_bytes()


def test_a_resumed_run_has_the_seed_of_the_first(program, data, tmp_path):
    """Which decides what samples it sees; another one is an error, unless changes are accepted. Older checkpoints know none."""
    compiled = program("mlp", "1", ADAMW)
    whole = compiled.train(tmp_path / "whole", data, 6, "--shuffle", "--seed", "7", "--checkpoint", tmp_path / "c", "--every", "3")

    def run(*options, folder=tmp_path / "c"):
        return resumed(compiled, tmp_path / "rest", data, folder, "--shuffle", *options)

    def rest(*options, folder=tmp_path / "c"):
        log = tmp_path / "rest.jsonl"
        log.unlink(missing_ok=True)
        result = run("--log", log, *options, folder=folder)
        assert result.returncode == 0, result.stderr
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()], result.stdout

    shutil.rmtree(c.path_of(tmp_path / "c", 6))
    expected = [e["loss"] for e in whole[3:]]
    for options in ((), ("--seed", "7")):
        losses, said = rest(*options)
        assert losses == expected and "differs" not in said
    h.assert_error(run("--seed", "8"), "step-000000003' is of a training with other samples or another order of them: seed 7, now 8",
                   "--accept-changes goes on all the same")
    losses, said = rest("--seed", "8", "--accept-changes")
    assert losses != expected and "what differs from checkpoint '" in said and "step-000000003': seed 7, now 8" in said
    (tmp_path / "old").mkdir()
    metadata = metadata_of(tmp_path / "c", 3)
    del metadata["seed"]
    as_one_file(tmp_path / "c", 3, tmp_path / "old", metadata)
    assert rest(folder=tmp_path / "old")[0] == rest("--seed", "0", folder=tmp_path / "old")[0] != expected
    as_one_file(tmp_path / "c", 3, tmp_path / "old", metadata | {"seed": "-1"})
    h.assert_error(run(folder=tmp_path / "old"), "the seed of checkpoint '", "step-3.safetensors' is '-1', expected a number")


def test_the_scale_of_the_loss(program, tmp_path):
    """One that a checkpoint cannot have is refused; and where no scale keeps the gradient finite, the training ends."""
    compiled = program("mlp", "1", ("--train", "sgd", "--dtype", "f16"))
    data = h.training_data("mlp", [i["name"] for i in compiled.info()["inputs"]])
    compiled.train(tmp_path / "run", data, 2, "--checkpoint", tmp_path / "c", "--every", "2")
    (tmp_path / "old").mkdir()
    as_one_file(tmp_path / "c", 2, tmp_path / "old", metadata_of(tmp_path / "c", 2) | {"loss_scale": "-1"})
    h.assert_error(resumed(compiled, tmp_path / "rest", data, tmp_path / "old"),
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


def damages():
    """What may become of a checkpoint, and what is said of it."""
    def cut(path):
        path.write_bytes(path.read_bytes()[:-8])

    def in_data(path):
        """The last bytes of a file are a tensor's."""
        c.flip(path, -5)

    return {"tensor": ("rank-00000.safetensors", in_data, "rank-00000.safetensors' is damaged: tensor '"),
            "header": ("rank-00000.safetensors", lambda p: c.flip(p, 20), "its header does not have the checksum of the manifest"),
            "cut": ("rank-00000.safetensors", cut, "the manifest of the checkpoint says "),
            "missing": ("rank-00000.safetensors", lambda p: p.unlink(), "No such file"),
            "manifest": ("manifest.json", lambda p: c.flip(p, 200, 1), "its bytes do not have the checksum that it says"),
            "short": ("manifest.json", cut, "is no manifest of a checkpoint, or cut short"),
            "gone": ("manifest.json", lambda p: p.unlink(), "No such file")}


@pytest.mark.parametrize("mesh,damage", [("1", d) for d in damages()] + [("dp2", "tensor"), ("dp2", "cut")])
def test_a_damaged_checkpoint_is_passed_over(program, written, data, tmp_path, mesh, damage):
    """With a warning that names its file and tensor; where no whole one is left, it is an error."""
    shutil.copytree(written / "c", tmp_path / "c")
    name, change, words = damages()[damage]
    change(c.path_of(tmp_path / "c", 4) / name)
    log = tmp_path / "log.jsonl"
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, tmp_path / "c", "--log", log)
    assert result.returncode == 0, result.stderr
    said = "warning: a checkpoint is passed over, since it is damaged: "
    assert result.stderr.count(said) == 1 and "step-000000004" in result.stderr and words in result.stderr
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [3, 4, 5, 6]
    (c.path_of(tmp_path / "c", 2) / "manifest.json").write_bytes(b"\0" * 100)
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, tmp_path / "c")
    assert result.returncode == 1 and "no checkpoint in '" in result.stderr.splitlines()[-1] and "' is whole: " in result.stderr


@pytest.mark.parametrize("mesh", ["1", "dp2"])
def test_a_checkpoint_beyond_the_last_step_is_refused(program, written, data, tmp_path, mesh):
    """That of the last step is not: whoever starts the same command again has what it left."""
    result = resumed(program("mlp", mesh, ADAMW), tmp_path, data, written / "c", steps=3)
    h.assert_error(result, "step-000000004' is of step 4, beyond --steps 3: there is nothing left to do")
    assert resumed(program("mlp", mesh, ADAMW), tmp_path, data, written / "c", steps=4).returncode == 0


@pytest.mark.parametrize("mesh", ["1", "dp2"])
@pytest.mark.parametrize("failing", [(1, 2), (1, 3, 4), (2, 3, 4)])
def test_a_checkpoint_that_cannot_be_written(program, data, tmp_path, mesh, failing):
    """Is warned of; three of them one after the other end the training. What has its name here is a file."""
    (tmp_path / "c").mkdir()
    for step in failing:
        c.path_of(tmp_path / "c", step).write_text("")
    compiled = program("mlp", mesh, ADAMW)
    result = h.run(*compiled.command(*compiled.train_arguments(tmp_path, data, 5, "--checkpoint", tmp_path / "c", "--every", "1")))
    if failing == (2, 3, 4):
        assert result.returncode == 1 and result.stderr.count("warning: no checkpoint of step ") == 2
        last = result.stderr.splitlines()[-1]
        assert last.startswith("error: ") and "cannot rename '" in last and "step-000000004': Not a directory" in last
        return
    assert result.returncode == 0, result.stderr
    assert not list((tmp_path / "c").glob("*.partial"))
    for step in range(1, 6):
        assert (f"warning: no checkpoint of step {step}: " in result.stderr) == (step in failing)
        assert c.path_of(tmp_path / "c", step).is_dir() == (step not in failing)


def test_a_checkpoint_beyond_the_limit_of_files(program, data, tmp_path):
    """Leaves no part of itself behind, and the training goes on."""
    compiled = program("mlp", "1", ADAMW)
    arguments = compiled.train_arguments(tmp_path, data, 2, "--checkpoint", tmp_path / "c", "--every", "1")
    command = " ".join(str(a) for a in compiled.command(*arguments))
    result = h.run("bash", "-c", f"ulimit -f 1; exec {command}")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("warning: no checkpoint of step ") == 2 and "File too large" in result.stderr
    assert not (tmp_path / "c").exists() or not list((tmp_path / "c").iterdir())
