"""Memory as ranks and the batch grow together: what a rank holds is flat where tokens are split, and grows where the residual stream is whole."""
import json

import pytest

import harness as h

BATCH, SEQ = 4, 64
RANKS = (1, 2, 4, 8)


def program(folder, ranks, *options):
    """The training program of a rank that trains BERT on `ranks` times the batch."""
    out = folder / "program.json"
    h.checked(h.TESSERA, "compile", h.MODELS / "bert_dyn.onnx", "--train", "adamw", "--bind", f"batch={BATCH * ranks}", "--bind",
              f"seq={SEQ}", *(options if ranks > 1 else ()), "--to", "lower", "-o", out)
    return next(p for p in json.loads(out.read_text())["programs"] if p["name"] == "train")


def memory(folder, ranks, *options):
    return program(folder, ranks, *options)["memory"]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return memory(tmp_path_factory.mktemp("one"), 1)


@pytest.mark.parametrize("options", [("--sp-mode", "ring", "--sp"), pytest.param(("--sp-mode", "rsa", "--sp"), marks=pytest.mark.whole),
                                     pytest.param(("--sp-mode", "megatron", "--tp"), marks=pytest.mark.whole)], ids=lambda options: options[1])
def test_a_split_sequence_is_flat(tmp_path, one, options):
    held = [memory(tmp_path, n, *options, str(n)) for n in RANKS[1:]]
    if "--sp" in options:
        peaks = [m["peak"] for m in held]
        assert max(peaks) <= 1.01 * min(peaks), peaks
    else:
        # Products gather the sequence, one at a time; what is kept for the backward is split. 1D holds four times as much.
        assert held[-1]["activations"] < 2.5 * one["activations"], held


@pytest.mark.whole
def test_tensor_parallelism_grows(tmp_path, one):
    held = [one] + [memory(tmp_path, n, "--tp", str(n)) for n in RANKS[1:]]
    activations = [m["activations"] for m in held]
    assert activations == sorted(activations) and activations[-1] > 2 * activations[0], activations
    assert held[-1]["parameters"] < one["parameters"] / 3


@pytest.mark.parametrize("options,ranks", [(("--tp", "4", "--tp-mode", "2d"), 4), pytest.param(("--tp", "8", "--tp-mode", "2.5d"), 8, marks=pytest.mark.whole),
                                           (("--tp", "8", "--tp-mode", "3d", "--regather", "always"), 8)], ids=["2d", "2.5d", "3d"])
def test_grids_hold_their_share(tmp_path, one, options, ranks):
    # 2.5d on 2 x 2 x 2 ranks holds a weight twice: a layer of the grid for each half of the batch.
    grid = memory(tmp_path, ranks, *options)
    share = 4 if "2.5d" in options else ranks
    assert grid["parameters"] < 1.5 * one["parameters"] / share
    assert grid["activations"] < 1.5 * one["activations"]


def test_gathering_again_holds_less(tmp_path):
    """3d keeps what it gathered, unless told to gather it again: less memory for more bytes."""
    kept, again = (program(tmp_path, 8, "--tp", "8", "--tp-mode", "3d", "--regather", word) for word in ("auto", "always"))
    assert again["memory"]["activations"] < 0.9 * kept["memory"]["activations"]
    # What is gathered for one product goes by panels, that is by broadcasts.
    gathered = [sum(kinds[kind]["bytes"] for kinds in p["sent"].values() for kind in ("all_gather", "broadcast") if kind in kinds) for p in (kept, again)]
    assert gathered[0] < gathered[1]
