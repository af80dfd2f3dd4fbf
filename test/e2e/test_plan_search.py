"""The search within a plan: entries are by role, and what is found is as good as the best of all plans, each of which is compiled and simulated."""
import concurrent.futures
import itertools
import json
import random
import re
import subprocess
import sys
import tomllib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness as h

TRAIN = ("--train", "adamw")
# Where ranks are near each other, far apart, and where sending is slow to begin.
MACHINES = {"near": (1e-6, 2e10), "far": (1e-5, 1e9), "late": (1e-4, 1e10), "farther": (1e-5, 5e8)}


def machine_file(folder, name):
    latency, bandwidth = MACHINES[name]
    path = folder / f"{name}.toml"
    path.write_text(f'[device]\nname = "{name}"\n[[level]]\nranks = 64\nlatency = {latency}\nbandwidth = {bandwidth}\n')
    return path


def simulated(*arguments):
    """What a plan comes to; None where the compiler does not take it."""
    result = h.tessera("simulate", *arguments, "--json")
    return json.loads(result.stdout) if result.returncode == 0 else None


def planned(*arguments):
    return h.found_plans(*arguments)[0]


def products(model, *options):
    """match -> pattern of a printed plan."""
    return {op["match"]: op["pattern"] for op in tomllib.loads(h.checked(h.TESSERA, "plan", model, *options).stdout)["op"]}


@pytest.mark.parametrize("model,entries", [
    ("gpt2", {"transformer.h.*.attn.c_attn.weight": "column", "node_scaled_dot_product_attention*": "heads", "transformer.h.*.mlp.c_proj.weight": "row"}),
    ("llama", {"model.layers.*.self_attn.k_proj.weight": "column", "model.layers.*.mlp.down_proj.weight": "row"}),
    # A star would match the attention's output, too.
    ("bert", {"bert.encoder.layer.?.output.dense.weight": "row", "bert.encoder.layer.*.attention.output.dense.weight": "row"}),
    ("t5", {"encoder.block.*.layer.1.DenseReluDense.wi.weight": "column", "decoder.block.*.layer.2.DenseReluDense.wi.weight": "column"}),
    ("gpt2_ts", {"/model/transformer/h.*/attn/MatMul_1": "heads"}),
])
def test_a_recipe_prints_one_entry_a_role(model, entries):
    path = h.MODELS / f"{model}.onnx"
    printed = products(path, *TRAIN, "--tp", "2")
    assert entries.items() <= printed.items(), printed
    assert not [match for match in printed if re.search(r"\.(h|layers|block)\.\d", match)], printed


@pytest.mark.parametrize("other", ("--dp", "--sp"))
def test_entries_by_role_say_what_entries_by_layer_say(other, tmp_path):
    """A name an operator, written out from the text after assign, gives the same program. With --sp attention has two entries."""
    model, options = h.MODELS / "bert.onnx", (other, "2", "--tp", "2")
    (tmp_path / "roles.toml").write_text(h.checked(h.TESSERA, "plan", model, *TRAIN, *options).stdout)
    text = h.checked(h.TESSERA, "compile", model, *TRAIN, *options, "--to", "assign", "-o", "-").stdout
    again = h.checked(h.TESSERA, "compile", model, *TRAIN, "--plan", tmp_path / "roles.toml", "--to", "assign", "-o", "-").stdout
    patterns = [re.findall(r'dist\.pattern = [^,}]*', each) for each in (text, again)]
    assert patterns[0] == patterns[1] and len(patterns[0]) >= 14 * 2, patterns


@pytest.mark.parametrize("recipe", ("--dp 16 --tp 8 --pp 8 --microbatches 96 --zero 1", "--dp 128 --tp 4 --sp 2 --sp-mode ulysses"))
def test_a_deep_plan_is_short(recipe, tmp_path):
    model = tmp_path / "gpt3.onnx"
    subprocess.run([sys.executable, h.MODELS / "shapes.py", "gpt3-175b", model], check=True, capture_output=True)
    plan = h.checked(h.TESSERA, "plan", model, "--bind", "batch=1536", "--bind", "seq=2048", *TRAIN, *recipe.split()).stdout
    assert len(plan.splitlines()) < 100 and "transformer.h.*.mlp.c_fc.weight" in plan


