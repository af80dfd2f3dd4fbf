"""tessera schedule without --simulate: jobs that really run on this machine's places, what happens when they fail or are stopped, and how it refuses."""
import json
import os
import re
import signal
import subprocess

import pytest

import harness as h

CLUSTER = '[[host]]\nname = "here"\nplaces = %d\n\n[costs]\nresize = 0.5\nrestart = 0.5\n'
BATCH = 12  # the model's


@pytest.fixture
def jobs(program, tmp_path):
    """jobs(texts): files of jobs that train the multilayer perceptron; each text is of further keys of one."""
    programs = {n: program("mlp", mesh, ("--train", "adamw")).path for n, mesh in ((1, "1"), (2, "dp2"))}
    data = h.training_data("mlp", ("x", "labels"))
    arguments = h.Program(programs[1], 1).train_arguments(tmp_path, data, 1)[1:-2]

    def write(*texts, places=4, steps=12):
        (tmp_path / "cluster.toml").write_text(CLUSTER % places)
        jobs = []
        for i, text in enumerate(texts):
            keys = {
                "name": f'"job{i + 1}"', "arrival": 0, "places": 2, "batch": BATCH // 2, "samples": steps * BATCH, "every": 2,
                "throughput": "{1 = 100.0, 2 = 190.0}", "executable": "{%s}" % ", ".join(f'{n} = "{p}"' for n, p in programs.items()),
                "arguments": json.dumps([str(a) for a in (*arguments, "--threads", "1")]),
            } | text
            jobs.append("\n".join(["[[job]]", *(f"{key} = {value}" for key, value in keys.items() if value is not None)]))
        (tmp_path / "jobs.toml").write_text("\n".join(jobs) + "\n")
        return tmp_path / "jobs.toml", "--cluster", tmp_path / "cluster.toml", "--in", tmp_path / "work"

    write.programs = programs
    return write


def steps_of(folder, job):
    return [json.loads(line)["step"] for line in (folder / "work" / job / "log.jsonl").read_text().splitlines()]


def schedule(*arguments, env=None):
    return h.run(h.TESSERA, "schedule", *arguments, env=env)


