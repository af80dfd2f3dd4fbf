// Conversions to a half type: the element that `narrow` makes, which kernels round as.
#include "runtime/device/cpu/test/harness.h"

using namespace tessera::rt;
using namespace tessera::rt::cpu;

namespace {
/// All signs, exponents and leading bits, each with nothing, little, a tie and much behind them: subnormals,
/// infinities and NaN among them. The count is odd, so that vectors have a rest.
std::vector<float> everyKind() {
  std::vector<float> values = {1};
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (uint32_t low : {0x0, 0x1, 0xfff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff})
      values.push_back(__builtin_bit_cast(float, high << 16 | low));
  return values;
}

void checkConvert(Element type) {
  std::vector<float> source = everyKind();
  std::vector<uint16_t> target(source.size());
  const char *name = elementNames[int(type)];
  callLibrary("convert", {{"count", int64_t(source.size())}, {"dtype", name}}, {source, target});
  for (size_t i = 0; i < source.size(); ++i) {
    uint16_t wanted = 0;
    writeElement(type, &wanted, 0, source[i]);
    ASSERT_EQ(target[i], wanted) << name << " of " << source[i] << ", number " << i;
  }
}
} // namespace

TEST(Convert, ToNearestTiesToEven) {
  checkConvert(Element::BF16);
  checkConvert(Element::F16);
}
