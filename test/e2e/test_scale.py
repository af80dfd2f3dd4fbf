"""Trainings whose batch grows with their ranks: `--sizes ... --on-resize scale`."""
import json
import os
import signal
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file

import harness as h

SCALE = ("--dp", "4", "--sizes", "1,2,4", "--on-resize", "scale", "--train", "adamw")
KEEP = ("--dp", "4", "--sizes", "1,2,4", "--train", "adamw")
CASES = {
    "gpt2": ("gpt2", ()),
    "gpt2-zero3": ("gpt2", ("--zero", "3", "--microbatches", "1")),
    "gpt2-pp": ("gpt2", ("--pp", "2")),
    "vit": ("vit", ()),
    "resnet": ("resnet", ()),
    "gpt2-bf16": ("gpt2", ("--dtype", "bf16")),
    "mlp-mse": ("mlp", ("--loss", "mse:logits", "--microbatches", "3")),
}


def samples_of(variant, inputs):
    return {name: array for name, array in h.part(h.reference(variant), "train.").items() if name in inputs}


def data(folder, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    given = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        given += ["--data", f"{name}={folder}/{name}.npy"]
    return given


def trained(path, folder, arrays, steps, *more, command=(), **options):
    """The lines of the log."""
    log = folder / "log.jsonl"
    words = [*command, path, "train", *data(folder, arrays), "--steps", steps, "--threads", "1", "--log", log, "--save", folder / "w.safetensors", *more]
    h.checked(*words, **options)
    return [json.loads(line) for line in log.read_text().splitlines()]


def inputs_of(program):
    return {i["name"]: i["shape"][0] for i in program.info("train")["inputs"]}


@pytest.mark.parametrize("case", CASES)
def test_a_part_of_the_batch_is_trained_on_as_its_copies_would_be(program, tmp_path, case):
    variant, options = CASES[case]
    scales, keeps = program(variant, options=(*SCALE, *options)), program(variant, options=(*KEEP, *options))
    inputs = inputs_of(scales)
    rows, arrays = next(iter(inputs.values())), samples_of(variant, inputs)
    if variant in ("vit", "resnet"):  # a batch without a label has no mean
        arrays["labels"] = np.abs(arrays["labels"]) % 10
    for size in (1, 2):
        part, copies = rows * size // 4, 4 // size
        steps = len(next(iter(arrays.values()))) // part
        # The other program's batch is the same part again and again.
        repeated = {n: np.concatenate([np.concatenate([a[s * part:(s + 1) * part]] * copies) for s in range(steps)]) for n, a in arrays.items()}
        theirs = trained(keeps.path, tmp_path / f"keep{size}", repeated, steps, "--size", size, "--lr", "1e-3")
        ours = trained(scales.path, tmp_path / f"scale{size}", arrays, -(-steps * size // 4),
                       "--size", size, "--lr", "1e-3", "--lr-scaling", "none")[:steps]
        exact = case != "gpt2-bf16"
        np.testing.assert_allclose([line["loss"] for line in ours], [line["loss"] for line in theirs], rtol=1e-5 if exact else 1e-3)
        ends = [load_file(tmp_path / f"{rule}{size}" / "w.safetensors") for rule in ("keep", "scale")]
        for name in ends[0] if exact and variant != "gpt2" else ():
            np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=1e-3, atol=1e-4, err_msg=name)
        assert [line["samples"] for line in ours] == [part * (s + 1) for s in range(steps)]
        assert all(line["lr"] == 1e-3 for line in ours)


def test_the_largest_size_is_the_models(program, tmp_path):
    scales, keeps = program("gpt2", options=SCALE), program("gpt2", options=KEEP)
    arrays = samples_of("gpt2", inputs_of(scales))
    ours = trained(scales.path, tmp_path / "scale", arrays, 3, "--schedule", "cosine", "--warmup", "2")
    theirs = trained(keeps.path, tmp_path / "keep", arrays, 3, "--schedule", "cosine", "--warmup", "2", "--on-resize", "keep")
    assert [(o["loss"], o["lr"]) for o in ours] == [(t["loss"], t["lr"]) for t in theirs]
    assert (tmp_path / "scale" / "w.safetensors").read_bytes() == (tmp_path / "keep" / "w.safetensors").read_bytes()
    assert "samples" not in theirs[0]


def test_what_is_promised_is_measured(program, tmp_path):
    scales = program("gpt2", options=SCALE)
    arrays = samples_of("gpt2", inputs_of(scales))
    for size in ("1", "2"):
        stats = tmp_path / f"{size}.json"
        trained(scales.path, tmp_path / size, arrays, 2, "--size", size, "--stats", stats)
        measured, promised = json.loads(stats.read_text()), json.loads(h.checked(scales.path, "info", "--json", "--program", "train", "--size", size).stdout)
        assert measured["sent"] == promised["sent"] and promised["on_resize"] == "scale"
        assert [m["device"]["peak"] for m in measured["memory"]] == [m["device"]["peak"] for m in promised["memory"]]
    said = h.checked(scales.path, "info", "--program", "train", "--size", "2").stdout
    assert "each rank with as much of the batch" in said and "of the first 1/2 of the batch" in said


def test_resizes_lose_no_sample(program, tmp_path):
    """In the process, and by a start from its checkpoint: the same steps of the same samples with the same rates."""
    scales = program("mlp", options=SCALE)
    inputs = inputs_of(scales)
    rows, arrays = next(iter(inputs.values())), samples_of("mlp", inputs)
    more = ["--lr", "1e-2", "--warmup", "3", "--schedule", "linear", "--ramp", str(rows * 2), "--shuffle", "--steps", "24", "--threads", "1"]
    checkpoints, log, weights = tmp_path / "checkpoints", tmp_path / "log.jsonl", tmp_path / "w.safetensors"
    words = [scales.path, "train", *data(tmp_path, arrays), *more, "--log", log, "--save", weights, "--checkpoint", checkpoints, "--every", "500"]
    run = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env={**h.marked(tmp_path), "TESSERA_STEP_SECONDS": "0.05"})
    for done, size in ((4, 1), (14, 2), (20, 4)):
        assert h.wait_until(lambda done=done: log.exists() and log.read_text().count("\n") >= done, 30), run.poll()
        (checkpoints / "new").write_text(f"size = {size}\n")
        os.rename(checkpoints / "new", checkpoints / "control")
        assert h.wait_until(lambda: not (checkpoints / "control").exists(), 20)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and out.count("resized to ") == 3, err
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    taken = np.diff([0] + [line["samples"] for line in lines]).tolist()
    assert set(taken) == {rows // 4, rows // 2, rows} and 24 * rows <= sum(taken) < 25 * rows
    # Each stretch again, as a start of its own with that size.
    again = tmp_path / "again"
    begins = [i for i in range(len(taken)) if i == 0 or taken[i] != taken[i - 1]]
    for begin, end in zip(begins, [*begins[1:], len(taken)]):
        words = [scales.path, "train", *data(tmp_path, arrays), *more, "--log", again.with_suffix(".jsonl"), "--save", again.with_suffix(".safetensors"),
                 "--checkpoint", again, "--every", end, "--continue", "--slots", "1", "--size", 4 * taken[begin] // rows]
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**h.marked(tmp_path), "TESSERA_STEP_SECONDS": "0.05"})
        if end < len(taken):
            assert h.wait_until(lambda end=end: (again / f"step-{end:09d}").exists(), 30), process.poll()
            process.send_signal(signal.SIGKILL)
        assert process.wait(60) in (0, -signal.SIGKILL), process.stderr.read()
    keys = ("step", "loss", "lr", "samples")
    assert [[json.loads(line)[k] for k in keys] for line in again.with_suffix(".jsonl").read_text().splitlines()] == [[line[k] for k in keys] for line in lines]
    assert again.with_suffix(".safetensors").read_bytes() == weights.read_bytes()


