// Elements of a rule instance at concrete sizes, computed on demand from the declarations.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/tensor/tensor.h"
#include "substitutions/instance/instance.h"

namespace rewright::verifier {

// True if a side makes integers of reals: leaves of integers alone would not show the difference.
bool RoundsToIntegers(const RuleInstance& instance);

// Functions of the bits of integers, which have no value over the reals, and their values where integers wrap around at
// 2^16, or at 2^15 those of fewer than 64 bits: sides of a law are compared by the same function of the same numbers.
bool IsOfBits(Fn fn);
double BitsValue(Fn fn, bool wide, double a, double b);
// Random bits of a key at a position, both integers.
double RandomBitsValue(double key, double position);

class ConcreteInstance {
 public:
  // `symbols` make the left side legal. Leaves and real symbols get random values, with `fractions` (RoundsToIntegers)
  // also some between the integers.
  ConcreteInstance(const RuleInstance& instance, const std::vector<int64_t>& symbols, bool fractions,
                   std::mt19937_64* rng);

  // False when a tensor is too large to be worth a look, or a size is negative.
  bool usable() const { return usable_; }
  // Describes an error at these sizes, elements aside: an application that is not legal, or sides of different types;
  // empty if there is none. Requires a usable instance.
  std::string Wrong() const;
  const Shape& ShapeOf(SymbolicValue value) const { return shapes_[value.node][value.output]; }

  double Element(SymbolicValue value, const std::vector<int64_t>& at);
  // The events since the last Clear.
  bool undefined() const { return undefined_; }
  bool out_of_bounds() const { return out_of_bounds_; }
  void Clear() { undefined_ = out_of_bounds_ = false; }

  const std::vector<double>& LeafValues(int node) const { return values_[node][0]; }
  const std::vector<double>& reals() const { return reals_; }

 private:
  // The scope in which an expression is evaluated: the meaning of a node, or (-1) the instance's symbols.
  struct Frame {
    int node = 0;
    std::vector<int64_t> variables;
    bool reducing = false;  // within a reduction of the same meaning
  };
  // The element at a place in the order of rows; negative: out of bounds.
  double ElementAt(SymbolicValue value, int64_t linear);
  void FillLeaf(int node, std::mt19937_64* rng);
  int64_t EvalIndexAt(const ExprPtr& e, Frame& frame);
  bool EvalCondAt(const ExprPtr& e, Frame& frame);
  double Eval(const ExprPtr& e, Frame& frame);
  double EvalCall(const ExprPtr& e, Frame& frame);
  void RunReference(int node);
  double EvalReduce(const ExprPtr& e, Frame& frame);
  double Reduced(const ExprPtr& e, Frame& frame);
  double EvalCast(double x, DType from, DType to);

  const RuleInstance& instance_;
  std::vector<int64_t> symbols_;
  std::vector<double> reals_;
  std::vector<std::vector<Shape>> shapes_;                // [node][output]
  std::vector<std::vector<std::vector<double>>> values_;  // [node][output][linear index]
  // 0: not computed, 1: computed, 2: undefined, 4: out of bounds
  std::vector<std::vector<std::vector<uint8_t>>> state_;
  std::vector<std::vector<int64_t>> variables_;  // [node]: of the meaning
  // The last value of each nested reduction, by node and reduction, so that one that does not vary with the outer
  // reduction is computed once.
  struct Last {
    std::vector<int> free;    // variables that it depends on
    std::vector<int64_t> at;  // their values then
    double value = 0;
    uint8_t state = 0;  // as in state_
  };
  absl::flat_hash_map<std::pair<int, const ExprNode*>, Last> last_;
  const bool fractions_;
  bool usable_ = true;
  bool undefined_ = false;
  bool out_of_bounds_ = false;
};

}  // namespace rewright::verifier
