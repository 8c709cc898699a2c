// A rule made ready for use: names resolved, both sides flattened into nodes, the order of binding fixed.
//
// Instances (instances.h) and the matcher (matcher.h) read this form. It is immutable and may be shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/language/rule.h"

namespace rewright {

// A reference to a value of a rule: output `output` of node `node`.
struct RuleValue {
  int node = 0;
  int output = 0;
  // No output was selected: as an operand, the node must have one output only; as an output of a side, it stands for
  // all of them.
  bool whole = false;
  bool all = false;  // `..`: all outputs, as operands
  friend bool operator==(const RuleValue& a, const RuleValue& b) {
    return a.node == b.node && a.output == b.output && a.whole == b.whole && a.all == b.all;
  }
};

struct RuleNode {
  const OpDef* op = nullptr;  // null: a leaf
  std::vector<RuleValue> operands;
  std::vector<ArgExpr> attrs;  // in the order of op->attrs, defaults filled in

  // Leaves: variables and constants.
  std::string name;
  std::optional<ArgExpr> value;  // of a constant; on the left an integer, a real or ?name
  ShapeSpec shape;
  bool any_shape = false;  // a constant of the left side without a shape
  bool floating = true;    // the element type is the rule's floating type; else:
  DType dtype = DType::kFloat32;
  int dtype_attr = -1;    // the attribute that gives the type, or -1
  bool positive = false;  // a condition says so
  bool finite = false;    // a condition says so
};

// A name ?a.
struct RuleAttr {
  enum class Class : uint8_t {
    kInt,        // a symbol
    kFixedInt,   // structural: flag, axis
    kList,       // structural length, symbols
    kFixedList,  // structural: axes, perm
    kReal,
    kDType,
  };
  std::string name;
  Class kind = Class::kInt;
  int64_t min = INT64_MIN;  // of the symbols
  // The node that binds it first (-1: the element type of a variable, the value of a constant), and the kind of
  // attribute it is there.
  int node = -1;
  AttrKind spec_kind = AttrKind::kInt;
  // The only length of a kList bound as a whole, if its default is not empty ([1,1] of strides); -1: any.
  int length = -1;
  bool positive = false;  // a condition says so
};

// An equation of the left side about names: a shape, or an attribute of a node.
struct RuleEquation {
  int node = 0;
  int attr = -1;  // index into op->attrs; -1: the shape of the leaf
};

class CompiledRule {
 public:
  const Rule& rule() const { return rule_; }
  const std::string& name() const { return rule_.name; }

  // Operands before users; the first num_lhs_nodes() belong to the left side, and leaves of the left side stand for
  // themselves on the right.
  const std::vector<RuleNode>& nodes() const { return nodes_; }
  int num_lhs_nodes() const { return num_lhs_nodes_; }
  const std::vector<RuleValue>& lhs() const { return lhs_; }
  const std::vector<RuleValue>& rhs() const { return rhs_; }

  const std::vector<std::string>& sizes() const { return sizes_; }
  const std::vector<std::string>& packs() const { return packs_; }
  const std::vector<RuleAttr>& attrs() const { return attrs_; }
  const std::vector<ArgExpr>& conditions() const { return conditions_; }

  // Working through these in order binds every name: an equation may come up before all of its names can be bound,
  // and then comes up again.
  const std::vector<RuleEquation>& binding_order() const { return binding_order_; }

  // Applications of the left side in the order of matching: users before operands, and each but the roots has a user
  // before it.
  const std::vector<int>& match_order() const { return match_order_; }
  // The path to root k > 0 in lhs(): nodes from one that earlier roots bind up to the root (both included); empty if
  // the root itself is bound by then.
  const std::vector<std::vector<int>>& entry_paths() const { return entry_paths_; }
  // True if exchanging outputs k and k + 1 gives the same rule: then one of each pair of matches suffices.
  bool symmetric(size_t k) const { return k < symmetric_.size() && symmetric_[k]; }

  // Node of the left side that is root k.
  int root(size_t k) const { return lhs_[k].node; }

  // A rule about siblings (siblings.h) is compiled as the one for two.
  bool siblings() const { return !other_counts_.empty(); }
  // The same rule for one, three and seven siblings: these are proved and measured besides.
  const std::vector<std::shared_ptr<const CompiledRule>>& other_counts() const { return other_counts_; }
  // The first single_nodes() nodes of the left side of a rule about siblings are the first sibling.
  int single_nodes() const { return other_counts_[0]->num_lhs_nodes(); }
  // True if the leaf of the left side differs from sibling to sibling.
  bool differs(int leaf) const { return differs_[leaf]; }

 private:
  friend class RuleCompiler;

  Rule rule_;
  std::vector<RuleNode> nodes_;
  int num_lhs_nodes_ = 0;
  std::vector<RuleValue> lhs_, rhs_;
  std::vector<std::string> sizes_, packs_;
  std::vector<RuleAttr> attrs_;
  std::vector<ArgExpr> conditions_;
  std::vector<RuleEquation> binding_order_;
  std::vector<int> match_order_;
  std::vector<std::vector<int>> entry_paths_;
  std::vector<bool> symmetric_;
  std::vector<std::shared_ptr<const CompiledRule>> other_counts_;
  std::vector<bool> differs_;
};

// kProof: the rule need not be one that a matcher can find; match_order() and entry_paths() say nothing then.
enum class RuleUse : uint8_t { kMatching, kProof };

// Errors name file, line and column: an unknown name, a name that the left side does not bind, a wrong number of
// operands, an attribute that is missing; for matching, outputs that share nothing. Several come one line each.
absl::StatusOr<std::shared_ptr<const CompiledRule>> CompileRule(const Rule& rule, RuleUse use = RuleUse::kMatching);

// The errors of all rules.
absl::Status CheckRules(const std::vector<Rule>& rules);

// True if `expr` is a lone name of a bound size, pack or attribute.
bool IsPlainName(const ArgExpr& expr);

}  // namespace rewright
