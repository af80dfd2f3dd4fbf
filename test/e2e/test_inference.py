"""Inference of every exported model, on every mesh, in threads and under mpirun, against ONNX Runtime."""
import pytest

import harness as h


SPINE = ("gpt2", "llama", "bert", "vit")


def sampled(variant, mesh, mpi):
    """Whether the default run has this case; with --all every case runs."""
    spine = variant in SPINE
    if mesh == "1":
        return True
    if mpi:
        return mesh == "dp2tp2" and (spine or variant in ("mixtral", "t5"))
    return (mesh == "tp2" and spine or mesh in ("tp4", "tp3", "dp3") and variant in ("gpt2", "bert")
            or mesh == "dp2tp2" and variant in h.FAMILIES or mesh == "ep2" and variant == "mixtral")


def cases():
    for variant, family in h.VARIANTS.items():
        for mesh, (_, ranks) in h.meshes_of(family, {**h.MESHES, **h.UNEVEN}).items():
            if family == "mlp" and "tp" in mesh:
                continue  # no transformer block that the recipe could find
            for mpi in (False, True) if ranks > 1 else (False,):
                marks = () if sampled(variant, mesh, mpi) else pytest.mark.whole
                yield pytest.param(variant, mesh, mpi, id=f"{variant}-{mesh}-{'mpi' if mpi else 'threads'}", marks=marks)


@pytest.mark.parametrize("variant,mesh,mpi", list(cases()))
def test_matches_onnx_runtime(program, tmp_path, variant, mesh, mpi):
    inputs = h.model_inputs(variant, h.input_names(variant))
    expected = h.onnxruntime_outputs(h.MODELS / f"{variant}.onnx", inputs)
    # With the training options where a test of training finds the program in the cache.
    trained = mesh == "1" and variant in h.FAMILIES or variant in SPINE
    ours = program(variant, mesh, ("--train", "adamw") if trained else ()).infer(tmp_path, inputs, mpi=mpi)
    h.assert_outputs_close(ours, expected)


def test_outputs_match_torch(program, tmp_path):
    ours = program("gpt2", options=("--train", "adamw")).infer(tmp_path, h.model_inputs("gpt2", ["input_ids"]))
    h.assert_outputs_close(ours, {"logits": h.reference("gpt2")["out.logits"]})


@pytest.mark.parametrize("variant", ["bert", "gpt2_mask", "gpt2_ts", "llama_dyn"])
def test_ragged_masks(program, tmp_path, variant):
    inputs = h.model_inputs(variant, h.input_names(variant))
    inputs["attention_mask"] = h.reference("bert")["in.attention_mask"]
    expected = h.onnxruntime_outputs(h.MODELS / f"{variant}.onnx", inputs)
    options = ("--train", "adamw") if variant in h.FAMILIES else ()
    h.assert_outputs_close(program(variant, "1", options).infer(tmp_path, inputs), expected)


@pytest.mark.parametrize("batch,seq,mesh", [(5, 17, "dp2"), (3, 20, "tp2"), (2, 33, "1")])
def test_sizes_that_the_mesh_does_not_divide(tmp_path, batch, seq, mesh):
    import numpy as np

    flags, ranks = h.MESHES[mesh]
    model = h.MODELS / "gpt2_dyn.onnx"
    h.checked(h.TESSERA, "compile", model, "-o", tmp_path / "p", "--bind", f"batch={batch}", "--bind", f"seq={seq}", *flags)
    rng = np.random.default_rng(0)
    inputs = {"input_ids": rng.integers(0, 160, (batch, seq)), "attention_mask": np.ones((batch, seq), np.int64)}
    ours = h.Program(tmp_path / "p", ranks).infer(tmp_path / "run", inputs)
    h.assert_outputs_close(ours, h.onnxruntime_outputs(model, inputs))


def test_external_data(tmp_path):
    import onnx

    model = onnx.load(h.MODELS / "gpt2.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=1024)
    h.checked(h.TESSERA, "compile", tmp_path / "m.onnx", "-o", tmp_path / "p")
    inputs = h.model_inputs("gpt2", ["input_ids"])
    ours = h.Program(tmp_path / "p", 1).infer(tmp_path / "run", inputs)
    h.assert_outputs_close(ours, h.onnxruntime_outputs(h.MODELS / "gpt2.onnx", inputs))


def test_executable_runs_from_any_folder(program, tmp_path):
    """The executable needs neither the build tree nor the folder it was made in, only its weights beside it."""
    import shutil

    built = program("gpt2", options=("--train", "adamw")).path
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("program", "program.safetensors"):
        shutil.copy(built.parent / name, moved / name)
    inputs = h.model_inputs("gpt2", ["input_ids"])
    ours = h.Program(moved / "program", 1).infer(tmp_path / "run", inputs)
    h.assert_outputs_close(ours, {"logits": h.reference("gpt2")["out.logits"]})
    needed = h.checked("ldd", moved / "program").stdout
    assert str(h.BUILD) not in needed and "MLIR" not in needed and "libmpi" not in needed and "python" not in needed
