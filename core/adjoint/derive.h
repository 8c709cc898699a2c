// Derivatives of index expressions.
//
// Reverse mode treats every scalar subexpression as a tensor over its free index variables, as Halide does functions
// (Li et al., Differentiable programming for image processing and deep learning in Halide, 2018): its adjoint is an
// expression over those variables, summed over the variables that each reader has beyond them. So nothing is computed
// more often than in the forward expression, up to a constant. At the leaves stand *sites*: reads of an operand, each
// with the adjoint of its value.
//
// Kinks are PyTorch's. Equal operands of a maximum share and a number takes all (core/ir/derivative.h); of equal
// elements under a maximum over an axis each gets the same share, or the first one all (Ties).
#pragma once

#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/adjoint/scope.h"
#include "core/ir/expr.h"
#include "core/ir/op.h"

namespace rewright {

// Shapes of operands, by operand number.
using OperandShapes = absl::flat_hash_map<int, std::vector<ExprPtr>>;

// True if the sets have an element in common.
bool Meets(const std::set<int>& a, const std::set<int>& b);

struct Site {
  ExprPtr read;
  Scalar adjoint;  // over the read's free variables
};

class Deriver {
 public:
  Deriver(Scope& scope, const OperandShapes& shapes, Ties ties) : scope_(scope), shapes_(shapes), ties_(ties) {}

  // Returns all reads of `input` in `element` with their adjoints; `seed` is the adjoint of `element` over the
  // variables `position`.
  std::vector<Site> Sites(const ExprPtr& element, const Scalar& seed, const std::vector<int>& position, int input);

  // Returns the derivative of the element along tangents: operand k's is operand tangents[k], of the same shape.
  Scalar Tangent(const ExprPtr& element, const absl::flat_hash_map<int, int>& tangents);

  // Sums the value over the variables' ranges. Factors and conditions that do not vary are taken out of the sum, unless
  // they read elements at positions that only the conditions make legal.
  Scalar SumOver(const std::set<int>& variables, const Scalar& value);

 private:
  struct Share {
    Cond attains;
    Scalar weight;
  };
  Share ShareOf(const ExprPtr& reduction);
  Scalar Others(const ExprPtr& reduction);
  Index FirstExtremum(const ExprPtr& reduction);
  bool IsReadable(const ExprPtr& expr);
  // The variables replaced by new ones of the same extents.
  std::vector<ExprPtr> Renaming(const std::set<int>& variables, absl::flat_hash_map<int, ExprPtr>* fresh);

  Scope& scope_;
  const OperandShapes& shapes_;
  const Ties ties_;
};

}  // namespace rewright
