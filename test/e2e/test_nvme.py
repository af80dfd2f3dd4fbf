"""Programs below caps of the device's and the host's memory, with the rest on NVMe: the same bits, what is promised of three tiers is what is measured."""
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest

import gpu
import harness as h
from test_tiers import ALONE, MESHES, compile_to, least_possible, trained

SAMPLE = {("gpt2", "1", "adamw"), ("bert", "dp2zero1", "adamw"), ("gpt2", "dp2zero3", "adamw")}
CASES = [(variant, mesh, optimizer) for variant in ("gpt2", "llama", "bert", "vit", "t5", "mixtral")
         for mesh in ("1", "dp2zero1", "dp2zero3", "tp2", "micro2", "pp2") for optimizer in ("adamw", "sgd")]


def compiles(variant, mesh, *options, says=""):
    result = h.run(h.TESSERA, "compile", h.MODELS / f"{variant}.onnx", "-o", "/dev/null", "--to", "lower", *h.bindings(variant), *MESHES[mesh], *options, *ALONE)
    return result.returncode == 0 and says in result.stderr


def compile_below(folder, variant, mesh, *options):
    """A program below a cap of the device, and one of the host that only NVMe makes possible; and the caps."""
    device = int((1.25 if mesh == "pp2" else 1.1) * least_possible(variant, mesh, *options))
    free = compile_to(folder / "free", variant, mesh, *options, "--device-memory", device)
    most = max(rank["host"]["peak"] for program in ("train", "train_clipped") for rank in free.info(program)["memory"])
    nvme = folder / "nvme"
    nvme.mkdir(exist_ok=True)
    for part in (0.95, 0.9, 0.8, 0.7, 0.55, 0.45, 0.35):
        caps = ("--device-memory", device, "--host-memory", int(part * most))
        with_nvme = (*caps, "--nvme", f"{nvme}:1GiB")
        if not compiles(variant, mesh, *options, *caps) and compiles(variant, mesh, *options, *with_nvme, says="go to NVMe"):
            break
    else:
        pytest.skip("what is under way at one moment is nearly all that leaves the device, so no cap of the host is kept by NVMe alone")
    return compile_to(folder / "below", variant, mesh, *options, *with_nvme), device, int(part * most), nvme


def assert_nvme_kept(program, name, stats, device, host):
    promised = program.info(name)
    for ours, theirs in zip(promised["memory"], stats["memory"], strict=True):
        for tier, cap in (("device", device), ("host", host), ("nvme", 1 << 30)):
            assert ours[tier]["peak"] == theirs[tier]["peak"] <= cap, tier
            assert sum(v for k, v in theirs[tier].items() if k not in ("peak", "capacity")) == theirs[tier]["peak"]
    assert promised["moved"] == stats["moved"] and promised["sent"] == stats["sent"]


@pytest.mark.parametrize("variant,mesh,optimizer", [
    pytest.param(*case, marks=() if case in SAMPLE else pytest.mark.whole) for case in CASES])
def test_same_bits(tmp_path, variant, mesh, optimizer):
    train = ("--train", optimizer)
    full = compile_to(tmp_path / "full", variant, mesh, *train)
    below, device, host, nvme = compile_below(tmp_path, variant, mesh, *train)
    moved = 0
    for program, options in (("train", ()), ("train_clipped", ("--clip-norm", "0.5"))):
        log, weights, _ = trained(full, tmp_path / "f", variant, *options)
        log_here, weights_here, stats = trained(below, tmp_path / "b", variant, *options)
        assert log_here == log and weights_here == weights, program
        assert_nvme_kept(below, program, stats, device, host)
        moved += min(stats["moved"]["nvme_read"], stats["moved"]["nvme_write"])
    assert moved > 0
    assert not list(nvme.iterdir())


def test_inference(tmp_path):
    """`infer` of a training program finds parameters where they rest on NVMe."""
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    inputs = h.model_inputs("gpt2", h.input_names("gpt2"))
    want = full.infer(tmp_path / "f", inputs)
    below, device, _, _ = compile_below(tmp_path, "gpt2", "1", "--train", "adamw")
    got = below.infer(tmp_path / "b", inputs, "--stats", tmp_path / "stats.json")
    assert all(np.array_equal(want[name], got[name]) for name in want)
    assert json.loads((tmp_path / "stats.json").read_text())["memory"][0]["device"]["peak"] <= device


