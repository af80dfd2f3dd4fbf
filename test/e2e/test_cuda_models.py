"""Every model, mesh, recipe and mix of patterns of the suite for NVIDIA's GPUs: it trains on the checking driver as one rank of the CPU does, sends
what it promises, and its kernels assemble for sm_80 and sm_90 without spills. By default one and the PTX of GPT-2; the others are three quarters of an hour."""
import hashlib
import json

import numpy as np
import pytest

import gpu
import harness as h
import test_mixes
import test_patterns
import test_pipeline
import test_spatial

CHIPS = ("sm_80", "sm_90")
ADAMW = ("--train", "adamw")


def cases():
    """(id, variant, options, plan, in the sample)"""
    for variant in h.VARIANTS:
        yield variant, variant, (), None, False
    for mesh, (flags, ranks) in h.ALL_MESHES.items():
        if ranks > 1 or "micro" in mesh:
            yield f"gpt2 {mesh}", "gpt2", flags, None, False
            if "tp" not in mesh:
                yield f"mlp {mesh}", "mlp", flags, None, False
    for variant in ("llama", "bert", "vit", "t5", "resnet", "convnext"):
        for mesh in ("tp3", "dp2tp2"):
            yield f"{variant} {mesh}", variant, h.ALL_MESHES[mesh][0], None, False
    for variant in h.EXPERT_MODELS:
        for mesh, (flags, _) in h.EXPERT_MESHES.items():
            yield f"{variant} {mesh}", variant, flags, None, False
    for recipe, sample in test_patterns.RECIPES.items():
        variant = (sample or (("mixtral",) if "--ep" in recipe else ("gpt2",)))[0]
        yield f"{variant} {recipe}", variant, tuple(recipe.split()), None, False
    for name, (variant, plan) in test_patterns.PLANS.items():
        yield f"{variant} {name}", variant, (), plan, False
    for mix in test_mixes.MIXES:
        for variant in mix.get("models", ["gpt2"])[:1]:
            plan = test_mixes.plan_of(mix, variant) if "mesh" in mix else None
            yield f"{variant} {test_mixes.title(mix)}", variant, tuple(mix.get("options", "").split()), plan, False
    for variant, mesh, _ in test_pipeline.cases():
        if variant in ("gpt2", "mlp"):
            yield f"{variant} {mesh}", variant, h.PIPES[mesh][0], None, mesh == "pp-2-1f1b-8"


CASES = {id: (variant, options, plan, sample) for id, variant, options, plan, sample in cases()}


def parameters(sampled=True):
    return [pytest.param(id, id=id, marks=() if case[3] and sampled else pytest.mark.whole) for id, case in CASES.items()]


def options_of(id, folder):
    variant, options, plan, _ = CASES[id]
    if plan is None:
        return variant, (*ADAMW, *options)
    folder = folder / f"plan-{hashlib.sha256(plan.encode()).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(plan)
    return variant, (*ADAMW, *options, "--plan", str(folder / "plan.toml"))


@pytest.mark.parametrize("id", parameters())
def test_trains_as_the_cpu(program, tmp_path, id):
    variant, options = options_of(id, program.folder)
    path, _ = gpu.gpu_program(program, variant, options)
    promised = h.Program(path, 1).info("train")
    ours = gpu.train_on_gpu(program, variant, tmp_path / "gpu", options, "--stats", tmp_path / "stats.json", TESSERA_CHECK_GPUS=str(promised["ranks"]))
    theirs = gpu.train_on_cpu(program, variant, tmp_path / "cpu", ADAMW)
    np.testing.assert_allclose(gpu.losses(ours), gpu.losses(theirs), rtol=1e-5)
    measured = json.loads((tmp_path / "stats.json").read_text())
    assert measured["sent"] == promised["sent"]
    assert [m["device"]["peak"] for m in measured["memory"]] == [m["device"]["peak"] for m in promised["memory"]]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.whole) for name in test_spatial.CASES])
def test_split_images(tmp_path, name):
    """Convolutions whose images are split: borders travel between GPUs."""
    ranks, image, *convolutions = test_spatial.CASES[name]
    model, _, plan, *options = test_spatial.write(tmp_path, image, convolutions, test_spatial.plan(ranks))
    path, run = gpu.compiled(tmp_path / "gpu", model, "--plan", plan, *options)
    h.checked(h.TESSERA, "compile", model, "-o", tmp_path / "one", *options)
    random = np.random.default_rng(1)
    data = {i["name"]: random.standard_normal(i["shape"]).astype(np.float32) for i in h.Program(path, 1).info("train")["inputs"]}
    ours = gpu.trained(path, run, tmp_path / "run", data, TESSERA_CHECK_GPUS=str(ranks[0] * ranks[1]))
    theirs = h.Program(tmp_path / "one", 1).train(tmp_path / "cpu", data, gpu.STEPS)
    np.testing.assert_allclose(gpu.losses(ours), gpu.losses(theirs), rtol=1e-5)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("id", [pytest.param("gpt2"), *(p for p in parameters(sampled=False) if p.id != "gpt2")])
def test_kernels_assemble_without_spills(program, id, chip):
    path, _ = gpu.gpu_program(program, *options_of(id, program.folder))
    texts = gpu.texts_for(path, chip)
    assert len(texts) > 2 and all(f".target {chip}" in text.read_text() for text in texts)
    if not h.ptxas():
        pytest.skip("no ptxas in PATH or /usr/local/cuda/bin: PTX is not assembled")
    assert [name for text in texts for name in gpu.spilled(program, text, chip)] == []
