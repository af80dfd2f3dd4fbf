"""What a transformer block sends: read off the program that every rank runs, without running it."""
import re

import pytest

import harness as h

# Bytes of [batch, sequence, hidden] in f32 of the small GPT-2, which is what a block's all-reduces carry.
ACTIVATION = (4, 32, 64)
COLLECTIVE = re.compile(r"dist\.collective(?:_start)? +(\w+) .*? over <([^>]*)> shape \[([0-9, ]*)\]")


def collectives(variant, function):
    """(kind, axes, shape) of every collective of a function of the partitioned program, in order."""
    text = h.checked(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", "--tp", "2", "--train", "adamw", "--to", "partition").stdout
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
