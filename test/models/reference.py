"""Writes what torch computes for the models of zoo.py: `python reference.py [MODEL...]` makes MODEL.reference.npz.

Keys: `in.NAME` one batch and `out.logits` its logits; `train.NAME` three batches of training data, one after another;
`loss.RUN.f32` and `loss.RUN.f64` the losses of ten steps of a RUN, `norm.RUN.f64` its gradient norms; `param.NAME` the
parameters after the run `adamw` (mlp only). The data begins again after the third batch.
"""
import math
import pathlib
import sys
import warnings

import numpy as np
import torch

import zoo

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCHES = 10, 3

# run -> (optimizer, its arguments, learning rate of step t counted from 1, clip norm)
ADAMW = dict(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
CONSTANT = lambda t: 1e-3


def warmup_cosine(t, peak=2e-3, floor=1e-4, warmup=3):
    """`--lr 2e-3 --min-lr 1e-4 --warmup 3 --schedule cosine` over STEPS steps."""
    if t <= warmup:
        return peak * t / warmup
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * (t - warmup) / (STEPS - warmup)))


RUNS = {
    "adamw": (torch.optim.AdamW, ADAMW, CONSTANT, None),
    "adam": (torch.optim.Adam, ADAMW, CONSTANT, None),
    "sgd": (torch.optim.SGD, dict(weight_decay=0.1), CONSTANT, None),
    "sgd-momentum": (torch.optim.SGD, dict(weight_decay=0.1, momentum=0.9), CONSTANT, None),
    "cosine-clip": (torch.optim.AdamW, ADAMW, warmup_cosine, 0.5),
}


def training_data(model):
    """Three batches of inputs, labels (about one in seven ignored) and, for the MLP, targets of a mean square error."""
    rng, pad = np.random.default_rng(100), zoo.MODELS[model].pad
    arrays = {}
    for name, array in zoo.inputs(model).items():
        shape = (BATCHES * array.shape[0], *array.shape[1:])
        if name == "attention_mask":
            arrays[name] = np.concatenate([array] * BATCHES)
        elif name == "token_type_ids":
            arrays[name] = rng.integers(0, 2, shape, dtype=np.int64)
        elif name.endswith("input_ids"):
            arrays[name] = rng.integers(pad + 1, zoo.VOCAB, shape, dtype=np.int64)
        else:
            arrays[name] = rng.standard_normal(shape, dtype=np.float32)
    last = list(arrays.values())[-1]
    shape, classes = (last.shape, zoo.VOCAB) if last.dtype == np.int64 else (last.shape[:1], 10)
    labels = rng.integers(0, classes, shape, dtype=np.int64)
    labels[rng.random(shape) < 0.15] = -100
    if "attention_mask" in arrays:
        arrays["input_ids"] = np.where(arrays["attention_mask"], arrays["input_ids"], pad)
        labels[arrays["attention_mask"] == 0] = -100
    arrays["labels"] = labels
    if model == "mlp":
        arrays["target"] = rng.standard_normal((*shape, 10), dtype=np.float32)
    return arrays


def logits_of(module, batch):
    out = module(**batch) if not isinstance(module, zoo.Mlp) else module(batch["x"])
    return out if isinstance(out, torch.Tensor) else out.logits


def train(model, run, dtype, frozen=(), loss="cross_entropy"):
    """Ten steps; returns the losses, the gradient norms before clipping, and the module."""
    torch.set_default_dtype(torch.float32)
    module = zoo.build(model).to(dtype)
    for name, parameter in module.named_parameters():
        parameter.requires_grad = name not in frozen
    kind, arguments, rate, clip = RUNS[run]
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = kind(trained, lr=1e-3, **arguments)
    data = {k: torch.from_numpy(v) for k, v in training_data(model).items()}
    data = {k: v.to(dtype) if v.is_floating_point() else v for k, v in data.items()}
    size = next(iter(data.values())).shape[0] // BATCHES
    losses, norms = [], []
    for step in range(STEPS):
        begin = step % BATCHES * size
        batch = {k: v[begin:begin + size] for k, v in data.items()}
        labels, target = batch.pop("labels"), batch.pop("target", None)
        logits = logits_of(module, batch)
        if loss == "mse":
            value = torch.nn.functional.mse_loss(logits, target)
        else:
            value = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
        for group in optimizer.param_groups:
            group["lr"] = rate(step + 1)
        optimizer.zero_grad()
        value.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, clip or math.inf).item())
        optimizer.step()
        losses.append(value.item())
    return np.array(losses), np.array(norms), module


def reference(model):
    arrays = {f"in.{k}": v for k, v in zoo.inputs(model).items()}
    batch = {k: torch.from_numpy(v) for k, v in zoo.inputs(model).items()}
    with torch.no_grad():
        arrays["out.logits"] = logits_of(zoo.build(model), batch).numpy()
    arrays |= {f"train.{k}": v for k, v in training_data(model).items()}

    def add(key, run, **options):
        losses, _, module = train(model, run, torch.float32, **options)
        arrays[f"loss.{key}.f32"] = losses
        arrays[f"loss.{key}.f64"], arrays[f"norm.{key}.f64"], _ = train(model, run, torch.float64, **options)
        return module

    trained = add("adamw", "adamw")
    if folded := zoo.MODELS[model].folded:
        add("adamw-folded", "adamw", frozen=folded)
    if model in ("mlp", "gpt2"):
        for run in ("adam", "sgd", "sgd-momentum", "cosine-clip"):
            add(run, run)
    if model == "mlp":
        add("mse", "adamw", loss="mse")
        arrays |= {f"param.{name}": p.detach().numpy() for name, p in trained.named_parameters()}
    return arrays


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # the same sums in the same order
    for model in sys.argv[1:] or zoo.MODELS:
        arrays = reference(model)
        np.savez_compressed(HERE / f"{model}.reference.npz", **arrays)
        f32, f64 = arrays["loss.adamw.f32"], arrays["loss.adamw.f64"]
        print(f"{model}: losses {f64[0]:.6f} .. {f64[-1]:.6f}, f32 off by {np.max(np.abs(f32 / f64 - 1)):.1e}", flush=True)


if __name__ == "__main__":
    main()
