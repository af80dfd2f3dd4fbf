// What `calibrate` measures of work and of links.
#pragma once

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

/// Together: how many ranks each host has, where all have as many and those of one follow each other; else
/// all of them.
int64_t ranksOfHost(Engine &engine);

/// Together: collectives of all ranks, or of those of a host and of one of each host, to which the figures of
/// a level's links are fitted; and what they take of computing. Nothing where there is one rank.
void measureLinks(const Description &description, const CommunicatorMaker &makeCommunicator, Meter &meter,
                  MachineFile &machine);

} // namespace tessera::rt
