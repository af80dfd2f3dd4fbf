"""Updates on the host: what is updated where its state lies has the bits of an update on the device, and what is promised of both tiers is what is measured."""
import json
import re

import pytest

import gpu
import harness as h
from test_tiers import ALONE, MESHES, assert_kept, caps_of, compile_to, least_possible, trained

GPT2 = h.MODELS / "gpt2.onnx"
TRAIN = ("--train", "adamw")
ON_HOST = '\n[[place]]\nmatch = "*"\nupdate = "host"\n'
WIDE = 1 << 40


def plan_with(path, mesh, *options, more=ON_HOST):
    """The plan of a mesh, with entries more."""
    path.write_text(h.checked(h.TESSERA, "plan", GPT2, *MESHES[mesh], *options).stdout + more)
    return path


CASES = [("1", "adamw", ()), ("1", "sgd", ()), ("1", "adamw", ("--dtype", "bf16")), ("1", "adamw", ("--dtype", "f16")), ("micro2", "adamw", ()), ("micro2", "adamw", ("--dtype", "bf16")), ("dp2", "adamw", ()),
         ("dp2zero1", "adamw", ()), ("dp2zero1", "adamw", ("--dtype", "bf16")), ("dp2zero3", "adamw", ()), ("tp2", "adamw", ()), ("pp2", "adamw", ())]


@pytest.mark.parametrize("mesh,optimizer,options", CASES, ids=["-".join([m, o, *x[1:]]) for m, o, x in CASES])
@pytest.mark.parametrize("clip", [(), ("--clip-norm", "0.5")], ids=["free", "clipped"])
def test_same_bits(tmp_path, mesh, optimizer, options, clip):
    """All updates on the host, by one entry and without a cap: gradients go down, parameters come up, state does not move."""
    train = ("--train", optimizer, *options)
    full = compile_to(tmp_path / "full", "gpt2", mesh, *train)
    plan = plan_with(tmp_path / "plan.toml", mesh, *train)
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "host", "--plan", plan, *train)
    host = h.Program(tmp_path / "host", full.ranks)
    want, got = trained(full, tmp_path / "f", "gpt2", *clip), trained(host, tmp_path / "h", "gpt2", *clip)
    assert got[:2] == want[:2]
    stats = got[2]
    if not clip:
        assert_kept(host, stats, WIDE)
    for rank, before in zip(stats["memory"], want[2]["memory"], strict=True):
        assert rank["device"]["optimizer"] == 0 and rank["host"]["optimizer"] == before["device"]["optimizer"]
        assert rank["host"]["gradients"] > 0 and rank["device"]["peak"] < before["device"]["peak"]
    mean = sum(rank["host"]["parameters"] for rank in stats["memory"]) / len(stats["memory"])
    assert stats["moved"]["host_to_device"] <= 1.01 * mean, "each parameter comes up once"
    assert stats["moved"]["device_to_host"] <= 1.3 * mean, "and each gradient goes down"


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_converted_on_the_host(tmp_path, dtype):
    """In half types the host converts what it updates: two bytes an element come up, of each parameter that the device does nothing with but convert it."""
    train = (*TRAIN, "--dtype", dtype)
    plan = plan_with(tmp_path / "plan.toml", "1", *train)
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--plan", plan, *train, "--dump-phases", tmp_path / "phases")
    text = next((tmp_path / "phases").glob("*memory*")).read_text().split("func.func @train(")[1].split("func.func @")[0]
    sizes = dict(re.findall(r"(%\d+) = exec.buffer in host \{bytes = (\d+)", text))
    made = re.findall(rf'exec.host_call "convert"\((%\d+), (%\d+)\) .*dtype = "{dtype}"', text)
    assert len(made) > 4
    assert all(int(sizes[source]) == 2 * int(sizes[target]) for source, target in made)
    program = h.Program(tmp_path / "p", 1)
    converted = sum(int(sizes[source]) for source, _ in made)
    parameters = sum(int(size) for size in re.findall(r'exec.buffer in host \{bytes = (\d+) : i64, category = "parameters"[^}]*variable', text))
    assert 0.5 * parameters < converted <= parameters
    assert program.info("train")["moved"]["host_to_device"] == parameters - converted // 2


