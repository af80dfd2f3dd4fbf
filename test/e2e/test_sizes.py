"""Executables for several numbers of ranks: all train to the same bits, and a training goes from one to another."""
import json
import os
import re
import signal
import subprocess

import numpy as np
import pytest

import harness as h

SIZES = ("--dp", "4", "--sizes", "1,2,4", "--train", "adamw")


@pytest.fixture
def sized(program):
    return lambda variant, *options: program(variant, options=(*SIZES, *options))


def arguments(folder, variant, steps, *more):
    arrays = {n: a for n, a in h.part(h.reference(variant), "train.").items() if n != "target"}
    folder.mkdir(parents=True, exist_ok=True)
    given = []
    for name, array in arrays.items():
        np.save(folder / f"train.{name}.npy", array)
        given += ["--data", f"{name}={folder}/train.{name}.npy"]
    return ["train", *given, "--steps", str(steps), "--threads", "1", *map(str, more)]


def trained(path, folder, variant, steps, *more, command=(), env=None):
    """Losses, and the bytes of the weights."""
    log, weights = folder / "log.jsonl", folder / "w.safetensors"
    h.checked(*command, path, *arguments(folder, variant, steps, "--log", log, "--save", weights, *more), env=env)
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()], weights.read_bytes()


CASES = {
    "gpt2": ("gpt2", ()),
    "gpt2-tp": ("gpt2", ("--tp", "2")),
    "gpt2-zero3": ("gpt2", ("--zero", "3")),
    "gpt2-pp": ("gpt2", ("--pp", "2")),
    "bert": ("bert", ()),
    "vit": ("vit", ()),
}


@pytest.mark.parametrize("case", CASES)
def test_same_bits_on_each_size(sized, tmp_path, case):
    variant, options = CASES[case]
    program = sized(variant, *options)
    first = trained(program.path, tmp_path / "1", variant, 3, "--size", "1")
    for size in ("2", "4"):
        assert trained(program.path, tmp_path / size, variant, 3, "--size", size) == first, f"size {size}"


def test_same_bits_with_clipping(sized, tmp_path):
    program = sized("gpt2")
    results = [trained(program.path, tmp_path / size, "gpt2", 3, "--size", size, "--clip-norm", "0.5") for size in ("1", "2", "4")]
    assert results[0] == results[1] == results[2]


def test_the_number_of_processes_chooses_the_size(sized, tmp_path):
    program = sized("mlp")
    whole = trained(program.path, tmp_path / "whole", "mlp", 3)
    assert trained(program.path, tmp_path / "mpi", "mlp", 3, command=h.mpirun(2)) == whole
    # Three can do what two do; the third waits.
    assert trained(program.path, tmp_path / "three", "mlp", 3, command=h.mpirun(3)) == whole
    info = json.loads(h.checked(program.path, "info", "--json", "--size", "2").stdout)
    assert info["ranks"] == 2 and info["sizes"] == [{"size": s, "ranks": s} for s in (1, 2, 4)]
    report = tmp_path / "report.json"
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", *SIZES, "-o", tmp_path / "reported", "--report", report)
    assert json.loads(report.read_text())["mesh"] == {"data": 4}
    assert "data = 1, 2, 4 (--size)" in h.checked(program.path, "info").stdout


def kernels_of(program):
    """The symbols of machine code."""
    return set(re.findall(r"kernel_[0-9a-f]{16}_v3$", h.checked("nm", program).stdout, re.MULTILINE))


def test_sizes_share_kernels(tmp_path):
    """What adds gradients is a kernel for each number of levels, not for each shape."""
    one, several = tmp_path / "one", tmp_path / "several"
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "--dp", "4", "--train", "adamw", "-o", one)
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", *SIZES, "-o", several)
    assert kernels_of(one) < kernels_of(several)
    assert len(kernels_of(several)) < 2 * len(kernels_of(one))
    assert several.stat().st_size < 1.1 * one.stat().st_size


def test_the_number_of_cores_does_not_matter(tmp_path):
    """Sizes are compiled on as many threads as there are cores."""
    cores = os.sched_getaffinity(0)
    programs = []
    for name, used in (("all", cores), ("one", {min(cores)})):
        os.sched_setaffinity(0, used)
        try:
            h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", *SIZES, "--threads", "1", "-o", tmp_path / name)
        finally:
            os.sched_setaffinity(0, cores)
        programs.append((tmp_path / name).read_bytes())
    assert programs[0] == programs[1]


