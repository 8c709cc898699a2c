#include "tools/verbs/rules/portable_rule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/siblings.h"
#include "substitutions/rule_set.h"

namespace rewright {

std::vector<std::string> PortableRule::operators() const { return rule.proof->operators; }

std::string PortableRule::law() const {
  std::vector<std::string> words = absl::StrSplit(PrintLaw(rule), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  words.erase(words.begin(), words.begin() + 2);  // rule NAME
  return absl::StrJoin(words, " ");
}

std::string PortableRule::comment() const { return absl::StrJoin(rule.comment, " "); }

std::string RecordDigest(const PortableRule& rule) { return absl::StrFormat("%016x", rule.rule.proof->spec_hash); }

absl::StatusOr<std::vector<PortableRule>> ReadPortableRules(const std::vector<std::string>& paths) {
  std::vector<PortableRule> portable;
  MeaningTexts meanings;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::vector<Rule> rules, ReadRules(path));
    for (const Rule& rule : rules) {
      ASSIGN_OR_RETURN(std::shared_ptr<const CompiledRule> compiled, CompileRule(rule));
      RETURN_IF_ERROR(CheckRecord(*compiled, &meanings));
      portable.push_back({rule, std::move(compiled)});
    }
  }
  return portable;
}

absl::StatusOr<int> NumOutputs(const RuleNode& node) {
  if (node.op == nullptr || node.op->name != "split") return 1;
  const ArgExpr& sizes = node.attrs[1];
  const bool open = sizes.kind != ArgExpr::Kind::kList ||
                    std::any_of(sizes.args.begin(), sizes.args.end(),
                                [](const ArgExpr& item) { return item.kind == ArgExpr::Kind::kSplice; });
  if (open) return absl::UnimplementedError("it is about any number of parts of a split");
  return static_cast<int>(sizes.args.size());
}

std::string ValueName(const PortableRule& rule, int node, int output, int outputs) {
  const RuleNode& found = rule.node(static_cast<size_t>(node));
  if (found.op == nullptr && !found.value) return found.name;
  return outputs > 1 ? absl::StrCat("v", node, "_", output) : absl::StrCat("v", node);
}

absl::StatusOr<std::vector<RuleValue>> Outputs(const PortableRule& rule, const std::vector<RuleValue>& side) {
  std::vector<RuleValue> values;
  for (const RuleValue& value : side) {
    ASSIGN_OR_RETURN(const int count, NumOutputs(rule.node(static_cast<size_t>(value.node))));
    if (!value.whole) {
      values.push_back(value);
      continue;
    }
    for (int k = 0; k < count; ++k) values.push_back({value.node, k, false, false});
  }
  return values;
}

PortableNames::PortableNames(const PortableRule& rule, std::set<std::string> reserved) : taken_(std::move(reserved)) {
  const CompiledRule& compiled = *rule.compiled;
  for (const RuleNode& node : compiled.nodes()) {
    if (node.op == nullptr) taken_.insert(node.name);
  }
  for (size_t i = 0; i < compiled.sizes().size(); ++i) Name(ArgExpr::Ref::kSize, i, compiled.sizes()[i]);
  for (size_t i = 0; i < compiled.packs().size(); ++i) Name(ArgExpr::Ref::kPack, i, compiled.packs()[i]);
  for (size_t i = 0; i < compiled.attrs().size(); ++i) Name(ArgExpr::Ref::kAttr, i, compiled.attrs()[i].name);
}

void PortableNames::Name(ArgExpr::Ref ref, size_t id, const std::string& wanted) {
  std::string name = absl::StrReplaceAll(wanted, {{".", "_"}, {"(", "_"}, {")", ""}});
  while (!taken_.insert(name).second) name += "_";
  names_[{ref, static_cast<int>(id)}] = name;
}

std::string ExportHeader(absl::string_view mark, absl::string_view format, const RuleExport& result) {
  std::string text = absl::StrCat(mark, " Rules proved by Rewright, written by `rewright rules --export ", format,
                                  "`: ", result.written, " rules, ", result.left_out.size(), " left out.\n");
  for (const auto& [name, reason] : result.left_out)
    absl::StrAppend(&text, mark, " Left out: ", name, ": ", reason, "\n");
  return text;
}

}  // namespace rewright
