// The events of a step: which rank goes on when.
#pragma once

#include "runtime/simulate/actor.h"

#include <queue>

namespace tessera::rt {

class Simulator {
public:
  explicit Simulator(World &world);
  /// Once: to the end of all programs. Throws Error where it does not come.
  void run();
  Simulation result();

private:
  /// Of a collective or a message: a rank that takes part, by its class, and its step.
  struct Member {
    size_t cls, step;
  };
  /// Members that have come to a collective.
  struct Meeting {
    std::vector<Member> here;
  };
  /// Messages from one class to another: those sent, and how many the receiver has memory for, are under way
  /// or there, are there, and have been taken.
  struct Channel {
    size_t receiver = 0;
    std::vector<Member> sent;
    size_t expected = 0, begun = 0, arrived = 0, received = 0;
  };
  struct Transfer {
    std::vector<Member> members; ///< of a message: who sends; of a collective all
    Channel *channel = nullptr;
    double begin = 0;
    size_t traffic = 0; ///< by level, as Actor::exposed
    size_t pending = 0; ///< parts that are under way
  };
  struct Event {
    double time;
    bool begins; ///< a transfer, by number; else a class goes on
    size_t which;
    bool operator>(const Event &other) const { return time > other.time; }
  };

  bool isHost() const { return world.description.target == "cpu"; }
  void proceed(Actor &actor);
  double secondsOfWork(const Actor &actor) const;
  void work(Actor &actor);
  void startWork(Actor &actor);
  void endWork(Actor &actor);
  void startBeside(Actor &actor);
  void turn(Actor &actor);
  bool waitForSideWork(Actor &actor);
  void communicate(Actor &actor);
  void block(Actor &actor, size_t step);
  int64_t queueOf(const Actor &actor, const SimulatedStep &step) const;
  void advance(Actor &actor, int64_t queue);
  bool isOver(Actor &actor, SimulatedJob &job);
  void come(Actor &actor, size_t step);
  Channel &channel(size_t sender, size_t receiver);
  bool receive(Actor &actor, SimulatedJob &job);
  void beginMessages(Channel &channel);
  void begin(std::vector<Member> members, Channel *channel);
  void move(size_t transfer);
  void endPart(size_t transfer);
  void complete(Member member, const Transfer *collective);
  size_t trafficAt(const SimulatedStep &step, size_t level) const {
    return step.traffic * world.machine.levels.size() + level;
  }
  size_t levelOf(const Member &member, bool isMessage) const;
  void openSpan(size_t cls, size_t traffic);
  void closeSpan(size_t cls, const Transfer &transfer, const Operation &op);
  void count(size_t traffic, size_t cls, int64_t bytes);
  void addTraffic(Simulation &result) const;
  [[noreturn]] void failStuck() const;

  World &world;
  Network network;
  /// Work under way where ranks share processors: of a rank alone a second takes one, of a host's so many as
  /// it has processors for go on like that.
  Network processors;
  std::vector<std::vector<Network::Use>> workers; ///< by class; of `processors`
  double clock = 0;
  std::vector<Actor> actors; ///< by class
  std::vector<Transfer> transfers;
  std::vector<size_t> freeTransfers;
  std::map<std::pair<size_t, size_t>, Meeting> meetings; ///< by grouping and group
  std::map<std::pair<size_t, size_t>, Channel> channels;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<SentFigures> sent; ///< by traffic and level, summed over the ranks
};

} // namespace tessera::rt
