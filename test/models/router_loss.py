"""Exports mixtral_loss.onnx: a mixture of experts that computes its loss itself, cross entropy of the next token plus the router's load-balance
loss. Run in an environment with torch and transformers: python test/models/router_loss.py"""
import pathlib

import torch
import transformers

BATCH, TOKENS, VOCABULARY = 4, 16, 64


class WithLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


torch.manual_seed(0)
config = transformers.MixtralConfig(
    vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, num_local_experts=4,
    num_experts_per_tok=2, max_position_embeddings=TOKENS, use_cache=False, output_router_logits=True, router_aux_loss_coef=0.1,
    tie_word_embeddings=False, sliding_window=None, experts_implementation="batched_mm")
model = WithLoss(transformers.MixtralForCausalLM(config)).eval()
ids, labels = torch.randint(0, VOCABULARY, (2, BATCH, TOKENS)).unbind()
torch.onnx.export(model, (ids, labels.clone()), str(pathlib.Path(__file__).parent / "mixtral_loss.onnx"), dynamo=True, external_data=False,
                  input_names=["input_ids", "labels"], output_names=["loss"])