def test_text_is_of_one_size(tmp_path):
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", *SIZES, "--to", "memory", "-o", tmp_path / "p.mlir")
    result = h.checked(h.TESSERA, "compile", tmp_path / "p.mlir", "-o", tmp_path / "p")
    assert "the text is of size 4 alone; other sizes are compiled from the model" in result.stderr
    assert json.loads(h.checked(tmp_path / "p", "info", "--json").stdout)["sizes"] == []


def test_a_plan_says_the_sizes(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(h.checked(h.TESSERA, "plan", h.MODELS / "mlp.onnx", *SIZES).stdout)
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--train", "adamw", "--plan", plan, "-o", tmp_path / "p")
    assert len(json.loads(h.checked(tmp_path / "p", "info", "--json").stdout)["sizes"]) == 3


class Resizing:
    """A training whose control file asks for one size after the other."""

    def __init__(self, path, folder, steps, command, env=None, seconds="0.05"):
        self.folder, self.checkpoints = folder, folder / "checkpoints"
        self.log, self.weights = folder / "log.jsonl", folder / "w.safetensors"
        words = [*command, path, *arguments(folder, "mlp", steps, "--log", self.log, "--save", self.weights, "--checkpoint", self.checkpoints, "--every", "50")]
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**h.marked(folder), "TESSERA_STEP_SECONDS": seconds, **(env or {})})

    def has_done(self, steps):
        assert h.wait_until(lambda: self.log.exists() and self.log.read_text().count("\n") >= steps, 30), self.process.poll()

    def ask(self, text):
        (self.checkpoints / "control.new").write_text(text)
        os.rename(self.checkpoints / "control.new", self.checkpoints / "control")

    def answered(self):
        return h.wait_until(lambda: not (self.checkpoints / "control").exists(), 20)

    def end(self):
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.mark.parametrize("launcher", ["threads", "mpirun"])
def test_resized_in_the_process(sized, tmp_path, launcher):
    program = sized("mlp")
    whole = trained(program.path, tmp_path / "whole", "mlp", 60, "--size", "2")
    run = Resizing(program.path, tmp_path, 60, [] if launcher == "threads" else h.mpirun(4))
    for steps, size in ((5, 2), (10, 1), (15, 4), (20, 2)):
        run.has_done(steps)
        run.ask(f"size = {size}\n")
        assert run.answered()
    run.ask("nonsense")
    assert run.answered()
    run.ask("size = 3")
    assert run.answered()
    status, out, err = run.end()
    assert status == 0, err
    assert out.count("resized to ") == 4 and "resized to 4 after step" in out
    assert "it asks for nothing that is known" in err and "it asks for size 3; the sizes are 1, 2 and 4" in err
    assert [json.loads(line)["loss"] for line in run.log.read_text().splitlines()] == whole[0]
    assert run.weights.read_bytes() == whole[1]
    assert not [f for f in os.listdir("/dev/shm") if f.startswith("tessera-resize")]


def test_more_ranks_than_were_started(sized, tmp_path):
    """The training ends so that it can be started again with more, and leaves the wish to whoever does that."""
    program = sized("mlp")
    run = Resizing(program.path, tmp_path, 200, h.mpirun(2))
    run.has_done(5)
    run.ask("size = 4")
    status, _, err = run.end()
    assert status == 75 and "as asked for 4 ranks, of which 2 were started" in err
    assert (run.checkpoints / "control").read_text() == "size = 4"


def test_resize_of_a_run(sized, tmp_path):
    program = sized("mlp")
    whole = trained(program.path, tmp_path / "whole", "mlp", 80, "--size", "1")
    work = tmp_path / "work"
    words = [h.TESSERA, "run", "--in", work, "-n", "2", "--launcher", "mpirun", "--", program.path,
             *arguments(tmp_path, "mlp", 80, "--save", tmp_path / "w.safetensors", "--every", "10")]
    run = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**h.marked(tmp_path), "TESSERA_STEP_SECONDS": "0.05"})
    try:
        log = work / "log.jsonl"
        assert h.wait_until(lambda: log.exists() and log.read_text().count("\n") >= 5, 30)
        said = h.checked(h.TESSERA, "resize", work, "1").stdout
        assert said.startswith(f"{work}: resized to 1 after step ")
        # By a start with more ranks.
        assert "resized to 4" in h.checked(h.TESSERA, "resize", work, "4").stdout
        h.assert_error(h.run(h.TESSERA, "resize", work, "3"), "cannot be resized to 3; its sizes are 1, 2, 4")
        assert "sizes 1, 2, 4, now 4" in h.checked(h.TESSERA, "status", work).stdout
        # What kills it does not change the size.
        os.kill(json.loads((work / "run.json").read_text())["child"]["process"], signal.SIGKILL)
        out, err = run.communicate(timeout=60)
    finally:
        for pid in h.marked_processes(tmp_path):
            os.kill(pid, signal.SIGKILL)
    assert run.returncode == 0, err
    assert [json.loads(line)["loss"] for line in log.read_text().splitlines()] == whole[0]
    assert (tmp_path / "w.safetensors").read_bytes() == whole[1]
    h.assert_error(h.run(h.TESSERA, "resize", work, "2"), "that could be resized")


