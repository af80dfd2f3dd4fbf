// Streams beside a device's own, and events that order them.
#pragma once

#include "runtime/device/cuda/driver.h"

namespace tessera::rt::cuda {

class Stream {
public:
  explicit Stream(const Driver &driver) : driver(driver) {
    driver.check(driver.streamCreate(&stream, streamNonBlocking), "creating a stream");
  }
  ~Stream() { driver.streamDestroy(stream); }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  Handle handle() const { return stream; }

private:
  const Driver &driver;
  Handle stream = nullptr;
};

/// A point in a stream's work.
class Event {
public:
  explicit Event(const Driver &driver) : driver(driver) {
    driver.check(driver.eventCreate(&event, eventDisableTiming), "creating an event");
  }
  ~Event() { driver.eventDestroy(event); }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

  /// The point is the end of what `stream` has been given so far.
  void record(Handle stream) { driver.check(driver.eventRecord(event, stream), "recording an event"); }
  /// What `stream` is given from now on comes after the point.
  void await(Handle stream) const {
    driver.check(driver.streamWaitEvent(stream, event, 0), "waiting for an event");
  }
  bool isReached() const { return driver.eventQuery(event) != notReady; }

private:
  const Driver &driver;
  Handle event = nullptr;
};

} // namespace tessera::rt::cuda
