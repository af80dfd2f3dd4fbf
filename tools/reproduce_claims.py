"""The claims of papers that tools/reproduce compares with: shapes, machines, plans and figures.

Figures are those of the papers. Shapes that a paper is not known to have used are said to be assumed. "Theirs" are the plans of the
papers' own code: operands of 2D and 2.5D products whole before the product (`--stream never`: NCCL's broadcasts are
pipelined, and send as much), with depth outermost; rings of two passes in sequence parallelism.
"""
import dataclasses
import math
from typing import Callable

CLOSE = 0.25  # how far from the paper's figure one may be


@dataclasses.dataclass(frozen=True)
class Plan:
    """Options of a contender; `ours` where they differ from the paper's. `shape` changes the claim's model."""
    theirs: str
    ours: str = ""
    shape: dict = dataclasses.field(default_factory=dict)
    order: tuple = ()  # of the axes of their mesh, slowest varying first, where that is not ours


@dataclasses.dataclass(frozen=True)
class Figure:
    """`of` computes it from a Contest. `says`: a "ratio", which has to be on the same side of 1, a "value", or that the paper only
    says "at least" or "at most" so much."""
    what: str
    paper: float
    of: Callable
    says: str = "ratio"
    close: float = CLOSE

    def judge(self, ours):
        """Ours over the paper's, whether it is close, and whether it is on the same side."""
        ratio = ours / self.paper
        if self.says in ("at least", "at most"):
            holds = ratio >= 1 if self.says == "at least" else ratio <= 1
            return ratio, holds or abs(ratio - 1) <= self.close, holds
        return ratio, abs(ratio - 1) <= self.close, self.says == "value" or (ours > 1) == (self.paper > 1)


@dataclasses.dataclass(frozen=True)
class Claim:
    name: str
    title: str
    source: str  # paper and place
    machine: str  # of tools/machines
    model: str  # of test/models/shapes.py
    plans: dict
    figures: tuple
    shape: dict = dataclasses.field(default_factory=dict)
    binds: dict = dataclasses.field(default_factory=dict)
    train: str = "--train adamw"  # of all contenders, to train
    options: str = ""  # of all contenders
    card: float = float("inf")  # bytes of a device
    ranks: int = 0  # that `plan --auto` is asked for
    winner: str = ""  # the contender that it has to beat
    assumed: str = ""  # what the paper's shapes are not known to be


GB = 1e9
ONE = {ranks: Plan(f"--tp {ranks}") for ranks in (4, 8, 12, 16, 64)}


def grid(mode, ranks, depth=0, shape=None):
    """The papers' code numbers ranks with depth, or the axis of the results, slowest."""
    options = f"--tp {ranks} --tp-mode {mode}" + (f" --tp-depth {depth}" if depth else "")
    order = {"2d": (), "2.5d": ("depth", "row", "col"), "3d": ("k", "j", "i")}[mode]
    return Plan(options + (" --stream never" if mode != "3d" else ""), options, shape or {}, order=order)


def wide(plan, **shape):
    return dataclasses.replace(plan, shape=shape)


LAYERS = "--loss mse:output"  # of models that are layers alone

COLOSSAL = "Colossal-AI, arXiv 2110.14883"
GRIDS = {"1d 4": ONE[4], "2d 4": grid("2d", 4), "1d 8": ONE[8], "2.5d 8": grid("2.5d", 8, 2), "3d 8": grid("3d", 8)}
VIT = dict(model="vit", shape={"layers": 64, "width": 3072, "heads": 48}, plans=GRIDS, binds={"batch": 128}, options="--dtype f16 --loss cross_entropy:logits",
           assumed="64 layers of 3072 with 48 heads, f16, batch 128")


def speed(what, paper, fast, slow, says="ratio", **options):
    """How many times as fast one contender is as another, on the same batch."""
    return Figure(what, paper, lambda c: c.seconds(slow) / c.seconds(fast), says, **options)


