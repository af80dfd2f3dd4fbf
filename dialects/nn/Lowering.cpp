#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

Type tessera::nn::loweredType(Type element) {
  return element.isUnsignedInteger() ? IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth())
                                     : element;
}

RankedTensorType tessera::nn::loweredTensor(Value value) {
  return RankedTensorType::get(shapeOf(value), loweredType(elementOf(value)));
}

Value LinalgEmitter::empty(ArrayRef<int64_t> shape, Type element) {
  return tensor::EmptyOp::create(b, loc, shape, loweredType(element));
}

Value LinalgEmitter::filled(ArrayRef<int64_t> shape, Type element, double value) {
  return linalg::FillOp::create(b, loc, constant(element, value), empty(shape, element)).getResult(0);
}

SmallVector<Value> LinalgEmitter::generic(ArrayRef<Lettered> inputs, ArrayRef<Lettered> inits, Body body) {
  loops.clear();
  auto collect = [&](ArrayRef<Lettered> values) {
    for (const Lettered &value : values)
      for (char c : value.letters)
        if (c != '1' && loops.find(c) == std::string::npos)
          loops.push_back(c);
  };
  collect(inits);
  collect(inputs);
  SmallVector<utils::IteratorType> iterators;
  for (char c : loops)
    iterators.push_back(
        llvm::all_of(inits, [&](const Lettered &v) { return v.letters.find(c) != std::string::npos; })
            ? utils::IteratorType::parallel
            : utils::IteratorType::reduction);
  SmallVector<AffineMap> maps;
  SmallVector<Value> ins, outs;
  SmallVector<Type> types;
  auto addMap = [&](const Lettered &value) {
    SmallVector<AffineExpr> exprs;
    for (char c : value.letters)
      exprs.push_back(c == '1' ? b.getAffineConstantExpr(0) : b.getAffineDimExpr(loops.find(c)));
    maps.push_back(AffineMap::get(loops.size(), 0, exprs, b.getContext()));
  };
  for (const Lettered &input : inputs) {
    addMap(input);
    ins.push_back(input.value);
  }
  for (const Lettered &init : inits) {
    addMap(init);
    outs.push_back(init.value);
    types.push_back(init.value.getType());
  }
  auto op = linalg::GenericOp::create(
      b, loc, types, ins, outs, maps, iterators, [&](OpBuilder &inner, Location, ValueRange args) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPoint(inner.getInsertionBlock(), inner.getInsertionPoint());
        SmallVector<Value> scalars(args);
        SmallVector<Value> yielded = body(scalars);
        linalg::YieldOp::create(b, loc, yielded);
      });
  return SmallVector<Value>(op.getResults());
}

Value LinalgEmitter::map(ArrayRef<Lettered> inputs, StringRef out, ArrayRef<int64_t> shape, Type element,
                         function_ref<Value(ArrayRef<Value>)> body) {
  return generic(inputs, {{empty(shape, element), out.str()}},
                 [&](ArrayRef<Value> args) { return SmallVector<Value>{body(args.drop_back())}; })[0];
}

Value LinalgEmitter::sum(ArrayRef<Lettered> inputs, StringRef out, ArrayRef<int64_t> shape, Type element,
                         function_ref<Value(ArrayRef<Value>)> body) {
  return generic(inputs, {{filled(shape, element, 0), out.str()}}, [&](ArrayRef<Value> args) {
    return SmallVector<Value>{add(args.back(), body(args.drop_back()))};
  })[0];
}

Value LinalgEmitter::max(Lettered input, StringRef out, ArrayRef<int64_t> shape) {
  Type element = elementOf(input.value);
  return generic({input}, {{filled(shape, element, lowest(element)), out.str()}}, [&](ArrayRef<Value> args) {
    return SmallVector<Value>{arith::MaximumFOp::create(b, loc, args[1], args[0])};
  })[0];
}

Value LinalgEmitter::position(char letter) { return linalg::IndexOp::create(b, loc, loops.find(letter)); }

Value LinalgEmitter::constant(Type type, double value) {
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  int64_t integer = value < 0x1p63 ? int64_t(value) : int64_t(uint64_t(value));
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(loweredType(type), integer));
}

Value LinalgEmitter::index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }

Value LinalgEmitter::add(Value x, Value y) {
  return isa<FloatType>(x.getType()) ? Value(arith::AddFOp::create(b, loc, x, y))
                                     : Value(arith::AddIOp::create(b, loc, x, y));
}
Value LinalgEmitter::sub(Value x, Value y) {
  return isa<FloatType>(x.getType()) ? Value(arith::SubFOp::create(b, loc, x, y))
                                     : Value(arith::SubIOp::create(b, loc, x, y));
}
Value LinalgEmitter::mul(Value x, Value y) {
  return isa<FloatType>(x.getType()) ? Value(arith::MulFOp::create(b, loc, x, y))
                                     : Value(arith::MulIOp::create(b, loc, x, y));
}
Value LinalgEmitter::div(Value x, Value y) {
  return isa<FloatType>(x.getType()) ? Value(arith::DivFOp::create(b, loc, x, y))
                                     : Value(arith::DivSIOp::create(b, loc, x, y));
}
Value LinalgEmitter::exp(Value x) { return math::ExpOp::create(b, loc, x); }
