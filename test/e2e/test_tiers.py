"""Programs below a cap of the device's memory: the same bits as without one, and what is promised of both tiers is what is measured."""
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import gpu
import harness as h

STEPS = 3
CAPS = (0, 0.2, 0.4, 0.6, 0.8)  # from the least possible (0) to what the program takes without a cap (1)
MESHES = {
    "1": (), "dp2": ("--dp", "2"), "tp2": ("--tp", "2"), "dp2zero1": ("--dp", "2", "--zero", "1"), "dp2zero3": ("--dp", "2", "--zero", "3"),
    "micro2": ("--microbatches", "2"), "ring2": ("--sp", "2"), "pp2": ("--pp", "2", "--microbatches", "2"), "ep2": ("--ep", "2"),
    "dp3zero2": ("--dp", "3", "--zero", "2"),  # three pieces of a value have padding, which its home has not
}
CASES = [(variant, mesh, optimizer) for variant in ("gpt2", "llama", "bert", "vit", "t5", "mixtral", "bart")
         for mesh in MESHES if mesh != "ep2" or variant == "mixtral" for optimizer in ("adamw", "sgd")]
SAMPLE = {("gpt2", "1", "adamw"), ("gpt2", "micro2", "adamw"), ("bert", "dp2zero1", "adamw"), ("gpt2", "dp2zero3", "adamw"), ("bert", "tp2", "sgd"), ("mixtral", "ep2", "adamw"), ("llama", "pp2", "adamw"), ("bart", "dp3zero2", "adamw")}
SAMPLE |= {("llama", "dp3zero2", "adamw")}  # what the fullest program keeps on the device leaves another one no room


ALONE = ("--recompute", "none")  # what is made again is test_recompute.py's


