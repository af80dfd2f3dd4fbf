// Stands in for libcublasLt.so.13 in tests: products on the host, late in their stream as a kernel is.
//
// It refuses what cuBLASLt refuses, or computes wrongly: matrices that do not fit each other, types that it
// has no product of, leading dimensions shorter than a column, batches that differ, memory outside of the
// GPU's, addresses that are less aligned than the algorithm was chosen for, less workspace than it needs,
// epilogues that it does not have, pre-activations that do not lie in eights.
// Its algorithms need 4096 bytes of workspace where they are offered, so that what is handed over is looked
// at. With less there are none for pre-activations and sums.
#include "runtime/device/cuda/blas_library.h"
#include "runtime/device/cuda/check/machine.h"
#include "runtime/device/half.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::blas;
namespace check = tessera::rt::cuda::check;
using blas::Status;

namespace {

enum : Status { success = 0, invalidValue = 7, notSupported = 15 };

/// Attributes by number.
struct Described {
  std::map<int, uint64_t> values;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  tessera::rt::Element type = tessera::rt::Element::F32;
  int64_t at(int attribute, int64_t standard = 0) const {
    auto it = values.find(attribute);
    return it == values.end() ? standard : int64_t(it->second);
  }
  int64_t count() const { return at(BatchCount, 1); }
  int64_t stride() const { return at(BatchStride); }
  /// From the first element to behind the last.
  int64_t extent() const {
    return (count() - 1) * stride() + (int64_t(columns) - 1) * leading + int64_t(rows);
  }
  uint64_t bytes() const { return uint64_t(bytesOf(type)); }
  float read(const void *data, int64_t i) const { return readElement(type, data, i); }
};
Described &of(Handle handle) { return *static_cast<Described *>(handle); }

Status refuse(const std::string &what) {
  check::fail(invalidValue, "cuBLASLt: " + what);
  return invalidValue;
}

/// What an algorithm remembers of what it was chosen for. The heuristics' first guess is a slow one.
struct Chosen {
  uint32_t magic, alignment[4];
  uint64_t workspace;
  uint32_t epilogue, slow;
};
static_assert(sizeof(Chosen) <= sizeof(Algorithm));
constexpr uint32_t magic = 0xb1a5;
constexpr uint64_t workspaceNeeded = 4096;
std::atomic<int> slowProducts = 0;
std::atomic<uint32_t> lastEpilogue = 0;

Status set(Handle handle, int attribute, const void *value, size_t bytes,
           std::initializer_list<std::pair<int, size_t>> known) {
  for (auto [number, size] : known)
    if (number == attribute && size == bytes) {
      uint64_t &entry = of(handle).values[attribute];
      entry = 0;
      std::memcpy(&entry, value, bytes);
      return success;
    }
  return refuse("attribute " + std::to_string(attribute) + " of " + std::to_string(bytes) + " bytes");
}

/// The shapes as op(A) op(B) = D.
Status checkShapes(Handle descriptor, Handle a, Handle b, Handle c, Handle d) {
  bool ta = of(descriptor).at(TransposeA), tb = of(descriptor).at(TransposeB);
  uint64_t m = ta ? of(a).columns : of(a).rows, k = ta ? of(a).rows : of(a).columns;
  uint64_t k2 = tb ? of(b).columns : of(b).rows, n = tb ? of(b).rows : of(b).columns;
  if (k != k2 || of(d).rows != m || of(d).columns != n || of(c).rows != m || of(c).columns != n)
    return refuse("matrices that do not fit each other");
  if (of(a).type != of(b).type || of(c).type != of(d).type ||
      (of(d).type != of(a).type && of(d).type != tessera::rt::Element::F32))
    return refuse("matrices whose types do not fit each other");
  for (Handle layout : {a, b, c, d}) {
    if (of(layout).leading < int64_t(of(layout).rows))
      return refuse("a leading dimension of " + std::to_string(of(layout).leading) + " for columns of " +
                    std::to_string(of(layout).rows));
    if (of(layout).count() != of(d).count())
      return refuse("batches that differ");
  }
  if (of(d).count() > 1 && of(d).stride() < int64_t(of(d).rows))
    return refuse("items of the result that overlap");
  return success;
}

constexpr uint32_t sums = SumsOfFirst | SumsOfSecond;
uint32_t epilogueOf(Handle descriptor) { return uint32_t(of(descriptor).at(Epilogue, Plain)); }
/// The matrix of pre-activations.
Described auxOf(Handle descriptor, const Described &result) {
  Described aux = result;
  aux.leading = of(descriptor).at(AuxLeading);
  aux.values[BatchStride] = uint64_t(of(descriptor).at(AuxStride));
  return aux;
}

Status checkEpilogue(Handle descriptor, Handle d) {
  uint32_t kind = epilogueOf(descriptor);
  auto known = {
      uint32_t(Plain),       uint32_t(Relu), uint32_t(Bias),    Relu | Bias,     uint32_t(Gelu),
      Gelu | Bias,           Gelu | Aux,     Gelu | Aux | Bias, GeluSlope | Aux, uint32_t(SumsOfFirst),
      uint32_t(SumsOfSecond)};
  if (std::ranges::find(known, kind) == known.end())
    return refuse("epilogue " + std::to_string(kind));
  if ((kind & (Bias | sums)) && !of(descriptor).at(BiasPointer))
    return refuse("an epilogue without its bias");
  if ((kind & sums) && of(d).count() > 1)
    return refuse("sums of several items");
  if (!(kind & Aux))
    return success;
  Described aux = auxOf(descriptor, of(d));
  if (!of(descriptor).at(AuxPointer) || of(descriptor).at(AuxPointer) % 16)
    return refuse("pre-activations that do not begin at a multiple of 16 bytes");
  if (aux.leading % 8 || aux.leading < int64_t(aux.rows) || (aux.count() > 1 && aux.stride() % 8))
    return refuse("pre-activations with a leading dimension of " + std::to_string(aux.leading) +
                  " and items " + std::to_string(aux.stride()) + " apart");
  return success;
}

Status checkProduct(Handle descriptor, Handle a, Handle b, Handle c, Handle d) {
  Status status = checkShapes(descriptor, a, b, c, d);
  return status ? status : checkEpilogue(descriptor, d);
}

/// The GELU by tanh, and its derivative.
float gelu(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }
float geluSlope(float x) {
  float t = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * x * x);
}

