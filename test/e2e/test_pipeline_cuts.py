"""Wherever a pipeline's stages are cut, they meet: models of any depth, narrow and wide, tied or not, with
parameters that all layers share."""
import itertools
import json
import math
import re

import pytest

import harness as h
from small_gpt import small_gpt

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
# Where the cuts are depends on what costs most: the head, or the blocks.
WIDTHS = {"narrow": dict(width=16, vocabulary=512), "wide": dict(width=192, vocabulary=48)}
KINDS = {"plain": {}, "tied": dict(tied=True), "shared": dict(shared=True), "tied-shared": dict(tied=True, shared=True),
         "relative": dict(relative=True)}


def model(folder, layers, kind="plain", width="narrow", **more):
    path = folder / f"{layers}-{kind}-{width}.onnx"
    return path if path.exists() else small_gpt(path, layers, **WIDTHS[width], **KINDS[kind], **more)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuts")


def recipes():
    everything = itertools.product(range(1, 13), KINDS, WIDTHS, range(2, 9), SCHEDULES)
    for number, (layers, kind, width, stages, schedule) in enumerate(everything):
        # Strides that are prime to all of these numbers: 11 meets each pair of their values, 137 each value. And a model of one block
        # that is cut at every layer.
        sampled = number % 137 == 0 or (layers, kind, width, stages, schedule) == (1, "plain", "wide", 7, "1f1b")
        if number % 11 and not sampled:
            continue
        marks = () if sampled else pytest.mark.whole
        name = f"{layers}-{kind}-{width}-{stages}-{schedule}"
        yield pytest.param(layers, kind, width, stages, schedule, id=name, marks=marks)


@pytest.mark.parametrize("layers,kind,width,stages,schedule", list(recipes()))
def test_compiles(folder, layers, kind, width, stages, schedule):
    """Every recipe has a plan, unless there are fewer layers than chunks."""
    micro = stages if schedule == "interleaved" or layers % 2 else 1
    result = h.tessera("compile", model(folder, layers, kind, width), "--train", "adamw", "--pp", stages,
                       "--pp-schedule", schedule, "--microbatches", micro, "--to", "memory", "-o", "/dev/null")
    if result.returncode == 0:
        return
    said = re.search(r"^error: .*has (\d+) layers .* fewer than the (\d+)", result.stderr, re.MULTILINE)
    assert said and int(said[1]) < int(said[2]), result.stderr


@pytest.mark.parametrize("layers,kind,options", [
    # Stages without a term of two sums over the stages: the loss, and the norm, whose terms are all on the first.
    (3, "shared", ("--pp", "6", "--microbatches", "4")),
    (4, "tied-shared", ("--pp", "3", "--pp-schedule", "zero-bubble", "--microbatches", "2")),
    # The gradients of what all layers share are exchanged after the last microbatch.
    (4, "relative", ("--pp", "2", "--pp-schedule", "interleaved", "--dp", "2", "--tp", "2", "--microbatches", "2",
                     "--zero", "1")),
    (2, "relative", ("--pp", "4", "--pp-schedule", "1f1b")),
    # With ZeRO 3 the table is gathered again for them.
    (2, "relative", ("--dp", "2", "--microbatches", "2", "--zero", "3")),
    (2, "relative", ("--pp", "2", "--dp", "2", "--pp-schedule", "zero-bubble", "--microbatches", "2", "--zero", "3")),
], ids=lambda value: "".join(value) if isinstance(value, tuple) else str(value))
def test_trains_as_one_rank(folder, layers, kind, options):
    h.checked(h.TESSERA, "verify", model(folder, layers, kind), "--train", "adamw", *options)


def simulated(*arguments):
    """Seconds of a step, and the peak of the rank that needs most."""
    step = json.loads(h.checked(h.TESSERA, "simulate", *arguments, "--threads", "1", "--json").stdout)
    return step["seconds"], max(rank["device"]["peak"] for rank in step["memory"])


@pytest.mark.parametrize("schedule,rule", [("1f1b", 2), ("interleaved", 3)])
def test_the_cut_is_the_best_of_those_compared(schedule, rule, tmp_path):
    """Of the cuts by each rule that are no worse than the last one's in time and memory the compiler takes that whose seconds times bytes are
    least; with interleaved chunks all others of this model need more memory than the last."""
    options = ("--pp", 4, "--pp-schedule", schedule, "--microbatches", 4)
    gpt, bindings = h.MODELS / "gpt2.onnx", h.bindings("gpt2")
    whole, figures, chunks = tmp_path / "whole.mlir", [], []
    h.checked(h.TESSERA, "compile", gpt, "--train", "adamw", *bindings, "--to", "differentiate", "-o", whole)
    for number in range(4):
        cut = tmp_path / f"{number}.mlir"
        h.checked(h.BUILD / "bin" / "tessera-opt", whole, f"--tessera-assign=pp=4 pp-schedule={schedule} microbatches=4 cut={number}", "--mlir-print-debuginfo",
                  "-o", cut)
        # Text says what made it; a pass alone does not.
        cut.write_text(cut.read_text().replace('nn.phase = "differentiate"', 'nn.phase = "assign"'))
        figures.append(simulated(cut))
        chunks.append(re.findall(r"dist\.chunk = \d+", cut.read_text()))
    no_worse = [each for each in range(4) if figures[each][0] <= 1.001 * figures[-1][0] and figures[each][1] <= figures[-1][1]]
    assert min(no_worse, key=lambda each: math.prod(figures[each])) == rule
    taken = tmp_path / "taken.mlir"
    h.checked(h.TESSERA, "compile", gpt, "--train", "adamw", *bindings, *options, "--to", "assign", "-o", taken)
    assert re.findall(r"dist\.chunk = \d+", taken.read_text()) == chunks[rule]
    assert simulated(gpt, "--train", "adamw", *bindings, *options) == figures[rule]