@pytest.mark.parametrize("options", [(), ("--dtype", "bf16"), ("--dtype", "bf16", "--microbatches", "4")], ids=["f32", "bf16", "bf16-loop"])
def test_updates_on_the_host(tmp_path, options):
    """State goes from NVMe to the host, is updated there and goes back, where a plan says so, below a cap of the host that has not room for all of it."""
    train = ("--train", "adamw", *options)
    full = compile_to(tmp_path / "full", "gpt2", "1", *train)
    plan = tmp_path / "plan.toml"
    plan.write_text(h.checked(h.TESSERA, "plan", h.MODELS / "gpt2.onnx", *train).stdout + '\n[[place]]\nmatch = "*"\nupdate = "host"\n')
    given = (*train, "--plan", plan)
    free = compile_to(tmp_path / "free", "gpt2", "1", *given)
    most = max(free.info(program)["memory"][0]["host"]["peak"] for program in ("train", "train_clipped"))
    host = int(0.7 * most)
    below = compile_to(tmp_path / "below", "gpt2", "1", *given, "--host-memory", host, "--nvme", f"{tmp_path}:1GiB")
    for program, clip in (("train", ()), ("train_clipped", ("--clip-norm", "0.5"))):
        log, weights, _ = trained(full, tmp_path / "f", "gpt2", *clip)
        log_here, weights_here, stats = trained(below, tmp_path / "b", "gpt2", *clip)
        assert log_here == log and weights_here == weights, program
        assert_nvme_kept(below, program, stats, 1 << 40, host)
        assert stats["memory"][0]["device"]["optimizer"] == 0 < min(stats["moved"]["nvme_read"], stats["moved"]["nvme_write"])


def newest(folder):
    """The number of the newest checkpoint that is whole, or 0."""
    found = [re.fullmatch(r"step-(\d+)(\.safetensors)?", each.name) for each in folder.glob("step-*")]
    return max((int(match[1]) for match in found if match), default=0)


