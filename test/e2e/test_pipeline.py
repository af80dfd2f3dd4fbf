"""Pipelines: every schedule trains as one rank does, keeps its promises and saves every parameter once."""
import json

import numpy as np
import pytest

import harness as h

STEPS = 10
TRAIN = ("--train", "adamw")
ONE_CHUNK, TWO_CHUNKS = ("gpipe", "1f1b"), ("interleaved", "zero-bubble")


def pipe(stages, schedule, micro, *more):
    """Mesh name and its row of harness.PIPES."""
    name = "-".join(["pp", str(stages), schedule, str(micro), *(o.strip("-") for o in more)])
    ranks = stages
    for option, value in zip(more, more[1:]):
        if option in ("--dp", "--tp", "--sp"):
            ranks *= int(value)
    h.PIPES[name] = (("--pp", str(stages), "--pp-schedule", schedule, "--microbatches", str(micro), *more), ranks)
    return name


def cases():
    """(variant, mesh, in the sample)"""
    for schedule in ONE_CHUNK + TWO_CHUNKS:
        for stages in (2, 4):
            for micro in (2, 4, 8):
                if schedule == "interleaved" and micro % stages:
                    continue
                # The mlp has three layers and twelve samples, gpt2 a batch of four.
                if micro <= 4:
                    yield "gpt2", pipe(stages, schedule, micro), (stages, micro) == (2, 4) or (schedule == "1f1b" and stages == 4) or (schedule == "zero-bubble" and (stages, micro) == (2, 2))
                if stages == 2 and schedule in ONE_CHUNK:
                    yield "mlp", pipe(stages, schedule, micro), micro == 8
    for variant in ("gpt2", "llama", "bert", "vit"):
        yield variant, pipe(2, "1f1b", 2, "--dp", "2", "--tp", "2"), variant == "gpt2"
        yield variant, pipe(2, "gpipe", 4, "--tp", "2"), False
        yield variant, pipe(2, "zero-bubble", 2, "--tp", "2"), variant == "llama"
        yield variant, pipe(2, "interleaved", 4, "--dp", "2"), False
    for stage in (1, 2, 3):
        yield "gpt2", pipe(2, "1f1b", 2, "--dp", "2", "--zero", str(stage)), stage == 1
        yield "llama", pipe(2, "zero-bubble", 2, "--dp", "2", "--tp", "2", "--zero", str(stage)), stage == 3
    yield "gpt2", pipe(2, "1f1b", 2, "--sp", "2"), True
    yield "bert", pipe(2, "gpipe", 2, "--tp", "4", "--tp-mode", "2d"), False
    yield "gpt2", pipe(2, "interleaved", 2, "--tp", "2", "--sp-mode", "megatron"), False
    yield "gpt2", pipe(2, "1f1b", 1), False
    yield "gpt2", pipe(2, "1f1b", 3), True  # a batch of four does not divide


def parameters(pick=lambda sample: True):
    for variant, mesh, sample in cases():
        yield pytest.param(variant, mesh, id=f"{variant}-{mesh}", marks=() if sample else pytest.mark.whole)


def data_of(variant):
    names = h.input_names(variant)
    return h.training_data(variant, [*names, "labels"])


def losses(entries, key="loss"):
    return np.array([e[key] for e in entries])


@pytest.fixture(scope="session")
def alone(program, tmp_path_factory):
    """Losses and norms of one rank."""
    runs = {}

    def get(variant):
        if variant not in runs:
            folder = tmp_path_factory.mktemp(f"alone-{variant}")
            runs[variant] = program(variant, "1", TRAIN).train(folder, data_of(variant), STEPS, "--save", folder / "s.safetensors"), folder
        return runs[variant]

    return get


@pytest.mark.parametrize("variant,mesh", list(parameters()))
def test_trains_as_one_rank(program, alone, tmp_path, variant, mesh):
    """Losses, gradient norms, saved weights; memory and bytes sent as promised; nothing depends on threads or processes."""
    from safetensors.numpy import load_file

    compiled = program(variant, mesh, TRAIN)
    stats = tmp_path / "stats.json"
    entries = compiled.train(tmp_path, data_of(variant), STEPS, "--stats", stats, "--save", tmp_path / "s.safetensors")
    expected, folder = alone(variant)
    np.testing.assert_allclose(losses(entries), losses(expected), rtol=1e-5)
    np.testing.assert_allclose(losses(entries, "grad_norm"), losses(expected, "grad_norm"), rtol=1e-4)
    ours, theirs = load_file(tmp_path / "s.safetensors"), load_file(folder / "s.safetensors")
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    promised, measured = compiled.info("train"), json.loads(stats.read_text())
    for a, b in zip(promised["memory"], measured["memory"], strict=True):
        assert a["device"]["peak"] == b["device"]["peak"], f"rank {a['rank']}"
    assert promised["sent"] == measured["sent"]
    assert promised["sent"]["pipe"]["send"]["count"] > 0


