// See BlockGraph.h: how the graph is built.
#include "passes/Schedule/BlockGraph.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Memory/Hazards.h"
#include "passes/Memory/Liveness.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace tessera;

static constexpr int kNone = -1;

class BlockGraph::Builder {
public:
  explicit Builder(BlockGraph &graph) : graph(graph), hazards(graph.block), index(graph.index) {}

  void run() {
    bool isFunction = isa<func::FuncOp>(graph.block.getParentOp());
    for (BlockArgument arg : graph.block.getArguments()) {
      int storage = add(arg.getType());
      storageOf[arg] = storage;
      // What a loop carries is live throughout its body.
      graph.storages[storage].liveOut = !isFunction;
    }
    for (Operation &op : graph.block.without_terminator()) {
      index[&op] = graph.nodes.size();
      graph.nodes.emplace_back().op = &op;
    }
    for (int i = 0; i < graph.size(); ++i)
      results(i);
    for (int i = 0; i < graph.size(); ++i)
      operands(i);
    if (graph.block.mightHaveTerminator())
      for (Value value : graph.block.getTerminator()->getOperands())
        if (int storage = lookup(value); storage != kNone)
          graph.storages[storage].liveOut = true;
    variables();
    effects();
    steps();
    for (Node &node : graph.nodes) {
      llvm::sort(node.after);
      node.after.erase(llvm::unique(node.after), node.after.end());
    }
    for (Node &node : graph.nodes)
      for (int later : node.after)
        ++graph.nodes[later].numBefore;
  }

private:
  int add(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    Storage storage;
    if (tensor && tensor.getNumElements() > 1)
      storage.bytes = (dist::bytesOf(type) + 255) / 256 * 256;
    graph.storages.push_back(storage);
    return graph.storages.size() - 1;
  }

  int lookup(Value value) const {
    auto it = storageOf.find(value);
    return it == storageOf.end() ? kNone : it->second;
  }

  // Gives results their storage. Those of one operator whose place in the block comes before its operand's
  // have been moved by hand and are not views of it yet; views are followed from their source.
  void results(int i) {
    Operation *op = graph.nodes[i].op;
    Value viewed = source(op);
    for (Value result : op->getResults()) {
      if (storageOf.count(result) || variableOf.count(result))
        continue;
      if (auto read = dyn_cast<nn::ReadOp>(op)) {
        variableOf[result] = read.getVariable();
        continue;
      }
      if (hazards.assignedTo(result))
        continue; // written where the variable lies
      if (viewed) {
        if (Operation *def = viewed.getDefiningOp(); def && index.count(def) && !storageOf.count(viewed))
          results(index.lookup(def));
        if (auto it = variableOf.find(viewed); it != variableOf.end() && !isa<dist::CollectiveOp>(op)) {
          std::string name = it->second;
          variableOf[result] = name;
          continue;
        }
        if (int storage = lookup(viewed); storage != kNone) {
          storageOf[result] = storage;
          continue;
        }
      }
      int storage = add(result.getType());
      storageOf[result] = storage;
      graph.nodes[i].allocated += graph.storages[storage].bytes;
    }
  }

  // The operand whose memory the operator's results lie in.
  static Value source(Operation *op) {
    if (isView(op))
      return op->getOperand(0);
    if (isa<dist::CollectiveOp, dist::CollectiveWaitOp>(op))
      if (auto collective = dist::collectiveOf(op->getResult(0));
          collective && collective.getKind() == dist::CollectiveKind::AllReduce)
        return collective.getSource();
    if (auto unpack = dyn_cast<dist::UnpackOp>(op); unpack && unpack.getBlocks() == 1)
      return unpack.getSource();
    if (auto own = dyn_cast<exec::OwnOp>(op))
      return own.getSources().front();
    if (auto apply = dyn_cast<exec::ApplyOp>(op); apply && apply.getAdds() && apply.getNumResults() == 1)
      for (Value operand : op->getOperands())
        if (isLoopSum(operand) && operand.hasOneUse() && operand.getType() == op->getResult(0).getType())
          return operand;
    return {};
  }

  // Whether the value is what a loop has added up so far, or altogether, or what is added up in front of one.
  static bool isLoopSum(Value value) {
    if (auto carried = dyn_cast<BlockArgument>(value))
      return isa<dist::LoopOp>(carried.getOwner()->getParentOp());
    Operation *def = value.getDefiningOp();
    return isa<dist::LoopOp>(def) || isFilled(def) || addsToFilled(def);
  }

