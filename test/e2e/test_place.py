"""What a user says of where values are, by `[memory]` and `[[place]]`, and what is said back: the solved plan, `explain`, reports, and why something does not fit."""
import json
import re

import pytest

import harness as h
from test_tiers import MESHES, assert_kept, least_possible, trained

GPT2 = h.MODELS / "gpt2.onnx"
TRAIN = ("--train", "adamw")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The program without a cap, what it computes, and a cap at which much has to move."""
    folder = tmp_path_factory.mktemp("full")
    program = compiled(folder / "full")
    log, weights, _ = trained(program, folder / "f", "gpt2")
    most = program.info("train")["memory"][0]["device"]["peak"]
    return program, log, weights, int(1.15 * least_possible("gpt2", "1", *TRAIN)), most


@pytest.fixture(scope="module")
def solved(tmp_path_factory, full):
    """The plan with what is decided below that cap."""
    plan = tmp_path_factory.mktemp("solved") / "plan.toml"
    plan.write_text(h.checked(h.TESSERA, "plan", GPT2, *TRAIN, "--device-memory", full[3]).stdout)
    return plan


def compiled(path, *options):
    h.checked(h.TESSERA, "compile", GPT2, "-o", path, *TRAIN, *options)
    return h.Program(path, 1)


def figures(program):
    return [(program.info(name)["memory"], program.info(name)["moved"]) for name in ("train", "train_clipped", "infer")]


def assert_same_bits(program, full, folder, cap=1 << 40):
    log, weights, stats = trained(program, folder, "gpt2")
    assert (log, weights) == full[1:3]
    assert_kept(program, stats, cap)
    return stats["memory"][0]


def test_solved_plan_comes_back(tmp_path, full, solved):
    """The plan that is printed has all that was decided: given back it makes the same program, and prints itself."""
    cap = full[3]
    direct = compiled(tmp_path / "direct", "--device-memory", cap)
    text = solved.read_text()
    assert text.count("[[place]]") > 5 and f'device  = "{cap}"' in text and "moves = [[" in text
    again = compiled(tmp_path / "again", "--plan", solved)
    assert figures(direct) == figures(again)
    assert h.checked(h.TESSERA, "plan", GPT2, *TRAIN, "--plan", solved).stdout == text
    assert_same_bits(again, full, tmp_path / "a", cap)
    # In the model's own file, too.
    h.checked(h.TESSERA, "convert", GPT2, *TRAIN, "--plan", solved, "--format", "onnx", "-o", tmp_path / "with.onnx")
    h.checked(h.TESSERA, "compile", tmp_path / "with.onnx", "-o", tmp_path / "inside", *TRAIN)
    assert figures(h.Program(tmp_path / "inside", 1)) == figures(direct)


@pytest.mark.parametrize("variant,mesh", [pytest.param(*case, marks=() if case == ("bert", "micro2") else pytest.mark.whole) for case in [
    ("bert", "tp2"), ("llama", "pp2"), ("gpt2", "dp2zero3"), ("gpt2", "dp2zero1"), ("gpt2", "ring2"), ("bert", "micro2"), ("mixtral", "ep2"), ("t5", "1")]])
def test_solved_plans_of_meshes(tmp_path, variant, mesh):
    """Mesh, patterns and places in one plan: stages, microbatches and pieces have their values by name, too."""
    model = (h.MODELS / f"{variant}.onnx", *h.bindings(variant), *TRAIN)
    h.checked(h.TESSERA, "compile", *model, *MESHES[mesh], "-o", tmp_path / "full")
    most = max(rank["device"]["peak"] for rank in json.loads(h.checked(tmp_path / "full", "info", "--json").stdout)["memory"])
    least = least_possible(variant, mesh, *TRAIN)
    cap = ("--device-memory", int((1.25 if mesh == "pp2" else 1.1) * least + 0.5 * (most - least)))
    plan = tmp_path / "plan.toml"
    plan.write_text(h.checked(h.TESSERA, "plan", *model, *MESHES[mesh], *cap).stdout)
    assert "moves = " in plan.read_text()
    told = []
    for name, options in (("direct", (*MESHES[mesh], *cap)), ("again", ("--plan", plan))):
        h.checked(h.TESSERA, "compile", *model, *options, "-o", tmp_path / name)
        infos = [json.loads(h.checked(tmp_path / name, "info", "--json", "--program", program).stdout) for program in ("train", "infer")]
        told.append([(info["memory"], info["moved"]) for info in infos])
    assert told[0] == told[1]
    assert h.checked(h.TESSERA, "plan", *model, "--plan", plan).stdout == plan.read_text()


def test_verify_takes_solved_plans(solved):
    """The programs that it compares have gradients as outputs, so that what moves is chosen anew below the plan's cap."""
    assert "worst" in h.checked(h.TESSERA, "verify", GPT2, "--plan", solved).stdout


