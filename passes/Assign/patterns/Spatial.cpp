// spatial: convolutions of images that are split by rows (and columns), with an exchange of the rows that
// windows share with a neighbour's.
#include "dialects/dist/Dist.h"
#include "passes/Assign/Pattern.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

namespace {

// One dimension of an image that ranks hold `block` rows of, all of `size` rows in order. A rank computes
// `outBlock` rows of the result, and the first one's window begins with row `rank * outBlock * stride - low`
// of the image: over the edges of the image there are zeros.
class SplitRows {
public:
  SplitRows(OpBuilder &b, Location loc, AxisList axes, int64_t dim, int64_t size, int64_t block,
            int64_t outBlock, int64_t stride, int64_t low, int64_t window)
      : b(b), loc(loc), axes(axes), dim(dim), size(size), block(block), step(outBlock * stride), low(low),
        rows((outBlock - 1) * stride + window) {
    // The first and the last rank have the farthest to look.
    for (int64_t rank : {int64_t(0), dist::product(axes) - 1}) {
      int64_t begin = rank * step - low;
      before = std::max(before, rank * block - begin);
      after = std::max(after, begin + rows - (rank + 1) * block);
    }
  }

  int64_t along() const { return dim; }
  int64_t covered() const { return rows; }
  /// Of the rank's rows those that its windows cover, its neighbours' among them.
  Value gather(Value image) {
    SmallVector<Value> parts;
    for (int64_t hop = hops(before); hop >= 1; --hop)
      parts.push_back(hopped(cut(image, block - reach(before, hop), reach(before, hop)), -hop));
    parts.push_back(image);
    for (int64_t hop = 1; hop <= hops(after); ++hop)
      parts.push_back(hopped(cut(image, 0, reach(after, hop)), hop));
    Value all = parts.size() == 1 ? parts[0] : concat(parts);
    Value first = swapped(all);
    SmallVector<int64_t> shape(shapeOf(first));
    shape[0] = rows;
    return swapped(
        nn::GatherOp::create(b, loc, like(first, shape), first, ids(), Value(), b.getI64IntegerAttr(-1)));
  }

  /// The transpose of `gather`: what was copied is added up where it came from.
  Value scatter(Value cotangent) {
    Value first = swapped(cotangent);
    SmallVector<int64_t> shape(shapeOf(first));
    shape[0] = before + block + after;
    Value all = swapped(nn::ScatterAddOp::create(b, loc, like(first, shape), ids(), first, Value()));
    Value sum = cut(all, before, block);
    int64_t at = 0;
    for (int64_t hop = hops(before); hop >= 1; --hop) {
      int64_t n = reach(before, hop);
      sum = add(sum, hopped(cut(all, at, n), hop), block - n);
      at += n;
    }
    at += block;
    for (int64_t hop = 1; hop <= hops(after); ++hop) {
      int64_t n = reach(after, hop);
      sum = add(sum, hopped(cut(all, at, n), -hop), 0);
      at += n;
    }
    return sum;
  }

private:
  static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
  static RankedTensorType like(Value value, ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
  }
  // How many ranks away the farthest of `reachable` rows is, and how many of them the rank that many away
  // holds.
  int64_t hops(int64_t reachable) const { return reachable <= 0 ? 0 : (reachable + block - 1) / block; }
  int64_t reach(int64_t reachable, int64_t hop) const {
    return std::min(block, reachable - (hop - 1) * block);
  }