/// `bias` and `aux` have the type of the result; `at`: the element of aux.
float finished(uint32_t epilogue, const Described &result, const void *bias, int64_t row, void *aux,
               int64_t at, float value) {
  if (epilogue & Bias)
    value += result.read(bias, row);
  if (epilogue & GeluSlope)
    return value * geluSlope(result.read(aux, at));
  if (epilogue & Aux)
    writeElement(result.type, aux, at, value);
  if (epilogue & Relu)
    value = std::max(value, 0.0f);
  return epilogue & Gelu ? gelu(value) : value;
}

} // namespace

extern "C" {

/// For tests: how often the heuristics' first guess was taken. TESSERA_CHECK_SLOW says how many milliseconds
/// it takes.
int tsr_check_slow_products() { return slowProducts; }
/// For tests: the epilogue of the latest product.
uint32_t tsr_check_epilogue() { return lastEpilogue; }

size_t cublasLtGetVersion() { return 130000; }
Status cublasLtCreate(Handle *handle) {
  *handle = new int(tsr_check_gpu());
  return success;
}
Status cublasLtDestroy(Handle handle) {
  delete static_cast<int *>(handle);
  return success;
}
Status cublasLtMatmulDescCreate(Handle *descriptor, int compute, int scale) {
  *descriptor = new Described;
  return compute == Compute32 && scale == Real32 ? success : refuse("a product that is not summed in f32");
}
Status cublasLtMatrixLayoutCreate(Handle *layout, int type, uint64_t rows, uint64_t columns,
                                  int64_t leading) {
  using tessera::rt::Element;
  *layout = new Described{{},
                          rows,
                          columns,
                          leading,
                          type == RealB16  ? Element::BF16
                          : type == Real16 ? Element::F16
                                           : Element::F32};
  return type == Real32 || type == RealB16 || type == Real16
             ? success
             : refuse("a matrix of type " + std::to_string(type));
}
Status cublasLtMatmulPreferenceCreate(Handle *preference) {
  *preference = new Described;
  return success;
}
static Status destroy(Handle handle) {
  delete static_cast<Described *>(handle);
  return success;
}
Status cublasLtMatmulDescDestroy(Handle handle) { return destroy(handle); }
Status cublasLtMatrixLayoutDestroy(Handle handle) { return destroy(handle); }
Status cublasLtMatmulPreferenceDestroy(Handle handle) { return destroy(handle); }

Status cublasLtMatmulDescSetAttribute(Handle handle, int attribute, const void *value, size_t bytes) {
  return set(handle, attribute, value, bytes,
             {{TransposeA, 4},
              {TransposeB, 4},
              {Epilogue, 4},
              {BiasPointer, 8},
              {AuxPointer, 8},
              {AuxLeading, 8},
              {AuxStride, 8}});
}
Status cublasLtMatrixLayoutSetAttribute(Handle handle, int attribute, const void *value, size_t bytes) {
  return set(handle, attribute, value, bytes, {{BatchCount, 4}, {BatchStride, 8}});
}
Status cublasLtMatmulPreferenceSetAttribute(Handle handle, int attribute, const void *value, size_t bytes) {
  return set(handle, attribute, value, bytes,
             {{MostWorkspace, 8}, {AlignmentA, 4}, {AlignmentB, 4}, {AlignmentC, 4}, {AlignmentD, 4}});
}

Status cublasLtMatmulAlgoGetHeuristic(Handle, Handle descriptor, Handle a, Handle b, Handle c, Handle d,
                                      Handle preference, int wanted, Heuristic *found, int *count) {
  *count = 0;
  if (Status status = checkProduct(descriptor, a, b, c, d))
    return status;
  auto most = uint64_t(of(preference).at(MostWorkspace));
  Chosen chosen{magic, {}, std::min(workspaceNeeded, most), epilogueOf(descriptor), 1};
  if ((chosen.epilogue & (Aux | sums)) && most < workspaceNeeded)
    return notSupported;
  for (int i = 0; i < 4; ++i)
    chosen.alignment[i] = uint32_t(of(preference).at(AlignmentA + i, 256));
  if (wanted < 1)
    return refuse("no algorithm is wanted");
  for (*count = 0; *count < std::min(wanted, 2); ++*count, chosen.slow = 0) {
    found[*count] = {};
    std::memcpy(&found[*count].algorithm, &chosen, sizeof chosen);
    found[*count].workspaceBytes = chosen.workspace;
  }
  return success;
}

Status cublasLtMatmulAlgoCheck(Handle, Handle descriptor, Handle a, Handle b, Handle c, Handle d,
                               const Algorithm *algorithm, Heuristic *result) {
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  *result = {};
  result->workspaceBytes = chosen.workspace;
  // What no heuristics have made is refused without a word, as files may hold anything.
  return chosen.magic == magic && chosen.epilogue == epilogueOf(descriptor)
             ? checkProduct(descriptor, a, b, c, d)
             : notSupported;
}

Status cublasLtMatmul(Handle handle, Handle descriptor, const void *alpha, const void *a, Handle aLayout,
                      const void *b, Handle bLayout, const void *beta, const void *c, Handle cLayout, void *d,
                      Handle dLayout, const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                      Handle stream) {
  if (*static_cast<int *>(handle) != tsr_check_gpu())
    return refuse("the handle is another GPU's");
  if (Status status = checkProduct(descriptor, aLayout, bLayout, cLayout, dLayout))
    return status;
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  std::pair<const void *, Handle> matrices[] = {{a, aLayout}, {b, bLayout}, {c, cLayout}, {d, dLayout}};
  for (int i = 0; i < 4; ++i) {
    auto [pointer, layout] = matrices[i];
    auto address = reinterpret_cast<uint64_t>(pointer);
    if (!tsr_check_holds(pointer, size_t(of(layout).extent()) * of(layout).bytes()))
      return refuse("a matrix reaches outside of the GPU's memory");
    if (chosen.magic != magic || chosen.alignment[i] == 0 || address % chosen.alignment[i] ||
        (of(layout).count() > 1 && uint64_t(of(layout).stride()) * of(layout).bytes() % chosen.alignment[i]))
      return refuse("a matrix is less aligned than its algorithm was chosen for");
  }
  if (workspaceBytes < chosen.workspace || (chosen.workspace && !tsr_check_holds(workspace, workspaceBytes)))
    return refuse("less workspace than the algorithm needs");
  Described operation = of(descriptor), left = of(aLayout), right = of(bLayout), result = of(dLayout);
  uint32_t epilogue = epilogueOf(descriptor);
  if (epilogue != chosen.epilogue)
    return refuse("an algorithm for another epilogue");
  auto *bias = reinterpret_cast<void *>(operation.at(BiasPointer)),
       *aux = reinterpret_cast<void *>(operation.at(AuxPointer));
  Described auxLayout = auxOf(descriptor, result);
  uint64_t biasSize = epilogue & SumsOfSecond ? result.columns : result.rows;
  if ((epilogue & (Bias | sums)) && !tsr_check_holds(bias, biasSize * result.bytes()))
    return refuse("the bias lies outside of the GPU's memory");
  if ((epilogue & Aux) && !tsr_check_holds(aux, size_t(auxLayout.extent()) * result.bytes()))
    return refuse("the pre-activations reach outside of the GPU's memory");
  float scale = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
  auto work = [=] {
    slowProducts += chosen.slow;
    lastEpilogue = epilogue;
    if (const char *slow = std::getenv("TESSERA_CHECK_SLOW"); slow && chosen.slow)
      std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(slow)));
    // An algorithm leaves something in its workspace.
    if (chosen.workspace)
      std::memset(workspace, 0x7f, chosen.workspace);
    bool ta = operation.at(TransposeA), tb = operation.at(TransposeB);
    int64_t m = int64_t(result.rows), n = int64_t(result.columns), k = int64_t(ta ? left.rows : left.columns);
    std::vector<float> column(static_cast<size_t>(m)), columns(static_cast<size_t>(m * k)),
        sumsOfSecond(static_cast<size_t>(n));
    for (int64_t item = 0; item < result.count(); ++item) {
      for (int64_t t = 0; t < k; ++t)
        for (int64_t i = 0; i < m; ++i)
          columns[size_t(t * m + i)] =
              left.read(a, item * left.stride() + (ta ? i * left.leading + t : t * left.leading + i));
      for (int64_t j = 0; j < n; ++j) {
        std::fill(column.begin(), column.end(), 0.0f);
        for (int64_t t = 0; t < k; ++t) {
          float factor =
              right.read(b, item * right.stride() + (tb ? t * right.leading + j : j * right.leading + t));
          const float *from = &columns[size_t(t * m)];
          sumsOfSecond[size_t(j)] += factor;
          for (int64_t i = 0; i < m; ++i)
            column[size_t(i)] = std::fma(from[i], factor, column[size_t(i)]);
        }
        for (int64_t i = 0; i < m; ++i) {
          int64_t at = item * result.stride() + j * result.leading + i;
          float sum = scale * column[size_t(i)] + (keep != 0 ? keep * result.read(c, at) : 0);
          int64_t auxAt = item * auxLayout.stride() + j * auxLayout.leading + i;
          writeElement(result.type, d, at, finished(epilogue, result, bias, i, aux, auxAt, sum));
        }
      }
      for (int64_t i = 0; i < m && (epilogue & SumsOfFirst); ++i) {
        float sum = 0;
        for (int64_t t = 0; t < k; ++t)
          sum += columns[size_t(t * m + i)];
        writeElement(result.type, bias, i, sum);
      }
      for (int64_t j = 0; j < n && (epilogue & SumsOfSecond); ++j)
        writeElement(result.type, bias, j, sumsOfSecond[size_t(j)]);
    }
    return true;
  };
  return tsr_check_enqueue(stream, work, false) == 0 ? success : invalidValue;
}
}
