"""State that rests on NVMe lies there in two places in turn: the same bits and the promised bytes, and whatever dies at whatever moment, the last finished step's is whole."""
import fcntl
import json
import os
import shutil
import signal
import subprocess

import pytest

import checkpoint_files as c
import harness as h
from test_nvme import compile_below
from test_slots import may_mount, on_small_disk

ADAMW = ("--train", "adamw")
BELOW = (*ADAMW, "--device-memory", "2500KiB", "--host-memory", "800KiB", "--nvme", "/scratch:1GiB")
STEPS = 24
HALF = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
// Of the writes to a file of slots on NVMe the one of this number is torn: half of it, and the process is killed.
ssize_t pwrite64(int fd, const void *from, size_t bytes, off_t at) {
  static int count;
  static ssize_t (*real)(int, const void *, size_t, off_t);
  if (!real) real = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  char link[64] = "/proc/self/fd/", path[512] = "";
  int n = fd, digits = 1;
  for (int rest = n / 10; rest; rest /= 10) ++digits;
  for (int i = digits; i--; n /= 10) link[14 + i] = (char)('0' + n % 10);
  if (readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "-nvme-") && __sync_add_and_fetch(&count, 1) == atoi(getenv("TORN"))) {
    real(fd, from, bytes / 8192 * 4096, at);
    kill(getpid(), SIGKILL);
  }
  return real(fd, from, bytes, at);
}
ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at) { return pwrite64(fd, from, bytes, at); }
"""


class Training:
    """Of the small GPT, some of whose state rests on NVMe; its slots and what is there lie in folders of its own."""

    def __init__(self, program, folder):
        self.program, self.folder, self.nvme, self.memory = program("gpt2", "1", BELOW), folder, folder / "nvme", folder / "slots"
        self.nvme.mkdir()
        self.memory.mkdir()
        self.log = folder / "log.jsonl"

    def command(self, *options, steps=STEPS, every="1000", nvme=None):
        data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
        return [*map(str, self.program.command(*self.program.train_arguments(
            self.folder, data, steps, "--threads", "1", "--log", self.log, "--checkpoint", self.folder / "c", "--every", every, "--nvme", nvme or f"{self.nvme}:1GiB",
            "--slots-in", self.memory, "--save", self.folder / "w", *options)))]

    def start(self, *options, env=None, **others):
        return subprocess.Popen(self.command(*options, **others), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})

    def steps(self):
        return [json.loads(line)["step"] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def checkpoints(self):
        return c.steps_in(self.folder / "c") if (self.folder / "c").is_dir() else []

    def killed(self, after=7, **others):
        """Kills a training when it has done so many steps, and has written a checkpoint if there are to be some. Returns the last step that is in the log."""
        process = self.start("--continue", env={"TESSERA_STEP_SECONDS": "0.02"}, **others)
        try:
            assert h.wait_until(lambda: len(self.steps()) >= after and ("every" not in others or self.checkpoints()), 60), process.poll()
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return self.steps()[-1]

    def go_on(self, *options, **others):
        result = h.run(*self.command("--continue", *options, **others))
        return result

    def assert_whole(self, steps=STEPS):
        """The log has every step once, the weights are those of a training that nobody killed, and nothing is left."""
        assert self.steps() == list(range(1, steps + 1))
        straight = self.folder / "straight"
        data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
        log = self.program.train(straight, data, steps, "--threads", "1", "--nvme", f"{self.folder}:1GiB", "--save", straight / "w")
        assert [e["loss"] for e in log] == [json.loads(line)["loss"] for line in self.log.read_text().splitlines()]
        assert (self.folder / "w").read_bytes() == (straight / "w").read_bytes()
        assert not list(self.nvme.iterdir()) and not list(self.memory.iterdir())


@pytest.fixture
def training(program, tmp_path):
    return Training(program, tmp_path)


def gone_on_from(result):
    assert result.returncode == 0, result.stderr
    assert "the training goes on from its slots in '" in result.stdout, result.stdout + result.stderr
    return int(result.stdout.split(", of step ")[1].split()[0])


def allocated(folder):
    """Bytes of the disk; some file systems count a block more, in which they say where a file's pieces are."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*-nvme-*"))