@pytest.mark.parametrize("clip", [(), ("--clip-norm", "0.5")], ids=["free", "clipped"])
def test_converted_for_each_turn(tmp_path, clip):
    """What the host has converted before a loop over microbatches comes up in each turn of it, where the cap asks for that: the same bits."""
    train = (*TRAIN, "--dtype", "bf16", "--microbatches", "4")
    full = compile_to(tmp_path / "full", "gpt2", "1", *train)
    plan = plan_with(tmp_path / "plan.toml", "1", *train)
    cap = int(1.05 * least_possible("gpt2", "1", *train, "--plan", plan))
    result = h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "capped", "--plan", plan, *train, "--device-memory", cap, *ALONE, "--dump-phases", tmp_path / "phases")
    assert re.search(r"program 'train' takes .* of them in each of 4 turns of the loop", result.stderr)
    text = next((tmp_path / "phases").glob("*memory*")).read_text().split("func.func @train(")[1].split("func.func @")[0]
    before, body = text.split("\n    exec.loop 4 {\n")
    made = set(re.findall(r'exec.host_call "convert"\(%\d+, (%\d+)\)', before))
    turns = body.split("\n    }")[0]
    assert "exec.host_call" not in turns and made & set(re.findall(r"exec.copy (%\d+) to", turns))
    capped = h.Program(tmp_path / "capped", 1)
    want, got = trained(full, tmp_path / "f", "gpt2", *clip), trained(capped, tmp_path / "c", "gpt2", *clip)
    assert got[:2] == want[:2]
    if not clip:
        assert_kept(capped, got[2], cap)


def test_converted_by_a_plan_that_was_printed(tmp_path):
    """A printed plan says where the host's conversions come up, and is taken as it is; `explain` says who makes them."""
    train = (*TRAIN, "--dtype", "bf16", "--offload", "optimizer,parameters", *ALONE)
    machine = tmp_path / "machine.toml"
    machine.write_text("[host]\ndown = 2e8\nup = 2e8\nlatency = 1e-5\nupdate = 1e9\n")
    cap = int(1.2 * least_possible("gpt2", "1", *train[:4], *train[4:6]))
    caps = (*train, "--device-memory", cap, "--machine", machine)
    (tmp_path / "plan.toml").write_text(h.checked(h.TESSERA, "plan", GPT2, *caps).stdout)
    programs = {}
    for name, options in (("found", caps), ("given", (*TRAIN, "--dtype", "bf16", "--machine", machine, "--plan", tmp_path / "plan.toml"))):
        h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / name, *options)
        programs[name] = h.Program(tmp_path / name, 1).info("train")
    assert programs["found"]["moved"] == programs["given"]["moved"] and programs["found"]["memory"] == programs["given"]["memory"]
    text = h.checked(h.TESSERA, "explain", GPT2, *caps).stdout
    assert re.search(r"the host converts it in each step, in the first .*, and it comes up from there", text)
    assert not re.search(r"the host converts it[^\n]*\n *from [^\n]* of the next step", text), "what is made anew has nothing to stay for"


def test_one_update(tmp_path):
    """One parameter is updated on the host, all others where they are."""
    plan = plan_with(tmp_path / "plan.toml", "1", *TRAIN, more='\n[[place]]\nmatch = "*.h.0.mlp.c_fc.weight"\nupdate = "host"\n')
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "one", "--plan", plan, *TRAIN)
    one, full = h.Program(tmp_path / "one", 1), compile_to(tmp_path / "full", "gpt2", "1", *TRAIN)
    want, got = trained(full, tmp_path / "f", "gpt2"), trained(one, tmp_path / "o", "gpt2")
    assert got[:2] == want[:2]
    assert_kept(one, got[2], WIDE)
    host = got[2]["memory"][0]["host"]
    assert host["optimizer"] == 2 * host["parameters"] == 2 * host["gradients"] > 0
    assert got[2]["moved"]["host_to_device"] == host["parameters"]


def test_chosen_below_a_cap_and_given_back(tmp_path):
    """Where the host is fast beside the link updates run there: less moves, `plan` says so, and back in it is taken as it is."""
    machine = tmp_path / "machine.toml"
    full = compile_to(tmp_path / "full", "gpt2", "1", *TRAIN)
    want = trained(full, tmp_path / "f", "gpt2")
    cap = caps_of("gpt2", "1", full, *TRAIN)[0][1]

    def capped(name, update):
        machine.write_text(f"[host]\ndown = 1e9\nup = 1e9\nlatency = 1e-6\nupdate = {update}\n")
        return compile_to(tmp_path / name, "gpt2", "1", *TRAIN, "--device-memory", cap, "--machine", machine)

    slow, fast = capped("slow", 1e3), capped("fast", 1e11)
    moved = {}
    for program in (slow, fast):
        got = trained(program, tmp_path / "c", "gpt2")
        assert got[:2] == want[:2]
        assert_kept(program, got[2], cap)
        moved[program] = sum(got[2]["moved"].values())
    assert moved[fast] < moved[slow] and fast.info("train")["step_seconds"] < slow.info("train")["step_seconds"]
    plan = h.checked(h.TESSERA, "plan", GPT2, *TRAIN, "--device-memory", cap, "--machine", machine, *ALONE)
    assert 'update = "host"' in plan.stdout
    assert re.search(r"\d+ updates? runs? on the host", h.checked(
        h.TESSERA, "compile", GPT2, "-o", "/dev/null", "--to", "lower", *TRAIN, "--device-memory", cap, "--machine", machine, *ALONE).stderr)
    (tmp_path / "plan.toml").write_text(plan.stdout)
    again = compile_to(tmp_path / "again", "gpt2", "1", *TRAIN, "--plan", tmp_path / "plan.toml", "--machine", machine)
    assert (again.info("train")["memory"], again.info("train")["moved"]) == (fast.info("train")["memory"], fast.info("train")["moved"])
    assert h.checked(h.TESSERA, "plan", GPT2, *TRAIN, "--plan", tmp_path / "plan.toml", "--machine", machine).stdout == plan.stdout
    text = h.checked(h.TESSERA, "explain", GPT2, *TRAIN, "--device-memory", cap, "--machine", machine, *ALONE).stdout
    assert re.search(r"^  update of \S+ on the host, in [\d.]+ us; with all updates on the device [\d.]+ (us|ms) a step$", text, re.M)
    text = h.checked(h.TESSERA, "explain", GPT2, *TRAIN, "--plan", tmp_path / "plan.toml", "--machine", machine).stdout
    assert ", for its update" in text
    assert re.search(rf"^  update of \S+ on the host, in [\d.]+ us; so says {tmp_path}/plan.toml:\d+:\d+$", text, re.M)


