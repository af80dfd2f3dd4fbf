"""A training in Slurm's queue that is preempted again and again, as docs/slurm.md has it: requeued each time, with the weights of one that was left alone. `tools/test --slurm` runs it."""
import json
import sys

import pytest

import harness as h

sys.path.insert(0, str(h.ROOT / "tools"))
import slurm_cluster  # noqa: E402

pytestmark = pytest.mark.slurm

PREEMPTIONS = 5
STEPS = 1000
SCRIPT = """#!/bin/bash
#SBATCH --nodes=1 --ntasks=4 --time=10:00
#SBATCH --requeue --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --output={folder}/job.txt
export TESSERA_STEP_SECONDS=0.25
{tessera} run --in {folder}/work -- {program} {arguments} --every 500 &
run=$!
trap 'kill -TERM $run' TERM
wait $run || wait $run
status=$?
[ $status != 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $status
"""


def test_preempted_trainings_go_on(program, tmp_path):
    if why := slurm_cluster.missing():
        pytest.skip(why)
    compiled = program("mlp", "dp2tp2", ("--train", "adamw"))
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    log, weights = tmp_path / "log.jsonl", tmp_path / "w.safetensors"
    arguments = compiled.train_arguments(tmp_path, data, STEPS, "--threads", "1", "--log", log, "--save", weights)
    (tmp_path / "job.sh").write_text(SCRIPT.format(folder=tmp_path, tessera=h.TESSERA, program=compiled.path, arguments=" ".join(map(str, arguments))))

    def done():
        return log.read_text().count("\n") if log.exists() else 0

    (tmp_path / "slurm").mkdir()
    with slurm_cluster.Cluster(tmp_path / "slurm") as cluster:
        submitted = cluster.run("sbatch", "--parsable", tmp_path / "job.sh")
        assert submitted.returncode == 0, submitted.stderr
        job = submitted.stdout.strip()
        for number in range(PREEMPTIONS):
            goal = done() + 10
            cluster.until(lambda: done() >= goal, 150, f"step {goal}")
            before = done()
            urgent = cluster.run("sbatch", "--parsable", "--partition=high", "--ntasks=8", "--output=/dev/null", "--wrap=sleep 0.5")
            assert urgent.returncode == 0, urgent.stderr
            cluster.until(lambda: cluster.state(urgent.stdout.strip())[0] == "COMPLETED", 120, f"urgent job {number}")
            assert before <= done() < STEPS, "it was not preempted in its middle"
        cluster.until(lambda: cluster.state(job)[0] in ("COMPLETED", "FAILED"), 400, f"the end of the job: {cluster.state(job)} {(tmp_path / 'job.txt').read_text()[-2000:]}")
        assert cluster.state(job) == ("COMPLETED", PREEMPTIONS)
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == list(range(1, STEPS + 1))
    compiled.train(tmp_path / "alone", data, STEPS, "--threads", "1", "--save", tmp_path / "alone.safetensors")
    assert weights.read_bytes() == (tmp_path / "alone.safetensors").read_bytes()
