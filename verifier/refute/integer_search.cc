#include "verifier/refute/integer_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "core/base/integer.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/index_value.h"
#include "verifier/refute/concrete.h"
#include "verifier/refute/counterexample.h"
#include "verifier/refute/numeric_instance.h"

namespace rewright::verifier {
namespace {

constexpr size_t kAssignments = 6;
constexpr int64_t kMaxIntegerElements = 256;
// Limits of SearchPositions.
constexpr size_t kEnlargedAssignments = 3;
constexpr int64_t kMostElements = 1 << 18;
constexpr int64_t kMostReduced = 1 << 22;  // elements of a result times those that a reduction runs over

int64_t Small(std::mt19937_64& rng) { return static_cast<int64_t>(rng() % 7) - 3; }

// Small ones; the ends of the type and their neighbours; numbers whose doubles, or squares, wrap around.
int64_t Extreme(DType dtype, std::mt19937_64& rng) {
  const int bits = BitsOf(dtype), magnitude = IsUnsigned(dtype) ? bits : bits - 1;
  const int64_t greatest = magnitude > 62 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << magnitude) - 1;
  const int64_t least = IsUnsigned(dtype) ? 0 : -greatest - 1;
  const int64_t near = static_cast<int64_t>(rng() % 3);
  switch (rng() % 6) {
    case 0: return least + near;
    case 1: return greatest - near;
    case 2: return (rng() % 2 == 0 ? 1 : -1) * (greatest / 2 + near);
    case 3: return (rng() % 2 == 0 ? 1 : -1) * ((int64_t{1} << bits / 2) + near);
    default: return Small(rng);
  }
}

int64_t DrawInteger(DType dtype, bool positive, bool extreme, std::mt19937_64& rng) {
  if (dtype == DType::kBool) return static_cast<int64_t>(rng() % 2);
  const int64_t value = extreme ? Extreme(dtype, rng) : Small(rng);
  return !positive ? value : value > 0 ? value : 1;
}

// One leaf; `extreme` is about its integers.
Tensor DrawLeaf(const SymbolicNode& node, const TensorType& type, bool extreme, bool fractions, std::mt19937_64& rng) {
  Tensor leaf(TensorType{StoredDType(Precision::kFloat64, type.dtype), type.shape});
  for (int64_t i = 0; i < leaf.num_elements(); ++i) {
    if (node.splat.has_value()) {
      SetElement(*node.splat, i, &leaf);
    } else if (IsFloating(leaf.dtype())) {
      const double fraction = fractions ? static_cast<double>(rng() % 4) / 4 : 0;
      leaf.Set(i, static_cast<double>(node.positive ? 1 + std::abs(Small(rng)) : Small(rng)) + fraction);
    } else {
      leaf.SetInt(i, DrawInteger(leaf.dtype(), node.positive, extreme, rng));
    }
  }
  return leaf;
}

// The place in a tensor at which the sides differ, if any.
std::optional<int64_t> Difference(const Tensor& left, const Tensor& right) {
  for (int64_t i = 0; i < left.num_elements(); ++i) {
    const bool integers = !IsFloating(left.dtype()) && !IsFloating(right.dtype());
    if (integers ? left.AtInt(i) != right.AtInt(i) : Differ(left.At(i), right.At(i))) return i;
  }
  return std::nullopt;
}

std::optional<Counterexample> Compare(const RuleInstance& instance, const std::vector<int64_t>& symbols,
                                      int64_t most_elements, std::mt19937_64& rng) {
  static constexpr double kReals[] = {0.5, 1, 2, 3, -1, -2, 0};
  Counterexample found;
  std::vector<Number> reals;
  const bool extreme_reals = rng() % 2 == 0;
  for (const RealSymbol& real : instance.reals) {
    if (IsFloating(real.dtype)) {
      reals.emplace_back(kReals[rng() % (real.positive ? 4 : 7)]);
    } else {
      reals.emplace_back(DrawInteger(real.dtype, real.positive, extreme_reals, rng));
    }
    found.reals.emplace_back(real.name, reals.back());
  }
  const NumericInstance numeric(instance, symbols, reals);
  const bool fractions = RoundsToIntegers(instance);
  std::vector<Tensor> leaves(instance.nodes.size());
  for (size_t n = 0; n < instance.nodes.size(); ++n) {
    const SymbolicNode& node = instance.nodes[n];
    if (!numeric.Legal(node).ok()) return std::nullopt;
    for (size_t k = 0; k < node.dtypes.size(); ++k) {
      if (numeric.TypeOf(node, k).num_elements() > most_elements) return std::nullopt;
    }
    // Positions in a tensor are small, so not every leaf is extreme.
    if (node.op == nullptr) leaves[n] = DrawLeaf(node, numeric.TypeOf(node, 0), rng() % 4 != 0, fractions, rng);
  }
  const auto values = numeric.Run(leaves, Precision::kFloat64, instance.nodes.size());
  if (!values.ok()) return std::nullopt;
  const auto value_of = [&](SymbolicValue value) -> const Tensor& { return (*values)[value.node][value.output]; };
  for (size_t o = 0; o < instance.lhs.size() && o < instance.rhs.size(); ++o) {
    const Tensor& left = value_of(instance.lhs[o]);
    const Tensor& right = value_of(instance.rhs[o]);
    if (left.shape() != right.shape()) return std::nullopt;  // the other search's business
    const std::optional<int64_t> place = Difference(left, right);
    if (!place) continue;
    found.output = static_cast<int>(o);
    found.lhs = ElementOf(left, *place);
    found.rhs = ElementOf(right, *place);
    found.at.resize(left.shape().size());
    int64_t linear = *place;
    for (size_t k = found.at.size(); k-- > 0; linear /= left.shape()[k]) found.at[k] = linear % left.shape()[k];
    for (size_t s = 0; s < symbols.size(); ++s) found.symbols.emplace_back(instance.symbols[s].name, symbols[s]);
    for (size_t n = 0; n < instance.nodes.size(); ++n) {
      const SymbolicNode& node = instance.nodes[n];
      if (node.op != nullptr) continue;
      Counterexample::Input input{node.name, numeric.TypeOf(node, 0), {}, {}};
      for (int64_t i = 0; i < leaves[n].num_elements(); ++i) {
        input.values.push_back(leaves[n].At(i));
        if (IsInteger(input.type.dtype)) input.integers.push_back(leaves[n].AtInt(i));
      }
      found.inputs.push_back(std::move(input));
    }
    return found;
  }
  return std::nullopt;
}

// The bits in which positions and counts of 8 and 16 bits are stored.
std::set<int> BitsOfPositions(const RuleInstance& instance) {
  std::set<int> bits;
  for (const SymbolicNode& node : instance.nodes) {
    if (node.meaning == nullptr) continue;
    for (size_t k = 0; k < node.meaning->outputs.size(); ++k) {
      const DType dtype = node.dtypes[k];
      if (!IsInteger(dtype) || BitsOf(dtype) > 16) continue;
      const ExprPtr& element = node.meaning->outputs[k].element;
      if (element->Contains(ExprKind::kFromIndex) || element->Reduces()) bits.insert(BitsOf(dtype));
    }
  }
  return bits;
}

// True if the conditions hold, and no reduction has too many terms.
bool IsWithinReach(const RuleInstance& instance, const std::vector<int64_t>& symbols) {
  for (const ExprPtr& condition : instance.conditions) {
    if (!EvalCond(condition, symbols).value_or(false)) return false;
  }
  const NumericInstance numeric(instance, symbols, {});
  for (const SymbolicNode& node : instance.nodes) {
    if (node.meaning == nullptr || node.meaning->IsOpaque()) continue;
    int64_t read = 1;
    for (SymbolicValue input : node.inputs) {
      const TensorType type = numeric.TypeOf(instance.nodes[input.node], static_cast<size_t>(input.output));
      read = std::max(read, type.num_elements());
    }
    for (size_t k = 0; k < node.meaning->outputs.size(); ++k) {
      int64_t steps = 0;
      if (!node.meaning->outputs[k].element->Reduces()) continue;
      if (!CheckedMultiply(read, numeric.TypeOf(node, k).num_elements(), &steps) || steps > kMostReduced) return false;
    }
  }
  return true;
}

}  // namespace

