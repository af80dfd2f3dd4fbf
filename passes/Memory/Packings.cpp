// See Packings.h.
#include "passes/Memory/Packings.h"
#include "llvm/Support/xxhash.h"
#include <deque>
#include <map>
#include <mutex>

using namespace tessera;

namespace {

using Key = std::pair<uint64_t, uint64_t>;

// Hashes of 128 bits: two problems of one do not meet.
Key keyOf(const PackProblem &problem) {
  std::vector<int64_t> numbers = {problem.alignment, problem.cap};
  for (const PackBuffer &buffer : problem.buffers)
    numbers.insert(numbers.end(), {buffer.start, buffer.end, buffer.bytes});
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(
      {reinterpret_cast<const uint8_t *>(numbers.data()), numbers.size() * sizeof(numbers.front())});
  return {hash.low64, hash.high64};
}

// The last ones.
class Kept {
public:
  bool find(const Key &key, Packing &packing) {
    std::lock_guard lock(mutex);
    auto found = packings.find(key);
    if (found == packings.end())
      return false;
    packing = found->second;
    return true;
  }
  void add(const Key &key, const Packing &packing) {
    std::lock_guard lock(mutex);
    if (!packings.emplace(key, packing).second)
      return;
    order.push_back(key);
    if (order.size() > kMost) {
      packings.erase(order.front());
      order.pop_front();
    }
  }

private:
  static constexpr size_t kMost = 256;

  std::mutex mutex;
  std::map<Key, Packing> packings;
  std::deque<Key> order;
};

} // namespace

Packing tessera::packOnce(const PackProblem &problem) {
  constexpr int64_t kLarge = 1'000'000; // of its work: some hundredths of a second
  static Kept kept;
  Key key = keyOf(problem);
  Packing packing;
  if (kept.find(key, packing))
    return packing;
  packing = pack(problem.buffers, problem.alignment, problem.cap);
  if (packing.work >= kLarge)
    kept.add(key, packing);
  return packing;
}