COLOSSAL_CLAIMS = (
    Claim("linear", "Two linear layers, 8 GPUs: memory of a training step", f"{COLOSSAL}, range test", "colossal-i", "linear",
          {name: GRIDS[name] for name in ("1d 8", "2.5d 8", "3d 8")}, (
              Figure("memory, 2.5D against 1D", 0.56, lambda c: c.memory("2.5d 8") / c.memory("1d 8")),
              Figure("memory, 3D against 1D", 0.35, lambda c: c.memory("3d 8") / c.memory("1d 8"))),
          shape={"width": 1024}, binds={"batch": 512 * 512}, train="--train sgd", options=LAYERS, ranks=8, winner="3d 8",
          assumed="512 samples of 512 tokens, 1024 to 4096 and back, SGD"),
    Claim("vit-nvlink", "ViT, 4 and 8 GPUs, all on NVLink", f"{COLOSSAL}, System I", "colossal-i", figures=(
        speed("speed, 4 GPUs: 2D against 1D", 1, "2d 4", "1d 4", "at most"),
        speed("speed, 8 GPUs: 2.5D against 1D", 1, "2.5d 8", "1d 8", "at most"),
        speed("speed, 8 GPUs: 3D against 1D", 1, "3d 8", "1d 8", "at most")), ranks=8, winner="1d 8", **VIT),
    Claim("vit-pairs", "ViT, 4 and 8 GPUs, NVLink in pairs", f"{COLOSSAL}, System II", "colossal-ii", figures=(
        speed("speed, 4 GPUs: 2D against 1D", 1.40, "2d 4", "1d 4"),
        speed("speed, 8 GPUs: 2.5D against 1D", 1.206, "2.5d 8", "1d 8")), ranks=8, winner="2.5d 8", **VIT),
    Claim("vit-64", "ViT, 64 GPUs of 16 GB", f"{COLOSSAL}, System IV", "piz-daint", "vit",
          {"1d": ONE[64], "2d": grid("2d", 64), "2.5d": grid("2.5d", 64, 4), "3d": grid("3d", 64)}, (
              Figure("throughput at the largest batch: best grid against 1D", 2.76,
                     lambda c: max(c.best_throughput(grid, unit=16) for grid in ("2d", "2.5d", "3d")) / c.best_throughput("1d", unit=16)),),
          shape={"layers": 32, "width": 4096, "heads": 64}, options="--dtype f16 --loss cross_entropy:logits", card=16 * GB, ranks=64, winner="2.5d",
          assumed="32 layers of 4096 with 64 heads, f16"),
    Claim("bert", "BERT-Base on 12 GPUs: sequence parallel against 1D", f"{COLOSSAL}, System III", "meluxina", "bert",
          {"1d": ONE[12], "sp": Plan("--sp 12 --sp-mode rsa", "--sp 12")}, (
              Figure("largest batch of 512 tokens", 4.44, lambda c: c.largest("sp", seq=512, unit=4) / c.largest("1d", seq=512, unit=4)),
              Figure("largest length, batch 64", 1.18, lambda c: c.largest("sp", "seq", 48, batch=64) / c.largest("1d", "seq", 48, batch=64)),
              Figure("throughput at the largest batch of 512", 1.43, lambda c: c.best_throughput("sp", seq=512, unit=4) / c.best_throughput("1d", seq=512, unit=4))),
          shape={"length": 32768}, options="--loss cross_entropy:logits", card=40 * GB, assumed="12 ranks each, f32, Adam, batch 64 for lengths"),
)

RSA = "Ring self-attention, arXiv 2105.13120"


def weak(c, label, ranks):
    """Bytes a rank, with as many samples for each rank as one rank holds in the 8.5 GB that the paper's has."""
    return c.memory(f"{label} {ranks}" if ranks > 1 else "one", batch=weak_batch(c) * ranks, seq=512)


