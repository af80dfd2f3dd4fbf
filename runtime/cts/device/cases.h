// What the conformance tests of devices share: a library call on random data, run on a device, and the
// descriptions of calls.
#pragma once

#include "runtime/core/error.h"
#include "runtime/device/cpu/host_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/half.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace tessera::rt::test {

using nlohmann::json;

constexpr size_t workspaceBytes = 1 << 23;

/// Bytes of a buffer and what they hold at first.
struct BufferSpec {
  enum Kind { Floats, Positive, Hiding, Ids, Bytes } kind = Floats;
  int64_t count = 0;
  int64_t bound = 0;           ///< Ids in [-1, bound); of Hiding the elements of a row
  Element type = Element::F32; ///< of Floats and Hiding
  int64_t bytes() const { return count * (kind == Ids ? 8 : kind == Bytes ? 1 : bytesOf(type)); }
};
inline BufferSpec floats(int64_t n) { return {BufferSpec::Floats, n}; }
inline BufferSpec positive(int64_t n) { return {BufferSpec::Positive, n}; }
/// With -infinity here and there, and in each third row throughout.
inline BufferSpec hiding(int64_t n, int64_t row) { return {BufferSpec::Hiding, n, row}; }
inline BufferSpec ids(int64_t n, int64_t bound) { return {BufferSpec::Ids, n, bound}; }
inline BufferSpec bytes(int64_t n) { return {BufferSpec::Bytes, n}; }

struct Case {
  std::string function;
  json attrs;
  std::vector<BufferSpec> buffers;
  std::vector<int64_t> scalars = {};
  double tolerance = 1e-5;
  int same = -1; ///< this buffer is passed again as the last one: in place
};

inline void PrintTo(const Case &c, std::ostream *out) { *out << c.function << " " << c.attrs.dump(); }

inline std::vector<char> contents(const BufferSpec &spec, unsigned seed) {
  std::vector<char> data(size_t(spec.bytes()));
  if (data.size() >= workspaceBytes)
    return data;
  std::mt19937 random(seed);
  for (int64_t i = 0; i < spec.count; ++i) {
    float value =
        std::uniform_real_distribution<float>(spec.kind == BufferSpec::Positive ? 0.1f : -1, 1)(random);
    if (spec.kind == BufferSpec::Hiding && (i / spec.bound % 3 == 1 || value > 0.5f))
      value = -INFINITY;
    int64_t id = std::uniform_int_distribution<int64_t>(-1, std::max<int64_t>(spec.bound, 1) - 1)(random);
    if (spec.kind == BufferSpec::Ids)
      std::memcpy(&data[size_t(i) * 8], &id, 8);
    else if (spec.kind == BufferSpec::Bytes)
      data[size_t(i)] = char(random());
    else
      writeElement(spec.type, data.data(), i, value);
  }
  return data;
}

/// Workspaces are each device's own.
inline bool isScratch(const Case &c, size_t buffer) {
  return c.attrs.contains("workspace") && buffer + 1 == c.buffers.size();
}

/// The buffers after a call.
inline std::vector<std::vector<char>> runOn(Device &device, const Case &c) {
  LibrarySite site{c.function, c.attrs, {}, {}, int64_t(c.scalars.size())};
  std::vector<std::vector<char>> data;
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    data.push_back(contents(c.buffers[i], unsigned(i + 1)));
    site.args.push_back(device.allocate(c.buffers[i].bytes()));
    site.argBytes.push_back(c.buffers[i].bytes());
    if (!isScratch(c, i))
      device.upload(site.args.back(), data.back().data(), c.buffers[i].bytes());
  }
  if (c.same >= 0) {
    site.args.push_back(site.args[size_t(c.same)]);
    site.argBytes.push_back(site.argBytes[size_t(c.same)]);
  }
  Work work = device.prepareCall(site);
  work(c.scalars.data());
  for (size_t i = 0; i < data.size(); ++i)
    if (!isScratch(c, i))
      device.download(data[i].data(), site.args[i], c.buffers[i].bytes());
  device.finish();
  for (size_t i = 0; i < data.size(); ++i)
    device.release(site.args[i], c.buffers[i].bytes());
  return data;
}

inline const cuda::KernelTable noKernels;
inline std::unique_ptr<cuda::CudaDevice> gpu() {
  return std::make_unique<cuda::CudaDevice>(DevicePlace{1, 0, 1}, "sm_80", noKernels);
}
/// A setting of the checking driver while this lives.
struct Setting {
  const char *name;
  Setting(const char *name, const char *value) : name(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name); }
};

