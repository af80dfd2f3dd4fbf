"""Programs for NVIDIA's GPUs, executed by the checking driver (runtime/device/cuda/check) in place of a GPU's, and their PTX by ptxas."""
import ctypes
import json
import os
import re
import subprocess
import sys
import time
import tomllib

import numpy as np
import onnx
import pytest

import harness as h
from gpu import CHECK, STEPS, compiled, environment, gpu_program, losses, train_on_cpu, train_on_gpu, trained_late_and_early

@pytest.mark.parametrize("optimizer", ["sgd", "sgd-momentum"])
def test_losses_are_the_cpus(program, tmp_path, optimizer):
    """Of a small model; test_cuda_models.py has the others."""
    options = ("--train", optimizer)
    gpu, cpu = train_on_gpu(program, "mlp", tmp_path / "gpu", options), train_on_cpu(program, "mlp", tmp_path / "cpu", options)
    np.testing.assert_allclose(losses(gpu), losses(cpu), rtol=1e-5)


def test_products_without_cublaslt(program, tmp_path):
    """Our own kernels do them, which is said once; so they do where cuBLASLt is switched off."""
    path, run = gpu_program(program, "mlp", ("--train", "sgd"))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcuda.so.1").symlink_to(CHECK / "libcuda.so.1")
    h.checked("c++", "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "lib" / "libcublasLt.so.13")
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])

    def train(name, **settings):
        result = run(*h.Program(path, 1).train_arguments(tmp_path / name, data, STEPS, "--log", tmp_path / name / "log.jsonl"), **settings)
        assert result.returncode == 0, result.stderr
        return result.stderr, losses([json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()])
    said, own = train("own", LD_LIBRARY_PATH=str(tmp_path / "lib"))
    assert said.count("note: products are done without cuBLASLt") == 1
    said, off = train("off", TESSERA_CUBLASLT="off")
    assert said == "" and list(own) == list(off)
    said, library = train("library")
    assert said == ""
    np.testing.assert_allclose(library, own, rtol=1e-5)


def test_calibrate(program, tmp_path):
    """Of two cards: their rates, those of the program's own calls, and the links by NCCL; a short time is kept to."""
    path, run = gpu_program(program, "gpt2", ("--train", "adamw", "--dp", "2"))
    began = time.monotonic()
    result = run("calibrate", "-o", tmp_path / "machine.toml", "--seconds", "1", TESSERA_CHECK_GPUS="2")
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - began < 100
    text = (tmp_path / "machine.toml").read_text()
    assert "# no other shapes are measured: they take too long" in text  # the host plays the cards
    machine = tomllib.loads(text)
    assert machine["device"]["per"] == "device" and machine["level"][0]["ranks"] == 2
    assert {"down", "up", "update"} <= machine["host"].keys() and "cores" not in machine["host"]
    assert 0 <= machine["rate"]["collectives"]["take"] <= 1
    assert {p["type"] for p in machine["rate"]["product"]} == {"f32", "bf16", "f16"}
    info, words = h.Program(path, 2).info("train"), h.Program(path, 2).info("infer")["outputs"][0]["shape"][-1]
    assert any(words in (p["m"], p["n"], p["k"]) for p in machine["rate"]["product"]), machine["rate"]["product"]
    by = json.loads(h.checked(path, "info", "--json", "--machine", tmp_path / "machine.toml").stdout)
    assert by["machine"] == "this machine, 2 ranks of a GPU" and by["step_seconds"] > 10 * info["step_seconds"]


@pytest.mark.whole
def test_clipping_and_microbatches(program, tmp_path):
    options = ("--train", "adamw", "--microbatches", "2")
    gpu = train_on_gpu(program, "gpt2", tmp_path / "gpu", options, "--clip-norm", "0.5")
    cpu = train_on_cpu(program, "gpt2", tmp_path / "cpu", options, "--clip-norm", "0.5")
    np.testing.assert_allclose(losses(gpu), losses(cpu), rtol=1e-5)
    np.testing.assert_allclose([e["grad_norm"] for e in gpu], [e["grad_norm"] for e in cpu], rtol=1e-4)


