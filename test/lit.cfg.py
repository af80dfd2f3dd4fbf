# lit's configuration: every .mlir and .test file below test/ is a test, but for the models and the end-to-end tests.
import os

import lit.formats

config.name = "tessera"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["models", "e2e", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tessera_build, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.tessera_build, "bin"), config.llvm_tools, os.environ["PATH"]])
for name in ("HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# %models: the exported models; %python: the repository's Python with onnx and numpy.
config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%python", os.path.join(config.tessera_source, ".venv", "bin", "python")))
