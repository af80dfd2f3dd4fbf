"""plan --auto judges deep models by shallow ones: what it says of a recipe is what the whole model comes to, and the plan is no worse."""
import importlib.util
import json
import os
import re

import pytest

import harness as h

TRAIN = ("--train", "adamw", "--bind", "batch=8", "--bind", "seq=32")
SMALL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 8192}
CHANGES = {"gpt2": {}, "bert": {}, "llama-8b": {"hidden": 2048, "kv_heads": 4}, "t5": {}}
# By what the page calls it; all but pipelines, of which there are too few blocks.
RECIPES = {"--dp 4", "--tp 4", "--dp 2 --tp 2", "--dp 4 --zero 3", "--sp 4 --sp-mode ring", "--dp 4 --microbatches 2"}
# One that sends slowly, so that recipes differ in more than what they compute.
MACHINE = '[device]\nname = "far"\n[[level]]\nranks = 64\nlatency = 1e-5\nbandwidth = 1e9\n'


def shapes():
    spec = importlib.util.spec_from_file_location("shapes", h.MODELS / "shapes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "far.toml"
    path.write_text(MACHINE)
    return "--machine", path


def model_of(folder, name, **changes):
    path = folder / f"{name}.onnx"
    shapes().write(name, str(path), **SMALL | CHANGES[name] | changes)
    return path


def planned(folder, model, *options):
    """The plan, and what was said of each recipe while recipes were compared."""
    page = folder / "plan.html"
    plan, = h.found_plans(model, *options, "--report", page, "-o", folder / "plan.toml")
    data = json.loads(re.search(r'<script[^>]*id="step"[^>]*>(.*?)</script>', page.read_text(), re.S)[1])
    return plan, {each["recipe"]: each for each in data["alternatives"] if "reason" not in each}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_drawn_is_what_the_whole_comes_to(name, tmp_path, machine):
    """A plan file has entries for nodes of this model, none here, so with one the model is always compiled whole."""
    model = model_of(tmp_path, name)
    (tmp_path / "none.toml").write_text("")
    options = (*TRAIN, *machine, "--ranks", "4")
    found, drawn = planned(tmp_path, model, *options)
    best, whole = planned(tmp_path, model, *options, "--plan", tmp_path / "none.toml")
    assert found["seconds"] <= best["seconds"] * 1.001
    known = [each for each in drawn if "--pp" not in each and "changed" not in each and drawn[each]["drawn"]]
    assert not any(each["drawn"] for each in whole.values()) and drawn.keys() - set(known), "what is best is compiled whole"
    assert len(RECIPES & set(known)) >= 4 and len(known) >= 12, known
    for each in set(known) & whole.keys():
        assert drawn[each]["seconds"] == pytest.approx(whole[each]["seconds"], rel=0.05 if "--microbatches" in each else 0.02), each
        assert drawn[each]["device_bytes"] == pytest.approx(whole[each]["device_bytes"], rel=0.05), each
        assert abs(drawn[each]["sent_bytes"] - whole[each]["sent_bytes"]) <= 8, each
    again = json.loads(h.checked(h.TESSERA, "simulate", model, *TRAIN, *machine, "--plan", found["plan"], "--json").stdout)
    assert again["seconds"] == pytest.approx(found["seconds"], rel=1e-9) and again["device_bytes"] == found["device_bytes"]


def test_cores_do_not_matter(tmp_path, machine):
    """Candidates are judged beside each other; which are, and what is found, does not depend on how many at a time."""
    options = (model_of(tmp_path, "gpt2"), *TRAIN, *machine, "--threads", "1", "--ranks", "4", "-o")
    own = os.sched_getaffinity(0)
    for name, cores in (("one", {min(own)}), ("all", own)):
        os.sched_setaffinity(0, cores)
        try:
            h.found_plans(*options, tmp_path / f"{name}.toml")
        finally:
            os.sched_setaffinity(0, own)
    assert (tmp_path / "one.toml").read_text() == (tmp_path / "all.toml").read_text()


@pytest.mark.parametrize("stages", (2, 4))
def test_what_is_drawn_of_pipelines(stages, tmp_path, machine):
    """Of few microbatches, on two stages of few blocks too. Too large for cuts to be compared, so that both are cut alike."""
    model = model_of(tmp_path, "gpt2")
    options = ("--train", "adamw", "--bind", "batch=20", "--bind", "seq=32", *machine)
    drawn = planned(tmp_path, model, *options, "--pp", str(stages), "--microbatches", "20", "--ranks", str(stages))[1]
    known = [each for each in drawn if drawn[each]["drawn"] and "changed" not in each]
    assert known, drawn
    for each in known:
        whole = json.loads(h.checked(h.TESSERA, "simulate", model, *options, *each.split(), "--json").stdout)
        assert drawn[each]["seconds"] == pytest.approx(whole["seconds"], rel=0.03), each
        assert drawn[each]["device_bytes"] == pytest.approx(whole["device_bytes"], rel=0.08), each


def test_no_time_to_compile_it_whole(tmp_path):
    """What was drawn is what is said then, and that it was."""
    options = (h.TESSERA, "plan", model_of(tmp_path, "gpt2"), *TRAIN, "--auto", "--ranks", "4", "--plan-seconds", "0.01")
    text = h.checked(*options).stdout
    assert "drawn from fewer blocks or microbatches: there was no time to compile it whole" in text and "[mesh]" in text
    assert json.loads(h.checked(*options, "--json").stdout)["plans"][0]["drawn"]


def test_no_time_below_a_cap(tmp_path):
    """Then what fits with blocks run again is the plan, and says so. One rank has one recipe."""
    common = (model_of(tmp_path, "gpt2"), "--train", "adamw", "--bind", "batch=8", "--bind", "seq=256", "--threads", "1")
    peak = {}
    for recompute in ("none", "block"):
        result = h.checked(h.TESSERA, "simulate", *common, "--recompute", recompute, "--json")
        peak[recompute] = json.loads(result.stdout)["device_bytes"]
    assert peak["block"] < 0.9 * peak["none"], "else this shows nothing"
    cap = (peak["block"] + peak["none"]) // 2
    quick = ("--auto", "--ranks", "1", "--plan-seconds", "0.01", "-o", tmp_path / "plan.toml")
    h.checked(h.TESSERA, "plan", *common, *quick, "--device-memory", str(cap))
    text = (tmp_path / "plan.toml").read_text()
    assert "drawn from fewer blocks or microbatches" in text and 'recompute = "block"' in text
    again = h.checked(h.TESSERA, "simulate", *common, "--plan", tmp_path / "plan.toml", "--json")
    assert json.loads(again.stdout)["device_bytes"] <= cap
    # The same cap by a plan's [memory], which may also keep blocks from being run again, and all of it there.
    (tmp_path / "memory.toml").write_text(f'[memory]\ndevice = "{cap}"\noffload = "none"\nrecompute = "none"\n')
    refused = h.run(h.TESSERA, "plan", *common, *quick, "--plan", tmp_path / "memory.toml")
    assert refused.returncode == 1 and "no plan was found for 1 rank in --device-memory" in refused.stderr


def test_no_step_is_below_the_bound(tmp_path):
    """By as many threads as a rank has, where --threads does not say."""
    result = h.checked(h.TESSERA, "plan", model_of(tmp_path, "gpt2"), *TRAIN, "--auto", "--ranks", "1", "--plan-seconds", "0.01")
    seconds = [float(number) * {"s": 1, "ms": 1e-3}[unit] for number, unit in
               (re.search(r"cannot be faster than (\S+) (m?s)\n", result.stderr).groups(), re.search(r"^# (\S+) (m?s) a step", result.stdout, re.M).groups())]
    assert seconds[0] <= seconds[1]
