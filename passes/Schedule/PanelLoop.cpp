// See PanelLoop.h.
#include "passes/Schedule/PanelLoop.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/exec/Exec.h"
#include "passes/Memory/Liveness.h"
#include <set>

using namespace mlir;
using namespace tessera;

// The dimension along which a collective lengthens or shortens its source, if ranks' blocks are consecutive
// positions of it.
static std::optional<unsigned> blockDimension(dist::CollectiveOp op, int64_t atom) {
  auto source = cast<RankedTensorType>(op.getSource().getType()),
       result = cast<RankedTensorType>(op.getType());
  if (source.getRank() != result.getRank())
    return std::nullopt;
  for (unsigned d = 0; d < source.getRank(); ++d) {
    if (source.getDimSize(d) == result.getDimSize(d))
      continue;
    int64_t before = 1, atoms = 1;
    for (unsigned other = 0; other < d; ++other)
      before *= source.getDimSize(other);
    for (int64_t other = 0; other < atom; ++other)
      atoms *= op.getShape()[other];
    return before == atoms ? std::optional(d) : std::nullopt;
  }
  return std::nullopt;
}

static std::optional<unsigned> gatheredDimension(dist::CollectiveOp op) {
  bool isGather = op && op.getKind() == dist::CollectiveKind::AllGather && !dist::kStageSum.isOn(op);
  return isGather ? blockDimension(op, *op.getConcat()) : std::nullopt;
}

static std::optional<unsigned> scatteredDimension(dist::CollectiveOp op) {
  bool isScatter = op.getKind() == dist::CollectiveKind::ReduceScatter && !dist::kStageSum.isOn(op);
  return isScatter ? blockDimension(op, *op.getSplit()) : std::nullopt;
}

// The mask of a gathered operand's padding, if each rank can mask its own block instead.
static dist::MaskPaddingOp blockMask(Operation *op) {
  auto mask = dyn_cast_or_null<dist::MaskPaddingOp>(op);
  auto gather = mask ? mask.getSource().getDefiningOp<dist::CollectiveOp>() : nullptr;
  if (!gatheredDimension(gather) || mask.getPiece())
    return nullptr;
  int64_t atom = *gather.getConcat(),
          extents[] = {1, gather.getShape()[atom] * dist::product(gather.getAxes().getAxes()), 1};
  for (auto [i, extent] : llvm::enumerate(gather.getShape()))
    if (int64_t(i) != atom)
      extents[int64_t(i) < atom ? 0 : 2] *= extent;
  return ArrayRef<int64_t>(extents) == mask.getShape() ? mask : nullptr;
}

// The all-gather that an operand comes from, perhaps masked.
static dist::CollectiveOp gatherOf(Value operand) {
  Operation *def = operand.getDefiningOp();
  if (dist::MaskPaddingOp mask = blockMask(def))
    def = mask.getSource().getDefiningOp();
  auto gather = dyn_cast_or_null<dist::CollectiveOp>(def);
  return gatheredDimension(gather) ? gather : nullptr;
}

// The reduce-scatter beside a product that alone reads its result.
static dist::CollectiveOp scatterOf(Operation *product) {
  Value result = product->getResult(0);
  auto scatter = result.hasOneUse() ? dyn_cast<dist::CollectiveOp>(*result.user_begin()) : nullptr;
  bool isBeside = scatter && scatter->getBlock() == product->getBlock();
  return isBeside && scatteredDimension(scatter) ? scatter : nullptr;
}

// Everything that reads the gathered value, masked or not.
static SmallVector<OpOperand *> readersOf(dist::CollectiveOp gather) {
  SmallVector<OpOperand *> readers;
  for (OpOperand &use : gather->getUses())
    if (dist::MaskPaddingOp mask = blockMask(use.getOwner()))
      for (OpOperand &behind : mask->getUses())
        readers.push_back(&behind);
    else
      readers.push_back(&use);
  return readers;
}

static int64_t ranksOf(dist::CollectiveOp op) { return dist::product(op.getAxes().getAxes()); }

