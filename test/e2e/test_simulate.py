"""tessera simulate: a step of the program that would be compiled, run on a machine's figures. Its physics are in runtime/simulate/test."""
import json
import re

import pytest

import harness as h

GPT = h.ROOT / "python" / "gpt_bytes.onnx"
TRAIN = ("--train", "adamw")
RECIPES = {
    "one": "", "dp4": "--dp 4", "tp4": "--tp 4", "dp2tp2": "--dp 2 --tp 2", "zero1": "--dp 4 --zero 1", "zero3": "--dp 4 --zero 3",
    "megatron": "--tp 4 --sp-mode megatron", "2d": "--tp 4 --tp-mode 2d", "2.5d": "--tp 8 --tp-mode 2.5d --tp-depth 2", "3d": "--tp 8 --tp-mode 3d",
    "ring": "--sp 4", "ulysses": "--sp 4 --sp-mode ulysses", "rsa": "--sp 4 --sp-mode rsa", "micro": "--dp 2 --microbatches 4",
    "gpipe": "--pp 4 --pp-schedule gpipe --microbatches 8", "1f1b": "--dp 2 --pp 2 --microbatches 4", "interleaved": "--pp 2 --pp-schedule interleaved --microbatches 4",
    "zero-bubble": "--pp 2 --tp 2 --pp-schedule zero-bubble --microbatches 4", "uneven": "--dp 3 --tp 2", "capped": "--dp 2 --device-memory 20MiB",
    "dp16tp4": "--dp 16 --tp 4", "dp4tp4pp4": "--dp 4 --tp 4 --pp 4 --microbatches 4", "sp8tp8": "--sp 8 --tp 8",
}
SAMPLE = ("one", "dp2tp2", "zero3", "2d", "ring", "1f1b", "uneven", "capped", "dp4tp4pp4")
# Nodes of 4 that share 2 links, and 3 nodes a switch: no mesh of twos fits.
UNEVEN = """
[device]
name = "nodes of four"
[[level]]
ranks = 4
latency = 1e-6
bandwidth = 2e10
[[level]]
ranks = 12
latency = 5e-6
bandwidth = 5e9
links = 2
[[level]]
ranks = 96
latency = 1e-5
bandwidth = 2e9
oversubscription = 2
"""


def simulated(*arguments):
    text = h.checked(h.TESSERA, "simulate", *arguments, "--json").stdout
    assert text.startswith('{\n  "seconds": '), text[:40]
    return json.loads(text)


def recipes():
    return [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.whole) for name in RECIPES]


@pytest.fixture
def uneven(tmp_path):
    path = tmp_path / "uneven.toml"
    path.write_text(UNEVEN)
    return path


@pytest.mark.parametrize("name", recipes())
def test_it_is_what_is_compiled(tmp_path, name):
    """Seconds, memory, collectives and traffic of the executable's own figures, to the byte; all of a step is accounted for."""
    options = (GPT, *TRAIN, *RECIPES[name].split())
    step = simulated(*options)
    h.checked(h.TESSERA, "compile", *options, "-o", tmp_path / "p")
    info = json.loads(h.checked(tmp_path / "p", "info", "--json", "--program", "train").stdout)
    assert info["ranks"] == step["ranks"] and not step["calibrated"]
    assert info["step_seconds"] == step["seconds"] > 0
    assert info["sent"] == step["sent"] and info["moved"] == step["moved"]
    for ours, theirs in zip(step["memory"], info["memory"], strict=True):
        assert {**ours, "outside": None} == {**theirs, "outside": None}
    parts = step["computing"] + sum(step["idle"].values()) + sum(over["exposed"] for over in step["communication"].values())
    assert parts == pytest.approx(step["seconds"], rel=1e-9)
    assert set(step["communication"]) == set(step["sent"])
    assert 0 < step["mfu"] < 1


@pytest.mark.parametrize("name", recipes())
def test_folding_changes_nothing(uneven, name):
    options = (GPT, *TRAIN, *RECIPES[name].split())
    for more in ((), ("--slow", "0=1.4"), ("--machine", uneven)):
        few, all_ranks = simulated(*options, *more), simulated(*options, *more, "--every-rank")
        assert few["seconds"] == all_ranks["seconds"], more
        assert few["sent"] == all_ranks["sent"]
        assert all_ranks["simulated_ranks"] == all_ranks["ranks"] >= few["simulated_ranks"]
        if not more:
            assert few["simulated_ranks"] == max(1, int(options[-options[::-1].index("--pp")] if "--pp" in options else 1))


