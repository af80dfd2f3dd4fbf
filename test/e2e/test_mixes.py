"""Mixes of patterns, the rows of mixes.toml: ten AdamW steps as one rank takes them."""
import tomllib

import numpy as np
import pytest

import harness as h

STEPS = 10
RANKS_UNDER_MPIRUN = 16
MIXES = tomllib.loads((h.ROOT / "test" / "e2e" / "mixes.toml").read_text())["mix"]

# The operators of each part, by globs over parameters' sources, modules and nodes.
PARTS = {
    "gpt2": {"embedding": "transformer.wte", "qkv": "*.c_attn.weight", "attention": "node_scaled_dot_product_attention*", "out": "*.attn.c_proj.weight",
             "up": "*.mlp.c_fc.weight", "down": "*.mlp.c_proj.weight", "head": "lm_head*",
             "first qkv": "*.h.0.attn.c_attn.weight", "first up": "*.h.0.mlp.c_fc.weight", "first down": "*.h.0.mlp.c_proj.weight",
             "second attention": "node_scaled_dot_product_attention_1", "second up": "*.h.1.mlp.c_fc.weight", "second down": "*.h.1.mlp.c_proj.weight"},
    "llama": {"embedding": "model.embed_tokens", "qkv": "*.[qkv]_proj.weight", "attention": "node_scaled_dot_product_attention*", "out": "*.o_proj.weight",
              "up": "*.mlp.[gu]*_proj.weight", "down": "*.mlp.down_proj.weight", "head": "lm_head*"},
    "bert": {"embedding": "*.word_embeddings", "qkv": "*.attention.self.*.weight", "attention": "node_scaled_dot_product_attention*",
             "out": "*.attention.output.dense.weight", "up": "*.intermediate.dense.weight", "down": "*.layer.?.output.dense.weight", "head": "*.predictions.transform.dense"},
    "vit": {"qkv": "*.attention.[qkv]_proj.weight", "attention": "node_scaled_dot_product_attention*", "out": "*.attention.o_proj.weight", "up": "*.mlp.fc1.weight",
            "down": "*.mlp.fc2.weight", "head": "classifier.weight"},
}
# What rows of options alone are trained with besides.
OTHERS = ["mixtral", "t5"]


def title(mix):
    return mix.get("name", mix.get("options"))


def plan_of(mix, model):
    """The plan of a row, for the parts that the model has."""
    quoted = lambda axes: "[" + ", ".join(f'"{axis}"' for axis in axes) + "]"
    lines = ["[mesh]", *(f"{axis} = {size}" for axis, size in mix["mesh"].items())]
    for dim, axes in mix.get("inputs", {}).items():
        match = "labels" if dim == "1" and model == "vit" else "*"
        lines += ["[[input]]", f'match = "{match}"', f"dim = {dim}", f"axes = {quoted(axes)}"]
    for part, (pattern, *axes) in mix["parts"].items():
        if part in PARTS[model]:
            lines += ["[[op]]", f'match = "{PARTS[model][part]}"', f'pattern = "{pattern}"', f"axes = {quoted(axes)}"]
    return "\n".join(lines) + "\n"


def cases():
    for mix in MIXES:
        # An image has no sequence at its input: rows by hand that split one are for the others.
        everywhere = [m for m in PARTS if m != "vit" or "1" not in mix.get("inputs", {})]
        models = mix.get("models", everywhere + ([] if "parts" in mix else OTHERS))
        for i, model in enumerate(models):
            marks = () if mix.get("sample") and i == 0 else pytest.mark.whole
            yield pytest.param(mix, model, id=f"{model} {title(mix)}", marks=marks)


def losses(program, folder, model, mpi=False):
    data = h.training_data(model, [*h.input_names(model), "labels"])
    return np.array([entry["loss"] for entry in program.train(folder, data, STEPS, mpi=mpi)])


@pytest.mark.parametrize("mix,model", list(cases()))
def test_mix_trains_as_one_rank(program, tmp_path, mix, model):
    options = mix.get("options", "").split()
    if "mesh" in mix:
        (tmp_path / "plan.toml").write_text(plan_of(mix, model))
        options += ["--plan", tmp_path / "plan.toml"]
    h.checked(h.TESSERA, "compile", h.MODELS / f"{model}.onnx", "-o", tmp_path / "p", "--train", "adamw", *options)
    compiled = h.Program(tmp_path / "p", h.Program(tmp_path / "p", 1).info()["ranks"])
    one = losses(program(model, "1", ("--train", "adamw")), tmp_path / "one", model)
    np.testing.assert_allclose(losses(compiled, tmp_path / "threads", model), one, rtol=1e-5)
    if mix.get("mpirun") or (h.ALL and compiled.ranks <= RANKS_UNDER_MPIRUN and model == "gpt2"):
        np.testing.assert_array_equal(losses(compiled, tmp_path / "mpi", model, mpi=True), losses(compiled, tmp_path / "again", model))
