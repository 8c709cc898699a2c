#include "verifier/classify/value_distribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/tensor/dtype.h"

namespace rewright {
namespace {

// Numbers of the standard normal distribution. A rule is measured on millions of them, and drawing each anew was a
// sixth of the time: leaves are runs of this table from random places.
constexpr size_t kNormals = 1 << 14;
constexpr size_t kRun = 256;  // long leaves are made of several runs

const double* Normals() {
  static const auto* const table = [] {
    auto* const numbers = new std::array<double, kNormals + kRun>;
    std::mt19937_64 rng(0);
    std::normal_distribution<double> normal;
    for (double& number : *numbers) number = normal(rng);
    return numbers;
  }();
  return table->data();
}

double WithSign(double value, uint64_t bits) { return bits % 2 == 0 ? value : -value; }

double WithRandomSign(double value, std::mt19937_64& rng) { return WithSign(value, rng()); }

// One of the numbers, of either sign.
template <size_t n>
double OneOf(const double (&numbers)[n], std::mt19937_64& rng) {
  const uint64_t bits = rng();
  return WithSign(numbers[(bits >> 1) % n], bits);
}

}  // namespace

double ValueDistribution::Offset(Leaves kind) {
  const double far = half_ ? 8 : 1000, steep = half_ ? 6 : 20, steepest = half_ == DType::kFloat16 ? 11.5 : 90;
  switch (kind) {
    case Leaves::kFarFromZero: return far;
    case Leaves::kOpposite: return WithRandomSign(far, rng_);
    case Leaves::kSteep: return WithRandomSign(steep, rng_);
    case Leaves::kSteepest: return WithRandomSign(steepest, rng_);
    default: return 0;
  }
}

std::vector<Number> ValueDistribution::Reals(const RuleInstance& instance, Leaves kind) {
  std::normal_distribution<double> normal;
  std::vector<Number> reals;
  for (const RealSymbol& real : instance.reals) {
    if (!IsFloating(real.dtype)) {
      const int64_t value = Integer(real.dtype, kind == Leaves::kOrdinary ? Leaves::kScaled : kind);
      reals.emplace_back(real.positive ? std::max<int64_t>(1, value) : value);
      continue;
    }
    double value = normal(rng_);
    if (kind == Leaves::kZeros && value < 1) value = std::copysign(0.0, value);
    reals.emplace_back(real.positive ? std::abs(value) + 1e-3 : value);
  }
  return reals;
}

// Elements of one leaf, as doubles, in drawn_.
void ValueDistribution::DrawFloats(DType dtype, Leaves kind, bool positive, int64_t count) {
  drawn_.resize(static_cast<size_t>(count));
  switch (kind) {
    case Leaves::kTies:
      for (double& x : drawn_) x = OneOf({0, 0.5, 1, 1.5, 2}, rng_);
      break;
    case Leaves::kZeros: {
      // Zeros alone, or among numbers of one sign, so that an extremum is one of several zeros.
      const double filler = static_cast<double>(rng_() % 3) - 1;
      for (double& x : drawn_) x = filler != 0 && rng_() % 2 == 0 ? filler : WithRandomSign(0, rng_);
      break;
    }
    case Leaves::kExtreme:
      for (double& x : drawn_) x = Extreme(dtype);
      break;
    case Leaves::kFullRange:
      for (double& x : drawn_) x = FullRange(dtype);
      break;
    default: {
      std::uniform_real_distribution<double> exponent(-2, 2);
      const double small = half_ ? 1e-3 : 1e-8;
      const double scale = kind == Leaves::kScaled ? std::pow(10, exponent(rng_)) : kind == Leaves::kSmall ? small : 1;
      const double offset = Offset(kind);
      for (size_t begin = 0; begin < drawn_.size(); begin += kRun) {
        const double* const run = Normals() + rng_() % kNormals;
        const size_t length = std::min(kRun, drawn_.size() - begin);
        for (size_t i = 0; i < length; ++i) drawn_[begin + i] = offset + scale * run[i];
      }
    }
  }
  if (!positive) return;
  for (double& x : drawn_) x = std::abs(x) + 1e-3;
}

bool ValueDistribution::Draw(const RuleInstance& instance, const NumericInstance& numeric, Leaves kind,
                             Precision precision, std::vector<Tensor>* leaves) {
  leaves->assign(instance.nodes.size(), Tensor());
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    for (size_t k = 0; k < node.dtypes.size(); ++k) {
      if (numeric.TypeOf(node, k).num_elements() > kMaxElements) return false;
    }
    if (node.op != nullptr) continue;
    const TensorType type = numeric.TypeOf(node, 0);
    Tensor leaf(TensorType{StoredDType(precision, type.dtype), type.shape});
    const int64_t count = leaf.num_elements();
    if (node.splat.has_value()) {
      // 0 matches -0 as well.
      const bool matched = n < static_cast<size_t>(instance.num_lhs_nodes) && IsFloating(leaf.dtype());
      for (int64_t i = 0; i < count; ++i) {
        SetElement(*node.splat, i, &leaf);
        if (matched && leaf.At(i) == 0 && rng_() % 2 == 0) leaf.Set(i, -leaf.At(i));
      }
    } else if (IsFloating(leaf.dtype())) {
      DrawFloats(leaf.dtype(), kind, node.positive, count);
      ConvertElements(DType::kFloat64, drawn_.data(), leaf.dtype(), leaf.data(), count);
    } else {
      for (int64_t i = 0; i < count; ++i) leaf.SetInt(i, Integer(leaf.dtype(), kind));
    }
    (*leaves)[n] = std::move(leaf);
  }
  return true;
}

