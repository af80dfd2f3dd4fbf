"""Input made to break the compiler and its programs: one error line that says what and where, status 1 or 2, in seconds, with
nothing left behind."""
import functools
import os
import signal
import struct
import subprocess
import time
import zipfile

import numpy as np
import pytest

import harness as h
import hostile_models

TRAIN = ("--train", "adamw")
GPT2 = h.MODELS / "gpt2_1layer.onnx"
IDS = np.zeros((4, 32), np.int64)


def every(n, cases):
    """Every n-th case is of the sample, the others run with all."""
    return [pytest.param(*values, id=name, marks=() if i % n == 0 else pytest.mark.whole) for i, (name, values) in enumerate(cases)]


compile_fails = functools.partial(h.compile_fails, timeout=10)

# Known to have ended by a signal, or not at all.
ALWAYS = {"split-many", "split-chunks", "onehot-huge", "cumsum-of-nothing", "external-pipe", "external-nul", "function-bomb", "nested-subgraphs",
          "tile-short", "cycle", "unknown-attribute", "too-many-operands"}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in ALWAYS or i % 8 == 0 else pytest.mark.whole)
                                  for i, kind in enumerate(hostile_models.MODELS)])
def test_models(tmp_path, kind):
    folder = tmp_path / "model"
    folder.mkdir()
    path, words = hostile_models.write(kind, folder), hostile_models.MODELS[kind][1]
    if words is None:
        assert h.tessera("compile", path, "-o", tmp_path / "p", timeout=10).returncode in (0, 1)
    else:
        compile_fails(tmp_path, path, words=words)


