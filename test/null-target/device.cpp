// A device with memory, that counts what it is asked to compute. See device.h.
#include "test/null-target/device.h"
#include "runtime/app/commands.h"

#include <cstdlib>
#include <fstream>
#include <set>

using namespace tessera::rt;

namespace {
class NullDevice : public HostDevice {
public:
  NullDevice(const DevicePlace &place, const std::set<std::string_view> &kernels)
      : HostDevice(place.threads, {}), rank(place.index), kernels(kernels) {}
  ~NullDevice() override {
    if (const char *folder = std::getenv("TESSERA_NULL_COUNTS"))
      std::ofstream(std::string(folder) + "/" + std::to_string(rank) + ".json") << steps;
  }

  Work prepareKernel(const KernelSite &site) override {
    if (!kernels.count(site.symbol))
      throw Error("the program has no kernel '", site.symbol, "'");
    return count("kernels", site.symbol);
  }
  Work prepareCall(const LibrarySite &site) override { return count("calls", site.function); }
  void finish() override {
    steps.push_back(step);
    step.clear();
  }

private:
  Work count(const char *what, std::string_view name) {
    return [this, what, name = std::string(name)](const int64_t *) {
      nlohmann::json &counter = step[what][name];
      counter = counter.is_null() ? 1 : counter.get<int>() + 1;
    };
  }

  const int rank;
  const std::set<std::string_view> &kernels;
  nlohmann::json step, steps;
};
} // namespace

extern "C" int tsr_main_null(int argc, char **argv, const char *description, size_t length,
                             const char *const *kernels, size_t num_kernels) {
  const std::set<std::string_view> names(kernels, kernels + num_kernels);
  return runExecutable(
      argc, argv, {description, length}, [&](const Description &program, const Options &) -> Platform {
        if (program.target != "null")
          throw Error("the program was compiled for ", program.target);
        return {[&](const DevicePlace &place) { return std::make_unique<NullDevice>(place, names); }, {}};
      });
}
