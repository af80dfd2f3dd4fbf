// A command that the user ends, and that has something to do before: to write the best that a search has
// found, to remove what nobody needs.
#ifndef TESSERA_LIB_DRIVER_INTERRUPTION_H
#define TESSERA_LIB_DRIVER_INTERRUPTION_H

namespace tessera::interruption {

/// From now on SIGINT and SIGTERM are noted, once; a second one ends the process as ever.
void listen();
/// Whether there was one.
bool wasAsked();

} // namespace tessera::interruption
#endif
