"""The small models that the tests use: how each is built, its inputs, and the variants that are exported.

Needs torch and transformers; the tests themselves do not, they read the files that export.py and reference.py wrote.
Everything is seeded, so that running the scripts again with the same versions gives the same files.
"""
import dataclasses
import functools
import typing

import numpy as np
import torch
from torch import nn

import decoders
import encoders
import experts

BATCH, SEQ, VOCAB = 4, 32, 160


def randomise(module, seed):
    """Gives every parameter distinct random values (norm weights around 1), so that no two tensors are equal and an
    error in any of them shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            norm_weight = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.1 * noise if norm_weight else 0.12 * noise)
    return module


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.norm = nn.Linear(24, 48), nn.Linear(48, 36), nn.LayerNorm(36)
        self.head = nn.Linear(36, 10)

    def forward(self, x):
        x = torch.nn.functional.gelu(self.fc2(torch.relu(self.fc1(x))))
        return self.head(self.norm(x))


def gpt2(attention, layers=2, dropout=0.0):
    from transformers import GPT2Config, GPT2LMHeadModel

    # 160 positions: dynamo folds the look-up in a table of at most 8192 elements into a constant.
    config = GPT2Config(vocab_size=VOCAB, n_positions=160, n_embd=64, n_layer=layers, n_head=4, n_inner=128,
                        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False, attn_implementation=attention)
    return GPT2LMHeadModel(config)


def llama(attention):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCAB, hidden_size=64, intermediate_size=112, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=160, use_cache=False,
                         tie_word_embeddings=False, attn_implementation=attention)
    return LlamaForCausalLM(config)


def bert(attention):
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, max_position_embeddings=160, type_vocab_size=2,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation=attention)
    return BertForMaskedLM(config)


def vit(attention):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(image_size=32, patch_size=8, num_channels=3, hidden_size=64, num_hidden_layers=2,
                       num_attention_heads=4, intermediate_size=128, num_labels=10, hidden_dropout_prob=0.0,
                       attention_probs_dropout_prob=0.0, attn_implementation=attention)
    return ViTForImageClassification(config)


def token_inputs(batch=BATCH, seq=SEQ):
    rng = np.random.default_rng(1)
    return {"input_ids": rng.integers(0, VOCAB, (batch, seq), dtype=np.int64)}


def bert_inputs():
    """Ragged rows padded by token 0. No other position has token 0: torch's embedding gives it no gradient (padding_idx),
    which no ONNX file can say."""
    rng = np.random.default_rng(2)
    mask = np.ones((BATCH, SEQ), np.int64)
    for row, length in enumerate([SEQ, SEQ - 5, SEQ // 2, SEQ - 1]):  # no empty row
        mask[row, length:] = 0
    ids = rng.integers(1, VOCAB, (BATCH, SEQ), dtype=np.int64)
    types = rng.integers(0, 2, (BATCH, SEQ), dtype=np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": types}


def bert_nomask_inputs():
    """As above without a mask, and so without padding."""
    arrays = bert_inputs()
    arrays["input_ids"] = np.maximum(arrays["input_ids"], 1)
    del arrays["attention_mask"]
    return arrays


def untyped_inputs():
    arrays = bert_inputs()
    del arrays["token_type_ids"]
    return arrays


def roberta_inputs():
    """As BERT's with token 1 as padding, which also decides the positions."""
    arrays = untyped_inputs()
    ids, mask = np.maximum(arrays["input_ids"], 2), arrays["attention_mask"]
    return {"input_ids": np.where(mask, ids, 1), "attention_mask": mask}


