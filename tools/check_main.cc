// rewright_check DIR, rewright_check FILE.cert..: certificates checked by a program that has nothing of the prover.
//
// It reads the law of each certificate and enumerates its instances; the steps that the certificate tells must
// prove them (verifier/check/proof_check.h); its queries are put to Z3 and cvc5; and the rule is derived at small
// sizes. Its class is not checked, nor that the prover derives the same text: `rewright check` does both.

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/threads.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "tools/verbs/verify/certificate_folder.h"
#include "verifier/certificate/certificate.h"
#include "verifier/check/bounded/bounded_check.h"
#include "verifier/check/certificate_steps.h"
#include "verifier/check/cvc5_query_solver.h"
#include "verifier/check/query_solver.h"

namespace rewright {
namespace {

constexpr double kQuestionSeconds = 2;  // of cvc5, for a question of a step
constexpr double kQuerySeconds = 20;    // for a query

struct Outcome {
  std::vector<std::string> refusals;
  size_t instances = 0, queries = 0;
  int64_t open_to_cvc5 = 0;
  CheckedSteps steps;
};

// Puts the questions to cvc5: one that it finds satisfiable is refused, and of queries also one that it leaves open.
void AskTheOther(const std::vector<SmtQuery>& questions, bool queries, const std::string& path, Outcome* outcome) {
  if (questions.empty()) return;
  const absl::StatusOr<std::vector<SmtAnswer>> answers = AskCvc5(questions, queries ? kQuerySeconds : kQuestionSeconds);
  if (!answers.ok()) {
    outcome->refusals.push_back(absl::StrCat(path, ": ", std::string(answers.status().message())));
    return;
  }
  for (size_t i = 0; i < answers->size(); ++i) {
    const bool open = (*answers)[i] == SmtAnswer::kUnknown;
    if (!queries) outcome->open_to_cvc5 += open;
    if ((*answers)[i] == SmtAnswer::kUnsat || (open && !queries)) continue;
    outcome->refusals.push_back(
        absl::StrCat(path, ": found ", SmtAnswerName((*answers)[i]), " by cvc5, expected unsat:\n", questions[i].text));
  }
}

void AtSmallSizes(const std::string& law, const std::string& path, Outcome* outcome) {
  const absl::StatusOr<std::vector<Rule>> rules = ParseRules(law, path);
  if (!rules.ok() || rules->size() != 1) return;
  const auto compiled = CompileRule(rules->front());
  if (!compiled.ok()) return;
  const absl::StatusOr<BoundedCheck> derived = CheckAtSmallSizes(**compiled);
  if (!derived.ok() || derived->verdict != BoundedVerdict::kDenied) return;
  outcome->refusals.push_back(
      absl::StrCat(path, ": found at small sizes that ", derived->reason, ", expected equal sides"));
}

// `seal`: as the index has it; empty where there is none.
Outcome Check(const std::string& path, const std::string& seal, bool cvc5) {
  Outcome outcome;
  const absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) {
    outcome.refusals.emplace_back(text.status().message());
    return outcome;
  }
  if (!seal.empty() && seal != SealAtEnd(*text)) {
    outcome.refusals.push_back(
        absl::StrCat(path, ": found seal ", SealAtEnd(*text), ", expected ", seal, " as the index has it"));
  }
  StepChecker steps;
  const absl::StatusOr<ToldCertificate> told = CheckToldSteps(*text, path, &steps);
  if (!told.ok()) {
    outcome.refusals.emplace_back(told.status().message());
    return outcome;
  }
  outcome.steps = steps.report();
  outcome.instances = told->instances;
  outcome.queries = told->queries.size();
  outcome.refusals.insert(outcome.refusals.end(), told->missing.begin(), told->missing.end());
  for (const std::string& step : steps.report().refused) {
    outcome.refusals.push_back(absl::StrCat(path, ": found a step that does not hold: ", step));
  }
  for (size_t i = 0; i < told->queries.size(); ++i) {
    const absl::StatusOr<SmtAnswer> answer = AskZ3(told->queries[i]);
    if (answer.ok() && *answer == SmtAnswer::kUnsat) continue;
    outcome.refusals.push_back(absl::StrCat(
        path, ":", told->query_lines[i], ": found ",
        answer.ok() ? SmtAnswerName(*answer) : std::string(answer.status().message()), " by z3, expected unsat"));
  }
  if (cvc5) {
    AskTheOther(told->queries, /*queries=*/true, path, &outcome);
    AskTheOther(steps.report().questions, /*queries=*/false, path, &outcome);
  }
  AtSmallSizes(told->law, path, &outcome);
  return outcome;
}

// The certificates, with their seals.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Certificates(const std::vector<std::string>& args) {
  std::vector<std::pair<std::string, std::string>> files;
  if (args.size() != 1 || !std::filesystem::is_directory(args[0])) {
    for (const std::string& path : args) files.emplace_back(path, "");
    return files;
  }
  const absl::StatusOr<CertificateIndex> index = ReadCertificateIndex(args[0]);
  if (!index.ok()) return index.status();
  for (const auto& [name, seal] : *index) {
    files.emplace_back((std::filesystem::path(args[0]) / name).string(), seal);
  }
  return files;
}

int Run(const std::vector<std::string>& args) {
  const auto files = Certificates(args);
  if (!files.ok()) {
    std::fprintf(stderr, "rewright_check: %s\n", std::string(files.status().message()).c_str());
    return 2;
  }
  const bool cvc5 = !absl::IsNotFound(AskCvc5({}, 1).status());
  if (!cvc5) std::fprintf(stderr, "rewright_check: cvc5 is not installed: Z3 alone settles queries\n");
  std::vector<Outcome> outcomes(files->size());
  ForEachIndex(files->size(), NumThreads(0),
               [&](size_t i) { outcomes[i] = Check((*files)[i].first, (*files)[i].second, cvc5); });
  size_t held = 0;
  Outcome all;
  for (const Outcome& outcome : outcomes) {
    held += outcome.refusals.empty();
    all.instances += outcome.instances;
    all.queries += outcome.queries;
    all.open_to_cvc5 += outcome.open_to_cvc5;
    all.steps.Add(outcome.steps);
    for (const std::string& refusal : outcome.refusals) absl::PrintF("refused  %s\n", refusal);
  }
  absl::PrintF("%d certificates: %d hold, %d refused; %d instances; %d queries\n", files->size(), held,
               files->size() - held, all.instances, all.queries);
  absl::PrintF("steps: %d: %s\n", all.steps.steps, all.steps.Summary(all.open_to_cvc5));
  return held == files->size() ? 0 : 1;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args[0][0] == '-') {
    std::fprintf(stderr,
                 "usage: rewright_check DIR | FILE.cert..\n"
                 "  DIR: certificates, as `rewright verify --certificates` writes them\n");
    return 2;
  }
  return rewright::Run(args);
}
