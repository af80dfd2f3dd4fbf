// What signals do to an executable: a training that is asked to stop finishes its step first.
#pragma once

namespace tessera::rt {

/// Exit status of a training that was asked to stop and has: start it again to go on (EX_TEMPFAIL).
constexpr int startAgainStatus = 75;

/// From now on SIGTERM, SIGINT and SIGHUP remove unfinished files and end the process.
void installSignalHandlers();
/// From now on the first SIGTERM and every SIGUSR1 only ask to stop, by stopAsked. A second SIGTERM ends the
/// process.
void deferStops();
/// The name of the signal by which this process was asked to stop, else null. May be called by any thread.
const char *stopAsked();

} // namespace tessera::rt
