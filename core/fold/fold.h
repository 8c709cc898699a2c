// Folds: an element that is computed in one pass over an axis, block by block.
//
// A softmax-weighted sum reads its axis three times: for the largest score, for the sum of exponentials, for the
// weighted sum. One pass suffices when numbers are *carried* from block to block:
//
//   m = max t: s[t]            m' = max(m, max of the block)
//   l = sum t: exp(s[t] - m)   l' = l * exp(m - m') + sum of the block
//   o = sum t: exp(s[t] - m) * v[t]     likewise; the element is o / l
//
// (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022.) No
// operator is named for it: the reductions along the axis are found in the element's expression, in the order in which
// they depend on one another, factors that do not vary along the axis leave the sums, and where a sum still depends on
// what was carried before, the number that brings it from the old to the new is derived: the quotient of the two terms,
// which must not vary along the axis.
//
// The derivation is a conjecture until it is proved (verifier/claims/fold_claims.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/ir/expr.h"
#include "core/ir/op.h"

namespace rewright {

// A reduction along the axis. In expressions of a fold a carried number is the operand `num_operands + its number`,
// read at its positions.
struct Carried {
  ReduceKind kind = ReduceKind::kSum;  // kSum, kProd, kMax, kMin
  ExprPtr body;                        // of the loop's variable, positions, and carried numbers before this one
  ExprPtr guard;                       // positions of the axis that count
  std::vector<int> positions;          // variables of the result's position that it depends on, ascending
  // Brings the carried number to the new values of those before it: a factor in which operand `num_operands + k` is the
  // old value of number k, and `num_operands + carried.size() + k` the new one. Null: it depends on none.
  ExprPtr repair;
};

struct Fold {
  int num_operands = 0;  // of the operator
  int variable = -1;     // of the loop
  ExprPtr extent;        // 0 <= variable < extent
  // Operands and their axes that the loop runs along; everything reads them at the loop's variable alone.
  std::vector<std::pair<int, int>> along;
  std::vector<Carried> carried;
  ExprPtr element;  // of the result: from carried numbers, operands and positions

  // True if the variable is a position of some carried number.
  bool IsPosition(int v) const;
  // Joins two reductions of that kind.
  static Scalar Joined(ReduceKind kind, const Scalar& a, const Scalar& b);
  bool Varies(const ExprPtr& expr) const;        // along the axis
  bool ReadsCarried(const ExprPtr& expr) const;  // a carried number
  // Makes reads of carried numbers reads of other operands: `number` gives theirs.
  ExprPtr Renumbered(const ExprPtr& expr, absl::FunctionRef<int(int operand)> number) const;
  // Reads the values behind a block in place of those before it.
  ExprPtr Renewed(const ExprPtr& expr) const;

  std::string ToString(const std::vector<std::string>& operand_names) const;
};

// Derives the fold of output `output` along axis `axis` of operand `operand`. Error: the reason why there is none.
absl::StatusOr<Fold> DeriveFold(const Meaning& meaning, int output, int operand, int axis);

}  // namespace rewright