def test_clips_as_one_rank(program, tmp_path):
    """The norm is over all stages, and so high that every step is clipped."""
    clip = ("--clip-norm", "0.05")
    runs = [program("gpt2", mesh, TRAIN).train(tmp_path / mesh, data_of("gpt2"), STEPS, *clip, "--stats", tmp_path / f"{mesh}.json")
            for mesh in ("1", pipe(2, "1f1b", 2, "--dp", "2"))]
    for key in ("loss", "grad_norm"):
        np.testing.assert_allclose(losses(runs[1], key), losses(runs[0], key), rtol=1e-5 if key == "loss" else 1e-4)
    assert min(losses(runs[0], "grad_norm")) > 0.05


def test_eight_stages_of_eight(tmp_path):
    """64 ranks are eight programs."""
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", tmp_path / "p.json", *TRAIN, "--pp", "8", "--tp", "8", "--microbatches", "4", "--to", "lower")
    programs = json.loads((tmp_path / "p.json").read_text())["programs"]
    assert sorted(p["stage"] for p in programs if p["name"] == "train") == list(range(8))


@pytest.mark.parametrize("variant", ["gpt2", "bert"])
def test_gathering_beside_a_step_changes_no_bit(program, tmp_path, variant):
    """Sums over two replicas are the same in any order, so only a kernel that takes in a conversion could move bf16."""
    runs = [losses(program(variant, pipe(2, "1f1b", 2, "--dp", "2", *zero), (*TRAIN, "--dtype", "bf16")).train(tmp_path / str(len(zero)), data_of(variant), 3)).tobytes()
            for zero in ((), ("--zero", "1"))]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("schedule", ONE_CHUNK + TWO_CHUNKS)
def test_inference(program, tmp_path, schedule):
    inputs = h.model_inputs("gpt2", ["input_ids"])
    compiled = program("gpt2", pipe(2, schedule, 2), TRAIN)
    h.assert_outputs_close(compiled.infer(tmp_path / "a", inputs), program("gpt2", "1", TRAIN).infer(tmp_path / "b", inputs))


def test_inference_only(program, tmp_path):
    inputs = h.model_inputs("gpt2", ["input_ids"])
    compiled = program("gpt2", pipe(4, "1f1b", 1), ())
    h.assert_outputs_close(compiled.infer(tmp_path / "a", inputs), program("gpt2", "1", TRAIN).infer(tmp_path / "b", inputs))


def test_same_bits_and_memory_under_mpirun(program, tmp_path):
    compiled = program("gpt2", pipe(2, "1f1b", 2, "--dp", "2", "--tp", "2"), TRAIN)
    texts = []
    for mpi in (False, True):
        folder = tmp_path / str(mpi)
        entries = compiled.train(folder, data_of("gpt2"), 3, "--threads", "1", "--save", folder / "s.safetensors", "--stats", folder / "stats.json", mpi=mpi)
        texts.append((losses(entries).tobytes(), (folder / "s.safetensors").read_bytes()))
        assert json.loads((folder / "stats.json").read_text())["memory"] == compiled.info("train")["memory"], "messages that are received ahead are part of the promise"
    assert texts[0] == texts[1]


@pytest.mark.parametrize("stages,micro", [(2, 4), (4, 4), (2, 2)])
def test_figures(program, stages, micro):
    gpipe, one = (program("gpt2", pipe(stages, s, micro), TRAIN).info("train") for s in ONE_CHUNK)
    bubble = (stages - 1) / (micro + stages - 1)
    assert gpipe["pipeline"]["bubble"] == bubble
    assert one["pipeline"]["bubble"] == bubble
    assert gpipe["pipeline"]["live_microbatches"] == [micro] * stages
    assert one["pipeline"]["live_microbatches"] == [min(stages - s, micro) for s in range(stages)]
    # 1F1B holds less than GPipe where most is held, and on the last rank. Their cuts need not be the same.
    peaks = [[m["device"]["peak"] for m in info["memory"]] for info in (gpipe, one)]
    assert max(peaks[1]) < max(peaks[0]) and peaks[1][-1] < peaks[0][-1]