def test_what_stays_on_the_device(tmp_path):
    """An entry that names what the host cannot update says so; with entries, what none of them names is updated on the device."""
    plan = plan_with(tmp_path / "plan.toml", "1", *TRAIN, more='\n[[place]]\nmatch = "*.h.0.*"\nupdate = "device"\n' + ON_HOST)
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--plan", plan, *TRAIN)
    half = trained(h.Program(tmp_path / "p", 1), tmp_path / "h", "gpt2")
    assert half[2]["memory"][0]["device"]["optimizer"] > 0 and half[2]["memory"][0]["host"]["optimizer"] > 0
    # Inference has no updates, and such a plan is one for it too.
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "i", "--plan", plan)
    # Gradients that are outputs stay, so that verify decides without the entry.
    h.checked(h.TESSERA, "verify", GPT2, "--plan", plan, *TRAIN)
    # What is not trained is not updated anywhere.
    plan = plan_with(tmp_path / "frozen.toml", "1", *TRAIN, more=ON_HOST.replace("*", "lm_head.weight"))
    result = h.checked(h.TESSERA, "compile", GPT2, "-o", "/dev/null", "--to", "lower", "--plan", plan, *TRAIN, "--frozen", "lm_head.weight")
    line = plan.read_text().splitlines().index("[[place]]") + 1
    assert f"warning: {plan}:{line}:1: no update of what \"lm_head.weight\" names can run on the host by this entry" in result.stderr


def test_paced(tmp_path):
    """`--pace` makes updates on the host take as long as the machine's host."""
    plan = plan_with(tmp_path / "plan.toml", "1", *TRAIN)
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--plan", plan, *TRAIN)
    program = h.Program(tmp_path / "p", 1)
    elements = program.info("train")["memory"][0]["host"]["parameters"] / 4
    machine = tmp_path / "machine.toml"
    machine.write_text(f"[host]\ndown = 1e12\nup = 1e12\nupdate = {elements / 0.4:.6g}\n")
    stats = trained(program, tmp_path / "s", "gpt2", "--pace", machine)[2]
    assert 0.4 <= stats["step_seconds"] < 5
    assert trained(program, tmp_path / "q", "gpt2")[2]["step_seconds"] < stats["step_seconds"] - 0.2
    trace = tmp_path / "trace.json"
    trained(program, tmp_path / "t", "gpt2", "--trace", trace)
    rows = [e["args"]["name"] for e in json.loads(trace.read_text()) if e["name"] == "thread_name"]
    assert "updated on the host" in rows


def test_state_in_two_places(tmp_path):
    """With slots the host leaves what it updates in the other place."""
    plan = plan_with(tmp_path / "plan.toml", "1", *TRAIN)
    h.checked(h.TESSERA, "compile", GPT2, "-o", tmp_path / "p", "--plan", plan, *TRAIN)
    program = h.Program(tmp_path / "p", 1)
    one = trained(program, tmp_path / "one", "gpt2")
    two = trained(program, tmp_path / "two", "gpt2", "--slots", "2", "--slots-in", tmp_path, "--checkpoint", tmp_path / "c", "--every", "2")
    assert two[:2] == one[:2] and two[2]["memory"][0]["shared"] > 0


def test_on_gpus(tmp_path):
    """The checking driver runs functions of the host as late, and as early, as their events allow: the bits of updates on the GPU."""
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    plan = plan_with(tmp_path / "plan.toml", "1", *TRAIN)

    def run(name, *options):
        return gpu.trained_late_and_early(tmp_path / name, data, GPT2, *TRAIN, *options)

    _, (losses, weights, _) = run("full")
    host, (losses_here, weights_here, stats) = run("host", "--plan", plan)
    assert losses_here == losses and weights_here == weights
    assert_kept(host, stats, WIDE)
    assert stats["memory"][0]["host"]["optimizer"] > 0 == stats["memory"][0]["device"]["optimizer"]