def test_moves_of_another_program(tmp_path, full, solved):
    """What does not fit the program is refused, with the place in the plan; without the moves it is chosen anew."""
    cap, text, plan = full[3], solved.read_text(), tmp_path / "plan.toml"
    plan.write_text(re.sub(r"moves = \[\[(\d+), ", r"moves = [[9\1, ", text))
    h.compile_fails(tmp_path, GPT2, *TRAIN, "--plan", plan, words=["moves are given for program", "plan.toml"])
    plan.write_text(re.sub(r"(moves = \[\[.*), \d+\]\]", r"\1, 0]]", text))
    h.compile_fails(tmp_path, GPT2, *TRAIN, "--plan", plan, words=["moves are given for program", "plan.toml"])
    plan.write_text(re.sub(r"moves = .*\n", "", text))
    assert_same_bits(compiled(tmp_path / "p", "--plan", plan), full, tmp_path / "r", cap)


@pytest.mark.parametrize("what,category", [("optimizer", "optimizer"), ("parameter", "parameters"), ("activation", "activations")])
def test_place_without_a_cap(tmp_path, full, what, category):
    """What the plan has rest on the host is there, though nobody gives a cap; nothing else leaves."""
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[[place]]\nmatch = "*"\nwhat = "{what}"\ntier = "host"\n')
    program = compiled(tmp_path / "p", "--plan", plan)
    memory = assert_same_bits(program, full, tmp_path / "r")
    assert memory["host"][category] > 0
    assert all(memory["host"][k] == 0 for k in ("optimizer", "parameters", "activations", "gradients") if k != category)
    if what == "optimizer":  # all of it but what is too small to leave a gap
        assert memory["host"][category] > 0.9 * full[0].info("train")["memory"][0]["device"]["optimizer"]


def test_gradients_that_wait_for_a_norm(tmp_path, full):
    """Clipping has them wait, so that they can leave meanwhile."""
    plan = tmp_path / "plan.toml"
    plan.write_text('[[place]]\nmatch = "*.mlp.*"\nwhat = "gradient"\ntier = "host"\n')
    program = compiled(tmp_path / "p", "--plan", plan)
    assert program.info("train_clipped")["moved"]["host_to_device"] > 0
    want = trained(full[0], tmp_path / "f", "gpt2", "--clip-norm", "0.5")
    log, weights, stats = trained(program, tmp_path / "r", "gpt2", "--clip-norm", "0.5")
    assert (log, weights) == want[:2] and stats["moved"]["host_to_device"] > 0


def test_first_match_counts(tmp_path, full):
    """One layer's state stays, all other's leaves; the cap then takes from the rest what it needs."""
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[memory]\ndevice = "{full[3] + 6 * (full[4] - full[3]) // 10}"\n\n[[place]]\nmatch = ["*.h.0.*", "*ln_*"]\nwhat = "optimizer"\n'
                    'tier = "device"\n\n[[place]]\nmatch = "*"\nwhat = "optimizer"\ntier = "host"\n\n[[place]]\nmatch = "*"\nwhat = "activation"\ntier = "device"\n')
    assert_same_bits(compiled(tmp_path / "p", "--plan", plan), full, tmp_path / "r")
    text = h.checked(h.TESSERA, "plan", GPT2, *TRAIN, "--plan", plan).stdout
    state = re.findall(r'match = "(.*)"\nwhat  = "(.*)"\n', text)
    assert not [name for name, what in state if what == "activation" or (what == "optimizer" and (".h.0." in name or "ln_" in name))]
    assert [name for name, what in state if what == "optimizer"]