def test_a_straggler_is_waited_for():
    options = (GPT, *TRAIN, "--dp", "2", "--tp", "2")
    even, slow = simulated(*options), simulated(*options, "--slow", "3=1.5")
    assert even["simulated_ranks"] == 1 and slow["simulated_ranks"] > 1
    assert 1.3 * even["seconds"] < slow["seconds"] < 1.5 * even["seconds"] + 1e-9
    assert slow["idle"]["ranks"] > even["idle"]["ranks"] + 0.2 * even["seconds"]
    assert slow["sent"] == even["sent"]


def test_jitter_is_of_a_seed():
    options = (GPT, *TRAIN, "--dp", "4", "--jitter", "0.05", "--seed")
    one, again, other = (simulated(*options, seed) for seed in ("1", "1", "2"))
    assert one == again and one["seconds"] != other["seconds"]
    even = simulated(*options[:-3])
    assert even["seconds"] * 0.95 < one["seconds"] < even["seconds"] * 1.05
    assert one["simulated_ranks"] == 4


def test_a_trace_shows_what_ranks_do(tmp_path):
    options = (GPT, *TRAIN, "--dp", "2", "--pp", "2", "--microbatches", "4")
    step = simulated(*options, "--trace", tmp_path / "few.json")
    simulated(*options, "--trace", tmp_path / "all.json", "--every-rank")
    few, every = (json.loads((tmp_path / name).read_text()) for name in ("few.json", "all.json"))
    assert {event["pid"] for event in few} == {0, 2} and {event["pid"] for event in every} == {0, 1, 2, 3}
    assert [event for event in every if event["pid"] in (0, 2) and event["ph"] == "X" and event["tid"] < 7] == \
        [event for event in few if event["ph"] == "X" and event["tid"] < 7]
    rows = {event["args"]["name"] for event in few if event["name"] == "thread_name"}
    assert rows >= {"compute", "communication", "sent to rank 2"}
    last = max(event["ts"] + event["dur"] for event in few if event["ph"] == "X")
    assert last == pytest.approx(step["seconds"] * 1e6, rel=1e-6)
    for pid in (0, 2):
        rows = sorted((e["ts"], e["ts"] + e["dur"]) for e in few if e["ph"] == "X" and e["pid"] == pid and e["tid"] == 0)
        assert all(end <= begin + 1e-3 for (_, end), (begin, _) in zip(rows, rows[1:])), "one after the other"


def test_info_of_another_machine(tmp_path):
    """An executable says what a program that was compiled for the machine would say, where plans do not differ."""
    (tmp_path / "fast.toml").write_text('[device]\nname = "fast"\nbandwidth = 1.5e11\n[rate.products]\nf32 = 1.3e12\n')
    (tmp_path / "nameless.toml").write_text("[rate.products]\nf32 = 2.6e11\n")
    h.checked(h.TESSERA, "compile", GPT, *TRAIN, "-o", tmp_path / "p")
    h.checked(h.TESSERA, "compile", GPT, *TRAIN, "--machine", tmp_path / "fast.toml", "-o", tmp_path / "fast")

    def info(program, *options):
        return json.loads(h.checked(tmp_path / program, "info", "--json", *options).stdout)

    own, there = info("p"), info("p", "--machine", tmp_path / "fast.toml")
    assert there["step_seconds"] == info("fast")["step_seconds"] == pytest.approx(own["step_seconds"] / 10)
    assert own["machine"] is None and there["machine"] == "fast"
    nameless = info("fast", "--machine", tmp_path / "nameless.toml")
    assert nameless["machine"].endswith("nameless.toml")
    assert nameless["step_seconds"] > there["step_seconds"], "what it leaves out is the target's, not that of the machine compiled for"
    assert own["step_seconds"] / 2 < nameless["step_seconds"] < own["step_seconds"]
    assert "by the rates of fast" in h.checked(tmp_path / "p", "info", "--machine", tmp_path / "fast.toml").stdout
    one, four = (info("p", "--threads", threads)["step_seconds"] for threads in "14")
    assert one / 4 < four < one / 3, "kernels of few pieces leave threads without work"
    (tmp_path / "bad.toml").write_text("[device]\nbandwith = 1\n")
    h.assert_error(h.run(tmp_path / "p", "info", "--machine", tmp_path / "bad.toml"), ':2:1: [device] has no key "bandwith"')
    h.assert_error(h.run(tmp_path / "p", "info", "--machine", tmp_path / "none.toml"), "cannot read the machine's file")
    h.assert_error(h.run(tmp_path / "p", "train", "--machine", tmp_path / "fast.toml"), "'--machine' is no option of train", status=2)