def compile_to(path, variant, mesh, *options):
    h.checked(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", "-o", path, *h.bindings(variant), *MESHES[mesh], *options, *ALONE)
    ranks = int(np.prod([n for n in json.loads(h.checked(path, "info", "--json").stdout)["mesh"].values()]))
    return h.Program(path, ranks)


def trained(program, folder, variant, *options):
    """The log without its seconds, the weights, and what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    log = program.train(folder, data, STEPS, "--save", folder / "w.safetensors", "--stats", folder / "stats.json", *options)
    return ([(e["loss"], e["grad_norm"]) for e in log], (folder / "w.safetensors").read_bytes(), json.loads((folder / "stats.json").read_text()))


def least_possible(variant, mesh, *options):
    """Bytes of the device that the compiler says no plan can do without, of its fullest program."""
    result = h.run(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", "-o", "/dev/null", "--to", "lower", *h.bindings(variant), *MESHES[mesh],
                   "--device-memory", "1", *options, *ALONE)
    h.assert_error(result, "of device memory a rank, --device-memory is 1 bytes", notes="the least possible")
    return int(re.search(r"the least possible for this plan is .*?(\d+) bytes\)? on the device", result.stderr)[1])


def assert_kept(program, stats, cap):
    promised = program.info("train")
    for ours, theirs in zip(promised["memory"], stats["memory"], strict=True):
        for tier in ("device", "host"):
            assert ours[tier]["peak"] == theirs[tier]["peak"], tier
            assert sum(v for k, v in theirs[tier].items() if k not in ("peak", "capacity")) == theirs[tier]["peak"]
        assert theirs["device"]["peak"] <= cap
    assert promised["moved"] == stats["moved"]
    assert promised["sent"] == stats["sent"]


def caps_of(variant, mesh, full, *options):
    """From a little above what is least: packing loses something, in pipelines most."""
    lowest = (1.25 if mesh == "pp2" else 1.1) * least_possible(variant, mesh, *options)
    most = max(rank["device"]["peak"] for rank in full.info("train")["memory"])
    return [int(lowest + part * max(0, most - lowest)) for part in CAPS], most


@pytest.mark.parametrize("variant,mesh,optimizer", [
    pytest.param(*case, marks=() if case in SAMPLE else pytest.mark.whole) for case in CASES])
def test_same_bits_below_caps(tmp_path, variant, mesh, optimizer):
    train = ("--train", optimizer)
    full = compile_to(tmp_path / "full", variant, mesh, *train)
    log, weights, _ = trained(full, tmp_path / "f", variant)
    caps, most = caps_of(variant, mesh, full, *train)
    for cap in caps if h.ALL else caps[:1]:
        capped = compile_to(tmp_path / "capped", variant, mesh, *train, "--device-memory", cap)
        log_here, weights_here, stats = trained(capped, tmp_path / "c", variant, "--device-memory", str(cap))
        assert log_here == log and weights_here == weights, f"cap {cap} of {most}"
        assert_kept(capped, stats, cap)
        assert cap >= most or stats["moved"]["host_to_device"] > 0


def stages(folder, cap, *before):
    """GPT-2 in six stages, of which the first and the last have the embedding in common; the text of its programs, or the refusal."""
    subprocess.run([sys.executable, h.MODELS / "shapes.py", "gpt2", folder / "gpt2.onnx"], check=True, capture_output=True)
    result = h.run(*before, h.TESSERA, "compile", folder / "gpt2.onnx", "--to", "memory", "-o", folder / "text.mlir", "--bind", "batch=8", "--bind", "seq=256",
                   "--train", "adamw", "--pp", "6", "--microbatches", "4", "--threads", "1", "--device-memory", cap)
    return (folder / "text.mlir").read_text() if result.returncode == 0 else result


def test_stages_are_fitted_alike_by_any_number_of_threads(tmp_path):
    """Stages are fitted several at a time, and learn from those before them alone."""
    several = stages(tmp_path, "760MiB")
    assert "dist.prefetch_start" in several or "exec.copy" in several
    assert len(os.sched_getaffinity(0)) > 1, "one core tells nothing"
    assert several == stages(tmp_path, "760MiB", "taskset", "-c", str(min(os.sched_getaffinity(0))))


def test_a_program_without_room_beside_what_others_decided(tmp_path):
    """The last stage's 'train' would put the embedding's state on the host; what then comes up at a time for the first stage is more than
    without. So the first stage decides."""
    text = stages(tmp_path, "700MiB")
    assert isinstance(text, str), text.stderr


@pytest.mark.parametrize("what", ["optimizer", "parameters", "activations", "optimizer,parameters"])
def test_only_what_may_leave(tmp_path, what):
    """Each kind of value by itself, and what may not leave stays on the device."""
    options = ("--train", "adamw", "--offload", what)
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    log, weights, _ = trained(full, tmp_path / "f", "gpt2")
    most = full.info("train")["memory"][0]["device"]["peak"]
    result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--device-memory", most - 1, *options, *ALONE)
    if result.returncode:  # the fullest moment has nothing of this kind that may leave
        h.assert_error(result, "of device memory a rank", notes="--offload=auto may move more")
        return
    capped = compile_to(tmp_path / "capped", "gpt2", "1", "--device-memory", most - 1, *options)
    log_here, weights_here, stats = trained(capped, tmp_path / "c", "gpt2")
    assert log_here == log and weights_here == weights
    assert_kept(capped, stats, most - 1)
    host = stats["memory"][0]["host"]
    kinds = {"gradients": "activations", "workspace": None}  # what packing loses counts as workspace
    assert host["peak"] > 0 and all(kinds.get(k, k) is None or kinds.get(k, k) in what for k, v in host.items() if k not in ("peak", "capacity") and v)


@pytest.mark.parametrize("options", [("--clip-norm", "0.5"), ("--trace", "trace.json"), ("--profile",)])
def test_other_programs_and_options(tmp_path, options):
    """The clipped program has transfers of its own; who looks at single operations gets the same."""
    options = tuple(str(tmp_path / o) if o.endswith(".json") else o for o in options)
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    cap = caps_of("gpt2", "1", full, "--train", "adamw")[0][0]
    capped = compile_to(tmp_path / "capped", "gpt2", "1", "--train", "adamw", "--device-memory", cap)
    assert trained(full, tmp_path / "f", "gpt2", *options)[:2] == trained(capped, tmp_path / "c", "gpt2", *options)[:2]


def test_inference_under_a_cap(tmp_path):
    """`infer` finds parameters where training rests them, and keeps the cap too; so does a program for inference alone."""
    inputs = h.model_inputs("gpt2", h.input_names("gpt2"))
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    want = full.infer(tmp_path / "f", inputs)
    cap = caps_of("gpt2", "1", full, "--train", "adamw")[0][0]
    for train in (("--train", "adamw"), ()):
        limit = cap if train else int(0.93 * compile_to(tmp_path / "i", "gpt2", "1").info()["memory"][0]["device"]["peak"])
        capped = compile_to(tmp_path / "capped", "gpt2", "1", *train, "--device-memory", limit)
        got = capped.infer(tmp_path / "c", inputs, "--stats", tmp_path / "stats.json")
        assert all(np.array_equal(want[name], got[name]) for name in want)
        assert json.loads((tmp_path / "stats.json").read_text())["memory"][0]["device"]["peak"] <= limit


def test_resume_under_another_cap(tmp_path):
    """State lies in other places; checkpoints and weights are the same."""
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    cap = caps_of("gpt2", "1", full, "--train", "adamw")[0][0]
    capped = compile_to(tmp_path / "capped", "gpt2", "1", "--train", "adamw", "--device-memory", cap)
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    straight = trained(full, tmp_path / "f", "gpt2")[1]
    folder = tmp_path / "ckpt"
    capped.train(tmp_path / "a", data, 2, "--checkpoint", folder, "--every", "2")
    h.checked(*full.command(*full.train_arguments(tmp_path / "b", data, STEPS, "--resume", folder, "--save", tmp_path / "w")))
    assert (tmp_path / "w").read_bytes() == straight


def test_on_gpus(tmp_path):
    """The checking driver runs copies as late, and as early, as their events allow: the bits of the program without a cap, in each step, recorded ones too."""
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])

    def run(name, *options):
        return gpu.trained_late_and_early(tmp_path / name, data, h.MODELS / "gpt2.onnx", "--train", "adamw", *ALONE, *options)

    full, (losses, weights, stats) = run("full")
    cap = stats["memory"][0]["device"]["peak"] // 2
    capped, (losses_here, weights_here, stats) = run("capped", "--device-memory", cap)
    assert losses_here == losses and weights_here == weights
    assert_kept(capped, stats, cap)
    assert stats["moved"]["host_to_device"] > 0


LOOPED = ("--train", "adamw", "--microbatches", "4")


@pytest.mark.parametrize("options", [(), ("--recompute", "auto"), ("--dp", "2", "--zero", "3"), ("--dtype", "bf16"), "plan", "nvme"], ids=str)
def test_in_each_turn(tmp_path, options):
    """Below what fits while all that turns read is on the device, values move in each turn of the loop over microbatches: the same bits, and as many
    bytes as turns; with whatever else changes where values are."""
    others = options if isinstance(options, tuple) and "--recompute" not in options else ()
    full = compile_to(tmp_path / "full", "gpt2", "1", *LOOPED, *others)
    log, weights, _ = trained(full, tmp_path / "f", "gpt2")
    cap = int(1.1 * least_possible("gpt2", "1", *LOOPED, *others))
    arguments = [h.MODELS / "gpt2.onnx", *LOOPED, *(options if isinstance(options, tuple) else ())]
    cap_at = ("--device-memory", cap)
    if options == "plan":
        (tmp_path / "plan.toml").write_text(h.checked(h.TESSERA, "plan", *arguments, *cap_at, *ALONE).stdout)
        cap_at = ("--plan", tmp_path / "plan.toml")
    elif options == "nvme":
        cap_at += ("--host-memory", "900KiB", "--nvme", f"{tmp_path}:1GiB")
    result = h.checked(h.TESSERA, "compile", *arguments, *cap_at, *(() if options in ("plan", ("--recompute", "auto")) else ALONE), "-o", tmp_path / "capped",
                       "--dump-phases", tmp_path / "phases")
    if options != "plan":
        assert re.search(r"program 'train' takes .* of them in each of 4 turns of the loop", result.stderr)
    # So do sums: the host makes what they begin with, before the loop.
    text = next((tmp_path / "phases").glob("*memory*")).read_text().split("func.func @train(")[1]
    before, turns = text.split("\n    exec.loop 4 {\n")[:2]
    below = set(re.findall(r'exec.host_call "fill"\((%\d+)\)', before))
    turns = turns.split("\n    }")[0]
    assert below and below == set(re.findall(r"exec.copy (%\d+) to", turns)) & set(re.findall(r"exec.copy %\d+ to (%\d+)", turns)) & below
    capped = h.Program(tmp_path / "capped", full.ranks)
    log_here, weights_here, stats = trained(capped, tmp_path / "c", "gpt2")
    assert log_here == log and weights_here == weights
    assert_kept(capped, stats, cap)
    assert options != "nvme" or stats["moved"]["nvme_read"] > 0


def test_explained_by_turns():
    result = h.checked(h.TESSERA, "explain", h.MODELS / "gpt2.onnx", *LOOPED, "--device-memory", int(1.05 * least_possible("gpt2", "1", *LOOPED)), *ALONE)
    assert "comes up in each of 4 turns of the loop, and is on the host when one begins and when it ends" in result.stdout
    assert re.search(r"host, in each of 4 turns down in .* us, up in .* us;", result.stdout)


def test_each_turn_on_gpus(tmp_path):
    """Copies in a loop, as late and as early as the checking driver can run them, in recorded steps too."""
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])

    def run(name, *options):
        return gpu.trained_late_and_early(tmp_path / name, data, h.MODELS / "gpt2.onnx", *LOOPED, *ALONE, *options)

    full, (losses, weights, stats) = run("full")
    cap = int(0.45 * stats["memory"][0]["device"]["peak"])
    capped, (losses_here, weights_here, stats) = run("capped", "--device-memory", cap)
    assert losses_here == losses and weights_here == weights
    assert_kept(capped, stats, cap)
    phase, = (tmp_path / "capped" / "phases").glob("*-memory.mlir")
    bodies = re.findall(r"\n    exec\.loop 4 {\n(.*?)\n    }", phase.read_text(), re.DOTALL)
    assert all("exec.copy" in body for body in bodies) and bodies


def test_host_cap(tmp_path):
    """What does not fit into the host is refused with both numbers; what does keeps both caps."""
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    cap = caps_of("gpt2", "1", full, "--train", "adamw")[0][1]
    free = compile_to(tmp_path / "free", "gpt2", "1", "--train", "adamw", "--device-memory", cap)
    took = free.info("train")["memory"][0]["host"]["peak"]
    result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--train", "adamw",
                   "--device-memory", cap, "--host-memory", "1KiB", *ALONE)
    h.assert_error(result, "--host-memory is 1.0 KiB (1024 bytes)", notes="does not fit into --host-memory")
    limit = int(1.02 * took)  # packing loses something
    both = compile_to(tmp_path / "both", "gpt2", "1", "--train", "adamw", "--device-memory", cap, "--host-memory", limit)
    stats = trained(both, tmp_path / "b", "gpt2")[2]["memory"][0]
    assert stats["host"]["peak"] <= limit and stats["device"]["peak"] <= cap


@pytest.mark.parametrize("policy", ["patrickstar", "elixir", "zero-offload", "lru", "belady"])
def test_policies(tmp_path, policy):
    """What is there for comparisons computes the same, within the same cap, or says that its rule finds no room."""
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    log, weights, _ = trained(full, tmp_path / "f", "gpt2")
    most = full.info("train")["memory"][0]["device"]["peak"]
    found = 0
    for cap in (2 * most, int(0.95 * most), int(0.8 * most)):
        options = ("--train", "adamw", "--device-memory", cap, "--tier-policy", policy)
        result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", *options)
        if result.returncode:
            h.assert_error(result, "of device memory a rank", notes=f"by the rule of '{policy}' nothing was found that fits")
            continue
        found += 1
        capped = compile_to(tmp_path / f"capped{cap}", "gpt2", "1", *options)
        log_here, weights_here, stats = trained(capped, tmp_path / f"c{cap}", "gpt2")
        assert log_here == log and weights_here == weights
        assert_kept(capped, stats, cap)
    assert found


@pytest.mark.parametrize("options,words", [
    (("--device-memory", "0"), "--device-memory=0: expected a size above 0"),
    (("--device-memory=-1GiB",), "--device-memory=-1GiB: expected a size above 0"),
    (("--device-memory", "much"), "--device-memory=much: expected a size above 0"),
    (("--device-memory", "9223372036854775808"), "expected a size above 0"),
    (("--device-memory=",), "--device-memory=: expected SIZE, or leave the option out"),
    (("--host-memory", "1GiB"), "--host-memory=1GiB: needs --device-memory"),
    (("--offload", "optimizer"), "--offload=optimizer: needs --device-memory"),
    (("--tier-policy", "lru"), "--tier-policy=lru: needs --device-memory"),
    (("--device-memory", "1GiB", "--tier-policy", "fifo"), "--tier-policy=fifo: expected one of planned patrickstar elixir zero-offload lru belady"),
    (("--device-memory", "1GiB", "--offload", "weights"), "--offload=weights: expected none, auto, or a list of optimizer, parameters, activations"),
])
def test_bad_options(options, words):
    h.assert_error(h.run(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "-o", "/dev/null", "--to", "lower", *options), words, status=2)


def test_no_room_to_pack():
    """At the least possible itself packing has no room: said, rather than a program above the cap."""
    cap = least_possible("gpt2", "1", "--train", "adamw")
    result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--train", "adamw", "--device-memory", cap, *ALONE)
    h.assert_error(result, "of device memory a rank", notes="packing buffers takes a few percent more than the least")


def test_refusals_are_quick():
    """Below the least possible: an error within seconds, whatever could be tried."""
    def refused(cap):
        before = h.processor_seconds()
        result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--train", "adamw", "--device-memory", cap)
        assert h.processor_seconds() - before < 10
        h.assert_error(result, "of device memory a rank", notes="the least possible for this plan is")
        return int(re.search(r"the least possible for this plan is .*?(\d+) bytes\)? on the device", result.stderr)[1])

    least = refused(1)
    assert refused(least // 2) == refused(least - 1) == least


def test_no_search_for_others(tmp_path):
    """The program that trains fits after a long search; that for inference, of the whole batch, has no room for its logits whatever is moved."""
    model = tmp_path / "gpt2.onnx"
    h.checked(sys.executable, h.MODELS / "shapes.py", "gpt2", model)
    before = h.processor_seconds()
    result = h.run(h.TESSERA, "compile", model, "-o", "/dev/null", "--to", "memory", "--train", "adamw", "--bind", "batch=8", "--bind", "seq=512",
                   "--microbatches", 8, "--target", "cuda", "--machine", h.ROOT / "tools" / "machines" / "a100.toml", "--device-memory", "700MiB")
    assert h.processor_seconds() - before < 30  # 2 by itself; where it is searched for the other first it is 145
    h.assert_error(result, "program 'infer' needs", notes="more ranks may need less")


def test_other_plans_and_what_they_need():
    """What more microbatches, state in pieces and more ranks would need at the least: each is told the same of itself."""
    two = ("--dp", "2")
    result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--train", "adamw", *two, "--device-memory", "1", *ALONE)
    h.assert_error(result, "of device memory a rank")
    told = dict(re.findall(r"note: with (?:twice the ranks, )?(--.*?) the least possible is .*?(\d+) bytes\)? on the device", result.stderr))
    assert {"--microbatches=4", "--zero=3", "--tp=2", "--dp=4 --zero=3"} <= told.keys(), result.stderr
    for change, least in told.items():
        options = change.replace("=", " ").split()
        assert int(least) == least_possible("gpt2", "1", "--train", "adamw", *(() if "--dp" in options else two), *options)


def test_offload_none(tmp_path):
    """Needed, given, least possible, and what would help."""
    result = h.run(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--train", "adamw",
                   "--device-memory", "1100KiB", "--offload", "none", *ALONE)
    h.assert_error(result, "of device memory a rank, --device-memory is 1.1 MiB", notes="the least possible")
