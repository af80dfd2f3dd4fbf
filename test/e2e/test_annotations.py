"""Multi-device annotations of ONNX files: written by convert, and read as other tools write them."""
import re
import tomllib

import numpy as np
import onnx
import pytest

import harness as h
from test_convert import saved

MLP = h.MODELS / "mlp.onnx"
ADAMW = ("--train", "adamw")


def spec(tensor, devices, dims=(), groups=None):
    """`dims`: (axis, shards) or (axis, [(blocks, shards), ...]); `groups`: entries of `devices` that stand for several."""
    proto = onnx.ShardingSpecProto(tensor_name=tensor, device=devices)
    for key, members in (groups or {}).items():
        proto.index_to_device_group_map.add(key=key, value=members)
    for axis, parts in dims:
        dim = proto.sharded_dim.add(axis=axis)
        for blocks, shards in [(None, parts)] if isinstance(parts, int) else parts:
            dim.simple_sharding.add(dim_value=blocks, num_shards=shards)
    return proto


def annotated(folder, nodes, devices, model=MLP, ids=()):
    """A copy of `model` whose nodes have these specs; `ids`: configurations that nodes refer to by another name."""
    proto = onnx.load(model)
    proto.ir_version = 11
    proto.configuration.add(name="grid", num_devices=devices)
    for node in proto.graph.node:
        if node.name in nodes:
            sharding = node.device_configurations.add(configuration_id=dict(ids).get(node.name, "grid"))
            sharding.sharding_spec.extend(nodes[node.name])
    path = folder / "annotated.onnx"
    onnx.checker.check_model(proto)
    onnx.save(proto, path)
    return path


def plan_of(model, *options):
    return tomllib.loads(h.checked(h.TESSERA, "plan", model, *options).stdout)


def without_plan(path):
    """The file with its annotations alone."""
    proto = onnx.load(path)
    del proto.metadata_props[:]
    out = path.with_name("bare.onnx")
    onnx.save(proto, out)
    return out


def ops_of(plan):
    return {op["match"]: (op["pattern"], op["axes"]) for op in plan.get("op", [])}


# Devices 0 and 1 have one half of the batch, 2 and 3 the other; 0 and 2 one half of each weight. fc1.weight is [out, in].
ROWS, COLUMNS = {-1: [0, 1], -2: [2, 3]}, {7: [0, 2], 9: [1, 3]}
GRID = {
    "node_linear": [spec("x", [-1, -2], [(0, 2)], ROWS), spec("fc1.weight", [7, 9], [(-2, 2)], COLUMNS),
                    spec("fc1.bias", [7, 9], [(0, 2)], COLUMNS), spec("linear", [0, 1, 2, 3], [(-1, 2), (0, 2)])],
    "node_linear_1": [spec("fc2.weight", [7, 9], [(-1, 2)], COLUMNS), spec("linear_1", [-1, -2], [(0, 2)], ROWS)],
}


def test_column_and_row_products_by_hand(program, tmp_path):
    model = annotated(tmp_path, GRID, 4)
    plan = plan_of(model)
    assert plan["mesh"] == {"devices0": 2, "devices1": 2}
    assert plan["input"] == [{"match": name, "dim": 0, "axes": ["devices0"]} for name in ("x", "labels")]
    assert ops_of(plan) == {"node_linear": ("column", ["devices1"]), "node_linear_1": ("row", ["devices1"])}
    # What its input leaves there is not said: it is laid down, at no cost.
    assert plan["value"] == [{"match": "node_linear_1", "split": {"0": ["devices0"]}}]
    compiled = program("mlp", "1", ADAMW, model)
    assert compiled.info()["ranks"] == 4
    compiled.ranks = 4
    (tmp_path / "same.toml").write_text(
        '[mesh]\ndata = 2\ntensor = 2\n[[input]]\nmatch = "*"\naxes = ["data"]\n'
        '[[op]]\nmatch = "fc1.weight"\npattern = "column"\naxes = ["tensor"]\n[[op]]\nmatch = "fc2.weight"\npattern = "row"\naxes = ["tensor"]\n')
    by_plan = program("mlp", "1", (*ADAMW, "--plan", str(tmp_path / "same.toml")))
    name = {"devices0": "data", "devices1": "tensor", "devices0,devices1": "data,tensor"}
    assert {name[axes]: sent for axes, sent in compiled.info()["sent"].items()} == by_plan.info()["sent"]
    data = h.training_data("mlp", ["x"])
    data["labels"] = h.part(h.reference("mlp"), "train.")["labels"]
    losses = [e["loss"] for e in compiled.train(tmp_path / "run", data, 10)]
    np.testing.assert_allclose(losses, h.reference("mlp")["loss.adamw.f32"], rtol=1e-5)


