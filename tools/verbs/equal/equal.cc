// rewright equal A.onnx B.onnx: whether two models compute the same, with a proof or inputs at which they do not. With
// --ranks the other one is a plan of ranks (equal_ranks.h).

#include "verifier/equal/equal.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "search/resources.h"
#include "substitutions/language/rule_printer.h"
#include "tools/library/optimizer_rules.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"
#include "tools/verbs/equal/equal_ranks.h"
#include "tools/verbs/equal/equal_settings.h"
#include "tools/verbs/equal/junit.h"
#include "tools/verbs/rules/rules.h"
#include "tools/verbs/verify/certificate_folder.h"
#include "verifier/certificate/certificate.h"

namespace rewright {
namespace {

// Above, models are not run in their own precision as well: some seconds of the interpreter.
constexpr double kMostFlopsToRun = 1e9;
// Above, a difference counts that is more than what is known before a run explains: the estimate of what a run rounds
// takes minutes.
constexpr double kMostFlopsToEstimate = 2e10;

struct EqualFlags {
  std::string a;
  std::string b;
  std::string ranks;
  std::string output;
  std::string junit;
  std::map<std::string, std::string> names;  // of B, as ImportOptions has them
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  RuleSettings rules;
  double time_limit = 60;
  double region_limit = 3;
};

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

// The folder within the written one that has the inputs at which an output is infinite in one model alone.
std::string InfiniteFolder(const InfiniteDifference& infinite) { return "infinite_" + NpyNameOf(infinite.output); }

absl::Status WriteResult(const std::string& folder, const EqualResult& result) {
  if (result.difference) return WriteInputs(folder, result.difference->inputs);
  for (const InfiniteDifference& infinite : result.infinite) {
    RETURN_IF_ERROR(WriteInputs(PathIn(folder, InfiniteFolder(infinite)), infinite.inputs));
  }
  if (result.equality == Equality::kProved) return WriteProof(folder, result);
  std::string text;
  for (const OpenRegion& open : result.open) absl::StrAppend(&text, open.text, "\n");
  return WriteText(PathIn(folder, "open.rules"), text);
}

const Folding& FurthestApart(const std::vector<Folding>& list) {
  return *std::max_element(list.begin(), list.end(),
                           [](const Folding& a, const Folding& b) { return a.error < b.error; });
}

std::string NamesOf(const Folding& folding) {
  return absl::StrFormat("(%s %s in A, %s in B)", folding.a, folding.type.ToString(), folding.b);
}

void ReportProof(const EqualResult& result, Session& session) {
  Console& console = session.console;
  console.Result(
      absl::StrFormat("shared:    %d of %d values of B are the same applications in A", result.shared, result.values));
  console.Result(absl::StrFormat("regions:   %d by %s, %d by the prover", result.regions_by_rules,
                                 Counted(result.rules.size(), "rule"), result.regions.size()));
  if (!result.rules.empty()) console.Detail(absl::StrCat("rules: ", absl::StrJoin(result.rules, ", ")));
  if (!result.foldings.empty()) {
    const Folding& worst = FurthestApart(result.foldings);
    console.Result(absl::StrFormat(
        "weights:   %d were computed beforehand, %s", result.foldings.size(),
        worst.error == 0 ? absl::StrCat("to the same bits ", NamesOf(worst))
                         : absl::StrFormat("rounding put them apart by %.2g of the largest element at most %s",
                                           worst.error, NamesOf(worst))));
  }
  if (!result.constants.empty()) {
    const Folding& worst = FurthestApart(result.constants);
    console.Result(absl::StrFormat(
        "constants: %d differ, by %.2g of the largest element at most %s; neither model computes what the other has",
        result.constants.size(), worst.error, NamesOf(worst)));
  }
}

// A number of an output; infinities and what is none by name.
std::string NumberText(double x) {
  return std::isnan(x) ? "NaN" : std::isinf(x) ? (x > 0 ? "inf" : "-inf") : absl::StrFormat("%.6g", x);
}

void ReportDifference(const EqualFlags& flags, const ModelDifference& difference, Session& session) {
  Console& console = session.console;
  console.Result("output:    " + DifferenceText(difference));
  if (!difference.first.empty()) console.Result("first:     " + difference.first);
  if (!flags.output.empty()) console.Result("inputs:    " + flags.output);
}

std::string PlaceOf(const std::string& output, const std::vector<int64_t>& at) {
  return absl::StrCat(output, "[", absl::StrJoin(at, ","), "]");
}

// Names of types in which the models compute: "f16", "f32 and bf16".
std::string TypesOf(const Graph& a, const Graph& b) {
  std::set<std::string> names;
  for (const Graph* graph : {&a, &b}) {
    for (NodeId id : graph->nodes()) {
      for (const TensorType& type : graph->node(id).outputs) {
        if (IsFloating(type.dtype)) names.insert(DTypeName(type.dtype));
      }
    }
  }
  return names.empty() ? "their types" : absl::StrJoin(names, " and ");
}

// Both models in their own types: how far apart they are, beside what both round, and infinities of one of them.
void ReportRun(const EqualFlags& flags, const std::string& types, const EqualResult& result, Session& session) {
  Console& console = session.console;
  if (result.run) {
    const OwnRun& run = *result.run;
    std::string line =
        run.difference == 0
            ? absl::StrFormat("in %s the outputs of both are the same", types)
            : absl::StrFormat("in %s the greatest difference is %.2g, at %s = %s in A and %s in B", types,
                              run.difference, PlaceOf(run.output, run.at), NumberText(run.a), NumberText(run.b));
    if (run.rounding) {
      absl::StrAppendFormat(&line, "; both round, estimated: worst %.2g, typical %.2g", run.rounding->first,
                            run.rounding->second);
    } else if (IsFloating(run.dtype)) {
      absl::StrAppend(&line, "; what both round has no estimate");
    }
    console.Result("rounding:  " + line);
  }
  for (const InfiniteDifference& infinite : result.infinite) {
    console.Result(absl::StrFormat(
        "infinite:  in %s %s = %s in A and %s in B, on %s%s", types, PlaceOf(infinite.output, infinite.at),
        NumberText(infinite.a), NumberText(infinite.b), infinite.kind,
        flags.output.empty() ? "" : absl::StrCat(" (", PathIn(flags.output, InfiniteFolder(infinite)), ")")));
  }
}

// A real number, or the text of what JSON has no number for.
Json NumberJson(double x) { return std::isfinite(x) ? Json(x) : Json(NumberText(x)); }

void AddRun(const EqualResult& result, Json* json) {
  if (result.run) {
    const OwnRun& run = *result.run;
    Json rounding = {{"output", run.output},   {"at", run.at},           {"a", NumberJson(run.a)},
                     {"b", NumberJson(run.b)}, {"largest", run.largest}, {"difference", NumberJson(run.difference)}};
    if (run.rounding) {
      rounding["worst"] = NumberJson(run.rounding->first);
      rounding["typical"] = NumberJson(run.rounding->second);
    }
    (*json)["rounding"] = std::move(rounding);
  }
  Json infinite = Json::array();
  for (const InfiniteDifference& one : result.infinite) {
    infinite.push_back({{"output", one.output},
                        {"at", one.at},
                        {"a", NumberJson(one.a)},
                        {"b", NumberJson(one.b)},
                        {"inputs", one.kind}});
  }
  (*json)["infinite"] = std::move(infinite);
}

Json DifferenceJson(const ModelDifference& difference) {
  return {{"output", difference.output},
          {"at", difference.at},
          {"a", NumberJson(difference.a)},
          {"b", NumberJson(difference.b)},
          {"tolerance", NumberJson(difference.tolerance)},
          {"first", difference.first}};
}

Json FoldingsJson(const std::vector<Folding>& foldings) {
  Json list = Json::array();
  for (const Folding& folding : foldings) {
    list.push_back({{"a", folding.a}, {"b", folding.b}, {"type", folding.type.ToString()}, {"error", folding.error}});
  }
  return list;
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
  json["foldings"] = FoldingsJson(result.foldings);
  json["constants"] = FoldingsJson(result.constants);
  if (result.difference) json["difference"] = DifferenceJson(*result.difference);
  if (result.within_rounding) json["within_rounding"] = DifferenceJson(*result.within_rounding);
  AddRun(result, &json);
  Json open = Json::array();
  for (const OpenRegion& region : result.open) {
    open.push_back({{"a", region.a}, {"b", region.b}, {"applications", region.applications}, {"rule", region.text}});
  }
  json["open"] = std::move(open);
  json["time_out"] = result.time_out;
  return json;
}

// Both models as they were read, and the result about them.
struct Compared {
  ImportedModel a, b;
  EqualResult result;
  double seconds = 0;  // of the proof
};

absl::StatusOr<Compared> CompareModels(const EqualFlags& flags, Session& session) {
  const ImportOptions reading = {
      .dims = flags.dims, .names = flags.names, .fold_defaults = flags.fold_defaults, .keep_unknown = true};
  ASSIGN_OR_RETURN(auto pair, ReadWhereSizesTell(reading, [&](const ImportOptions& options) {
                     return LoadPair(flags.a, flags.b, options, session.console);
                   }));
  auto& [a, b] = pair;
  RETURN_IF_ERROR(CheckDefaults(a, b));
  ASSIGN_OR_RETURN(const OptimizerRules rules, LoadEqualRules(flags.rules));
  const InterruptGuard interrupt;
  EqualOptions options = OptionsOfProof(rules, session);
  options.time_limit_s = flags.time_limit;
  options.region_limit_s = flags.region_limit;
  options.certify = !flags.output.empty();
  const double flops = std::max(FeaturesOf(a.graph).flops, FeaturesOf(b.graph).flops);
  options.own_precision = flops <= kMostFlopsToRun;
  options.estimate_rounding = flops <= kMostFlopsToEstimate;
  options.stop = &InterruptGuard::flag();
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(EqualResult result, ProveEqual(a.graph, b.graph, options));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");
  return Compared{std::move(a), std::move(b), std::move(result), seconds};
}

absl::StatusOr<Answer> Equal(const EqualFlags& flags, Session& session) {
  Console& console = session.console;
  if (!flags.ranks.empty()) {
    return EqualRanks({.model = flags.a,
                       .plan = flags.ranks,
                       .output = flags.output,
                       .time_limit = flags.time_limit,
                       .claim_limit = flags.region_limit},
                      session);
  }
  if (flags.b.empty()) {
    return absl::InvalidArgumentError("found one model, expected a second one or a plan of ranks (--ranks)");
  }
  if (!flags.output.empty()) RETURN_IF_ERROR(MakeFolder(flags.output));
  const absl::Time start = absl::Now();
  const absl::StatusOr<Compared> compared = CompareModels(flags, session);
  const std::map<std::string, int64_t> dims =
      compared.ok() ? SizesOfBoth(compared->a, compared->b) : std::map<std::string, int64_t>();
  if (!flags.junit.empty() && !absl::IsCancelled(compared.status())) {
    const absl::StatusOr<EqualResult> result =
        compared.ok() ? absl::StatusOr<EqualResult>(compared->result) : compared.status();
    const double passed = absl::ToDoubleSeconds(absl::Now() - start);
    RETURN_IF_ERROR(WriteText(flags.junit, JUnitReport(flags.a, flags.b, result, dims, passed)));
  }
  if (!compared.ok()) return compared.status();
  const auto& [a, b, result, seconds] = *compared;

  const char* const over = result.equality == Equality::kProved ? ", over the real numbers" : "";
  console.Result(absl::StrFormat("%s  %s and %s%s%s (%.1f s)", EqualityName(result.equality), flags.a, flags.b, over,
                                 SizesText(dims), seconds));
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
  console.json()["dims"] = dims;
  if (result.within_rounding) {
    const ModelDifference& difference = *result.within_rounding;
    console.Result(
        absl::StrFormat("apart:     %s is %.9g in A and %.9g in B over the real numbers; rounding explains %.2g",
                        PlaceOf(difference.output, difference.at), difference.a, difference.b, difference.tolerance));
  }
  ReportRun(flags, TypesOf(a.graph, b.graph), result, session);
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
  const Flag b = line.Add("b", &flags->b, "The other, with the same inputs and outputs").Type("B.onnx");
  line.Add("--ranks", &flags->ranks, "Instead of B: the graphs of the ranks of a mesh (docs/equal.md, Graphs of ranks)")
      .Type("PLAN.json")
      .Excludes(b);
  line.AddOutputPath(
          "-o,--output", &flags->output,
          "Write what was found into this folder: certificates of regions that the prover proved; the inputs at "
          "which the models differ, one .npy file each; or the regions that are left, as rules")
      .Type("DIR");
  line.AddOutputPath("--junit", &flags->junit, "Write the answer to this file, as a JUnit report").Type("F.xml");
  AddMap(line, &flags->names);
  AddReading(line, &flags->dims, &flags->fold_defaults);
  RuleFiles(
      line.Add("--rules", &flags->rules.rules, "Proved rules, besides those that come with the program (repeatable)"))
      .Type("FILE.rules");
  line.AddSeconds("--time-limit", &flags->time_limit, kLeastSeconds, "Seconds for proofs, on the clock (default 60)");
  line.AddSeconds("--region-limit", &flags->region_limit, kLeastSeconds,
                  "Seconds of work that the prover gets for one region (default 3; see docs/verifier.md)");
  return [flags](Session& session) { return Equal(*flags, session); };
}

}  // namespace rewright
