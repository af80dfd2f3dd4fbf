"""Slots of programs for GPUs, on the checking driver: the state of a step is saved on a stream of its own while the next one is under way, and a kill costs at most one finished step."""
import json
import os
import signal
import subprocess

import pytest

import checkpoint_files as c
import gpu
import harness as h

ADAMW = ("--train", "adamw")
BELOW = ("--device-memory", "1500KiB", "--recompute", "none", "--host-memory")
CASES = {
    "adamw": ("mlp", ADAMW, "2"),
    "sgd": ("mlp", ("--train", "sgd"), "2"),
    "frozen": ("mlp", (*ADAMW, "--frozen", "*bias*"), "2"),
    "clipping": ("mlp", ADAMW, "2"),
    "microbatches": ("mlp", (*ADAMW, "--microbatches", "2"), "2"),
    "zero3": ("mlp", (*ADAMW, "--dp", "2", "--zero", "3"), "2"),
    "three places": ("mlp", ADAMW, "3"),
    "host": ("gpt2", (*ADAMW, *BELOW, "1GiB", "--offload", "optimizer,parameters"), "3"),
    "nvme": ("gpt2", (*ADAMW, *BELOW, "500KiB", "--nvme", "/scratch:1GiB"), "3"),
}
ORDERS = ("late", "early")


