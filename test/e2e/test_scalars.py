"""Inputs of kind `scalar`: one number that kernels have by value, another in every run of one program."""
import numpy as np
import pytest

import gpu
import harness as h

# Of a row of 12 the places up to `position`, times `scale`; as text before assignment may have it.
TEXT = """module {
  func.func @infer(%x: tensor<6x12xf32> {nn.name = "x", nn.kind = #nn<kind data>},
                   %position: tensor<i64> {nn.name = "position", nn.kind = #nn<kind scalar>, nn.range = array<i64: 0, 12>},
                   %scale: tensor<f32> {nn.name = "scale", nn.kind = #nn<kind scalar>}) -> (tensor<6x12xf32> {nn.name = "y"}) {
    %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
    %i = nn.iota {dim = 1 : i64} : () -> tensor<6x12xi64>
    %seen = nn.compare %i, %position {predicate = "le"} : (tensor<6x12xi64>, tensor<i64>) -> tensor<6x12xi1>
    %scaled = nn.mul %x, %scale : (tensor<6x12xf32>, tensor<f32>) -> tensor<6x12xf32>
    %y = nn.select %seen, %scaled, %zero : (tensor<6x12xi1>, tensor<6x12xf32>, tensor<f32>) -> tensor<6x12xf32>
    return %y : tensor<6x12xf32>
  }
}
"""
X = np.arange(72, dtype=np.float32).reshape(6, 12) + 1


def expected(position, scale):
    return np.where(np.arange(12) <= position, X * np.float32(scale), np.float32(0))


def inputs(position, scale):
    return {"x": X, "position": np.int64(position), "scale": np.float32(scale)}


@pytest.mark.parametrize("split", [None, 0, 1])
def test_numbers_differ_from_run_to_run(tmp_path, split):
    (tmp_path / "model.mlir").write_text(TEXT)
    (tmp_path / "plan.toml").write_text(f'[mesh]\na = 2\n[[input]]\nmatch = "x"\ndim = {split}\naxes = ["a"]\n')
    h.checked(h.TESSERA, "compile", tmp_path / "model.mlir", "-o", tmp_path / "program",
              *(() if split is None else ("--plan", tmp_path / "plan.toml")))
    program = h.Program(tmp_path / "program", 1 if split is None else 2)
    for run, (position, scale) in enumerate([(0, 1.0), (7, -2.5), (11, 3e38)]):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(program.infer(tmp_path / str(run), inputs(position, scale))["y"], expected(position, scale))


def test_a_number_out_of_range_is_refused(tmp_path):
    (tmp_path / "model.mlir").write_text(TEXT)
    h.checked(h.TESSERA, "compile", tmp_path / "model.mlir", "-o", tmp_path / "program")
    h.assert_error(h.run(tmp_path / "program", *h.Program(tmp_path / "program", 1).infer_arguments(tmp_path / "run", inputs(12, 1))),
                   "position", "12")


def test_kernels_of_a_gpu_have_them_too(tmp_path):
    """On the checking driver; `--repeat` would record the work and repeat it with old numbers, if that were done."""
    (tmp_path / "model.mlir").write_text(TEXT)
    path, run = gpu.compiled(tmp_path / "cuda", tmp_path / "model.mlir")
    for position, scale in [(3, 0.5), (8, -1.5)]:
        folder = tmp_path / str(position)
        result = run(*h.Program(path, 1).infer_arguments(folder, inputs(position, scale), "--repeat", "3"))
        assert result.returncode == 0, result.stderr
        np.testing.assert_array_equal(np.load(folder / "out" / "y.npy"), expected(position, scale))
