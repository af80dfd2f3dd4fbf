"""The decoders of `transformers` that zoo.py exports besides GPT-2 and Llama, each with what sets it apart: 2 layers,
32 wide, 4 heads."""
import transformers

# 260 rows of 32: the exporters fold and copy tensors of at most 8192 elements, so that ties and positions would be lost.
ROWS = 260
COMMON = dict(vocab_size=ROWS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=ROWS,
              use_cache=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
GATED = dict(intermediate_size=56, num_key_value_heads=2, tie_word_embeddings=False)
PLAIN = dict(intermediate_size=64, tie_word_embeddings=False)
# The library has no SDPA for Bloom, and none that knows of Gemma's caps.
EAGER = ("gemma2", "bloom")
# Gemma's gains are one more than their parameters, and exporters fold the sums.
FOLDED = {"gemma2": ("model.norm.weight", *(f"model.layers.{layer}.{place}_layernorm.weight" for layer in (0, 1) for place in (
    "input", "post_attention", "pre_feedforward", "post_feedforward")))}


def rotary(part):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=part))


# model -> (the library's prefix of its classes, its configuration)
CONFIGS = {
    # positions by a table with an offset of 2, the head tied, q scaled before the heads
    "opt": ("OPT", dict(ffn_dim=64, word_embed_proj_dim=32, dropout=0.0, attention_dropout=0.0)),
    # q, k and v packed by head, half of each head rotated, attention and MLP side by side
    "gptneox": ("GPTNeoX", dict(PLAIN, **rotary(0.5), attention_dropout=0.0, hidden_dropout=0.0)),
    # biases of q, k and v only
    "qwen2": ("Qwen2", GATED),
    # q and k normalised per head
    "qwen3": ("Qwen3", dict(GATED, head_dim=8)),
    # a window of 8 keys
    "mistral": ("Mistral", dict(GATED, head_dim=8, sliding_window=8)),
    # attention and MLP side by side on one norm, half of each head rotated, biases everywhere, the head's too
    "phi": ("Phi", dict(PLAIN, **rotary(0.5), embd_pdrop=0.0, resid_pdrop=0.0, attention_dropout=0.0)),
    # scores and logits capped by tanh, four norms a layer, every second layer a window of 8 keys
    "gemma2": ("Gemma2", dict(GATED, head_dim=8, query_pre_attn_scalar=8, sliding_window=8, attn_logit_softcapping=5.0,
                              final_logit_softcapping=10.0, tie_word_embeddings=True)),
    # no positions but biases of the scores that grow with the distance, q, k and v packed by head
    "bloom": ("Bloom", dict(n_layer=2, n_head=4, hidden_dropout=0.0, attention_dropout=0.0)),
    # one head of keys and values for all queries, attention and MLP side by side
    "falcon": ("Falcon", dict(num_attention_heads=4, multi_query=True, parallel_attn=True, bias=False, alibi=False,
                              new_decoder_architecture=False, hidden_dropout=0.0, attention_dropout=0.0)),
}


def build(model, attention):
    prefix, options = CONFIGS[model]
    if model in EAGER:
        attention = "eager"
    config = getattr(transformers, f"{prefix}Config")(**{**COMMON, **options}, attn_implementation=attention)
    return getattr(transformers, f"{prefix}ForCausalLM")(config)