// Small ones, which may be indices or truth values; some of both signs; some that no floating type tells apart.
int64_t ValueDistribution::Integer(DType dtype, Leaves kind) {
  const int64_t small = static_cast<int64_t>(rng_() % 2);
  if (dtype == DType::kBool || (kind != Leaves::kScaled && kind != Leaves::kFarFromZero)) return small;
  if (kind == Leaves::kScaled) return static_cast<int64_t>(rng_() % 11) - 5;
  return (int64_t{1} << (dtype == DType::kInt64 && rng_() % 2 == 0 ? 53 : 24)) + small;
}

// Numbers near the ends of a type: the largest, whose sums overflow, and the smallest.
double ValueDistribution::Extreme(DType dtype) {
  const bool wide = dtype == DType::kFloat64;
  if (IsHalf(dtype)) {
    const double halves[] = {
        LargestOf(dtype), SmallestNormalOf(dtype) * 2 * RoundingOf(dtype), SmallestNormalOf(dtype), 1, 0.1, 0};
    return OneOf(halves, rng_);
  }
  const double values[] = {wide ? 1.7e308 : 3.3e38, wide ? 4.9e-324 : 1.4e-45, wide ? 2.3e-308 : 1.2e-38, 1, 0.1, 0};
  return OneOf(values, rng_);
}

// Draws a number of any magnitude that the type has. Most numbers in the range of f64 are beyond that of f32; the
// product of a few of them is within the range of f64.
double ValueDistribution::FullRange(DType dtype) {
  const double most = dtype == DType::kFloat64 ? 60 : 37;
  std::uniform_real_distribution<double> exponent(-most, most);
  return WithRandomSign(std::pow(10, exponent(rng_)), rng_);
}

bool ValueDistribution::InjectNonFiniteReal(const RuleInstance& instance, std::vector<Number>* reals) {
  std::vector<size_t> choices;
  for (size_t i = 0; i < instance.reals.size(); ++i) {
    if (IsFloating(instance.reals[i].dtype) && !instance.reals[i].positive && !instance.reals[i].finite)
      choices.push_back(i);
  }
  if (choices.empty() || rng_() % 2 == 0) return false;
  (*reals)[choices[rng_() % choices.size()]] = WithRandomSign(HUGE_VAL, rng_);
  return true;
}

bool ValueDistribution::InjectNonFinite(const RuleInstance& instance, std::vector<Tensor>* leaves) {
  std::vector<size_t> choices;
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    if (node.op != nullptr || node.splat.has_value() || node.finite) continue;
    if (IsFloating((*leaves)[n].dtype()) && (*leaves)[n].num_elements() > 0) choices.push_back(n);
  }
  if (choices.empty()) return false;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double values[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  const bool many = rng_() % 4 == 0;
  for (uint64_t count = many ? 4 + rng_() % 12 : 1 + rng_() % 3; count > 0; --count) {
    Tensor& leaf = (*leaves)[choices[rng_() % choices.size()]];
    leaf.Set(static_cast<int64_t>(rng_() % static_cast<uint64_t>(leaf.num_elements())), values[rng_() % 3]);
  }
  return true;
}

}  // namespace rewright
