"""What `cmake --install` makes: a compiler that finds its runtime wherever the whole is moved to, and find_package(Tessera)."""
import os

import pytest

import harness as h

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(Tessera 0.1 REQUIRED)
add_executable(program main.cpp)
target_link_libraries(program Tessera::runtime)
get_target_property(compiler Tessera::tessera IMPORTED_LOCATION)
message(STATUS "compiler: ${compiler}")
"""
MAIN = r"""#include <tessera-rt/main.h>
#include <cstring>
int main(int argc, char **argv) {
  const char *description = "{\"format\": 1}";
  return tsr_main(argc, argv, description, std::strlen(description), nullptr, 0);
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An installation that was moved."""
    folder = tmp_path_factory.mktemp("install")
    h.checked("cmake", "--install", h.BUILD, "--prefix", folder / "first")
    (folder / "first").rename(folder / "prefix")
    return folder / "prefix"


def test_files(installed):
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    for expected in ("bin/tessera", "bin/tessera-opt", "include/tessera-rt/main.h", "share/doc/tessera/copyright"):
        assert expected in files
    assert {path.rsplit("/", 1)[1] for path in files if path.startswith("lib")} == {
        "libtessera-rt.a", "TesseraConfig.cmake", "TesseraConfigVersion.cmake"}


def test_installed_compiler_links_executables(installed, tmp_path):
    compiler = installed / "bin" / "tessera"
    # By a link in a folder of PATH, as administrators put it there.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tessera").symlink_to(compiler)
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    h.checked("tessera", "compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "mlp", "--train", "sgd", env=environment)
    program = h.Program(tmp_path / "mlp", 1)
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    assert len(program.train(tmp_path / "run", data, 2)) == 2


def test_without_its_runtime_it_says_where_it_looked(installed, tmp_path):
    (tmp_path / "bin").mkdir()
    alone = tmp_path / "bin" / "tessera"
    os.link(installed / "bin" / "tessera", alone)
    result = h.run(alone, "compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "mlp")
    h.assert_error(result, f"the runtime library '{tmp_path}/lib/libtessera-rt.a'", "does not exist; it is installed with the compiler")


def test_find_package(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.cpp").write_text(MAIN)
    said = h.checked("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}").stdout
    assert f"compiler: {installed}/bin/tessera" in said
    h.checked("cmake", "--build", tmp_path / "build")
    h.assert_error(h.run(tmp_path / "build" / "program", "info"), "description")
