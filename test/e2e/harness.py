"""Runs the compiler and the executables that it writes; the tables of models and meshes that all end-to-end tests share."""
import fcntl
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build"))
TESSERA = BUILD / "bin" / "tessera"
MODELS = ROOT / "test" / "models"
ALL = os.environ.get("TESSERA_TEST_ALL") == "1"
TIMEOUT = 120
SANITIZED = "-fsanitize" in (BUILD / "CMakeCache.txt").read_text()  # the build has a sanitizer's code in it

# mesh -> (options, ranks)
MESHES = {
    "1": ((), 1),
    "dp2": (("--dp", "2"), 2),
    "tp2": (("--tp", "2"), 2),
    "tp4": (("--tp", "4"), 4),
    "dp2tp2": (("--dp", "2", "--tp", "2"), 4),
}
# Nothing divides by three: the batch of 4, the 4 heads, the vocabulary of 160.
UNEVEN = {"dp3": (("--dp", "3"), 3), "tp3": (("--tp", "3"), 3)}
MICRO = {"micro2": (("--microbatches", "2"), 1), "dp2micro2": (("--dp", "2", "--microbatches", "2"), 2)}
# Training state in pieces. Of 64 x 64 values a third is no whole number.
ZERO = {f"{mesh}zero{stage}": ((*flags, "--zero", str(stage)), ranks)
        for mesh, (flags, ranks) in {"dp2": MESHES["dp2"], "dp2tp2": MESHES["dp2tp2"], "dp3": UNEVEN["dp3"],
                                     "dp2micro2": MICRO["dp2micro2"]}.items() for stage in (1, 2, 3)}
ALL_MESHES = {**MESHES, **UNEVEN, **MICRO, **ZERO}
PIPES = {}  # as test_pipeline names them
# Mixtures of experts alone: experts over an axis of their own, which the tokens are split over too. Six experts on four ranks leave one idle.
EXPERT_MODELS = ("mixtral", "qwen2moe", "olmoe")
EXPERT_MESHES = {
    "ep2": (("--ep", "2"), 2),
    "ep4": (("--ep", "4"), 4),
    "dp2ep2": (("--dp", "2", "--ep", "2"), 4),
    "ep2tp2": (("--ep", "2", "--tp", "2"), 4),
    "dp2ep2zero3": (("--dp", "2", "--ep", "2", "--zero", "3"), 4),
}


# Normalise by statistics of the whole batch, which is not cut then.
WHOLE_BATCH = ("resnet_train",)


def meshes_of(model, meshes):
    meshes = {name: mesh for name, mesh in meshes.items() if model not in WHOLE_BATCH or "--microbatches" not in mesh[0]}
    return {**meshes, **(EXPERT_MESHES if model in EXPERT_MODELS else {})}


# The variants in files of their own; test/models/zoo.py says how each was exported. The first of each is the model's own.
FAMILIES = {
    "mlp": ("mlp", "mlp_ts", "mlp_dyn"),
    "gpt2": ("gpt2", "gpt2_eager", "gpt2_mask", "gpt2_raw", "gpt2_dyn", "gpt2_dyn_eager", "gpt2_dyn_nomask", "gpt2_ts",
             "gpt2_ts_eager", "gpt2_ts_dyn"),
    "gpt2_fresh": ("gpt2_fresh",),
    "llama": ("llama", "llama_eager", "llama_mask", "llama_dyn", "llama_dyn_eager", "llama_dyn_nomask", "llama_ts",
              "llama_ts_eager", "llama_ts_dyn", "llama_opset23"),
    "llama_fresh": ("llama_fresh",),
    "bert": ("bert", "bert_eager", "bert_dyn", "bert_dyn_eager", "bert_ts", "bert_ts_eager", "bert_ts_dyn"),
    "bert_nomask": ("bert_nomask",),
    "vit": ("vit", "vit_eager", "vit_dyn", "vit_dyn_eager", "vit_ts", "vit_ts_eager", "vit_ts_dyn"),
    "opt": ("opt",),
    "gptneox": ("gptneox", "gptneox_ts"),
    "qwen2": ("qwen2",),
    "qwen3": ("qwen3",),
    "mistral": ("mistral", "mistral_ts_dyn"),
    "phi": ("phi", "phi_ts_eager"),
    "roberta": ("roberta", "roberta_ts_dyn"),
    "distilbert": ("distilbert", "distilbert_dyn"),
    "electra": ("electra", "electra_ts_eager"),
    "albert": ("albert",),
    "transformer": ("transformer", "transformer_ts"),
    "t5": ("t5", "t5_dyn"),
    "mixtral": ("mixtral",),
    "qwen2moe": ("qwen2moe",),
    "olmoe": ("olmoe",),
    "gemma2": ("gemma2",),
    "bloom": ("bloom",),
    "falcon": ("falcon",),
    "bart": ("bart", "bart_ts_dyn"),
    "convnext": ("convnext", "convnext_ts"),
    "resnet": ("resnet", "resnet_dyn", "resnet_ts"),
    "resnet_frozen": ("resnet_frozen",),
    "resnet_train": ("resnet_train",),
}
VARIANTS = {variant: family for family, variants in FAMILIES.items() for variant in variants}


