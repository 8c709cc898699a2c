#include "tools/library/equal_models.h"

#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "tools/library/border.h"
#include "tools/library/rewright/equal.h"
#include "tools/library/rule_paths.h"
#include "tools/library/settings.h"

namespace rewright {

absl::StatusOr<OptimizerRules> LoadEqualRules(RuleSettings settings) {
  settings.assume_finite = true;  // laws of real numbers
  settings.baseline = true;
  for (std::string& file : settings.rules) file = PathOfRules(std::move(file));
  // Rules without a gain for a search are laws all the same.
  for (const char* const name : {"core.rules", "laws.rules"}) {
    ASSIGN_OR_RETURN(std::string shipped, FindRuleFile(name));
    if (!absl::c_linear_search(settings.rules, shipped)) settings.rules.push_back(std::move(shipped));
  }
  return LoadOptimizerRules(settings);
}

std::vector<std::string> DefaultDifferences(const ImportedModel& a, const ImportedModel& b) {
  std::vector<std::string> lines;
  std::set<std::string> in_both;
  for (Value input : b.graph.inputs()) in_both.insert(b.graph.node(input.node).name);
  for (Value input : a.graph.inputs()) {
    const std::string& name = a.graph.node(input.node).name;
    if (!in_both.contains(name)) continue;
    const auto in_a = a.metadata.defaults.find(name), in_b = b.metadata.defaults.find(name);
    const bool has_a = in_a != a.metadata.defaults.end(), has_b = in_b != b.metadata.defaults.end();
    if (has_a != has_b) {
      lines.push_back(absl::StrCat("input ", name, has_a ? ": a default and none" : ": no default and one"));
    } else if (has_a && !in_a->second.BitEqual(in_b->second)) {
      lines.push_back(absl::StrCat("input ", name, ": different defaults"));
    }
  }
  return lines;
}

absl::Status CheckDefaults(const ImportedModel& a, const ImportedModel& b) {
  const std::vector<std::string> differences = DefaultDifferences(a, b);
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the models do not have the same inputs (of A and of B)\n  ", absl::StrJoin(differences, "\n  ")));
}

std::string DifferenceText(const ModelDifference& difference) {
  return absl::StrFormat("%s at [%s]: %.9g in A, %.9g in B; rounding explains %.2g", difference.output,
                         absl::StrJoin(difference.at, ","), difference.a, difference.b, difference.tolerance);
}

namespace {

// False: an input has another type in each.
bool AgreeOnInputs(const ImportedModel& a, const ImportedModel& b) {
  return absl::c_all_of(a.graph.inputs(), [&](Value in_a) {
    return absl::c_all_of(b.graph.inputs(), [&](Value in_b) {
      return a.graph.node(in_a.node).name != b.graph.node(in_b.node).name || a.graph.type(in_a) == b.graph.type(in_b);
    });
  });
}

}  // namespace

absl::StatusOr<ModelPair> ReadWhereSizesTell(
    ImportOptions options, absl::FunctionRef<absl::StatusOr<ModelPair>(const ImportOptions&)> read) {
  options.other_sizes = 3;
  absl::StatusOr<ModelPair> models = read(options);
  if (models.ok() && AgreeOnInputs(models->first, models->second)) return models;
  options.other_sizes = 1;
  return read(options);
}

std::string SizesText(const std::map<std::string, int64_t>& dims) {
  if (dims.empty()) return "";
  return absl::StrCat(", at ", absl::StrJoin(dims, ", ", absl::PairFormatter("=")));
}

std::map<std::string, int64_t> SizesOfBoth(const ImportedModel& a, const ImportedModel& b) {
  std::map<std::string, int64_t> dims = a.dims;
  dims.insert(b.dims.begin(), b.dims.end());
  return dims;
}

namespace {

absl::StatusOr<ImportedModel> Read(const ModelContents& model, const char* name, const ImportOptions& options) {
  return model.path.empty() ? ImportOnnxBytes(model.bytes, name, "", options) : ImportOnnx(model.path, options);
}

absl::StatusOr<ModelPair> ReadBoth(const ModelContents& a, const ModelContents& b, const ImportOptions& options,
                                   std::map<std::string, std::string> names_of_b) {
  ImportOptions of_b = options;
  of_b.names = std::move(names_of_b);
  ASSIGN_OR_RETURN(ImportedModel first, Read(a, "A", options));
  ASSIGN_OR_RETURN(ImportedModel second, Read(b, "B", of_b));
  return std::pair(std::move(first), std::move(second));
}

std::map<std::string, std::string> NamesOfSecond(const std::map<std::string, std::string>& map) {
  std::map<std::string, std::string> names;
  for (const auto& [first, second] : map) {
    if (names.emplace(second, first).second) continue;
    Throw(absl::InvalidArgumentError(absl::StrCat("map: ", second, " is given twice")));
  }
  return names;
}

std::string Summary(const EqualResult& result, const std::map<std::string, int64_t>& dims) {
  std::string text = absl::StrCat(EqualityName(result.equality), SizesText(dims));
  if (result.difference) {
    absl::StrAppend(&text, "\noutput: ", DifferenceText(*result.difference));
    if (!result.difference->first.empty()) absl::StrAppend(&text, "\nfirst: ", result.difference->first);
    return text;
  }
  absl::StrAppendFormat(&text, "\nshared: %d of %d values\nregions: %d by rules, %d by the prover", result.shared,
                        result.values, result.regions_by_rules, result.regions.size());
  for (const OpenRegion& open : result.open) absl::StrAppend(&text, "\nleft: ", open.a, " and ", open.b);
  if (result.time_out) absl::StrAppend(&text, "\nthe time limit ended the search for a proof");
  return text;
}

EqualJudgement Judgement(const EqualResult& result, std::map<std::string, int64_t> dims) {
  EqualJudgement judgement;
  judgement.answer = EqualityName(result.equality);
  judgement.summary = Summary(result, dims);
  judgement.dims = std::move(dims);
  for (const OpenRegion& open : result.open) judgement.open.push_back(open.text);
  if (!result.difference) return judgement;
  judgement.output = result.difference->output;
  judgement.at = result.difference->at;
  judgement.a = result.difference->a;
  judgement.b = result.difference->b;
  judgement.tolerance = result.difference->tolerance;
  judgement.first = result.difference->first;
  return judgement;
}

}  // namespace

EqualJudgement JudgeEqual(const ModelContents& a, const ModelContents& b, const EqualSettings& settings) {
  return Call([&] {
    CheckSettings(settings);
    ImportOptions reading = {.dims = settings.dims, .fold_defaults = settings.fold_defaults, .keep_unknown = true};
    reading.other_dims = true;
    const std::map<std::string, std::string> names = NamesOfSecond(settings.map);
    const auto& [first, second] = Take(
        ReadWhereSizesTell(reading, [&](const ImportOptions& options) { return ReadBoth(a, b, options, names); }));
    for (const auto& [name, size] : settings.dims) {
      if (first.dims.contains(name) || second.dims.contains(name)) continue;
      Throw(absl::InvalidArgumentError(absl::StrCat("there is no symbolic dimension ", name)));
    }
    Take(CheckDefaults(first, second));
    const OptimizerRules rules = Take(LoadEqualRules({.rules = settings.rules}));
    EqualOptions options;
    options.rules = RulesForEqual(rules.all.matchers());
    options.time_limit_s = settings.time_limit_seconds;
    options.seed = settings.seed;
    options.threads = NumThreads(settings.threads);
    options.own_precision = false;
    options.stop = settings.stop;
    const EqualResult result = Take(ProveEqual(first.graph, second.graph, options));
    ThrowIfStopped(settings.stop);
    return Judgement(result, SizesOfBoth(first, second));
  });
}

}  // namespace rewright
