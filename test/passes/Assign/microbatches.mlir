// More microbatches than samples are refused, and how many there may be is said: of the whole batch, or of each rank's part.
// RUN: not tessera compile %S/../../models/gpt2.onnx --train sgd --microbatches 8 -o %t 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not tessera compile %S/../../models/gpt2.onnx --train sgd --dp 2 --sp 2 --microbatches 4 -o %t 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: not tessera compile %S/../../models/gpt2.onnx --train sgd --dp 8 --microbatches 2 -o %t 2>&1 | FileCheck %s --check-prefix=NONE
// WHOLE: error: {{.*}}input "input_ids" has a batch of 4: fewer than 8 microbatches; use at most 4
// PARTS: error: {{.*}}input "input_ids" has a batch of 4, 2 on each of 2 ranks that split it: fewer than 4 microbatches; use at most 2
// NONE: error: {{.*}}input "input_ids" has a batch of 4, 0 on each of 8 ranks that split it: fewer than 2 microbatches; use at most 1
