"""Products by panels: as many bytes as when operands are gathered, less memory, and broadcasts beside products."""
import json
import re

import numpy as np
import pytest

import harness as h

RECIPES = {"2d": ("--tp", "16", "--tp-mode", "2d"), "2.5d": ("--tp", "18", "--tp-mode", "2.5d", "--tp-depth", "2"),
           "3d": ("--tp", "27", "--tp-mode", "3d", "--regather", "always"), "megatron": ("--tp", "4", "--sp-mode", "megatron")}
SIZE = ("--bind", "batch=16", "--bind", "seq=32")


def compiled(folder, recipe, stream, *options):
    out = folder / f"{stream}.json"
    h.checked(h.TESSERA, "compile", h.MODELS / "bert_dyn.onnx", "--train", "sgd", *SIZE, *RECIPES[recipe], "--stream", stream, *options, "--to", "lower", "-o", out)
    return next(p for p in json.loads(out.read_text())["programs"] if p["name"] == "train")


def sent(program, *kinds):
    return sum(figures["bytes"] for by_kind in program["sent"].values() for kind, figures in by_kind.items() if not kinds or kind in kinds)


@pytest.mark.parametrize("recipe", ["2d", "megatron", pytest.param("2.5d", marks=pytest.mark.whole), pytest.param("3d", marks=pytest.mark.whole)])
def test_as_many_bytes_and_less_memory(tmp_path, recipe):
    whole, panels = (compiled(tmp_path, recipe, word) for word in ("never", "always"))
    # The mean over ranks is rounded for each collective of each axis; small gathers in one bucket send the gaps between them too.
    assert -8 <= sent(whole) - sent(panels) <= 8 + (0.001 * sent(whole) if recipe == "2.5d" else 0)
    assert sent(panels, "reduce") > 0 and sent(whole, "broadcast", "reduce") == 0
    if recipe == "3d":
        # What a product gathers there the gradient of a bias reads too, so that most of it stays whole.
        assert sent(panels, "broadcast") > 0
        return
    # In 2.5d weights are gathered over depth and rows at once, whole.
    assert sent(panels, "broadcast") > (0.3 if recipe == "2.5d" else 0.5) * sent(whole, "all_gather")
    if recipe == "2.5d":
        # Here panels save nothing at the fullest moment, and their reductions take scratch memory.
        assert panels["memory"]["peak"] - panels["memory"]["communication"] <= 1.01 * whole["memory"]["peak"]
        return
    # In the order that needs least, megatron's program gathers nothing at its fullest moment.
    assert panels["memory"]["peak"] < whole["memory"]["peak"] + (recipe == "megatron")


def test_broadcasts_are_told_how_to_travel(tmp_path):
    ops = [op for op in compiled(tmp_path, "2d", "always")["ops"] if op["op"] == "collective" and op["kind"] == "broadcast"]
    assert {op["root"] for op in ops} == {0, 1, 2, 3}
    assert {op["algorithm"] for op in ops} <= {"direct", "tree", "chain"}


def test_explain_and_report_tell_how_panels_travel(tmp_path):
    options = (h.MODELS / "gpt2_1layer.onnx", "--tp", "9", "--tp-mode", "2d")
    said = h.checked(h.TESSERA, "explain", *options, "--stream", "always").stdout.split("products by panels, which are broadcast")[1]
    assert re.search(r"node_addmm_2: 3 over row, \d+ bytes each, (direct|tree|chain), [\d.]+ us", said), said
    # Small products stay whole unless told.
    assert "products by panels, which are broadcast: none" in h.checked(h.TESSERA, "explain", *options).stdout
    h.checked(h.TESSERA, "compile", *options, "--stream", "always", "--report", tmp_path / "r.json", "--to", "lower", "-o", tmp_path / "out")
    streams = json.loads((tmp_path / "r.json").read_text())["streams"]
    assert {s["axes"] for s in streams} == {"row", "col"}
    assert all(s["algorithm"] in ("direct", "tree", "chain") and s["broadcasts"] == 3 and s["bytes"] > 0 and s["seconds"] > 0 for s in streams)


def test_promises_are_kept_and_broadcasts_run_beside_products(tmp_path):
    program = h.Program(tmp_path / "bert", 16)
    h.checked(h.TESSERA, "compile", h.MODELS / "bert_dyn.onnx", "--train", "sgd", *SIZE, *RECIPES["2d"], "--stream", "always", "-o", program.path)
    random = np.random.default_rng(0)
    data = {name: random.integers(0, 50 if name in ("input_ids", "labels") else 2, (16, 32)) for name in (*h.input_names("bert_dyn"), "labels")}
    program.train(tmp_path, data, 3, "--stats", tmp_path / "stats.json", "--trace", tmp_path / "trace.json")
    promised, measured = program.info(), json.loads((tmp_path / "stats.json").read_text())
    assert promised["sent"] == measured["sent"]
    assert [m["device"]["peak"] for m in promised["memory"]] == [m["device"]["peak"] for m in measured["memory"]]
    spans = [e for e in json.loads((tmp_path / "trace.json").read_text()) if e.get("ph") == "X"]
    # A broadcast overlaps a product where it is under way when that begins, on the same rank's other stream.
    overlapping = 0
    for rank in range(16):
        products = [e for e in spans if e["pid"] == rank and e["tid"] == 0 and e["cat"] == "gemm"]
        for e in (e for e in spans if e["pid"] == rank and e["tid"] == 1 and e["name"] == "broadcast"):
            overlapping += any(p["ts"] < e["ts"] + e["dur"] and e["ts"] < p["ts"] + p["dur"] for p in products)
    print(f"{overlapping} broadcasts were under way beside a product")
    assert overlapping >= 16
