// The names of a rule: sizes, packs and attributes, which are declared by occurring on the left side, and where they
// and tensors are meant. A part of compiling a rule (compiled_rule.cc).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_lexer.h"

namespace rewright {

class RuleNames {
 public:
  using Tensors = std::map<std::string, RuleValue>;  // variables and let terms

  // Adds the declared names to `sizes`, `packs` and `attrs`, and errors inside an expression to `errors`.
  RuleNames(const Rule& rule, const Tensors& tensors, std::vector<std::string>* sizes, std::vector<std::string>* packs,
            std::vector<RuleAttr>* attrs, RuleErrors* errors)
      : rule_(rule), tensors_(tensors), sizes_(*sizes), packs_(*packs), attrs_(*attrs), errors_(*errors) {}

  // The names of the left side, whose nodes these are. Error: one stands for values of two kinds.
  absl::Status Declare(const std::vector<RuleNode>& nodes);
  // The attribute's number, and whether it is new.
  std::pair<int, bool> Declare(const RuleAttr& attr);
  bool HasAttr(const std::string& name) const { return attr_ids_.count(name) > 0; }
  // Resolves the names of the expression.
  absl::Status Resolve(ArgExpr& expr);

 private:
  absl::Status Error(const ArgExpr& expr, const std::string& message) const;
  void FindPacks(const ArgExpr& expr);
  void FindSizes(const ArgExpr& expr);
  absl::Status DeclareAttr(int node, const AttrSpec& spec, const ArgExpr& expr);
  absl::Status DeclareAttr(int node, const AttrSpec& spec, const ArgExpr& expr, bool list, bool whole);
  absl::Status ResolveName(ArgExpr& expr);
  absl::Status ResolveTensor(ArgExpr& expr);

  const Rule& rule_;
  const Tensors& tensors_;
  std::vector<std::string>&sizes_, &packs_;
  std::vector<RuleAttr>& attrs_;
  RuleErrors& errors_;
  std::map<std::string, int> size_ids_, pack_ids_, attr_ids_;
};

}  // namespace rewright