def test_a_machine_without_places(tmp_path):
    (tmp_path / "small.toml").write_text("[[level]]\nranks = 2\nlatency = 1e-6\nbandwidth = 1e9\n")
    for command in ("simulate", "compile", "explain", "plan", "verify"):
        output = ("-o", tmp_path / "p") if command == "compile" else ()
        result = h.tessera(command, GPT, "--dp", "4", "--machine", tmp_path / "small.toml", *output)
        h.assert_error(result, "small.toml\" is a machine for 2 ranks, and there are 4; its last [[level]] says how many")
    result = h.tessera("plan", GPT, "--auto", "--ranks", "2,4", "--machine", tmp_path / "small.toml")
    h.assert_error(result, "small.toml\" is a machine for 2 ranks, and there are 4")
    assert not (tmp_path / "p").exists()
    h.checked(h.TESSERA, "compile", GPT, "--dp", "4", "-o", tmp_path / "p")
    h.assert_error(h.run(tmp_path / "p", "info", "--machine", tmp_path / "small.toml"), "the machine has places for 2 ranks, and there are 4")


def test_a_machine_of_another_type(tmp_path):
    """Rates of one type say nothing of another; a file without any leaves them to the target."""
    (tmp_path / "f32.toml").write_text("[rate.products]\nf32 = 1e12\n")
    (tmp_path / "none.toml").write_text("[device]\nbandwidth = 1e11\n")
    said = ("the machine has rates of products in f32 and none in bf16", "give bf16 in its [rate.products]")
    for command in (("simulate",), ("explain",), ("plan",), ("plan", "--auto", "--ranks", "2"), ("compile", "-o", tmp_path / "p")):
        result = h.tessera(command[0], GPT, *command[1:], "--dtype", "bf16", "--machine", tmp_path / "f32.toml")
        h.assert_error(result, "f32.toml\" does not serve here: ", *said)
    h.checked(h.TESSERA, "compile", GPT, "--dtype", "bf16", "--machine", tmp_path / "none.toml", "-o", tmp_path / "p")
    h.assert_error(h.run(tmp_path / "p", "info", "--machine", tmp_path / "f32.toml"), *said)


@pytest.mark.parametrize("options,said,status", [
    ("--slow 4=1.3", "there is no rank 4 to be slow; the ranks are 0 to 3", 1),
    ("--slow -1=1.3", "there is no rank -1 to be slow", 1),
    ("--slow 1", "--slow=1: expected RANK=FACTOR", 2),
    ("--slow 1=0", "--slow=1=0: expected RANK=FACTOR", 2),
    ("--slow 1=inf", "--slow=1=inf: expected RANK=FACTOR", 2),
    ("--slow one=2", "--slow=one=2: expected RANK=FACTOR", 2),
    ("--jitter 1", "--jitter=1: expected a number from 0 up to 1", 2),
    ("--jitter nan", "--jitter=nan: expected a number from 0 up to 1", 2),
    ("--seed x", "--seed=x: expected a whole number", 2),
])
def test_bad_input(options, said, status):
    h.assert_error(h.tessera("simulate", GPT, "--dp", "4", *options.split()), said, status=status)


def test_a_trace_that_cannot_be_written(tmp_path):
    h.assert_error(h.tessera("simulate", GPT, "--trace", tmp_path / "no" / "t.json"), "t.json")


def test_stages_that_do_not_fit_each_other(tmp_path):
    """Text can say what no compiler makes: a stage that waits for a message nobody sends."""
    text = h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--train", "sgd", "--pp", "2", "--microbatches", "2", "--to", "memory").stdout
    lines = text.split("\n")
    send = [i for i, line in enumerate(lines) if re.search(r"exec\.send %\d+ to 0 ", line)][1]
    token = re.search(r"token = (\d+)", lines[send])[1]
    wait = next(i for i in range(send, len(lines)) if re.search(rf"exec\.wait {token}\b", lines[i]))
    del lines[wait], lines[send]
    (tmp_path / "bad.mlir").write_text("\n".join(lines))
    said = "the step never ends: rank 0 waits for ever in "
    h.assert_error(h.tessera("simulate", tmp_path / "bad.mlir"), said)
    h.assert_error(h.tessera("compile", tmp_path / "bad.mlir", "--to", "lower", "-o", tmp_path / "x", "--report", tmp_path / "r.json"), said)