def test_a_value_that_no_pattern_implies_is_laid_down(tmp_path):
    """A ReLU whose result is wanted whole, behind a product by columns."""
    nodes = {**GRID, "node_relu": [spec("relu", [0, 1, 2, 3])]}
    plan = plan_of(annotated(tmp_path, nodes, 4))
    assert plan["value"][0] == {"match": "node_relu", "split": {}}
    assert ops_of(plan)["node_linear"][0] == "column"
    h.checked(h.TESSERA, "verify", tmp_path / "annotated.onnx")


def test_columns_of_a_packed_dimension(tmp_path):
    """64 columns as 4 blocks of 16, of which each device has a part."""
    nodes = {"node_linear": [spec("fc1.weight", [0, 1], [(0, [(1, 1), (64, 2)])])]}
    shape = next(list(t.dims) for t in onnx.load(MLP).graph.initializer if t.name == "fc1.weight")
    nodes["node_linear"][0].sharded_dim[0].simple_sharding[1].dim_value = shape[0]
    assert ops_of(plan_of(annotated(tmp_path, nodes, 2))) == {"node_linear": ("column", ["devices"])}


ROUND_TRIPS = {
    "mlp": ("mlp", ("--dp", "2", "--tp", "2")), "gpt2": ("gpt2", ("--dp", "2", "--tp", "2")),
    "gpt2_2d": ("gpt2", ("--tp", "4", "--tp-mode", "2d")), "llama_uneven": ("llama", ("--tp", "3")),
    "bert_zero": ("bert", ("--dp", "2", "--zero", "3", "--microbatches", "2")), "gpt2_ring": ("gpt2", ("--sp", "2", "--dp", "2")),
}


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_the_plan_travels_inside_the_model(program, tmp_path, case):
    variant, options = ROUND_TRIPS[case]
    model, out = h.MODELS / f"{variant}.onnx", tmp_path / "out.onnx"
    h.checked(h.TESSERA, "convert", model, *options, *ADAMW, "--format", "onnx", "-o", out)
    onnx.checker.check_model(str(out))
    inputs = h.model_inputs(variant, h.input_names(variant))
    for name, array in h.onnxruntime_outputs(model, inputs).items():
        np.testing.assert_array_equal(h.onnxruntime_outputs(out, inputs)[name], array)
    assert plan_of(out) == plan_of(model, *options, *ADAMW)
    # One program, but for what it was made of.
    texts = []
    for source, extra in ((model, options), (out, ())):
        h.checked(h.TESSERA, "compile", source, *extra, *ADAMW, "--to", "propagate", "-o", tmp_path / "text.mlir")
        texts.append([line for line in (tmp_path / "text.mlir").read_text().splitlines() if "dist." in line and not line.startswith("module")])
        texts[-1] = [line.split(" loc(")[0] for line in texts[-1]]
    assert [re.sub(r'dist.origin = "[^"]*"', "", t) for t in texts[0]] == [re.sub(r'dist.origin = "[^"]*"', "", t) for t in texts[1]]


def test_stages_are_annotated(tmp_path):
    """Each node lies on the ranks of its stage; the plan in the file stands for the same pipeline."""
    model, out = h.MODELS / "gpt2.onnx", tmp_path / "out.onnx"
    options = ("--pp", "2", "--tp", "2", "--microbatches", "2", *ADAMW)
    h.checked(h.TESSERA, "convert", model, *options, "--format", "onnx", "-o", out)
    shardings = [s for node in onnx.load(out).graph.node for s in node.device_configurations]
    assert {s.pipeline_stage for s in shardings} == {0, 1}
    for sharding in shardings:
        for tensor in sharding.sharding_spec:
            groups = {e.key: set(e.value) for e in tensor.index_to_device_group_map}
            held = set().union(*(groups.get(d, {d}) for d in tensor.device))
            assert held == ({0, 1} if sharding.pipeline_stage == 0 else {2, 3}), tensor.tensor_name
    assert plan_of(out, *ADAMW) == plan_of(model, *options)


