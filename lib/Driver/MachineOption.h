// What `--machine` says of the machine that a program is compiled for.
#ifndef TESSERA_LIB_DRIVER_MACHINEOPTION_H
#define TESSERA_LIB_DRIVER_MACHINEOPTION_H

#include "dialects/dist/Axis.h"
#include "dialects/dist/Machine.h"
#include "runtime/machine/machine_file.h"

namespace tessera {

/// The file's rates over `standard`, what the target's machine is without one. Each axis of the mesh has the
/// links of the innermost level that has all ranks of a group along it; ranks count as the mesh does, its
/// last axis fastest.
dist::Machine machineOf(const rt::MachineFile &file, const dist::Machine &standard, const dist::Mesh &mesh);

/// A machine as the file that the runtime reads, with levels of the links that the mesh's axes have.
rt::MachineFile fileOf(const dist::Machine &machine, const dist::Mesh &mesh);

} // namespace tessera
#endif