bool HasIntegers(const RuleInstance& instance) {
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [](const SymbolicNode& node) {
    return std::any_of(node.dtypes.begin(), node.dtypes.end(), IsInteger);
  });
}

std::optional<Counterexample> SearchIntegers(const RuleInstance& instance,
                                             const std::vector<std::vector<int64_t>>& assignments, int draws,
                                             std::mt19937_64* rng) {
  for (size_t a = 0; a < std::min(assignments.size(), kAssignments); ++a) {
    for (int draw = 0; draw < draws; ++draw) {
      if (auto found = Compare(instance, assignments[a], kMaxIntegerElements, *rng)) return found;
    }
  }
  return std::nullopt;
}

std::optional<Counterexample> SearchPositions(const RuleInstance& instance,
                                              const std::vector<std::vector<int64_t>>& assignments,
                                              std::mt19937_64* rng) {
  for (int bits : BitsOfPositions(instance)) {
    for (size_t a = 0; a < std::min(assignments.size(), kEnlargedAssignments); ++a) {
      const size_t count = assignments[a].size();
      for (int64_t size : {(int64_t{1} << (bits - 1)) + 1, (int64_t{1} << bits) + 1}) {
        // One symbol after the other is made large, then all.
        for (size_t s = 0; s <= count; ++s) {
          std::vector<int64_t> symbols = assignments[a];
          for (size_t k = 0; k < count; ++k) symbols[k] = k == s || s == count ? size : symbols[k];
          if (!IsWithinReach(instance, symbols)) continue;
          if (auto found = Compare(instance, symbols, kMostElements, *rng)) return found;
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace rewright::verifier
