"""tessera run, status and stop: a training that is started again whatever ends it, and when it is not."""
import json
import os
import signal
import subprocess
import time

import pytest

import checkpoint_files as c
import harness as h

TRAIN = ("--train", "adamw")


class Running:
    """A `tessera run` of the multilayer perceptron in a folder."""

    def __init__(self, compiled, folder, steps, *more, launcher="threads", options=(), seconds="0.05"):
        self.folder, self.work, self.log = folder, folder / "work", folder / "work" / "log.jsonl"
        self.arguments = compiled.train_arguments(folder, h.training_data("mlp", ("x", "labels")), steps, "--threads", "1", "--save", folder / "w.safetensors", *more)
        self.command = [str(w) for w in (h.TESSERA, "run", "--in", self.work, "--launcher", launcher, *options, "--", compiled.path, *self.arguments)]
        self.env = {**h.marked(folder), "TESSERA_STEP_SECONDS": seconds}
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        for pid in h.marked_processes(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def state(self):
        return json.loads((self.work / "run.json").read_text())

    def has_done(self, steps):
        assert h.wait_until(lambda: self.log.exists() and self.log.read_text().count("\n") >= steps, 30), self.process.poll()

    def end(self, seconds=30):
        """Status, standard output and error."""
        out, err = self.process.communicate(timeout=seconds)
        assert h.wait_until(lambda: not h.marked_processes(self.folder), 3), "processes were left running"
        return self.process.returncode, out, err

    def steps(self):
        return [json.loads(line)["step"] for line in self.log.read_text().splitlines()]


@pytest.fixture
def running(program, tmp_path):
    return lambda steps, *more, mesh="dp2", **others: Running(program("mlp", mesh, TRAIN), tmp_path, steps, *more, **others)


@pytest.fixture
def expected(program, tmp_path):
    """The weights of a run that nobody disturbs."""
    def of(steps, mesh="dp2"):
        program("mlp", mesh, TRAIN).train(tmp_path / "whole", h.training_data("mlp", ("x", "labels")), steps, "--threads", "1", "--save", tmp_path / "whole.safetensors")
        return (tmp_path / "whole.safetensors").read_bytes()
    return of


def test_an_undisturbed_run(running, expected, tmp_path):
    with running(12, "--every", "5", seconds="0") as run:
        status, out, err = run.end()
    assert status == 0, err
    assert "step 12" in " ".join(out.split()), out
    assert run.steps() == list(range(1, 13)) and c.steps_in(run.work / "checkpoints") == [5, 10]
    assert (tmp_path / "w.safetensors").read_bytes() == expected(12)
    said = h.checked(h.TESSERA, "status", run.work).stdout
    assert said.startswith(f"{run.work}: done\nstep 12 of 12, loss ") and "newest checkpoint: step 10, " in said


@pytest.mark.parametrize("launcher", ["threads", "mpirun"])
def test_kills(running, expected, tmp_path, launcher):
    with running(60, "--every", "3", launcher=launcher) as run:
        for steps in (5, 12):
            run.has_done(steps)
            os.kill(run.state()["child"]["process"], signal.SIGKILL)
            starts = run.state()["starts"]
            assert h.wait_until(lambda: run.state()["starts"] > starts, 10)
        status, _, err = run.end()
    assert status == 0, err
    assert err.count("it was ended by signal 9") == 2 and run.state()["starts"] == 3
    assert run.steps() == list(range(1, 61))
    assert (tmp_path / "w.safetensors").read_bytes() == expected(60)


def test_the_run_itself_is_killed(running, expected, tmp_path):
    """The command again goes on with the training that is left, which nobody has to start."""
    with running(60, "--every", "3") as run:
        run.has_done(5)
        child = run.state()["child"]["process"]
        run.process.kill()
        run.process.communicate()
        time.sleep(0.3)
        assert "running, watched by nobody" in h.checked(h.TESSERA, "status", run.work).stdout
        run.start()
        status, _, err = run.end()
    assert status == 0, err
    assert f"goes on with process {child}, which an earlier `tessera run` started" in err
    assert run.steps() == list(range(1, 61)) and (tmp_path / "w.safetensors").read_bytes() == expected(60)


def test_two_at_once(running):
    with running(1000) as run:
        run.has_done(2)
        h.assert_error(h.run(*run.command, env=run.env), "another run")
        h.checked(h.TESSERA, "stop", run.work)
        assert run.end()[0] == 75


@pytest.mark.parametrize("launcher", ["threads", "mpirun"])
def test_stop_and_go_on(running, expected, tmp_path, launcher):
    with running(50, launcher=launcher) as run:
        run.has_done(4)
        said = h.checked(h.TESSERA, "stop", run.work).stdout
        status, _, err = run.end()
        assert status == 75, err
        done = run.steps()[-1]
        assert said == f"{run.work}: stopped after step {done}\n" and c.steps_in(run.work / "checkpoints") == [done]
        assert h.checked(h.TESSERA, "status", run.work).stdout.startswith(f"{run.work}: stopped\nstep {done} of 50")
        assert h.checked(h.TESSERA, "stop", run.work).stdout == f"{run.work}: nothing runs there\n"
        run.start()
        assert run.end()[0] == 0
    assert run.steps() == list(range(1, 51)) and (tmp_path / "w.safetensors").read_bytes() == expected(50)


def test_a_stopped_rank(running, expected, tmp_path):
    with running(40, "--timeout", "1", "--every", "2", launcher="mpirun") as run:
        run.has_done(5)
        ranks = {int(env[b"OMPI_COMM_WORLD_RANK"]): pid for pid, env in h.marked_processes(run.folder).items() if b"OMPI_COMM_WORLD_RANK" in env}
        os.kill(ranks[1], signal.SIGSTOP)
        status, out, err = run.end()
    assert status == 0, err
    assert f"process {ranks[1]}, stopped) " in err and run.state()["starts"] == 2
    assert (tmp_path / "w.safetensors").read_bytes() == expected(40)


def test_the_same_error_twice(running):
    with running(5, "--weights", "none.safetensors") as run:
        status, _, err = run.end()
    assert status == 1 and run.state()["starts"] == 2
    assert err.splitlines()[-1].startswith("error: it failed twice at step 1: ") and "none.safetensors" in err
    said = h.checked(h.TESSERA, "status", run.work).stdout
    assert said.startswith(f"{run.work}: failed\n") and "the last error: " in said


def test_no_progress(running):
    with running(1000, "--every", "500", options=("--restarts", "1")) as run:
        for start in (1, 2, 3):
            assert h.wait_until(lambda: run.work.joinpath("run.json").exists() and run.state()["starts"] == start and run.state()["state"] == "running", 10)
            if start == 1:
                run.has_done(3)
            os.kill(run.state()["child"]["process"], signal.SIGKILL)
        status, _, err = run.end()
    assert status == 1
    assert "error: no step was new in 2 starts: it was ended by signal 9" in err


def test_hosts_that_come_later(running, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("# none yet\nlocalhost:1\n")
    with running(5, options=("--hosts", hosts), launcher="mpirun", seconds="0") as run:
        assert h.wait_until(lambda: run.work.joinpath("run.json").exists() and run.state()["state"] == "waiting", 10)
        hosts.write_text("localhost slots=2\n")
        status, _, err = run.end()
    assert status == 0 and "waits for places: its 2 ranks have too few hosts" in err
    assert run.steps() == [1, 2, 3, 4, 5]


def test_discovered_hosts(running):
    with running(5, options=("--discover", "echo localhost:2"), launcher="mpirun", seconds="0") as run:
        assert run.end()[0] == 0


def test_what_is_wrong(program, tmp_path):
    path = program("mlp", "dp2", TRAIN).path
    work = tmp_path / "work"

    def wrong(*arguments, words, status=1):
        h.assert_error(h.run(h.TESSERA, *arguments), *words, status=status)

    wrong("run", "--", path, "train", words=["no folder given: tessera run --in WORK"], status=2)
    wrong("run", "--in", work, words=["expected `-- OUT train"], status=2)
    wrong("run", "--in", work, "--", path, "infer", words=["expected `-- OUT train"], status=2)
    wrong("run", "--in", work, "--", path, "train", "--resume", "c", words=["--resume: a run goes on from its own"], status=2)
    wrong("run", "--in", work, "--restarts", "-1", "--", path, "train", words=["--restarts=-1: expected a whole number of at least 0"], status=2)
    wrong("run", "--in", work, "--hosts", "a", "--discover", "b", "--", path, "train", words=["--hosts and --discover exclude"], status=2)
    wrong("run", "--in", work, "-n", "x", "--", path, "train", words=["-n=x: expected a whole number of at least 1"], status=2)
    wrong("run", "--in", work, "-n", "3", "--", path, "train", words=["runs on 2 ranks, not on 3"])
    wrong("run", "--in", work, "--launcher", "flood", "--", path, "train", words=["expected threads, mpirun, srun, torchrun"])
    wrong("run", "--in", work, "--launcher", "none-{ranks}", "--", path, "train", words=["there is no program none-{ranks}"])
    wrong("run", "--in", work, "--launcher", "srun", "--", path, "train", words=["is for an allocation of Slurm's"])
    wrong("run", "--in", work, "--", tmp_path / "none", "train", words=[f"executable \"{tmp_path / 'none'}\": there is no such program"])
    wrong("run", "--in", work, "--", "/bin/false", "train", words=["does not answer to `info --json`"])
    wrong("run", "--in", "/proc/none", "--", path, "train", words=["cannot make the folder"])
    wrong("status", words=["no folder given: tessera status WORK"], status=2)
    wrong("status", tmp_path, words=["no run is known in"])
    wrong("stop", tmp_path, words=["no run is known in"])
    (tmp_path / "hosts").write_text("a:x\n")
    wrong("run", "--in", work, "--hosts", tmp_path / "hosts", "--", path, "train", words=["line 1: expected a host and its places"])
    wrong("run", "--in", work, "--hosts", tmp_path / "none", "--", path, "train", words=["cannot read the hosts file"])
    wrong("run", "--in", work, "--discover", "false", "--", path, "train", words=["--discover false failed"])