def test_a_finished_one_is_finished(program, tmp_path):
    scales = program("mlp", options=SCALE)
    arrays = samples_of("mlp", inputs_of(scales))
    checkpoints = ["--checkpoint", tmp_path / "c", "--every", "1", "--continue", "--size", "1"]
    assert len(trained(scales.path, tmp_path / "a", arrays, 2, *checkpoints)) == 8
    trained(scales.path, tmp_path / "a", arrays, 2, *checkpoints)
    result = h.run(scales.path, "train", *data(tmp_path, arrays), "--steps", "1", *checkpoints)
    h.assert_error(result, "beyond --steps 1 of 12 samples: there is nothing left to do")


def test_what_cannot_be(program, tmp_path):
    scales, keeps = program("mlp", options=SCALE), program("mlp", options=KEEP)
    given = ["train", *data(tmp_path, samples_of("mlp", inputs_of(scales))), "--steps", "1"]
    h.assert_error(h.run(keeps.path, *given, "--on-resize", "scale"), "compiled to keep its batch; compile it with --sizes 1,2,4 --on-resize scale", status=2)
    h.assert_error(h.run(scales.path, *given, "--on-resize", "keep"), "compile it without --on-resize scale", status=2)
    h.assert_error(h.run(scales.path, *given, "--on-resize", "both"), "--on-resize is keep or scale, not 'both'", status=2)
    h.assert_error(h.run(keeps.path, *given, "--ramp", "8"), "--ramp has no meaning here: the batch stays the same on any number of ranks; compile the model with --sizes", status=2)
    h.assert_error(h.run(scales.path, *given, "--ramp", "-1"), "--ramp is -1, at least 0 is expected", status=2)
    h.assert_error(h.run(scales.path, *given, "--max-lr", "x"), "--max-lr needs a number, not 'x'", status=2)
    h.assert_error(h.run(scales.path, *given, "--lr-scaling", "cubic"), "--lr-scaling is linear, sqrt or none, not 'cubic'", status=2)
    h.compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--train", "sgd", "--dp", "4", "--on-resize", "scale", words=("give --sizes, too",))
    h.compile_fails(tmp_path, h.MODELS / "mlp.onnx", "--train", "sgd", "--dp", "4", "--sizes", "1,4", "--on-resize", "grow", words=("expected keep or scale",), status=2)


def test_a_plan_says_it(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(h.checked(h.TESSERA, "plan", h.MODELS / "mlp.onnx", *SCALE).stdout)
    assert 'on_resize = "scale"' in plan.read_text()
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", "--train", "adamw", "--plan", plan, "-o", tmp_path / "p")
    assert json.loads(h.checked(tmp_path / "p", "info", "--json").stdout)["on_resize"] == "scale"
    # Text is of one size, and takes as many samples as that.
    h.checked(h.TESSERA, "compile", h.MODELS / "mlp.onnx", *("--dp", "2", *SCALE[2:]), "--to", "memory", "-o", tmp_path / "p.mlir")
    h.checked(h.TESSERA, "compile", tmp_path / "p.mlir", "-o", tmp_path / "half")
    lines = trained(tmp_path / "half", tmp_path / "t", samples_of("mlp", {"x", "labels"}), 2)
    assert [line["samples"] for line in lines] == [6, 12, 18, 24]
