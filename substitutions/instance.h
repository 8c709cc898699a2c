// A rule at fixed structural values: the object that is proved.
//
// A rule's text leaves structural values open (how many batch axes `b..` stands for, which axis `?a` is). An instance
// fixes them all; what stays open are symbols: sizes, integer attributes, real attributes. Both sides are graphs of
// operator applications, each with its Meaning and its variables bound to expressions over the symbols.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/op.h"
#include "substitutions/number.h"

namespace rewright {

// Sizes, integer attributes and axes are no larger where a rule is applied: proofs may take small polynomials in them
// for numbers that 64 bits hold.
inline constexpr int64_t kMostSize = (int64_t{1} << 31) - 1;

struct Symbol {
  std::string name;
  int64_t min = 1;  // sizes are at least 1; an attribute has the minimum of its AttrSpec
  bool is_size = true;
};

// A real attribute, or the value of constants.
struct RealSymbol {
  std::string name;
  DType dtype = DType::kFloat32;  // of the constants: where it is an integer, so is the value
  bool positive = false;
  bool finite = false;  // a constant's value: one that is not finite does not match
};

struct SymbolicValue {
  int node = 0;
  int output = 0;
  friend bool operator==(const SymbolicValue& a, const SymbolicValue& b) {
    return a.node == b.node && a.output == b.output;
  }
};

// An operator application, or a leaf when `op` is null.
struct SymbolicNode {
  const OpDef* op = nullptr;
  std::vector<SymbolicValue> inputs;
  std::shared_ptr<const Meaning> meaning;
  // By variable id of the meaning: an Index over the instance's symbols for sizes and attributes, null for output
  // positions and bound variables.
  std::vector<ExprPtr> indices;
  // By parameter id of the meaning: a Scalar, kConst or kParam over the instance's real symbols, or Fn of them; of type
  // i64 where all of these are integers.
  std::vector<ExprPtr> params;

  // Leaves.
  std::string name;
  // Conditions of the rule on a leaf's elements.
  // Every element equals this: of type f32 rounded to it, unless the instance stands for f64 as well.
  std::optional<Number> splat;
  bool positive = false;  // every element is > 0
  bool finite = false;    // no element is infinite or NaN; implied by the other two

  // Of every output (a leaf has one): element type, and sizes as Index over the symbols.
  std::vector<DType> dtypes;
  std::vector<std::vector<ExprPtr>> shapes;
};

// Whether the node is a constant whose value depends on symbols: every element is params[0].
bool IsFill(const SymbolicNode& node);

struct RuleInstance {
  std::string rule;                 // its name
  std::string description;          // the structural values: "b..=2, ?a=1"
  std::vector<Symbol> symbols;      // variable id = position
  std::vector<RealSymbol> reals;    // parameter id = position
  std::vector<SymbolicNode> nodes;  // leaves and both sides, operands before users; sides share leaves
  std::vector<SymbolicValue> lhs;   // outputs, in correspondence
  std::vector<SymbolicValue> rhs;
  std::vector<ExprPtr> conditions;  // Cond over the symbols: the rule's `when` on sizes and attributes
  // nodes[0..num_lhs_nodes) are leaves and nodes of the left side; the rest belongs to the right side alone.
  int num_lhs_nodes = 0;
};

}  // namespace rewright