def bindings(variant):
    """The `--bind` options that a dynamic variant needs."""
    if "_dyn" not in variant:
        return ()
    family = VARIANTS[variant]
    sizes = {"batch": 12 if family == "mlp" else 4}
    if family not in ("mlp", "vit", "convnext", "resnet"):
        sizes["seq"] = 32
    if family in ("t5", "bart"):
        sizes["targets"] = 16
    return tuple(word for name, size in sizes.items() for word in ("--bind", f"{name}={size}"))


class Result(subprocess.CompletedProcess):
    """A finished process with text output."""

    @property
    def first_error(self):
        return self.stderr.splitlines()[0] if self.stderr.strip() else ""


def run(*command, timeout=TIMEOUT, cwd=None, env=None):
    """Runs a command to its end; a run beyond the limit fails the test, with every process of it killed."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=cwd, env=env, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"still running after {timeout} s: {' '.join(map(str, command))}\n{out[-2000:]}\n{err[-2000:]}")
    return Result(process.args, process.returncode, out, err)


def checked(*command, **options):
    result = run(*command, **options)
    assert result.returncode == 0, (
        f"status {result.returncode}: {' '.join(map(str, command))}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    return result


def processor_seconds():
    """Of processes that have ended: others on the machine add less to it than to the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def found_plans(*arguments):
    """What `plan --auto --json` finds, for each number of ranks. Without the clock, which on a busy machine leaves recipes out."""
    result = checked(TESSERA, "plan", *arguments, "--auto", "--json", "--plan-seconds", "600")
    assert "the search for" not in result.stderr, result.stderr
    return json.loads(result.stdout)["plans"]


def tessera(*arguments, **options):
    return run(TESSERA, *arguments, **options)


def free_port():
    """A port for MASTER_PORT that nobody listens at. No connection gets it by itself: it lies below the ports that the system gives those."""
    lowest = 10000
    with open("/proc/sys/net/ipv4/ip_local_port_range") as given:
        ephemeral = int(given.read().split()[0])
    while True:
        port = random.randrange(lowest, ephemeral)
        with socket.socket() as trial:
            try:
                trial.bind(("", port))
                return port
            except OSError:
                continue


def mpirun(ranks):
    return ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks))


class Program:
    """A compiled executable. Its methods run it in threads, or under mpirun where `mpi` is set."""

    def __init__(self, path, ranks):
        self.path, self.ranks = path, ranks

    def command(self, *arguments, mpi=False):
        return (*(mpirun(self.ranks) if mpi else ()), self.path, *arguments)

    def info(self, program=None):
        extra = ("--program", program) if program else ()
        return json.loads(checked(self.path, "info", "--json", *extra).stdout)

    def infer_arguments(self, folder, inputs, *options):
        folder.mkdir(parents=True, exist_ok=True)
        given = []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
            given += ["--input", f"{name}={folder / name}.npy"]
        return ("infer", *given, "--output", folder / "out", *options)

    def infer(self, folder, inputs, *options, mpi=False):
        """Runs on arrays by name; returns the outputs by name."""
        checked(*self.command(*self.infer_arguments(folder, inputs, *options), mpi=mpi))
        return {p.stem: np.load(p) for p in (folder / "out").glob("*.npy")}

    def train_arguments(self, folder, data, steps, *options):
        folder.mkdir(parents=True, exist_ok=True)
        given = []
        for name, array in data.items():
            np.save(folder / f"train.{name}.npy", array)
            given += ["--data", f"{name}={folder}/train.{name}.npy"]
        return ("train", *given, "--steps", str(steps), *options)

    def train(self, folder, data, steps, *options, mpi=False):
        """Trains on arrays by name; returns the log's entries."""
        log = folder / "log.jsonl"
        arguments = self.train_arguments(folder, data, steps, "--log", log, *options)
        checked(*self.command(*arguments, mpi=mpi))
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        assert [e["step"] for e in entries] == list(range(1, steps + 1))
        return entries


