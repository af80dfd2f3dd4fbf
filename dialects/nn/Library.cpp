// See Library.h.
#include "dialects/nn/Library.h"

using namespace mlir;
using namespace tessera::nn;

static std::map<StringRef, const Library *> &libraries() {
  static std::map<StringRef, const Library *> byName;
  return byName;
}

void tessera::nn::registerLibrary(const Library &library) { libraries()[library.name()] = &library; }

const Library *tessera::nn::findLibrary(StringRef name, Location location) {
  if (auto found = libraries().find(name); found != libraries().end())
    return found->second;
  InFlightDiagnostic diagnostic = emitError(location) << "no library is known for the target \"" << name
                                                      << "\"; expected one of ";
  llvm::interleaveComma(libraries(), diagnostic, [&](auto &known) { diagnostic << known.first; });
  return nullptr;
}

static std::optional<LibraryCall> describedCall(Operation *op, const Library &library) {
  auto computed = dyn_cast<LibraryOpInterface>(op);
  std::optional<LibraryCall> call = computed ? computed.getLibraryCall() : std::nullopt;
  return call && library.has(*call) ? call : std::nullopt;
}

bool Library::computes(Operation *op) const { return describedCall(op, *this).has_value(); }

std::optional<LibraryCall> Library::callOf(Operation *op, int64_t threads) const {
  std::optional<LibraryCall> call = describedCall(op, *this);
  if (!call)
    return std::nullopt;
  call->workspace = workspace(*call, threads);
  if (call->workspace > 0) {
    NamedAttrList attrs(call->attrs);
    attrs.set("workspace", Builder(op->getContext()).getI64IntegerAttr(call->workspace));
    call->attrs = attrs.getDictionary(op->getContext());
  }
  return call;
}

// Discardable attributes say nothing of what is computed.
static constexpr OperationEquivalence::Flags kComputed =
    OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs;

size_t LibraryCalls::Hash::operator()(Operation *op) const {
  auto type = [](Value operand) { return hash_value(operand.getType()); };
  return OperationEquivalence::computeHash(op, type, OperationEquivalence::ignoreHashValue, kComputed);
}

// A call may name a buffer by the first operand that is it.
static bool repeatSameOperands(Operation *a, Operation *b) {
  auto first = [](Operation *op, unsigned i) {
    return llvm::find(op->getOperands(), op->getOperand(i)).getIndex();
  };
  return llvm::all_of(llvm::seq(a->getNumOperands()), [&](unsigned i) { return first(a, i) == first(b, i); });
}

bool LibraryCalls::Equal::operator()(Operation *a, Operation *b) const {
  auto haveSameType = [](Value x, Value y) { return success(x.getType() == y.getType()); };
  return OperationEquivalence::isEquivalentTo(a, b, haveSameType, nullptr, kComputed) &&
         repeatSameOperands(a, b);
}

const LibraryCall *LibraryCalls::of(Operation *op) {
  if (!isa<LibraryOpInterface>(op))
    return nullptr;
  auto [it, isNew] = known.try_emplace(op);
  if (isNew)
    it->second = library.callOf(op, threads);
  return it->second ? &*it->second : nullptr;
}