def test_outputs_and_saved_weights(program, tmp_path):
    path, run = gpu_program(program, "gpt2", ("--train", "adamw"))
    inputs = h.model_inputs("gpt2", h.input_names("gpt2"))
    result = run(*h.Program(path, 1).infer_arguments(tmp_path, inputs, "--stats", tmp_path / "stats.json"))
    assert result.returncode == 0, result.stderr
    expected = program("gpt2", "1", ("--train", "adamw")).infer(tmp_path / "cpu", inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(np.load(tmp_path / "out" / f"{name}.npy"), array, rtol=1e-4, atol=1e-5)
    stats, info = json.loads((tmp_path / "stats.json").read_text()), h.Program(path, 1).info("infer")
    assert info["target"] == "cuda:sm_80"
    assert stats["memory"][0]["device"]["peak"] == info["memory"][0]["device"]["peak"]
    # Weights that were never changed come back as they were.
    saved = tmp_path / "saved.safetensors"
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    arguments = h.Program(path, 1).train_arguments(tmp_path / "train", data, 1, "--lr", "0", "--weight-decay", "0", "--save", saved)
    assert run(*arguments).returncode == 0
    from safetensors.numpy import load_file
    before, after = load_file(f"{path}.safetensors"), load_file(saved)
    assert after and all(np.array_equal(before[name], after[name]) for name in after)


def test_convolutions_without_cudnn(program, tmp_path):
    """Our own kernels do them, which is said once; so they do where cuDNN is switched off."""
    path, run = gpu_program(program, "resnet", ("--train", "adamw"))
    (tmp_path / "lib").mkdir()
    for name in ("libcuda.so.1", "libcublasLt.so.13"):
        (tmp_path / "lib" / name).symlink_to(CHECK / name)
    h.checked("c++", "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "lib" / "libcudnn.so.9")
    inputs = h.model_inputs("resnet", h.input_names("resnet"))
    results = [run(*h.Program(path, 1).infer_arguments(tmp_path / name, inputs), **settings) for name, settings in
               (("own", {"LD_LIBRARY_PATH": str(tmp_path / "lib")}), ("off", {"TESSERA_CUDNN": "off"}), ("library", {}))]
    assert [result.returncode for result in results] == [0, 0, 0], results[0].stderr
    assert [result.stderr.count("note: convolutions are done without cuDNN") for result in results] == [1, 0, 0]
    own, off, library = (np.load(tmp_path / name / "out" / "logits.npy") for name in ("own", "off", "library"))
    np.testing.assert_array_equal(own, off)
    np.testing.assert_allclose(library, own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", ["gpt2", "bert"])
def test_attention_by_cudnn(program, tmp_path, variant):
    """In bf16, BERT's with the mask of its padded keys; without cuDNN by our own kernel, whose shares of a row are f32. An old cuDNN has a backward pass that goes wrong."""
    options = ("--train", "adamw", "--dtype", "bf16")
    library, old, own = (losses(train_on_gpu(program, variant, tmp_path / name, options, **settings)) for name, settings in
                         (("library", {}), ("old", {"TESSERA_CHECK_CUDNN_VERSION": "91500"}), ("own", {"TESSERA_CUDNN": "off"})))
    assert library[0] == old[0] and len({tuple(library), tuple(old), tuple(own)}) == 3
    np.testing.assert_allclose(library, own, rtol=2e-3)
    np.testing.assert_allclose(old, own, rtol=2e-3)


def first_step(program, **settings):
    path, run = gpu_program(program, "mlp", ("--train", "sgd"))
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    folder = program.folder / "faults"
    return run(*h.Program(path, 1).train_arguments(folder, data, 1), **settings)


@pytest.mark.parametrize("settings,words", [
    ({"LD_LIBRARY_PATH": ""}, ("no driver of NVIDIA", "libcuda.so.1", "--target cpu")),
    ({"TESSERA_CHECK_VERSION": "11080"}, ("the driver of NVIDIA on this machine is for CUDA 11.8, the program needs 12.0 (driver 525 or later); update the driver",)),
    ({"TESSERA_CHECK_GPUS": "0"}, ("1 ranks", "0 GPUs")),
    ({"TESSERA_CHECK_CAPABILITY": "75"}, ("GPU 0 has compute capability 7.5, the program was compiled for sm_80; compile it with --target cuda:sm_75",)),
    ({"TESSERA_CHECK_MEMORY": "4096"}, ("bytes of device memory", "4096 free")),
], ids=["no driver", "old driver", "no GPU", "old GPU", "little memory"])
def test_machines_that_cannot_run_it(program, settings, words):
    if "LD_LIBRARY_PATH" in settings and any(os.path.exists(f"{folder}/libcuda.so.1") for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")):
        pytest.skip("this machine has a driver")
    h.assert_error(first_step(program, **settings), *words)


def test_memory_beside_the_programs(program, tmp_path):
    """What kernels and the next step's inputs take is measured; where it is not there any more, that is said before the first step."""
    inputs = 12 * 24 * 4 + 12 * 8 + 64  # x, labels, what the update is told
    path, run = gpu_program(program, "mlp", ("--train", "sgd"))
    peak = h.Program(path, 1).info("train")["memory"][0]["device"]["peak"]
    h.assert_error(first_step(program, TESSERA_CHECK_MEMORY=str(peak + inputs + 100000), TESSERA_CHECK_MODULE="99000"),
                   "loading", "CUDA_ERROR_OUT_OF_MEMORY", f"1000 of the GPU's {peak + inputs + 100000} bytes are free", "more microbatches")
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    assert run(*h.Program(path, 1).train_arguments(tmp_path, data, 1, "--stats", tmp_path / "stats.json"), TESSERA_CHECK_MODULE="1000").returncode == 0
    memory = json.loads((tmp_path / "stats.json").read_text())["memory"][0]
    assert memory["device"]["peak"] == peak and memory["outside"] >= 2000 and memory["outside"] % 1000 == inputs % 1000


def test_a_step_ends_before_the_next_ones_data_is_refused(program, tmp_path):
    """It is read while the step is under way."""
    path, run = gpu_program(program, "mlp", ("--train", "sgd"))
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    data["labels"][12 + 3] = 99
    result = run(*h.Program(path, 1).train_arguments(tmp_path, data, 2))
    h.assert_error(result, "'labels'", "element [15] is 99", "outside of [0, 10)")
    assert "step 1/2" in result.stdout


def test_kernels_without_twins_are_named(program):
    result = first_step(program, TESSERA_CHECK_TWINS="")
    assert result.returncode == 1 and "has no twin" in result.stderr


def test_several_ranks(program, tmp_path):
    """A GPU a rank, which exchange by NCCL; test_cuda_models.py has other meshes."""
    options = ("--train", "adamw", "--dp", "2")
    gpu = train_on_gpu(program, "mlp", tmp_path / "gpu", options, "--stats", tmp_path / "stats.json", TESSERA_CHECK_GPUS="4")
    cpu = train_on_cpu(program, "mlp", tmp_path / "cpu", ("--train", "adamw"))
    np.testing.assert_allclose(losses(gpu), losses(cpu), rtol=1e-5)
    path, _ = gpu_program(program, "mlp", options)
    assert json.loads((tmp_path / "stats.json").read_text())["sent"] == h.Program(path, 1).info("train")["sent"]


def test_a_norm_over_a_split_width(tmp_path):
    """10 over three ranks, the mean a thousand deviations from zero: the statistics are merged, not differences of sums of squares."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (64, 10)) for name in "xy")
    weights = [onnx.numpy_helper.from_array(np.full(shape, value, np.float32), name) for name, shape, value in
               (("zero", (1,), 0), ("gamma", (10,), 1), ("beta", (10,), 0))]
    nodes = [onnx.helper.make_node("Add", ["x", "zero"], ["moved"], name="moved"),
             onnx.helper.make_node("LayerNormalization", ["moved", "gamma", "beta"], ["y"], name="norm")]
    graph = onnx.helper.make_graph(nodes, "norm", [x], [y], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), tmp_path / "norm.onnx")
    (tmp_path / "plan.toml").write_text('[mesh]\nt = 3\n[[input]]\nmatch = "x"\ndim = 1\naxes = ["t"]\n')
    path, run = compiled(tmp_path / "gpu", tmp_path / "norm.onnx", "--plan", tmp_path / "plan.toml")
    x = (1000 + np.random.default_rng(3).standard_normal((64, 10))).astype(np.float32)
    result = run(*h.Program(path, 3).infer_arguments(tmp_path / "run", {"x": x}), TESSERA_CHECK_GPUS="3")
    assert result.returncode == 0, result.stderr
    assert "all_gather" in h.Program(path, 3).info("infer")["sent"]["t"]
    exact = (x - x.mean(1, keepdims=True, dtype=np.float64)) / x.astype(np.float64).std(1, keepdims=True)
    np.testing.assert_allclose(np.load(tmp_path / "run" / "out" / "y.npy"), exact, rtol=0, atol=5e-4)


@pytest.mark.parametrize("capped", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_rows_are_filled_up(tmp_path, capped):
    """A vocabulary of 1001 in bf16: products of rows of 1008, the losses of the CPU, below a cap those without one to the bit."""
    sys.path.append(str(h.MODELS))
    import shapes

    model, random = tmp_path / "odd.onnx", np.random.default_rng(1)
    count = shapes.write("gpt2", str(model), layers=1, width=512, heads=8, vocabulary=1001, length=64)
    (0.02 * random.standard_normal(count)).astype(np.float32).tofile(tmp_path / "odd.onnx.data")
    options = ("--train", "adamw", "--dtype", "bf16", "--bind", "batch=8", "--bind", "seq=64")
    h.checked(h.TESSERA, "compile", model, "-o", tmp_path / "cpu", *options)
    data = {name: random.integers(0, 1001, (8 * STEPS, 64)) for name in ("input_ids", "labels")}
    expected = losses(h.Program(tmp_path / "cpu", 1).train(tmp_path / "run", data, STEPS))
    program, (ours, weights, _) = trained_late_and_early(tmp_path / "gpu", data, model, *options)
    np.testing.assert_allclose(ours, expected, rtol=1e-3)
    text = next((tmp_path / "gpu" / "phases").glob("*-schedule.mlir")).read_text()
    assert re.search(r"nn.contract .*-> tensor<8x64x1008xbf16>", text) and not re.search(r"nn.contract .*-> tensor<8x64x1001xbf16>", text)
    if not capped:
        return
    _, below = trained_late_and_early(tmp_path / "capped", data, model, *options, "--device-memory", "24MiB", "--host-memory", "1GiB")
    assert below[:2] == (ours, weights)
    assert program.info("train")["memory"][0]["device"]["peak"] > 24 << 20


def several(program):
    """An executable of two ranks, and the arguments of a training run."""
    path, run = gpu_program(program, "mlp", ("--train", "adamw", "--dp", "2"))
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    return path, run, lambda folder: h.Program(path, 2).train_arguments(folder, data, STEPS, "--log", folder / "log.jsonl")


@pytest.mark.parametrize("shared", [False, True], ids=["a GPU each", "one GPU"])
def test_processes_of_a_launcher(program, tmp_path, shared):
    """As torchrun starts them; NCCL's ids travel over TCP."""
    path, _, arguments = several(program)
    twins = path.parent / "twins.so"
    given = arguments(tmp_path)

    port = str(h.free_port())

    def settings(rank):
        ranks = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        gpus = {"TESSERA_SHARE_GPUS": "1", "NCCL_HOSTID": str(rank)} if shared else {"TESSERA_CHECK_GPUS": "2"}
        return environment(twins, **ranks, **gpus)
    processes = [subprocess.Popen([str(path), *map(str, given)], stderr=subprocess.PIPE, text=True, env=settings(rank)) for rank in range(2)]
    for process in processes:
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0 and "checking driver" not in err, err
    cpu = train_on_cpu(program, "mlp", tmp_path / "cpu", ("--train", "adamw"))
    gpu = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(losses(gpu), losses(cpu), rtol=1e-5)


@pytest.mark.parametrize("variant,mesh", [("mlp", "dp2"), pytest.param("gpt2", "tp2", marks=pytest.mark.whole), pytest.param("llama", "tp3", marks=pytest.mark.whole)])
def test_processes_of_mpirun(program, tmp_path, variant, mesh):
    """NCCL's ids travel over MPI."""
    flags, ranks = h.ALL_MESHES[mesh]
    path, _ = gpu_program(program, variant, ("--train", "adamw", *flags))
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    given = h.Program(path, ranks).train_arguments(tmp_path, data, STEPS, "--log", tmp_path / "log.jsonl", "--stats", tmp_path / "stats.json")
    result = h.run(*h.mpirun(ranks), path, *given, env=environment(path.parent / "twins.so", TESSERA_CHECK_GPUS=str(ranks)), timeout=600)
    assert result.returncode == 0 and "checking driver" not in result.stderr, result.stderr
    gpu = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    cpu = train_on_cpu(program, variant, tmp_path / "cpu", ("--train", "adamw"))
    np.testing.assert_allclose(losses(gpu), losses(cpu), rtol=1e-5)
    assert json.loads((tmp_path / "stats.json").read_text())["sent"] == h.Program(path, 1).info("train")["sent"]


def test_a_lost_peer_ends_the_others(program, tmp_path):
    path, _, _ = several(program)
    data = h.training_data("mlp", [*h.input_names("mlp"), "labels"])
    given = h.Program(path, 2).train_arguments(tmp_path, data, 100000, "--log", tmp_path / "log.jsonl")
    port = str(h.free_port())
    processes = [subprocess.Popen([str(path), *map(str, given)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env=environment(path.parent / "twins.so", TESSERA_CHECK_GPUS="2", RANK=str(rank), WORLD_SIZE="2",
                                                  MASTER_ADDR="localhost", MASTER_PORT=port)) for rank in range(2)]
    deadline = time.time() + 60
    while time.time() < deadline and not ((tmp_path / "log.jsonl").exists() and (tmp_path / "log.jsonl").read_text().count("\n") > 2):
        time.sleep(0.05)
    processes[1].kill()
    _, err = processes[0].communicate(timeout=30)
    processes[1].communicate()
    assert processes[0].returncode == 1 and [line for line in err.splitlines() if line.startswith("error: ")] == \
        ["error: rank 0 of 2: rank 1 has ended, or the connection to it is lost"], err


def test_without_nccl(program, tmp_path):
    _, run, arguments = several(program)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcuda.so.1").symlink_to(CHECK / "libcuda.so.1")
    missing = {"LD_LIBRARY_PATH": str(tmp_path / "lib"), "TESSERA_CHECK_GPUS": "2"}
    try:
        ctypes.CDLL("libnccl.so.2")
    except OSError:
        h.assert_error(run(*arguments(tmp_path / "data"), **missing), "no NCCL on this machine", "--comm host")
    h.checked("c++", "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "lib" / "libnccl.so.2")
    h.assert_error(run(*arguments(tmp_path / "data"), **missing), "libnccl.so.2 lacks the function ncclGetVersion; install NCCL 2.18 or later, or run with --comm host")
    h.assert_error(run(*arguments(tmp_path / "data"), TESSERA_CHECK_GPUS="2", TESSERA_CHECK_NCCL_VERSION="21400"),
                   "NCCL on this machine is 2.14, the program needs 2.18; install a later one, or run with --comm host")
    assert run(*arguments(tmp_path / "data"), "--comm", "host", **missing).returncode == 0
    host = [json.loads(line) for line in (tmp_path / "data" / "log.jsonl").read_text().splitlines()]
    assert run(*arguments(tmp_path / "again"), TESSERA_CHECK_GPUS="2").returncode == 0
    nccl = [json.loads(line) for line in (tmp_path / "again" / "log.jsonl").read_text().splitlines()]
    assert list(losses(host)) == list(losses(nccl))


def test_fewer_gpus_than_ranks(program, tmp_path):
    _, run, arguments = several(program)
    h.assert_error(run(*arguments(tmp_path), TESSERA_CHECK_GPUS="1"), "2 ranks on this host", "1 GPU")


@pytest.mark.parametrize("target,words", [("cuda:sm_70", ("sm_70", "sm_80, sm_90, sm_100")), ("gpu", ("--target=gpu", "expected cpu, cuda"))])
def test_targets_that_do_not_exist(tmp_path, target, words):
    result = h.tessera("compile", h.MODELS / "mlp.onnx", "-o", tmp_path / "p", "--target", target)
    h.assert_error(result, *words, status=2)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_library_assembles_without_spills(chip):
    if not h.ptxas():
        pytest.skip("no ptxas in PATH or /usr/local/cuda/bin: PTX is not assembled")
    kernels = h.assemble(h.BUILD / "runtime" / "device" / "cuda" / "library.ptx", chip)
    assert len(kernels) > 10 and [name for name, (_, spilled) in kernels.items() if spilled] == []
