// Reads the library's calls and launches the kernels of runtime/device/cuda/kernels.
#include "runtime/device/cuda/library.h"

#include "runtime/core/philox.h"
#include "runtime/device/cuda/attention_graph.h"
#include "runtime/device/cuda/call.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tessera::rt::cuda {
namespace {

/// The part of the arguments that both directions have.
struct AttentionReader {
  Call &c;
  AttentionArguments a{};
  std::array<int64_t, 5> queryShape;
  std::array<int64_t, 4> keyShape;

  explicit AttentionReader(Call &c) : c(c) {
    CallParser &p = c.parser;
    a.batch = p.size("batch");
    a.s = p.size("s");
    a.t = p.size("t");
    a.kvHeads = p.size("kv_heads");
    a.group = p.size("group");
    a.d = p.size("d");
    a.scale = float(p.number("scale"));
    a.causal = p.flag("causal");
    a.zigzag = p.size("zigzag", 0);
    if (a.zigzag > 0 && (a.s != a.t || a.s % 2 != 0 || !checkedProduct(std::array{a.zigzag, a.s})))
      p.fail("attribute 'zigzag' takes as many queries as keys, an even number");
    a.type = p.element("dtype", Element::F32);
    a.biasType = p.element("bias_dtype", Element::F32);
    queryShape = {a.batch, a.s, a.kvHeads, a.group, a.d};
    keyShape = {a.batch, a.t, a.kvHeads, a.d};
    if (a.d < 1 || a.d > attentionHead)
      p.fail("attribute 'd' is " + std::to_string(a.d) + ", a GPU's kernel takes head sizes from 1 to " +
             std::to_string(attentionHead));
  }
  template <size_t N> void *operand(const std::string &name, const std::string &like, int64_t (&strides)[N]) {
    CallParser &p = c.parser;
    std::vector<int64_t> given =
        p.sizes(((p.has((name + "_strides").c_str()) ? name : like) + "_strides").c_str(), N);
    std::ranges::copy(given, strides);
    int64_t offset = p.size(((p.has((name + "_offset").c_str()) ? name : like) + "_offset").c_str(), 0);
    given.push_back(1);
    int64_t bytes = bytesOf(a.type);
    return c.at<char>(
        p.box(name.c_str(), N == 4 ? std::span<const int64_t>(queryShape) : keyShape, given, offset, bytes),
        offset * bytes);
  }
  void read(bool backward) {
    a.q = operand("q", "q", a.qStrides);
    a.k = operand("k", "k", a.kStrides);
    a.v = operand("v", "v", a.vStrides);
    if (c.parser.flag("bias")) {
      std::vector<int64_t> given = c.parser.sizes("bias_strides", 5);
      std::ranges::copy(given, a.biasStrides);
      a.bias = c.whole(c.parser.box("bias", std::array{a.batch, a.kvHeads, a.group, a.s, a.t}, given, 0,
                                    bytesOf(a.biasType)));
    }
    a.out = operand("o", "o", a.oStrides);
    a.o = a.out;
    a.lse = c.at<float>(c.parser.buffer("lse", checkedProduct(std::array{a.batch, a.s, a.kvHeads, a.group})));
    if (backward) {
      a.dO = operand("do", "o", a.dOStrides);
      a.dq = operand("dq", "q", a.dqStrides);
      a.dk = operand("dk", "k", a.dkStrides);
      a.dv = operand("dv", "v", a.dvStrides);
    }
    bool drops = c.parser.has("dropout");
    if (drops)
      readDropout();
    c.parser.workspace(0);
    c.parser.finish(drops ? 5 : 0, drops ? 5 : 4);
  }
  void readDropout() {
    double ratio = c.parser.number("dropout");
    if (!(ratio > 0 && ratio < 1))
      c.parser.fail("attribute 'dropout' is " + std::to_string(ratio) + ", expected a ratio in (0, 1)");
    a.keptScale = float(1 / (1 - ratio));
    a.dropBelow = dropThreshold(ratio);
    a.key = c.at<uint64_t>(c.parser.buffer("key", 1, 8));
    a.rows = c.at<int64_t>(
        c.parser.buffer("rows", checkedProduct(std::array{a.batch, a.s, a.kvHeads, a.group}), 8));
  }
  /// A warp for each of `rows`.
  Work launch(const std::string &kernel, int64_t rows) const {
    const char *suffixes[] = {"", "_bf16", "_f16"};
    return c.launch((kernel + suffixes[int(a.type)]).c_str(), a, blocksFor(rows, attentionWarps),
                    attentionWarps * 32,
                    [count = c.parser.scalars()](AttentionArguments &now, const int64_t *scalars) {
                      now.validS = std::clamp<int64_t>(count > 0 ? scalars[0] : now.s, 0, now.s);
                      now.validT = std::clamp<int64_t>(count > 1 ? scalars[1] : now.t, 0, now.t);
                      now.startS = count > 2 ? scalars[2] : 0;
                      now.startT = count > 3 ? scalars[3] : 0;
                      now.id = count > 4 ? uint64_t(scalars[4]) : 0;
                    });
  }
  /// `library`, which may do anything with queries whose every key a bias hides. Forward, rows with
  /// infinities or NaN for a sum are done again by our own kernel, so that they are as promised; backward,
  /// their lse is +infinity meanwhile, which makes all their probabilities 0.
  Work withHiddenRows(bool backward, const Work &library) const {
    Work own = backward ? c.launchElements("tsr_attention_turn_infinities", a, queryRows())
                        : launch("tsr_attention_forward_again", blocksFor(queryRows(), attentionAgainRows));
    return [=](const int64_t *scalars) {
      if (backward)
        own(scalars);
      library(scalars);
      own(scalars);
    };
  }
  /// By cuDNN where it takes the call, and all queries and keys are there; else `own`.
  Work byLibrary(bool backward, Work own) const {
    Work library = prepareAttentionGraph(c.device, a, backward);
    if (!library)
      return own;
    if (a.bias)
      library = withHiddenRows(backward, library);
    return [library, own, s = a.s, t = a.t, causal = a.causal,
            count = c.parser.scalars()](const int64_t *scalars) {
      auto scalar = [&](int64_t i, int64_t standard) { return count > i ? scalars[i] : standard; };
      bool whole = scalar(0, s) >= s && scalar(1, t) >= t && (!causal || scalar(2, 0) == scalar(3, 0));
      (whole ? library : own)(scalars);
    };
  }
  int64_t queryRows() const { return a.batch * a.s * a.kvHeads * a.group; }
};

Work prepareAttentionForward(Call &c) {
  AttentionReader reader(c);
  reader.read(false);
  return reader.byLibrary(false, reader.launch("tsr_attention_forward", reader.queryRows()));
}

Work prepareAttentionBackward(Call &c) {
  AttentionReader reader(c);
  reader.read(true);
  Work queries = reader.launch("tsr_attention_backward_q", reader.queryRows());
  Work keys = reader.launch("tsr_attention_backward_kv", reader.a.batch * reader.a.t * reader.a.kvHeads);
  return reader.byLibrary(true, [=](const int64_t *scalars) {
    queries(scalars);
    keys(scalars);
  });
}

/// `count` elements of `bytes` bytes each, all `pattern`.
Work filled(Call &c, void *out, int64_t count, uint64_t pattern, int64_t bytes) {
  MaskArguments a{};
  a.out = out;
  a.count = a.end = count;
  a.n = a.inner = 1;
  a.pattern = pattern;
  a.bytes = int32_t(bytes);
  return c.launchElements("tsr_mask_padding", a, count);
}

Work prepareRows(Call &c, bool scatter) {
  CallParser &p = c.parser;
  RowsArguments a{};
  a.rows = p.size("rows");
  a.width = p.size("width");
  a.count = p.size("count");
  a.wideIds = p.choice("ids", {"i64", "i32"}, false) == 0;
  a.bytes = scatter ? 4 : int32_t(p.elementBytes());
  auto table = checkedProduct(std::array{a.rows, a.width}),
       rows = checkedProduct(std::array{a.count, a.width});
  if (!scatter)
    a.source = c.whole(p.buffer("table", table, a.bytes));
  a.ids = c.whole(p.buffer("ids", a.count, a.wideIds ? 8 : 4));
  if (scatter)
    a.source = c.whole(p.buffer("dy", rows));
  a.target = c.whole(scatter ? p.buffer("table", table) : p.buffer("out", rows, a.bytes));
  p.finish(0, 2);
  auto update = [count = p.scalars()](RowsArguments &now, const int64_t *scalars) {
    now.start = count > 0 ? scalars[0] : 0;
    now.valid = std::min(now.count, count > 1 ? scalars[1] : now.count);
  };
  if (!scatter)
    return c.launchElements("tsr_gather", a, a.count * a.width, update);
  // As many threads as fill a GPU, a power of two to a column.
  constexpr int64_t enough = 65536;
  for (a.parts = 1; a.parts * 2 * a.width <= enough && a.parts * 2 <= a.rows;)
    a.parts *= 2;
  Work add = c.launchElements("tsr_scatter_add", a, a.width * a.parts, update);
  if (p.flag("accumulate"))
    return add;
  Work fill = filled(c, a.target, a.rows * a.width, std::bit_cast<uint32_t>(-0.0f), 4);
  return [add, fill](const int64_t *scalars) {
    fill(scalars);
    add(scalars);
  };
}

Work prepareFill(Call &c) {
  int64_t count = c.parser.size("count"), bytes = c.parser.elementBytes();
  uint64_t pattern = c.parser.valueBits();
  void *out = c.whole(c.parser.buffer("out", count, bytes));
  c.parser.finish();
  return filled(c, out, count, pattern, bytes);
}

/// About how many threads a GPU needs to be busy.
constexpr int64_t maskThreads = 1 << 18;

Work prepareMaskPadding(Call &c) {
  CallParser &p = c.parser;
  MaskArguments a{};
  int64_t outer = p.size("outer"), piece = p.size("piece", 0);
  a.n = p.size("n");
  a.inner = p.size("inner");
  a.pattern = p.valueBits();
  a.bytes = int32_t(p.elementBytes());
  auto elements = piece > 0 ? std::optional(piece) : checkedProduct(std::array{outer, a.n, a.inner});
  bool copies = p.flag("out");
  a.x = a.out = c.whole(p.buffer("x", elements, a.bytes));
  if (copies)
    a.out = c.whole(p.buffer("out", elements, a.bytes));
  a.count = *elements;
  p.finish(piece > 0 ? 2 : 1, piece > 0 ? 2 : 1);
  a.end = outer * a.n * a.inner;
  // In place only what is masked is visited, which is little as a rule: by a warp, or more where blocks are
  // few.
  if (!copies && piece == 0)
    a.lanes = std::clamp<int64_t>(maskThreads / std::max<int64_t>(outer, 1), 32,
                                  std::max<int64_t>(a.n * a.inner, 32));
  return c.launchElements("tsr_mask_padding", a, a.lanes ? outer * a.lanes : a.count,
                          [piece](MaskArguments &now, const int64_t *scalars) {
                            now.valid = std::clamp<int64_t>(scalars[0], 0, now.n);
                            now.start = piece > 0 ? scalars[1] : 0;
                          });
}

Work prepareLogicalIndex(Call &c) {
  IndexArguments a{};
  a.count = c.parser.size("count");
  a.out = c.at<int64_t>(c.parser.buffer("out", a.count, 8));
  c.parser.finish(1, 1);
  return c.launchElements("tsr_logical_index", a, a.count,
                          [](IndexArguments &now, const int64_t *scalars) { now.start = scalars[0]; });
}

Work prepareSquareRoot(Call &c) {
  RootArguments a{};
  a.count = c.parser.size("count");
  a.in = c.at<float>(c.parser.buffer("in", a.count));
  a.out = c.at<float>(c.parser.buffer("out", a.count));
  c.parser.finish();
  return c.launchElements("tsr_square_root", a, a.count);
}

Work prepareSumSquares(Call &c) {
  std::vector<int64_t> counts = c.parser.sizes("counts");
  std::vector<SquaresArguments> parts;
  int64_t blocks = 0;
  for (int64_t count : counts) {
    parts.push_back(
        {c.at<float>(c.parser.buffer("in", count)), nullptr, nullptr, count, squaresBlocks(count)});
    blocks += parts.back().blocks;
  }
  auto *out = c.at<float>(c.parser.buffer("out", 1));
  bool limited = c.parser.scalars() != 0;
  c.parser.finish(limited ? int64_t(counts.size()) : 0, limited ? int64_t(counts.size()) : 0);
  if (blocks > 1)
    c.device.reserveLibrarySpace(blocks * int64_t(sizeof(double)));
  Handle square = c.device.libraryFunction("tsr_sum_squares"), add = c.device.libraryFunction("tsr_add_sums");
  return [=, &device = c.device](const int64_t *scalars) {
    if (blocks == 0)
      return device.clear(out, 4);
    // The space may have been moved since the call was prepared.
    auto *sums = blocks > 1 ? static_cast<double *>(device.librarySpace()) : nullptr;
    SumsArguments total{sums, out, blocks};
    for (size_t i = 0; i < parts.size(); ++i) {
      SquaresArguments part = parts[i];
      part.count = limited ? std::clamp<int64_t>(scalars[i], 0, part.count) : part.count;
      part.sums = sums;
      part.out = out;
      void *parameters[] = {&part};
      device.launch("tsr_sum_squares", square, part.blocks, squaresThreads, parameters);
      sums += sums ? part.blocks : 0;
    }
    void *parameters[] = {&total};
    if (blocks > 1)
      device.launch("tsr_add_sums", add, 1, squaresThreads, parameters);
  };
}

Work prepareLoss(Call &c, const char *kernel, int kind) {
  CallParser &p = c.parser;
  LossArguments a{};
  a.rows = p.size("rows");
  a.cols = p.size("cols");
  auto elements = checkedProduct(std::array{a.rows, a.cols});
  if (kind == 2)
    a.ignored = p.integer("ignore_index", -100);
  a.logits = c.at<float>(p.buffer("logits", elements));
  if (kind > 0)
    a.labels = c.at<int64_t>(p.buffer("labels", a.rows, 8));
  if (kind > 0)
    a.shift = c.at<float>(p.buffer(kind == 1 ? "max" : "lse", a.rows));
  if (kind == 2)
    a.scale = c.at<float>(p.buffer("scale", 1));
  a.out =
      c.at<float>(kind == 2 ? p.buffer("dlogits", elements) : p.buffer(kind == 1 ? "sum" : "max", a.rows));
  if (kind == 1)
    a.picked = c.at<float>(p.buffer("picked", a.rows));
  p.finish(0, kind + 1);
  return c.launch(kernel, a, blocksFor(a.rows, lossWarps), lossWarps * 32,
                  [kind, count = p.scalars()](LossArguments &now, const int64_t *scalars) {
                    auto scalar = [&](int64_t i, int64_t standard) {
                      return i < count ? scalars[i] : standard;
                    };
                    now.start = kind > 0 ? scalar(0, 0) : 0;
                    now.validCols = std::clamp<int64_t>(scalar(kind > 0 ? 1 : 0, now.cols), 0, now.cols);
                    now.validRows = kind == 2 ? scalar(2, now.rows) : now.rows;
                  });
}

Work prepareUpdate(Call &c, Update update) {
  CallParser &p = c.parser;
  UpdateArguments a{};
  a.update = update;
  a.count = p.size("count");
  int64_t decay = p.size("decay");
  a.lossScale = p.flag("loss_scale");
  a.scalars = c.at<float>(p.buffer("scalars", a.lossScale ? 9 : 8));
  a.decay = c.at<float>(p.buffer("decay", decay + 1), decay);
  a.gradNorm = c.at<float>(p.bufferIf(p.flag("grad_norm"), "grad_norm", 1));
  if (a.lossScale && !a.gradNorm)
    p.fail("attribute 'loss_scale' needs 'grad_norm', which shows an overflow");
  a.p = c.at<float>(p.buffer("p", a.count));
  a.g = c.at<float>(p.buffer("g", a.count));
  if (update != Update::Sgd)
    a.m = c.at<float>(p.buffer(update == Update::SgdMomentum ? "momentum" : "m", a.count));
  if (update == Update::AdamW || update == Update::Adam)
    a.v = c.at<float>(p.buffer("v", a.count));
  p.finish();
  return c.launchElements("tsr_update", a, a.count);
}

struct Entry {
  std::string_view name;
  Work (*prepare)(Call &);
};

constexpr Entry entries[] = {
    {"adam", [](Call &c) { return prepareUpdate(c, Update::Adam); }},
    {"adamw", [](Call &c) { return prepareUpdate(c, Update::AdamW); }},
    {"attention_backward", prepareAttentionBackward},
    {"attention_forward", prepareAttentionForward},
    {"conv_backward_data", prepareConvBackwardData},
    {"conv_backward_weights", prepareConvBackwardWeights},
    {"conv_forward", prepareConvForward},
    {"copy_box", prepareCopyBox},
    {"cross_entropy_backward", [](Call &c) { return prepareLoss(c, "tsr_cross_entropy_backward", 2); }},
    {"fill", prepareFill},
    {"gather", [](Call &c) { return prepareRows(c, false); }},
    {"gemm", prepareGemm},
    {"logical_index", prepareLogicalIndex},
    {"mask_padding", prepareMaskPadding},
    {"row_max", [](Call &c) { return prepareLoss(c, "tsr_row_max", 0); }},
    {"scatter_add", [](Call &c) { return prepareRows(c, true); }},
    {"sgd", [](Call &c) { return prepareUpdate(c, Update::Sgd); }},
    {"sgd_momentum", [](Call &c) { return prepareUpdate(c, Update::SgdMomentum); }},
    {"softmax_sums", [](Call &c) { return prepareLoss(c, "tsr_softmax_sums", 1); }},
    {"square_root", prepareSquareRoot},
    {"sum_squares", prepareSumSquares},
    {"transpose", prepareTranspose},
};

} // namespace

Work prepareCall(CudaDevice &device, const LibrarySite &site) {
  cpu::CallSite checked{site.attrs, site.argBytes, site.numScalars, device.threads()};
  Call call{device, CallParser(site.function, checked), site.args, site.argBytes};
  for (const Entry &entry : entries)
    if (entry.name == site.function)
      return entry.prepare(call);
  throw Error("the library function '", site.function,
              "' has no kernel for GPUs; compile the program with --target cpu");
}

} // namespace tessera::rt::cuda
