// Attention against f64: packed strides, groups of query heads, causal offsets, bias, padding that holds NaN,
// both CPU levels' edge sizes, dropout.
#include "runtime/core/philox.h"
#include "runtime/device/cpu/test/harness.h"
#include "runtime/device/cpu/workspace.h"

using namespace tessera::rt;
using namespace tessera::rt::cpu;
using nlohmann::json;

namespace {
constexpr uint64_t dropoutId = (uint64_t(7) << 32) + 3;

struct Case {
  int64_t batch, s, t, heads, group, d;
  bool causal = false;
  int bias = 0; // 1: [1, heads, s, t]; 2: a mask over keys of -inf, [batch, 1, 1, t]
  int64_t validS = -1, validT = -1, startS = 0, startT = 0;
  int64_t zigzag = 0;
  double dropout = 0;
  /// Where row i of a block that begins at `start` stands: chunks 0, 2n-1, 1, 2n-2, .. one behind the other.
  int64_t position(int64_t start, int64_t i) const {
    if (zigzag == 0)
      return start + i;
    const int64_t held = (start + i) / (s / 2);
    return (held % 2 == 0 ? held / 2 : 2 * zigzag - 1 - held / 2) * (s / 2) + i % (s / 2);
  }
};

/// All arrays of a case. q, k and v lie packed in `qkv` [b, max(s, t), m, group q's + k + v, d], the
/// gradients in the same way.
struct Data {
  Case c;
  Element type, biasType;
  int64_t length, headStride, rowStride;
  std::vector<float> qkv, bias, o, lse, dO, dqkv;
  std::vector<double> expectedO, expectedLse, expectedGradient;
  std::vector<int64_t> dropKey = {0x123456789abcdef}, rows; // of a dropout
  json attrs;

  Data(const Case &given, Element type, Element biasType) : c(given), type(type), biasType(biasType) {
    if (c.validS < 0)
      c.validS = c.s;
    if (c.validT < 0)
      c.validT = c.t;
    length = std::max(c.s, c.t);
    headStride = (c.group + 2) * c.d;
    rowStride = c.heads * headStride;
    qkv = randomFloats(c.batch * length * rowStride, 1);
    dqkv.assign(qkv.size(), 77.0f);
    expectedGradient.assign(qkv.size(), 77.0);
    const int64_t outputs = c.batch * c.s * c.heads * c.group;
    o.assign(outputs * c.d, notANumber);
    lse.assign(outputs, notANumber);
    // Numbers of more than 32 bits, at any place among four.
    for (int64_t i = 0; i < outputs; ++i)
      rows.push_back((int64_t(1) << 33) + 1000003 * i);
    dO = rounded(type, randomFloats(outputs * c.d, 2));
    for (float &x : qkv)
      x *= 2;
    qkv = rounded(type, qkv);
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t i = 0; i < length; ++i)
        for (int64_t m = 0; m < c.heads; ++m) {
          float *at = &qkv[(b * length + i) * rowStride + m * headStride];
          if (i >= c.validS)
            std::fill_n(at, c.group * c.d, notANumber);
          if (i >= c.validT)
            std::fill_n(at + c.group * c.d, 2 * c.d, notANumber);
        }
    for (int64_t b = 0; b < c.batch; ++b)
      std::fill_n(&dO[(b * c.s + c.validS) * c.heads * c.group * c.d * (c.validS < c.s)],
                  (c.s - c.validS) * c.heads * c.group * c.d, notANumber);
    const int64_t queryHead = c.group * c.d;
    attrs = {{"batch", c.batch},
             {"s", c.s},
             {"t", c.t},
             {"kv_heads", c.heads},
             {"group", c.group},
             {"d", c.d},
             {"scale", scale()},
             {"causal", c.causal},
             {"bias", c.bias != 0},
             {"zigzag", c.zigzag},
             {"q_strides", {length * rowStride, rowStride, headStride, c.d}},
             {"k_strides", {length * rowStride, rowStride, headStride}},
             {"v_strides", {length * rowStride, rowStride, headStride}},
             {"o_strides", {c.s * c.heads * queryHead, c.heads * queryHead, queryHead, c.d}},
             {"k_offset", queryHead},
             {"v_offset", queryHead + c.d}};
    if (c.bias == 1) {
      bias = randomFloats(c.heads * c.group * c.s * c.t, 3);
      attrs["bias_strides"] = {0, c.group * c.s * c.t, c.s * c.t, c.t, 1};
    } else if (c.bias == 2) {
      bias.assign(c.batch * c.t, 0);
      for (size_t j = 0; j < bias.size(); ++j)
        if (j % 3 == 1 || int64_t(j) < c.t)
          bias[j] = c.batch > 1 && int64_t(j) < c.t ? -INFINITY : j % 3 == 1 ? -INFINITY : 0;
      attrs["bias_strides"] = {c.t, 0, 0, 0, 1};
    }
    bias = rounded(biasType, bias);
    if (c.dropout > 0)
      attrs["dropout"] = c.dropout;
    if (type != Element::F32)
      attrs["dtype"] = elementNames[int(type)];
    if (biasType != Element::F32)
      attrs["bias_dtype"] = elementNames[int(biasType)];
    reference();
  }

