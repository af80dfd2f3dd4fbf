"""tools/reproduce: figures are those of the compiler and the simulator, whatever is printed can be read back, and the table of claims is whole."""
import dataclasses
import json
import os
import subprocess
import sys

import pytest

import harness as h

sys.path.insert(0, str(h.ROOT / "tools"))
import reproduce  # noqa: E402
from reproduce_claims import CLAIMS, Claim, Figure, Plan  # noqa: E402

SMALL = Claim("small", "A small GPT", "nowhere", "a100", "gpt2", {"tensor": Plan("--tp 2"), "rings": Plan("--sp 2 --sp-mode rsa", "--sp 2"),
                                                                  "none": Plan("--ep 2")}, (),
              shape={"layers": 4, "width": 64, "heads": 4, "vocabulary": 256}, binds={"seq": 64}, options="--loss cross_entropy:logits", card=100e6)


@pytest.fixture(scope="module", autouse=True)
def compiler():
    reproduce.TESSERA = h.TESSERA


@pytest.fixture
def runs(tmp_path):
    return reproduce.Runs(tmp_path, lambda text: None)


def tool(*arguments):
    return subprocess.run([sys.executable, "tools/reproduce.py", *map(str, arguments)], cwd=h.ROOT, env={**os.environ, "TESSERA_BUILD": str(h.BUILD)},
                          capture_output=True, text=True)


def test_a_claim_from_the_command_line(tmp_path):
    result = tool("linear", "--json", tmp_path / "rows.json")
    assert result.returncode == 0, result.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["paper"] for row in rows] == [0.56, 0.35]
    shapes = tmp_path / "linear.onnx"
    subprocess.run([sys.executable, h.MODELS / "shapes.py", "linear", shapes, "--width", "1024"], check=True, capture_output=True)
    memory = [json.loads(h.checked(h.TESSERA, "simulate", shapes, "--bind", "batch=262144", "--train", "sgd", "--loss", "mse:output", "--tp", "8", *mode,
                                   "--target", "cuda", "--threads", "1", "--machine", h.ROOT / "tools/machines/colossal-i.toml", "--json").stdout)["device_bytes"]
              for mode in ((), ("--tp-mode", "2.5d", "--tp-depth", "2"), ("--tp-mode", "3d"))]
    assert [row["ours"]["value"] for row in rows] == [memory[1] / memory[0], memory[2] / memory[0]]
    for row in rows:
        ours = row["ours"]
        assert ours["ratio"] == ours["value"] / row["paper"] and ours["close"] == (abs(ours["ratio"] - 1) <= 0.25) and row["what"] in result.stdout
    assert "Two linear layers, 8 GPUs" in result.stdout and "linear: --tp 8" in result.stderr


def test_help_and_a_claim_that_there_is_not():
    listed = tool("--help")
    assert listed.returncode == 0 and all(f"  {claim.name} " in listed.stdout for claim in CLAIMS)
    result = tool("linaer")
    assert result.returncode == 2 and "there is no claim linaer" in result.stderr and "vit-pairs" in result.stderr


def test_the_table_is_whole():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.figures and claim.source and (h.ROOT / "tools" / "machines" / f"{claim.machine}.toml").exists()
        assert not claim.winner or claim.winner in claim.plans


def test_columns_have_their_plans(runs):
    theirs, ours = (reproduce.Contest(runs, SMALL, column) for column in reproduce.COLUMNS)
    assert theirs.options("rings").endswith("rsa") and ours.options("rings") == "--sp 2"
    assert theirs.seconds("tensor", batch=8) == ours.seconds("tensor", batch=8) and runs.count == 1
    assert theirs.seconds("rings", batch=8) != ours.seconds("rings", batch=8)


def test_the_largest_batch_is_the_largest(runs):
    contest = reproduce.Contest(runs, SMALL, "ours")
    batch = contest.largest("tensor", unit=2)
    assert contest.memory("tensor", batch=batch) <= SMALL.card < contest.memory("tensor", batch=batch + 2 * max(1, batch // 100 + 1))
    with pytest.raises(reproduce.Failure, match="batch 2 does not fit"):
        reproduce.Contest(runs, dataclasses.replace(SMALL, card=1e5), "ours").largest("tensor", unit=2)


@pytest.mark.parametrize("schedule,error", (("1f1b", 0.02), ("interleaved", 0.1)))
def test_deep_pipelines_are_nearly_affine(runs, schedule, error):
    claim = dataclasses.replace(SMALL, plans={"deep": Plan(f"--tp 2 --pp-schedule {schedule}")}, shape={**SMALL.shape, "width": 512}, binds={"seq": 512})
    whole = runs.command("simulate", claim, {"layers": 12}, f"--tp 2 --pp-schedule {schedule} --train adamw --pp 6 --microbatches 12", {"seq": 512, "batch": 12})
    assert reproduce.Contest(runs, claim, "ours").deep("deep", 12, 6, 12) == pytest.approx(whole["seconds"], rel=error)


def test_a_plan_that_fails_is_a_row(runs):
    row = reproduce.measured(runs, SMALL, Figure("speed", 2, lambda c: c.seconds("none", batch=8)))
    assert row["theirs"] == row["ours"] and not row["ours"]["close"] and row["ours"]["failure"].startswith("error: ")


@pytest.mark.parametrize("says,ours,close,side", [
    ("ratio", 1.7, True, True), ("ratio", 1.4, False, True), ("ratio", 0.9, False, False), ("value", 2.4, True, True),
    ("at least", 5, True, True), ("at least", 1.9, True, False), ("at most", 5, False, False), ("at most", 0.1, True, True)])
def test_how_figures_are_judged(says, ours, close, side):
    assert Figure("", 2, None, says).judge(ours) == (ours / 2, close, side)


def test_plan_auto_has_to_beat_the_winner(runs):
    claim = dataclasses.replace(SMALL, ranks=2, winner="tensor", binds={"seq": 64, "batch": 8})
    row = reproduce.planned(runs, claim, 20)
    assert row["ours"]["close"] and row["ours"]["value"] >= 0.999 and row["recipe"] and "theirs" not in row, row


def test_a_command_that_does_not_end():
    assert str(reproduce.outcome(["sleep", "60"], 0.1)) == "not done after 0 s"
