#include "verifier/derivation/certificate_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"
#include "verifier/certificate/certificate_text.h"
#include "verifier/certificate/step_writer.h"
#include "verifier/check/rule_instances.h"
#include "verifier/check/step_reader.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/prove/replay.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

// Words an error of the law as all refusals are worded.
absl::Status OfLaw(const CertificateReader& reader, const std::string& file, const absl::Status& status) {
  const absl::string_view message = status.message();
  const bool has_place = absl::StartsWith(message, absl::StrCat(file, ":"));
  if (has_place && absl::StrContains(message, "found ") && absl::StrContains(message, "expected ")) return status;
  return reader.ErrorAt(static_cast<size_t>(reader.law_line()),
                        absl::StrCat("found a law that makes no sense, expected one that was proved: ", message));
}

absl::StatusOr<Rule> ReadLaw(const CertificateReader& reader, const std::string& file) {
  // Lines of the rule are lines of the certificate.
  auto rules = ParseRules(std::string(static_cast<size_t>(reader.law_line()), '\n') + reader.law(), file);
  if (!rules.ok()) return OfLaw(reader, file, rules.status());
  if (rules->size() != 1) {
    return reader.ErrorAt(static_cast<size_t>(reader.law_line()),
                          absl::StrCat("found ", rules->size(), " rules, expected one"));
  }
  return std::move(rules->front());
}

absl::StatusOr<Certificate> Derive(const CompiledRule& rule, const CertificateReader& reader,
                                   verifier::ProofObserver* observer) {
  Certificate derived;
  derived.law = PrintLaw(rule.rule());
  derived.prover = ProverHash();
  derived.domain = reader.domain();
  const auto hash = SpecHash(rule);
  if (!hash.ok()) return hash.status();
  derived.spec_hash = *hash;
  const std::vector<int>& strategies = reader.strategies();
  const auto visit = [&](RuleInstance instance) -> absl::Status {
    const size_t number = derived.instances.size();
    if (number >= strategies.size()) {
      return reader.ErrorAt(strategies.empty() ? 0 : static_cast<size_t>(reader.instance_lines().back()),
                            absl::StrCat("found ", strategies.size(), " instances, expected more: the domain holds ",
                                         instance.description.empty() ? "one" : instance.description, " too"));
    }
    const auto known = [&](const SmtQuery& query) { return reader.IsKnown(query); };
    StepWriter told;
    const ProofResult proof = ReplayProof(instance, strategies[number], known, &told);
    if (proof.verdict != Verdict::kProved) {
      return reader.ErrorAt(
          static_cast<size_t>(reader.instance_lines()[number]),
          absl::StrCat("found that instance ", number + 1, " (", instance.description,
                       ") does not follow from the queries of the certificate, expected a proof: ", proof.reason));
    }
    derived.instances.push_back(
        {PrintInstance(instance), proof.strategy, proof.used_finite_only_step, proof.steps, proof.smtlib, told.Take()});
    if (observer == nullptr) return absl::OkStatus();
    observer->Begin(instance, {});
    std::vector<absl::string_view> lines = absl::StrSplit(derived.instances.back().told, '\n');
    lines.pop_back();
    return StepReader("the derived steps", 1).Tell(lines, observer);
  };
  RETURN_IF_ERROR(check::ForEachInstance(reader.law(), derived.domain, visit));
  const bool finite_laws = std::any_of(derived.instances.begin(), derived.instances.end(),
                                       [](const InstanceCertificate& instance) { return instance.finite_laws; });
  std::vector<OperatorClass> operators;
  if (HasOperatorVariable(rule.rule())) {
    for (std::string& name : OperatorsOf(rule.rule())) operators.push_back({std::move(name)});
  }
  RuleRounding rounding;
  const int instances = static_cast<int>(derived.instances.size());
  const auto found = ClassifyRule(rule, derived.domain, instances, finite_laws, &rounding, &operators);
  if (!found.ok()) return found.status();
  derived.rule_class = *found;
  return derived;
}

}  // namespace

absl::StatusOr<CheckedCertificate> CheckCertificate(const std::string& text, const std::string& file,
                                                    verifier::ProofObserver* observer) {
  CertificateReader reader(text, file);
  RETURN_IF_ERROR(reader.Run());
  auto rule = ReadLaw(reader, file);
  if (!rule.ok()) return rule.status();
  // The proof is about the printed law, so the text has to equal it.
  if (const std::string printed = PrintLaw(*rule); printed != reader.law()) {
    return reader.ErrorAt(static_cast<size_t>(reader.law_line()),
                          absl::StrCat("found a law that is written otherwise, expected\n", printed));
  }
  auto compiled = CompileRule(*rule, RuleUse::kProof);
  if (!compiled.ok()) return OfLaw(reader, file, compiled.status());
  auto derived = Derive(**compiled, reader, observer);
  if (!derived.ok()) return OfLaw(reader, file, derived.status());
  const std::string expected = PrintCertificate(*derived);
  RETURN_IF_ERROR(reader.Compare(expected));
  if (text != expected) return reader.ErrorAt(0, "found bytes beyond the last line, expected none");
  CheckedCertificate checked;
  checked.rule = *std::move(rule);
  checked.certificate = *std::move(derived);
  checked.queries = DistinctQueries(checked.certificate);
  const size_t first = std::min(text.find("\nquery "), text.size());  // the last character of the line before
  int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<int64_t>(first), '\n'));
  for (const SmtQuery& query : checked.queries) {
    checked.query_lines.push_back(line + 1);
    line += 1 + static_cast<int>(std::count(query.text.begin(), query.text.end(), '\n'));
  }
  return checked;
}

}  // namespace rewright
