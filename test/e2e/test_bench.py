"""`tools/bench --target cuda`, on the checking libraries and on a machine without a GPU."""
import json
import os
import subprocess
import sys

import pytest

import harness as h


def bench(folder, *arguments, **settings):
    """Its rows by name, and its exit status."""
    command = ["tools/bench", "--target", "cuda", "--folder", folder, "--json", folder / "rows.json", *arguments]
    environment = {**os.environ, "TESSERA_BUILD": str(h.BUILD), **settings}
    result = h.run(*command, cwd=h.ROOT, env=environment, timeout=900)
    assert (folder / "rows.json").exists(), result.stderr[-3000:]
    return json.loads((folder / "rows.json").read_text()), result.returncode


def verdicts(rows):
    return {name: row["verdict"] for name, row in rows.items()}


@pytest.mark.parametrize("names", [("losses", "lost-peer", "memory"), pytest.param(("ptxas", "outputs", "graphs", "dp2", "zero3", "models", "speed", "launch"), marks=pytest.mark.whole)])
def test_rows_on_the_checking_libraries(tmp_path, names):
    names = [name for name in names if name != "ptxas" or h.ptxas()]
    rows, status = bench(tmp_path, "--check", "--models", "mlp", "--steps", "3", "--speed-steps", "2", *names)
    assert verdicts(rows) == dict.fromkeys(names, "passed") and status == 0, rows
    assert all("mlp" in rows[name]["figure"] for name in {"losses", "memory", "graphs"} & rows.keys())


def test_what_is_wrong_fails_its_row(tmp_path):
    """Too little memory: an error of the program is the row's figure."""
    rows, status = bench(tmp_path, "--check", "--models", "mlp", "--steps", "2", "graphs", TESSERA_CHECK_MEMORY="4096")
    assert verdicts(rows) == {"graphs": "FAILED"} and status == 1
    assert "bytes of device memory" in rows["graphs"]["figure"]


def test_without_a_gpu_rows_say_so(tmp_path):
    try:
        import ctypes
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("this machine has a driver")
    except OSError:
        pass
    rows, status = bench(tmp_path, "device", "losses", "speed")
    assert set(verdicts(rows).values()) == {"not run"} and status == 0
    assert all("no driver of NVIDIA" in row["figure"] for row in rows.values())


def test_unknown_rows(tmp_path):
    result = subprocess.run(["tools/bench", "--target", "cuda", "rows"], cwd=h.ROOT, env={**os.environ, "TESSERA_BUILD": str(h.BUILD)}, capture_output=True, text=True)
    assert result.returncode == 2 and "no row is called rows" in result.stderr
    result = subprocess.run(["tools/bench", "--target", "tpu"], cwd=h.ROOT, capture_output=True, text=True)
    assert result.returncode == 2 and "error: --target is 'tpu'" in result.stderr


@pytest.mark.parametrize("options", ("--ranks 0", "--sample 0", "--caps 2", "--machines nosuch"))
def test_wrong_options_of_recipes(options):
    result = subprocess.run([sys.executable, h.ROOT / "tools" / "bench_recipes.py", *options.split()], capture_output=True, text=True)
    assert result.returncode == 2 and f"error: {options.split()[0]}" in result.stderr


def test_a_faster_recipe_fails_its_row(monkeypatch):
    monkeypatch.syspath_prepend(h.ROOT / "tools")
    import bench_recipes
    case = object.__new__(bench_recipes.Case)
    case.title = "model"
    assert case.row("", ("--dp 2", 1.0, 1, False), 1.0, "--tp 2", "") and case.row("50%", None, float("inf"), "none", "")
    assert not case.row("", ("--dp 2", 1.0, 1, False), 0.99, "--tp 2", "") and not case.row("50%", None, 1.0, "--tp 2", "")
