#include "dialects/nn/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "runtime/core/philox.h"
#include <numbers>

using namespace mlir;
using namespace tessera::nn;

Value PhiloxEmitter::integer(int64_t value, unsigned bits) {
  return arith::ConstantOp::create(
      b, loc, b.getIntegerAttr(b.getIntegerType(bits), APInt(bits, uint64_t(value), false, true)));
}
Value PhiloxEmitter::low(Value x) {
  return x.getType().isInteger(32) ? x : Value(arith::TruncIOp::create(b, loc, b.getI32Type(), x));
}
Value PhiloxEmitter::high(Value x) {
  return x.getType().isInteger(32) ? integer(0, 32) : low(arith::ShRUIOp::create(b, loc, x, integer(32, 64)));
}
Value PhiloxEmitter::shifted(Value number, int bits) {
  return arith::ShRUIOp::create(b, loc, number, integer(bits, number.getType().getIntOrFloatBitWidth()));
}
Value PhiloxEmitter::bit(Value number, int bit) {
  Value masked = arith::AndIOp::create(b, loc, low(number), integer(1 << bit, 32));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked, integer(0, 32));
}
Value PhiloxEmitter::select(Value bit, Value x, Value y) {
  return arith::SelectOp::create(b, loc, bit, x, y);
}

void PhiloxEmitter::begin(Value keyValue, Value idValue, ArrayRef<int64_t> shape) {
  key[0] = low(keyValue), key[1] = high(keyValue), id[0] = low(idValue), id[1] = high(idValue);
  double elements = 1;
  for (int64_t size : shape)
    elements *= double(size);
  numbers = elements < 0x1p31 ? b.getI32Type() : b.getI64Type();
}

Value PhiloxEmitter::number(ArrayRef<Value> positions, ArrayRef<int64_t> shape) {
  unsigned bits = numbers.getIntOrFloatBitWidth();
  Value sum;
  for (auto [position, size] : llvm::zip(positions, shape)) {
    Value own = position;
    if (own.getType().isIndex())
      own = arith::IndexCastOp::create(b, loc, numbers, own);
    else if (bits == 32)
      own = low(own);
    sum = sum ? add(mul(sum, integer(size, bits)), own) : own;
  }
  return sum ? sum : integer(0, bits);
}

std::array<Value, 4> PhiloxEmitter::words(Value block) {
  std::array<Value, 4> counter = {low(block), high(block), id[0], id[1]};
  Value k0 = key[0], k1 = key[1];
  auto exclusive = [&](Value x, Value y) -> Value { return arith::XOrIOp::create(b, loc, x, y); };
  for (int round = 0; round < 10; ++round) {
    auto x = arith::MulUIExtendedOp::create(b, loc, counter[0], integer(0xD2511F53, 32));
    auto y = arith::MulUIExtendedOp::create(b, loc, counter[2], integer(0xCD9E8D57, 32));
    counter = {exclusive(exclusive(y.getHigh(), counter[1]), k0), y.getLow(),
               exclusive(exclusive(x.getHigh(), counter[3]), k1), x.getLow()};
    if (round < 9) {
      k0 = add(k0, integer(0x9E3779B9, 32));
      k1 = add(k1, integer(0xBB67AE85, 32));
    }
  }
  return counter;
}

Value PhiloxEmitter::word(Value number) {
  std::array<Value, 4> w = words(shifted(number, 2));
  Value odd = bit(number, 0);
  return select(bit(number, 1), select(odd, w[3], w[2]), select(odd, w[1], w[0]));
}

Value PhiloxEmitter::dropped(Value x, Value number, double ratio) {
  Value kept = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, word(number),
                                     integer(rt::dropThreshold(ratio), 32));
  return select(kept, mul(x, constant(x.getType(), 1 / (1 - ratio))), constant(x.getType(), 0));
}

Value PhiloxEmitter::uniform(Value number) {
  Value upper = shifted(word(number), 8);
  return mul(arith::SIToFPOp::create(b, loc, b.getF32Type(), upper), constant(b.getF32Type(), 0x1p-24));
}

Value PhiloxEmitter::normal(Value number) {
  std::array<Value, 4> w = words(shifted(number, 1));
  Value odd = bit(number, 0);
  Type f32 = b.getF32Type();
  // Never zero: its logarithm is needed.
  Value radius = add(arith::UIToFPOp::create(b, loc, f32, select(odd, w[2], w[0])), constant(f32, 0.5));
  Value turn = arith::SIToFPOp::create(b, loc, f32, shifted(select(odd, w[3], w[1]), 8));
  Value logarithm = math::LogOp::create(b, loc, mul(radius, constant(f32, 0x1p-32)));
  Value length = math::SqrtOp::create(b, loc, mul(logarithm, constant(f32, -2)));
  return mul(length, math::CosOp::create(b, loc, mul(turn, constant(f32, 2 * std::numbers::pi * 0x1p-24))));
}
