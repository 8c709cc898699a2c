// A rule at fixed structural values: the object that is proved.
//
// A rule's text leaves structural values open (the number of batch axes that `b..` stands for, the axis that `?a` is).
// An instance fixes them all; the open values that remain are symbols: sizes, integer attributes, real attributes. Both
// sides are graphs of operator applications, each with its Meaning and its variables bound to expressions over the
// symbols.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "substitutions/language/number.h"

namespace rewright {

// Sizes, integer attributes and axes are no larger where a rule is applied: proofs may take small polynomials in them
// for numbers that 64 bits hold.
inline constexpr int64_t kMostSize = (int64_t{1} << 31) - 1;

// Limits of the structural values of a rule: the domain in which it is proved and may be applied.
struct DomainLimits {
  int max_rank = 6;            // of every variable and every value of the left side
  int max_perm_rank = 4;       // axes that a structural list bound by the rule (perm) reorders
  int max_broadcast_rank = 4;  // axes of a shape that variables [~ ..] broadcast to
  int max_instances = 20000;   // of one rule; more is an error
  friend bool operator==(const DomainLimits& a, const DomainLimits& b) {
    return a.max_rank == b.max_rank && a.max_perm_rank == b.max_perm_rank &&
           a.max_broadcast_rank == b.max_broadcast_rank;
  }
};

// True if the attribute's value fixes the meaning of an application, rather than being a symbol in it.
bool IsStructural(const AttrSpec& spec);

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

  // The element type and the sizes of every output, as Index over the symbols. A leaf has one output.
  std::vector<DType> dtypes;
  std::vector<std::vector<ExprPtr>> shapes;
};

// True if the node is a constant whose value depends on symbols: every element is params[0].
bool IsFill(const SymbolicNode& node);

// Fills in the meaning, types and shapes of an application of node->op to node->inputs. `nodes` are those before it;
// `attr_values` the symbolic values of each of the operator's attributes. Error: it is not legal, whatever the symbols.
absl::Status BindMeaning(const std::vector<SymbolicNode>& nodes, const StructuralKey& key,
                         const std::vector<std::vector<ExprPtr>>& attr_values, MeaningCache& meanings,
                         SymbolicNode* node);

// Makes a constant of the leaf, which has its type and shape: each element is the number. One of no type (`floating`)
// is f32 or f64: two numbers, where it must be rounded for f32. Error: the type has no such number.
absl::Status SetNumber(const Number& number, bool floating, SymbolicNode* leaf);
// The same with a value that depends on symbols (?epsilon, scalar(h * w)).
absl::Status SetFill(const ExprPtr& value, MeaningCache& meanings, SymbolicNode* leaf);

// A structural attribute that is not an element type, from its integers, by the rules of CanonicalAttrs(); `rank` is
// that of the first operand. Error: they depend on symbols or are not legal.
absl::StatusOr<Attr> StructuralAttr(const AttrSpec& spec, const std::vector<Index>& integers, int rank);

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
