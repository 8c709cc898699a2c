// A law as a graph: both sides as nodes, and the names that the left side binds. Internal to rule_instances.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ir/op.h"
#include "verifier/check/rule_reader.h"

namespace rewright::check {

// An output of a node.
struct Ref {
  int node = 0;
  int output = 0;
  bool whole = true;  // none is selected: an operand then has one, and as an output of a side it is all of them
  bool all = false;   // `..`: all of them, as operands
  friend bool operator==(const Ref&, const Ref&) = default;
};

struct Node {
  const OpDef* op = nullptr;  // null: a leaf
  std::vector<Ref> operands = {};
  std::vector<ParsedExpr> attrs = {};  // in the order of op->attrs
  Term leaf = {};                      // has a shape
  bool positive = false, finite = false;
};

// A name ?a, and where the left side binds it.
struct Attribute {
  enum class Class : uint8_t { kInt, kFixedInt, kList, kFixedList, kReal, kDType };
  std::string name = {};
  Class kind = Class::kInt;
  AttrKind spec_kind = AttrKind::kInt;
  int64_t min = INT64_MIN;
  int node = -1;    // -1: by the type or the value of a leaf
  int length = -1;  // of a list: the only one that it has; -1: any
  bool positive = false;
};

struct RuleGraph {
  // Throws NoInstance where the law makes no sense.
  explicit RuleGraph(const ParsedLaw& law);

  std::string name;
  std::vector<Node> nodes;  // operands before users; those of the left side come first
  size_t num_left = 0;
  std::vector<Ref> left, right;
  std::vector<ParsedExpr> conditions;
  std::map<std::string, Ref> tensors;  // variables and let terms

  std::vector<std::string> sizes, packs;
  std::vector<Attribute> attrs;

  // The number of the attribute; -1: there is none.
  int FindAttr(const std::string& name) const;

 private:
  std::vector<Ref> AddSide(const Side& side);
  Ref Add(const Term& term);
  Ref AddLeaf(const Term& term);
  Ref AddApplication(const Term& term);
  const OpDef* OperatorOf(const Term& term);
  ParsedExpr AttributeOf(const Term& term, const AttrSpec& spec) const;
  void Declare(Attribute attr);
  void DeclareNames();
  void FindPacks(const ParsedExpr& phrase);
  void FindSizes(const ParsedExpr& phrase);
  void FindAttrs(int node, const AttrSpec& spec, const ParsedExpr& phrase);
  void CheckTypes() const;

  bool on_left_ = true;
  // The operator variable at its first occurrence, and its property.
  std::string variable_;
  size_t variable_operands_ = 0;
  std::string property_, property_of_;
};

}  // namespace rewright::check