def weak_batch(c):
    return c.largest("one", card=8.5 * GB, seq=512)


def weak_speed(c, ranks):
    batch = weak_batch(c) * ranks
    return c.seconds(f"1d {ranks}", batch=batch, seq=512) / c.seconds(f"sp {ranks}", batch=batch, seq=512)


RSA_CLAIMS = (
    Claim("rsa", "BERT-Base, P100 of 16 GB: 64 ranks of sequence parallelism against 12 of 1D", RSA, "piz-daint", "bert",
          {"1d": ONE[12], "sp": Plan("--sp 64 --sp-mode rsa", "--sp 64")}, (
              Figure("largest batch of 512 tokens", 13.7, lambda c: c.largest("sp", seq=512, unit=8) / c.largest("1d", seq=512)),
              Figure("largest length, batch 64", 3.0, lambda c: c.largest("sp", "seq", 128, batch=64) / c.largest("1d", "seq", 12, batch=64))),
          shape={"length": 32768}, options="--loss cross_entropy:logits", card=16 * GB, assumed="f32, Adam, batch 64 for lengths"),
    Claim("rsa-weak", "BERT-Base, P100 of 16 GB: as much work for each rank", f"{RSA}, weak scaling", "piz-daint", "bert",
          {"one": Plan(""), **{f"1d {n}": Plan(f"--tp {n}") for n in (2, 4, 8)}, **{f"sp {n}": Plan(f"--sp {n} --sp-mode rsa", f"--sp {n}") for n in (2, 4, 8)}}, (
              Figure("memory, 1D: 2 ranks against 1", 9.5 / 8.5, lambda c: weak(c, "1d", 2) / weak(c, "1d", 1)),
              Figure("memory, 1D: 4 ranks against 1", 12.2 / 8.5, lambda c: weak(c, "1d", 4) / weak(c, "1d", 1)),
              Figure("memory, 1D: 8 ranks against the card", 1, lambda c: weak(c, "1d", 8) / (16 * GB), "at least"),
              Figure("memory, sequence parallel: 8 ranks against 1", 1, lambda c: weak(c, "sp", 8) / weak(c, "sp", 1), "value"),
              Figure("speed, 2 ranks: sequence parallel against 1D", 0.9, lambda c: weak_speed(c, 2), "at least"),
              Figure("speed, 4 ranks: sequence parallel against 1D", 1, lambda c: weak_speed(c, 4), "at least")),
          options="--loss cross_entropy:logits", card=16 * GB, assumed="f32, Adam, and the batch: what one rank holds in 8.5 GB"),
)

# Widths grow with the square root of the ranks.
WEAK = {4: {"width": 2048, "heads": 32}, 16: {"width": 4096, "heads": 64}, 64: {"width": 8192, "heads": 128}}


def optimus(ranks, train=True):
    def gain(c):
        batches = {label: c.largest(f"{label} {ranks}", unit=4) for label in ("2d", "1d")}
        fast, slow = (c.throughput(f"{label} {ranks}", batch=batches[label], train=train) for label in ("2d", "1d"))
        return fast / slow
    return gain


