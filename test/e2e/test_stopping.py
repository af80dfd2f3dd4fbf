"""Runs that are asked to stop, and ranks that do not come: where a training ends then, with which status, and what it says."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import checkpoint_files as c
import harness as h

TRAIN = ("--train", "adamw")
SLOW = {"TESSERA_STEP_SECONDS": "0.05"}
LAUNCHERS = {"threads": ("dp2", False), "mpirun": ("dp2", True), "torchrun": ("dp2", None), "one": ("1", False)}


class Running:
    """A training of the multilayer perceptron that was started: one process, mpirun, or a process a rank."""

    def __init__(self, compiled, mpi, folder, steps, *options, env=None):
        self.folder, self.log = folder, folder / "log.jsonl"
        arguments = compiled.train_arguments(folder, h.training_data("mlp", ("x", "labels")), steps, "--threads", "1", "--log", self.log, *options)
        marked = {**h.marked(folder), **SLOW, **(env or {})}
        if mpi is None:
            port = str(h.free_port())
            environments = [{**marked, "RANK": str(r), "WORLD_SIZE": str(compiled.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                            for r in range(compiled.ranks)]
        else:
            environments = [marked]
        self.processes = [subprocess.Popen([*map(str, compiled.command(*arguments, mpi=bool(mpi)))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           start_new_session=True, env=env) for env in environments]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for process in h.marked_processes(self.folder):
            os.kill(process, signal.SIGKILL)

    def has_done(self, steps):
        assert h.wait_until(lambda: self.log.exists() and self.log.read_text().count("\n") >= steps, 30), [p.poll() for p in self.processes]

    def ranks(self):
        """Process ids by rank."""
        name = b"OMPI_COMM_WORLD_RANK" if len(self.processes) == 1 else b"RANK"
        return {int(environ[name]): pid for pid, environ in h.marked_processes(self.folder).items() if name in environ}

    def end(self, seconds):
        """Statuses, and what all have said on standard error."""
        limit = time.monotonic() + seconds
        said = [process.communicate(timeout=max(0.1, limit - time.monotonic()))[1] for process in self.processes]
        assert h.wait_until(lambda: not h.marked_processes(self.folder), 3), "processes were left running"
        return [process.returncode for process in self.processes], "".join(said)

    def steps(self):
        return [json.loads(line)["step"] for line in self.log.read_text().splitlines()]


@pytest.fixture
def running(program, tmp_path):
    """running(launcher, steps, options): a training that is under way."""
    def start(launcher, steps, *options, **others):
        mesh, mpi = LAUNCHERS[launcher]
        return Running(program("mlp", mesh, TRAIN), mpi, tmp_path, steps, *options, **others)
    return start


@pytest.mark.parametrize("launcher,number", [("one", signal.SIGTERM), ("threads", signal.SIGUSR1), ("mpirun", signal.SIGTERM), ("mpirun", signal.SIGUSR1),
                                             ("torchrun", signal.SIGTERM)])
def test_a_stop_and_what_goes_on(running, program, tmp_path, launcher, number):
    """The step is finished, a checkpoint written, and the weights in the end are those of a run that nobody stopped."""
    options = ("--checkpoint", tmp_path / "c", "--every", "1000", "--continue", "--save", tmp_path / "w.safetensors")
    with running(launcher, 40, *options) as run:
        run.has_done(3)
        # To rank 1 alone, where it has a process: all stop after the same step.
        os.kill(run.processes[-1].pid, number)
        statuses, said = run.end(10)
    # mpirun has a status of its own when it is itself asked to end.
    assert statuses == ([1] if (launcher, number) == ("mpirun", signal.SIGTERM) else [75] * len(statuses)), said
    done = run.steps()[-1]
    assert said.count(f"note: stopped after step {done} of 40, as asked by ") == 1, said
    assert not (tmp_path / "w.safetensors").exists() and c.steps_in(tmp_path / "c") == [done]
    with running(launcher, 40, *options, env={"TESSERA_STEP_SECONDS": "0"}) as run:
        statuses, said = run.end(30)
    assert statuses == [0] * len(statuses), said
    assert run.steps() == list(range(1, 41))
    whole = program("mlp", LAUNCHERS[launcher][0], TRAIN)
    whole.train(tmp_path / "whole", h.training_data("mlp", ("x", "labels")), 40, "--threads", "1", "--save", tmp_path / "whole.safetensors")
    assert (tmp_path / "w.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_a_second_term_ends_at_once(running):
    with running("threads", 1000, env={"TESSERA_STEP_SECONDS": "4"}) as run:
        run.has_done(1)
        # Two that come before the first is taken are one, on a busy machine; a step takes four seconds.
        for _ in range(10):
            if run.processes[0].poll() is None:
                run.processes[0].send_signal(signal.SIGTERM)
            time.sleep(0.1)
        statuses, _ = run.end(5)
    assert statuses == [-signal.SIGTERM]


def test_a_stop_without_checkpoints(running):
    with running("threads", 1000) as run:
        run.has_done(2)
        run.processes[0].send_signal(signal.SIGUSR1)
        statuses, said = run.end(5)
    assert statuses == [75] and "without --checkpoint nothing of it is kept" in said


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_stopped_is_named(running, launcher, victim):
    # More steps than a slow start of this test lets a run do: a step is some 30 us.
    with running(launcher, 100_000_000, "--timeout", "1", env={"TESSERA_STEP_SECONDS": "0"}) as run:
        run.has_done(3)
        pid = run.ranks()[victim]
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        statuses, said = run.end(8)
        assert time.monotonic() - began < 5
    assert all(status != 0 for status in statuses), statuses
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    where = r"operation \d+, \w+ over [\w,:()]+, step \d+|the other ranks (in|after) step \d+"
    assert len(errors) == 1 and re.fullmatch(rf"error: rank {victim} \(host \S+, process {pid}, stopped\) has not come to ({where})", errors[0]), said


def test_a_run_that_was_stopped_as_a_whole_goes_on(running):
    """The time in which a rank itself stood still does not count."""
    with running("torchrun", 60, "--timeout", "1") as run:
        run.has_done(3)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in run.processes:
                process.send_signal(number)
            time.sleep(2 if number == signal.SIGSTOP else 0)
        statuses, said = run.end(20)
    assert statuses == [0, 0], said


def test_wrong_timeouts(program, tmp_path):
    compiled = program("mlp", "1", TRAIN)
    arguments = compiled.train_arguments(tmp_path, h.training_data("mlp", ("x", "labels")), 1)
    for value in ("0", "-1", "soon", "nan"):
        h.assert_error(h.run(*compiled.command(*arguments, "--timeout", value)), "--timeout", status=2)
