// Reads arrays out of numpy's .npz files.
#ifndef TESSERA_TEST_UNIT_IMPORT_NPZ_H
#define TESSERA_TEST_UNIT_IMPORT_NPZ_H

#include <map>
#include <string>
#include <vector>

namespace tessera::test {

/// The data of each array (without numpy's header), by name; little-endian, row-major. Throws
/// std::runtime_error.
std::map<std::string, std::vector<char>> readNpz(const std::string &path);

} // namespace tessera::test
#endif
