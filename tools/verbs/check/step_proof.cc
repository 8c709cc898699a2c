#include "tools/verbs/check/step_proof.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counted.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "substitutions/language/rule_parser.h"
#include "tools/program/outputs.h"
#include "tools/verbs/train/train_layout.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {

using distributed::CutByLaws;
using distributed::ProofText;
using distributed::StepVerdict;

absl::StatusOr<StepVerdict> ProveAnew(ProofText* proof, double law_seconds) {
  ProvedLaws laws(law_seconds);
  const auto derive = [&](const Graph& graph, const CutByLaws& cut) -> absl::StatusOr<Graph> {
    ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                     sharding::Shard(graph, PlacementsOf(cut.axes), cut.degree, std::ref(laws), cut.exact_only));
    return sharded.graph;
  };
  StepVerdict verdict;
  if (proof->step) {
    ASSIGN_OR_RETURN(verdict, distributed::ProveStep(*proof->step, derive));
  } else {
    ASSIGN_OR_RETURN(const Graph derived, derive(proof->model->model, proof->model->cut));
    const bool same = PrintGraph(derived) == PrintGraph(proof->model->cut.graph);
    verdict.kind = same ? StepVerdict::Kind::kProved : StepVerdict::Kind::kUnproved;
    if (!same) verdict.reason = "proved laws make another graph of the model";
  }
  proof->laws = laws.Texts();
  return verdict;
}

static std::string ProvedText(const StepVerdict& verdict, size_t laws) {
  const auto statements = static_cast<size_t>(verdict.statements);
  return absl::StrCat("ranks compute what one device computes: ",
                      statements > 0 ? Counted(statements, "statement") + ", " : "", Counted(laws, "law"));
}

absl::Status WriteStepProof(ProofText proof, double law_seconds, const std::string& path, Console& console) {
  ASSIGN_OR_RETURN(const StepVerdict verdict, ProveAnew(&proof, law_seconds));
  if (verdict.kind != StepVerdict::Kind::kProved) {
    return absl::InternalError(
        absl::StrCat("the lists of ranks: ", distributed::StepVerdictName(verdict.kind), ": ", verdict.reason));
  }
  if (!path.empty()) RETURN_IF_ERROR(WriteOutput(path, PrintProof(proof)));
  console.Result(absl::StrCat("proved:   ", ProvedText(verdict, proof.laws.size())));
  return absl::OkStatus();
}

bool IsStepProof(const std::string& path) {
  return std::filesystem::is_regular_file(path) && std::filesystem::path(path).extension() == ".proof";
}

absl::StatusOr<Answer> CheckStepProof(const std::string& path, double law_seconds, Session& session,
                                      std::map<std::string, Rule>* laws_of_cuts) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  auto parsed = distributed::ParseProof(text);
  if (!parsed.ok()) return ErrorAt(path, parsed.status());
  std::vector<std::string> claimed = parsed->laws, other;
  std::sort(claimed.begin(), claimed.end());
  auto verdict = ProveAnew(&*parsed, law_seconds);
  if (!verdict.ok()) return ErrorAt(path, verdict.status());
  const std::vector<std::string>& laws = parsed->laws;
  std::set_symmetric_difference(claimed.begin(), claimed.end(), laws.begin(), laws.end(), std::back_inserter(other));
  if (verdict->kind == StepVerdict::Kind::kProved && !other.empty()) {
    verdict->kind = StepVerdict::Kind::kUnproved;
    verdict->reason = absl::StrCat("the proof needs other laws than it names: ", other[0]);
  }
  const bool proved = verdict->kind == StepVerdict::Kind::kProved;
  const std::string name = distributed::StepVerdictName(verdict->kind);
  session.console.Result(absl::StrCat(name, ": ", proved ? ProvedText(*verdict, laws.size()) : verdict->reason));
  Json& json = session.console.json();
  json["verdict"] = name;
  if (!proved) json["reason"] = verdict->reason;
  json["statements"] = verdict->statements;
  json["laws"] = laws;
  for (size_t k = 0; proved && k < laws.size(); ++k) {
    ASSIGN_OR_RETURN(std::vector<Rule> rules,
                     ParseRules(absl::StrCat("rule law-", k + 1, "\n  ", laws[k], "\n"), path));
    laws_of_cuts->emplace(rules[0].name, std::move(rules[0]));
  }
  return proved ? Answer::kYes : Answer::kNo;
}

}  // namespace rewright