def once(folder, make):
    """Calls `make` in one of all processes that run tests; the folder is there then."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            make()
            (folder / "done").touch()


class Compiler:
    """Compiles every combination of model and options once, for all processes that run tests."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, variant, mesh="1", options=(), model=None):
        flags, ranks = (ALL_MESHES | PIPES | EXPERT_MESHES)[mesh]
        key = hashlib.sha256(repr((options, str(model))).encode()).hexdigest()[:8]
        folder = self.folder / f"{variant}-{mesh}-{key}"
        once(folder, lambda: checked(TESSERA, "compile", model or MODELS / f"{variant}.onnx", "-o", folder / "program",
                                     *bindings(variant), *flags, *options))
        return Program(folder / "program", ranks)


def reference(variant):
    """torch's arrays for the model that a variant is an export of, test/models/reference.py lists them."""
    return np.load(MODELS / f"{VARIANTS.get(variant, variant)}.reference.npz")


def part(arrays, prefix):
    return {k[len(prefix):]: arrays[k] for k in arrays if k.startswith(prefix)}


def model_inputs(variant, names):
    """The reference's batch for these inputs; a mask that the model's reference lacks is ones, as in its export."""
    arrays = part(reference(variant), "in.")
    return {n: arrays[n] if n in arrays else np.ones((4, 32), np.int64) for n in names}


def training_data(variant, names):
    """The reference's three batches for these names."""
    arrays = part(reference(variant), "train.")
    return {n: arrays[n] if n in arrays else np.ones((12, 32), np.int64) for n in names}


def input_names(variant):
    import onnx

    return [i.name for i in onnx.load(MODELS / f"{variant}.onnx", load_external_data=False).graph.input]


def onnxruntime_outputs(path, inputs):
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def file_name(output):
    return re.sub(r"[^A-Za-z0-9._-]", "_", output)


def assert_outputs_close(ours, theirs):
    assert ours.keys() == {file_name(n) for n in theirs}
    for name, expected in theirs.items():
        got = ours[file_name(name)]
        assert got.shape == expected.shape and got.dtype == expected.dtype
        bound = 2e-5 + 1e-5 * np.abs(expected).max()
        worst = np.abs(got.astype(np.float64) - expected).max()
        assert worst <= bound, f"{name}: off by {worst:.3g}, at most {bound:.3g} is allowed"


def ptxas():
    """NVIDIA's assembler, or None."""
    return shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")


def assemble(text, chip):
    """Assembles a file of PTX for a chip; kernel -> (registers, bytes spilled)."""
    said = checked(ptxas(), f"-arch={chip}", "-v", text, "-o", "/dev/null", timeout=600).stderr
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers"
    kernels = {name: (int(registers), int(stores) + int(loads)) for name, stores, loads, registers in re.findall(pattern, said, re.DOTALL)}
    assert kernels and len(kernels) == said.count("Compiling entry function"), said
    return kernels


def assert_error(result, *words, status=1, notes=""):
    """One clear `error:` line first on stderr that has all `words`; `notes`: text somewhere in the lines after it."""
    assert result.returncode == status, f"status {result.returncode}, {status} expected\n{result.stderr[-3000:]}"
    assert result.first_error.startswith("error: "), f"first line of stderr: {result.first_error!r}"
    for word in words:
        assert word in result.first_error, f"{word!r} is not in {result.first_error!r}"
    assert notes in result.stderr
    assert "Traceback" not in result.stderr and "Assertion" not in result.stderr


def compile_fails(folder, model, *options, words=(), status=1, notes="", timeout=TIMEOUT):
    """Compiles to below `folder`, which is refused with these words and leaves nothing behind."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    result = tessera("compile", model, "-o", out / "p", *options, timeout=timeout)
    assert_error(result, *words, status=status, notes=notes)
    assert not list(out.iterdir()), "something was left behind"
    return result


def marked(folder):
    """The environment of processes that `marked_processes` finds again; other tests may run the same program at the same time."""
    return {**os.environ, "TESSERA_TEST": str(folder)}


def marked_processes(folder):
    """process id -> environment."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                variables = dict(v.split(b"=", 1) for v in environ.read().split(b"\0") if b"=" in v)
        except OSError:
            continue
        if variables.get(b"TESSERA_TEST") == str(folder).encode():
            found[int(pid)] = variables
    return found


def wait_until(condition, seconds):
    """Whether `condition` came true within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
