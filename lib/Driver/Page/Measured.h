// A trace that a run wrote by --trace, to compare with a simulated step.
#ifndef TESSERA_LIB_DRIVER_PAGE_MEASURED_H
#define TESSERA_LIB_DRIVER_PAGE_MEASURED_H

#include "runtime/simulate/simulate.h"
#include <map>

namespace tessera::page {

/// What a rank did in one row of a trace: by name and kind the times, in the order in which they began.
struct TraceRow {
  struct Event {
    double begin, seconds;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Event>> events;
};

struct TraceOfRank {
  TraceRow compute, communication;
  std::map<std::string, double> flops; // of a step, by program; empty: the trace does not say
  bool isCut = false;                  // later events were dropped
};

/// By rank. Throws rt::Error for a text that is no trace.
std::map<int64_t, TraceOfRank> parseTrace(const std::string &text);

/// An operator, or what is sent over axes by kind, in a step of one rank of each class that the trace has:
/// seconds by the simulation and by the run, the run's median over its steps.
struct Compared {
  std::string name, kind;
  int64_t rank = 0, times = 0;
  double promised = 0, measured = 0;
};

struct Comparison {
  int64_t steps = 0;
  double seconds = 0;                             // of a step of the first rank that was compared
  std::vector<Compared> operators, communication; // the largest difference first
};

/// Compares with a step of the program `name` of the description. Throws rt::Error for a run of another one.
Comparison compareWithTrace(const rt::Simulation &step, const rt::Description &description,
                            const std::string &name, const std::map<int64_t, TraceOfRank> &trace);

} // namespace tessera::page
#endif
