// Proved rules as other programs are to have them: the one description that each format is written from.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule.h"
#include "substitutions/language/rule_binding.h"

namespace rewright {

// A rule with a record that fits it. A rule about siblings is the one for two of them. `compiled` is flat: nodes of
// both sides with all attributes, equations in the order in which they bind names, conditions.
struct PortableRule {
  Rule rule;
  std::shared_ptr<const CompiledRule> compiled;

  const std::string& name() const { return rule.name; }
  const RuleNode& node(size_t id) const { return compiled->nodes()[id]; }
  size_t num_lhs() const { return static_cast<size_t>(compiled->num_lhs_nodes()); }
  bool on_left(int id) const { return id < compiled->num_lhs_nodes(); }
  // The names of the operators that its ?f may be; empty where it has none.
  std::vector<std::string> operators() const;
  // Its law in the language of rules, and the comment that states it, in one line each.
  std::string law() const;
  std::string comment() const;
};

// The digest that its record keeps, as 16 hexadecimal digits.
std::string RecordDigest(const PortableRule& rule);

// The rules of files. Error: a rule has no record that fits it.
absl::StatusOr<std::vector<PortableRule>> ReadPortableRules(const std::vector<std::string>& paths);

// Rules in a format: the text (or bytes), and the rules that the format cannot say, with the reasons.
struct RuleExport {
  std::string text;
  int written = 0;
  std::map<std::string, std::string> left_out;
};

using RuleWriter = RuleExport (*)(const std::vector<PortableRule>&);
RuleExport WriteRulesAsJson(const std::vector<PortableRule>& rules);
RuleExport WriteRulesForOnnxscript(const std::vector<PortableRule>& rules);
RuleExport WriteRulesForEgglog(const std::vector<PortableRule>& rules);
RuleExport WriteRulesForTaso(const std::vector<PortableRule>& rules);

// ---------------------------------------------------------------- what writers share

// How many outputs a node of the left side has. Error: the rule leaves their number open.
absl::StatusOr<int> NumOutputs(const RuleNode& node);
// The name of a value's node, and that of each of its outputs where it has several: v3, v3_1.
std::string ValueName(const PortableRule& rule, int node, int output, int outputs);
// The outputs of a side, those of a node that stands for all of its outputs one by one.
absl::StatusOr<std::vector<RuleValue>> Outputs(const PortableRule& rule, const std::vector<RuleValue>& side);

// Names of sizes, packs and attributes in another language: apart from those of tensors and from words that it
// reserves.
class PortableNames {
 public:
  PortableNames(const PortableRule& rule, std::set<std::string> reserved);
  const std::string& Of(ArgExpr::Ref ref, int id) const { return names_.at({ref, id}); }
  const std::string& Of(const ArgExpr& name) const { return Of(name.ref, name.id); }

 private:
  void Name(ArgExpr::Ref ref, size_t id, const std::string& wanted);

  std::set<std::string> taken_;
  std::map<std::pair<ArgExpr::Ref, int>, std::string> names_;
};

// The text that solves `expr = value` for `name`, as SolvableName finds it: `text` writes an expression, and
// `spell(op, first_known, value, known)` the step that undoes an operator.
template <typename Bound, typename Text, typename Spell>
std::string SolvedText(const ArgExpr& expr, const ArgExpr& name, const Bound& bound, std::string value,
                       const Text& text, const Spell& spell) {
  for (const ArgExpr* at = &expr; at != &name;) {
    const bool first_known = AllBound(at->args[0], bound);
    value = spell(at->op, first_known, value, text(at->args[first_known ? 0 : 1]));
    at = &at->args[first_known ? 1 : 0];
  }
  return value;
}

// Comments of a format begin with `mark`: what the file is, and the rules that it leaves out.
std::string ExportHeader(absl::string_view mark, absl::string_view format, const RuleExport& result);

}  // namespace rewright
