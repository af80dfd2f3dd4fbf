"""Exports the demonstration's byte-level GPT (GPT-2 architecture over the 256 byte values), freshly initialised, into
python/gpt_bytes.onnx: `python export_demo.py`."""
import pathlib
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from export import strip_paths

BATCH, SEQ = 8, 128


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    # At 128 wide the library's 0.02 learns nothing for the first few hundred steps.
    config = GPT2Config(vocab_size=256, n_positions=SEQ, n_embd=128, n_layer=4, n_head=4, initializer_range=0.06,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=None,
                        eos_token_id=None)
    model = GPT2LMHeadModel(config).eval()
    path = pathlib.Path(__file__).resolve().parents[2] / "python" / "gpt_bytes.onnx"
    path.parent.mkdir(exist_ok=True)
    ids = torch.zeros((BATCH, SEQ), dtype=torch.int64)
    torch.onnx.export(model, (), str(path), kwargs={"input_ids": ids}, dynamo=True, external_data=False,
                      input_names=["input_ids"], output_names=["logits"], opset_version=20, verbose=False)
    strip_paths(path)
    print(f"{path}: {path.stat().st_size} bytes, {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    main()
