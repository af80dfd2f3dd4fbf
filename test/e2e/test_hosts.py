"""Ranks on several hosts, which namespaces of this one stand for: what they share, how they find each other, and what ends between them."""
import json
import os
import pty
import shutil
import subprocess
import time
import types

import numpy as np
import pytest

import harness as h

TRAIN = ("--train", "adamw")


@pytest.fixture
def mlp(program):
    return program("mlp", "dp2", TRAIN)


def training(compiled, folder, steps, *options):
    return compiled.train_arguments(folder, h.training_data("mlp", ["x", "labels"]), steps, "--threads", "1", *options)


def started(compiled, arguments, rank, port, prefix=(), address="127.0.0.1"):
    variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(port)}
    return subprocess.Popen([str(word) for word in (*prefix, compiled.path, *arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=variables)


def ended(processes, timeout):
    """(status, standard error) of each."""
    end = time.monotonic() + timeout
    try:
        return [(p.wait(max(0.1, end - time.monotonic())), p.stderr.read()) for p in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def errors(text):
    return [line for line in text.splitlines() if line.startswith("error: ")]


def with_its_own(folder, instead):
    """The beginning of a command that sees another folder in the place of this one."""
    for path in (folder, instead):
        path.mkdir()
    prefix = ("unshare", "-m", "sh", "-c", f'mount --bind "{instead}" "{folder}" && exec "$@"', "sh")
    if (result := h.run(*prefix, "true")).returncode != 0:
        pytest.skip(f"no mount namespace can be made here: {result.stderr.strip()}")
    return prefix


@pytest.mark.parametrize("option", ["--save", "--trace", "--checkpoint", "--output"])
def test_a_folder_that_hosts_do_not_share(mlp, tmp_path, option):
    """It is known before the first step, and nothing is left in either folder."""
    mine, theirs = tmp_path / "out", tmp_path / "elsewhere"
    prefix = with_its_own(mine, theirs)
    if option == "--output":
        arguments = mlp.infer_arguments(tmp_path / "in", h.model_inputs("mlp", ["x"]))
        arguments = (*arguments[:arguments.index("--output")], "--output", mine / "new")
    else:
        written = (option, mine / "new" / "folder", "--every", "1") if option == "--checkpoint" else (option, mine / "file")
        arguments = training(mlp, tmp_path / "in", 5, "--log", tmp_path / "log.jsonl", *written)
    port, begun = h.free_port(), time.monotonic()
    ends = ended([started(mlp, arguments, rank, port, prefix if rank else ()) for rank in range(2)], 30)
    assert [status for status, _ in ends] == [1, 1], ends
    said = errors(ends[0][1] + ends[1][1])
    assert len(said) == 1 and "rank 1 of 2" in said[0] and \
        f"what rank 0 writes for '{mine}/" in said[0] and "' is not there: every rank writes its part of that file" in said[0], ends
    assert time.monotonic() - begun < 10
    assert not list(mine.iterdir()) and not list(theirs.iterdir()) and not (tmp_path / "log.jsonl").exists()


def test_a_folder_that_hosts_do_not_share_under_mpirun(mlp, tmp_path):
    prefix = with_its_own(tmp_path / "out", tmp_path / "elsewhere")
    command = [mlp.path, *training(mlp, tmp_path / "in", 5, "--save", tmp_path / "out" / "file")]
    result = h.run(*h.mpirun(1), *command, ":", "-n", "1", *prefix, *command)
    assert result.returncode == 1 and len(errors(result.stderr)) == 1 and "share" in result.stderr, result.stderr
    assert not list((tmp_path / "out").iterdir())


def test_what_rank_0_writes_alone_needs_no_shared_folder(mlp, tmp_path):
    prefix = with_its_own(tmp_path / "out", tmp_path / "elsewhere")
    arguments = training(mlp, tmp_path / "in", 3, "--log", tmp_path / "out" / "log", "--stats", tmp_path / "out" / "stats")
    port = h.free_port()
    assert [status for status, _ in ended([started(mlp, arguments, rank, port, prefix if rank else ()) for rank in range(2)], 30)] == [0, 0]
    assert len((tmp_path / "out" / "log").read_text().splitlines()) == 3 and (tmp_path / "out" / "stats").exists()


def test_checkpoints_into_an_impossible_folder(mlp, tmp_path):
    (tmp_path / "file").write_text("")
    arguments = training(mlp, tmp_path / "in", 5, "--log", tmp_path / "log.jsonl", "--checkpoint", tmp_path / "file" / "folder", "--every", "5")
    h.assert_error(h.run(*mlp.command(*arguments)), "file/folder")
    assert not (tmp_path / "log.jsonl").exists()


def test_texts_and_wrong_usage_wait_for_nobody(mlp):
    """What every process says alike is printed by rank 0, without the others."""
    for arguments, status in ((("--help",), 0), (("info",), 0), (("info", "--json"), 0), (("train", "--fly"), 2)):
        begun, port = time.monotonic(), h.free_port()
        process = started(mlp, arguments, 0, port)
        out, err = process.communicate(timeout=30)
        assert process.returncode == status and time.monotonic() - begun < 10
        assert len(errors(err)) == (status != 0) and bool(out) == (status == 0)
    process = started(mlp, ("info",), 1, h.free_port())
    assert process.communicate(timeout=10) == ("", "") and process.returncode == 0


def test_progress_under_mpirun(mlp, tmp_path):
    """Open MPI gives ranks a terminal, whatever its own output is: lines are overwritten only where that is a terminal too."""
    command = [*map(str, mlp.command(*training(mlp, tmp_path, 5), mpi=True))]
    said = h.checked(*command).stdout
    assert "step 5/5" in said and "\r" not in said and "\33" not in said
    outer, inner = pty.openpty()
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=subprocess.PIPE)
    os.close(inner)
    process.wait(h.TIMEOUT)
    seen = os.read(outer, 1 << 16).decode()
    os.close(outer)
    assert "step 5/5" in seen and "\r" in seen and "\33[K" in seen


@pytest.fixture
def hosts():
    """Two network namespaces with a link between: the beginnings of commands in them, an address of the first, functions that cut the link and that give it a speed."""
    names, link = [f"tessera{os.getpid()}{side}" for side in "ab"], [f"ts{os.getpid() % 10 ** 8}{side}" for side in "ab"]

    def needed(*command):
        if not shutil.which(command[0]):
            pytest.skip(f"no network of namespaces can be made here: there is no {command[0]}")
        result = h.run(*command)
        if result.returncode != 0:
            pytest.skip(f"no network of namespaces can be made here: {' '.join(command)}: {result.stderr.strip()}")

    def ip(*arguments):
        needed("ip", *arguments)

    def shape(megabits):
        """Both directions; the system keeps little of what is sent, so that a message has left when it has gone through the link."""
        for name, device in zip(names, link):
            inside = ("ip", "netns", "exec", name)
            needed(*inside, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{megabits}mbit", "burst", "128kb", "latency", "200ms")
            needed(*inside, "sysctl", "-q", "-w", *(f"net.ipv4.tcp_{way}mem=4096 65536 262144" for way in "rw"))
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", link[0], "netns", names[0], "type", "veth", "peer", "name", link[1], "netns", names[1])
        for i in range(2):
            ip("-n", names[i], "addr", "add", f"10.99.0.{i + 1}/24", "dev", link[i])
            for device in ("lo", link[i]):
                ip("-n", names[i], "link", "set", device, "up")
        yield types.SimpleNamespace(prefixes=[("ip", "netns", "exec", name) for name in names], address="10.99.0.1", shape=shape,
                                    cut=lambda: ip("-n", names[0], "link", "set", link[0], "down"))
    finally:
        for name in names if shutil.which("ip") else ():
            h.run("ip", "netns", "delete", name)


def test_a_cut_link_ends_all_ranks(mlp, tmp_path, hosts):
    """No connection is closed: each host finds out by itself, and what was logged stays."""
    log, port = tmp_path / "log.jsonl", h.free_port()
    arguments = training(mlp, tmp_path, 10 ** 8, "--log", log)
    processes = [started(mlp, arguments, rank, port, hosts.prefixes[rank], hosts.address) for rank in range(2)]
    assert h.wait_until(lambda: log.exists() and log.read_text().count("\n") > 5, 30), "training did not begin"
    hosts.cut()
    ends = ended(processes, 30)
    for rank, (status, err) in enumerate(ends):
        assert status == 1 and len(errors(err)) == 1, ends
        assert f"error: rank {rank} of 2: rank {1 - rank} has ended, or the connection to it is lost: Connection timed out" in err
    assert json.loads(log.read_text().splitlines()[-1])["step"] > 5


MICROBATCHES, ROWS, WIDTH, LAYERS, STEPS = 16, 512, 512, 8, 4


def save_chain(path):
    """Products of one size, in two halves that exchange a MiB a microbatch."""
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array((random.standard_normal((WIDTH, WIDTH)) / WIDTH ** 0.5).astype(np.float32), f"w{i}") for i in range(LAYERS)]
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(LAYERS)]
    ends = [helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, [MICROBATCHES * ROWS, WIDTH]) for i in (0, LAYERS)]
    save(helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def steps_of(trace):
    """For each step and rank the intervals (begin, end) in seconds: of operations that compute, and of messages from when they could leave to when they had."""
    spans = sorted((e for e in trace if e["ph"] == "X"), key=lambda e: e["ts"])
    steps = []
    for step in range(STEPS):
        steps.append([])
        for rank in range(2):
            rows = [[e for e in spans if e["pid"] == rank and (e["tid"] > 2 if sent else e["tid"] == 0)] for sent in (False, True)]
            assert all(row and len(row) % STEPS == 0 for row in rows), "every step has the same operations and messages"
            operations, sends = (row[len(row) // STEPS * step:len(row) // STEPS * (step + 1)] for row in rows)
            computes = [e for e in operations if e["cat"] not in ("send", "recv", "wait", "all_reduce")]
            steps[-1].append([[(e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in events] for events in (computes, sends)])
    return steps


def seconds_of(intervals):
    return sum(end - begin for begin, end in intervals)


def common_seconds(some, others):
    return sum(max(0, min(ends) - max(begins)) for begins, ends in (zip(a, b) for a in some for b in others))


def test_a_pipeline_between_hosts_overlaps(tmp_path, hosts):
    """While a rank computes its messages go through the link, and the next one comes. GPipe alone leaves room for that all along (docs/design/0008)."""
    save_chain(tmp_path / "chain.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "chain.onnx", "-o", tmp_path / "chain", "--train", "sgd", "--loss", f"mse:v{LAYERS}",
              "--pp", "2", "--pp-schedule", "gpipe", "--microbatches", MICROBATCHES, "--threads", "1")
    compiled = h.Program(tmp_path / "chain", 2)
    samples = np.random.default_rng(1).standard_normal((MICROBATCHES * ROWS, WIDTH)).astype(np.float32)
    trace, stats = tmp_path / "trace.json", tmp_path / "stats.json"
    arguments = compiled.train_arguments(tmp_path, {"v0": samples, "target": samples}, STEPS, "--threads", "1", "--trace", trace, "--stats", stats)
    h.checked(*compiled.command(*arguments))
    computing = min(max(seconds_of(computes) for computes, _ in step) for step in steps_of(json.loads(trace.read_text()))[1:])
    promised = compiled.info("train")
    needed = 0.8 * computing  # by all messages of a step
    hosts.shape(int(8 * 2 * promised["sent"]["pipe"]["send"]["bytes"] / needed / 1e6))
    port = h.free_port()
    ends = ended([started(compiled, arguments, rank, port, hosts.prefixes[rank], hosts.address) for rank in range(2)], 60)
    assert [status for status, _ in ends] == [0, 0], ends

    figures = []
    for step in steps_of(json.loads(trace.read_text()))[1:]:
        computing, travelling = max(seconds_of(computes) for computes, _ in step), sum(seconds_of(sends) for _, sends in step)
        hidden = sum(common_seconds(sends, computes) for computes, sends in step) / travelling
        took = max(end for rank in step for row in rank for _, end in row) - min(begin for rank in step for row in rank for begin, _ in row)
        figures.append((took, computing, travelling, hidden))
        print(f"a step of {took:.3f} s computes {computing:.3f} s and sends {travelling:.3f} s, of which {hidden:.0%} beside computing; the link needs {needed:.3f} s")
    # The machine may be busy with something else: the best step counts.
    assert min(travelling for _, _, travelling, _ in figures) < 1.5 * needed, "messages stand still"
    assert max(hidden for _, _, _, hidden in figures) > 0.5
    assert min(took / (max(computing, travelling) + computing + travelling) for took, computing, travelling, _ in figures) < 0.5, "nearer to the sum than to the longer one"
    assert [m["device"]["peak"] for m in json.loads(stats.read_text())["memory"]] == [m["device"]["peak"] for m in promised["memory"]]