GRID_CLAIMS = (
    Claim("optimus", "Layers of a transformer on 4 to 64 RTX 5000: 2D against 1D", "Optimus, arXiv 2104.05343, weak scaling", "frontera-rtx", "blocks",
          {**{f"1d {n}": wide(ONE[n], **WEAK[n]) for n in WEAK}, **{f"2d {n}": grid("2d", n, shape=WEAK[n]) for n in WEAK}}, (
              Figure("throughput, 4 ranks", 1, optimus(4), "at most"),
              Figure("throughput, 16 ranks", 1, optimus(16), "value", close=0.1),
              Figure("throughput, 64 ranks", 1.48, optimus(64)),
              Figure("throughput, 64 ranks, inference", 1.78, optimus(64, train=False)),
              Figure("largest batch, 64 ranks", 8, lambda c: c.largest("2d 64", unit=4) / c.largest("1d 64", unit=4))),
          shape={"layers": 24}, binds={"seq": 512}, train="--train sgd --recompute block", options=LAYERS, card=16 * GB, ranks=64, winner="2d 64",
          assumed="24 layers, 512 tokens, f32, SGD; the largest batch that fits each; widths and heads as the code's own benchmark has them for 4 ranks"),
    Claim("tesseract", "Layers of a transformer on 64 A100: 2.5D against 1D and 2D", "Tesseract, arXiv 2105.14500, strong scaling", "meluxina", "blocks",
          {"1d": ONE[64], "2d": grid("2d", 64), "2.5d": grid("2.5d", 64, 4)}, (
              speed("speed, 2.5D against 1D", 1.38, "2.5d", "1d"), speed("speed, 2.5D against 2D", 1.53, "2.5d", "2d")),
          shape={"layers": 12, "width": 3072, "heads": 64}, binds={"batch": 16, "seq": 512}, train="--train sgd", options=LAYERS, ranks=64, winner="2.5d",
          assumed="12 layers of 3072 with 64 heads, batch 16 of 512 tokens"),
    Claim("3d", "Layers of a transformer on 64 V100: 3D against 1D and 2D", "3D tensor parallelism, arXiv 2105.14450", "longhorn", "blocks",
          {"1d": ONE[64], "2d": grid("2d", 64), "3d": grid("3d", 64)}, (
              speed("speed, 3D against 1D", 2.32, "3d", "1d"), speed("speed, 3D against 2D", 1.57, "3d", "2d")),
          shape={"layers": 24, "width": 3072, "heads": 64}, binds={"batch": 32, "seq": 512}, train="--train sgd", options=LAYERS, ranks=64, winner="3d",
          assumed="24 layers of 3072 with 64 heads, batch 32 of 512 tokens"),
)

MEGATRON = "Reducing activation recomputation, arXiv 2205.05198, table 5"
RECOMPUTED = {"full": Plan("--tp 8 --recompute block"), "sequence": Plan("--tp 8 --sp-mode megatron")}
STAGED = {"full": Plan("--tp 8 --recompute block --pp-schedule interleaved"), "sequence": Plan("--tp 8 --sp-mode megatron --pp-schedule interleaved")}
PLAIN = {"full": Plan("--tp 8 --recompute block --pp-schedule 1f1b"), "sequence": Plan("--tp 8 --sp-mode megatron --pp-schedule 1f1b")}
LANGUAGE = dict(binds={"seq": 2048}, options="--dtype bf16 --loss cross_entropy:logits")


def megatron(name, paper, plans, layers, stages, batch):
    """Seconds an iteration with full recomputation, and with sequence parallelism and selective recomputation."""
    def seconds(label):
        return lambda c: c.seconds(label, batch=batch) if stages == 1 else c.deep(label, layers, stages, batch)
    return Claim(f"megatron-{name}", f"Megatron-LM, {name.upper()} on {8 * stages} A100: seconds an iteration", MEGATRON, "a100-measured", f"megatron-{name}", plans,
                 (Figure("full recomputation", paper[0], seconds("full"), "value", close=0.12),
                  Figure("sequence parallel", paper[1], seconds("sequence"), "value", close=0.12)), **LANGUAGE)


def utilisation(layers, width, vocabulary, samples, devices, peak, recomputes):
    """The paper's share of the data sheet's rate from the seconds of a step: flops by its formula, 2104.04473, section 5.1."""
    flops = (96 if recomputes else 72) * samples * 2048 * layers * width**2 * (1 + 2048 / (6 * width) + vocabulary / (16 * layers * width))
    return lambda seconds: flops / (seconds * devices * peak)


GPT3 = utilisation(96, 12288, 51200, 1536, 1024, 3.12e14, recomputes=True)
LARGE = {devices: utilisation(96, 12288, 131072, 1152, devices, 9.89e14, recomputes=False) for devices in (96, 4608)}