@pytest.mark.parametrize("variant,mesh", [("gpt2", "1"), ("gpt2", "dp2zero3"), pytest.param("bert", "dp2zero1", marks=pytest.mark.whole)])
def test_bits_and_bytes(tmp_path, variant, mesh):
    """Nothing of what is computed changes, and three tiers and shared memory take what is promised for one place, two and three."""
    compiled, _, _, nvme = compile_below(tmp_path, variant, mesh, *ADAMW)
    data = h.training_data(variant, [*h.input_names(variant), "labels"])

    def run(name, *options):
        folder = tmp_path / name
        folder.mkdir()
        log = compiled.train(folder, data, 4, "--threads", "1", "--save", folder / "w", "--stats", folder / "s.json", *options)
        return [(e["loss"], e["grad_norm"]) for e in log], (folder / "w").read_bytes(), json.loads((folder / "s.json").read_text())

    losses, weights, alone = run("alone")
    for places in ("2", "3"):
        here = run(places, "--slots", places, "--slots-in", tmp_path, "--checkpoint", tmp_path / f"c{places}", "--every", "2")
        assert here[:2] == (losses, weights)
        promised = json.loads(h.checked(compiled.path, "info", "--json", "--threads", "1", "--slots", places).stdout)
        assert promised["moved"] == here[2]["moved"] == alone["moved"]
        for ours, theirs, one in zip(promised["memory"], here[2]["memory"], alone["memory"], strict=True):
            assert ours["shared"] == theirs["shared"] > 0
            for tier in ("device", "host", "nvme"):
                assert ours[tier] == {key: theirs[tier][key] for key in ours[tier]}
                assert sum(v for k, v in theirs[tier].items() if k not in ("peak", "capacity")) == theirs[tier]["peak"]
            assert ours["nvme"]["peak"] > one["nvme"]["peak"] and ours["host"]["peak"] == one["host"]["peak"]
        assert c.steps_in(tmp_path / f"c{places}") == [2, 4]
        h.checked(h.TESSERA, "checkpoint", "verify", tmp_path / f"c{places}")
    # Written beside the next step, of the place that it leaves as it is.
    run("again", "--checkpoint", tmp_path / "d", "--every", "2")
    for step in ("step-000000002", "step-000000004"):
        for path in (tmp_path / "d" / step).iterdir():
            if path.name != "manifest.json":
                assert path.read_bytes() == (tmp_path / "c2" / step / path.name).read_bytes() == (tmp_path / "c3" / step / path.name).read_bytes()
    assert not list(nvme.iterdir()) and not list(tmp_path.glob("tessera-slots-*"))


def test_nothing_is_done_twice(training):
    """Killed three times, each time after a step that is in the log."""
    for number in (1, 2, 3):
        done = training.killed(7 * number)
        folders = [next(folder.iterdir()) for folder in (training.nvme, training.memory)]
        assert folders[0].name == folders[1].name and [path.name for path in folders[0].iterdir()] == ["1-nvme-0"]
        promised = json.loads(h.checked(training.program.path, "info", "--json", "--slots", "2").stdout)["memory"][0]["nvme"]["peak"]
        assert promised <= allocated(training.nvme) <= promised + 4096
    step = gone_on_from(training.go_on())
    assert done <= step <= done + 1
    training.assert_whole()