  void operands(int i) {
    Node &node = graph.nodes[i];
    node.op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        if (Operation *def = operand.getDefiningOp(); def && index.count(def) && def != node.op) {
          graph.nodes[index.lookup(def)].after.push_back(i);
          graph.nodes[index.lookup(def)].users.push_back(i);
        }
        if (auto it = variableOf.find(operand); it != variableOf.end())
          touching[it->second].push_back({i, false});
        // What a collective under way reads is read until it is waited for.
        if (auto wait = dyn_cast<dist::CollectiveWaitOp>(inner))
          if (auto start = wait.getToken().getDefiningOp<dist::CollectiveStartOp>())
            if (auto it = variableOf.find(start.getSource()); it != variableOf.end())
              touching[it->second].push_back({i, false});
        int storage = lookup(operand);
        if (storage != kNone && !llvm::is_contained(node.reads, storage)) {
          node.reads.push_back(storage);
          ++graph.storages[storage].readers;
        }
      }
    });
  }

  // Whether the node `assign` assigns what the node `def` defines: it follows, wherever a pass has put it.
  bool assigns(int assign, int def) const {
    auto op = dyn_cast<nn::AssignOp>(graph.nodes[assign].op);
    return op && op.getValue().getDefiningOp() == graph.nodes[def].op;
  }

  // A variable is written where it lies: whoever reads its old value stays on the side of the write that it
  // is on.
  void variables() {
    for (StringRef name : hazards.written())
      for (Operation *writer : hazards.writers(name))
        touching[name].push_back({index.lookup(writer), true});
    for (auto &entry : touching)
      for (auto [writer, writes] : entry.second) {
        if (!writes)
          continue;
        for (auto [other, alsoWrites] : entry.second)
          if (other != writer && !assigns(other, writer) && !assigns(writer, other))
            graph.nodes[std::min(other, writer)].after.push_back(std::max(other, writer));
      }
  }

  // Nothing moves from one step of a pipeline to another. What follows the last one may run beside it where
  // it uses what that computes: neither before what that receives nor before its last message is on its way,
  // for which other stages wait.
  void steps() {
    int begin = kNone, first = 0, message = kNone, last = graph.lastStep();
    std::vector<bool> usesLast(graph.size()); // of what follows the last step
    for (int i = 0; i < graph.size(); ++i) {
      Operation *op = graph.nodes[i].op;
      follow(begin, i);
      if (graph.ending != kNone) {
        follow(message, i);
        if (!usesLast[i] || dist::readsMicro(op))
          follow(graph.ending, i);
      } else if (isa<dist::SendStartOp>(op)) {
        message = i;
      }
      if (i > last && (graph.ending == kNone || usesLast[i]))
        for (int user : graph.nodes[i].users)
          usesLast[user] = true;
      if (!isa<dist::StepOp>(op))
        continue;
      for (int before = first; before < i; ++before)
        follow(before, i);
      first = i + 1;
      (graph.beginsStep(i) ? begin : graph.ending) = i;
    }
  }

  // Messages to other stages, sums over all stages, and whatever else has effects, keep their order. But what
  // is sent waits for nothing, and may be on its way before something else is received.
  void effects() {
    int last = kNone, sent = kNone;
    for (int i = 0; i < graph.size(); ++i) {
      Operation *op = graph.nodes[i].op;
      if (!dist::kStageSum.isOn(op) &&
          (isMemoryEffectFree(op) ||
           isa<nn::ReadOp, nn::AssignOp, dist::CollectiveStartOp, dist::CollectiveWaitOp>(op)))
        continue;
      const bool isSend = isa<dist::SendStartOp>(op);
      follow(sent, i);
      if (!isSend)
        follow(last, i);
      (isSend ? sent : last) = i;
    }
  }

  void follow(int before, int node) {
    if (before != kNone)
      graph.nodes[before].after.push_back(node);
  }

  BlockGraph &graph;
  const Hazards hazards;
  DenseMap<Operation *, int> &index;
  DenseMap<Value, int> storageOf;
  DenseMap<Value, std::string> variableOf;
  llvm::StringMap<SmallVector<std::pair<int, bool>>> touching; // variable -> (node, whether it writes)
};

BlockGraph::BlockGraph(Block &block) : block(block) {
  Builder(*this).run();
  findAllocatingSlices();
}

void BlockGraph::findAllocatingSlices() {
  // Users may stand before what they use while a pass is at work, so this iterates from the ends.
  std::vector<int> open(size(), 0);
  std::vector<std::vector<int>> operands(size());
  for (int i = 0; i < size(); ++i) {
    llvm::sort(nodes[i].users);
    nodes[i].users.erase(llvm::unique(nodes[i].users), nodes[i].users.end());
    open[i] = nodes[i].users.size();
    for (int user : nodes[i].users)
      operands[user].push_back(i);
  }
  std::vector<int> ready;
  for (int i = 0; i < size(); ++i)
    if (open[i] == 0)
      ready.push_back(i);
  while (!ready.empty()) {
    int i = ready.back();
    ready.pop_back();
    // A pack is no work, it is there for what is sent; nor is a piece without its padding, for a norm.
    bool isWork = !isa<dist::PackOp, dist::MaskPaddingOp>(nodes[i].op);
    nodes[i].sliceAllocates = (nodes[i].allocated != 0 && isWork) || usersAllocate(i);
    for (int before : operands[i])
      if (--open[before] == 0)
        ready.push_back(before);
  }
}

int BlockGraph::lastStep() const {
  int node = size() - 1;
  while (node >= 0 && !beginsStep(node))
    --node;
  return node;
}

bool BlockGraph::beginsStep(int node) const {
  auto step = dyn_cast<dist::StepOp>(nodes[node].op);
  return step && step.getWork() != dist::PipelineWork::Update;
}

bool BlockGraph::usersAllocate(int node) const {
  return llvm::any_of(nodes[node].users, [&](int user) { return nodes[user].sliceAllocates; });
}

void BlockGraph::apply(ArrayRef<int> order) {
  Operation *end = block.mightHaveTerminator() ? block.getTerminator() : nullptr;
  for (int node : order)
    end ? nodes[node].op->moveBefore(end) : nodes[node].op->moveBefore(&block, block.end());
}
