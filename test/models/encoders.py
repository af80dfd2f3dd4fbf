"""The models of zoo.py that are no decoders alone: encoders of `transformers`, encoders with decoders, and convolutions.
Each is as small as decoders.py's and for the same reason has tables of 260 rows."""
import torch
import transformers
from torch import nn

from decoders import ROWS

# model -> (the library's prefix of its classes, its configuration)
CONFIGS = {
    # positions counted from the padding, token 1
    "roberta": ("Roberta", dict(type_vocab_size=1, pad_token_id=1)),
    # a library of its own names, no token types
    "distilbert": ("DistilBert", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0, attention_dropout=0.0)),
    # embeddings narrower than the layers
    "electra": ("Electra", dict(embedding_size=32, hidden_size=48, type_vocab_size=2)),
    # the same, and one layer's weights used twice
    "albert": ("Albert", dict(embedding_size=32, hidden_size=48, type_vocab_size=2)),
}
COMMON = dict(vocab_size=ROWS, max_position_embeddings=ROWS)
LAYERS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0)


def encoder(model, attention):
    prefix, options = CONFIGS[model]
    layers = {} if "n_layers" in options else LAYERS
    config = getattr(transformers, f"{prefix}Config")(**{**COMMON, **layers, **options}, attn_implementation=attention)
    return getattr(transformers, f"{prefix}ForMaskedLM")(config)


def t5(attention):
    """Biases of relative positions instead of positions, and norms without means."""
    config = transformers.T5Config(
        vocab_size=ROWS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0, use_cache=False,
        attn_implementation="eager")
    return transformers.T5ForConditionalGeneration(config)


class Translator(nn.Module):
    """torch.nn.Transformer, q, k and v packed, between two embeddings and a head; targets see what is before them."""

    def __init__(self, attention):
        super().__init__()
        self.source, self.target, self.position = (nn.Embedding(ROWS, 32) for _ in range(3))
        self.transformer = nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.head = nn.Linear(32, ROWS)

    def forward(self, input_ids, decoder_input_ids):
        position = lambda ids: self.position(torch.arange(ids.shape[1]))
        source = self.source(input_ids) + position(input_ids)
        target = self.target(decoder_input_ids) + position(decoder_input_ids)
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.head(self.transformer(source, target, tgt_mask=causal, tgt_is_causal=True))


def bart(attention):
    """Self and cross attention, each with its own products, positions with an offset of 2, norms behind the sums."""
    side = dict(layers=1, attention_heads=4, ffn_dim=64)
    config = transformers.BartConfig(
        vocab_size=ROWS, d_model=32, max_position_embeddings=ROWS, dropout=0.0, use_cache=False, pad_token_id=0,
        attn_implementation=attention, **{f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in side.items()})
    return transformers.BartForConditionalGeneration(config)


def convnext(attention):
    """Convolutions of each channel by itself, norms over channels, products as wide as four times the channels."""
    config = transformers.ConvNextConfig(num_stages=2, hidden_sizes=[16, 32], depths=[1, 2], num_labels=10)
    return transformers.ConvNextForImageClassification(config)


def resnet(attention):
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], layer_type="basic",
                                       num_labels=10)
    module = transformers.ResNetForImageClassification(config)
    generator = torch.Generator().manual_seed(7)
    for name, buffer in module.named_buffers():  # statistics of no data set, so that an error in them shows
        if buffer.is_floating_point():
            noise = torch.randn(buffer.shape, generator=generator)
            buffer.copy_(0.1 * noise if name.endswith("mean") else 1 + 0.5 * noise.abs())
    return module


def fuse_normalizations(module):
    """Folds batch norms into the convolutions, which is what exporters write of a module in evaluation mode."""
    module.eval()
    for layer in list(module.modules()):
        if isinstance(getattr(layer, "normalization", None), nn.BatchNorm2d):
            layer.convolution = nn.utils.fusion.fuse_conv_bn_eval(layer.convolution, layer.normalization)
            layer.normalization = nn.Identity()
    return module
