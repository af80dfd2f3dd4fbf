// What `calibrate` measures of work and of links.
#pragma once

#include "runtime/app/hosts.h"
#include "runtime/app/meter.h"
#include "runtime/machine/machine_file.h"
#include "runtime/program/session.h"

namespace tessera::rt {

/// Together: the library's functions over shapes (products, attention, convolutions), and those that move
/// rows and update; rates are divided by `threads`. Ends with shapes that were not measured for the rates,
/// and a comment on how far these are off. In about `budget` seconds: one shape of each is measured, and more
/// while there is time.
void measureWork(Meter &meter, double threads, double budget, MachineFile &machine);

/// Together: runs the session's program on made-up inputs, and rates its kernels and calls by class and size,
/// and its arithmetic by shape.
void measureKernels(const Description &description, const Program &program, Session &session, Meter &meter,
                    double threads, MachineFile &machine);

/// Together: collectives of all ranks, or among the ranks of each host and then among one rank of each, to
/// which the figures of a level's links are fitted; and what they take of computing. Nothing where there is
/// one rank.
void measureLinks(const Description &description, const CommunicatorMaker &makeCommunicator,
                  const HostLayout &layout, Meter &meter, MachineFile &machine);

} // namespace tessera::rt
