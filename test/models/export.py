"""Exports the variants of zoo.py: `python export.py [NAME...]`, all of them by default, into this folder."""
import pathlib
import sys
import warnings

import torch

import zoo

HERE = pathlib.Path(__file__).resolve().parent


class Traced(torch.nn.Module):
    """What users hand to the TorchScript exporter: positional inputs by name, one tensor out."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *arrays):
        out = self.model(**dict(zip(self.names, arrays)))
        return out if isinstance(out, torch.Tensor) else out.logits


def export(variant):
    module = zoo.build(variant.model, variant.attention)
    arrays = {name: torch.from_numpy(array) for name, array in zoo.inputs(variant.model, variant.mask).items()}
    path = HERE / f"{variant.name}.onnx"
    common = dict(input_names=list(arrays), output_names=["logits"], opset_version=variant.opset)
    dims = zoo.dynamic_dims(variant) if variant.dynamic else None
    if variant.dynamo:
        if dims:
            symbols = {s: torch.export.Dim(s, min=1, max=4096 if s == "batch" else 160)
                       for d in dims.values() for s in d.values()}
            dims = {name: {i: symbols[s] for i, s in d.items()} for name, d in dims.items()}
        torch.onnx.export(module, (), str(path), kwargs=arrays, dynamo=True, dynamic_shapes=dims, external_data=False,
                          optimize=variant.optimize, verbose=False, **common)
    else:
        mode = torch.onnx.TrainingMode.TRAINING if module.training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(Traced(module, list(arrays)).train(module.training), tuple(arrays.values()), str(path), dynamo=False,
                          dynamic_axes=dims, training=mode, do_constant_folding=not module.training, **common)
    strip_paths(path)
    return path


def strip_paths(path):
    """Removes stack traces (the exporting machine's paths) from the metadata; the rest of it stays."""
    import onnx

    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key != "pkg.torch.onnx.stack_trace"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.doc_string = ""
    onnx.save(model, path)


def main():
    warnings.filterwarnings("ignore")
    wanted = set(sys.argv[1:])
    known = {v.name: v for v in zoo.variants()}
    if unknown := wanted - known.keys():
        sys.exit(f"error: unknown variants {sorted(unknown)}; known: {' '.join(known)}")
    for name, variant in known.items():
        if not wanted or name in wanted:
            path = export(variant)
            print(f"{path.name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