// Adds a product and all that comes with it, or says that it cannot.
bool PanelLoop::add(nn::PanelOpInterface product, int factor, const nn::Library &library) {
  auto factorOp = cast<nn::FactorOpInterface>(product.getOperation());
  nn::FactorRule rule = factorOp.getFactorRule();
  for (const Product &other : products)
    if (other.op == product)
      return other.factor == factor;
  if (!products.empty() && product->getBlock() != products.front().op->getBlock())
    return false;
  const nn::Factor &along = rule.factors[factor];
  if ((along.kind != nn::FactorKind::PassThrough && along.kind != nn::FactorKind::Reduction) ||
      along.ordered || !library.computes(product) || (extent && along.size != extent))
    return false;
  extent = along.size;
  products.push_back({product, factor, {}});
  size_t at = products.size() - 1;
  if (dist::CollectiveOp scatter = scatterOf(product);
      scatter && rule.results[0][*scatteredDimension(scatter)] == factor)
    products[at].scatter = scatter;
  for (auto [i, operand] : llvm::enumerate(product->getOperands())) {
    dist::CollectiveOp gather = gatherOf(operand);
    std::optional<unsigned> d = gatheredDimension(gather);
    if (!d || rule.operands[i][*d] != factor || gather->getBlock() != product->getBlock() ||
        llvm::is_contained(gathers, gather))
      continue;
    // All who read the gathered operand read its panels, or none.
    PanelLoop with = *this;
    with.gathers.push_back(gather);
    bool all = true;
    for (OpOperand *use : readersOf(gather)) {
      auto reader = dyn_cast<nn::PanelOpInterface>(use->getOwner());
      all = all && reader && llvm::count_if(reader->getOperands(), [&](Value other) {
                               return gatherOf(other) == gather;
                             }) == 1;
      if (!all)
        break;
      nn::FactorRule readerRule = cast<nn::FactorOpInterface>(reader.getOperation()).getFactorRule();
      all = with.add(reader, readerRule.operands[use->getOperandNumber()][*d], library);
    }
    if (all)
      *this = std::move(with);
  }
  return true;
}

std::vector<PanelLoop> PanelLoop::of(nn::PanelOpInterface product, const nn::Library &library,
                                     const Hazards &hazards) {
  std::vector<PanelLoop> loops;
  auto factorOp = dyn_cast<nn::FactorOpInterface>(product.getOperation());
  if (!factorOp || product->getNumResults() != 1)
    return loops;
  // Of most products no operand is gathered and no result scattered, and their calls need not be described.
  if (!scatterOf(product) && llvm::none_of(product->getOperands(), gatherOf))
    return loops;
  for (int factor = 0, n = factorOp.getFactorRule().factors.size(); factor < n; ++factor) {
    PanelLoop loop;
    if (!loop.add(product, factor, library) || loop.streamedBytes() == 0)
      continue;
    llvm::sort(loop.products, [](Product a, Product b) { return a.op->isBeforeInBlock(b.op); });
    if (loop.place(hazards))
      loops.push_back(std::move(loop));
  }
  return loops;
}

std::optional<PanelLoop> PanelLoop::chosen(nn::PanelOpInterface product, dist::When when,
                                           const nn::Library &library, int64_t threads,
                                           const Hazards &hazards) {
  std::optional<PanelLoop> best;
  if (when == dist::When::Never)
    return best;
  for (PanelLoop &candidate : of(product, library, hazards))
    if (!best || candidate.streamedBytes() > best->streamedBytes())
      best = std::move(candidate);
  if (!best || when == dist::When::Always)
    return best;
  PanelLoopTime time = timeOf(*best, threads);
  return time.panels < time.whole ? std::move(best) : std::nullopt;
}

int64_t PanelLoop::streamedBytes() const {
  int64_t bytes = 0;
  for (dist::CollectiveOp gather : gathers)
    bytes += dist::bytesOf(gather.getType());
  for (const Product &product : products)
    if (product.scatter)
      bytes += dist::bytesOf(product.op->getResult(0).getType());
  return bytes;
}

