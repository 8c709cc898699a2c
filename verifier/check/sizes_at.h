// Sizes of an instance at which conditions of a proof hold, such as that a position lies inside a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "substitutions/instance/instance.h"
#include "verifier/integer/variables.h"
#include "verifier/refute/counterexample.h"

namespace rewright {

// Not thread-safe. Local variables of the conditions are symbols like the instance's own, whose values are found with
// those.
class SizesAt {
 public:
  SizesAt(const verifier::Variables& ctx, RuleInstance instance) : ctx_(ctx), instance_(std::move(instance)) {}

  // Conditions that elements decide are left out.
  void Require(const verifier::Guard& g);
  void RequireInside(const verifier::Poly& index, const ExprPtr& size);

  struct Drawn {
    std::vector<int64_t> sizes;  // of the instance's symbols
    verifier::Assignment locals;
  };
  // After all conditions. Each symbol is among the `width` least values that it may have.
  std::optional<Drawn> Draw(int width, uint64_t seed);

 private:
  // Nothing where an element occurs.
  std::optional<Index> Of(verifier::Var v);
  std::optional<Index> Of(const verifier::Poly& p);
  std::optional<Cond> Of(const verifier::Guard& g);

  const verifier::Variables& ctx_;
  RuleInstance instance_;
  const size_t own_symbols_ = instance_.symbols.size();
  std::vector<verifier::Var> locals_;  // that are symbols, in their order
};

}  // namespace rewright