  static std::vector<float> rounded(Element type, const std::vector<float> &values) {
    return valuesOf(type, elementsOf(type, values));
  }

  double scale() const { return 1 / std::sqrt(double(c.d)); }
  int64_t query(int64_t b, int64_t i, int64_t m, int64_t g) const {
    return (b * length + i) * rowStride + m * headStride + g * c.d;
  }
  int64_t key(int64_t b, int64_t j, int64_t m) const { return query(b, j, m, c.group); }
  int64_t value(int64_t b, int64_t j, int64_t m) const { return query(b, j, m, c.group + 1); }
  double biasAt(int64_t b, int64_t m, int64_t g, int64_t i, int64_t j) const {
    if (c.bias == 1)
      return bias[((m * c.group + g) * c.s + i) * c.t + j];
    return c.bias == 2 ? bias[b * c.t + j] : 0;
  }

  /// What the weight of row `out` and key j is multiplied by.
  double dropFactor(int64_t out, int64_t j) const {
    if (c.dropout == 0)
      return 1;
    const uint64_t number = uint64_t(rows[out] + c.position(c.startT, j));
    const uint32_t word = philoxQuad(uint64_t(dropKey[0]), dropoutId, number / 4).word[number % 4];
    return word < dropThreshold(c.dropout) ? 0 : 1 / (1 - c.dropout);
  }

  void reference() {
    expectedO.assign(o.size(), 0);
    expectedLse.assign(lse.size(), 0);
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t m = 0; m < c.heads; ++m) {
        for (int64_t i = 0; i < c.s; ++i)
          std::fill_n(&expectedGradient[query(b, i, m, 0)], c.group * c.d, 0.0);
        for (int64_t j = 0; j < c.t; ++j)
          std::fill_n(&expectedGradient[key(b, j, m)], 2 * c.d, 0.0);
        for (int64_t g = 0; g < c.group; ++g)
          for (int64_t i = 0; i < c.validS; ++i)
            referenceRow(b, m, g, i);
      }
  }

  void referenceRow(int64_t b, int64_t m, int64_t g, int64_t i) {
    int64_t seen = 0;
    while (seen < c.validT && (!c.causal || c.position(c.startT, seen) <= c.position(c.startS, i)))
      ++seen;
    std::vector<double> p(seen);
    double highest = -INFINITY, total = 0;
    const int64_t q = query(b, i, m, g), out = ((b * c.s + i) * c.heads + m) * c.group + g;
    for (int64_t j = 0; j < seen; ++j) {
      double dot = 0;
      for (int64_t x = 0; x < c.d; ++x)
        dot += double(qkv[q + x]) * qkv[key(b, j, m) + x];
      p[j] = dot * scale() + biasAt(b, m, g, i, j);
      highest = std::max(highest, p[j]);
    }
    for (double &x : p)
      total += x = highest == -INFINITY ? 0 : std::exp(x - highest);
    expectedLse[out] = total == 0 ? -INFINITY : highest + std::log(total);
    double dotO = 0;
    for (int64_t x = 0; x < c.d; ++x) {
      double sum = 0;
      for (int64_t j = 0; j < seen; ++j)
        sum += total == 0 ? 0 : p[j] / total * dropFactor(out, j) * qkv[value(b, j, m) + x];
      expectedO[out * c.d + x] = sum;
      dotO += sum * dO[out * c.d + x];
    }
    for (int64_t j = 0; j < seen && total > 0; ++j) {
      const double factor = dropFactor(out, j);
      double dp = 0;
      for (int64_t x = 0; x < c.d; ++x) {
        dp += factor * dO[out * c.d + x] * qkv[value(b, j, m) + x];
        expectedGradient[value(b, j, m) + x] += p[j] / total * factor * dO[out * c.d + x];
      }
      const double ds = p[j] / total * (dp - dotO) * scale();
      for (int64_t x = 0; x < c.d; ++x) {
        expectedGradient[q + x] += ds * qkv[key(b, j, m) + x];
        expectedGradient[key(b, j, m) + x] += ds * qkv[q + x];
      }
    }
  }
};

/// The packed buffers as the call sees them: q, k and v (and their gradients) are one buffer.
void run(const char *function, const Data &data, std::vector<Argument> arguments, int64_t workspace,
         int threads) {
  std::vector<int64_t> bytes;
  std::vector<void *> pointers;
  for (const Argument &argument : arguments) {
    bytes.push_back(argument.bytes);
    pointers.push_back(argument.data);
  }
  const GuardedBytes area(workspace * threads);
  std::fill_n(reinterpret_cast<float *>(area.data()), workspace * threads / 4, notANumber);
  bytes.push_back(workspace * threads);
  pointers.push_back(area.data());
  json attrs = data.attrs;
  attrs["workspace"] = workspace * threads;
  const int64_t scalars[] = {data.c.validS, data.c.validT, data.c.startS, data.c.startT, int64_t(dropoutId)};
  Pool pool(threads);
  prepareCall(function,
              {attrs, bytes, data.c.dropout > 0 ? 5 : 4, threads})({pointers.data(), scalars, pool});
}