def test_jobs_reach_their_ends(tmp_path, jobs):
    """Three jobs that ask for two places each share three."""
    files = jobs({}, {}, {"arrival": 1}, places=3)
    result = schedule(*files, "--policy", "fifo-backfill", "--json", tmp_path / "r.json", "--report", tmp_path / "r.html")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["policy"] == "fifo-backfill" and report["forecast_mean_completion"] > 0
    ends = [job["end"] for job in report["jobs"]]
    assert 0 < ends[0] <= ends[1] <= ends[2]
    spent = report["place_seconds"]
    assert sum(spent.values()) == pytest.approx(3 * report["span"], rel=1e-9) and spent["work"] > 0
    for name in ("job1", "job2", "job3"):
        assert steps_of(tmp_path, name) == list(range(1, 13))
    page = (tmp_path / "r.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.S)[1])
    assert [run["policy"] for run in data["runs"]] == ["fifo-backfill, simulated", "fifo-backfill"]


def test_a_job_changes_its_places(tmp_path, jobs):
    """The first has both places until the second comes; each step is done, and logged, once."""
    slow = marked_steps(0.1)
    files = jobs({}, {"arrival": 1.2}, places=2, steps=40)
    result = schedule(*files, "--policy", "drf", "--json", tmp_path / "r.json", env=slow)
    assert result.returncode == 0, result.stderr
    first = json.loads((tmp_path / "r.json").read_text())["jobs"][0]
    assert first["resizes"] >= 1
    assert "job1: 2 places" in result.stdout and "job1: 1 places" in result.stdout
    for name in ("job1", "job2"):
        assert steps_of(tmp_path, name) == list(range(1, 41))


def marked_steps(seconds):
    return {**os.environ, "TESSERA_STEP_SECONDS": str(seconds)}


def test_a_job_with_sizes_changes_its_places_in_the_process(program, tmp_path, jobs):
    """One start, whatever places it has; the second job gets what the first gives up."""
    sized = program("mlp", options=("--dp", "2", "--sizes", "1,2", "--train", "adamw")).path
    files = jobs({"executable": f'"{sized}"'}, {"executable": f'"{sized}"', "arrival": 1.2, "samples": 10 * BATCH}, places=2, steps=60)
    result = schedule(*files, "--policy", "drf", env=marked_steps(0.1))
    assert result.returncode == 0, result.stderr
    first = [line for line in result.stdout.splitlines() if " job1: " in line]
    assert len([line for line in first if ", process " in line]) == 1, result.stdout
    assert "2 places, from step 1" in first[0] and " job1: 1 places, after step" in result.stdout and " job1: 2 places, after step" in result.stdout
    assert steps_of(tmp_path, "job1") == list(range(1, 61)) and steps_of(tmp_path, "job2") == list(range(1, 11))
    whole = tmp_path / "whole.jsonl"
    arguments = h.Program(sized, 2).train_arguments(tmp_path, h.training_data("mlp", ("x", "labels")), 60, "--threads", "1", "--log", whole)
    h.checked(sized, *arguments)
    losses = [[json.loads(line)["loss"] for line in path.read_text().splitlines()] for path in (whole, tmp_path / "work" / "job1" / "log.jsonl")]
    assert losses[0] == losses[1]


def test_a_batch_that_grows_with_the_places(program, tmp_path, jobs):
    """A job that asks for one place has both, with twice the batch, but while the other is there, whose batch may not grow."""
    grows = program("mlp", options=("--dp", "2", "--sizes", "1,2", "--on-resize", "scale", "--train", "adamw")).path
    keeps = program("mlp", options=("--dp", "2", "--sizes", "1,2", "--train", "adamw")).path
    keys = {"executable": f'"{grows}"', "places": 1, "largest_batch": BATCH}
    files = jobs(keys, {**keys, "arrival": 1, "samples": 10 * BATCH, "largest_batch": BATCH // 2}, places=2, steps=100)
    result = schedule(*files, "--policy", "ones", "--json", tmp_path / "r.json", env=marked_steps(0.05))
    assert result.returncode == 0, result.stderr
    for name, samples in (("job1", 100 * BATCH), ("job2", 10 * BATCH)):
        lines = [json.loads(line) for line in (tmp_path / "work" / name / "log.jsonl").read_text().splitlines()]
        taken = [after["samples"] - before for before, after in zip([0, *(line["samples"] for line in lines)], lines)]
        assert set(taken) <= {BATCH // 2, BATCH} and samples <= sum(taken) < samples + BATCH
        assert name != "job1" or set(taken) == {BATCH // 2, BATCH}
        assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    for wrong, text in (({**keys, "executable": f'"{keeps}"'}, "its batch is the same on any places, and the job has a \"largest_batch\": compile it with --sizes"), ({**keys, "largest_batch": None}, "the job needs a \"largest_batch\""),
                        ({**keys, "batch": 4}, "it has a batch of 12, and the job one of 8")):
        h.assert_error(schedule(*jobs(wrong, places=2), "--policy", "ones"), text)


def test_a_throughput_that_the_executables_promise(tmp_path, jobs):
    files = jobs({"throughput": None}, places=2)
    assert schedule(*files, "--policy", "ones").returncode == 0
    assert steps_of(tmp_path, "job1") == list(range(1, 13))
    simulated = schedule(*files[:3], "--simulate", "--policy", "ones", "--json", tmp_path / "r.json")
    assert simulated.returncode == 0, simulated.stderr
    # Small steps are promised to be short: all but the start takes less than a second.
    assert 0.5 < json.loads((tmp_path / "r.json").read_text())["mean_completion"] < 1.5


def test_a_job_ends_at_its_target_loss(tmp_path, jobs):
    """The loss falls below 2.3, which ten classes begin at, long before the samples end."""
    files = jobs({"first_loss": 2.5, "target_loss": 2.2, "data_size": 2 * BATCH}, steps=100000)
    result = schedule(*files, "--policy", "fifo", "--json", tmp_path / "r.json")
    assert result.returncode == 0, result.stderr
    losses = [json.loads(line)["loss"] for line in (tmp_path / "work" / "job1" / "log.jsonl").read_text().splitlines()]
    means = [sum(pair) / 2 for pair in zip(losses, losses[1:])]
    assert min(means) <= 2.2 and len(losses) < 100000


def test_a_job_that_fails_is_set_aside(tmp_path, jobs):
    files = jobs({"arguments": '["--tokens", "none.bin"]'}, {}, places=2)
    result = schedule(*files, "--policy", "fifo", "--json", tmp_path / "r.json")
    h.assert_error(result, 'job "job1" failed three times and was set aside: ', "none.bin")
    assert result.stdout.count("job1: failed at step 1") == 3
    report = json.loads((tmp_path / "r.json").read_text())
    assert "none.bin" in report["jobs"][0]["error"] and "error" not in report["jobs"][1]
    assert report["mean_completion"] == report["jobs"][1]["completion"]
    assert steps_of(tmp_path, "job2") == list(range(1, 13))


def test_a_program_that_cannot_be_started(tmp_path, jobs):
    """It answers at the start, and is gone when it is to train."""
    script = tmp_path / "gone"
    script.write_text(f'#!/bin/sh\nrm {script}\nexec {jobs.programs[2]} "$@"\n')
    script.chmod(0o755)
    files = jobs({"executable": f'"{script}"', "throughput": "{2 = 190.0}"}, places=2)
    h.assert_error(schedule(*files, "--policy", "fifo"), "failed three times", "No such file or directory")


def follow(files, tmp_path, *options, env=None):
    command = [str(c) for c in (h.TESSERA, "schedule", *files, "--policy", "fifo", *options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**h.marked(tmp_path), **marked_steps(0.05)})


def log_lines(tmp_path):
    log = tmp_path / "work" / "job1" / "log.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.parametrize("launcher", ["threads", "mpirun"])
def test_a_rank_that_is_killed_does_not_end_the_schedule(tmp_path, jobs, launcher):
    run = follow(jobs({}, steps=40), tmp_path, "--launcher", launcher)
    assert h.wait_until(lambda: log_lines(tmp_path) >= 5, 60)
    train = [p for p in h.marked_processes(tmp_path) if b"train" in open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")
             and b"program" in os.path.basename(os.readlink(f"/proc/{p}/exe")).encode()]
    os.kill(max(train), signal.SIGKILL)
    out, errors = run.communicate(timeout=h.TIMEOUT)
    assert run.returncode == 0, errors
    assert out.count("job1: failed at step") == 1
    # mpirun says so in its own way, with a status of its own.
    assert ("it was ended by signal 9" if launcher == "threads" else "it ended with status ") in out
    assert steps_of(tmp_path, "job1") == list(range(1, 41))
    assert not h.marked_processes(tmp_path)


def test_stopping_and_going_on(tmp_path, jobs):
    files = jobs({}, steps=40)
    run = follow(files, tmp_path)
    assert h.wait_until(lambda: log_lines(tmp_path) >= 5, 60)
    run.terminate()
    _, errors = run.communicate(timeout=h.TIMEOUT)
    assert run.returncode == 75 and errors.startswith("error: stopped; the same command with --continue goes on")
    assert not h.marked_processes(tmp_path)
    h.assert_error(schedule(*files), 'there is a job "job1" in ', "already: --continue goes on with it, --in takes another folder")
    result = schedule(*files, "--continue")
    assert result.returncode == 0, result.stderr
    first = int(re.search(r"from step (\d+)", result.stdout)[1])
    assert first >= 5 - 2
    assert steps_of(tmp_path, "job1") == list(range(1, 41))


def test_nothing_is_left_when_the_schedule_is_killed(tmp_path, jobs):
    run = follow(jobs({}, steps=400), tmp_path)
    assert h.wait_until(lambda: log_lines(tmp_path) >= 3, 60)
    run.kill()
    run.communicate(timeout=h.TIMEOUT)
    assert h.wait_until(lambda: not h.marked_processes(tmp_path), 10)


# ---- what is wrong

def test_executables_that_do_not_fit(tmp_path, jobs):
    one, two = jobs.programs[1], jobs.programs[2]
    cases = [
        ({"executable": None, "arguments": None, "every": None}, 'job "job1" has no "executable" to launch; --simulate needs none'),
        ({"executable": f'"{tmp_path}/none"', "throughput": "{2 = 9.0}"}, "there is no such program"),
        ({"executable": '"/bin/false"', "throughput": "{2 = 9.0}"}, "it does not answer to `info --json`, as what `tessera compile` wrote does"),
        ({"executable": '"/bin/echo"', "throughput": "{2 = 9.0}"}, "what it answers to `info --json` is not JSON"),
        ({"executable": f'{{1 = "{one}", 2 = "{one}"}}'}, "it was compiled for 1 ranks, and is given for 2 places"),
        ({"executable": f'"{two}"'}, "it runs on 2 ranks alone, and is given for 1 places: compile it with --sizes, as by `tessera compile"),
        ({"executable": f'"{two}"', "throughput": "{2 = 9.0}", "batch": 4}, "it has a batch of 12, and the job one of 8"),
    ]
    for keys, words in cases:
        h.assert_error(schedule(*jobs(keys)), "jobs.toml:", words)
    silent = tmp_path / "silent"
    silent.write_text('#!/bin/sh\necho \'{"ranks": 2, "inputs": [{"shape": [12]}]}\'\n')
    silent.chmod(0o755)
    h.assert_error(schedule(*jobs({"executable": f'"{silent}"', "throughput": None})), 'it promises no time of a step: the job needs a "throughput"')


def test_without_room_for_temporary_files(tmp_path, jobs):
    h.assert_error(schedule(*jobs({}), env={**os.environ, "TMPDIR": str(tmp_path / "none")}), "no temporary file for what it says of itself")


def test_launchers_that_cannot_serve(tmp_path, jobs):
    files = jobs({})
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    h.assert_error(schedule(*files, "--launcher", "rsh"), "--launcher=rsh: expected threads, mpirun, srun, torchrun or a command with {ranks} in it")
    h.assert_error(schedule(*files, "--launcher", "no-such -n {ranks}"), "--launcher: there is no program no-such")
    h.assert_error(schedule(*files, "--launcher", "srun", env=clean), "--launcher srun is for an allocation of Slurm's: salloc -n ")
    h.assert_error(schedule(*files, "--launcher", "srun", env={**clean, "SLURM_TASKS_PER_NODE": "4", "PATH": str(tmp_path)}),
                   "--launcher: there is no program srun")
    (tmp_path / "srun").write_text("#!/bin/sh\n")  # The allocation is judged before anything runs: Slurm need not be here.
    (tmp_path / "srun").chmod(0o755)
    small = {**clean, "SLURM_TASKS_PER_NODE": "1(x2),1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    h.assert_error(schedule(*files, "--launcher", "srun", env=small), "cluster.toml:1:1:", "the cluster has 4 places, and Slurm's allocation only 3")
    (tmp_path / "cluster.toml").write_text(CLUSTER % 2 + '[[host]]\nname = "there"\nplaces = 2\n')
    h.assert_error(schedule(*files), "threads are all on this host, and there are 2")


def test_a_folder_that_cannot_be_made(tmp_path, jobs):
    (tmp_path / "file").write_text("")
    h.assert_error(schedule(*jobs({}), "--in", tmp_path / "file" / "work"), "cannot make the folder", "file/work")


def test_options_that_exclude_each_other(jobs):
    h.assert_error(schedule(*jobs({}), "--simulate"), "--in is for jobs that are launched, not for --simulate", status=2)
    h.assert_error(schedule("--trace", "ones"), "--trace is only simulated: add --simulate", status=2)
