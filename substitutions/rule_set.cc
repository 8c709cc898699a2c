#include "substitutions/rule_set.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/data_file.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "core/ops/ops.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_lexer.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"

namespace rewright {
namespace {

std::string MeaningText(const OpDef& op, const Meaning& meaning) {
  std::string text = op.name;
  for (const Meaning::Variable& variable : meaning.variables) {
    absl::StrAppend(&text, ";", variable.name, ":", static_cast<int>(variable.kind), ",", variable.min);
  }
  for (const Requirement& requirement : meaning.requirements) {
    absl::StrAppend(&text, ";", PrintExpr(requirement.condition, op.inputs));
  }
  for (const OutputMeaning& output : meaning.outputs) {
    absl::StrAppend(&text, ";", DTypeName(output.dtype), "[");
    for (const ExprPtr& size : output.shape) absl::StrAppend(&text, PrintExpr(size, op.inputs), ",");
    absl::StrAppend(&text, "]=", PrintExpr(output.element, op.inputs));
  }
  return text;
}

// The names and declarations of the operators for which a rule with an operator variable is recorded to hold. An
// elementwise operator is declared alike for all ranks: one vector tells.
absl::Status AddOperators(const Rule& rule, const std::vector<std::string>& names, TextHash* hash) {
  MeaningCache meanings;
  for (const std::string& name : names) {
    const OpDef* const op = FindOp(name);
    const auto operands = static_cast<size_t>(OperandsOfVariable(rule));
    if (op == nullptr || op->inputs.size() != operands) {
      return RuleError(rule.file, rule.line, 1,
                       absl::StrCat("rule ", rule.name, ": found ", name, " in operators=, expected an operator with ",
                                    operands, " operands"));
    }
    StructuralKey key;
    key.ranks.assign(operands, 1);
    key.dtypes.assign(operands, DType::kFloat32);
    if (op->broadcasts) key.units.assign(operands, 0);
    ASSIGN_OR_RETURN(const std::shared_ptr<const Meaning> meaning, meanings.Get(*op, key));
    hash->Add(MeaningText(*op, *meaning));
  }
  return absl::OkStatus();
}

absl::Status ReadRuleText(const std::string& path, std::string* text) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file) content << file.rdbuf();
  if (!file || file.bad()) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  *text = content.str();
  return absl::OkStatus();
}

std::vector<const Rule*> Pointers(const std::vector<const std::vector<Rule>*>& files) {
  std::vector<const Rule*> rules;
  for (const std::vector<Rule>* const file : files) {
    for (const Rule& rule : *file) rules.push_back(&rule);
  }
  return rules;
}

bool IsDisabled(const Rule& rule, const LoadOptions& options) {
  return std::find(options.disabled.begin(), options.disabled.end(), rule.name) != options.disabled.end();
}

bool Admits(RuleClass rule_class, const LoadOptions& options) {
  switch (rule_class) {
    case RuleClass::kExact: return true;
    case RuleClass::kReassociating: return !options.exact_only;
    case RuleClass::kNumericallyRisky: return !options.exact_only && options.allow_risky;
    case RuleClass::kFiniteOnly: return !options.exact_only && options.allow_finite_only;
  }
  return false;
}

// True if the class on 16-bit floats lets the rule be used there. If that class was not measured, a rule that is exact
// in f32 counts as reassociating: the sides may round at different places. A rule without a proof is admitted if the
// user trusts it.
bool AdmitsHalves(const Rule& rule, const LoadOptions& options) {
  if (!rule.proof) return options.trust_unverified;
  if (rule.proof->halves) return Admits(*rule.proof->halves, options);
  return rule.proof->rule_class == RuleClass::kExact && Admits(RuleClass::kReassociating, options);
}

}  // namespace

