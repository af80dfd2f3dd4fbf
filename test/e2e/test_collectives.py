"""What a transformer block sends: read off the program that every rank runs, without running it."""
import re
from collections import Counter

import numpy as np
import pytest

import harness as h

# Bytes of [batch, sequence, hidden] in f32 of the small GPT-2, which is what a block's all-reduces carry.
ACTIVATION = (4, 32, 64)
COLLECTIVE = re.compile(r"dist\.collective(?:_start)? +(\w+) .*? over <([^>]*)> shape \[([0-9, ]*)\]")


def collectives(variant, function, options=("--tp", "2")):
    """(kind, axes, shape) of every collective of a function of the partitioned program, in order."""
    text = h.checked(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", *options, "--train", "adamw", "--to", "partition").stdout
    body = text.split(f"func.func @{function}(")[1].split("func.func @")[0]
    found = COLLECTIVE.findall(body)
    assert len(found) == body.count("dist.collective"), "a collective is not understood"
    return [(kind, axes, tuple(int(n) for n in shape.split(",") if n.strip())) for kind, axes, shape in found]


def activations(found):
    """Those that carry as much as a whole activation."""
    size = ACTIVATION[0] * ACTIVATION[1] * ACTIVATION[2]
    product = lambda shape: shape[0] * product(shape[1:]) if shape else 1
    return [(kind, axes) for kind, axes, shape in found if product(shape) >= size]


@pytest.mark.parametrize("function,expected", [("infer", 2), ("train", 4)])
def test_all_reduces_of_a_block(function, expected):
    """Two all-reduces a block forward and two backward, none else of an activation's size."""
    one, two = activations(collectives("gpt2_1layer", function)), activations(collectives("gpt2", function))
    assert len(two) - len(one) == expected
    assert {kind for kind, _ in two} == {"all_reduce"}
    assert {axes for _, axes in two} == {'"tensor"=2'}


def test_all_reduces_outside_blocks():
    """The look-up of the embedding forward; the head's cotangent backward. The logits are never sent."""
    assert len(activations(collectives("gpt2_1layer", "infer"))) == 2 + 1
    assert len(activations(collectives("gpt2_1layer", "train"))) == 4 + 2


def test_losses_exchange_three_numbers_a_token():
    """Of the cross entropy over a split vocabulary: a maximum, then the sum of exponentials with the label's logit."""
    rest = [(kind, shape) for kind, _, shape in collectives("gpt2_1layer", "train") if len(shape) and shape[-2:] == ACTIVATION[:2]]
    assert rest == [("all_reduce", ACTIVATION[:2]), ("all_reduce", (2, *ACTIVATION[:2]))]


@pytest.mark.parametrize("variant", ["llama", "llama_ts"])
def test_replicated_key_value_heads_are_reduced_lazily(variant):
    """Two key and value heads on four ranks: 2 all-reduces a layer forward and 2 backward, as with as many heads as ranks, and
    the gradients of the key and value weights at the end. test_training.py compares the losses."""
    layers, outside_forward, outside_backward = 2, 1, 1  # the embedding; the head's cotangent
    assert activations(collectives(variant, "infer", ("--tp", "4"))) == [("all_reduce", '"tensor"=4')] * (2 * layers + outside_forward)
    found = collectives(variant, "train", ("--tp", "4"))
    whole = [(kind, shape) for kind, axes, shape in found if axes == '"tensor"=4' and shape == ACTIVATION]
    assert len(whole) == 4 * layers + outside_forward + outside_backward
    among_copies = [(kind, shape) for kind, axes, shape in found if axes == '"tensor":(2)2']
    assert among_copies == [("all_reduce", (64, 1, 16))] * (2 * layers), "the gradients of key and value weights, nothing else"
    assert not [f for f in found if f[1] not in ('"tensor"=4', '"tensor":(2)2', '"tensor"=2') or
                (f[1] == '"tensor"=2' and f[2])], "other sums"
@pytest.mark.parametrize("stage,gathers", [("1", 12), ("2", 12), ("3", 18)])
def test_zero_of_a_block(stage, gathers):
    """Twelve parameters: each gradient is scattered, and each parameter gathered; stage 3 gathers for the forward, and for the
    backward what it reads: four weights and two gains."""
    one, two = (Counter(kind for kind, _, _ in collectives(v, "train", ("--dp", "2", "--zero", stage))) for v in ("gpt2_1layer", "gpt2"))
    assert two - one == {"reduce_scatter": 12, "all_gather": gathers}




def test_megatron_sequence_leaves_the_batch_split():
    """The residual stream is split over both axes: over data only gradients travel, over tensor no whole activation of the batch."""
    found = collectives("gpt2", "train", ("--dp", "2", "--tp", "2", "--sp-mode", "megatron"))
    assert {kind for kind, axes, _ in found if axes == '"data"=2'} == {"all_reduce"}
    assert not activations([(kind, axes, shape) for kind, axes, shape in found if kind != "all_reduce"])


@pytest.mark.parametrize("variant,rows,width,expected", [
    ("electra", 32, 48, 2 * 2),  # two layers; a product before them widens the embeddings
    ("albert", 32, 48, 2 * 2),
    ("transformer", 32, 32, 2 + 1),  # of the encoder's layer, and its embedding
    ("transformer", 16, 32, 3 + 1),  # self attention, cross attention with a weight packed otherwise, products
])
def test_all_reduces_of_encoders(variant, rows, width, expected):
    """Every attention is split by heads, so that a block has one all-reduce for it and one for its products."""
    result = h.checked(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", "--tp", "2", "--to", "assign")
    attentions = [line for line in result.stdout.splitlines() if "nn.attention " in line]
    assert attentions and all('dist.pattern<"heads", ["tensor"]>' in line for line in attentions)
    sizes = [shape for kind, _, shape in collectives(variant, "infer") if len(shape) == 3]
    assert sum(sorted(shape) == sorted((4, rows, width)) for shape in sizes) == expected


@pytest.mark.parametrize("stage,most", [("1", {"all_gather": 12, "reduce_scatter": 12}), ("2", {"all_gather": 12, "reduce_scatter": 12}),
                                        ("3", {"all_gather": 22, "reduce_scatter": 12})])
def test_zero_in_buckets(tmp_path, stage, most):
    """28 parameters: small ones are gathered and scattered together, and what is sent grows by the gaps between them alone."""
    h.checked(h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", tmp_path / "p", "--train", "adamw", "--dp", "2", "--zero", stage)
    sent = h.Program(tmp_path / "p", 2).info()["sent"]["data"]
    for kind, count in most.items():
        assert sent[kind]["count"] <= count
    found = collectives("gpt2", "train", ("--dp", "2", "--zero", stage))
    for kind, sends in [("all_gather", 1), ("reduce_scatter", 1 / 2)]:
        shapes = [shape for k, _, shape in found if k == kind]
        exact = sum(int(np.prod(shape)) for shape in shapes) * 4 * sends
        assert len(shapes) >= 27 and exact <= sent[kind]["bytes"] <= exact + 64 * len(shapes)


@pytest.mark.parametrize("more", [(), ("--microbatches", "2"), ("--dtype", "bf16"), ("--microbatches", "2", "--dtype", "bf16")])
def test_a_tied_table_is_reduced_once(more):
    """What the look-up and the product add to it is added first, also where the product's is that of a converted table."""
    assert [shape for kind, _, shape in collectives("gpt2", "train", ("--dp", "2", *more)) if shape == (160, 64)] == [(160, 64)]


def turns_of_gpt(zero):
    """What stands in front of the loop over four microbatches, in it, and behind it."""
    text = h.checked(h.TESSERA, "compile", h.ROOT / "python/gpt_bytes.onnx", "--dp", "2", "--zero", zero, "--microbatches", "4", "--train", "adamw", "--to", "schedule").stdout
    front, rest = text.split("func.func @train(")[1].split("func.func @")[0].split("dist.loop ")
    return front, *rest.split("dist.yield")


@pytest.mark.parametrize("zero,loop,reduction", [("0", "times 3", "all_reduce"), ("1", "from 1 times 2", "reduce_scatter")])
def test_sums_over_microbatches_are_reduced_beside_the_last_backward(zero, loop, reduction):
    """Its turn stands behind the loop; at least half of its backward's products come when a reduction has started."""
    _, body, turn = turns_of_gpt(zero)
    assert body.startswith(loop) and f"dist.collective {reduction}" not in body and f"dist.collective_start {reduction}" not in body
    products = lambda part: len(re.findall(r"nn\.(?:fused_)?contract\b[^\n]*nn\.grad_of", part))
    before, behind = re.split(rf"dist\.collective(?:_start)? +{reduction}", turn, maxsplit=1)
    assert products(behind) >= products(before) and products(behind) >= 8


def test_parameters_are_gathered_beside_the_first_forward():
    """Its turn stands in front of the loop; at least half of its forward's products come before the last gather has started."""
    front, body, _ = turns_of_gpt("1")
    products = lambda part: len([line for line in re.findall(r"nn\.(?:fused_)?contract\b[^\n]*", part) if "nn.grad_of" not in line])
    before, behind = front.rsplit("all_gather", 1)
    assert "all_gather" not in body and products(before) >= products(behind) and products(before) >= 4, (products(before), products(behind))


@pytest.mark.parametrize("micro", ["2", "4"])
@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_gathering_beside_a_turn_changes_no_bit(program, tmp_path, variant, micro):
    """Sums over two replicas are the same in any order, and turns out of the loop are the kernels that they were in it."""
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    runs = [program(variant, "dp2", ("--train", "adamw", "--dtype", "bf16", "--microbatches", micro, "--zero", zero)).train(tmp_path / zero, data, 3, "--save", tmp_path / f"{zero}.safetensors")
            for zero in "01"]
    assert [e["loss"] for e in runs[0]] == [e["loss"] for e in runs[1]]
    assert (tmp_path / "0.safetensors").read_bytes() == (tmp_path / "1.safetensors").read_bytes()


@pytest.mark.parametrize("micro", ["2", "4"])
def test_a_cap_that_is_met_keeps_turns_out_of_the_loop(program, micro):
    """What the program needs in its own order counts, not what it needs before it is ordered."""
    options = ("--train", "adamw", "--microbatches", micro, "--zero", "1")
    free = program("gpt2", "dp2", options).info("train")
    peak = max(rank["device"]["peak"] for rank in free["memory"])
    capped = program("gpt2", "dp2", (*options, "--device-memory", str(peak))).info("train")
    assert capped["step_seconds"] == free["step_seconds"] and not any(capped["moved"].values())
