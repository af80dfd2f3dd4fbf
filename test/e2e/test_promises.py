"""Promised against measured: memory and bytes sent equal to the byte, collectives per transformer block, resident memory."""
import json
import re
import subprocess
import time
import zlib

import numpy as np
import pytest

import harness as h

TRAIN = ("--train", "adamw")
SAMPLE = {("gpt2", m) for m in (*h.MESHES, "micro2")} | {("llama", "tp4"), ("bert", "dp2tp2"), ("vit", "dp2tp2")}
SAMPLE |= {("gpt2", m) for m in ("dp2zero1", "dp2zero3", "dp3zero2", "dp2tp2zero3", "dp2micro2zero3")}


def cases():
    for variant in ("gpt2", "llama", "bert", "vit"):
        for mesh in (*h.MESHES, *h.MICRO, *h.ZERO):
            yield pytest.param(variant, mesh, marks=() if (variant, mesh) in SAMPLE else pytest.mark.whole)


def stats_of(compiled, variant, folder, kind, mpi, *options):
    stats = folder / "stats.json"
    names = h.input_names(variant)
    if kind == "train":
        compiled.train(folder, h.training_data(variant, [*names, "labels"]), 3, "--stats", stats, *options, mpi=mpi)
    else:
        compiled.infer(folder, h.model_inputs(variant, names), "--stats", stats, "--repeat", "2", *options, mpi=mpi)
    return json.loads(stats.read_text())


def assert_promise_kept(promised, measured):
    assert promised["ranks"] == measured["ranks"] == len(promised["memory"]) == len(measured["memory"])
    for ours, theirs in zip(promised["memory"], measured["memory"]):
        assert ours["device"]["peak"] == theirs["device"]["peak"], f"rank {ours['rank']}"
        parts = [v for k, v in ours["device"].items() if k not in ("peak", "capacity")]
        assert sum(parts) == ours["device"]["peak"], "the categories do not add up to the peak"
        assert ours["device"]["peak"] > 0
    assert promised["sent"] == measured["sent"]


@pytest.mark.parametrize("kind", ["train", "infer"])
@pytest.mark.parametrize("variant,mesh", list(cases()))
def test_memory_and_bytes_sent(program, tmp_path, variant, mesh, kind):
    compiled = program(variant, mesh, TRAIN)
    promised = compiled.info(kind)
    measured = stats_of(compiled, variant, tmp_path, kind, mpi=variant == "gpt2" and mesh == "dp2tp2")
    assert_promise_kept(promised, measured)
    assert measured["step_seconds"] > 0
    if compiled.ranks == 1:
        assert not any(entry["bytes"] for axis in promised["sent"].values() for entry in axis.values())


PERMUTE_PLAN = """
[mesh]
a = 2
b = 2
[[value]]
match = "node_relu"
split = { 0 = ["a"] }
[[value]]
match = "node_gelu"
split = { 0 = ["b"] }
"""