LANGUAGE_CLAIMS = (
    megatron("22b", (1.42, 1.10), RECOMPUTED, 48, 1, 4),
    megatron("175b", (18.13, 13.75), STAGED, 96, 8, 64),
    megatron("530b", (49.05, 37.83), STAGED, 105, 35, 280),
    megatron("1t", (94.42, 71.49), PLAIN, 128, 64, 512),
    Claim("gpt3-1024", "GPT-3 175B on 1,024 A100: share of the data sheet's rate", "Megatron-LM, arXiv 2104.04473", "a100-measured", "megatron-175b", STAGED,
          (Figure("by the paper's count of operations", 0.44, lambda c: GPT3(c.deep("full", 96, 8, 96, copies=16)), "value", close=0.04 / 0.44),), **LANGUAGE,
          assumed="8 stages, 16 copies, a sample a microbatch, interleaved"),
    Claim("177b", "177B on 96 to 4,608 H100, batch 1152: share of the data sheet's rate", "Megatron-LM's README", "h100-measured", "megatron-175b",
          {"sequence": Plan("--tp 8 --sp-mode megatron --pp-schedule interleaved")}, (
              Figure("96 GPUs", 0.47, lambda c: LARGE[96](c.deep("sequence", 96, 12, 1152)), "value", close=0.04 / 0.47),
              Figure("4,608 GPUs", 0.42, lambda c: LARGE[4608](c.deep("sequence", 96, 12, 24, copies=48)), "value", close=0.04 / 0.42),
              Figure("how much is left of it at 4,608", 0.42 / 0.47, lambda c: LARGE[4608](c.deep("sequence", 96, 12, 24, copies=48))
                     / LARGE[96](c.deep("sequence", 96, 12, 1152)))),
          shape={"vocabulary": 131072}, **LANGUAGE, assumed="tensor 8, 12 stages, a sample a microbatch, interleaved"),
    Claim("llama", "Llama 8B, 8 to 128 H100: what is kept of the throughput of a GPU", "published, its source not known", "h100-measured", "llama-8b",
          {n: Plan(f"--dp {n} --zero 1 --microbatches 16") for n in (8, 128)}, (
              Figure("128 GPUs against 8", 0.975, lambda c: c.seconds(8, batch=16 * 8) / c.seconds(128, batch=16 * 128), "value", close=0.04 / 0.975),),
          binds={"seq": 8192}, options="--dtype bf16 --loss cross_entropy:logits", assumed="data parallel, ZeRO 1, 16 microbatches of 8192 tokens on each GPU"),
    Claim("llmc-124m", "llm.c, GPT-2 124M on 8 A100: share of the data sheet's rate", "llm.c, discussion 481", "a100-measured", "gpt2", {"dp": Plan("--dp 8")}, (
        Figure("524,288 tokens a step", 0.60, lambda c: c.step("dp")["mfu"] * 2.712 / 3.12, "value", close=0.04 / 0.60),),
          binds={"batch": 512, "seq": 1024}, options="--dtype bf16 --loss cross_entropy:logits"),
    Claim("llmc-1.5b", "llm.c, GPT-2 1.5B on 8 H100: share of the data sheet's rate", "llm.c, discussion 677", "h100-measured", "gpt2-xl",
          {"dp": Plan("--dp 8 --zero 1 --microbatches 8")}, (
              Figure("1,048,576 tokens a step", 0.50, lambda c: c.step("dp")["mfu"] * 7.945 / 9.89, "value", close=0.04 / 0.50),),
          binds={"batch": 1024, "seq": 1024}, options="--dtype bf16 --loss cross_entropy:logits"),
)

CLAIMS = COLOSSAL_CLAIMS + RSA_CLAIMS + GRID_CLAIMS + LANGUAGE_CLAIMS
