"""Every pattern: one rank and many compute the same (tessera verify: outputs, gradients, parameters after a step), and what a linear layer
sends is what its formula says."""
import json
import re

import pytest

import harness as h

COLLECTIVE = re.compile(r"dist\.collective(?:_start)? +(\w+) .*? over <([^>]*)> shape \[([0-9, ]*)\]")

# Recipes that every model is verified under: options, and the models of the default sample.
RECIPES = {
    "--tp 4 --tp-mode 2d": ("bert", "vit"),
    "--tp 6 --tp-mode 2d": ("llama",),  # a grid of 2 x 3, which divides nothing
    "--dp 2 --tp 4 --tp-mode 2d": (),
    "--tp 4 --tp-mode 2d --microbatches 2": ("gpt2",),
    "--tp 8 --tp-mode 2.5d": ("gpt2",),
    "--tp 8 --tp-mode 2.5d --tp-depth 4": ("llama",),
    "--tp 8 --tp-mode 3d": ("llama", "vit", "mlp"),
    "--tp 6 --tp-mode 3d": ("gpt2",),  # 1 x 2 x 3
    "--dp 2 --tp 8 --tp-mode 3d": (),
    "--tp 9 --tp-mode 2d --stream always": ("bert",),
    "--tp 6 --tp-mode 2d --stream always": (),  # a panel ends where a block of either operand does
    "--tp 8 --tp-mode 2.5d --microbatches 2 --stream always": ("gpt2",),
    "--tp 12 --tp-mode 3d --stream always": (),
    "--tp 8 --tp-mode 3d --regather always --stream always": ("bert",),
    "--tp 4 --sp-mode megatron --stream always": ("vit",),
    "--dp 3 --zero 3 --stream always": (),
    "--pp 2 --microbatches 2 --tp 4 --tp-mode 2d --stream always": (),
    "--sp 4": ("bert", "vit"),  # a ring, with a padding mask, with 17 tokens
    "--sp 3": ("llama",),
    "--sp 3 --tp 2": ("vit",),  # the sequence begins inside, behind the patches
    "--sp 2 --tp 2 --dp 2": ("gpt2",),
    "--sp 2 --sp-mode ulysses": ("vit",),
    "--sp 4 --sp-mode ulysses": ("llama",),  # more ranks than key/value heads
    "--sp 2 --sp-mode ulysses --tp 2": ("bert",),
    "--sp 3 --sp-mode rsa": ("bert",),
    "--sp 2 --sp-mode rsa --microbatches 2": ("llama",),
    "--tp 4 --sp-mode megatron": ("gpt2", "vit"),
    "--dp 2 --tp 3 --sp-mode megatron": ("gpt2",),
    "--pp 2 --microbatches 2": ("vit",),
    "--pp 2 --pp-schedule gpipe --microbatches 2 --tp 4 --tp-mode 2d": ("bert",),
    "--pp 2 --pp-schedule interleaved --microbatches 2 --sp 2": ("gpt2",),
    "--pp 2 --pp-schedule zero-bubble --microbatches 2 --dp 2 --zero 3": ("llama",),
    "--ep 2": ("olmoe",),
    "--ep 4": ("qwen2moe",),  # six experts on four ranks
    "--ep 3": ("mixtral",),  # neither the batch nor the experts
    "--dp 2 --ep 2 --zero 3": ("mixtral",),
    "--ep 2 --tp 2": ("mixtral",),
    "--ep 2 --tp 4": ("mixtral",),  # more ranks than experts
    "--ep 2 --sp 2": ("olmoe",),
    "--ep 2 --tp 2 --sp-mode megatron": ("qwen2moe",),
    "--ep 2 --tp 4 --tp-mode 2d --zero 1": ("mixtral",),
    "--ep 2 --microbatches 2": (),
    "--dp 2 --ep 2 --tp 2 --microbatches 2": ("qwen2moe",),
    "--pp 2 --ep 2 --microbatches 2": ("olmoe",),
}
# The mlp has no sequence, and three layers: too few for two chunks on each of two stages.
NOT_OF_MLP = ("--sp", "interleaved", "zero-bubble")
MODELS = ("gpt2", "llama", "bert", "vit", "mlp")


@pytest.mark.parametrize("recipe,model", [
    pytest.param(recipe, model, id=f"{model} {recipe}", marks=() if model in sample else pytest.mark.whole)
    for recipe, sample in RECIPES.items() for model in (h.EXPERT_MODELS if "--ep" in recipe else MODELS)
    if model != "mlp" or not any(word in recipe for word in NOT_OF_MLP)])
def test_recipe(recipe, model):
    h.checked(h.TESSERA, "verify", h.MODELS / f"{model}.onnx", "--train", "sgd", *recipe.split())


# Recipes no option stands for: a plan and a model.
PLANS = {
    "double ring": ("gpt2", """
[mesh]
outer = 2
inner = 3
[[input]]
match = "*"
dim = 1
axes = ["outer", "inner"]
[[op]]
match = "node_scaled_dot_product_attention*"
pattern = "double-ring"
axes = ["outer", "inner"]
"""),
    "heads in a ring": ("gpt2", """
[mesh]
ring = 3
heads = 2
[[input]]
match = "*"
dim = 1
axes = ["ring", "heads"]
[[op]]
match = "node_scaled_dot_product_attention*"
pattern = "ulysses-ring"
axes = ["ring", "heads"]
"""),
}


@pytest.mark.parametrize("name", PLANS)
def test_plan(tmp_path, name):
    model, text = PLANS[name]
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    h.checked(h.TESSERA, "verify", h.MODELS / f"{model}.onnx", "--train", "sgd", "--plan", plan)


