"""tessera plan --auto and tessera simulate: what is found is what compiles, as fast and as large as it was said to be, and nothing simpler is faster."""
import json
import re
import signal
import subprocess
import sys
import time

import pytest

import harness as h

GPT = h.ROOT / "python" / "gpt_bytes.onnx"
TRAIN = ("--train", "adamw")
MACHINE = '[device]\nname = "far apart"\n[[level]]\nranks = 64\nlatency = 1e-3\nbandwidth = 1e8\n'


def simulated(*arguments):
    return json.loads(h.checked(h.TESSERA, "simulate", *arguments, "--json").stdout)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Plans of the training of a GPT for 2 and 4 ranks, and where they are."""
    folder = tmp_path_factory.mktemp("auto")
    return h.found_plans(GPT, *TRAIN, "--ranks", "2,4", "-o", folder / "plan.toml"), folder


def test_the_executable_keeps_what_the_plan_says(found, tmp_path):
    for plan in found[0]:
        h.checked(h.TESSERA, "compile", GPT, *TRAIN, "--plan", plan["plan"], "-o", tmp_path / "p")
        info = json.loads(h.checked(tmp_path / "p", "info", "--json", "--program", "train").stdout)
        assert info["ranks"] == plan["ranks"]
        assert info["step_seconds"] == pytest.approx(plan["seconds"], rel=1e-9)
        assert max(m["device"]["peak"] for m in info["memory"]) <= plan["device_bytes"]
        again = simulated(GPT, *TRAIN, "--plan", plan["plan"])
        assert again["seconds"] == pytest.approx(plan["seconds"], rel=1e-9)
        assert (again["device_bytes"], again["sent_bytes"]) == (plan["device_bytes"], plan["sent_bytes"])
        batch = next(i["shape"][0] for i in info["inputs"] if i["name"] == "input_ids")
        assert plan["samples_per_second"] == pytest.approx(batch / plan["seconds"], rel=1e-9)


def test_files_are_named_by_ranks(found):
    assert [plan["plan"] for plan in found[0]] == [str(found[1] / f"plan-{n}.toml") for n in (2, 4)]
    for plan in found[0]:
        text = (found[1] / f"plan-{plan['ranks']}.toml").read_text()
        assert plan["recipe"] in text and "uncalibrated: no --machine" in text


RECIPES = ("--dp 4", "--tp 4", "--dp 2 --tp 2", "--dp 2 --tp 2 --zero 1", "--dp 4 --zero 1", "--dp 4 --zero 3", "--sp 4", "--tp 4 --sp-mode megatron",
           "--tp 4 --tp-mode 2d", "--pp 4 --microbatches 8", "--dp 2 --pp 2 --microbatches 4", "--dp 4 --microbatches 2")


def test_nothing_simpler_is_faster(found):
    best = found[0][1]["seconds"]
    slower = {recipe: simulated(GPT, *TRAIN, *recipe.split())["seconds"] / best for recipe in RECIPES}
    assert min(slower.values()) >= 1 - 1e-9, slower
    assert max(slower.values()) > 1.2, "they do not differ"


def test_the_same_again(found):
    again = h.found_plans(GPT, *TRAIN, "--ranks", "2")
    assert {**again[0], "plan": ""} == {**found[0][0], "plan": ""}


@pytest.mark.parametrize("options, recipe", (
    ("--tp 1 --sp-mode ulysses", "--sp 2 --sp-mode ulysses"),
    ("--sp-mode megatron", "--tp 2 --sp-mode megatron"),
    ("--tp 2 --sp-mode rsa", "--tp 2"),  # nothing is left for it to be of
))
def test_a_mode_is_of_the_ranks_that_are_found(options, recipe):
    fixed = ("--dp", "1", "--ep", "1", "--pp", "1", "--microbatches", "1", "--ranks", "2")
    assert h.found_plans(GPT, *TRAIN, *fixed, *options.split())[0]["recipe"] == recipe


def test_no_more_microbatches_than_samples():
    """A rank has two samples of the eight, fewer than there are stages; three of six do not divide into four microbatches."""
    assert "--microbatches 2" in h.found_plans(GPT, *TRAIN, "--ranks", "16", "--dp", "4", "--pp", "4")[0]["recipe"]
    [plan] = h.found_plans(h.MODELS / "gpt2_dyn.onnx", "--bind", "batch=6", "--bind", "seq=32", *TRAIN, "--ranks", "2", "--pp", "2")
    assert re.search("--microbatches [36]$", plan["recipe"]), plan["recipe"]


def test_a_mode_of_an_axis_that_is_ruled_out():
    for option, axis in (("--sp-mode", "sp"), ("--tp-mode", "tp")):
        mode = "ring" if axis == "sp" else "2d"
        result = h.tessera("plan", GPT, "--auto", "--ranks", "2", f"--{axis}", "1", option, mode)
        h.assert_error(result, f"{option}={mode}: needs --{axis} N", status=2)


def test_a_cap_that_is_far_away_changes_nothing(tmp_path):
    (tmp_path / "mesh.toml").write_text("[mesh]\ndata = 2\n")  # which nothing says what for
    arguments = (GPT, *TRAIN, "--ranks", "4", "--plan", tmp_path / "mesh.toml")
    free, capped = (h.found_plans(*arguments, *cap)[0] for cap in ((), ("--device-memory", "1GiB")))
    assert capped["seconds"] == pytest.approx(free["seconds"], rel=0.01)
    assert capped["recipe"] == free["recipe"] and capped["flips"] == free["flips"] > 0


def test_what_is_found_trains_as_one_rank_does(tmp_path):
    model = h.MODELS / "gpt2.onnx"
    h.checked(h.TESSERA, "plan", model, *TRAIN, "--auto", "--ranks", "4", "--tp", "2", "-o", tmp_path / "plan.toml")
    assert re.search(r"found by --auto: .*--tp 2\b", (tmp_path / "plan.toml").read_text())
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    losses = []
    for name, options, ranks in (("one", (), 1), ("four", ("--plan", tmp_path / "plan.toml"), 4)):
        h.checked(h.TESSERA, "compile", model, *TRAIN, *options, "-o", tmp_path / name)
        losses.append([e["loss"] for e in h.Program(tmp_path / name, ranks).train(tmp_path / f"of-{name}", data, 3)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_cap_is_kept(tmp_path):
    cap = 12 << 20
    plan, = h.found_plans(GPT, *TRAIN, "--ranks", "2", "--device-memory", "12MiB", "-o", tmp_path / "plan.toml")
    assert plan["device_bytes"] <= cap
    h.checked(h.TESSERA, "compile", GPT, *TRAIN, "--plan", tmp_path / "plan.toml", "-o", tmp_path / "p")
    peaks = []
    for program in ("infer", "train", "train_clipped"):
        info = json.loads(h.checked(tmp_path / "p", "info", "--json", "--program", program).stdout)
        peaks += [m["device"]["peak"] for m in info["memory"]]
    assert max(peaks) == plan["device_bytes"] <= cap


def test_a_model_to_infer():
    plan, = h.found_plans(h.MODELS / "bert.onnx", "--ranks", "2")
    assert plan["seconds"] > 0 and "--zero" not in plan["recipe"]


def test_the_machine_decides(tmp_path):
    """Where ranks can hardly talk to each other the plan that is found has them send less, and is never slower than the others'."""
    (tmp_path / "slow.toml").write_text(MACHINE)
    slow, = h.found_plans(GPT, *TRAIN, "--ranks", "2", "--machine", tmp_path / "slow.toml", "-o", tmp_path / "slow-plan.toml")
    fast, = h.found_plans(GPT, *TRAIN, "--ranks", "2", "-o", tmp_path / "fast-plan.toml")
    assert slow["sent_bytes"] <= fast["sent_bytes"]
    there = simulated(GPT, *TRAIN, "--machine", tmp_path / "slow.toml", "--plan", tmp_path / "fast-plan.toml")
    assert there["calibrated"] and slow["seconds"] <= there["seconds"] * (1 + 1e-9)
    assert "uncalibrated" not in (tmp_path / "slow-plan.toml").read_text()


