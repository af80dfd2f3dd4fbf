"""Libraries found at run time that lack something or fail: MPI, the driver of NVIDIA, cuBLASLt and cuDNN, as C code of a few lines stands for them."""
import os

import numpy as np
import onnx
import pytest

import harness as h
from gpu import CHECK, compiled
from test_cuda import first_step


def library(folder, name, code, original=None):
    """The folder of a library that has the functions of C code, before all others of `original`."""
    folder = folder / "lib"
    folder.mkdir()
    (folder / "code.c").write_text(code)
    behind = []
    if original:
        # One without a name of its own is found by its path, where the original stands then.
        behind = ["-Wl,--no-as-needed", folder / "original.so"]
        h.checked("c++", "-shared", "-x", "c", "/dev/null", "-o", folder / "original.so")
    h.checked("c++", "-shared", "-fPIC", "-x", "c", folder / "code.c", "-x", "none", *behind, "-o", folder / name)
    if original:
        (folder / "original.so").unlink()
        (folder / "original.so").symlink_to(original)
    return str(folder)


MPI = "\n".join(f"int MPI_{name}() {{ return 0; }}" for name in
                ("Finalize", "Abort", "Comm_size", "Comm_set_errhandler", "Isend", "Irecv", "Test", "Get_count")) + """
int MPI_Init_thread(void *count, void *values, int wanted, int *given) { *given = THREADS; return 0; }
int MPI_Comm_rank(void *world, int *rank) { return STATUS; }
int MPI_Error_string(int code, char *text, int *length) { __builtin_strcpy(text, "no such world"); *length = 13; return 0; }
long ompi_mpi_comm_world, ompi_mpi_byte, ompi_mpi_errors_return;
"""


@pytest.mark.parametrize("code,said", [
    (None, "; install Open MPI 4 (Debian: openmpi-bin), or start the program without mpirun"),
    ("int MPI_Init_thread() { return 0; }", "libmpi.so.40 has no 'MPI_Finalize': it is not Open MPI 3 or 4"),
    ("#define THREADS 0\n#define STATUS 0\n" + MPI, "this MPI cannot be used by more than one thread; it was built without MPI_THREAD_SERIALIZED"),
    ("#define THREADS 3\n#define STATUS 5\n" + MPI, "MPI failed to tell the rank: no such world"),
], ids=["none", "another", "of one thread", "failing"])
def test_mpi(program, tmp_path, code, said):
    lib = library(tmp_path, "libmpi.so.40", code or "")
    if not code:
        (tmp_path / "lib" / "libmpi.so.40").write_text("no library")
        said = f"started under mpirun, but MPI cannot be loaded ({lib}/libmpi.so.40: file too short)" + said
    compiled = program("mlp", "1", ("--train", "adamw"))
    given = compiled.infer_arguments(tmp_path, h.model_inputs("mlp", ["x"]))
    variables = {"LD_LIBRARY_PATH": lib, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}
    h.assert_error(h.run(compiled.path, *given, env={**os.environ, **variables}), said)


def test_a_driver_without_a_function(program, tmp_path):
    lib = library(tmp_path, "libcuda.so.1", "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }")
    h.assert_error(first_step(program, LD_LIBRARY_PATH=lib), "libcuda.so.1 lacks the function cuInit; update the driver")


def test_products_that_cublaslt_fails_at(program, tmp_path):
    lib = library(tmp_path, "libcublasLt.so.13", "int cublasLtMatmul() { return 13; }", CHECK / "libcublasLt.so.13")
    result = first_step(program, LD_LIBRARY_PATH=f"{lib}:{CHECK}")
    h.assert_error(result, "cuBLASLt: a product: status 13; TESSERA_CUBLASLT=off does without it")
    assert first_step(program, LD_LIBRARY_PATH=f"{lib}:{CHECK}", TESSERA_CUBLASLT="off").returncode == 0


def test_convolutions_that_cudnn_fails_at(tmp_path):
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (2, 4, 8, 8)) for name in "xy")
    weight = onnx.numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "conv", [x], [y], [weight])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), tmp_path / "conv.onnx")
    path, run = compiled(tmp_path / "gpu", tmp_path / "conv.onnx")
    given = h.Program(path, 1).infer_arguments(tmp_path, {"x": np.ones((2, 4, 8, 8), np.float32)})
    for function, what in (("cudnnSetFilter4dDescriptor", "describing a convolution"), ("cudnnSetStream", "taking a stream")):
        folder = tmp_path / function
        folder.mkdir()
        lib = library(folder, "libcudnn.so.9", f"int {function}() {{ return 2000; }}", CHECK / "libcudnn.so.9")
        h.assert_error(run(*given, LD_LIBRARY_PATH=f"{lib}:{CHECK}"), f"cuDNN: {what}: status 2000; TESSERA_CUDNN=off does without it")