def test_crossings(program):
    """A residual crosses a boundary once forward and once backward a microbatch; the tied embedding is exchanged once a step."""
    for stages, micro in ((2, 2), (2, 4)):
        sent = program("gpt2", pipe(stages, "1f1b", micro), TRAIN).info("train")["sent"]["pipe"]["send"]
        activation, table = 4 // micro * 32 * 64 * 4, 160 * 64 * 4
        total = 2 * (stages - 1) * micro * activation + 2 * table
        assert sent["bytes"] == total // stages


def test_checkpoint_resumes(program, tmp_path):
    compiled = program("gpt2", pipe(2, "1f1b", 2), TRAIN)
    data = data_of("gpt2")
    whole = compiled.train(tmp_path / "a", data, 6)
    compiled.train(tmp_path / "b", data, 3, "--checkpoint", tmp_path / "c", "--every", "3")
    folder = tmp_path / "d"
    h.checked(*compiled.command(*compiled.train_arguments(folder, data, 6, "--resume", tmp_path / "c", "--log", folder / "log.jsonl")))
    rest = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    np.testing.assert_array_equal(losses(rest), losses(whole)[3:])


def test_verify(tmp_path):
    result = h.tessera("verify", h.MODELS / "gpt2.onnx", "--pp", "2", "--microbatches", "2", "--tp", "2")
    assert result.returncode == 0, result.stderr


PLAN = """[mesh]
pipe = 2

[pipeline]
axis = "pipe"
schedule = "1f1b"
microbatches = 2
stages = {stages}
"""


def test_stages_by_globs(program, alone, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(stages='[["*transformer.h.0*"], ["*transformer.h.1*"]]'))
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", tmp_path / "p", *TRAIN, "--plan", plan)
    entries = h.Program(tmp_path / "p", 2).train(tmp_path / "run", data_of("gpt2"), STEPS)
    np.testing.assert_allclose(losses(entries), losses(alone("gpt2")[0]), rtol=1e-5)


@pytest.mark.parametrize("options,words", [
    (("--pp", "16"), ("10 layers", "16 stages", "at most 10")),
    (("--pp", "8", "--pp-schedule", "interleaved", "--microbatches", "4"), ("--microbatches 8",)),
    (("--pp", "2", "--microbatches", "5"), ("batch of 4", "5 microbatches", "at most 4")),
    (("--pp-schedule", "gpipe"), ("--pp N",)),
    (("--pp", "2", "--plan", '[["*transformer.h.1*"], ["*transformer.h.0*"]]'), ("plan.toml:8:", "cycle", "later lists only")),
    (("--pp", "2", "--plan", '[["*transformer.h.0*"], ["*transformer.k.1*"]]'), ("plan.toml:8:", "transformer.k.1", "the nearest is")),
    (("--pp", "2", "--plan", '[["*"], ["*transformer.h.1*"]]'), ("plan.toml:8:", "no operator of its own")),
    (("--pp", "2", "--plan", '[["*"], ["*"], ["*"]]'), ("plan.toml:4:", "2 here, not 3")),
    (("--pp", "2", "--plan", '"auto"\n[[op]]\nmatch = "*"\npattern = "column"\naxes = ["pipe"]'), ("plan.toml:9:", "which is the pipeline's")),
    (("--pp", "2", "--plan", '"auto"\n[zero]\nstage = 1\naxes = ["pipe"]'), ("plan.toml:9:", "which is the pipeline's")),
    (("--pp", "3", "--plan", '"auto"'), ("\"pipe\"", "size 3")),
])
def test_bad_pipelines(tmp_path, options, words):
    options = list(options)
    if "--plan" in options:
        plan = tmp_path / "plan.toml"
        plan.write_text(PLAN.format(stages=options[-1]))
        options[-1] = plan
    result = h.tessera("compile", h.MODELS / "gpt2.onnx", "-o", tmp_path / "p", *TRAIN, *options)
    h.assert_error(result, *words)


def test_too_few_layers_for_two_chunks_a_stage(tmp_path):
    result = h.tessera("compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", *TRAIN, "--pp", "3", "--pp-schedule", "interleaved", "--microbatches", "3")
    h.assert_error(result, "3 layers", "6 chunks", "schedule 1f1b can have up to 3 stages")


def test_unknown_schedule(tmp_path):
    result = h.tessera("compile", h.MODELS / "gpt2.onnx", "-o", tmp_path / "p", "--pp", "2", "--pp-schedule", "pipedream")
    h.assert_error(result, "pipedream", "1f1b", status=2)
