// RUN: tessera-opt %s -canonicalize -cse | FileCheck %s

!whole = tensor<8xf32, #dist.layout<[[8]]>>
!split = tensor<8xf32, #dist.layout<[[8 : "a"=2]]>>
!other = tensor<8xf32, #dist.layout<[[8 : "b"=2]]>>

// CHECK-LABEL: func.func @identity
func.func @identity(%x: !split) -> !split {
  // CHECK-NOT: dist.reshard
  // CHECK: return
  %0 = dist.reshard %x : !split -> !split
  return %0 : !split
}

// CHECK-LABEL: func.func @chain
func.func @chain(%x: !split) -> !other {
  // CHECK-NEXT: dist.reshard %{{.*}} : {{.*}}[8 : "a"=2]{{.*}} -> {{.*}}[8 : "b"=2]
  // CHECK-NEXT: return
  %0 = dist.reshard %x : !split -> !whole
  %1 = dist.reshard %0 : !whole -> !other
  return %1 : !other
}

// The whole copy exists anyway: a slice of it is free.
// CHECK-LABEL: func.func @chain_with_another_reader
func.func @chain_with_another_reader(%x: !split) -> (!whole, !other) {
  // CHECK: %[[WHOLE:.*]] = dist.reshard
  // CHECK: dist.reshard %[[WHOLE]]
  %0 = dist.reshard %x : !split -> !whole
  %1 = dist.reshard %0 : !whole -> !other
  return %0, %1 : !whole, !other
}

// One gather serves both readers.
// CHECK-LABEL: func.func @common
func.func @common(%x: !split) -> (!whole, !whole) {
  // CHECK-COUNT-1: dist.reshard
  // CHECK-NOT: dist.reshard
  %0 = dist.reshard %x : !split -> !whole
  %1 = dist.reshard %x : !split -> !whole
  return %0, %1 : !whole, !whole
}
