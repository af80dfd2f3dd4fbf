// More microbatches than samples are refused, and how many there may be is said.
// RUN: not tessera compile %S/../../models/gpt2.onnx --train sgd --microbatches 8 -o %t 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: error: {{.*}}input "input_ids" has a batch of 4, fewer than 8 microbatches; use at most 4

// Where axes cut the samples of a microbatch as well, blocks are padded: a program, with a warning of the waste. What such blocks cannot be is refused.
// RUN: tessera compile %S/../../models/gpt2.onnx --train sgd --dp 2 --microbatches 4 --to lower -o %t 2>&1 | FileCheck %s --check-prefix=WASTE
// RUN: not tessera compile %S/../../models/vit.onnx --train sgd --dp 2 --tp 4 --tp-mode 2d --pp 2 --microbatches 4 --to lower -o %t 2>&1 | FileCheck %s --check-prefix=REFUSED
// WASTE: warning: {{.*}}because blocks are padded
// REFUSED: error: {{.*}}cannot gather blocks of "micro": {{.*}}; train with fewer microbatches, or without