def test_memory_of_the_plan(tmp_path, full):
    """`[memory]` is what the flags are."""
    cap = int(0.9 * full[4])
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[memory]\ndevice = "{cap}"\nhost = "1GiB"\noffload = ["optimizer"]\n')
    flags = compiled(tmp_path / "flags", "--device-memory", cap, "--host-memory", "1GiB", "--offload", "optimizer")
    both = compiled(tmp_path / "both", "--plan", plan, "--device-memory", cap, "--offload", "optimizer")
    assert figures(flags)[0][1]["host_to_device"] > 0
    assert figures(compiled(tmp_path / "plan", "--plan", plan)) == figures(flags) == figures(both)


def test_explain(full, solved):
    """Each value with its gaps: where it is, why, what that takes, and what the other choice would cost."""
    text = h.checked(h.TESSERA, "explain", GPT2, *TRAIN, "--device-memory", full[3]).stdout
    assert "memory of train: the device has at most" in text
    gaps = re.findall(r"^    from \d+ (\S+) to \d+ (\S+)( of the next step)?: (host|device)(.*); (.*)\n      runner-up: (host|device), ([\d.]+) (us|ms) a step .*, the device at most (.*) at", text, re.M)
    assert len(gaps) > 20 and {where for *_, where, _, _, _, _, _, _ in [g for g in gaps]} <= {"host", "device"}
    assert any(g[3] == "host" and "up in" in g[4] and g[6] == "device" for g in gaps)
    assert any("too much" in g[5] for g in gaps) and all(g[3] != g[6] for g in gaps)
    one = h.checked(h.TESSERA, "explain", GPT2, *TRAIN, "--plan", solved, "--op", "*.h.0.mlp*").stdout
    assert 0 < one.count("runner-up") < text.count("runner-up") and f"so says {solved}:" in one