def test_losses_are_the_same(program, tmp_path):
    out = tmp_path / "out.onnx"
    h.checked(h.TESSERA, "convert", h.MODELS / "gpt2.onnx", "--dp", "2", "--tp", "2", "--format", "onnx", "-o", out)
    data = h.training_data("gpt2", ["input_ids"])
    data["labels"] = h.part(h.reference("gpt2"), "train.")["labels"]
    runs = [program("gpt2", "dp2tp2", ADAMW), program("gpt2", "1", ADAMW, out)]
    losses = [[e["loss"] for e in p.train(tmp_path / str(i), data, 3)] for i, p in enumerate(runs)]
    assert losses[0] == losses[1]
    assert runs[1].info()["mesh"] == {"data": 2, "tensor": 2}


@pytest.mark.parametrize("variant", ["mlp", "gpt2"])
def test_annotations_alone_say_the_same(program, tmp_path, variant):
    """What other tools read: without our text the annotations stand for as many bytes of each collective."""
    out = tmp_path / "out.onnx"
    h.checked(h.TESSERA, "convert", h.MODELS / f"{variant}.onnx", "--dp", "2", "--tp", "2", "--format", "onnx", "-o", out)
    bare = program(variant, "1", ADAMW, without_plan(out)).info()
    given = program(variant, "dp2tp2", ADAMW).info()
    rename = {"devices0": "data", "devices1": "tensor", "devices0,devices1": "data,tensor"}
    assert {rename[axes]: sent for axes, sent in bare["sent"].items()} == given["sent"]


@pytest.mark.parametrize("variant", ["mlp", "gpt2_fresh", "gpt2_ts"])
def test_trained_weights_go_along(program, tmp_path, variant):
    """gpt2_fresh: parameters that the exporter had merged are trained apart, and written apart."""
    weights, compiled = saved(program, tmp_path, variant)
    model, out = h.MODELS / f"{variant}.onnx", tmp_path / "out.onnx"
    said = h.checked(h.TESSERA, "convert", model, "--tp", "2", "--weights", weights, "--format", "onnx", "-o", out).stderr
    assert {"gpt2_fresh": "restored 16 parameters that the exporter had merged (equal initial values) or dropped (zero biases): ",
            "gpt2_ts": "' to 'model.transformer.wte.weight', whose transposed copy it is; --as-written keeps it apart"}.get(variant, "") in said
    onnx.checker.check_model(str(out), full_check=True)
    inputs = h.model_inputs(variant, h.input_names(variant))
    ours = compiled.infer(tmp_path / "infer", inputs, "--weights", weights)
    for name, array in h.onnxruntime_outputs(out, inputs).items():
        np.testing.assert_allclose(array, ours[h.file_name(name)], rtol=1e-4, atol=1e-5)
    names = [p["name"] for p in program(variant, "1", (), out).info()["parameters"]["list"]]
    assert sorted(names) == sorted(p["name"] for p in compiled.info()["parameters"]["list"])


def test_external_data_stays_external(program, tmp_path):
    proto = onnx.load(MLP)
    onnx.save(proto, tmp_path / "in.onnx", save_as_external_data=True, location="in.bin", size_threshold=64)
    out = tmp_path / "new" / "out.onnx"
    out.parent.mkdir()
    h.checked(h.TESSERA, "convert", tmp_path / "in.onnx", "--dp", "2", "--format", "onnx", "-o", out)
    assert sorted(p.name for p in out.parent.iterdir()) == ["out.onnx", "out.onnx.data"]
    onnx.checker.check_model(str(out))
    inputs = h.model_inputs("mlp", ["x"])
    for name, array in h.onnxruntime_outputs(MLP, inputs).items():
        np.testing.assert_array_equal(h.onnxruntime_outputs(out, inputs)[name], array)


def test_a_failed_conversion_leaves_nothing(tmp_path):
    result = h.tessera("convert", MLP, "--dp", "2", "--format", "onnx", "-o", tmp_path / "none" / "out.onnx")
    h.assert_error(result, "cannot write", "out.onnx")
    result = h.tessera("convert", tmp_path / "x.mlir", "--format", "onnx", "-o", tmp_path / "out.onnx")
    h.assert_error(result, ".onnx model", status=2)
    assert not list(tmp_path.iterdir())