class Training:
    def __init__(self, program, folder, case, **settings):
        self.variant, options, self.places = CASES[case]
        self.path, self.run = gpu.gpu_program(program, self.variant, options)
        self.folder, self.settings = folder, {"TESSERA_CHECK_GPUS": "2", **settings}
        self.clipped = ("--clip-norm", "0.5") if case == "clipping" else ()
        self.slots, self.nvme, self.log = folder / "slots", folder / "nvme", folder / "log.jsonl"
        for each in (folder, self.slots, self.nvme):
            each.mkdir(exist_ok=True)
        self.on_nvme = ("--nvme", f"{self.nvme}:1GiB") if case == "nvme" else ()

    def arguments(self, steps, *options):
        data = h.training_data(self.variant, [*h.input_names(self.variant), "labels"])
        return [*map(str, h.Program(self.path, 1).train_arguments(self.folder, data, steps, "--threads", "1", *self.clipped, *self.on_nvme, *options))]

    def whole(self, steps):
        """Losses and weights without slots, and what was measured."""
        assert_clean(self.run(*self.arguments(steps, "--log", self.folder / "whole.jsonl", "--save", self.folder / "whole", "--stats", self.folder / "whole.json"), **self.settings))
        return losses(self.folder / "whole.jsonl"), (self.folder / "whole").read_bytes(), json.loads((self.folder / "whole.json").read_text())

    def kept(self, *options):
        return ("--checkpoint", self.folder / "c", "--every", "1000", "--slots-in", self.slots, "--log", self.log, "--save", self.folder / "w", *options)

    def killed(self, after, steps):
        """Kills a training that has done `after` steps more. Returns the last one that is in the log."""
        count = lambda: self.log.read_text().count("\n") if self.log.exists() else 0
        before = count()
        process = subprocess.Popen([self.path, *self.arguments(steps, *self.kept("--continue"))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=gpu.environment(self.path.parent / "twins.so", TESSERA_STEP_SECONDS="0.02", **self.settings))
        try:
            assert h.wait_until(lambda: count() >= before + after or process.poll() is not None, 120)
        finally:
            process.send_signal(signal.SIGKILL)
            _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
        return losses(self.log)[-1][0]


def losses(log):
    return [(e["step"], e["loss"]) for e in map(json.loads, log.read_text().splitlines())]


def assert_clean(result):
    assert result.returncode == 0, result.stderr[-3000:]
    assert "checking driver" not in result.stderr


@pytest.mark.parametrize("case,order", [(case, order) for case in CASES for order in ORDERS])
def test_bits_and_bytes(program, tmp_path, case, order):
    """With slots a training computes the same, in steps one by one, recorded and repeated; and takes and moves what was promised."""
    training = Training(program, tmp_path, case, TESSERA_CHECK_ORDER=order)
    whole_losses, weights, alone = training.whole(8)
    options = training.kept("--slots", training.places, "--stats", tmp_path / "s.json")
    assert_clean(training.run(*training.arguments(8, *options), **training.settings))
    assert losses(training.log) == whole_losses and (tmp_path / "w").read_bytes() == weights
    stats = json.loads((tmp_path / "s.json").read_text())
    name = ("--program", "train_clipped") if training.clipped else ()
    promised = json.loads(h.checked(training.path, "info", "--json", "--threads", "1", "--slots", training.places, *name).stdout)
    assert promised["moved"] == stats["moved"] and (case != "nvme" or stats["moved"]["nvme_write"] > 0) and stats["moved"]["device_to_host"] > alone["moved"]["device_to_host"]
    for ours, theirs, one in zip(promised["memory"], stats["memory"], alone["memory"], strict=True):
        assert ours["shared"] == theirs["shared"] > 0 == one["shared"]
        for tier in ("device", "host", "nvme"):
            assert ours[tier]["peak"] == theirs[tier]["peak"]
    assert not list(training.slots.iterdir()) and not list(training.nvme.iterdir())


@pytest.mark.parametrize("case,order,graphs", [(case, order, "on") for case in ("adamw", "frozen", "zero3", "host", "nvme") for order in ORDERS] + [("adamw", "late", "off"), ("adamw", "early", "off")])
def test_a_kill_costs_a_step(program, tmp_path, case, order, graphs):
    """Killed three times at different moments: goes on from the last step whose state is whole, and ends with the log and weights of a run that nobody killed."""
    training = Training(program, tmp_path, case, TESSERA_CHECK_ORDER=order, TESSERA_CUDA_GRAPHS=graphs)
    # Thirteen or a few more of them when it is killed for the last time: on a busy machine short ones go on meanwhile.
    steps = 20 if training.variant == "gpt2" else 60
    whole_losses, weights, _ = training.whole(steps)
    for after in (3, 4, 6):
        done = training.killed(after, steps)
    result = training.run(*training.arguments(steps, *training.kept("--continue")), **training.settings)
    assert_clean(result)
    assert "the training goes on from its slots in '" in result.stdout, result.stdout
    step = int(result.stdout.split(", of step ")[1].split()[0])
    assert done - 1 <= step <= done, "a step that is in the log may be done again, and no other"
    assert losses(training.log) == whole_losses and (tmp_path / "w").read_bytes() == weights
    assert not list(training.slots.iterdir()) and not list(training.nvme.iterdir())


def test_checkpoints_of_a_run_with_slots(program, tmp_path):
    """They are of the GPU's state, which lies in slots a step later."""
    training = Training(program, tmp_path, "adamw")
    saved = {}
    for name, options in (("one", ("--slots", "1")), ("two", ("--slots", "2", "--slots-in", tmp_path))):
        assert_clean(training.run(*training.arguments(6, "--checkpoint", tmp_path / name, "--every", "3", *options)))
        assert c.steps_in(tmp_path / name) == [3, 6]
        saved[name] = {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.safetensors")}
    assert saved["one"] == saved["two"]


def test_too_few_places(program, tmp_path):
    """Where steps change state on the GPU and below, the two would be whole at different times."""
    training = Training(program, tmp_path, "host")
    said = "the program's steps change state on the GPU and below it, which takes three places; give --slots 3"
    h.assert_error(training.run(*training.arguments(2, *training.kept("--slots", "2")), **training.settings), "--slots 2: " + said)
    h.assert_error(h.run(training.path, "info", "--slots", "2"), "--slots 2: " + said, status=2)


def test_what_is_refused(program, tmp_path):
    training = Training(program, tmp_path, "zero3")
    h.assert_error(h.run(training.path, "info", "--copies", "2", "--hosts", "2"), "--copies 2: what is on a GPU is not copied to other hosts", status=2)
    result = training.run(*training.arguments(2, *training.kept("--slots", "2")), TESSERA_CHECK_GPUS="2", TESSERA_CHECK_PINNED="20000")
    h.assert_error(result, "the driver cannot pin ", " bytes of the slots in this host's memory for GPU ", "give a folder in memory by --slots-in DIR, or --slots 1")