  Value cut(Value value, int64_t start, int64_t count) {
    SmallVector<int64_t> starts(shapeOf(value).size(), 0), sizes(shapeOf(value)), steps(sizes.size(), 1);
    starts[dim] = start, sizes[dim] = count;
    return nn::SliceOp::create(b, loc, value, starts, sizes, steps);
  }
  Value concat(ArrayRef<Value> parts) {
    SmallVector<int64_t> shape(shapeOf(parts[0]));
    shape[dim] = before + block + after;
    return nn::ConcatOp::create(b, loc, like(parts[0], shape), parts, b.getI64IntegerAttr(dim));
  }
  // `part` added to the rows of `sum` from `at` on.
  Value add(Value sum, Value part, int64_t at) {
    SmallVector<int64_t> low(shapeOf(sum).size(), 0), high(low), none(low);
    low[dim] = at, high[dim] = block - at - shapeOf(part)[dim];
    return nn::AddOp::create(b, loc, sum.getType(), sum, nn::PadOp::create(b, loc, part, low, high, none));
  }
  // What the rank `by` further on holds. Round the end it is another image's edge, which no id names.
  Value hopped(Value value, int64_t by) {
    int64_t n = dist::product(axes);
    if (by % n == 0)
      return value;
    dist::CollectiveSpec spec{.kind = dist::CollectiveKind::Permute, .axes = axes, .shift = (by % n + n) % n};
    return dist::CollectiveOp::create(b, loc, value, spec);
  }
  // The split dimension and dimension 0 exchanged.
  Value swapped(Value value) {
    SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(value).size()));
    std::swap(perm[0], perm[dim]);
    return nn::TransposeOp::create(b, loc, value, perm);
  }
  Value number(int64_t value) {
    auto type = RankedTensorType::get({}, b.getI64Type());
    return nn::ConstantOp::create(b, loc, type, DenseElementsAttr::get(type, value));
  }
  // For each row that the windows cover its place among those at hand, or -1 over the edge of the image.
  Value ids() {
    auto list = RankedTensorType::get({rows}, b.getI64Type()),
         one = RankedTensorType::get({1}, b.getI64Type());
    auto counted = [&](RankedTensorType type, AxisList over, int64_t n) -> Value {
      return dist::LogicalIndexOp::create(b, loc, type, dist::AxesAttr::get(b.getContext(), over), n, n);
    };
    Value offset = counted(list, {}, rows), rank = counted(one, axes, dist::product(axes));
    auto affine = [&](int64_t factor, int64_t constant) -> Value {
      Value begin = nn::AddOp::create(b, loc, one, nn::MulOp::create(b, loc, one, rank, number(factor)),
                                      number(constant));
      return nn::AddOp::create(b, loc, list, offset, begin);
    };
    Value row = affine(step, -low), place = affine(step - block, before - low);
    auto bits = RankedTensorType::get({rows}, b.getI1Type());
    Value inside = nn::AndOp::create(b, loc, bits, nn::CompareOp::create(b, loc, row, number(0), "ge"),
                                     nn::CompareOp::create(b, loc, row, number(size), "lt"));
    return nn::SelectOp::create(b, loc, list, inside, place, number(-1));
  }

  OpBuilder &b;
  Location loc;
  AxisList axes;
  int64_t dim, size, block, step, low, rows, before = 0, after = 0;
};

