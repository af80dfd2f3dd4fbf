"""The mixtures of experts of `transformers` that zoo.py exports, each with what sets it apart: 2 layers, 32 wide, 4 heads. Only the experts'
implementation "batched_mm" can be exported: it gathers the weights of each token's experts."""
import transformers

import decoders

# model -> (the library's prefix of its classes, its configuration)
CONFIGS = {
    # weights of the 2 best of 4 experts, adding up to one
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24, num_key_value_heads=2, head_dim=8)),
    # weights as the router's softmax has them, and a shared expert with a gate
    "qwen2moe": ("Qwen2Moe", dict(num_experts=6, num_experts_per_tok=2, intermediate_size=40, moe_intermediate_size=16,
                                  shared_expert_intermediate_size=24, num_key_value_heads=2, decoder_sparse_step=1, mlp_only_layers=[])),
    # 3 of 8, q and k normalised
    "olmoe": ("Olmoe", dict(num_experts=8, num_experts_per_tok=3, intermediate_size=16, num_key_value_heads=4)),
}


def build(model, attention):
    prefix, options = CONFIGS[model]
    config = getattr(transformers, f"{prefix}Config")(**{**decoders.COMMON, "tie_word_embeddings": False, **options}, attn_implementation=attention,
                                                      experts_implementation="batched_mm")
    return getattr(transformers, f"{prefix}ForCausalLM")(config)
