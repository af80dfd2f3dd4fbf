"""Machines in files: what estimates are made by, what calibrate measures, what a run is paced by."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import tomllib

import numpy as np
import pytest

import harness as h

MODEL = h.ROOT / "python" / "gpt_bytes.onnx"
SLOW = "[host]\ndown = 1e8\nup = 2e8\nlatency = 1e-4\n"


def compiled(path, *options):
    result = h.checked(h.TESSERA, "compile", MODEL, "-o", path, *options)
    return result.stderr


def info(path):
    return json.loads(h.checked(path, "info", "--json").stdout)


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.bin"
    np.random.default_rng(3).integers(0, 256, 4000).astype(np.uint16).tofile(path)
    return path


@pytest.fixture
def slow(tmp_path):
    path = tmp_path / "slow.toml"
    path.write_text(SLOW)
    return path


def test_estimates_follow_the_file(tmp_path):
    (tmp_path / "fast.toml").write_text('[device]\nname = "fast"\nbandwidth = 1.5e13\n[rate.products]\nf32 = 1.3e14\n')
    compiled(tmp_path / "own", "--train", "adamw")
    compiled(tmp_path / "fast", "--train", "adamw", "--machine", tmp_path / "fast.toml")
    own, fast = info(tmp_path / "own"), info(tmp_path / "fast")
    assert own["machine"] is None and fast["machine"] == "fast"
    assert fast["step_seconds"] == pytest.approx(own["step_seconds"] / 1000, rel=1e-3)
    assert "uncalibrated" in h.checked(tmp_path / "own", "info").stdout
    assert "by the rates of fast" in h.checked(tmp_path / "fast", "info").stdout


def test_levels_give_axes_their_links(tmp_path):
    """Of data=2 x tensor=2 the inner axis stays within a level of 2 ranks, the outer one does not."""
    (tmp_path / "m.toml").write_text("[[level]]\nranks = 2\nlatency = 1e-6\nbandwidth = 1e12\n[[level]]\nranks = 8\nlatency = 1e-5\nbandwidth = 5e8\n")
    h.checked(h.TESSERA, "compile", MODEL, "-o", tmp_path / "q.mlir", "--to", "propagate", "--dp", "2", "--tp", "2", "--machine", tmp_path / "m.toml")
    machine = re.search(r"#dist.machine<(.*)>", (tmp_path / "q.mlir").read_text())[1]
    links = {name: (float(alpha), float(beta)) for name, alpha, beta in re.findall(r'(\w+)"? = ([-+.\dEe]+) and ([-+.\dEe]+)', machine)}
    assert links["link"] == pytest.approx((1e-6, 1e-12)) and links["data"] == pytest.approx((1e-5, 2e-9))
    assert "tensor" not in links


def test_decisions_and_simulation_have_one_surface(tmp_path):
    """The rates of a file's shapes are in the text that decisions are made by, and in the executable's estimate of it."""
    shapes = "".join(f'[[rate.{kind}]]\ntype = "f32"\nm = 128\nn = 128\nk = 128\nrate = RATE\n' for kind in ("product", "attention", "attention_backward"))
    seconds = []
    for name, rate in (("slow", "1e9"), ("fast", "2e9")):
        (tmp_path / f"{name}.toml").write_text(shapes.replace("RATE", rate))
        step = json.loads(h.checked(h.TESSERA, "simulate", MODEL, "--train", "adamw", "--threads", "1", "--machine", tmp_path / f"{name}.toml", "--json").stdout)
        seconds.append(step["seconds"])
        compiled(tmp_path / name, "--train", "adamw", "--threads", "1", "--machine", tmp_path / f"{name}.toml")
        assert info(tmp_path / name)["step_seconds"] == step["seconds"]
        h.checked(h.TESSERA, "compile", MODEL, "-o", tmp_path / "p.mlir", "--to", "propagate", "--machine", tmp_path / f"{name}.toml")
        assert "product f32 1.0" in (tmp_path / "p.mlir").read_text()
    assert 1.8 < seconds[0] / seconds[1] < 2, seconds


@pytest.mark.parametrize("name", sorted(path.stem for path in (h.ROOT / "tools" / "machines").glob("*.toml")))
def test_machines_that_come_along(tmp_path, name):
    result = h.checked(h.TESSERA, "explain", MODEL, "--dp", "2", "--machine", h.ROOT / "tools" / "machines" / f"{name}.toml")
    assert result.stdout


def test_calibrate_writes_what_compile_reads(tmp_path):
    compiled(tmp_path / "two", "--dp", "2")
    # A disk with room for the file, and no more: what is not measured is said.
    short = ("sh", "-c", 'trap "" XFSZ; ulimit -f 1024; exec "$@"', "sh")
    h.checked(*short, tmp_path / "two", "calibrate", "-o", tmp_path / "machine.toml", "--threads", "1", "--seconds", "5")
    text = (tmp_path / "machine.toml").read_text()
    assert "# the disk is not measured: " in text and "[disk]" not in text
    for key in ("f32", "bf16", "bandwidth", "down", "up", "update", "ranks = 2"):
        assert key in text, text
    compiled(tmp_path / "again", "--machine", tmp_path / "machine.toml")
    assert info(tmp_path / "again")["machine"] == "this machine, 2 ranks of 1 thread"
    assert not list(tmp_path.glob("*.partial"))


def test_calibrate_without_a_model(tmp_path):
    """Of two ranks; what it writes is read, and says what was measured and what was not."""
    h.checked(h.TESSERA, "calibrate", "-o", tmp_path / "machine.toml", "--ranks", "2", "--threads", "1", "--seconds", "5")
    text = (tmp_path / "machine.toml").read_text()
    for key in ("[rate.kernels]", "[rate.collectives]", "functions = ", "stream = ", "row = ", "launch = ", "cores = ", "product = [", "attention = [", "attention_backward = [",
                "convolution = [", "update = [", "gather = ", "row = [", "ranks = 2", "[disk]", "read = ", "write = ", "# not measured for the rates: product", "# these rates are off by",
                "by them the long ones take: all_reduce ", ", all_to_all ", "of the computing"):
        assert key in text, (key, text)
    fast = json.loads(h.checked(h.TESSERA, "simulate", MODEL, "--dp", "2", "--threads", "1", "--machine", tmp_path / "machine.toml", "--json").stdout)
    assert fast["calibrated"] and 1e-4 < fast["seconds"] < 10
    assert not list(pathlib.Path(tempfile.gettempdir()).glob("tessera-calibrate-*"))


def test_calibrate_where_ranks_share_processors(tmp_path):
    """Of two ranks on one: rates are those of a rank that has it, and a step that both work in takes twice as long as it would then."""
    alone = ("taskset", "-c", min(os.sched_getaffinity(0)))
    h.checked(*alone, h.TESSERA, "calibrate", "-o", tmp_path / "one.toml", "--ranks", "2", "--threads", "1", "--seconds", "2")
    text = (tmp_path / "one.toml").read_text()
    assert "# there are more threads than processors: " in text and "\ncores = 1 " in text, text
    (tmp_path / "two.toml").write_text(text.replace("\ncores = 1 ", "\ncores = 2 "))
    seconds = [json.loads(h.checked(h.TESSERA, "simulate", MODEL, "--dp", "2", "--threads", "1", "--machine", tmp_path / f"{name}.toml", "--json").stdout)["seconds"]
               for name in ("one", "two")]
    assert 1.7 < seconds[0] / seconds[1] < 2.3, seconds


@pytest.mark.parametrize("recipe,hosts,levels,said", [
    pytest.param("--dp 4", (2, 2), [2, 4], "all_reduce between hosts with", id="an axis over both"),
    pytest.param("--dp 2 --tp 2", (2, 2), [2, 4], "all_reduce on a host with", id="an axis each", marks=pytest.mark.whole),
    pytest.param("--dp 2", (1, 1), [1, 2], "all_reduce with", id="a rank each", marks=pytest.mark.whole),
    pytest.param("--dp 4", (1, 3), [4], "hosts have unequal numbers of ranks", id="unequal hosts", marks=pytest.mark.whole),
    pytest.param("--dp 3 --tp 2", (3, 3), [3, 6], "hosts end within axes", id="hosts that end within axes", marks=pytest.mark.whole),
])
def test_calibrate_on_two_hosts(tmp_path, recipe, hosts, levels, said):
    """Simulated ones: ranks that take themselves for those of two."""
    compiled(tmp_path / "p", *recipe.split(), "--threads", "1")
    words = []
    for host, ranks in enumerate(hosts):
        words += [":"] * bool(words) + ["-n", ranks, "-x", f"TESSERA_HOST=host{host}", tmp_path / "p", "calibrate", "-o", tmp_path / "m.toml", "--threads", "1", "--seconds", "1"]
    h.checked(*h.mpirun(0)[:-2], *words)
    text = (tmp_path / "m.toml").read_text()
    assert [level["ranks"] for level in tomllib.loads(text)["level"]] == levels and said in text, text
    enough = len(os.sched_getaffinity(0)) >= 2
    assert ("among one rank of each host, alone" in text) == (levels == [2, 4] and enough), text
    assert f'name = "2 hosts, {sum(hosts)} ranks of 1 thread"' in text and ("cores = " in text) == (len(set(hosts)) == 1), text
    compiled(tmp_path / "again", *recipe.split(), "--machine", tmp_path / "m.toml")


@pytest.mark.parametrize("phase,killed_by", [("compiles", signal.SIGTERM), ("measures", signal.SIGKILL)])
def test_a_calibration_that_is_killed(tmp_path, phase, killed_by):
    """While its kernels are compiled, and while they are measured: nothing is left behind."""
    process = subprocess.Popen([str(h.TESSERA), "calibrate", "-o", str(tmp_path / "m.toml"), "--threads", "1"], env=os.environ | {"TMPDIR": str(tmp_path)},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    def reached():
        if phase == "compiles":
            return list(tmp_path.glob("tessera-calibrate-*/*"))
        return os.readlink(f"/proc/{process.pid}/exe").endswith("kernels (deleted)")  # what measures has no file any more
    while not reached():
        time.sleep(0.01)
    process.send_signal(killed_by)
    assert process.wait(timeout=60) == (128 + signal.SIGINT if phase == "compiles" else -killed_by)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options,said", [
    ("", "calibrate needs -o FILE.toml"),
    ("-o m.toml --ranks 0", "--ranks=0: expected a whole number from 1 to 64; several hosts are measured by an executable: mpirun OUT calibrate"),
    ("-o m.toml --threads x", "--threads=x: expected a whole number of at least 1"),
    ("-o m.toml --seconds 0", "--seconds=0: expected a whole number of at least 1"),
    ("-o m.toml --target tpu", "--target=tpu: expected cpu, cuda, or cuda: with one of"),
])
def test_bad_calibrations(options, said):
    h.assert_error(h.tessera("calibrate", *options.split()), said, status=2)


def test_paced_copies_take_what_was_promised(tmp_path, tokens, slow):
    """Copies dominate, so that a step takes what they take; an idle machine would be within 10 %, a busy one only adds."""
    compiled(tmp_path / "capped", "--train", "adamw", "--device-memory", "24MiB", "--recompute", "none", "--machine", slow)
    program, steps = tmp_path / "capped", 4
    seconds = {}
    for pace in ((), ("--pace", slow)):
        h.checked(program, "train", "--tokens", tokens, "--steps", steps, "--save", tmp_path / f"w{len(pace)}", "--stats", tmp_path / "s.json", *pace)
        seconds[bool(pace)] = json.loads((tmp_path / "s.json").read_text())
    promised = info(program)
    moved = promised["moved"]
    least = max(moved["host_to_device"] / 2e8, moved["device_to_host"] / 1e8)
    assert promised["step_seconds"] >= least
    assert least * 0.98 <= seconds[True]["step_seconds"] <= 2 * promised["step_seconds"]
    assert seconds[True]["moved"] == moved
    assert (tmp_path / "w0").read_bytes() == (tmp_path / "w2").read_bytes()


@pytest.mark.parametrize("text,said", [
    ("[device]\nbandwith = 1", ':2:1: [device] has no key "bandwith"; the nearest is "bandwidth"'),
    ("[host]\ndown = 0", ':2:8: "down" has to be a number from 1 to 1e+18'),
    ("[host", ":1:"),
    ('[[rate.product]]\ntype = "f32"\nm = 0\nn = 1\nk = 1\nrate = 1e9', ':3:5: "m" has to be a number from 1 to'),
    ("[rate.kernels]\nrows = 1e9", ':2:1: [rate.kernels] has no key "rows"; the nearest is "row"'),
    ("[[level]]\nranks = 2\nlatency = 1\nbandwidth = 1\n[[level]]\nranks = 3\nlatency = 1\nbandwidth = 1", "a multiple of the 2 ranks"),
])
def test_bad_machines(tmp_path, text, said):
    (tmp_path / "bad.toml").write_text(text)
    result = h.run(h.TESSERA, "compile", MODEL, "-o", tmp_path / "x", "--machine", tmp_path / "bad.toml")
    h.assert_error(result, said)


def test_bad_commands(tmp_path, tokens):
    h.assert_error(h.run(h.TESSERA, "compile", MODEL, "-o", tmp_path / "x", "--machine", tmp_path / "none.toml"), "there is no file")
    compiled(tmp_path / "p", "--train", "sgd")
    h.assert_error(h.run(tmp_path / "p", "calibrate"), "calibrate needs -o FILE.toml", status=2)
    h.assert_error(h.run(tmp_path / "p", "calibrate", "-o", tmp_path / "no" / "m.toml"), "cannot create")
    h.assert_error(h.run(tmp_path / "p", "train", "--tokens", tokens, "--steps", "1", "--pace", tmp_path / "none.toml"), "cannot read the machine's file")
    (tmp_path / "empty.toml").write_text("")
    h.assert_error(h.run(tmp_path / "p", "train", "--tokens", tokens, "--steps", "1", "--pace", tmp_path / "empty.toml"), "which copies are paced by")
    h.assert_error(h.run(tmp_path / "p", "train", "--tokens", tokens, "--steps", "1", "--pace", tmp_path), "cannot be a machine's file")
    (tmp_path / "large.toml").write_bytes(b"#" * (2 << 20))
    h.assert_error(h.run(tmp_path / "p", "train", "--tokens", tokens, "--steps", "1", "--pace", tmp_path / "large.toml"), "is larger than 1 MiB")
    compiled(tmp_path / "gpu", "--train", "sgd", "--target", "cuda")
    h.assert_error(h.run(tmp_path / "gpu", "train", "--tokens", tokens, "--steps", "1", "--pace", tmp_path / "large.toml"), "--pace is for programs of CPUs", status=2)
    h.assert_error(h.run(tmp_path / "p", "calibrate", "-o", tmp_path / "m.toml", "--seconds", "0"), "--seconds", status=2)