@pytest.mark.parametrize("mpi", [False, True])
def test_bytes_of_a_permute(tmp_path, mpi):
    """Rows split over one axis move to the other: two of the four ranks have theirs already, the others get it by one message."""
    plan = tmp_path / "plan.toml"
    plan.write_text(PERMUTE_PLAN)
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", "--plan", plan, *TRAIN)
    compiled = h.Program(tmp_path / "p", 4)
    promised = compiled.info("infer")
    half = 12 // 2 * 36 * 4  # bytes of the rows that a rank holds of the gelu's result
    assert promised["sent"]["a,b"]["permute"] == {"count": 1, "bytes": half // 2}
    for kind in ("infer", "train"):
        assert_promise_kept(compiled.info(kind), stats_of(compiled, "mlp", tmp_path / kind, kind, mpi))
    assert compiled.info("train")["sent"]["a,b"]["permute"]["bytes"] > half // 2, "backward, the other way"


def description_of(compiled):
    """The text that the executable interprets (docs/program-format.md)."""
    contents = compiled.path.read_bytes()
    found = re.search(rb"tessera\.packed\n.{8}(?=x)", contents, re.DOTALL)  # runtime/program/packed_text.h
    return json.loads(zlib.decompressobj().decompress(contents[found.end():]))


@pytest.mark.parametrize("mesh", ["1", "tp2"])
@pytest.mark.parametrize("kind", ["infer", "train"])
def test_estimated_seconds(program, mesh, kind):
    """Ranks that do the same wait for nobody: the estimate is the sum of docs/program-format.md over the executable's operations, with what collectives hide."""
    compiled = program("gpt2", mesh, (*TRAIN, "--threads", "1"))
    ranks = compiled.ranks
    part = next(p for p in description_of(compiled)["programs"] if p["name"] == kind)
    touched = lambda op: sum(b["bytes"] for b in (part["buffers"][i] for i in {*op["args"]}) if b["category"] != "workspace")
    busy = linked = flops = 0.0
    done = {}
    for op in part["ops"]:
        if op["op"] in ("kernel", "call"):
            # Of a table, and of what a slice is copied from, as much is read as is written, beside indices.
            part_of = op["kind"] in ("gather", "copy_box")
            assert (2 * op["written"] if part_of else touched(op)) <= op["read"] + op["written"] <= 2 * touched(op), op
            assert not part_of or op["read"] < 1.1 * op["written"], op
            flops += op.get("flops", 0)
            busy += op.get("flops", 0) / 1.3e11 + (op["read"] + op["written"]) / 1.5e10
        elif op["op"] == "collective":
            bytes_of = {"f32": 4, "i64": 8}[op["dtype"]] * int(np.prod(op["shape"]))
            twice = op["kind"] == "all_reduce"
            assert twice, "the formula below is of all-reduces"
            linked = max(linked, busy) + 3e-6 + 2e-6 * 2 + 2.5e-10 * 2 * bytes_of * (ranks - 1) / ranks
            if op["token"] < 0:
                busy = linked
            done[op["token"]] = linked
        elif op["op"] == "wait":
            busy = max(busy, done[op["token"]])
    assert part["flops"] == flops > 0 and (ranks == 1) == (linked == 0)
    assert compiled.info(kind)["step_seconds"] == pytest.approx(max(busy, linked), rel=1e-9)


def test_state_in_pieces(program):
    """Between steps each of two ranks holds half the optimizer state and of the parameters, to the alignment of buffers; under stages 1 and 2 these are
    whole during the step."""
    held = {mesh: program("gpt2", mesh, TRAIN).info("train")["memory"][0]["device"] for mesh in ("dp2", "dp2zero1", "dp2zero2", "dp2zero3")}
    tensors = program("gpt2", "1", TRAIN).info()["parameters"]["tensors"]
    for stage in (1, 2, 3):
        halved = held[f"dp2zero{stage}"]
        assert abs(halved["optimizer"] - held["dp2"]["optimizer"] / 2) <= 2 * tensors * 256
        assert abs(halved["parameters"] - held["dp2"]["parameters"] / 2) <= tensors * 256
    peaks = [held[mesh]["peak"] for mesh in held]
    assert peaks[0] > peaks[1] >= peaks[2] > peaks[3], peaks


def all_reduces(info):
    """(count, bytes) of the tensor axis's all-reduces; any other collective over it is a failure."""
    sent = info["sent"].get("tensor", {})
    others = {kind: entry for kind, entry in sent.items() if kind != "all_reduce" and entry["count"]}
    return sent["all_reduce"]["count"], sent["all_reduce"]["bytes"], others


@pytest.mark.parametrize("kind,expected", [("infer", 2), ("train", 4)])
def test_collectives_per_block(program, kind, expected):
    """A second transformer block adds, under tp=2, two all-reduces of the activations forward and two backward."""
    count1, bytes1, others1 = all_reduces(program("gpt2_1layer", "tp2", TRAIN).info(kind))
    count2, bytes2, others2 = all_reduces(program("gpt2", "tp2", TRAIN).info(kind))
    activation = 4 * 32 * 64 * 4  # bytes of [batch, sequence, hidden] in f32; 2(n-1)/n of it leaves each of two ranks
    assert count2 - count1 == expected
    assert bytes2 - bytes1 == expected * activation
    assert others1 == others2


def test_logits_are_never_whole(program):
    """Under tp=4 a rank's activations at the peak are smaller than one rank's by three quarters of the logits at least."""
    one, four = (program("gpt2", mesh, TRAIN).info("train")["memory"][0]["device"] for mesh in ("1", "tp4"))
    logits = 4 * 32 * 160 * 4
    assert four["activations"] <= one["activations"] - logits * 3 // 4


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Anonymous:")) * 1024


def test_resident_memory(program, tmp_path):
    if h.SANITIZED:
        pytest.skip("a sanitizer's own memory would be measured")
    compiled = program("gpt2", "tp2", TRAIN)
    promised = sum(m["device"]["peak"] + m["host"]["peak"] for m in compiled.info("train")["memory"])
    data = h.training_data("gpt2", ["input_ids", "labels"])
    arguments = compiled.train_arguments(tmp_path, data, 100000)
    process = subprocess.Popen([str(compiled.path), *map(str, arguments)], stdout=subprocess.DEVNULL)
    try:
        highest, end = 0, time.monotonic() + 4
        while time.monotonic() < end:
            assert process.poll() is None
            highest = max(highest, anonymous_bytes(process.pid))
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    assert highest < promised + 64 * 2**20, f"{highest} bytes anonymous, {promised} promised"


def test_device_memory_lowers_the_cap(program, tmp_path):
    compiled = program("gpt2", "1", TRAIN)
    peak = compiled.info("train")["memory"][0]["device"]["peak"]
    data = h.training_data("gpt2", ["input_ids", "labels"])
    result = h.run(*compiled.command(*compiled.train_arguments(tmp_path, data, 1, "--device-memory", "64KiB")))
    h.assert_error(result, str(peak))
    h.checked(*compiled.command(*compiled.train_arguments(tmp_path, data, 1, "--device-memory", "1GiB")))


def test_trace(program, tmp_path):
    compiled = program("gpt2", "dp2tp2", TRAIN)
    data = h.training_data("gpt2", ["input_ids", "labels"])
    compiled.train(tmp_path, data, 2, "--trace", tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    spans = [e for e in trace if e["ph"] == "X"]
    compute, communication = 0, 1
    assert {(e["pid"], e["tid"]) for e in spans} >= {(rank, stream) for rank in range(4) for stream in (compute, communication)}
    assert {e["pid"] for e in spans} == {0, 1, 2, 3} and {e["tid"] for e in spans} <= {0, 1, 2}
    named = {(e["pid"], e["args"]["name"]) for e in trace if e["ph"] == "M" and e["name"] == "process_name"}
    assert named == {(rank, f"rank {rank}") for rank in range(4)}, "one row per rank"
    collectives = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "permute"}
    for rank in range(4):
        own = [e for e in spans if e["pid"] == rank]
        assert any(e["cat"] == "gemm" for e in own if e["tid"] == compute)
        assert {e["name"] for e in own if e["tid"] == communication} <= collectives
        assert len(own) > 100
    assert all(e["dur"] >= 0 for e in spans)


def hidden_share(trace):
    """Of the time that gradients' all-reduces take, the part in which products run on the same rank; and how many of them overlap one."""
    spans = [e for e in trace if e.get("ph") == "X"]
    total = hidden = overlapping = 0
    for rank in {e["pid"] for e in spans}:
        products = [(e["ts"], e["ts"] + e["dur"]) for e in spans if e["pid"] == rank and e["tid"] == 0 and e["cat"] == "gemm"]
        for e in (e for e in spans if e["pid"] == rank and e["tid"] == 1 and e["name"] == "all_reduce"):
            common = sum(max(0, min(end, e["ts"] + e["dur"]) - max(begin, e["ts"])) for begin, end in products)
            total, hidden, overlapping = total + e["dur"], hidden + common, overlapping + (common > 0)
    return hidden / total, overlapping


def test_gradients_travel_beside_the_backward(program, tmp_path):
    """Gradients' all-reduces run at the same time as the backward's products: those that start before the last product."""
    compiled = program("gpt_bytes", "dp2", ("--train", "adamw"), model=h.ROOT / "python" / "gpt_bytes.onnx")
    ids = np.random.default_rng(0).integers(0, 256, (8, 129))
    steps = 5
    compiled.train(tmp_path, {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}, steps, "--trace", tmp_path / "trace.json")
    share, overlapping = hidden_share(json.loads((tmp_path / "trace.json").read_text()))
    print(f"{share:.0%} of the all-reduces' time is beside products")
    assert overlapping >= 2 * steps, "on each of two ranks at least one all-reduce a step"


@pytest.mark.parametrize("variant", [
    pytest.param(v, marks=() if v in ("gpt2", "bert", "vit", "t5", "mixtral") else pytest.mark.whole) for v in h.FAMILIES])
def test_packing_is_tight(variant):
    """Offsets waste at most 2 % of the largest sum of live bytes."""
    worst = 0
    for mesh, (flags, _) in h.meshes_of(variant, {**h.MESHES, **h.MICRO}).items():
        text = h.checked(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", *flags, *TRAIN, "--to", "memory").stdout
        found = re.findall(r"exec\.memory = \{[^}]*bound = (\d+) : i64[^}]*peak = (\d+) : i64", text)
        assert len(found) == 3, "inference, training, training with clipping"
        worst = max([worst, *(int(peak) / int(bound) for bound, peak in found)])
    print(f"worst peak over bound of {variant}: {worst:.5f}")
    assert worst <= 1.02


def test_clipping_keeps_its_own_promise(program, tmp_path):
    compiled = program("gpt2", "dp2", TRAIN)
    assert_promise_kept(compiled.info("train_clipped"), stats_of(compiled, "gpt2", tmp_path, "train", False, "--clip-norm", "0.5"))
