// rewright equal A.onnx B.onnx: whether two models compute the same, with a proof or inputs at which they do not.

#include "verifier/equal.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ir/npy.h"
#include "search/resources.h"
#include "substitutions/rule_printer.h"
#include "tools/certificate_folder.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/library/optimizer_rules.h"
#include "tools/models.h"
#include "tools/rounding.h"
#include "tools/rules.h"
#include "tools/verb.h"
#include "verifier/certificate.h"

namespace rewright {
namespace {

struct EqualFlags {
  std::string a;
  std::string b;
  std::string output;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  RuleFlags rules;
  double time_limit = 60;
  double region_limit = 3;
};

// A name as a file: what is no letter, digit, dot, dash or underscore becomes an underscore.
std::string FileNameOf(const std::string& name) {
  std::string file = name;
  for (char& c : file) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return file;
}

std::string PathIn(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// The regions that the prover proved, as rules, with their certificates.
absl::Status WriteProof(const std::string& folder, const EqualResult& result) {
  CertificateIndex index;
  std::vector<Rule> rules;
  for (const RegionProof& proof : result.regions) {
    rules.push_back(proof.rule);
    if (proof.certificate.empty()) continue;
    const std::string file = CertificateFileName(proof.rule.name);
    RETURN_IF_ERROR(WriteText(PathIn(folder, file), proof.certificate));
    index[file] = SealAtEnd(proof.certificate);
  }
  RETURN_IF_ERROR(WriteText(PathIn(folder, "regions.rules"), PrintRules({}, rules)));
  return WriteCertificateIndex(folder, index);
}

absl::Status WriteResult(const std::string& folder, const EqualResult& result) {
  if (result.equality == Equality::kProved) return WriteProof(folder, result);
  if (result.difference) {
    for (const auto& [name, tensor] : result.difference->inputs) {
      RETURN_IF_ERROR(SaveNpy(PathIn(folder, FileNameOf(name) + ".npy"), tensor));
    }
    return absl::OkStatus();
  }
  std::string text;
  for (const OpenRegion& open : result.open) absl::StrAppend(&text, open.text, "\n");
  return WriteText(PathIn(folder, "open.rules"), text);
}

void ReportProof(const EqualResult& result, Session& session) {
  Console& console = session.console;
  console.Result(
      absl::StrFormat("shared:    %d of %d values of B are the same applications in A", result.shared, result.values));
  console.Result(absl::StrFormat("regions:   %d by %s, %d by the prover", result.regions_by_rules,
                                 Counted(result.rules.size(), "rule"), result.regions.size()));
  if (!result.rules.empty()) console.Detail(absl::StrCat("rules: ", absl::StrJoin(result.rules, ", ")));
  if (result.foldings.empty()) return;
  const Folding* worst = &result.foldings[0];
  for (const Folding& folding : result.foldings) {
    if (folding.error > worst->error) worst = &folding;
  }
  console.Result(
      absl::StrFormat("weights:   %d were computed beforehand; greatest rounding %.2g of the largest "
                      "element (%s %s in A, %s in B)",
                      result.foldings.size(), worst->error, worst->a, worst->type.ToString(), worst->b));
}

void ReportDifference(const EqualFlags& flags, const ModelDifference& difference, Session& session) {
  Console& console = session.console;
  console.Result(absl::StrFormat("output:    %s at [%s]: %.9g in A, %.9g in B; rounding explains %.2g",
                                 difference.output, absl::StrJoin(difference.at, ","), difference.a, difference.b,
                                 difference.tolerance));
  if (!difference.first.empty()) console.Result("first:     " + difference.first);
  if (!flags.output.empty()) console.Result("inputs:    " + flags.output);
}

Json ToJson(const EqualResult& result) {
  Json json;
  json["answer"] = EqualityName(result.equality);
  json["values"] = result.values;
  json["shared"] = result.shared;
  json["regions_by_rules"] = result.regions_by_rules;
  json["regions_by_prover"] = result.regions.size();
  json["rules"] = result.rules;
  json["trials"] = result.trials;
  Json foldings = Json::array();
  for (const Folding& folding : result.foldings) {
    foldings.push_back(
        {{"a", folding.a}, {"b", folding.b}, {"type", folding.type.ToString()}, {"error", folding.error}});
  }
  json["foldings"] = std::move(foldings);
  if (result.difference) {
    const ModelDifference& difference = *result.difference;
    json["difference"] = {
        {"output", difference.output},       {"at", difference.at},      {"a", difference.a}, {"b", difference.b},
        {"tolerance", difference.tolerance}, {"first", difference.first}};
  }
  Json open = Json::array();
  for (const OpenRegion& region : result.open) {
    open.push_back({{"a", region.a}, {"b", region.b}, {"applications", region.applications}, {"rule", region.text}});
  }
  json["open"] = std::move(open);
  json["time_out"] = result.time_out;
  return json;
}

absl::StatusOr<Answer> Equal(const EqualFlags& flags, Session& session) {
  Console& console = session.console;
  if (!flags.output.empty()) RETURN_IF_ERROR(MakeFolder(flags.output));
  const ImportOptions reading = {.dims = flags.dims, .fold_defaults = flags.fold_defaults, .keep_unknown = true};
  ASSIGN_OR_RETURN(const auto pair, LoadPair(flags.a, flags.b, reading, console));
  const auto& [a, b] = pair;
  const std::vector<std::string> defaults = DefaultDifferences(a, b);
  if (!defaults.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the models do not have the same inputs (of A and of B)\n  ", absl::StrJoin(defaults, "\n  ")));
  }
  RuleFlags rule_flags = flags.rules;
  rule_flags.assume_finite = true;  // laws of real numbers
  if (rule_flags.files.empty()) {
    // Those by which no search gains are laws all the same.
    ASSIGN_OR_RETURN(std::string core, FindRuleFile("core.rules"));
    ASSIGN_OR_RETURN(std::string laws, FindRuleFile("laws.rules"));
    rule_flags.files = {std::move(core), std::move(laws)};
    rule_flags.baseline = true;
  }
  ASSIGN_OR_RETURN(const OptimizerRules rules, LoadOptimizerRules(rule_flags));
  const InterruptGuard interrupt;
  EqualOptions options;
  options.rules = RulesForEqual(rules.all.matchers());
  options.time_limit_s = flags.time_limit;
  options.region_limit_s = flags.region_limit;
  options.seed = session.flags.seed;
  options.threads = NumThreads(session.flags.threads);
  options.certify = !flags.output.empty();
  options.stop = &InterruptGuard::flag();
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const EqualResult result, ProveEqual(a.graph, b.graph, options));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");

  console.Result(absl::StrFormat("%s  %s and %s (%.1f s)", EqualityName(result.equality), flags.a, flags.b, seconds));
  if (!a.opaque.empty()) {
    console.Result(absl::StrFormat("opaque:    %s of each, taken for functions of which nothing is known",
                                   Counted(a.opaque.size(), "node")));
  }
  if (result.difference) {
    ReportDifference(flags, *result.difference, session);
  } else {
    ReportProof(result, session);
  }
  for (const OpenRegion& open : result.open) {
    console.Result(absl::StrFormat("left:      %s in A and %s in B, %s\n%s", open.a, open.b,
                                   Counted(static_cast<size_t>(open.applications), "application"), open.text));
  }
  if (result.time_out)
    console.Warning(absl::StrFormat("the time limit of %g s ended the search for a proof", flags.time_limit));
  console.json() = ToJson(result);
  if (result.equality == Equality::kProved) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, DrawInputs(a, session.flags.seed));
    Json rounding;
    if (const auto line = RoundingLine(a.graph, inputs, session.flags, console, &rounding)) {
      console.Result("rounding:  " + *line);
      console.json()["rounding"] = rounding;
    }
  }
  console.json()["opaque"] = OpaqueJson(a);
  console.json()["seconds"] = seconds;
  console.json()["peak_rss_bytes"] = PeakResidentBytes();
  if (!flags.output.empty()) RETURN_IF_ERROR(WriteResult(flags.output, result));
  return result.equality == Equality::kProved ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareEqual(CommandLine& line) {
  auto flags = std::make_shared<EqualFlags>();
  line.Add("a", &flags->a, "One model").Required().Type("A.onnx");
  line.Add("b", &flags->b, "The other, with the same inputs and outputs").Required().Type("B.onnx");
  line.AddOutputPath(
          "-o,--output", &flags->output,
          "Write what was found into this folder: certificates of regions that the prover proved; the inputs at "
          "which the models differ, one .npy file each; or the regions that are left, as rules")
      .Type("DIR");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.Add("--rules", &flags->rules.files, "Proved rules (repeatable; default: those that come with the program)")
      .Map(RuleFile)
      .Type("FILE.rules")
      .OneAtATime();
  line.AddReal("--time-limit", &flags->time_limit, 0.001, 1e9, "Seconds for proofs, on the clock (default 60)");
  line.AddReal("--region-limit", &flags->region_limit, 0.001, 1e6,
               "Seconds of work that the prover gets for one region (default 3; see docs/verifier.md)");
  return [flags](Session& session) { return Equal(*flags, session); };
}

}  // namespace rewright
