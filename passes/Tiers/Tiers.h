// Which values of a step leave the device, and when: two tiers of memory, the device's and the host's. Plain
// data and arithmetic; a pass makes the trace of a step and emits the transfers that are chosen here.
//
// Positions 0..n-1 are the operators of a step in their order. What happens "at p" happens between operator
// p-1 and operator p; p = n is the end of the step. At one position things happen in this order:
//   1. offloads start (`Move::offload`),
//   2. offloads are waited for, and their values are gone (`Move::gone`),
//   3. the host begins updates (`Update`), at the beginning of the step conversions (`Conversion`) before
//   these,
//   4. prefetches start (`Move::prefetch`), of what the host makes when that is done,
//   5. prefetches are waited for whose values operator p uses.
// Transfers of one direction are done one after the other as they were started; those that start at one
// position start in the order of the list of moves. The host makes updates one
// after the other, too. The directions and the host do not disturb each other, nor do they disturb computing.
//
// A part of the step may be a loop (`Loop`): its operators have their positions once. No transfer crosses the
// beginning or the end of a turn, so all turns are alike, and together they take as long as one in which
// everything takes so many times as long: so they are simulated.
//
// Memory is a function of positions, never of the clock. Of a transfer that has started and is not waited for
// both sides are taken: an offload takes the device's side up to its `gone`, and the host's from its start; a
// prefetch takes the device's side from its start, and the host's until it is waited for.
#ifndef TESSERA_PASSES_TIERS_TIERS_H
#define TESSERA_PASSES_TIERS_TIERS_H

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace tessera::tiers {

/// A value is on the device while the operator at `position` runs.
struct Use {
  int64_t position = 0;
  /// Changes the value in place, so that a copy on the host is stale from then on.
  bool writes = false;
};

/// A part of a step that runs several times. What happens at begin < p <= end happens in each turn.
struct Loop {
  /// The positions of what begins it and of what ends a turn, both of which take no time. Between them are
  /// the operators of a turn.
  int64_t begin = -1, end = -1;
  int64_t times = 1;

  bool has(int64_t position) const { return begin < position && position <= end; }
  /// How often in a step that is done which happens at the position.
  int64_t timesAt(int64_t position) const { return has(position) ? times : 1; }
};

/// What a value is to those who decide by that; the search does not.
enum class Kind { Activation, Parameter, Optimizer };

struct Value {
  int64_t bytes = 0;
  /// A variable: there from step to step, so that from its last use to its first in the next step is a gap
  /// too. Where it rests on the device it has its place there for good, so the other gaps free nothing and
  /// are moved only where that one is. The first use of a value that does not rest is its definition, and
  /// there is nothing of it behind its last.
  bool rests = false;
  /// At ascending positions, each position once; of what rests below for good none, else at least one.
  std::vector<Use> uses;
  /// Of one that rests: it does so on the host, whether or not that is needed here.
  bool below = false;
  Kind kind = Kind::Activation;
  /// Numbers of gaps that are moved whatever else is chosen; of a value that rests only where it is `below`.
  std::vector<int> always;
  /// No gap is moved but these and, of one that is `below`, that round the end.
  bool decided = false;
  /// Of a gradient that an update on the host takes: the number of that update. It goes down for good: its
  /// last use is the end of the step, every plan moves the gap before it, and nothing comes back from there.
  int sinksInto = -1;
  /// Of what the host makes at the beginning of the step of a parameter that rests there: when that is done,
  /// in seconds from the beginning. It `rests`, as if from step to step, but the host has it from its making
  /// to its last prefetch alone, and what starts to bring it up waits until it is made. Negative for all
  /// else.
  double made = -1;
  /// Of one from outside of the loop that is used in it: its uses there. It is on the device throughout the
  /// loop, with a use at its beginning, one at its end, and the gap `loopGap` between them, or comes up in
  /// each turn (`turns`), with these uses instead.
  std::vector<Use> inLoop;
  bool turns = false;
  int loopGap = -1;
  /// Of a sum that the loop carries from turn to turn, which begins with zeros: the number of the conversion
  /// that makes these on the host where the sum comes up in each turn. It has its first use at the loop's
  /// beginning.
  int zeros = -1;

  /// Whether the gap is the last one of a value that goes down for good.
  bool sinks(int gap) const { return sinksInto >= 0 && gap + 2 == static_cast<int>(uses.size()); }
  /// Whether a plan may move this gap.
  bool mayMove(int gap) const;
};

/// An optimizer's update of a parameter. It runs where its state lies: on the device, or on the host, when
/// the parameter and the state rest there and the gradient has come down.
struct Update {
  /// Of the operator that makes it on the device.
  int64_t position = 0;
  /// Values: the parameter, its gradient, the optimizer's state.
  int parameter = -1, gradient = -1;
  std::vector<int> state;
  /// On the host it begins at this position at the earliest: behind the device's last use of the parameter.
  int64_t ready = 0;
  /// How long the host takes.
  double seconds = 0;
  /// Whether it runs on the host, or is to; and whether that is not to be chosen.
  bool onHost = false, decided = false;
};

/// A parameter in a half type, made by operators that do nothing else. The host makes it where the parameter
/// is updated there and has no other use on the device: half the bytes come up. Or zeros, made of nothing:
/// see `Value::zeros`.
struct Conversion {
  /// Of the operators that make it on the device, and the value that each yields.
  std::vector<int64_t> positions;
  std::vector<int> results;
  /// The parameter, a value; -1 where it is zeros.
  int parameter = -1;
  /// How long the host takes.
  double seconds = 0;
  bool onHost = false;
  /// Where moves of what the host makes are given: their gaps.
  std::optional<std::vector<int>> given;
};

/// The trace of a step.
struct Step {
  /// How long each operator computes, in all turns.
  std::vector<double> seconds;
  /// What is live on the device while each operator runs if nothing ever leaves, all values among it: one
  /// that rests always, another from its first use to its last.
  std::vector<int64_t> bytes;
  std::vector<Value> values;
  std::vector<Update> updates;
  std::vector<Conversion> conversions;
  /// How long the host makes conversions before it can begin an update, seconds.
  double converting = 0;
  /// Where a number that updates on the host need is waited for behind all that went down before it: the norm
  /// that gradients are clipped by. -1 where there is none.
  int64_t norm = -1;
  Loop loop;
};

/// The position at which the host begins the update that a value sinks into, outside of the loop, when its
/// offload is waited for at `gone`, or -1 where a copy was on the host already.
int64_t updateBegins(const Step &step, const Value &value, int64_t gone);

/// The step, of a device that makes all updates, with these on the host: the device has nothing of their
/// state, the parameters rest below, and their gradients sink. Conversions go along, in the order in which
/// they are needed. Parallel to `updates`.
Step withUpdates(const Step &step, const std::vector<bool> &onHost);

/// Seconds that the device computes with as many updates on the host as may be.
double leastComputing(const Step &step);

/// When the host has made what turns of the loop bring up, seconds: the loop begins no earlier.
double madeForTurns(const Step &step);

/// The step with these of the values that are used in the loop (`Value::inLoop`) coming up in each turn: they
/// are below when a turn begins and when it ends. Sums go down again in each, too, and the host makes the
/// zeros that they begin with. Parallel to `values`.
Step withTurns(const Step &step, const std::vector<bool> &turns);

struct Rates {
  /// Bytes a second from the device to the host and from the host to the device, both at once.
  double bytesDown = 0, bytesUp = 0;
  /// Seconds that every transfer takes beside.
  double latency = 0;
};

/// The most bytes in each tier; INT64_MAX where there is no limit.
struct Limits {
  int64_t device = INT64_MAX, host = INT64_MAX;
  /// Seconds that are fast enough for a large step: a plan that takes no longer is not looked for any better.
  /// Infinity: for any step any plan is.
  double enough = 0;
};

/// A gap in which a value is not on the device: between its uses `gap` and `gap + 1`; the last gap of a value
/// that rests goes round the end of the step, to use 0.
///
/// The value's offload starts at `offload`, behind the use before the gap, and is waited for at `gone`. Both
/// are -1 where a valid copy is on the host already: the value is then gone right behind the use. It starts
/// to come back at `prefetch`, and is waited for at the use behind the gap. So it takes no device memory at
/// positions gone <= p < prefetch, or use < p < prefetch without an offload. Round the end that is from
/// `gone` to the end and from the beginning to `prefetch`: no transfer crosses the end of the step, and
/// offload <= gone <= n. Of the last gap of a value that sinks, `prefetch` is n.
///
/// A transfer is in the loop where the use beside it is: an offload where that before the gap is, a prefetch
/// where that behind it is. One that is not in it neither starts nor is waited for at positions of the loop.
///
/// A copy is valid from its offload until a use that writes. Those of the values whose gap round the end is
/// moved are valid when the step begins.
struct Move {
  int value = 0;
  int gap = 0;
  int64_t offload = -1, gone = -1, prefetch = 0;
  bool operator==(const Move &) const = default;
};

struct Plan {
  /// In an order that transfers which start at one position are best started in.
  std::vector<Move> moves;
  int64_t devicePeak = 0, hostPeak = 0;
  double seconds = 0;
  /// What a step transfers.
  int64_t bytesDown = 0, bytesUp = 0;
};

/// Bytes taken on the device while each operator runs.
std::vector<int64_t> deviceBytes(const Step &step, const std::vector<Move> &moves);

/// Bytes taken on the host while each operator runs, or when what happens just before it does. A value whose
/// gap round the end is moved has its home on the host and takes its bytes always, as does what has no use.
/// Any other that is moved takes them from its first offload up to and including the use behind its last
/// move, what sinks up to the end.
std::vector<int64_t> hostBytes(const Step &step, const std::vector<Move> &moves);

/// Seconds from the beginning of a step to its end by simulation of four queues: computing, transfers down,
/// transfers up, updates on the host, which end before the step does. A transfer begins when computing has
/// reached its start and the one before it is done. Every transfer of a step is waited for in it, so all
/// steps are alike: one is simulated, and that is the steady state.
double simulate(const Step &step, const std::vector<Move> &moves, const Rates &rates);

/// The plan of these moves: its peaks, its seconds, its bytes.
Plan judge(const Step &step, std::vector<Move> moves, const Rates &rates);

/// The fastest plan found within the limits: without moves where everything fits but those of `Value::below`.
/// Nothing where none was found; without a limit of the host that is so only below `leastDeviceBytes`. The
/// same input gives the same plan: what is tried is seeded and limited by counts. Of plans that were found
/// equally fast it is one that moves little.
///
/// `effort` is how many changes are tried, as a part of the usual, and from which part of a large step's size
/// few starts are: much less is nearly as good where plans are only compared, by a few percent.
std::optional<Plan> choose(const Step &step, const Limits &limits, const Rates &rates, double effort = 1);

/// Whether the search tries less in the step than in others, for each try takes long.
bool isLarge(const Step &step);
/// A step that takes no more than so many times what it computes hardly waits: of a large one nothing faster
/// is looked for, nor by anything that takes long of any other.
constexpr double kEnough = 1.003;

/// Updates that are made on the host, and the seconds of a step that has them there, by a plan that was found
/// with little effort; infinity where none was.
struct UpdateChoice {
  std::vector<bool> onHost; // parallel to the updates
  double seconds = std::numeric_limits<double>::infinity();
  /// By which the host ends them; minus infinity where it makes none that need not be there.
  double deadline = -std::numeric_limits<double>::infinity();
};

/// Which updates are best made on the host: what is decided, and of the others, in the order in which their
/// gradients are there, those that the host ends by a deadline; which is best is found by trying. None where
/// that gains little. Where no choice makes a step shorter than `bound` seconds, not much is tried, and of
/// `deadline`, if it is given, that one alone: the best of a step that is nearly the same.
UpdateChoice chooseUpdates(const Step &step, const Limits &limits, const Rates &rates,
                           double bound = std::numeric_limits<double>::infinity(),
                           std::optional<double> deadline = std::nullopt);

/// All for which that is to be chosen.
std::vector<bool> allTurns(const Step &step);

/// Which of the values that are used in the loop best come up in each turn: of the largest so many as make
/// the step fastest, or the fewest of what was tried that leave it within `kEnough`. Parallel to `values`.
std::vector<bool> chooseTurns(const Step &step, const Limits &limits, const Rates &rates);

/// The plan of moves that are given, in any order, with its figures. Nothing where they are no moves of the
/// step: a gap that there is not, positions out of order, an offload without need or a copy that is stale, a
/// value that is `below` and whose gap round the end is kept.
std::optional<Plan> planOf(const Step &step, const std::vector<Move> &moves, const Rates &rates);

/// One gap of a plan decided otherwise, all others as they are but those of its value that depend on it.
struct Alternative {
  int value = 0, gap = 0; // as in `Move`
  /// In the plan, not in the alternative.
  bool isMoved = false;
  /// Of a step, and of the plan's own step so that both are by one clock.
  double seconds = 0, planSeconds = 0;
  int64_t devicePeak = 0, hostPeak = 0;
  /// The first position that has this peak of the device.
  int64_t peakAt = 0;
};

/// For each gap that any plan may move: what the step takes if it is kept where the plan moves it, and the
/// other way round. Limits are not heeded but for the time that transfers are given.
std::vector<Alternative> alternatives(const Step &step, const Plan &plan, const Limits &limits,
                                      const Rates &rates);

/// When computing comes to each position, and to the end, by simulation.
std::vector<double> timeline(const Step &step, const Plan &plan, const Rates &rates);

/// The least peak on the device that any plan has: every gap moved, each value gone right behind one use and
/// back just before the next. Beside it the first position that has this peak.
std::pair<int64_t, int64_t> leastDeviceBytes(const Step &step);

} // namespace tessera::tiers
#endif
