// The names of the library functions.
#include "runtime/device/cpu/functions.h"

namespace tessera::rt::cpu {

namespace {
struct Entry {
  std::string_view name;
  LibraryCall (*prepare)(CallParser &);
};

constexpr Entry entries[] = {
    {"adam", prepareAdam},
    {"adamw", prepareAdamW},
    {"attention_backward", prepareAttentionBackward},
    {"attention_forward", prepareAttentionForward},
    {"conv_backward_data", prepareConvBackwardData},
    {"conv_backward_weights", prepareConvBackwardWeights},
    {"conv_forward", prepareConvForward},
    {"convert", prepareConvert},
    {"copy_box", prepareCopyBox},
    {"cross_entropy_backward", prepareCrossEntropyBackward},
    {"fill", prepareFill},
    {"gather", prepareGather},
    {"gemm", prepareGemm},
    {"logical_index", prepareLogicalIndex},
    {"mask_padding", prepareMaskPadding},
    {"max_pool_backward", prepareMaxPoolBackward},
    {"row_max", prepareRowMax},
    {"scatter_add", prepareScatterAdd},
    {"sgd", prepareSgd},
    {"sgd_momentum", prepareSgdMomentum},
    {"softmax_sums", prepareSoftmaxSums},
    {"square_root", prepareSquareRoot},
    {"sum_squares", prepareSumSquares},
    {"transpose", prepareTranspose},
};
} // namespace

LibraryCall prepareCall(std::string_view function, const CallSite &site) {
  for (const Entry &entry : entries)
    if (entry.name == function) {
      CallParser parser(function, site);
      return entry.prepare(parser);
    }
  throw Error("program description: unknown library function '" + std::string(function) +
              "'; the program was made by another version of Tessera, compile it again");
}

std::function<void()> prepareOn(Pool &pool, const LibrarySite &site) {
  return [call = prepareCall(site.function, {site.attrs, site.argBytes, site.numScalars, pool.threads()}),
          args = site.args, &pool] { call({args.data(), nullptr, pool}); };
}

std::vector<std::string_view> libraryFunctions() {
  std::vector<std::string_view> names;
  for (const Entry &entry : entries)
    names.push_back(entry.name);
  return names;
}

} // namespace tessera::rt::cpu