void check(const Case &c, Element type, Element biasType) {
  SCOPED_TRACE(testing::Message() << "b" << c.batch << " s" << c.s << " t" << c.t << " h" << c.heads << "x"
                                  << c.group << " d" << c.d << (c.causal ? " causal" : "") << " bias "
                                  << c.bias << " " << elementNames[int(type)] << " "
                                  << elementNames[int(biasType)]);
  // The backward also reads the rounded result.
  const double tolerance = 5e-6 + 1.01 * roundingOf(type), backwardTolerance = 5e-6 + 4 * roundingOf(type);
  std::vector<char> firstO, firstGradient;
  for (int threads : {1, 2}) {
    Data data(c, type, biasType);
    const bool biased = c.bias != 0;
    std::vector<char> qkv = elementsOf(type, data.qkv), bias = elementsOf(biasType, data.bias);
    std::vector<char> o = elementsOf(type, data.o), dO = elementsOf(type, data.dO),
                      dqkv = elementsOf(type, data.dqkv);
    std::vector<Argument> forward = {qkv, qkv, qkv};
    if (biased)
      forward.push_back(bias);
    std::vector<Argument> backward = forward;
    forward.insert(forward.end(), {o, data.lse});
    if (c.dropout > 0)
      forward.insert(forward.end(), {data.dropKey, data.rows});
    run("attention_forward", data, forward, attentionForwardWorkspaceBytes(c.t, c.d, 1), threads);
    expectClose(valuesOf(type, o), data.expectedO, tolerance);
    expectClose(data.lse, data.expectedLse, 5e-6);
    backward.insert(backward.end(), {o, data.lse, dO, dqkv, dqkv, dqkv});
    if (c.dropout > 0)
      backward.insert(backward.end(), {data.dropKey, data.rows});
    run("attention_backward", data, backward, attentionBackwardWorkspaceBytes(c.t, c.d, 1), threads);
    expectClose(valuesOf(type, dqkv), data.expectedGradient, backwardTolerance);
    if (threads == 1) {
      firstO = o;
      firstGradient = dqkv;
    } else {
      EXPECT_EQ(firstO, o);
      EXPECT_EQ(firstGradient, dqkv);
    }
  }
}

void check(const Case &c) {
  check(c, Element::F32, Element::F32);
  for (Element type : {Element::BF16, Element::F16}) {
    check(c, type, Element::F32);
    if (c.bias)
      check(c, type, type);
  }
}
} // namespace

TEST(Attention, OddSizes) {
  check({1, 1, 1, 1, 1, 8});
  check({2, 37, 53, 2, 1, 16});
  check({1, 80, 300, 1, 1, 20});
  check({1, 130, 17, 1, 2, 128});
  check({1, 75, 75, 2, 1, 5});
}

TEST(Attention, Causal) {
  check({2, 100, 100, 2, 1, 64, true});
  check({1, 600, 600, 1, 1, 8, true});
  check({1, 60, 90, 1, 3, 40, true});
}

TEST(Attention, CausalWithOffsets) {
  check({1, 40, 90, 1, 2, 16, true, 0, -1, -1, 30, 0});
  // Keys of later positions than every query: rows that see nothing.
  check({1, 40, 50, 1, 2, 16, true, 0, -1, -1, 10, 30});
}

TEST(Attention, ZigZag) {
  for (int64_t query : {0, 1, 2})
    for (int64_t key : {0, 1, 2})
      check({1, 90, 90, 2, 2, 16, true, int(key == 1), -1, -1, query * 90, key * 90, 3});
  check({2, 600, 600, 1, 1, 8, true, 0, -1, -1, 600, 600, 2});
  check({1, 2, 2, 1, 1, 8, true, 0, -1, -1, 0, 0, 1});
}

TEST(Attention, GroupedHeads) { check({2, 50, 50, 2, 3, 24, true}); }

TEST(Attention, Bias) {
  check({2, 45, 61, 2, 2, 16, false, 1});
  check({1, 310, 310, 1, 1, 8, true, 1});
  // Batch item 0 sees no key at all.
  check({2, 33, 47, 1, 2, 16, false, 2});
}

TEST(Attention, Dropout) {
  auto dropping = [](Case c, double ratio) {
    c.dropout = ratio;
    check(c);
  };
  dropping({2, 37, 53, 2, 3, 16}, 0.1);
  dropping({1, 75, 301, 1, 1, 5, false, 1}, 0.5);
  dropping({1, 300, 300, 1, 1, 8, true}, 0.9);
  dropping({1, 50, 70, 2, 2, 16, false, 0, 41, 59, 3, 11}, 0.3);
  dropping({1, 90, 90, 2, 2, 16, true, 0, -1, -1, 90, 90, 3}, 0.2);
}

TEST(Attention, PaddingIsNeverRead) {
  check({1, 50, 70, 2, 2, 16, false, 0, 41, 59});
  check({1, 90, 90, 1, 1, 32, true, 0, 80, 80});
  check({1, 20, 20, 1, 1, 16, false, 0, 0, 0});
}