inline HostDevice host() {
  return HostDevice(2, [](std::string_view) { return nullptr; });
}

inline json attention(int64_t s, int64_t t, int64_t group, int64_t d, bool causal, bool bias) {
  int64_t heads = 2, row = heads * group * d, key = heads * d;
  json attrs = {{"batch", 2},
                {"s", s},
                {"t", t},
                {"kv_heads", heads},
                {"group", group},
                {"d", d},
                {"scale", 0.3},
                {"causal", causal},
                {"bias", bias},
                {"q_strides", {s * row, row, group * d, d}},
                {"k_strides", {t * key, key, d}},
                {"v_strides", {t * key, key, d}},
                {"o_strides", {s * row, row, group * d, d}},
                {"workspace", workspaceBytes}};
  if (bias)
    attrs["bias_strides"] = {0, 0, 0, t, 1};
  return attrs;
}

/// `bias`: its elements.
inline std::vector<BufferSpec> attentionBuffers(int64_t s, int64_t t, int64_t group, int64_t d, int64_t bias,
                                                bool backward) {
  int64_t q = 2 * s * 2 * group * d, k = 2 * t * 2 * d, rows = 2 * s * 2 * group;
  std::vector<BufferSpec> all = {floats(q), floats(k), floats(k)};
  if (bias)
    all.push_back(hiding(bias, t));
  all.push_back(floats(q));
  all.push_back(bias ? hiding(rows, 2 * group) : positive(rows));
  if (backward)
    for (int64_t n : {q, q, k, k})
      all.push_back(floats(n));
  all.push_back(bytes(workspaceBytes));
  return all;
}

/// Biases of attention that cuDNN takes, and what they are of.
struct ScoreBias {
  const char *of;
  json strides;
  int64_t count;
};
inline std::vector<ScoreBias> biasesOf(int64_t s, int64_t t, int64_t group) {
  int64_t heads = 2 * group;
  return {{"queries and keys", {0, 0, 0, t, 1}, s * t},
          {"padded keys", {t, 0, 0, 0, 1}, 2 * t},
          {"heads and distances", {0, group * s * t, s * t, t, 1}, heads * s * t},
          {"heads and padded keys", {heads * t, group * t, t, 0, 1}, 2 * heads * t},
          {"everything", {heads * s * t, group * s * t, s * t, t, 1}, 2 * heads * s * t}};
}

inline json gemm(int64_t m, int64_t n, int64_t k, bool transposed = false) {
  return {{"m", m},
          {"n", n},
          {"k", k},
          {"a", transposed ? json{1, m} : json{k, 1}},
          {"b", transposed ? json{1, k} : json{n, 1}},
          {"c", {n, 1}},
          {"workspace", workspaceBytes}};
}
inline json with(json attrs, const json &more) {
  attrs.update(more);
  return attrs;
}

inline void expectEqual(const Case &c, const std::vector<std::vector<char>> &got,
                        const std::vector<std::vector<char>> &wanted) {
  for (size_t b = 0; b < wanted.size(); ++b) {
    if (isScratch(c, b))
      continue;
    if (c.buffers[b].kind == BufferSpec::Ids || c.buffers[b].kind == BufferSpec::Bytes) {
      EXPECT_EQ(got[b], wanted[b]) << "buffer " << b;
      continue;
    }
    for (int64_t i = 0; i < c.buffers[b].count; ++i) {
      Element type = c.buffers[b].type;
      float x = readElement(type, got[b].data(), i), y = readElement(type, wanted[b].data(), i);
      if (x == y || (std::isnan(x) && std::isnan(y)))
        continue;
      // What is rounded may come to lie on either side.
      double rounding = type == Element::F32 ? 0 : type == Element::BF16 ? 0x1p-7 : 0x1p-10;
      ASSERT_NEAR(x, y, (c.tolerance + rounding) * std::max(1.0f, std::fabs(y)))
          << "buffer " << b << " at " << i;
    }
  }
}

/// A function of the checking cuBLASLt; null with the real one.
template <typename Function> Function *checkingFunction(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(::dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD), name));
}

/// Whether the checking driver plays the GPU; a real one does not do all that it does, nor refuse it.
inline bool isChecking() {
  return ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "tsr_check_holds") != nullptr;
}

inline std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace tessera::rt::test