absl::StatusOr<uint64_t> SpecHash(const CompiledRule& rule, MeaningTexts* known) {
  MeaningTexts own;
  if (known == nullptr) known = &own;
  std::map<const Meaning*, const OpDef*> used;  // the cache keeps them
  const auto visit = [&](const RuleInstance& instance) {
    for (const SymbolicNode& node : instance.nodes) {
      if (node.op != nullptr) used.emplace(node.meaning.get(), node.op);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEachInstance(rule, SmallLimits(rule, known->meanings), known->meanings, visit));
  std::set<std::string_view> meanings;
  for (const auto& [meaning, op] : used) {
    std::string& text = known->texts[meaning];
    if (text.empty()) text = MeaningText(*op, *meaning);
    meanings.insert(text);
  }
  TextHash hash;
  hash.Add(PrintLaw(rule.rule()));
  for (const std::string_view text : meanings) hash.Add(text);
  return hash.value();
}

absl::StatusOr<uint64_t> RecordHash(const CompiledRule& rule, const ProofRecord& record, MeaningTexts* known) {
  const absl::StatusOr<uint64_t> spec = SpecHash(rule, known);
  if (!spec.ok()) return spec.status();
  const DomainLimits& domain = record.domain;
  TextHash hash;
  hash.Add(absl::StrCat(*spec, " ", RuleClassName(record.rule_class), " ", domain.max_rank, " ", domain.max_perm_rank,
                        " ", domain.max_broadcast_rank, " ", record.instances, " ", TextHash::Hex(record.prover)));
  hash.Add(record.certificate);
  if (record.halves) hash.Add(absl::StrCat("halves ", RuleClassName(*record.halves)));
  for (int node : record.new_values) hash.Add(absl::StrCat("new ", node));
  RETURN_IF_ERROR(AddOperators(rule.rule(), record.operators, &hash));
  for (const std::string& name : record.exact) hash.Add(absl::StrCat("exact ", name));
  return hash.value();
}

absl::Status CheckRecord(const CompiledRule& rule, MeaningTexts* known) {
  const auto refuse = [&](const std::string& why) {
    return RuleError(rule.rule().file, rule.rule().line, 1, absl::StrCat("rule ", rule.name(), " ", why));
  };
  const auto& proof = rule.rule().proof;
  if (!proof) {
    return refuse("is not proved: `rewright verify` proves or refutes it, --trust-unverified takes it as it is");
  }
  const absl::StatusOr<uint64_t> hash = RecordHash(rule, *proof, known);
  if (!hash.ok()) return hash.status();
  constexpr char kAnew[] = "`rewright verify --renew` proves it anew, --trust-unverified takes it as it is";
  if (proof->spec_hash != *hash) {
    return refuse(
        absl::StrCat("has a stale proof: the rule, its record or an operator that it uses has changed since; ", kAnew));
  }
  if (proof->prover != ProverHash()) {
    return refuse(absl::StrCat("was proved by another prover: found ", TextHash::Hex(proof->prover), ", expected ",
                               TextHash::Hex(ProverHash()), "; ", kAnew));
  }
  return absl::OkStatus();
}

absl::StatusOr<const std::vector<Rule>*> RuleReader::Read(const std::string& path) {
  if (const auto known = files_.find(path); known != files_.end()) return &known->second;
  ASSIGN_OR_RETURN(std::vector<Rule> rules, ReadRules(path));
  return Add(path, std::move(rules));
}

const std::vector<Rule>* RuleReader::Add(const std::string& file, std::vector<Rule> rules) {
  return &files_.emplace(file, std::move(rules)).first->second;
}

absl::StatusOr<std::vector<std::shared_ptr<const CompiledRule>>> RuleReader::Compile(const Rule& rule,
                                                                                     bool trust_unverified) {
  Ready& ready = ready_[&rule];
  if (!trust_unverified && !ready.checked) {
    ASSIGN_OR_RETURN(const auto compiled, CompileRule(rule));
    RETURN_IF_ERROR(CheckRecord(*compiled, &meanings_));
    ready.checked = true;
    if (!HasOperatorVariable(rule)) ready.rules = {compiled};
  }
  if (!ready.rules.empty()) return ready.rules;
  if (!OperatorProperty(rule).empty() && !rule.proof) {
    return RuleError(
        rule.file, rule.line, 1,
        absl::StrCat("rule ", rule.name, " is not proved: no record says which operators have the property"));
  }
  for (const Rule& one : OperatorRules(rule)) {
    ASSIGN_OR_RETURN(auto compiled, CompileRule(one));
    ready.rules.push_back(std::move(compiled));
  }
  return ready.rules;
}

absl::StatusOr<RuleSet> RuleSet::FromText(const std::string& text, const std::string& file,
                                          const LoadOptions& options) {
  ASSIGN_OR_RETURN(std::vector<Rule> rules, ParseRules(text, file));
  RuleReader reader;
  return FromRules(Pointers({reader.Add(file, std::move(rules))}), options, &reader);
}

absl::StatusOr<RuleSet> RuleSet::FromFiles(const std::vector<std::string>& paths, const LoadOptions& options,
                                           RuleReader* reader) {
  RuleReader own;
  if (reader == nullptr) reader = &own;
  std::vector<const std::vector<Rule>*> all;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::vector<Rule>* const rules, reader->Read(path));
    all.push_back(rules);
  }
  return FromRules(Pointers(all), options, reader);
}

absl::StatusOr<RuleSet> RuleSet::FromRules(const std::vector<const Rule*>& rules, const LoadOptions& options,
                                           RuleReader* reader) {
  RuleSet set;
  std::vector<std::shared_ptr<const Matcher>> matchers;
  std::map<std::string, const Rule*> names;
  for (const Rule* const rule : rules) {
    const auto [taken, fresh] = names.emplace(rule->name, rule);
    if (!fresh) {
      if (taken->second->file != rule->file && PrintLaw(*taken->second) == PrintLaw(*rule)) continue;
      return RuleError(rule->file, rule->line, 1, absl::StrCat("the rule name ", rule->name, " is taken"));
    }
    if (IsDisabled(*rule, options) || rule->expect == "refuted" || (!rule->proof && options.exact_only)) continue;
    // The proof is checked before the class is believed.
    ASSIGN_OR_RETURN(const auto compiled, reader->Compile(*rule, options.trust_unverified));
    const DomainLimits limits = rule->proof ? rule->proof->domain : DomainLimits{};
    // Each operator of a family has a class of its own.
    for (const auto& one : compiled) {
      const std::optional<ProofRecord>& proof = one->rule().proof;
      if (proof && !Admits(proof->rule_class, options)) continue;
      matchers.push_back(std::make_shared<const Matcher>(one, limits, AdmitsHalves(one->rule(), options)));
    }
  }
  for (const std::string& name : options.disabled) {
    if (!names.count(name)) return absl::NotFoundError(absl::StrCat("no rule ", name, " to disable"));
  }
  set.index_ = RuleIndex(std::move(matchers));
  return set;
}

const Matcher* RuleSet::Find(const std::string& name) const {
  for (const auto& matcher : matchers()) {
    if (matcher->rule().name() == name) return matcher.get();
  }
  return nullptr;
}

absl::StatusOr<std::vector<Rule>> ReadRules(const std::string& path) {
  std::string text;
  RETURN_IF_ERROR(ReadRuleText(path, &text));
  return ParseRules(text, path);
}

absl::StatusOr<std::string> FindRuleFile(const std::string& name) {
  return FindDataFile("rules/" + name, REWRIGHT_SUBSTITUTIONS_DIR);
}

}  // namespace rewright