def test_resume_under_another_placement(tmp_path):
    """A run that is killed in mid-step leaves nothing in the folder; its checkpoint goes on without NVMe, with the same bits."""
    full = compile_to(tmp_path / "full", "gpt2", "1", "--train", "adamw")
    below, _, _, nvme = compile_below(tmp_path, "gpt2", "1", "--train", "adamw")
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    other, folder = tmp_path / "other", tmp_path / "ckpt"
    other.mkdir()
    arguments = below.train_arguments(tmp_path / "b", data, 100000, "--checkpoint", folder, "--every", "1", "--nvme", f"{other}:1GiB")
    process = subprocess.Popen([str(c) for c in below.command(*arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while newest(folder) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not list(other.iterdir()) and not list(nvme.iterdir())
    steps = newest(folder) + 2
    h.checked(*full.command(*full.train_arguments(tmp_path / "s", data, steps, "--save", tmp_path / "straight")))
    h.checked(*full.command(*full.train_arguments(tmp_path / "r", data, steps, "--resume", folder, "--save", tmp_path / "resumed")))
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()


def test_on_gpus(tmp_path):
    """The same under the checking driver, early and late: host functions read and write the file."""
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])

    def run(name, *options):
        return gpu.trained_late_and_early(tmp_path / name, data, h.MODELS / "gpt2.onnx", "--train", "adamw", *ALONE, *options)

    _, (losses, weights, stats) = run("full")
    cap = stats["memory"][0]["device"]["peak"] // 2
    free, _ = run("free", "--device-memory", cap)
    host = int(0.6 * free.info("train")["memory"][0]["host"]["peak"])
    below, (losses_here, weights_here, stats) = run("below", "--device-memory", cap, "--host-memory", host, "--nvme", f"{tmp_path}:1GiB")
    assert losses_here == losses and weights_here == weights
    assert_nvme_kept(below, "train", stats, cap, host)
    assert stats["moved"]["nvme_read"] > 0


@pytest.mark.parametrize("nvme,words", [
    ("/scratch", "--nvme=/scratch: expected a folder and a size above 0"),
    (":1GiB", "--nvme=:1GiB: expected a folder and a size above 0"),
    ("/scratch:0", "--nvme=/scratch:0: expected a folder and a size above 0"),
    ("/scratch:-1GiB", "expected a folder and a size above 0"),
    ("/scratch:much", "expected a folder and a size above 0"),
    ("/scratch:9223372036854775808", "expected a folder and a size above 0"),
])
def test_bad_sizes(nvme, words):
    h.assert_error(h.tessera("compile", h.MODELS / "mlp.onnx", "-o", "/dev/null", "--to", "lower", "--device-memory", "1GiB", "--host-memory", "1GiB", "--nvme", nvme),
                   words, status=2)


def test_bad_runs(tmp_path):
    """What a folder cannot do is said at the start, with both numbers; what a disk fails at later, within seconds."""
    below, _, _, _ = compile_below(tmp_path, "gpt2", "1", "--train", "adamw")
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    peak = below.info("train")["memory"][0]["nvme"]["peak"]

    def refused(*options, **more):
        result = h.run(*below.command(*below.train_arguments(tmp_path / "b", data, 40, *options)), timeout=20, **more)
        return result

    h.assert_error(refused("--nvme", f"{tmp_path}/missing:1GiB"), f"cannot keep {peak} bytes on NVMe, in '{tmp_path}/missing'", "No such file")
    h.assert_error(refused("--nvme", f"{tmp_path}:1KiB"), f"{peak} bytes of nvme memory a rank", "1024 are allowed")
    h.assert_error(refused("--nvme", str(tmp_path)), "--nvme is a folder and a size above 0", status=2)
    machine = tmp_path / "machine.toml"
    machine.write_text("[host]\ndown = 1e10\n")
    h.assert_error(refused("--pace", machine), f'--pace {machine}: the file has no "read" and "write" in [disk], which copies to and from NVMe are paced by')
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode == 0:
        try:
            h.assert_error(refused("--nvme", f"{small}:1GiB"), f"a rank keeps {peak} bytes on NVMe, in '{small}', which has 65536 bytes free")
        finally:
            subprocess.run(["umount", small], check=True)
    # A disk that fails in mid-run: the third write past the cache, or through it, is answered by EIO.
    source, library = tmp_path / "fail.c", tmp_path / "fail.so"
    source.write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/types.h>
ssize_t pwrite64(int fd, const void *from, size_t bytes, off_t at) {
  static int count;
  static ssize_t (*real)(int, const void *, size_t, off_t);
  if (!real) real = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  if (++count > 30) { errno = EIO; return -1; }
  return real(fd, from, bytes, at);
}
ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at) { return pwrite64(fd, from, bytes, at); }
""")
    h.checked("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    result = refused(env={**os.environ, "LD_PRELOAD": str(library)})
    h.assert_error(result, "cannot write to NVMe, a file in", "Input/output error")


def test_needs_the_host(tmp_path):
    """Without a cap of the host nothing leaves it; a plan that wants NVMe needs somebody to give it."""
    h.assert_error(h.tessera("compile", h.MODELS / "mlp.onnx", "-o", "/dev/null", "--to", "lower", "--device-memory", "1GiB", "--nvme", "/scratch:1GiB"),
                   "needs --host-memory", status=2)
    plan = tmp_path / "plan.toml"
    plan.write_text('[memory]\ndevice = "1GiB"\nnvme = "/scratch:1GiB"\n')
    h.assert_error(h.tessera("compile", h.MODELS / "mlp.onnx", "-o", "/dev/null", "--to", "lower", "--plan", plan), "NVMe is given, and no host memory")
    plan.write_text('[memory]\ndevice = "1GiB"\nnvme = "1GiB"\n')
    h.assert_error(h.tessera("compile", h.MODELS / "mlp.onnx", "-o", "/dev/null", "--to", "lower", "--plan", plan), '"nvme" must be a folder and a size')
    plan.write_text('[memory]\ndevice = "1GiB"\nhost = "1GiB"\nnvme = "/scratch:1GiB"\n')
    h.assert_error(h.tessera("compile", h.MODELS / "mlp.onnx", "-o", "/dev/null", "--to", "lower", "--plan", plan, "--nvme", "/scratch:2GiB"),
                   'the plan says nvme = "/scratch:1GiB"')


def test_too_little():
    """Needed, given, least possible on the host."""
    device = int(1.1 * least_possible("gpt2", "1", "--train", "adamw"))
    for host, nvme, note in (("4KiB", "1GiB", "set by the transfer here; with more --device-memory less is under way"),
                             ("700KiB", "8KiB", "and more on NVMe; give more of either")):
        result = h.tessera("compile", h.MODELS / "gpt2.onnx", "-o", "/dev/null", "--to", "lower", "--train", "adamw", *ALONE,
                           "--device-memory", device, "--host-memory", host, "--nvme", f"/scratch:{nvme}")
        h.assert_error(result, "of host memory a rank for what leaves the device", "--nvme is", notes="the least possible on the host is")
        assert note in result.stderr
