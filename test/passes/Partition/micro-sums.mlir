// What normalises by a sum over the whole batch cannot be cut into microbatches: the sum is known after the last. In a pipeline the value of one
// microbatch may be another stage's.
// RUN: not tessera compile %S/../../models/resnet_train.onnx --train sgd --microbatches 2 -o %t 2>&1 | FileCheck %s
// RUN: not tessera compile %S/../../models/resnet_train.onnx --train sgd --pp 2 --microbatches 2 -o %t 2>&1 | FileCheck %s
// RUN: not tessera compile %S/../../models/resnet_train.onnx --train sgd --pp 2 --pp-schedule zero-bubble --microbatches 4 -o %t 2>&1 | FileCheck %s
// CHECK: error: node "/model/resnet/embedder/embedder/normalization/BatchNormalization"
// CHECK-SAME: uses a value of one microbatch beside a sum over all of them, which is known after the last; train without microbatches
