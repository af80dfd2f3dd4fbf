// The discardable attributes of the exec dialect.
#ifndef TESSERA_DIALECTS_EXEC_ATTRIBUTES_H
#define TESSERA_DIALECTS_EXEC_ATTRIBUTES_H

#include "dialects/Discardable.h"
#include "dialects/exec/Exec.h"

namespace tessera::exec {

bool isSize(mlir::Attribute value);

/// Bytes of a program's arena, by what they are for; `peak` is its size, `bound` the least that it could be.
inline constexpr DiscardableAttr<mlir::DictionaryAttr> kMemory{"exec.memory", OnFunction,
                                                               "a dictionary of bytes"};

/// How a kernel runs: on disjoint ranges of [0, extent), of `grain` at least, with `workspace` bytes of
/// scratch.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kExtent{"exec.extent", OnFunction,
                                                            "a number that is not negative", isSize},
    kGrain{"exec.grain", OnFunction, "a number that is not negative", isSize},
    kWorkspace{"exec.workspace", OnFunction, "a number that is not negative", isSize};
/// Pairs of an argument and a result of a kernel that may share a buffer.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kInPlace{
    "exec.in_place", OnFunction, "pairs of an argument and a result, array<i64: A, R>",
    [](mlir::Attribute value) {
      auto pairs = llvm::dyn_cast<mlir::ArrayAttr>(value);
      return pairs && llvm::all_of(pairs, [](mlir::Attribute each) {
               auto pair = llvm::dyn_cast<mlir::DenseI64ArrayAttr>(each);
               return pair && pair.size() == 2;
             });
    }};
/// On an argument of a kernel: the result that is written to its buffer.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kResult{"exec.result", OnArgument, "a number"};

} // namespace tessera::exec
#endif
