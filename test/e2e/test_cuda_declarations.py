"""Our declarations of NVIDIA's libraries are NVIDIA's: functions, layouts of structures, constants, wherever their headers are."""
import os
import pathlib
import shutil

import pytest

import harness as h

HEADERS = ("cuda.h", "cublasLt.h", "cudnn.h", "nccl.h")
FOLDERS = [pathlib.Path(folder) for folder in os.environ.get("TESSERA_CUDA_INCLUDE", "/usr/local/cuda/include").split(os.pathsep)]
CHECK = h.ROOT / "runtime" / "device" / "cuda" / "check" / "declarations.cpp"


def compiled(root, file):
    return h.run(shutil.which("clang++-22"), "-std=c++20", "-fsyntax-only", "-Wno-deprecated-declarations", "-I", root,
                 *(word for folder in FOLDERS for word in ("-isystem", folder)), file)


@pytest.fixture(autouse=True)
def headers():
    missing = [name for name in HEADERS if not any((folder / name).exists() for folder in FOLDERS)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} in {os.pathsep.join(map(str, FOLDERS))}; docs/gpu.md says how to fetch NVIDIA's headers")


def test_declarations():
    result = compiled(h.ROOT, CHECK)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("file,ours,wrong", [
    ("runtime/device/cuda/driver.h", "cuMemFree_v2, (DevicePointer pointer)", "cuMemFree_v2, (int pointer)"),
    ("runtime/device/cuda/dnn_graph.h", "PointwiseT = 758", "PointwiseT = 757"),
    ("runtime/comm/nccl/nccl_library.h", "int blocking = 0, clusterSize", "int64_t blocking = 0; int clusterSize"),
])
def test_a_wrong_declaration_is_noticed(tmp_path, file, ours, wrong):
    shutil.copytree(h.ROOT / "runtime", tmp_path / "runtime", ignore=shutil.ignore_patterns("*.cpp"))
    text = (h.ROOT / file).read_text()
    assert ours in text
    (tmp_path / file).write_text(text.replace(ours, wrong))
    shutil.copy(CHECK, tmp_path / CHECK.name)
    result = compiled(tmp_path, tmp_path / CHECK.name)
    assert result.returncode == 1 and "static assertion failed" in result.stderr
