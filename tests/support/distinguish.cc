#include "tests/support/distinguish.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/refute/counterexample.h"
#include "verifier/refute/numeric_instance.h"

namespace rewright {
namespace {

constexpr int64_t kMaxSize = 5;
constexpr int64_t kMaxElements = 1 << 14;
constexpr double kTolerance = 1e-6;

Tensor RandomLeaf(const SymbolicNode& node, const TensorType& type, std::mt19937_64& rng) {
  Tensor leaf(type);
  for (int64_t i = 0; i < leaf.num_elements(); ++i) {
    if (node.splat.has_value()) {
      SetElement(*node.splat, i, &leaf);
    } else if (IsFloating(leaf.dtype())) {
      const auto digit = static_cast<double>(rng() % 9);
      leaf.Set(i, node.positive ? digit + 1 : digit - 4);
    } else {
      leaf.SetInt(i, static_cast<int64_t>(rng() % 2));
    }
  }
  return leaf;
}

bool Differ(const Tensor& a, const Tensor& b) {
  // Element types depend on the precision, so only shapes are compared.
  if (a.type().shape != b.type().shape) return true;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;  // not of the real numbers
    if (std::abs(x - y) > kTolerance * std::max({1.0, std::abs(x), std::abs(y)})) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> Distinguished(const RuleInstance& instance, int tries, std::mt19937_64& rng,
                                         int64_t* computed) {
  if (HasStandIn(instance)) return std::nullopt;  // no operator's elements
  for (const std::vector<int64_t>& symbols : verifier::CounterexampleSearch(instance, rng()).Draw(tries)) {
    if (std::any_of(symbols.begin(), symbols.end(), [](int64_t value) { return value > kMaxSize; })) continue;
    std::string at;
    for (size_t s = 0; s < symbols.size(); ++s) absl::StrAppend(&at, " ", instance.symbols[s].name, "=", symbols[s]);
    std::vector<Number> reals;
    for (const RealSymbol& real : instance.reals) {
      const auto digit = static_cast<int64_t>(rng() % 9) + (real.positive ? 1 : -4);
      if (IsFloating(real.dtype)) {
        reals.emplace_back(static_cast<double>(digit));
      } else {
        reals.emplace_back(real.dtype == DType::kBool ? digit & 1 : digit);
      }
    }
    const NumericInstance numeric(instance, symbols, reals);
    std::vector<Tensor> leaves(instance.nodes.size());
    bool small = true;
    for (size_t n = 0; n < instance.nodes.size() && small; ++n) {
      const SymbolicNode& node = instance.nodes[n];
      if (const absl::Status legal = numeric.Legal(node); !legal.ok()) {
        // Only assignments at which the left side is legal count.
        if (n >= static_cast<size_t>(instance.num_lhs_nodes)) return absl::StrCat(legal.message(), " at", at);
        small = false;
        break;
      }
      for (size_t k = 0; k < node.dtypes.size(); ++k) {
        small = small && numeric.TypeOf(node, k).num_elements() <= kMaxElements;
      }
      if (small && node.op == nullptr) leaves[n] = RandomLeaf(node, numeric.TypeOf(node, 0), rng);
    }
    if (!small) continue;
    const auto values = numeric.Run(leaves, Precision::kFloat64, instance.nodes.size());
    if (!values.ok()) continue;
    if (computed != nullptr) ++*computed;
    for (size_t k = 0; k < instance.lhs.size(); ++k) {
      const auto of = [&](SymbolicValue value) -> const Tensor& { return (*values)[value.node][value.output]; };
      if (Differ(of(instance.lhs[k]), of(instance.rhs[k]))) return absl::StrCat("output ", k, " differs at", at);
    }
  }
  return std::nullopt;
}

}  // namespace rewright