def test_a_workspace_is_not_moved(tmp_path):
    """At 1 GB/s each product's workspace of 1 MiB alone would take a millisecond; what this model reads and writes is a tenth of that."""
    (tmp_path / "m.toml").write_text('[device]\nname = "narrow"\nbandwidth = 1e9\n[rate.products]\nf32 = 1e15\n')
    said = simulated(h.MODELS / "mlp.onnx", "--machine", tmp_path / "m.toml")
    assert said["device_bytes"] > 1 << 20 and 1e-5 < said["seconds"] < 5e-4


def test_a_table_for_the_scheduler(found, tmp_path):
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"plans": found[0]}))
    (tmp_path / "cluster.toml").write_text('[[host]]\nname = "a"\nplaces = 4\n')
    (tmp_path / "jobs.toml").write_text(f'[[job]]\nname = "gpt"\narrival = 0\nplaces = 2\nbatch = 4\nsamples = 1000\nthroughput = "{table}"\n')
    h.checked(h.TESSERA, "schedule", tmp_path / "jobs.toml", "--cluster", tmp_path / "cluster.toml", "--simulate", "--policy", "ones", "--json", tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["mean_completion"] > 0


def test_an_end_by_the_clock(found):
    result = h.checked(h.TESSERA, "plan", GPT, *TRAIN, "--auto", "--ranks", "64", "--plan-seconds", "0.2")
    assert re.search(r"the search for 64 ranks was ended by --plan-seconds after \d+ recipes; a step cannot be faster than ", result.stderr), result.stderr
    assert "[mesh]" in result.stdout


def test_clock_ends_a_search_that_found_nothing():
    """No more ranks are tried then, which would need as much time again."""
    result = h.tessera("plan", GPT, *TRAIN, "--auto", "--ranks", "64", "--device-memory", "64KiB", "--plan-seconds", "0.2")
    h.assert_error(result, "no plan was found for 64 ranks in --device-memory=64.0 KiB", notes="the search was ended by --plan-seconds")


def test_another_target(tmp_path):
    """What is simulated and planned for GPUs is what compiling for them promises, by a GPU's rates."""
    options = (GPT, *TRAIN, "--dp", "2", "--threads", "1")
    h.checked(h.TESSERA, "compile", *options, "--target", "cuda", "-o", tmp_path / "gpt")
    promised = json.loads(h.checked(tmp_path / "gpt", "info", "--json").stdout)["step_seconds"]
    here, there = simulated(*options), simulated(*options, "--target", "cuda")
    assert there["seconds"] == promised < here["seconds"] / 10
    found, = h.found_plans(GPT, *TRAIN, "--threads", "1", "--ranks", "2", "--target", "cuda", "-o", tmp_path / "plan.toml")
    assert found["seconds"] <= promised
    again = simulated(GPT, *TRAIN, "--threads", "1", "--plan", tmp_path / "plan.toml", "--target", "cuda")
    assert again["seconds"] == pytest.approx(found["seconds"], rel=1e-12)


@pytest.mark.parametrize("command", ("compile", "simulate", "plan", "explain"))
def test_a_target_that_there_is_not(command):
    h.assert_error(h.tessera(command, GPT, "--target", "tpu"), "--target=tpu: expected cpu, cuda, or cuda: with one of ", status=2)


def test_what_simulate_prints():
    said = h.checked(h.TESSERA, "simulate", GPT, *TRAIN, "--dp", "2").stdout
    assert re.match(r"a step     \S+ s by estimate, uncalibrated \(no --machine\), [\d.]+ % of what the products' rate allows\nmemory     ", said), said
    assert "sent       over data: " in said


@pytest.mark.parametrize("options,said", [
    ("--auto", "--auto: give the number of ranks by --ranks N"),
    ("--auto --ranks 0", "--ranks=0: expected whole numbers from 1 to 65536"),
    ("--auto --ranks 2,x", "--ranks=2,x: expected whole numbers"),
    ("--auto --ranks 1000000", "expected whole numbers from 1 to 65536"),
    ("--auto --ranks 4 --plan-seconds 0", "--plan-seconds=0: expected a number above 0"),
    ("--auto --ranks 4 --plan-seconds soon", "--plan-seconds=soon: expected a number above 0"),
    ("--auto --ranks 4 --tp 3", "--ranks=4: the recipe's options take 3 ranks, which do not go into 4"),
    ("--ranks 4", "--ranks goes with --auto"),
    ("--json", "--json goes with --auto"),
])
def test_wrong_usage(options, said):
    h.assert_error(h.tessera("plan", GPT, *options.split()), said, status=2)


def test_what_cannot_be_planned(tmp_path):
    (tmp_path / "plan.toml").write_text("[mesh]\ndata = 2\n")
    given = ("plan", GPT, "--auto", "--plan", tmp_path / "plan.toml", "--ranks")
    h.assert_error(h.tessera(*given, "2"), "has all 2 ranks, which leaves --auto nothing to choose")
    h.assert_error(h.tessera(*given, "4,5"), "--ranks=5: the mesh of ", " has 2 ranks, which do not go into 5")
    h.assert_error(h.tessera(*given, "4", "--dp", "2"), "--dp=2: ", ' has an axis "data" in its mesh; give one of them')
    h.assert_error(h.tessera("plan", h.MODELS / "mlp.onnx", *TRAIN, "--auto", "--ranks", "1", "--device-memory", "512KiB", "--plan-seconds", "5"),
                   "no plan was found for 1 rank in --device-memory=512.0 KiB", "the least is ")
    result = h.tessera("plan", h.MODELS / "gpt2.onnx", *TRAIN, "--auto", "--ranks", "1", "--offload", "none", "--recompute", "none", "--device-memory", "2400KiB")
    h.assert_error(result, "no plan was found for 1 rank", "the least is ")
    assert re.search(r"note: [248] ranks would do: --", result.stderr), result.stderr
    moved, = re.findall(r"note: whatever is moved off the device the least is .*, by (--.*)", result.stderr)
    told = h.tessera("compile", h.MODELS / "gpt2.onnx", *TRAIN, *moved.split(), "--device-memory", "1MiB", "-o", tmp_path / "none").stderr
    assert re.search(r"whatever is moved off the device the least is (.*?\)), by", result.stderr)[1] == re.search(r"the least possible for this plan is (.*?\))", told)[1]
    h.assert_error(h.tessera("plan", h.MODELS / "mlp.onnx", "--auto", "--ranks", "7", "--ep", "7"), "no recipe for 7 ranks can be compiled; of the first: ")


def test_near_what_is_needed(tmp_path):
    """Twice the ranks would do. No walk by seconds leads to their twelve microbatches, which are looked for where nothing else
    fits. Far below it the first look says so."""
    kept = (h.MODELS / "gpt2_dyn.onnx", "--bind", "batch=12", "--bind", "seq=32", *TRAIN, "--offload", "none", "--recompute", "none", "--device-memory")
    result = h.tessera("plan", *kept, "2100KiB", "--auto", "--ranks", "1")
    assert "note: 2 ranks would do: --tp 2 --microbatches 12" in result.stderr, result.stderr
    h.checked(h.TESSERA, "plan", *kept, "2000KiB", "--auto", "--ranks", "2", "-o", tmp_path / "two.toml")
    h.checked(h.TESSERA, "compile", *kept[:-1], "--plan", tmp_path / "two.toml", "--to", "memory", "-o", tmp_path / "two.mlir")
    assert 'device  = "2000KiB"' in (tmp_path / "two.toml").read_text()
    began = h.processor_seconds()
    h.assert_error(h.tessera("plan", *kept, "20KiB", "--auto", "--ranks", "2"), "no plan was found for 2 ranks", "the least is ")
    assert h.processor_seconds() - began < 10


def test_a_hopeless_cap(tmp_path):
    """Far below what splitting all state comes to nothing else is looked at: none of the dozens of other recipes, and no other number of ranks."""
    h.checked(sys.executable, h.MODELS / "shapes.py", "gpt2", tmp_path / "gpt2.onnx")
    began = h.processor_seconds()
    result = h.tessera("plan", tmp_path / "gpt2.onnx", "--bind", "batch=8", "--bind", "seq=1024", *TRAIN, "--auto", "--ranks", "8", "--device-memory", "1MiB")
    h.assert_error(result, "no plan was found for 8 ranks in --device-memory=1.0 MiB", "the least is ")
    assert "note: whatever is moved off the device the least is " in result.stderr and "would do" not in result.stderr
    assert h.processor_seconds() - began < 40  # 6 by itself; where recipes are walked, at 200 MiB, it takes 120


def test_a_mesh_is_completed(tmp_path):
    """The rest of the ranks is spread beside the axes of a plan, whose entries stay."""
    (tmp_path / "given.toml").write_text('[mesh]\ntensor = 2\n[[op]]\nmatch = "*.mlp.c_fc*"\npattern = "column"\naxes = ["tensor"]\n'
                                         '[[op]]\nmatch = "*.mlp.c_proj*"\npattern = "row"\naxes = ["tensor"]\n')
    plan, = h.found_plans(GPT, *TRAIN, "--ranks", "4", "--plan", tmp_path / "given.toml", "-o", tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text()
    mesh = dict(re.findall(r'^"(\w+)" = (\d+)$', text, re.M))
    assert mesh.pop("tensor") == "2" and list(mesh.values()) == ["2"], text
    assert 'match   = "*.mlp.c_proj*"\npattern = "row"\naxes    = ["tensor"]' in text
    assert simulated(GPT, *TRAIN, "--plan", tmp_path / "plan.toml")["seconds"] == pytest.approx(plan["seconds"], rel=1e-9)


def test_entries_name_the_axes_of_a_recipe(tmp_path):
    """With --tp 2 a plan may speak of "tensor"; alone it may not."""
    (tmp_path / "given.toml").write_text('[[op]]\nmatch = "*.mlp.c_fc*"\npattern = "column"\naxes = ["tensor"]\n[zero]\nstage = 1\naxes = ["tensor"]\n')
    text = h.checked(h.TESSERA, "plan", GPT, *TRAIN, "--tp", "2", "--plan", tmp_path / "given.toml").stdout
    assert 'stage = 1\naxes  = ["tensor"]' in text
    h.assert_error(h.tessera("plan", GPT, *TRAIN, "--plan", tmp_path / "given.toml"), 'given.toml:4:9: the mesh has no axis "tensor"')


def test_the_planner_says_why(found):
    """explain shows of a plan that --auto wrote what it was chosen from, and begins with the whole; equal blocks are one."""
    plan = found[0][1]
    text = h.checked(h.TESSERA, "explain", GPT, *TRAIN, "--plan", plan["plan"]).stdout
    head, operators = text.split("operators of train, in order")
    assert len(head.splitlines()) < 60
    assert f"plan {plan['plan']}, found by --auto: {plan['recipe']}" in head and head.count("  next best: ") == 4
    assert re.search(r"^a step takes \S+ m?s by estimate, uncalibrated \(no --machine\), \S+ \S+ \(%d bytes\) of the device a rank" % plan["device_bytes"], head, re.M), head
    assert "x 3, of which this is the first:" in operators.split("products by panels")[0]


def test_an_edited_entry_is_not_the_planners(tmp_path):
    """explain says planner of the entries that --auto wrote, and the file alone of those that were edited since."""
    file = tmp_path / "plan.toml"
    h.checked(h.TESSERA, "plan", GPT, *TRAIN, "--auto", "--ranks", "2", "--tp", "2", "--plan-seconds", "5", "-o", file)
    origins = lambda: re.findall(rf"from (planner, )?{re.escape(str(file))}:(\d+)", h.checked(h.TESSERA, "explain", GPT, *TRAIN, "--plan", file).stdout)
    written = origins()
    assert written and all(planner for planner, _ in written)
    lines = file.read_text().split("\n")
    line = int(written[0][1])  # its [[op]]
    match = next(i for i in range(line, line + 3) if lines[i].startswith("match"))
    lines[match] = re.sub(r'"(.*)"', r'"\1*"', lines[match])  # the same operators by another glob
    file.write_text("\n".join(lines))
    edited = origins()
    assert [at for _, at in edited] == [at for _, at in written]
    assert all(bool(planner) == (at != written[0][1]) for planner, at in edited) and {at for _, at in edited} != {written[0][1]}
    assert "entries = [" in h.checked(h.TESSERA, "plan", GPT, *TRAIN, "--plan", file).stdout


def test_microbatches_of_a_plan_stay(tmp_path):
    (tmp_path / "given.toml").write_text("[pipeline]\nmicrobatches = 2\n")
    h.checked(h.TESSERA, "plan", GPT, *TRAIN, "--auto", "--ranks", "2", "--plan", tmp_path / "given.toml", "--plan-seconds", "5", "-o", tmp_path / "plan.toml")
    assert "microbatches = 2\n" in (tmp_path / "plan.toml").read_text()


def test_nvme_alone_in_a_plan(tmp_path):
    """What a plan says of NVMe is in the plan that is written, which compiles."""
    (tmp_path / "given.toml").write_text(f'[memory]\nnvme = "{tmp_path}:1GiB"\n\n[[place]]\nmatch = "*"\nwhat = "optimizer"\ntier = "nvme"\n')
    quick = ("--auto", "--ranks", "1", "--plan-seconds", "0.01")
    h.checked(h.TESSERA, "plan", GPT, *TRAIN, *quick, "--plan", tmp_path / "given.toml", "-o", tmp_path / "plan.toml")
    assert f'nvme    = "{tmp_path}:1GiB"' in (tmp_path / "plan.toml").read_text()
    h.checked(h.TESSERA, "compile", GPT, *TRAIN, "--plan", tmp_path / "plan.toml", "--to", "memory", "-o", tmp_path / "text.mlir")


def test_an_interruption(tmp_path):
    """The best plan so far is written, and what ended the search is said."""
    process = subprocess.Popen([str(h.TESSERA), "plan", str(GPT), *TRAIN, "--auto", "--ranks", "64", "-o", str(tmp_path / "plan.toml")], stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "was ended by an interruption after " in said, said
    assert "[mesh]" in (tmp_path / "plan.toml").read_text()


def test_fewer_ranks_that_are_faster(tmp_path):
    """Over a link that is slow two ranks are slower than one; and of a list that has no plan for each number nothing is written."""
    (tmp_path / "slow.toml").write_text(MACHINE.replace("1e-3", "1").replace("ranks = 64", "ranks = 2"))
    options = (GPT, *TRAIN, "--threads", "1", "--auto", "--machine", tmp_path / "slow.toml", "--plan-seconds", "1", "-o", tmp_path / "plan.toml")
    said = h.checked(h.TESSERA, "plan", *options, "--ranks", "1,2").stderr
    assert re.search(r"1 rank is faster than 2: \S+ ms a step instead of \S+ s\n", said), said
    for written in tmp_path.glob("plan-*"):
        written.unlink()
    failed = h.tessera("plan", *options, "--ranks", "1,2,4", "--report", tmp_path / "page.html")
    assert failed.returncode == 1 and {each.name for each in tmp_path.iterdir()} == {"slow.toml"}

