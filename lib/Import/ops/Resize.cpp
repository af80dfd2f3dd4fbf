// Resize and the regrouping of depth and space. A resized dimension is a product with a matrix of weights
// that is known at import, whatever the interpolation.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include <cmath>

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// One dimension: how result positions are mapped, and what they are made of.
struct Interpolation {
  std::string mode, coordinates, nearest;
  double cubic;
  bool excludeOutside;
};

double sourcePosition(NodeImport &n, const Interpolation &how, int64_t o, double scale, int64_t from,
                      int64_t to) {
  double half = (o + 0.5) / scale - 0.5;
  if (how.coordinates == "half_pixel")
    return half;
  if (how.coordinates == "half_pixel_symmetric")
    return from / 2.0 * (1 - to / (scale * from)) + half;
  if (how.coordinates == "pytorch_half_pixel")
    return to > 1 ? half : 0;
  if (how.coordinates == "asymmetric")
    return o / scale;
  if (how.coordinates == "align_corners")
    return to > 1 ? static_cast<double>(o) * (from - 1) / (to - 1) : 0;
  n.fail("coordinate_transformation_mode '" + how.coordinates + "' of a Resize is not supported");
}

int64_t nearestTo(NodeImport &n, const std::string &mode, double position) {
  if (mode == "floor")
    return std::floor(position);
  if (mode == "ceil")
    return std::ceil(position);
  if (mode == "round_prefer_floor")
    return std::ceil(position - 0.5);
  if (mode == "round_prefer_ceil")
    return std::floor(position + 0.5);
  n.fail("nearest_mode '" + mode + "' is unknown");
}

/// Neighbours, counted from floor(position), with their weights.
std::vector<std::pair<int64_t, double>> neighbours(NodeImport &n, const Interpolation &how, double position) {
  int64_t base = std::floor(position);
  double t = position - base, a = how.cubic;
  if (how.mode == "nearest")
    return {{nearestTo(n, how.nearest, position), 1}};
  if (how.mode == "linear")
    return {{base, 1 - t}, {base + 1, t}};
  if (how.mode != "cubic")
    n.fail("mode '" + how.mode + "' of a Resize is unknown");
  std::vector<std::pair<int64_t, double>> list;
  for (int64_t k = -1; k <= 2; ++k) {
    double x = std::abs(t - k);
    list.push_back(
        {base + k, x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a});
  }
  return list;
}

/// [to, from]: the weight of each source position in each result position.
HostTensor weights(NodeImport &n, const Interpolation &how, Type type, double scale, int64_t from,
                   int64_t to) {
  HostTensor matrix(type, {to, from}, {to, from});
  for (int64_t o = 0; o < to; ++o) {
    auto list = neighbours(n, how, sourcePosition(n, how, o, scale, from, to));
    double sum = 0;
    for (auto &[position, weight] : list) {
      bool outside = position < 0 || position >= from;
      weight = how.excludeOutside && outside ? 0 : weight;
      sum += weight;
      position = std::clamp<int64_t>(position, 0, from - 1);
    }
    for (auto [position, weight] : list)
      matrix.set(o * from + position,
                 matrix.number(o * from + position) + weight / (how.excludeOutside ? sum : 1));
  }
  return matrix;
}

/// Dimension `axis` of x, of size n, as `matrix` [m, n] times it.
Value multiplied(Emitter &e, Value x, Value matrix, int64_t axis) {
  static const std::string all = "abcdefgh";
  std::string in = all.substr(0, rankOf(x)), out = in;
  out[axis] = 'y';
  return e.contract(x, matrix, in, std::string("y") + in[axis], out);
}

