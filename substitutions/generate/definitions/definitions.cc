#include "substitutions/generate/definitions/definitions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "substitutions/egraph/derive.h"
#include "substitutions/generate/definitions/forms.h"
#include "substitutions/generate/definitions/statements.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/match/matcher.h"
#include "verifier/prove_rule.h"

namespace rewright::generate {
namespace {

constexpr std::ptrdiff_t kMaxReduced = 3;  // axes at once; of four proofs take seconds

class Prover {
 public:
  explicit Prover(const DefinitionOptions& options) : options_(options) {}

  absl::Status Run(const std::vector<const OpDef*>& operators) {
    std::vector<std::vector<Definition>> found;
    std::vector<Definition> smaller;
    for (const OpDef* op : operators) {
      ++result_.counts.operators;
      const auto definitions = ReadDefinitions(*op);
      if (!definitions.ok()) {
        ++result_.counts.unread;
        const std::string name = op->name + ": ";
        result_.explanations.push_back(
            absl::StrCat("not read: ", name, absl::StripPrefix(definitions.status().message(), name)));
      } else if (IsElementary((*definitions)[0])) {
        ++result_.counts.elementary;
      } else {
        found.push_back(*definitions);
        smaller.push_back((*definitions)[0]);
      }
    }
    for (const std::vector<Definition>& definitions : found) {
      RETURN_IF_ERROR(RulesOf(definitions, smaller));
      if (!result_.complete) break;
    }
    return absl::OkStatus();
  }

  DefinitionRules Result() { return std::move(result_); }

 private:
  bool Stopped() {
    if (options_.stop && options_.stop()) result_.complete = false;
    return !result_.complete;
  }

  // One operator on the operands as they are.
  static bool IsElementary(const Definition& definition) {
    const auto is_operand = [](const PartPtr& part) { return part->kind == Part::Kind::kOperand; };
    return std::all_of(definition.whole->operands.begin(), definition.whole->operands.end(), is_operand);
  }

  absl::Status RulesOf(std::vector<Definition> definitions, const std::vector<Definition>& smaller) {
    const auto reduced = [](const Definition& definition) {
      return std::count(definition.reduced.begin(), definition.reduced.end(), true);
    };
    std::stable_sort(definitions.begin(), definitions.end(),
                     [&](const Definition& a, const Definition& b) { return reduced(a) < reduced(b); });
    name_ = absl::StrCat("definitions-", absl::StrReplaceAll(definitions[0].op->name, {{"_", "-"}}));
    number_ = 0;
    kept_.clear();
    for (const Definition& definition : definitions) {
      if (reduced(definition) > kMaxReduced) continue;
      // The others differ in the axes alone.
      const bool all_forms = &definition == &definitions[0];
      RETURN_IF_ERROR(StateForms(definition, smaller, all_forms));
      if (const auto parts = AsScaleAndShift(definition)) {
        const auto proved = ProveMostGeneral(StateScaleAndShift(definition, *parts));
        if (!proved) continue;
        RETURN_IF_ERROR(Take(*proved, name_ + "-as-scale-and-shift"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status StateForms(const Definition& definition, const std::vector<Definition>& smaller, bool all_forms) {
    std::vector<PartPtr> forms = Forms(definition, smaller);
    if (!all_forms) forms.resize(1);
    std::optional<size_t> choice;  // of packs: that of the first form
    for (const PartPtr& form : forms) {
      std::vector<std::string> statements = StatePartsAsOperator(definition, form);
      if (choice) statements = {statements[*choice]};
      const auto proved = ProveMostGeneral(statements);
      if (!proved) continue;
      if (!choice) choice = proved->statement;
      const std::string name = ++number_ == 1 ? name_ : absl::StrCat(name_, "-", number_);
      RETURN_IF_ERROR(Take(*proved, name));
    }
    return absl::OkStatus();
  }

  struct Proved {
    size_t statement = 0;
    Rule rule;
    RuleVerdict verdict;
  };

  // The proved statement with the most instances; among equals the last, which has fewer packs. Nothing if none is
  // proved, or if it follows from other rules of the operator.
  std::optional<Proved> ProveMostGeneral(const std::vector<std::string>& statements) {
    if (statements.empty() || Stopped()) return std::nullopt;
    ++result_.counts.stated;
    RuleProofOptions options;
    options.work_limit_s = options.instance_limit_s = options_.rule_limit_s;
    options.seed = options_.seed;
    std::optional<Proved> best;
    bool refuted = false;  // the last one
    std::string reason;
    for (size_t k = 0; k < statements.size(); ++k) {
      if (Stopped()) {
        --result_.counts.stated;
        return std::nullopt;
      }
      const auto parsed = ParseRules(absl::StrCat("rule definition\n", statements[k]), "definition");
      const auto compiled = parsed.ok() ? CompileRule(parsed->front()) : parsed.status();
      if (!compiled.ok()) {  // packs that nothing tells apart
        refuted = false;
        reason = std::string(compiled.status().message());
        continue;
      }
      RuleVerdict verdict = ProveRule(parsed->front(), options);
      refuted = verdict.verdict == Verdict::kRefuted;
      reason = verdict.reason;
      if (verdict.verdict != Verdict::kProved || (best && verdict.instances < best->verdict.instances)) continue;
      best = Proved{k, parsed->front(), std::move(verdict)};
    }
    if (!best) {
      ++(refuted ? result_.counts.refuted : result_.counts.unknown);
      result_.explanations.push_back(
          absl::StrCat(refuted ? "refuted: " : "unknown: ", reason, "\n", statements.back()));
    } else if (Follows(best->rule)) {
      ++result_.counts.derivable;
      return std::nullopt;
    }
    return best;
  }

  // True if the rule follows from the rules of the operator, read from left to right.
  bool Follows(const Rule& rule) const {
    const auto compiled = CompileRule(rule);
    if (!compiled.ok() || kept_.empty()) return false;
    const auto derivation = Derive(**compiled, DirectedRules(kept_, /*both_ways=*/false));
    return derivation.ok() && derivation->derived;
  }

  absl::Status Take(const Proved& proved, const std::string& name) {
    Rule rule = proved.rule;
    rule.name = name;
    absl::StatusOr<ProofRecord> record = RecordOf(rule, proved.verdict);
    if (!record.ok()) return record.status();
    rule.proof = *std::move(record);
    auto compiled = CompileRule(rule);
    if (!compiled.ok()) return compiled.status();
    kept_.push_back(std::make_shared<const Matcher>(*compiled, rule.proof->domain));
    ++result_.counts.proved;
    result_.rules.push_back(std::move(rule));
    return absl::OkStatus();
  }

  const DefinitionOptions& options_;
  DefinitionRules result_;
  // The operator at hand.
  std::string name_;
  int number_ = 0;
  std::vector<std::shared_ptr<const Matcher>> kept_;
};

}  // namespace

absl::StatusOr<DefinitionRules> RulesOfDefinitions(const std::vector<const OpDef*>& operators,
                                                   const DefinitionOptions& options) {
  Prover prover(options);
  RETURN_IF_ERROR(prover.Run(operators));
  return prover.Result();
}

}  // namespace rewright::generate