@pytest.mark.parametrize("write", [60, 61, 62, 75, 76, 90])
def test_a_torn_write_does_not_count(training, tmp_path, write):
    """The process dies in the middle of a write of a step's state: the step before it is whole."""
    source, library = tmp_path / "half.c", tmp_path / "half.so"
    source.write_text(HALF)
    h.checked("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    process = training.start("--continue", steps=1000, env={"LD_PRELOAD": str(library), "TORN": str(write)})
    _, said = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, said
    done = training.steps()[-1]
    assert 1 <= done < STEPS
    assert gone_on_from(training.go_on()) == done
    training.assert_whole()


@pytest.mark.parametrize("damage", ["cut", "gone", "of another"])
def test_what_is_not_whole_is_no_slot(training, damage):
    training.killed(every="5")
    file = next(training.nvme.rglob("1-nvme-0"))
    if damage == "cut":
        os.truncate(file, file.stat().st_size - 1)
    elif damage == "gone":
        file.unlink()
    else:
        with open(file, "r+b") as there:
            there.seek(8)
            there.write(os.urandom(8))
    newest = training.checkpoints()[-1]
    result = training.go_on()
    assert result.returncode == 0 and "goes on from checkpoint '" in result.stdout and f", of step {newest}\n" in result.stdout, result.stdout + result.stderr
    training.assert_whole()


def test_another_folder(training, tmp_path):
    """What lies in the folder before is of no use from there, and goes."""
    training.killed(every="5")
    before, training.nvme = training.nvme, tmp_path / "other"
    training.nvme.mkdir()
    newest = training.checkpoints()[-1]
    result = training.go_on()
    assert result.returncode == 0 and "goes on from checkpoint '" in result.stdout and f", of step {newest}\n" in result.stdout, result.stdout + result.stderr
    assert not list(before.iterdir())
    training.assert_whole()


def test_slots_of_another_run(training):
    training.killed()
    shutil.rmtree(training.folder / "c")
    result = training.go_on()
    assert result.returncode == 0 and "the training begins with step 1" in result.stdout, result.stdout + result.stderr
    training.assert_whole()


def test_stopped_by_a_signal(training):
    process = training.start("--continue", env={"TESSERA_STEP_SECONDS": "0.02"})
    assert h.wait_until(lambda: len(training.steps()) >= 5, 60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 75 and not list(training.nvme.iterdir()) and not list(training.memory.iterdir())
    result = training.go_on()
    assert result.returncode == 0 and "goes on from checkpoint '" in result.stdout
    training.assert_whole()


def test_activations_alone(program, tmp_path):
    """What does not outlive a step lies in a file without a name, as without slots."""
    compiled = program("gpt2", "tp2", (*ADAMW, "--device-memory", "2MiB", "--host-memory", "200KiB", "--nvme", "/scratch:1GiB"))
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    one = compiled.train(tmp_path / "one", data, 4, "--threads", "1", "--nvme", f"{tmp_path}:1GiB")
    (tmp_path / "nvme").mkdir()
    two = compiled.train(tmp_path / "two", data, 4, "--threads", "1", "--nvme", f"{tmp_path / 'nvme'}:1GiB", "--slots", "2", "--slots-in", tmp_path, "--checkpoint", tmp_path / "c", "--every", "2",
                         "--stats", tmp_path / "s.json")
    assert [e["loss"] for e in one] == [e["loss"] for e in two]
    promised = json.loads(h.checked(compiled.path, "info", "--json", "--slots", "2").stdout)["memory"]
    for ours, theirs in zip(promised, json.loads((tmp_path / "s.json").read_text())["memory"], strict=True):
        assert ours["nvme"]["peak"] == theirs["nvme"]["peak"] > 0 and ours["shared"] == theirs["shared"]
    assert not list((tmp_path / "nvme").iterdir())


# ---- what is refused

def peaks(training):
    """What a rank has on NVMe: with one place, and with two."""
    return [json.loads(h.checked(training.program.path, "info", "--json", *options).stdout)["memory"][0]["nvme"]["peak"] for options in ((), ("--slots", "2"))]


def test_more_than_is_allowed(training):
    one, two = peaks(training)
    nvme = f"{training.nvme}:{two - 1}"
    h.assert_error(h.run(*training.command("--slots", "2", nvme=nvme)), f"--slots 2: 2 places of what rests on NVMe take {two} bytes there a rank, {two - 1} are allowed")
    assert not list(training.nvme.iterdir()) and not list(training.memory.iterdir())
    result = training.go_on(nvme=nvme)
    assert result.returncode == 0 and f"note: what a step leaves is kept in checkpoints alone: 2 places of what rests on NVMe take {two} bytes" in result.stderr
    training.assert_whole()


def test_too_little_room(training):
    small = training.nvme
    if not may_mount(small):
        pytest.skip("needs to mount a small file system (unshare -m, as root)")
    one, two = peaks(training)
    size = (one + 4095) // 4096 * 4096 + 4096
    assert size < two
    h.assert_error(h.run(*on_small_disk(small, size, *training.command("--slots", "2"))),
                   f"--slots 2: slots take {two} bytes of NVMe, in '{small}/tessera-slots-", f"', where {size} are left there", "; --nvme DIR:SIZE names another folder, and --slots 1 takes less")
    assert not list(training.memory.iterdir())
    result = h.run(*on_small_disk(small, size, *training.command("--continue")))
    assert result.returncode == 0, result.stderr
    assert f"note: what a step leaves is kept in checkpoints alone: slots take {two} bytes of NVMe, in '" in result.stderr
    training.assert_whole()


def test_bad_folders(training):
    h.assert_error(h.run(*training.command("--slots", "2", nvme="/nowhere:1GiB")), "--slots 2: '/nowhere/tessera-slots-", "' cannot be made: No such file or directory")
    training.killed()
    file = next(training.nvme.rglob("1-nvme-0"))
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        h.assert_error(training.go_on("--slots", "2"), f"--slots 2: slots '{file}' are another run's, which is under way")
    result = training.go_on()
    assert gone_on_from(result) >= 7, "what another run has is left as it is"
    training.assert_whole()


def test_copies_on_other_hosts(program):
    compiled = program("gpt2", "dp2", (*ADAMW, "--device-memory", "2MiB", "--host-memory", "400KiB", "--nvme", "/scratch:1GiB"))
    h.assert_error(h.run(compiled.path, "info", "--copies", "2", "--hosts", "2"), "--copies 2: what rests on NVMe is not copied to other hosts", status=2)