def pair_inputs():
    rng = np.random.default_rng(5)
    return {"input_ids": rng.integers(1, VOCAB, (BATCH, SEQ), dtype=np.int64),
            "decoder_input_ids": rng.integers(1, VOCAB, (BATCH, SEQ // 2), dtype=np.int64)}


def image_inputs():
    return {"pixel_values": np.random.default_rng(3).standard_normal((BATCH, 3, 32, 32)).astype(np.float32)}


def mlp_inputs():
    return {"x": np.random.default_rng(4).standard_normal((12, 24)).astype(np.float32)}


@dataclasses.dataclass(frozen=True)
class Model:
    """`seed` is that of the weights, None: as the library initialises them; `pad` the token that pads rows; `folded` the
    parameters that some exports fold into constants; `training` keeps the module in training mode; `finish` changes the
    module when its weights are there."""

    build: typing.Callable
    inputs: typing.Callable
    seed: int | None
    pad: int = -1
    folded: tuple = ()
    training: bool = False
    finish: typing.Callable = lambda module: module


def encoder(model, inputs, seed, **options):
    return Model(functools.partial(encoders.encoder, model), inputs, seed, **options)


MODELS = {
    "mlp": Model(lambda attention: Mlp(), mlp_inputs, 10),
    "gpt2": Model(gpt2, token_inputs, 11),
    "gpt2_fresh": Model(gpt2, token_inputs, None),
    "gpt2_dropout": Model(lambda attention: gpt2(attention, dropout=0.1), token_inputs, 11, training=True),
    "gpt2_1layer": Model(lambda attention: gpt2(attention, layers=1), token_inputs, 15),
    "llama": Model(llama, token_inputs, 12),
    "llama_fresh": Model(llama, token_inputs, None),
    "bert": Model(bert, bert_inputs, 13, pad=0),
    "bert_nomask": Model(bert, bert_nomask_inputs, 13, pad=0),
    "vit": Model(vit, image_inputs, 14),
    **{model: Model(functools.partial(decoders.build, model), token_inputs, 20 + i, folded=decoders.FOLDED.get(model, ()))
       for i, model in enumerate(decoders.CONFIGS)},
    **{model: Model(functools.partial(experts.build, model), token_inputs, 60 + i)
       for i, model in enumerate(experts.CONFIGS)},
    "roberta": encoder("roberta", roberta_inputs, 30, pad=1),
    "distilbert": encoder("distilbert", untyped_inputs, 31, pad=0),
    "electra": encoder("electra", bert_inputs, 32, pad=0),
    "albert": encoder("albert", bert_inputs, 33, pad=0),
    "transformer": Model(encoders.Translator, pair_inputs, 34, folded=("position.weight",)),
    "t5": Model(encoders.t5, pair_inputs, 35, folded=tuple(
        f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight" for side in ("encoder", "decoder"))),
    "bart": Model(encoders.bart, pair_inputs, 37, pad=0),
    "convnext": Model(encoders.convnext, image_inputs, 38),
    "resnet": Model(encoders.resnet, image_inputs, 36, finish=encoders.fuse_normalizations),
    "resnet_frozen": Model(encoders.resnet, image_inputs, 36),
    "resnet_train": Model(encoders.resnet, image_inputs, 36, training=True),
}


@dataclasses.dataclass(frozen=True)
class Variant:
    """One exported file. `name` is the file's; `model` says which reference it is compared with. `mask` adds an attention
    mask, of ones in the reference, to a model whose reference has none."""

    name: str
    model: str
    dynamo: bool = True
    dynamic: bool = False
    attention: str = "sdpa"
    opset: int = 20
    optimize: bool = True
    mask: bool = False


def variants():
    yield Variant("mlp", "mlp")
    yield Variant("mlp_ts", "mlp", dynamo=False)
    yield Variant("mlp_dyn", "mlp", dynamic=True)
    for model in ("gpt2", "llama", "bert", "vit"):
        mask = model in ("gpt2", "llama")  # without one, transformers' detection of packed sequences cannot be traced
        yield Variant(model, model)
        yield Variant(f"{model}_eager", model, attention="eager")
        yield Variant(f"{model}_dyn", model, dynamic=True, mask=mask)
        yield Variant(f"{model}_dyn_eager", model, dynamic=True, attention="eager", mask=mask)
        yield Variant(f"{model}_ts", model, dynamo=False, mask=mask)
        yield Variant(f"{model}_ts_eager", model, dynamo=False, attention="eager", mask=mask)
        yield Variant(f"{model}_ts_dyn", model, dynamo=False, dynamic=True, mask=mask)
    for model in ("gpt2_fresh", "gpt2_1layer", "llama_fresh", "bert_nomask"):
        yield Variant(model, model)
    for model in (*decoders.CONFIGS, *experts.CONFIGS):
        yield Variant(model, model)
    for model in (*encoders.CONFIGS, "transformer", "t5", "bart", "convnext", "resnet"):
        yield Variant(model, model)
    yield Variant("gptneox_ts", "gptneox", dynamo=False, mask=True)
    yield Variant("mistral_ts_dyn", "mistral", dynamo=False, dynamic=True, mask=True)
    yield Variant("phi_ts_eager", "phi", dynamo=False, attention="eager", mask=True)
    yield Variant("roberta_ts_dyn", "roberta", dynamo=False, dynamic=True)
    yield Variant("distilbert_dyn", "distilbert", dynamic=True)
    yield Variant("electra_ts_eager", "electra", dynamo=False, attention="eager")
    yield Variant("transformer_ts", "transformer", dynamo=False)
    yield Variant("t5_dyn", "t5", dynamic=True)
    yield Variant("bart_ts_dyn", "bart", dynamo=False, dynamic=True)
    yield Variant("convnext_ts", "convnext", dynamo=False)
    yield Variant("resnet_dyn", "resnet", dynamic=True)
    yield Variant("resnet_ts", "resnet", dynamo=False)
    yield Variant("resnet_frozen", "resnet_frozen", optimize=False)
    yield Variant("resnet_train", "resnet_train", dynamo=False)
    # Of scaled_dot_product_attention's dropout the TorchScript exporter writes no training_mode.
    yield Variant("gpt2_dropout", "gpt2_dropout", dynamo=False, attention="eager", mask=True)
    yield Variant("gpt2_mask", "gpt2", mask=True)
    yield Variant("llama_mask", "llama", mask=True)
    yield Variant("gpt2_dyn_nomask", "gpt2", dynamic=True)
    yield Variant("llama_dyn_nomask", "llama", dynamic=True)
    yield Variant("gpt2_raw", "gpt2", optimize=False)
    yield Variant("llama_opset23", "llama", opset=23)


def build(model, attention="sdpa"):
    """The module of `model`, on the CPU, with its parameters in f32, in evaluation mode unless it is said to train."""
    spec = MODELS[model]
    torch.manual_seed(0)
    module = spec.build(attention)
    if spec.seed is not None:
        randomise(module, spec.seed)
    return spec.finish(module).train(spec.training)


def inputs(model, mask=False):
    """Name -> array of the inputs of `model`; `mask` adds an attention mask of ones."""
    arrays = MODELS[model].inputs()
    if mask:
        arrays["attention_mask"] = np.ones((BATCH, SEQ), np.int64)
    return arrays


def dynamic_dims(variant):
    """Input name -> {dimension: symbol} of a dynamic variant."""
    dims = {"x": {0: "batch"}, "pixel_values": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "targets"}}
    return {name: dims.get(name, {0: "batch", 1: "seq"}) for name in inputs(variant.model, variant.mask)}
