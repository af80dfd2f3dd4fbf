"""Two places in shared memory for the state: whatever dies, no step that was done is done again."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

import checkpoint_files as c
import harness as h
from test_sizes import sized, arguments as sized_arguments  # noqa: F401
from test_stopping import LAUNCHERS, TRAIN, Running

ADAMW = ("--train", "adamw")
CASES = {
    "adamw": ("mlp", "dp2", ADAMW, ()),
    "momentum": ("mlp", "1", ("--train", "sgd-momentum"), ()),
    "sgd": ("mlp", "dp3", ("--train", "sgd"), ()),
    "frozen": ("mlp", "dp2", (*ADAMW, "--frozen", "*bias*"), ()),
    "clipping": ("gpt2", "tp2", ADAMW, ("--clip-norm", "0.5")),
    "zero1": ("bert", "dp2zero1", ADAMW, ()),
    "zero3": ("gpt2", "dp2zero3", ADAMW, ()),
    "microbatches": ("gpt2", "dp2micro2", ADAMW, ()),
    "pipeline": ("gpt2", "1", (*ADAMW, "--pp", "2", "--microbatches", "2"), ()),
    "bf16": ("gpt2", "dp2", (*ADAMW, "--dtype", "bf16"), ()),
    "f16": ("mlp", "dp2", (*ADAMW, "--dtype", "f16"), ("--loss-scale", "5e5")),  # the first steps are left out
    "host": ("gpt2", "1", (*ADAMW, "--device-memory", "2500KiB", "--host-memory", "1GiB"), ()),
    "batch norm": ("resnet_train", "dp2", ADAMW, ()),
}


def trained(compiled, variant, folder, *options):
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    folder.mkdir()
    log = compiled.train(folder, data, 4, "--threads", "1", "--save", folder / "w.safetensors", "--stats", folder / "s.json", *options)
    return [entry["loss"] for entry in log], (folder / "w.safetensors").read_bytes(), json.loads((folder / "s.json").read_text())["memory"]


@pytest.mark.parametrize("case", CASES)
def test_bits_and_bytes(program, tmp_path, case):
    """The state is the same whether it is changed where it lies or left in another place, and takes what was promised."""
    variant, mesh, compiling, options = CASES[case]
    compiled = program(variant, mesh, compiling)
    losses, weights, memory = trained(compiled, variant, tmp_path / "one", *options)
    slots = ("--slots", "2", "--slots-in", tmp_path, "--checkpoint", tmp_path / "c", "--every", "2")
    losses_here, weights_here, memory_here = trained(compiled, variant, tmp_path / "two", *options, *slots)
    assert losses_here == losses and weights_here == weights
    name = "train_clipped" if "--clip-norm" in options else "train"
    promised = json.loads(h.checked(compiled.path, "info", "--json", "--threads", "1", "--program", name, "--slots", "2").stdout)["memory"]
    for ours, theirs, alone in zip(promised, memory_here, memory, strict=True):
        assert ours["shared"] == theirs["shared"] > 0 == alone["shared"]
        for tier in ("device", "host"):
            assert ours[tier]["peak"] == theirs[tier]["peak"] == alone[tier]["peak"]
    assert c.steps_in(tmp_path / "c") == [2, 4] and not list(tmp_path.glob("tessera-slots-*"))
    # What lay in slots when it was written is what lay in the arena.
    h.checked(h.TESSERA, "checkpoint", "verify", tmp_path / "c")
    one = trained(compiled, variant, tmp_path / "again", *options, "--checkpoint", tmp_path / "d", "--every", "2")
    assert one[1] == weights
    for step in ("step-000000002", "step-000000004"):
        files = [sorted(p.name for p in (tmp_path / each / step).iterdir()) for each in "cd"]
        assert files[0] == files[1]
        for name in files[0]:
            if name != "manifest.json":
                assert (tmp_path / "c" / step / name).read_bytes() == (tmp_path / "d" / step / name).read_bytes(), (step, name)


@pytest.fixture
def killed(program, tmp_path):
    """killed(launcher, options): a training of 30 steps of which some process was killed; its options, what a process that goes on says, and to which step it had come."""
    def kill(launcher="threads", all_of_them=True, every="1000", where=tmp_path / "slots", mesh=None):
        where.mkdir(exist_ok=True)
        options = ("--checkpoint", tmp_path / "c", "--every", every, "--continue", "--slots-in", where, "--save", tmp_path / "w.safetensors")
        usual, mpi = LAUNCHERS[launcher]
        compiled = program("mlp", mesh or usual, TRAIN)
        with Running(compiled, mpi, tmp_path, 30, *options) as run:
            run.has_done(7)
            ranks = run.ranks()
            os.kill(ranks[1] if ranks and not all_of_them else run.processes[0].pid, signal.SIGKILL)
            run.processes[0].wait(timeout=20)
        return compiled, options, run.steps()[-1]
    return kill


def go_on(compiled, folder, options, env=None):
    return h.run(*compiled.command(*compiled.train_arguments(folder, h.training_data("mlp", ("x", "labels")), 30, "--threads", "1", "--log", folder / "log.jsonl", *options)), env=env)


def assert_whole(compiled, folder):
    """The log has every step once, and the weights are those of a training that nobody killed."""
    assert [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()] == list(range(1, 31))
    compiled.train(folder / "whole", h.training_data("mlp", ("x", "labels")), 30, "--threads", "1", "--save", folder / "whole.safetensors")
    assert (folder / "w.safetensors").read_bytes() == (folder / "whole.safetensors").read_bytes()


@pytest.mark.parametrize("launcher,all_of_them", [("one", True), ("threads", True), ("mpirun", False)])
def test_nothing_is_done_twice(killed, tmp_path, launcher, all_of_them):
    compiled, options, done = killed(launcher, all_of_them)
    result = go_on(compiled, tmp_path, options)
    assert result.returncode == 0, result.stderr
    assert "the training goes on from its slots in '" in result.stdout
    step = int(result.stdout.split(", of step ")[1].split()[0])
    assert done - 1 <= step <= done + 1, "a rank may have died before it had finished the step that rank 0 has logged"
    assert_whole(compiled, tmp_path)
    assert not list((tmp_path / "slots").iterdir()), "the end leaves nothing"


def test_a_newer_checkpoint_goes_first(killed, tmp_path):
    """Another run of the folder may have gone on without slots."""
    compiled, options, _ = killed()
    h.checked(*compiled.command(*compiled.train_arguments(tmp_path, h.training_data("mlp", ("x", "labels")), 20, "--threads", "1", "--log", tmp_path / "log.jsonl", "--checkpoint",
                                                          tmp_path / "c", "--every", "20")))
    result = go_on(compiled, tmp_path, options)
    assert result.returncode == 0 and "goes on from checkpoint '" in result.stdout and ", of step 20" in result.stdout, result.stdout + result.stderr
    assert_whole(compiled, tmp_path)


def test_slots_of_another_run(killed, tmp_path):
    compiled, options, _ = killed()
    shutil.rmtree(tmp_path / "c")
    result = go_on(compiled, tmp_path, options)
    assert result.returncode == 0 and "the training begins with step 1" in result.stdout, result.stdout + result.stderr
    assert_whole(compiled, tmp_path)


@pytest.mark.parametrize("mesh", ["tp2", "dp2"])
@pytest.mark.parametrize("damage", ["cut", "text", "one is gone", "rubbish"])
def test_damaged_slots(killed, tmp_path, damage, mesh):
    """What is not whole is no slot: where no other rank has the same, the newest checkpoint is gone on from."""
    compiled, options, _ = killed(every="5", mesh=mesh)
    file = next((tmp_path / "slots").rglob("2-rank-1"))
    data = bytearray(file.read_bytes())
    if damage == "cut":
        data = data[:-1]
    elif damage == "text":
        for at in range(100, 90000):  # what is said of both steps
            data[at] ^= 0x55
    elif damage == "rubbish":
        data = bytearray(os.urandom(len(data)))
    file.write_bytes(data) if damage != "one is gone" else file.unlink()
    result = go_on(compiled, tmp_path, options)
    assert result.returncode == 0, result.stderr
    if mesh == "tp2":
        assert "goes on from checkpoint '" in result.stdout and ", of step 5" in result.stdout, result.stdout
    else:  # the other rank's are whole, and it has all
        assert "what 2 ranks have left in slots is checkpoint '" in result.stdout and ", of step 5" not in result.stdout, result.stdout
    assert_whole(compiled, tmp_path)


@pytest.mark.parametrize("before,after", [("4", "2"), ("2", "4")])
def test_another_size_goes_on(sized, tmp_path, before, after):  # noqa: F811
    compiled = sized("mlp")
    options = ("--checkpoint", tmp_path / "c", "--every", "1000", "--continue", "--slots-in", tmp_path / "slots", "--log", tmp_path / "log.jsonl", "--save", tmp_path / "w.safetensors")
    (tmp_path / "slots").mkdir()
    command = [compiled.path, *sized_arguments(tmp_path, "mlp", 20, *options)]
    process = subprocess.Popen([*map(str, command), "--size", before], stdout=subprocess.DEVNULL, env={**os.environ, "TESSERA_STEP_SECONDS": "0.05"})
    log = tmp_path / "log.jsonl"
    try:
        assert h.wait_until(lambda: log.exists() and log.read_text().count("\n") >= 6, 30)
    finally:
        process.kill()
        process.wait()
    result = h.run(*command, "--size", after)
    assert result.returncode == 0, result.stderr
    assert f"what {before} ranks have left in slots is checkpoint '{tmp_path / 'c'}/step-" in result.stdout
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == list(range(1, 21))
    h.checked(compiled.path, *sized_arguments(tmp_path / "whole", "mlp", 20, "--save", tmp_path / "whole.safetensors"))
    assert (tmp_path / "w.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert not list((tmp_path / "slots").iterdir())


# ---- what is refused

def refused(program, tmp_path, *options, mesh="1", compiling=TRAIN, variant="mlp", command=()):
    compiled = program(variant, mesh, compiling)
    return h.run(*command, *compiled.command(*compiled.train_arguments(tmp_path, h.training_data(variant, [*h.input_names(variant), "labels"]), 2, *options)))


FOLDER = ("--checkpoint", "c", "--every", "1")


@pytest.mark.parametrize("options,said,status", [
    (("--slots", "4", *FOLDER), "--slots is auto, 1, 2 or 3, not '4'", 2),
    (("--slots", "2"), "--slots 2 needs --checkpoint DIR --every N", 2),
    (("--slots-in", "x"), "--slots-in is about the checkpoints of --checkpoint DIR, which is not given", 2),
    (("--slots", "2", "--slots-in", "/nowhere", *FOLDER), "--slots 2: '/nowhere/tessera-slots-", 1),
])
def test_bad_options(program, tmp_path, options, said, status):
    result = refused(program, tmp_path, *(tmp_path / o if o == "c" else o for o in options))
    h.assert_error(result, said, *(["' cannot be made: No such file or directory"] if status == 1 else []), status=status)


@pytest.mark.parametrize("options,said", [
    (("--copies", "2", *FOLDER, "--slots", "2"), "--copies 2 needs three slots: leave --slots out, or give --slots 3"),
    (("--copies", "3", *FOLDER), "--copies is 1 or 2, not '3'"),
    (("--copies", "2"), "--copies 2 needs --checkpoint DIR --every N: what is in slots belongs to that folder"),
])
def test_bad_copies(program, tmp_path, options, said):
    h.assert_error(refused(program, tmp_path, *(tmp_path / o if o == "c" else o for o in options)), said, status=2)


def test_copies_need_two_hosts(program, tmp_path):
    compiled = program("mlp", "dp2", TRAIN)
    h.assert_error(refused(program, tmp_path, "--copies", "2", "--checkpoint", tmp_path / "c", "--every", "1", mesh="dp2"),
                   f"--copies 2 keeps the state on two hosts, and all ranks are on '{os.uname().nodename}'")
    h.assert_error(h.run(compiled.path, "info", "--copies", "2"), "--copies 2 --hosts N go together: what is promised depends on the hosts", status=2)
    h.assert_error(h.run(compiled.path, "info", "--copies", "2", "--hosts", "3"), "--hosts 3 is more than the ranks, 2", status=2)


def test_fewer_steps_than_are_done(killed, tmp_path):
    compiled, options, _ = killed()
    result = h.run(*compiled.command(*compiled.train_arguments(tmp_path, h.training_data("mlp", ("x", "labels")), 5, "--threads", "1", *options)))
    h.assert_error(result, "the slots in '", "' are of step ", ", beyond --steps 5: there is nothing left to do")


def test_something_else_in_its_place(killed, tmp_path):
    compiled, options, _ = killed()
    file = next((tmp_path / "slots").rglob("2-rank-0"))
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    h.assert_error(go_on(compiled, tmp_path, (*options, "--slots", "2")), f"--slots 2: slots '{file}' cannot be opened: ")
    assert not (tmp_path / "elsewhere").exists()


def on_small_disk(folder, size, *command):
    script = f'mount -t tmpfs -o size={size} none {folder} && exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "sh", *command]


def may_mount(folder):
    return subprocess.run(on_small_disk(folder, "16k", "true"), capture_output=True).returncode == 0


def test_too_little_room(program, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if not may_mount(small):
        pytest.skip("needs to mount a small file system (unshare -m, as root)")
    options = ("--checkpoint", tmp_path / "c", "--every", "1", "--slots-in", small)
    h.assert_error(refused(program, tmp_path, "--slots", "2", *options, command=on_small_disk(small, "64k")),
                   "--slots 2: slots take ", "/small/tessera-slots-", "', where 65536 are left there", "give another folder by --slots-in DIR, or --slots 1")
    # Unasked, there is a note, and the training does without.
    result = refused(program, tmp_path, "--continue", *options, command=on_small_disk(small, "64k"))
    assert result.returncode == 0, result.stderr
    assert "note: what a step leaves is kept in checkpoints alone: slots take " in result.stderr
    assert c.steps_in(tmp_path / "c") == [1, 2]


def test_another_user_and_another_run(program, killed, tmp_path):
    compiled, options, _ = killed()
    file = next((tmp_path / "slots").rglob("2-rank-0"))
    if os.getuid() == 0:
        os.chown(file, 12345, 12345)
        h.assert_error(go_on(compiled, tmp_path, (*options, "--slots", "2")), "--slots 2: slots '", "are another user's")
        os.chown(file, 0, 0)
    with open(file) as held:
        import fcntl
        fcntl.flock(held, fcntl.LOCK_EX)
        h.assert_error(go_on(compiled, tmp_path, (*options, "--slots", "2")), "--slots 2: slots '", "are another run's, which is under way")