def test_options_win_over_the_file(tmp_path):
    model = annotated(tmp_path, GRID, 4)
    result = h.checked(h.TESSERA, "plan", model, "--dp", "3")
    assert tomllib.loads(result.stdout)["mesh"] == {"data": 3} and "left aside" in result.stderr
    (tmp_path / "empty.toml").write_text("")
    assert plan_of(model, "--plan", tmp_path / "empty.toml")["mesh"] == {}


def test_a_fused_node_is_warned_of(tmp_path):
    model = h.MODELS / "gpt2_eager.onnx"
    node = next(n for n in onnx.load(model).graph.node if n.op_type == "Softmax")
    path = annotated(tmp_path, {node.name: [spec(node.output[0], [0, 1], [(1, 2)])]}, 2, model)
    result = h.checked(h.TESSERA, "plan", path)
    assert f"warning: node '{node.name}' (Softmax): its annotation is not followed: the node went into an operator of other nodes" in result.stderr


LINEAR = lambda *specs: {"node_linear": list(specs)}
WRONG = {
    "configuration": (LINEAR(spec("x", [0, 1], [(0, 2)])),
        ["annotation refers to the device configuration 'other', which the model does not have; it has 'grid'"]),
    "tensor": (LINEAR(spec("gelu", [0, 1], [(0, 2)])),
        ["annotation shards 'gelu', which is neither an input nor an output of the node"]),
    "axis": (LINEAR(spec("x", [0, 1], [(2, 2)])),
        ["annotation shards 'x' along axis 2, and it has 2 dimensions: -2 to 1 are expected"]),
    "negative axis": (LINEAR(spec("x", [0, 1], [(-3, 2)])),
        ["annotation shards 'x' along axis -3, and it has 2 dimensions: -2 to 1 are expected"]),
    "axis twice": (LINEAR(spec("x", [0, 1], [(0, 2), (-2, 1)])),
        ["annotation shards 'x' twice along axis 0"]),
    "too few devices": (LINEAR(spec("x", [0], [(0, 2)])),
        ["annotation shards 'x' into 2 shards and lists 1 devices or groups; one for each shard is expected"]),
    "too many devices": (LINEAR(spec("x", [0, 1, 0], [(0, 2)])),
        ["annotation shards 'x' into 2 shards and lists 3 devices or groups; one for each shard is expected"]),
    "no shards": (LINEAR(spec("x", [0, 1], [(0, 0)])),
        ["annotation shards 'x' into 0 shards along axis 0; 1 at least are expected"]),
    "more shards than devices": (LINEAR(spec("x", [0, 1, 1], [(0, 3)])),
        ["annotation shards 'x' into more shards than the 2 devices of its configuration"]),
    "device": (LINEAR(spec("x", [0, 2], [(0, 2)])),
        ["annotation shards 'x' on device 2, which its configuration does not have: 0 to 1 are expected"]),
    "device of a group": (LINEAR(spec("x", [-1], [], {-1: [0, 5]})),
        ["annotation shards 'x' on device 5, which its configuration does not have: 0 to 1 are expected"]),
    "two shards of a device": (LINEAR(spec("x", [0, 0], [(0, 2)])),
        ["annotation shards 'x' and gives device 0 two shards"]),
    "missing device": (LINEAR(spec("x", [0])),
        ["annotation shards 'x' and leaves device 1 without a part"]),
    "blocks": (LINEAR(spec("x", [0, 1], [(0, [(5, 2)])])),
        ["annotation shards 'x' as 5 blocks along axis 0, which has 12"]),
    "too many blocks": (LINEAR(spec("x", [0, 1], [(0, [(24, 2)])])),
        ["annotation shards 'x' as more than 12 blocks along axis 0, which has 12"]),
    "tensor twice": (LINEAR(spec("x", [0, 1], [(0, 2)]), spec("x", [0, 1])),
        ["annotation says twice how 'x' is sharded; once is expected"]),
    "one loop, two ways": (LINEAR(spec("x", [0, 1, 2, 3], [(1, 4)]), spec("fc1.weight", [0, 2, 1, 3], [(1, 4)])),
        ["node 'node_linear' (Gemm): its annotations contradict each other: ",
         "'x' and 'fc1.weight' split dimensions that run alike over different devices"]),
    "two loops, one way": (LINEAR(spec("x", [0, 1], [(0, 2)]), spec("fc1.weight", [0, 1], [(0, 2)])),
        ["node 'node_linear' (Gemm): its annotations contradict each other: ",
         "'x' and 'fc1.weight' split two dimensions that combine with each other over the same devices"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_annotations(tmp_path, case):
    nodes, words = WRONG[case]
    ids = {"node_linear": "other"} if case == "configuration" else {}
    path = annotated(tmp_path, nodes, 4 if case.startswith("one loop") else 2, ids=ids)
    h.assert_error(h.tessera("plan", path), "node 'node_linear' (Gemm)", *words)


def test_nodes_that_contradict_each_other(tmp_path):
    """One graph input in two ways; and shards that are none of a grid's."""
    proto = onnx.load(MLP)
    proto.graph.node.append(onnx.helper.make_node("Relu", ["x"], ["again"], "node_again"))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("again", onnx.TensorProto.FLOAT, [12, 24]))
    onnx.save(proto, tmp_path / "two.onnx")
    nodes = {"node_linear": [spec("x", [0, 1], [(0, 2)])], "node_again": [spec("x", [0, 1], [(1, 2)])]}
    h.assert_error(h.tessera("plan", annotated(tmp_path, nodes, 2, tmp_path / "two.onnx")), 
                   "node 'node_again' (Relu): its annotation contradicts that of node 'node_linear': both shard the graph input 'x', in different ways")
    ring = LINEAR(spec("x", [0, 1, 2, 3], [(0, 4)]), spec("fc1.weight", [0, 1, 3, 2], [(0, 4)]))
    h.assert_error(h.tessera("plan", annotated(tmp_path, ring, 4)), "no single mesh", "4 devices", "--plan")


def changed(tmp_path, change):
    """A copy of the model, a node of which is annotated, after `change`."""
    proto = onnx.load(annotated(tmp_path, LINEAR(spec("x", [0, 1], [(0, 2)])), 2))
    change(proto)
    onnx.save(proto, tmp_path / "changed.onnx")
    return tmp_path / "changed.onnx"


def call_of_a_function(proto):
    node = proto.graph.node[0]
    function = onnx.helper.make_function("local", "Linear", ["a", "b", "c"], ["d"],
                                         [onnx.helper.make_node("Gemm", ["a", "b", "c"], ["d"], "inner", transB=1)],
                                         [onnx.helper.make_opsetid("", 20)])
    proto.functions.append(function)
    proto.opset_import.add(domain="local", version=1)
    node.op_type, node.domain = "Linear", "local"
    del node.attribute[:]


def other_configuration(proto):
    proto.configuration.add(name="line", num_devices=2)
    other = proto.graph.node[1].device_configurations.add(configuration_id="line")
    other.sharding_spec.append(spec(proto.graph.node[1].input[0], [0, 1], [(0, 2)]))


def stage(proto):
    proto.graph.node[0].device_configurations[0].pipeline_stage = 1


@pytest.mark.parametrize("change,said", [
    (call_of_a_function, "node 'node_linear' is a call of a function, and its annotation is not followed; annotate the function's nodes"),
    (other_configuration, "annotations for the device configuration 'line' are left aside; those for 'grid' are followed"),
    (lambda proto: proto.graph.node[0].ClearField("name"), "1 annotated nodes have no name, and their annotations are not followed"),
    (stage, "annotations of pipeline stages are not followed: 1 nodes; cut the model by --pp or by [pipeline] in a plan"),
], ids=["call", "configuration", "name", "stage"])
def test_what_is_not_followed_is_warned_of(tmp_path, change, said):
    assert "warning: " + said in h.checked(h.TESSERA, "plan", changed(tmp_path, change)).stderr


@pytest.mark.parametrize("change,said", [
    (lambda proto: proto.configuration.add(name="grid", num_devices=2), "changed.onnx' is there twice"),
    (lambda proto: proto.configuration.add(name="none"), "changed.onnx' has 0 devices; 1 at least are expected"),
], ids=["twice", "none"])
def test_wrong_configurations(tmp_path, change, said):
    h.assert_error(h.tessera("plan", changed(tmp_path, change)), "device configuration '", said)