// The variable that a value is, with its reshapes.
static StringRef variableOf(Value value) {
  while (value.getDefiningOp() && isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto read = value.getDefiningOp<nn::ReadOp>();
  return read ? read.getVariable() : StringRef();
}

// Finds a place where everything can happen: behind all that is read, before all that reads a result.
// Variables are read there, so none may have been written since it was gathered or multiplied.
bool PanelLoop::place(const Hazards &hazards) {
  Block *block = products.front().op->getBlock();
  Operation *begin = products.front().op, *end = products.back().op;
  at = begin;
  SmallVector<std::pair<Value, Operation *>> reads;
  for (dist::CollectiveOp gather : gathers)
    reads.push_back({gather.getSource(), gather});
  for (const Product &product : products)
    for (Value operand : product.op->getOperands())
      if (dist::CollectiveOp gather = gatherOf(operand); !gather || !llvm::is_contained(gathers, gather))
        reads.push_back({operand, product.op});
  for (auto [value, reader] : reads) {
    if (reader->isBeforeInBlock(begin))
      begin = reader;
    for (const Product &product : products)
      if (value.getDefiningOp() &&
          (value.getDefiningOp() == product.op || value.getDefiningOp() == product.scatter))
        return false;
    if (Operation *def = value.getDefiningOp(); def && def->getBlock() == block && !def->isBeforeInBlock(at))
      at = def->getNextNode();
  }
  if (end->isBeforeInBlock(at))
    end = at;
  for (const Product &product : products)
    for (Operation *user : product.scatter ? Operation::user_range(product.scatter->getUsers())
                                           : Operation::user_range(product.op->getUsers()))
      if (Operation *here = block->findAncestorOpInBlock(*user); here && here->isBeforeInBlock(at))
        return false;
  for (auto [value, reader] : reads)
    for (Operation *writer : hazards.writers(variableOf(value)))
      if (reader->isBeforeInBlock(writer) && writer->isBeforeInBlock(at))
        return false;
  // Steps of a pipeline are their own.
  return !hazards.hasStepBetween(begin, end);
}

SmallVector<int64_t> PanelLoop::bounds() const {
  std::set<int64_t> all = {0, extent};
  auto add = [&](dist::CollectiveOp op) {
    for (int64_t i = 1, n = ranksOf(op); i < n; ++i)
      all.insert(extent / n * i);
  };
  for (dist::CollectiveOp gather : gathers)
    add(gather);
  for (const Product &product : products)
    if (product.scatter)
      add(product.scatter);
  return SmallVector<int64_t>(all.begin(), all.end());
}

namespace {

// The unrolled loop: what has been broadcast and computed so far.
class Unrolled {
public:
  explicit Unrolled(const PanelLoop &loop)
      : loop(loop), b(loop.at), blocks(loop.gathers.size()), results(loop.products.size()) {
    for (dist::CollectiveOp gather : loop.gathers)
      sources.push_back(sourceOf(gather));
  }

  /// Broadcasts the blocks that hold `position`, unless that has been done.
  void fetch(int64_t position) {
    for (auto [g, gather] : llvm::enumerate(loop.gathers)) {
      size_t block = position / loop.blockOf(gather);
      if (block < blocks[g].size())
        continue;
      blocks[g].push_back(dist::CollectiveOp::create(
          b, gather.getLoc(), sources[g],
          rooted(gather, dist::CollectiveKind::Broadcast, gather.getShape(), block)));
    }
  }

  void multiply(int64_t begin, int64_t end) {
    for (auto [p, product] : llvm::enumerate(loop.products)) {
      nn::FactorRule rule = cast<nn::FactorOpInterface>(product.op.getOperation()).getFactorRule();
      nn::Panel panel;
      panel.factor = product.factor;
      panel.size = end - begin;
      SmallVector<Value> operands(product.op->getOperands());
      for (auto [i, operand] : llvm::enumerate(operands)) {
        int64_t start = rule.operandHas(i, product.factor) ? begin : 0;
        for (auto [g, gather] : llvm::enumerate(loop.gathers))
          if (gatherOf(loop.products[p].op->getOperand(i)) == gather) {
            operand = blocks[g][begin / loop.blockOf(gather)];
            start = begin % loop.blockOf(gather);
            break;
          }
        panel.operandStarts.push_back(start);
      }
      panel.result = cast<RankedTensorType>(product.op->getResult(0).getType());
      State &state = results[p];
      if (dist::CollectiveOp scatter = product.scatter) {
        int64_t block = loop.blockOf(scatter);
        panel.result = cast<RankedTensorType>(scatter.getType());
        panel.resultStart = begin % block;
        state.value = product.op.buildPanel(b, operands, panel.resultStart ? state.value : Value(), panel);
        if (end % block == 0) {
          SmallVector<int64_t> shape(scatter.getShape());
          shape[*scatter.getSplit()] /= ranksOf(scatter);
          reduce(scatter, state, shape, /*isLast=*/end == loop.extent);
        }
        continue;
      }
      panel.resultStart = rule.resultHas(0, product.factor) ? begin : 0;
      state.value = product.op.buildPanel(b, operands, state.value, panel);
    }
  }

  /// Puts the results where the products' were.
  void replace() {
    for (auto [product, state] : llvm::zip(loop.products, results)) {
      if (product.scatter) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPoint(firstUser(product.scatter));
        Value own =
            exec::OwnOp::create(b, product.scatter.getLoc(), product.scatter.getType(), state.reduced);
        product.scatter.getResult().replaceAllUsesWith(own);
        product.scatter.erase();
      } else {
        product.op->getResult(0).replaceAllUsesWith(state.value);
      }
      product.op->erase();
    }
    for (dist::CollectiveOp gather : loop.gathers) {
      for (Operation *mask : llvm::make_early_inc_range(gather->getUsers()))
        mask->erase();
      gather.erase();
    }
  }

private:
  struct State {
    Value value;
    dist::CollectiveStartOp underWay; // of the block before
    SmallVector<Value> reduced;       // to one rank each
  };

  // The rank's own block, masked if a product wants it so: to the others padding does not matter.
  Value sourceOf(dist::CollectiveOp gather) {
    for (Operation *user : gather->getUsers())
      if (dist::MaskPaddingOp mask = blockMask(user)) {
        dist::AxisList axes(mask.getAxes().getAxes());
        llvm::append_range(axes, gather.getAxes().getAxes());
        SmallVector<int64_t> shape(mask.getShape());
        shape[1] /= ranksOf(gather);
        return dist::MaskPaddingOp::create(b, mask.getLoc(), gather.getSource().getType(), gather.getSource(),
                                           dist::AxesAttr::get(b.getContext(), axes),
                                           b.getDenseI64ArrayAttr(shape), mask.getSizeAttr(),
                                           mask.getValueAttr(), dist::AxesAttr());
      }
    return gather.getSource();
  }

  static dist::CollectiveSpec rooted(dist::CollectiveOp like, dist::CollectiveKind kind,
                                     ArrayRef<int64_t> shape, int64_t root) {
    return {.kind = kind,
            .axes = dist::AxisList(like.getAxes().getAxes()),
            .shape = SmallVector<int64_t>(shape),
            .root = root,
            .reduce = like.getReduce()};
  }

  // Reduces a block of the result to its rank. It is waited for when the next block is complete; how far
  // behind the last one is, is decided with the other collectives.
  void reduce(dist::CollectiveOp like, State &state, ArrayRef<int64_t> shape, bool isLast) {
    if (state.underWay)
      state.reduced.push_back(
          dist::CollectiveWaitOp::create(b, like.getLoc(), state.value.getType(), state.underWay.getToken()));
    dist::CollectiveSpec spec = rooted(like, dist::CollectiveKind::Reduce, shape, state.reduced.size());
    if (isLast)
      state.reduced.push_back(dist::CollectiveOp::create(b, like.getLoc(), state.value, spec));
    else
      state.underWay = dist::CollectiveStartOp::create(b, like.getLoc(), state.value, spec);
  }

  static Operation *firstUser(dist::CollectiveOp op) {
    Operation *first = op->getBlock()->getTerminator();
    for (Operation *user : op->getUsers())
      if (Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
          here && here->isBeforeInBlock(first))
        first = here;
    return first;
  }

  PanelLoop loop;
  OpBuilder b;
  SmallVector<Value> sources;             // by gathered operand, the rank's block
  SmallVector<SmallVector<Value>> blocks; // by gathered operand
  SmallVector<State> results;             // by product
};

} // namespace

void PanelLoop::emit() const {
  Unrolled unrolled(*this);
  SmallVector<int64_t> ends = bounds();
  unrolled.fetch(0);
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    if (i + 2 < ends.size())
      unrolled.fetch(ends[i + 1]);
    unrolled.multiply(ends[i], ends[i + 1]);
  }
  unrolled.replace();
}
