// What `tessera explain` begins with: the whole program on a page.
#ifndef TESSERA_LIB_DRIVER_EXPLAINSUMMARY_H
#define TESSERA_LIB_DRIVER_EXPLAINSUMMARY_H

#include "lib/Driver/Judge.h"

namespace tessera {

/// The mesh, what a step comes to, whose plan it is and what else its planner found, which patterns there
/// are, and what moves, of `program`. `verdict`: of that program.
void printSummary(const Compilation &compilation, const Facts &facts, llvm::StringRef program,
                  const Verdict &verdict, llvm::raw_ostream &os);

} // namespace tessera
#endif