def test_report_tells_each_ranks_attention(tmp_path):
    report = tmp_path / "report.json"
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "--sp", "4", "--report", report, "--to", "lower", "-o", tmp_path / "out")
    pairs = json.loads(report.read_text())["attention_pairs"]["infer"]
    # In zig-zag order each rank's queries see as many keys as any other's.
    assert len(set(pairs)) == 1, pairs
    assert sum(pairs) % (4 * 4 * 32 * 33 // 2) == 0  # samples, heads, pairs; as many times as there are layers


# One linear layer of 4096 x 1024 times 1024 x 4096, all extents a sixteenth. Its input is a sum with a parameter, so that the cotangent of the
# input is wanted; both live where a layer before would have left the sum.
LINEAR = """
nn.variable @p : tensor<256x64xf32> {{role = "parameter", trained = true}}
nn.variable @w : tensor<64x256xf32> {{role = "parameter", trained = true}}
func.func @infer(%x: tensor<256x64xf32> {{nn.name = "x", nn.kind = #nn<kind data>, dist.split = {home}}}) -> (tensor<256x256xf32> {{nn.name = "y"}}) {{
  %p = nn.read @p : tensor<256x64xf32>
  %w = nn.read @w : tensor<64x256xf32>
  %s = nn.add %x, %p : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %y = nn.contract %s, %w {{lhs_letters = "bi", out_letters = "bo", rhs_letters = "io",
    dist.pattern = #dist.pattern<"{pattern}", [{axes}]>}} : (tensor<256x64xf32>, tensor<64x256xf32>) -> tensor<256x256xf32>
  return %y : tensor<256x256xf32>
}}
"""


def sent(text):
    """Elements that a rank sends in the collectives of a partitioned function, those of single numbers left out."""
    total = 0
    for kind, axes, shape in COLLECTIVE.findall(text):
        n = 1
        for size in re.findall(r"=(?:\(\d+\))?(\d+)", axes):
            n *= int(size)
        elements = 1
        for extent in shape.split(","):
            elements *= int(extent) if extent.strip() else 1
        if shape.strip():
            total += {"all_reduce": 2 * (n - 1) * elements // n, "all_gather": (n - 1) * elements,
                      "reduce_scatter": (n - 1) * elements // n, "all_to_all": (n - 1) * elements // n,
                      "broadcast": (n - 1) * elements / n, "reduce": (n - 1) * elements / n}[kind]
    return total


# pattern, mesh, home of x, and elements sent by a rank forward and backward for the full extents, derived from the volume of each collective.
GOLDEN = [
    ("column", {"t": 4}, [[], []], 0, 6291456),
    ("column", {"t": 16}, [[], []], 0, 7864320),
    ("row", {"t": 4}, [[], ["t"]], 25165824, 0),
    ("row", {"t": 64}, [[], ["t"]], 33030144, 0),
    ("2d", {"r": 2, "c": 2}, [["r"], ["c"]], 2097152, 4194304),
    ("2d", {"r": 4, "c": 4}, [["r"], ["c"]], 1572864, 3145728),
    ("2d", {"r": 8, "c": 8}, [["r"], ["c"]], 917504, 1835008),
    ("2.5d", {"r": 2, "c": 2, "d": 2}, [["d", "r"], ["c"]], 1572864, 4194304),
    ("2.5d", {"r": 4, "c": 4, "d": 4}, [["d", "r"], ["c"]], 983040, 2359296),
    ("3d", {"i": 2, "j": 2, "k": 2}, [["i", "j"], ["k"]], 3145728, 3145728),
    ("3d", {"i": 4, "j": 4, "k": 4}, [["i", "j"], ["k"]], 1179648, 1179648),
]


@pytest.mark.parametrize("stream", ["never", "always"])
@pytest.mark.parametrize("pattern,mesh,home,forward,backward", GOLDEN,
                         ids=[f"{case[0]} {'x'.join(map(str, case[1].values()))}" for case in GOLDEN])
def test_golden_bytes_of_a_linear_layer(tmp_path, pattern, mesh, home, forward, backward, stream):
    model, plan = tmp_path / "linear.mlir", tmp_path / "plan.toml"
    quoted = lambda axes: "[" + ", ".join(f'"{axis}"' for axis in axes) + "]"
    model.write_text(LINEAR.format(pattern=pattern, axes=quoted(mesh)[1:-1], home="[" + ", ".join(map(quoted, home)) + "]"))
    plan.write_text("[mesh]\n" + "".join(f"{axis} = {size}\n" for axis, size in mesh.items()))
    compile = (h.TESSERA, "compile", model, "--plan", plan, "--stream", stream, "--to", "partition", "-o", tmp_path / "local.mlir")
    streamed = (h.TESSERA.parent / "tessera-opt", "--pass-pipeline=builtin.module(func.func(tessera-stream-contractions))", tmp_path / "local.mlir")
    # What the program returns is gathered after the layer: the last operators before the return.
    h.checked(*compile)
    infer = h.checked(*streamed).stdout
    assert ("broadcast" in infer) == (stream == "always" and pattern[0].isdigit())
    layer = infer[:infer.rindex("nn.contract")] + "".join(
        line for line in infer[infer.rindex("nn.contract"):].splitlines() if "reduce" in line)
    assert sent(layer) * 256 == forward, infer
    h.checked(*compile, "--train", "sgd", "--loss", "mse:y")
    train = h.checked(*streamed).stdout
    assert sent(train.split("func.func @train")[1]) * 256 == forward + backward, train