def test_a_resize_while_one_is_under_way(sized, tmp_path):
    program, work = sized("mlp"), tmp_path / "work"
    words = [h.TESSERA, "run", "--in", work, "--launcher", "threads", "--", program.path, *arguments(tmp_path, "mlp", 1000)]
    run = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**h.marked(tmp_path), "TESSERA_STEP_SECONDS": "0.05"})
    log = work / "log.jsonl"
    assert h.wait_until(lambda: log.exists() and log.read_text().count("\n") >= 2, 30)
    os.kill(json.loads((work / "run.json").read_text())["child"]["process"], signal.SIGSTOP)
    first = subprocess.Popen([str(h.TESSERA), "resize", str(work), "1"], stderr=subprocess.PIPE, text=True)
    assert h.wait_until(lambda: (work / "checkpoints" / "control").exists(), 10)
    h.assert_error(h.run(h.TESSERA, "resize", work, "2"), "is being resized to 1 already")
    for pid in h.marked_processes(tmp_path):
        os.kill(pid, signal.SIGKILL)
    run.wait()
    assert "ended before it was resized" in first.communicate(timeout=20)[1] and first.returncode == 1


def test_hosts_that_are_left_decide(sized, tmp_path):
    program, hosts = sized("mlp"), tmp_path / "hosts"
    hosts.write_text("localhost:3\n")
    h.checked(h.TESSERA, "run", "--in", tmp_path / "work", "--hosts", hosts, "--launcher", "mpirun --allow-run-as-root --oversubscribe -n {ranks}", "--",
              program.path, *arguments(tmp_path, "mlp", 3, "--stats", tmp_path / "stats.json"))
    assert json.loads((tmp_path / "stats.json").read_text())["ranks"] == 2


def test_what_cannot_be(sized, program, tmp_path):
    sizes, plain = sized("mlp"), program("mlp", "dp2", ("--train", "adamw"))
    h.assert_error(h.run(sizes.path, "info", "--size", "3"), "--size 3: the executable's sizes are 1, 2 and 4", status=2)
    h.assert_error(h.run(plain.path, "info", "--size", "2"), "the executable was compiled for one size; compile it with --sizes", status=2)
    given = arguments(tmp_path, "mlp", 1)
    h.assert_error(h.run(*h.mpirun(1), sizes.path, *given, "--size", "4"), "--size 4 takes 4 ranks, 1 were started")
    h.assert_error(h.run(h.TESSERA, "resize", tmp_path), "WORK SIZE: give both", status=2)
    h.assert_error(h.run(h.TESSERA, "resize", tmp_path, "0"), "expected a size of at least 1", status=2)
    h.assert_error(h.run(h.TESSERA, "resize", tmp_path, "2"), "no run is known in")
    # What fits on four ranks and not on one.
    small = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", *SIZES, "--zero", "3", "--device-memory", "2MiB", "--offload", "none", "--recompute", "none", "-o", tmp_path / "small")
    h.assert_error(small, "bytes) of device memory a rank", notes="that is of size 1, one of --sizes")
    assert small.stderr.count("error: ") == 1 and "of size 2" not in small.stderr
    two = tmp_path / "two"
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--dp", "4", "--sizes", "2,4", "--train", "adamw", "-o", two)
    h.assert_error(h.run(*h.mpirun(1), two, *given), "the program runs on 2 ranks or more and was started with 1")
    h.assert_error(h.run(h.TESSERA, "run", "--in", tmp_path / "w", "-n", "1", "--", two, *given), "runs on 2 ranks or more, not on 1")
    h.checked(h.TESSERA, "run", "--in", tmp_path / "done", "--launcher", "threads", "--", plain.path, *given)
    h.assert_error(h.run(h.TESSERA, "resize", tmp_path / "done", "2"), "has one size alone")