void resize(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  int64_t rank = rankOf(x);
  if (rank > 8 || !isa<FloatType>(elementOf(x)))
    n.fail("Resize needs a floating image of at most 8 dimensions");
  if (n.intAttr("antialias", 0) || n.stringAttr("keep_aspect_ratio_policy", "stretch") != "stretch")
    n.fail("Resize with antialias or keep_aspect_ratio_policy is not supported");
  n.ignore({"extrapolation_value"}); // of a crop, which is refused
  Interpolation how{n.stringAttr("mode", "nearest"),
                    n.stringAttr("coordinate_transformation_mode", "half_pixel"),
                    n.stringAttr("nearest_mode", "round_prefer_floor"), n.floatAttr("cubic_coeff_a", -0.75),
                    n.intAttr("exclude_outside", 0) != 0};
  std::vector<int64_t> axes = n.intsAttr("axes");
  if (axes.empty())
    axes.assign(llvm::seq<int64_t>(0, rank).begin(), llvm::seq<int64_t>(0, rank).end());
  for (int64_t &axis : axes) // in the order of their scales
    axis = n.axis(axis, rank);
  bool bySizes = n.has(3) && typeOf(n.in(3)).getNumElements();
  std::vector<int64_t> sizes = bySizes ? n.ints(3) : std::vector<int64_t>();
  const HostTensor *scales = bySizes ? nullptr : n.known(2);
  if (!bySizes && !scales)
    n.fail("the scales of a Resize must be known at compile time");
  HostTensor factors = scales ? scales->dense() : HostTensor();
  if ((bySizes ? static_cast<int64_t>(sizes.size()) : factors.storedSize()) !=
      static_cast<int64_t>(axes.size()))
    n.fail("Resize needs one size or scale for each of its axes");
  for (auto [k, axis] : llvm::enumerate(axes)) {
    int64_t from = shapeOf(x)[axis];
    double scale = bySizes ? static_cast<double>(sizes[k]) / from : factors.number(k);
    double target = bySizes ? sizes[k] : std::floor(from * scale);
    if (!(target >= 1 && target * from <= maxHostElements) || from < 1)
      n.fail("Resize of dimension " + Twine(axis) + " from size " + Twine(from) + " to " +
             std::to_string(target) + " is impossible or too large");
    int64_t to = target;
    if (to != from || scale != 1)
      x = multiplied(e, x, e.constant(weights(n, how, elementOf(x), scale, from, to)), axis);
  }
  n.out(x);
}

void depthToSpace(NodeImport &n) {
  Value x = n.in(0);
  int64_t block = n.intAttr("blocksize", 0);
  if (rankOf(x) != 4 || block < 1 || block > INT16_MAX || shapeOf(x)[1] % (block * block))
    n.fail("the channels of DepthToSpace do not fit blocks of " + Twine(block));
  llvm::ArrayRef<int64_t> s = shapeOf(x);
  int64_t channels = s[1] / (block * block);
  bool crd = n.stringAttr("mode", "DCR") == "CRD";
  Shape split =
      crd ? Shape{s[0], channels, block, block, s[2], s[3]} : Shape{s[0], block, block, channels, s[2], s[3]};
  std::vector<int64_t> perm =
      crd ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  n.out(
      n.e.reshape(n.e.transpose(n.e.reshape(x, split), perm), {s[0], channels, s[2] * block, s[3] * block}));
}

void spaceToDepth(NodeImport &n) {
  Value x = n.in(0);
  int64_t block = n.intAttr("blocksize", 0);
  if (rankOf(x) != 4 || block < 1 || block > INT16_MAX || shapeOf(x)[2] % block || shapeOf(x)[3] % block)
    n.fail("the image of SpaceToDepth does not fit blocks of " + Twine(block));
  llvm::ArrayRef<int64_t> s = shapeOf(x);
  int64_t h = s[2] / block, w = s[3] / block;
  Value split = n.e.reshape(x, {s[0], s[1], h, block, w, block});
  n.out(n.e.reshape(n.e.transpose(split, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * block * block, h, w}));
}

} // namespace

void addResizeHandlers(HandlerRegistry &r) {
  r.add("Resize", resize);
  r.add("DepthToSpace", depthToSpace);
  r.add("SpaceToDepth", spaceToDepth);
}

} // namespace tessera
