// How long jobs of a kind take, learned from those that ended.
#ifndef TESSERA_LIB_SCHEDULER_WORKBYKIND_H
#define TESSERA_LIB_SCHEDULER_WORKBYKIND_H

#include <map>
#include <string>

namespace tessera::scheduler {

/// The epochs of a kind's jobs are taken for log-normal, with the mean of those that ended and one deviation
/// for all kinds. A kind of which none has ended is expected to be like all others.
class WorkByKind {
public:
  void learn(const std::string &kind, double epochs);
  /// Epochs that a job is expected to need still, given that `done` were not enough.
  double remaining(const std::string &kind, double done) const;

private:
  struct Sum {
    double count = 0, sum = 0, squares = 0; // of the logarithms of epochs
  };
  std::map<std::string, Sum> kinds;
  Sum all;
};

} // namespace tessera::scheduler
#endif