# ---- Against all plans


def write_program(path, seed, units):
    """Products of random widths, with and without an activation behind."""
    rng = random.Random(seed)
    batch, width = rng.choice((8, 32, 128)), rng.choice((32, 256, 512))
    nodes, weights, x = [], [], "x"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, width))]
    for i in range(units):
        to = rng.choice((32, 256, 1024))
        weights.append(numpy_helper.from_array(np.random.default_rng(seed + i).standard_normal((width, to), dtype=np.float32) / np.float32(width ** 0.5), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"y{i}"], name=f"product{i}"))
        x, width = f"y{i}", to
        if rng.random() < 0.6 and i + 1 < units:
            nodes.append(helper.make_node("Relu", [x], [f"z{i}"], name=f"relu{i}"))
            x = f"z{i}"
    nodes[-1].output[0] = "out"
    graph = helper.make_graph(nodes, "program", inputs, [helper.make_tensor_value_info("out", TensorProto.FLOAT, (batch, width))], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def registry():
    """pattern -> how many axes it takes, at most."""
    listed = h.checked(h.TESSERA, "compile", "--list-patterns").stdout
    return {name: len(axes.split(",")) for name, axes in re.findall(r"^(\S+) \[(.*)\]$", listed, re.MULTILINE)}


class Space:
    """Every plan of a program: meshes, axes of the batch, and a pattern over some axes or none for each product."""

    def __init__(self, model, units, ranks, options, folder):
        self.model, self.units, self.options, self.folder = model, units, options, folder
        self.meshes = [{"a": ranks}] + ([{"a": 2, "b": 2}] if ranks == 4 else [])
        self.count = 0

    def price(self, mesh, batch, choices):
        self.count += 1
        path = self.folder / f"plan-{self.count}.toml"
        lines = ["[mesh]", *(f"{axis} = {size}" for axis, size in mesh.items())]
        for name in ("x", "target") if batch else ():
            lines += ["[[input]]", f'match = "{name}"', "dim = 0", f"axes = {json.dumps(batch)}"]
        for i, choice in enumerate(choices):
            if choice:
                lines += ["[[op]]", f'match = "w{i}"', f'pattern = "{choice[0]}"', f"axes = {json.dumps(choice[1:])}"]
        path.write_text("\n".join(lines) + "\n")
        return path

    def plans(self):
        patterns = registry()
        for mesh in self.meshes:
            entries = [[name, *axes] for name, most in patterns.items() for count in range(1, most + 1) for axes in itertools.permutations(mesh, count)]
            # Of what a product takes; `vocab` is `column` of a product.
            taken = [entry for entry in entries if entry[0] != "vocab" and simulated(self.model, *self.options, "--plan", self.price(mesh, [], [entry]))]
            for batch in [list(axes) for count in range(len(mesh) + 1) for axes in itertools.combinations(mesh, count)]:
                for choices in itertools.product([None, *taken], repeat=self.units):
                    yield self.price(mesh, batch, choices)


# seed, units, ranks, machine; those of the default sample first
SAMPLE = [(1, 2, 2, "far"), (2, 1, 4, "late"), (3, 2, 3, "near")]
WHOLE = [(seed, units, ranks, list(MACHINES)[seed % 3]) for seed in range(10, 17) for units, ranks in ((1, 4), (2, 2), (2, 3), (2, 4), (3, 2))]
misses = []


@pytest.mark.parametrize("seed,units,ranks,machine", SAMPLE + [pytest.param(*case, marks=pytest.mark.whole) for case in WHOLE])
def test_what_is_found_is_the_best_of_all(tmp_path, seed, units, ranks, machine):
    write_program(tmp_path / "m.onnx", seed, units)
    options = (*TRAIN, "--loss", "mse:out", "--threads", "1", "--machine", machine_file(tmp_path, machine))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        space = Space(tmp_path / "m.onnx", units, ranks, options, tmp_path)
        prices = [each for each in pool.map(lambda plan: simulated(tmp_path / "m.onnx", *options, "--plan", plan), list(space.plans())) if each]
    assert len(prices) > 4 ** units
    fastest = min(prices, key=lambda each: each["seconds"])
    least = min(each["device_bytes"] for each in prices)
    # Nothing is stored in pieces, moved or made again, as in the plans that are compared with.
    fixed = (*options, "--zero", "0", "--ranks", str(ranks))
    for cap in (None, (least + fastest["device_bytes"]) // 2):
        best = min(each["seconds"] for each in prices if cap is None or each["device_bytes"] <= cap)
        capped = () if cap is None else ("--device-memory", str(cap), "--offload", "none", "--recompute", "none")
        found = planned(tmp_path / "m.onnx", *fixed, *capped)
        assert cap is None or found["device_bytes"] <= cap
        assert found["seconds"] <= best * 1.05, (found, best, cap)
        misses.append(found["seconds"] > best * 1.01)


def test_few_miss_the_best():
    """Those above, as far as they ran in this process."""
    assert sum(misses) <= 0.05 * len(misses), misses


# ---- Against the recipes


RECIPES = ("--dp 4", "--tp 4", "--dp 2 --tp 2", "--dp 2 --tp 2 --zero 1", "--dp 4 --zero 1", "--dp 4 --zero 3", "--sp 4", "--tp 4 --sp-mode megatron", "--tp 4 --tp-mode 2d")


@pytest.mark.parametrize("model,machine", [("gpt2", "far"), pytest.param("bert", "late", marks=pytest.mark.whole), pytest.param("vit", "far", marks=pytest.mark.whole),
                                           pytest.param("llama", "near", marks=pytest.mark.whole), pytest.param("mixtral", "far", marks=pytest.mark.whole)])
def test_never_slower_than_a_recipe_that_fits(tmp_path, model, machine):
    path, options = h.MODELS / f"{model}.onnx", (*TRAIN, "--threads", "1", "--machine", machine_file(tmp_path, machine))
    recipes = [each for recipe in RECIPES if (each := simulated(path, *options, *recipe.split()))]
    fastest = min(recipes, key=lambda each: each["seconds"])
    for share in (1, 0.8):
        cap = int(fastest["device_bytes"] * share)
        fitting = [each["seconds"] for each in recipes if each["device_bytes"] <= cap]
        arguments = (path, *options, "--ranks", "4", "--device-memory", str(cap), "--offload", "none", "--recompute", "none")
        if not fitting and h.tessera("plan", *arguments, "--auto").returncode:
            continue
        found = planned(*arguments)
        assert found["device_bytes"] <= cap
        assert not fitting or found["seconds"] <= min(fitting) * (1 + 1e-9)


def test_a_plan_that_no_recipe_is(tmp_path):
    """Faster than every recipe, said so entry by entry; what is written is what was judged, the same each time, and trains as one rank does."""
    model, options = h.MODELS / "gpt2.onnx", (*TRAIN, "--threads", "1", "--machine", machine_file(tmp_path, "farther"))
    found = planned(model, *options, "--ranks", "4", "-o", tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text()
    assert found["flips"] > 0 and found["seconds"] < 0.95 * min(simulated(model, *options, *each.split())["seconds"] for each in RECIPES), found
    assert re.search(r'# [\d.]+ m?s a step \([\d.]+ %\) less than ".*", the best of \d+ alternatives?, which sends .*, and holds .*\n\[\[', text), text
    again = simulated(model, *options, "--plan", tmp_path / "plan.toml")
    assert (again["seconds"], again["device_bytes"], again["sent_bytes"]) == (found["seconds"], found["device_bytes"], found["sent_bytes"])
    planned(model, *options, "--ranks", "4", "-o", tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_text() == text
    data = h.training_data("gpt2", [*h.input_names("gpt2"), "labels"])
    losses = []
    for name, plan, ranks in (("one", (), 1), ("four", ("--plan", tmp_path / "plan.toml"), 4)):
        h.checked(h.TESSERA, "compile", model, *TRAIN, *plan, "-o", tmp_path / name)
        losses.append([e["loss"] for e in h.Program(tmp_path / name, ranks).train(tmp_path / f"of-{name}", data, 10)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