def test_report(tmp_path, full, solved):
    """What each tier holds at each operator, and what moves there."""
    compiled(tmp_path / "p", "--plan", solved, "--report", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    tide = report["tide"]["train"]
    count = len(tide["operators"])
    assert len(tide["device"]) == len(tide["host"]) == len(tide["seconds"]) - 1 == count
    assert 0.9 * report["memory"]["train"]["peak"] < max(tide["device"]) <= report["memory"]["train"]["peak"] <= full[3]
    assert max(tide["host"]) <= report["memory"]["train"]["host"]["peak"]
    moved = h.Program(tmp_path / "p", 1).info("train")["moved"]
    for direction in ("host_to_device", "device_to_host"):
        numbers = moved[direction] - sum(m["bytes"] for m in tide["moves"] if m["direction"] == direction)
        assert 0 <= numbers < 1024 if "update = " in solved.read_text() and direction == "device_to_host" else numbers == 0
    assert all(0 <= m["start"] <= m["wait"] <= count for m in tide["moves"])
    h.checked(h.TESSERA, "compile", GPT2, "-o", "/dev/null", "--to", "lower", "--report", tmp_path / "free.json")
    assert json.loads((tmp_path / "free.json").read_text())["tide"]["infer"]["moves"] == []


def test_what_does_not_fit(tmp_path, full):
    """Needed, given, least possible, what the peak is made of, what sets the least, and what would help, tried."""
    cap = full[3]

    def refused(*options):
        result = h.run(h.TESSERA, "compile", GPT2, "-o", "/dev/null", "--to", "lower", *TRAIN, "--device-memory", cap, *options)
        h.assert_error(result, "of device memory a rank, --device-memory is", notes="the least possible")
        return result.stderr

    text = refused("--offload", "none")
    needed = int(re.search(r"needs .*?\((\d+) bytes\)", text)[1])
    assert f"short by {(needed - cap) / 2 ** 20:.1f} MiB" in text or f"short by {(needed - cap) / 2 ** 10:.1f} KiB" in text
    parts = re.search(r"the device is fullest at this operator, if nothing leaves it: (.*)", text)[1]
    assert sum(int(n) for n in re.findall(r"(\d+) bytes", parts)) == needed
    assert "--offload=auto may move more than what is allowed to move now: it fits, with" in text
    alone = re.search(r"of one kind alone, the least possible on the device is: (.*)", text)[1]
    assert all(f"--offload={kind} " in alone for kind in ("optimizer", "parameters", "activations"))
    assert re.search(r"set by this operator \(\S+ .*bytes\)", text)
    text = refused("--host-memory", "64KiB")
    assert "does not fit into --host-memory; with more of the host it fits, with" in text
    plan = tmp_path / "plan.toml"
    plan.write_text('[memory]\nhost = "64KiB"\n\n[[place]]\nmatch = "*"\nwhat = "optimizer"\ntier = "host"\n')
    h.compile_fails(tmp_path, GPT2, *TRAIN, "--plan", plan, words=["has values that the plan wants on the host", "--host-memory, which is 64.0 KiB"])
    plan.write_text('[[place]]\nmatch = "*"\ntier = "device"\n')
    assert "the plan says where values are; without its [[place]] entries it fits, with" in refused("--plan", plan)


def made_again(plan):
    """What a program's schedule makes again by this plan, by the names of nodes, and what is said of it."""
    result = h.checked(h.TESSERA, "compile", GPT2, "-o", plan.with_suffix(".mlir"), "--to", "schedule", *TRAIN, "--plan", plan)
    text = plan.with_suffix(".mlir").read_text()
    return len(re.findall(r"dist.recompute = ", text)), result.stderr


def test_recompute_by_name(tmp_path, full):
    """Whatever the cap, what is named is made again, and nothing else; what an entry before has on the device is kept."""
    plan = tmp_path / "plan.toml"
    plan.write_text('[[place]]\nmatch = "transformer.h.0.*"\nrecompute = true\n')
    program = compiled(tmp_path / "p", "--plan", plan)
    assert_same_bits(program, full, tmp_path / "r")
    assert program.info("train")["flops"] > full[0].info("train")["flops"]
    alone, said = made_again(plan)
    assert alone > 2 and "program 'train': " in said and "are made again" in said
    plan.write_text('[[place]]\nmatch = "*.mlp.*"\ntier = "device"\n\n' + plan.read_text())
    less, _ = made_again(plan)
    assert 0 < less < alone
    plan.write_text('[[place]]\nmatch = "*.h.0.*"\nprogram = "train_clipped"\nrecompute = true\n')
    said = made_again(plan)[1]
    assert "program 'train_clipped': " in said and "program 'train': " not in said
    # Beside the search, below a cap.
    plan.write_text(f'[memory]\ndevice = "{full[3]}"\n\n[[place]]\nmatch = "*.h.0.*"\nrecompute = true\n')
    assert_same_bits(compiled(tmp_path / "capped", "--plan", plan), full, tmp_path / "c", full[3])
    # A plan for training serves inference.
    h.checked(h.TESSERA, "compile", GPT2, "-o", "/dev/null", "--to", "lower", "--plan", plan)


def test_recomputation_comes_back(tmp_path, full):
    """What a cap makes run again is printed by name, and runs again by the plan."""
    cap = ("--device-memory", int(0.97 * full[4]), "--offload", "none")
    plan = tmp_path / "plan.toml"
    plan.write_text(h.checked(h.TESSERA, "plan", GPT2, *TRAIN, *cap).stdout)
    text = plan.read_text()
    assert "recompute = true" in text and "moves" not in text
    direct, again = compiled(tmp_path / "direct", *cap), compiled(tmp_path / "again", "--plan", plan)
    for name in ("train", "train_clipped", "infer"):
        assert {**direct.info(name), "plan": 0} == {**again.info(name), "plan": 0}
    assert h.checked(h.TESSERA, "plan", GPT2, *TRAIN, "--plan", plan).stdout == text
    assert_same_bits(again, full, tmp_path / "a", cap[1])


@pytest.mark.parametrize("match,said", [
    ('"add"', 'nothing that "add" names can be made again'),
    ('["*.h.0.*", "nothing"]', 'no activation is named "nothing"; the nearest is'),
    ('"transformer.h.0.mlp.c_fc.weight"', 'nothing that "transformer.h.0.mlp.c_fc.weight" names can be made again'),
])
def test_what_cannot_be_made_again(tmp_path, match, said):
    plan = tmp_path / "plan.toml"
    plan.write_text(f"[[place]]\nmatch = {match}\nrecompute = true\n")
    result = h.compile_fails(tmp_path, GPT2, *TRAIN, "--plan", plan, words=[said])
    assert f"{plan}:1:1" in result.first_error