// A convolution whose image is split in some dimensions, and its gradients, which have the same attributes.
template <class Op> class SplitConv {
public:
  SplitConv(OpBuilder &b, Op op, Value image, Value result)
      : b(b), op(op), pads(op.getPads()), image(plain(image)), result(plain(result)) {
    dist::Layout from = dist::getLayout(image.getType()), to = dist::getLayout(result.getType());
    RankedTensorType held = dist::localType(cast<RankedTensorType>(image.getType())),
                     computed = dist::localType(cast<RankedTensorType>(result.getType()));
    int64_t spatial = op.getStrides().size();
    for (int64_t d = 0; d < spatial; ++d) {
      AxisList axes = axesOf(from.dims[2 + d]);
      ok &= axes == axesOf(to.dims[2 + d]);
      if (axes.empty())
        continue;
      int64_t window = (windowOf(op)[d] - 1) * op.getDilations()[d] + 1;
      rows.emplace_back(b, op.getLoc(), axes, 2 + d, this->image.getDimSize(2 + d), held.getDimSize(2 + d),
                        computed.getDimSize(2 + d), op.getStrides()[d], op.getPads()[d], window);
      split.push_back(2 + d);
      pads[d] = pads[spatial + d] = 0;
    }
  }
  /// What windows cover of the image, without what pads whole dimensions.
  Value gather(Value local) {
    local = sized(local, false);
    for (SplitRows &dimension : rows)
      local = dimension.gather(local);
    return local;
  }
  Value scatter(Value cotangent, RankedTensorType type) {
    for (SplitRows &dimension : llvm::reverse(rows))
      cotangent = dimension.scatter(cotangent);
    return padded(cotangent, type);
  }
  /// The rows of the result, or of its cotangent, that the rank computes, without what pads whole dimensions.
  Value trimmed(Value local) { return sized(local, true); }
  Value padded(Value value, RankedTensorType type) {
    auto from = cast<RankedTensorType>(value.getType());
    if (from == type)
      return value;
    SmallVector<int64_t> none(type.getRank(), 0), high;
    for (auto [to, n] : llvm::zip(type.getShape(), from.getShape()))
      high.push_back(to - n);
    return nn::PadOp::create(b, op.getLoc(), value, none, high, none);
  }
  /// The type of what windows cover.
  RankedTensorType gatheredType(RankedTensorType local) {
    SmallVector<int64_t> shape(sizedType(local, false).getShape());
    for (SplitRows &dimension : rows)
      shape[dimension.along()] = dimension.covered();
    return RankedTensorType::get(shape, local.getElementType());
  }
  /// `local` with the logical sizes of the image, or of the result, in the dimensions that are not split.
  RankedTensorType sizedType(RankedTensorType local, bool ofResult) {
    SmallVector<int64_t> shape(local.getShape());
    for (size_t d = 2; d < shape.size(); ++d)
      if (!llvm::is_contained(split, int64_t(d)))
        shape[d] = (ofResult ? result : image).getDimSize(d);
    return RankedTensorType::get(shape, local.getElementType());
  }

  OpBuilder &b;
  Op op;
  SmallVector<int64_t> pads;
  bool ok = true;

private:
  static RankedTensorType plain(Value value) { return cast<RankedTensorType>(value.getType()); }
  static ArrayRef<int64_t> windowOf(nn::ConvOp op) { return plain(op.getW()).getShape().drop_front(2); }
  static ArrayRef<int64_t> windowOf(nn::ConvGradInputOp op) {
    return plain(op.getW()).getShape().drop_front(2);
  }
  static ArrayRef<int64_t> windowOf(nn::ConvGradWeightsOp op) {
    return plain(op.getDw()).getShape().drop_front(2);
  }
  static AxisList axesOf(ArrayRef<dist::Atom> atoms) {
    AxisList axes;
    for (const dist::Atom &atom : atoms)
      axes.append(atom.axes.begin(), atom.axes.end());
    return axes;
  }
  Value sized(Value local, bool ofResult) {
    auto from = cast<RankedTensorType>(local.getType()), to = sizedType(from, ofResult);
    if (from == to)
      return local;
    SmallVector<int64_t> zeros(to.getRank(), 0), ones(to.getRank(), 1);
    return nn::SliceOp::create(b, op.getLoc(), local, zeros, to.getShape(), ones);
  }

  RankedTensorType image, result;
  SmallVector<SplitRows> rows;
  SmallVector<int64_t> split;
};

