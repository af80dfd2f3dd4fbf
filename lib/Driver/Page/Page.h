// --report FILE.html: a step on one page, for people. docs/planning.md says what it shows.
#ifndef TESSERA_LIB_DRIVER_PAGE_PAGE_H
#define TESSERA_LIB_DRIVER_PAGE_PAGE_H

#include "lib/Driver/Compile.h"
#include "lib/Driver/Judge.h"
#include "runtime/simulate/simulate.h"

namespace tessera {

/// A recipe that `plan --auto` has judged.
struct Alternative {
  std::string recipe;
  Verdict verdict;       // as if memory were unlimited
  bool isChosen = false; // the plan is made of it
};

/// What a page is made of.
struct PageContent {
  const Compilation &compilation; // with options.report set since it began
  /// Of a program whose memory has been planned; null where it was not compiled so far.
  const rt::Description *description = nullptr;
  /// A step of the description's program, with its timelines; null without one.
  const rt::Simulation *step = nullptr;
  /// Of `plan --auto`, with the one that was chosen; else empty.
  std::vector<Alternative> alternatives;
};

/// The program of which a step is shown, for ranks of the first stage: what trains, else what infers.
const rt::Program &shownProgram(const rt::Description &description);

/// Writes the page to `path`, whole or not at all; a page of --measured compares.
mlir::LogicalResult writePage(const PageContent &content, const std::string &path);

/// The same of a program whose memory has been planned (`Compilation::describe`) or not, simulated for it.
mlir::LogicalResult writePage(const Compilation &compilation, const std::string &path,
                              std::vector<Alternative> alternatives = {});

} // namespace tessera
#endif