DEEP = 10_000
TOO_DEEP = "the text is nested more than 256 deep"
# Text at a phase whose nesting no recursive parser survives.
TEXTS = {"regions": "module {" * DEEP + "}" * DEEP, "lists": "module attributes {a = " + "[" * DEEP + "]" * DEEP + "} {}",
         "tables": "module attributes {a = " + "{a = " * DEEP + "1" + "}" * DEEP + "} {}", "open": "module {" * DEEP,
         "types": "func.func private @f(" + "tuple<" * DEEP + "i1" + ">" * DEEP + ")",
         "locations": "module {} loc(" + "fused[" * DEEP + "unknown" + "]" * DEEP + ")",
         "maps": "module attributes {a = affine_map<(x) -> (" + "(" * DEEP + "x" + ")" * DEEP + ")>} {}",
         "aliases": "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}]\n" for i in range(DEEP)) + f"module attributes {{a = #a{DEEP}}} {{}}",
         "type-aliases": "!t0 = i1\n" + "".join(f"!t{i + 1} // of\n = tuple<!t{i}>\n" for i in range(DEEP)) + f"func.func private @f(!t{DEEP})",
         "doubled": "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(100)) + "module attributes {a = #a100} {}"}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_nested_deeply(tmp_path, kind):
    (tmp_path / "deep.mlir").write_text(TEXTS[kind])
    compile_fails(tmp_path, tmp_path / "deep.mlir", words=["deep.mlir", TOO_DEEP if kind != "doubled" else
                                                                    "the aliases so far stand for more than 268435456 characters"])


# A program whose kernels are formed, and what is wrong with it in other words.
FORMED = """module attributes {dist.micro = 1 : i64, nn.phase = "schedule"} {
  dist.mesh @mesh = <[]>
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = exec.apply @kernel_0(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
  module @kernels {
    func.func @kernel_0(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %0 = tensor.empty() : tensor<2x4xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%arg0 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
      ^bb0(%in: f32, %out: f32):
        %2 = arith.negf %in : f32
        linalg.yield %2 : f32
      } -> tensor<2x4xf32>
      return %1 : tensor<2x4xf32>
    }
    func.func @spare(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
      return %arg0 : tensor<2x4xf32>
    }
  }
}
"""
SPARE = FORMED[FORMED.index("    func.func @spare"):FORMED.index("  }\n}\n")]
UNFORMED = {
    "no-such-kernel": ("apply @kernel_0", "apply @kernel_7", "there is no kernel @kernel_7 in module @kernels"),
    "other-type": ("@kernel_0(%arg0: tensor<2x4xf32>)", "@kernel_0(%arg0: tensor<2x4xf32>, %arg1: i64)",
        "kernel @kernel_0 has type '(tensor<2x4xf32>, i64) -> tensor<2x4xf32>' and is called as '(tensor<2x4xf32>) -> tensor<2x4xf32>'"),
    "no-block": (SPARE, "    func.func private @spare(tensor<2x4xf32>) -> tensor<2x4xf32>\n",
        "kernel @spare must have one block"),
    "scalar-result": (SPARE, "    func.func @spare(%i: i64) -> i64 {\n      return %i : i64\n    }\n",
        "a result of kernel @spare has type 'i64'; expected a tensor"),
    "scalar-argument": (SPARE, "    func.func @spare(%i: f32) {\n      return\n    }\n",
        "an argument of kernel @spare has type 'f32'; expected a tensor, i64 or index"),
    "no-sizes": (SPARE, "    func.func @spare(%i: tensor<?xf32>) {\n      return\n    }\n",
        "kernel @spare has a value without fixed sizes, or of more than 2^48 elements"),
    "no-function": (SPARE, "    nn.variable @v : tensor<4xf32> {role = \"parameter\"}\n",
        "@kernels holds functions, not 'nn.variable'"),
}


@pytest.mark.parametrize("kind", UNFORMED)
def test_texts_with_wrong_kernels(tmp_path, kind):
    old, new, words = UNFORMED[kind]
    assert FORMED.count(old) == 1
    (tmp_path / "formed.mlir").write_text(FORMED)
    assert h.tessera("compile", tmp_path / "formed.mlir", "-o", tmp_path / "p").returncode == 0
    (tmp_path / "wrong.mlir").write_text(FORMED.replace(old, new))
    compile_fails(tmp_path, tmp_path / "wrong.mlir", words=["wrong.mlir", words])


# A program before it is laid out, and what only later ones have.
EARLY = """module attributes {nn.phase = "assign"} {
  dist.mesh @mesh = <["data"=2]>
  nn.variable @w : tensor<4xf32> {role = "parameter"}
  func.func @infer(%x: tensor<4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4xf32>
    %y = nn.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""
HALVES = "#dist.layout<[[4 : \"data\"=2]]>"
LAID_OUT = {
    "variable": ("@w : tensor<4xf32> {", f"@w : tensor<4xf32, {HALVES}> {{",
        "variable @w is laid out over a mesh, and the text is said to be before propagate"),
    "argument": ("{nn.kind = #nn<kind data>, nn.name = \"x\"}", f"{{nn.kind = #nn<kind data>, nn.name = \"x\"}}, %z: tensor<4xf32, {HALVES}>",
        "argument 1 of @infer is laid out over a mesh, and the text is said to be before propagate"),
    "operator": ("    return", "    %i = dist.logical_index over <\"data\"=2> size 4 padded 4 : tensor<2xi64>\n    return",
        "is laid out over a mesh, and the text is said to be before propagate"),
}


@pytest.mark.parametrize("kind", LAID_OUT)
def test_texts_laid_out_too_early(tmp_path, kind):
    old, new, words = LAID_OUT[kind]
    assert EARLY.count(old) == 1
    (tmp_path / "early.mlir").write_text(EARLY)
    assert h.tessera("compile", tmp_path / "early.mlir", "--to", "lower", "-o", tmp_path / "p").returncode == 0
    (tmp_path / "wrong.mlir").write_text(EARLY.replace(old, new))
    compile_fails(tmp_path, tmp_path / "wrong.mlir", words=["wrong.mlir", words, "before propagate"])


def test_bytecode_is_not_read(tmp_path):
    (tmp_path / "b.mlir").write_bytes(b"ML\xefR" + bytes(64))
    compile_fails(tmp_path, tmp_path / "b.mlir", words=["b.mlir", "the file is MLIR's bytecode; expected text"])


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/tmp", "/proc/self/mem", "pipe"])
def test_models_that_are_no_files(tmp_path, path):
    os.mkfifo(tmp_path / "pipe")
    compile_fails(tmp_path, tmp_path / path, words=[str(tmp_path / path)])
    (tmp_path / "out").rmdir()
    compile_fails(tmp_path, GPT2, "--plan", tmp_path / path, words=[str(tmp_path / path)])


# ---- plans: every key misspelt, every value of another type

PLAN = """[mesh]
data = 2
tensor = 2
[[input]]
match = "*"
dim = 0
axes = ["data"]
[[op]]
match = "*.mlp.c_fc*"
pattern = "column"
axes = ["tensor"]
[[value]]
match = "logits"
split = { 2 = ["tensor"] }
[pipeline]
microbatches = 2
""".splitlines()
VALUES = {"text": '"text"', "negative": "-1", "float": "1.5", "bool": "true", "list": "[1]", "mixed": '["tensor", 2]', "table": "{ a = 1 }",
          "date": "1979-05-27", "nan": "nan", "huge": "9223372036854775807", "nested": '[["tensor"]]'}


def changed(line, text):
    return "\n".join([*PLAN[:line], text, *PLAN[line + 1:]])


def plans():
    for i, line in enumerate(PLAN):
        if line.startswith("["):
            yield f"misspelt-{line.strip('[]')}", changed(i, line.replace("]", "x]", 1)), 1
            continue
        key, value = line.split(" = ", 1)
        if key not in ("data", "tensor"):  # an axis may have any name; then another entry names one that is missing
            yield f"misspelt-{key}-{i + 1}", changed(i, f"{key}x = {value}"), 1
        for kind, other in VALUES.items():
            if not (key == "dim" and kind == "negative"):
                yield f"{kind}-{key}-{i + 1}", changed(i, f"{key} = {other}"), 0 if key == "microbatches" and kind == "huge" else 1
    yield "deep-list", "a = " + "[" * 10000, 1
    yield "deep-key", "a." * 10000 + "b = 1", 1
    yield "nul", "[mesh]\n\0 = 1", 1
    yield "not-utf8", b"[mesh]\n\xff\xfe = 1", 1
    yield "key-twice", "[mesh]\na = 1\na = 2", 1
    yield "table-twice", "[mesh]\na = 1\n[mesh]\nb = 2", 1
    yield "number-too-large", "[mesh]\na = 99999999999999999999", 1
    yield "too-many-ranks", "[mesh]\na = 4294967296\nb = 4294967296", 1
    yield "unnamed-axis", '[mesh]\n"" = 2', 1


@pytest.mark.parametrize("text,placed", every(11, [(name, (text, placed)) for name, text, placed in plans()]))
def test_plans(tmp_path, text, placed):
    (tmp_path / "plan.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = compile_fails(tmp_path, GPT2, "--plan", tmp_path / "plan.toml", *TRAIN)
    assert not placed or "plan.toml:" in result.first_error


@pytest.mark.parametrize("options", [
    ("--dp", str(2**63 - 1)), ("--tp", str(2**62), "--dp", "4"), ("--dp", str(2**64)), ("--microbatches", str(2**63 - 1)),
    ("--threads", str(2**63 - 1)), ("--bind", "batch=99999999999999999999"), ("--dp", "1e3"), ("--dp", "nan"), ("--dp", "")])
def test_numbers_of_the_compiler(tmp_path, options):
    out = tmp_path / "out"
    out.mkdir()
    result = h.tessera("compile", GPT2, "-o", out / "p", *TRAIN, *options, timeout=10)
    h.assert_error(result, status=result.returncode)
    assert result.returncode in (1, 2) and not list(out.iterdir())


# ---- the compiler's output

def limited(kilobytes, *command):
    return ("bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "limited", *command)


@pytest.mark.parametrize("kilobytes", [0, 8, 64, 256])
def test_file_size_limit_of_the_compiler(tmp_path, kilobytes):
    result = h.run(*limited(kilobytes, h.TESSERA, "compile", GPT2, "-o", tmp_path / "p"), env={**os.environ, "TMPDIR": str(tmp_path)},
                   timeout=20)
    h.assert_error(result)
    assert not list(tmp_path.iterdir()), "something was left behind"


@pytest.mark.parametrize("arguments", [
    ("plan", GPT2, "--dp", "2"), ("explain", GPT2), ("compile", GPT2, "--to", "import"), ("compile", "--list-patterns"), ("--help",),
    ("compile", GPT2, "--to", "lower", "-o", "/dev/full")],
    ids=lambda a: f"{a[0]}-{len(a)}")
def test_full_disk_of_the_compiler(arguments):
    with open("/dev/full", "w") as full:
        result = subprocess.run([h.TESSERA, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=20)
    assert result.returncode == 1 and result.stderr.startswith("error: "), result.stderr
    assert "No space left" in result.stderr


def test_devices_are_not_replaced(tmp_path):
    """Under root a rename would put the output in the place of a device."""
    os.mkfifo(tmp_path / "pipe")
    result = h.tessera("compile", GPT2, "-o", tmp_path / "pipe", timeout=10)
    h.assert_error(result, "/pipe': it exists and is not a regular file; to compile without output, use --to lower -o /dev/null")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"] and (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("folder", ["/proc", "/sys", "/dev/null"])
def test_folders_that_cannot_be_written(tmp_path, folder):
    for options in (("-o", f"{folder}/p"), ("--to", "assign", "-o", f"{folder}/p"), ("-o", tmp_path / "p", "--dump-phases", f"{folder}/d"),
                    ("--to", "assign", "-o", tmp_path / "p.mlir", "--report", f"{folder}/r.json")):
        h.assert_error(h.tessera("compile", GPT2, *options, timeout=20), folder)


def in_small_folder(folder, options, *command):
    """`command` where `folder` is a file system of its own, mounted with `options`; its result, and the files that are left in the folder."""
    script = ('mount -t tmpfs -o "$1" none "$2" || exit 77; folder=$2; shift 2; "$@"; status=$?; '
              'find "$folder" -type f | sed "s/^/left behind: /"; exit $status')
    result = h.run("unshare", "-m", "sh", "-c", script, "sh", options, folder, *command, timeout=20)
    if result.returncode == 77 or "unshare:" in result.stderr:
        pytest.skip("needs the right to mount: run as root")
    return result


FILE_SYSTEMS = [pytest.param("size=64k", "No space left", id="full"), pytest.param("ro", "Read-only", id="read-only")]


@pytest.mark.parametrize("options,words", FILE_SYSTEMS)
def test_file_systems_of_the_compiler(tmp_path, options, words):
    (tmp_path / "small").mkdir()
    for arguments in (("-o", "p"), ("--to", "assign", "-o", "p"), ("--to", "assign", "-o", "/dev/null", "--report", "r.json"),
                      ("--to", "lower", "-o", "/dev/null", "--dump-phases", "d")):
        if options != "ro" and ("assign" in arguments):
            continue  # what these write is small
        arguments = [tmp_path / "small" / a if a in ("p", "r.json", "d") else a for a in arguments]
        result = in_small_folder(tmp_path / "small", options, h.TESSERA, "compile", GPT2, *arguments)
        h.assert_error(result, "small", words)
        assert "--dump-phases" in arguments or "left behind" not in result.stdout, result.stdout


@pytest.mark.parametrize("options,words", FILE_SYSTEMS)
def test_file_systems_of_the_executable(gpt2, tmp_path, options, words):
    small = tmp_path / "small"
    small.mkdir()
    np.save(tmp_path / "ids.npy", IDS)
    train = gpt2.train_arguments(tmp_path, h.training_data("gpt2", ["input_ids", "labels"]), 2)
    for arguments in ((*train, "--save", small / "s.safetensors"), (*train, "--checkpoint", small / "c", "--every", "1"),
                      ("infer", "--input", f"input_ids={tmp_path}/ids.npy", "--output", small / "out")):
        result = in_small_folder(small, options, *gpt2.command(*arguments))
        if options != "ro" and "--checkpoint" in arguments:  # known before the first step
            h.assert_error(result, "there is no room for a checkpoint in '", "small/c': it takes ", " bytes, ", " are free")
        else:
            h.assert_error(result, "small", words)
        assert "left behind" not in result.stdout, result.stdout


# ---- arrays

@pytest.fixture
def gpt2(program):
    return program("gpt2_1layer", "1", TRAIN, model=GPT2)


def npy(text, data=bytes(1024), version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin1") + data


def header(descr="'<i8'", fortran="False", shape="(4, 32)", extra=""):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, {extra}}}\n"


def saved(array, **options):
    import io

    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def safetensors(text, data=bytes(1024)):
    return struct.pack("<Q", len(text)) + text.encode() + data


def entry(dtype='"I64"', shape="[4,32]", offsets="[0,1024]"):
    return f'{{"x":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'


def npz(change=lambda data: data, compression=zipfile.ZIP_STORED, member=None):
    import io

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("x.npy", saved(IDS) if member is None else member)
    return change(stream.getvalue())


def patched(at, value):
    def change(data):
        start = data.rindex(at[0]) + at[1]
        return data[:start] + value + data[start + len(value):]
    return change


CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"
# file name -> (bytes, words of the error)
ARRAYS = {
    "big-endian.npy": (saved(IDS.astype(">i8")),
        ["its .npy header describes big-endian numbers ('>i8'); save the array little-endian"]),
    "pickle.npy": (saved(np.array([[None] * 32] * 4), allow_pickle=True),
        ["its .npy header describes Python objects (a pickle), which are not read; save the array with a number type"]),
    "structured.npy": (saved(np.zeros(4, [("a", "<i8")])),
        ["its .npy header describes a structured array; a plain array of numbers is expected"]),
    "text-type.npy": (npy(header("'<U8'")),
        ["its .npy header has the type '<U8', which is not a number type that programs have"]),
    "complex.npy": (npy(header("'<c16'")),
        ["its .npy header has the type '<c16', which is not a number type that programs have"]),
    "no-type.npy": (npy("{'fortran_order': False, 'shape': (4, 32), }\n"),
        ["its .npy header lacks descr, fortran_order or shape"]),
    "unknown-key.npy": (npy(header(extra="'more': 1, ")), ["its .npy header has the unknown key 'more'"]),
    "negative.npy": (npy(header(shape="(-4, 32)")), ["its .npy header has no dimension at byte 51"]),
    "huge.npy": (npy(header(shape="(9223372036854775807, 32)")), ["has a shape whose size overflows"]),
    "too-large.npy": (npy(header(shape="(99999999999999999999,)")),
        ["its .npy header has a dimension that is too large"]),
    "zero-overflow.npy": (npy(header(shape="(0, 9223372036854775807, 9223372036854775807)")),
        ["has shape [0, 9223372036854775807, 9223372036854775807], the program was compiled for [4, 32]"]),
    "many-dimensions.npy": (npy(header(shape="(" + "1," * 20000 + ")")), ["the program was compiled for [4, 32]"]),
    "unclosed.npy": (npy("{'descr': '<i8"), ["its .npy header has a string without end"]),
    "nested.npy": (npy("{" * 60000), ["its .npy header has no string at byte 1"]),
    "version.npy": (npy(header(), version=9), ["has .npy version 9, known are 1, 2 and 3"]),
    "header-length.npy": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100),
        ["is not a .npy array: it says its header has 4294967295 bytes"]),
    "cut.npy": (saved(IDS)[:-1], ["is cut short: its shape needs 1024 bytes, it has 1023"]),
    "not-a-number.npz": (npz(lambda d: d[:-22] + bytes(22)), ["is not a zip archive"]),
    "empty.npz": (b"PK\x05\x06" + bytes(18), ["holds no array 'input_ids'; it holds none"]),
    "cut.npz": (npz(lambda d: d[:len(d) // 2]), ["is not a zip archive"]),
    "encrypted.npz": (npz(patched((CENTRAL, 8), b"\1\0")), ["is encrypted"]),
    "method.npz": (npz(patched((CENTRAL, 10), b"\x0c\0")), ["uses compression method 12; stored and deflate are read"]),
    "outside.npz": (npz(patched((CENTRAL, 42), b"\xff\xff\xff\x7f")), ["lies outside of the archive"]),
    "long-directory.npz": (npz(patched((END, 12), b"\xff\xff\xff\x7f")),
        ["is a damaged zip archive: its directory lies outside of it"]),
    "far-directory.npz": (npz(patched((END, 16), b"\xff\xff\xff\x7f")),
        ["is a damaged zip archive: its directory lies outside of it"]),
    "many-members.npz": (npz(patched((END, 10), b"\xff\xff")), ["is a damaged zip archive: a record is cut short"]),
    "damaged-deflate.npz": (npz(lambda d: d[:35] + b"\xff" * 8 + d[43:], zipfile.ZIP_DEFLATED),
        ["the compressed data is damaged or too short"]),
    "bomb.npz": (npz(compression=zipfile.ZIP_DEFLATED, member=npy(header(shape="(100000000,)"), bytes(1 << 26))),
        ["is cut short: its shape needs 800000000 bytes, it has 67108864"]),
    "other-array.npz": (npz(member=b"hello"), ["is not a .npy array: it has only 5 bytes"]),
    "nothing.safetensors": (b"", ["is not a safetensors file: it has only 0 bytes"]),
    "header-length.safetensors": (b"\xff" * 8 + bytes(100),
        ["is not a safetensors file: it says its header has 18446744073709551615 bytes, the file has 108"]),
    "no-json.safetensors": (safetensors("hello"), ["is not a safetensors file: its header is not JSON"]),
    "list.safetensors": (safetensors("[1, 2]"), ["is not a safetensors file: its header is not a JSON object"]),
    "nested.safetensors": (safetensors('{"x":' + "[" * 100000), ["is not a safetensors file: its header is not JSON"]),
    "closed-nest.safetensors": (safetensors('{"x":' + "[" * 100000 + "]" * 100000 + "}"),
        ["tensor 'x' lacks dtype, shape or data_offsets"]),
    "twice.safetensors": (safetensors(entry()[:-1] + "," + entry()[1:]), ["is damaged: tensor 'x' occurs twice"]),
    "dtype.safetensors": (safetensors(entry(dtype='"I65"')), ["tensor 'x' has the unknown dtype 'I65'"]),
    "dtype-number.safetensors": (safetensors(entry(dtype="64")),
        ["tensor 'x' has a dtype, shape or data_offsets of a wrong kind"]),
    "negative.safetensors": (safetensors(entry(shape="[-4,32]")),
        ["tensor 'x': a dimension is not a non-negative integer"]),
    "fraction.safetensors": (safetensors(entry(shape="[4.5,32]")),
        ["tensor 'x': a dimension is not a non-negative integer"]),
    "overflow.safetensors": (safetensors(entry(shape="[9223372036854775807,4]")),
        ["tensor 'x' has a shape whose size overflows"]),
    "shape.safetensors": (safetensors(entry(shape="[4,33]")), ["tensor 'x' has 1024 bytes, its shape needs 1056"]),
    "backward.safetensors": (safetensors(entry(offsets="[1024,0]")),
        ["tensor 'x' lies at bytes [1024, 0) of 1024 (is the file cut short?)"]),
    "outside.safetensors": (safetensors(entry(offsets="[1024,2048]")),
        ["tensor 'x' lies at bytes [1024, 2048) of 1024 (is the file cut short?)"]),
    "offset-overflow.safetensors": (safetensors(entry(offsets="[18446744073709551000,18446744073709551615]")),
        ["tensor 'x' lies at bytes [18446744073709551000, 18446744073709551615) of 1024 (is the file cut short?)"]),
    "three-offsets.safetensors": (safetensors(entry(offsets="[0,1024,0]")),
        ["tensor 'x' has a dtype, shape or data_offsets of a wrong kind"]),
    "shared.safetensors": (safetensors(entry()[:-1] + ',"y"' + entry()[4:]),
        ["is damaged: two tensors share byte 127"]),
    "metadata.safetensors": (safetensors('{"__metadata__":{"a":1}}'),
        ["__metadata__ holds something that is not a string, 'a'"]),
    "unknown.bin": (bytes(1024), ["cannot read the array 'input_ids' from", ".npy"]),
}


@pytest.mark.parametrize("name", every(5, [(name, (name,)) for name in ARRAYS]))
def test_arrays(gpt2, tmp_path, name):
    data, words = ARRAYS[name]
    (tmp_path / name).write_bytes(data)
    result = h.run(*gpt2.command("infer", "--input", f"input_ids={tmp_path / name}", "--output", tmp_path / "out"), timeout=10)
    h.assert_error(result, name, *words)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("path", ["/dev/zero", "/tmp", "pipe"])
def test_arrays_that_are_no_files(gpt2, tmp_path, path):
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / path, tmp_path / "x.npy")
    for arguments in (("infer", "--input", f"input_ids={tmp_path}/x.npy", "--output", tmp_path / "out"),
                      ("train", "--steps", "1", "--tokens", tmp_path / "x.npy"),
                      ("train", "--steps", "1", "--data", f"input_ids={tmp_path}/x.npy", "--data", f"labels={tmp_path}/x.npy")):
        h.assert_error(h.run(*gpt2.command(*arguments), timeout=10), "cannot read '", "x.npy': not a regular file")


def test_fortran_order_is_read(gpt2, tmp_path):
    ids = np.arange(128).reshape(4, 32)
    given = {"c": ids, "f": np.asfortranarray(ids)}
    outputs = {k: gpt2.infer(tmp_path / k, {"input_ids": v})["logits"] for k, v in given.items()}
    np.testing.assert_array_equal(outputs["c"], outputs["f"])
    np.savez_compressed(tmp_path / "f.npz", input_ids=given["f"])
    h.checked(*gpt2.command("infer", "--input", f"input_ids={tmp_path}/f.npz", "--output", tmp_path / "out"))
    np.testing.assert_array_equal(outputs["c"], np.load(tmp_path / "out" / "logits.npy"))


# ---- options and the end of a run

OPTIONS = [
    (("--steps", "-1"), 2), (("--steps", "1e3"), 2), (("--steps", str(2**64)), 2), (("--steps",), 2), (("--steps", ""), 2),
    (("--lr", "nan"), 2), (("--lr", "inf"), 2), (("--lr", "-1"), 2), (("--lr", "1e999"), 2), (("--lr", "1,5"), 2), (("--min-lr", "nan"), 2),
    (("--warmup", "-1"), 2), (("--schedule", "step"), 2), (("--betas", "0.9"), 2), (("--betas", "0.9,nan"), 2), (("--betas", "1,1"), 2),
    (("--eps", "nan"), 2), (("--weight-decay", "nan"), 2), (("--clip-norm", "0"), 2), (("--clip-norm", "nan"), 2), (("--seed", "-1"), 2),
    (("--threads", "0"), 2), (("--threads", "1000000"), 2), (("--every", "0", "--checkpoint", "c"), 2), (("--every", "5"), 2),
    (("--token-type", "u64"), 2), (("--device-memory", "-1"), 2), (("--device-memory", f"{2**63}GiB"), 2), (("--device-memory", "1"), 1),
    (("--momentum", "0.5"), 2), (("--no-decay", "nothing*"), 1), (("--resume", "nothing"), 1), (("--weights", "/dev/zero"), 1),
    (("--data", "input_ids=labels.npy"), 1), (("--data", "nothing=labels.npy"), 1), (("--data", "labels.npy"), 2),
    (("--log", "/proc/x"), 1), (("--save", "/proc/x"), 1), (("--stats", "/proc/x"), 1), (("--trace", "/proc/x"), 1),
    (("--checkpoint", "/proc/x", "--every", "1"), 1), (("--log", "/dev/full"), 1), (("--save", "/dev/full"), 1), (("--stats", "/dev/full"), 1),
    (("--trace", "/dev/full"), 1), (("--log", "/tmp"), 1), (("--save", "/tmp"), 1)]


@pytest.mark.parametrize("options,status", every(4, [(" ".join(options), (options, status)) for options, status in OPTIONS]))
def test_options(gpt2, tmp_path, options, status):
    arguments = gpt2.train_arguments(tmp_path, h.training_data("gpt2", ["input_ids", "labels"]), 1)
    before = sorted(os.listdir(tmp_path)), sorted(os.listdir("/dev"))
    result = h.run(*gpt2.command(*arguments, *options), timeout=10, cwd=tmp_path)
    h.assert_error(result, status=status)
    assert (sorted(os.listdir(tmp_path)), sorted(os.listdir("/dev"))) == before, "something was left behind"


def test_full_disk_of_the_executable(gpt2):
    for arguments in (("info", "--json"), ("info",), ("--help",)):
        with open("/dev/full", "w") as full:
            result = subprocess.run([gpt2.path, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=20)
        assert result.returncode == 1 and result.stderr.startswith("error: cannot write to standard output")


@pytest.mark.parametrize("kilobytes", [0, 4, 64])
def test_file_size_limit_of_the_executable(gpt2, tmp_path, kilobytes):
    arguments = gpt2.train_arguments(tmp_path, h.training_data("gpt2", ["input_ids", "labels"]), 1)
    before = sorted(os.listdir(tmp_path))
    for option in ("--save", "--stats", "--trace", "--log"):
        if kilobytes >= {"--save": 200, "--trace": 10, "--stats": 4, "--log": 1}[option]:
            continue  # this is smaller
        result = h.run(*limited(kilobytes, *gpt2.command(*arguments, option, tmp_path / "x")), timeout=10)
        h.assert_error(result, str(tmp_path / "x"))
        assert [n for n in sorted(os.listdir(tmp_path)) if n != "x" or option != "--log"] == before
        (tmp_path / "x").unlink(missing_ok=True)


# mpirun itself ignores SIGHUP.
@pytest.mark.parametrize("mpi,number", [(False, signal.SIGTERM), (False, signal.SIGINT), (False, signal.SIGHUP), (True, signal.SIGTERM), (True, signal.SIGINT)])
def test_signal_in_mid_step(program, tmp_path, mpi, number):
    compiled = program("gpt2_1layer", "dp2", TRAIN, model=GPT2)
    data = h.training_data("gpt2", ["input_ids", "labels"])
    checkpoints = tmp_path / "checkpoints"
    arguments = compiled.train_arguments(tmp_path, data, 1000000, "--threads", "1", "--save", tmp_path / "s.safetensors",
                                         "--checkpoint", checkpoints, "--every", "20", "--log", tmp_path / "log")
    process = subprocess.Popen([*map(str, compiled.command(*arguments, mpi=mpi))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, env=h.marked(tmp_path))
    try:
        assert h.wait_until(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text().count("\n") > 25, 60)
        process.send_signal(number)
        process.communicate(timeout=10)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode != 0
    assert not list(tmp_path.rglob("*.partial")) and not (tmp_path / "s.safetensors").exists()
    assert h.wait_until(lambda: not h.marked_processes(tmp_path), 5), "processes were left running"


def test_signal_to_the_compiler(tmp_path):
    """Whenever it comes, nothing is left of the output."""
    for wait in (0.05, 0.15, 0.3, 0.5):
        folder = tmp_path / str(wait)
        folder.mkdir()
        process = subprocess.Popen([h.TESSERA, "compile", h.MODELS / "gpt2.onnx", "-o", folder / "p", *TRAIN], stderr=subprocess.DEVNULL,
                                   env={**os.environ, "TMPDIR": str(folder)}, start_new_session=True)
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
        if process.returncode:
            assert {p.name for p in folder.iterdir()} <= {"p", "p.safetensors"}