class Spatial : public tessera::Pattern {
  StringRef name() const override { return "spatial"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"height", "width"};
    return names;
  }
  unsigned fewestAxes() const override { return 1; }
  StringRef doc() const override {
    return "Images are split by rows, and by columns where a second axis is given; weights are whole. Each "
           "rank sends the rows at its edges that windows of "
           "its neighbours cover: forward, again for the gradient of the weights, and their cotangents the "
           "other way; (k-1) d rows a side at most where the "
           "blocks of image and result begin together (k the window, d its dilation). The gradient of the "
           "weights is a partial sum.";
  }
  Applies applies(nn::FactorOpInterface op, ArrayRef<AxisList> axes) const override {
    auto conv = dyn_cast<nn::ConvOp>(op.getOperation());
    if (!conv)
      return {"'spatial' splits the image of a convolution, and this operator is none"};
    if (axes.size() > conv.getStrides().size())
      return {"'spatial' was given " + std::to_string(axes.size()) + " axes for a convolution of " +
              std::to_string(conv.getStrides().size()) +
              " dimensions; name one axis for each dimension that is to be split"};
    for (auto [d, list] : llvm::enumerate(axes))
      for (Value value : {Value(conv.getX()), Value(conv.getResult())})
        if (int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(2 + d), n = dist::product(list);
            size < n)
          return {"'spatial' has no row for each of " + std::to_string(n) + " ranks in an image of " +
                  std::to_string(size) + "; split fewer ways, or leave this convolution out"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, ArrayRef<AxisList> axes, const Surroundings &) const override {
    nn::FactorRule rule = op.getFactorRule();
    Choice choice;
    FactorSplits image;
    for (auto [d, list] : llvm::enumerate(axes)) {
      choice.compute.push_back({rule.results[0][2 + d], list});
      image.push_back({rule.operands[0][2 + d], list});
    }
    choice.stream = Stream{{{0, image}}};
    return choice;
  }
  LogicalResult expand(nn::LocalBuilder &b, nn::FactorOpInterface op, ArrayRef<AxisList>, ValueRange operands,
                       SmallVectorImpl<Value> &results) const override {
    auto local = [&](unsigned r) {
      return dist::localType(cast<RankedTensorType>(op->getResult(r).getType()));
    };
    auto mismatch = [&] {
      return op.emitOpError("has an image and a result that are split otherwise in a spatial dimension");
    };
    if (auto conv = dyn_cast<nn::ConvOp>(op.getOperation())) {
      SplitConv<nn::ConvOp> split(b, conv, conv.getX(), conv.getResult());
      if (!split.ok)
        return mismatch();
      Value y = nn::ConvOp::create(b, op.getLoc(), split.sizedType(local(0), true), split.gather(operands[0]),
                                   operands[1], conv.getBias() ? operands[2] : Value(), conv.getStridesAttr(),
                                   b.getDenseI64ArrayAttr(split.pads), conv.getDilationsAttr(),
                                   conv.getGroupsAttr());
      return results.push_back(split.padded(y, local(0))), success();
    }
    if (auto grad = dyn_cast<nn::ConvGradWeightsOp>(op.getOperation())) {
      SplitConv<nn::ConvGradWeightsOp> split(b, grad, grad.getX(), grad.getDy());
      if (!split.ok)
        return mismatch();
      results.push_back(nn::ConvGradWeightsOp::create(b, op.getLoc(), local(0), split.gather(operands[0]),
                                                      split.trimmed(operands[1]), grad.getStridesAttr(),
                                                      b.getDenseI64ArrayAttr(split.pads),
                                                      grad.getDilationsAttr(), grad.getGroupsAttr()));
      return success();
    }
    if (auto grad = dyn_cast<nn::ConvGradInputOp>(op.getOperation())) {
      SplitConv<nn::ConvGradInputOp> split(b, grad, grad.getDx(), grad.getDy());
      if (!split.ok)
        return mismatch();
      Value dx = nn::ConvGradInputOp::create(b, op.getLoc(), split.gatheredType(local(0)), operands[0],
                                             split.trimmed(operands[1]), grad.getStridesAttr(),
                                             b.getDenseI64ArrayAttr(split.pads), grad.getDilationsAttr(),
                                             grad.getGroupsAttr());
      return results.push_back(split.scatter(dx, local(0))), success();
    }
    return op.emitOpError("is neither a convolution nor the gradient of one");
  }
};
RegisterPattern<Spatial> spatial;
} // namespace
