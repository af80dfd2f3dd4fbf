// The first ranks of a run as a run of their own, while the others have nothing to do.
#pragma once

#include "runtime/comm/transport.h"

namespace tessera::rt {

/// Ranks 0 to size-1 of `all`, which must outlive this. Counts by itself.
class FirstRanks : public Transport {
public:
  FirstRanks(Transport &all, int size) : all(all), ranks(size) {}

  int rank() const override { return all.rank(); }
  int size() const override { return ranks; }
  Clock::time_point wait(Request request) override { return all.wait(request); }
  Watch &watch() override { return all.watch(); }
  bool progress() override { return all.progress(); }
  bool needsProgress() const override { return all.needsProgress(); }
  void check() override { all.check(); }
  void abort(const std::string &message) override { all.abort(message); }
  void cancel() override { all.cancel(); }

protected:
  Request postSend(int to, const void *data, int64_t bytes, Tag tag) override {
    return all.send(to, data, bytes, tag);
  }
  Request postReceive(int from, void *data, int64_t bytes, Tag tag) override {
    return all.receive(from, data, bytes, tag);
  }

private:
  Transport &all;
  const int ranks;
};

} // namespace tessera::rt
