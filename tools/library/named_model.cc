#include "tools/library/named_model.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "search/replay/all_sizes.h"

namespace rewright {
namespace {

using index::NamedSizes;

// Limits on the readings of a model by which relations are looked for: the nodes read in all, and the number of
// readings.
constexpr int64_t kNodesRead = 200'000;
constexpr int64_t kFewestReadings = 6, kMostReadings = 150;

std::string TextOf(const std::vector<std::string>& names, const NamedSizes& dims) {
  return absl::StrJoin(names, ", ", [&](std::string* out, const std::string& name) {
    absl::StrAppend(out, name, " = ", dims.at(name));
  });
}

ImportOptions ReadingAt(const ImportedModel& original, const NamedSizes& dims) {
  const bool has_tail = !original.tail.empty();
  return {.dims = dims,
          .fold_defaults = original.fold_defaults,
          .keep_source = true,
          .keep_unknown = !original.opaque.empty() || has_tail,
          .keep_tail = has_tail};
}

// Looks for what makes a model readable at sizes that are all different.
class RelationSearch {
 public:
  RelationSearch(OnnxModel& source, const ImportedModel& original)
      : source_(source),
        original_(original),
        left_(std::clamp(kNodesRead / std::max<int64_t>(1, std::ssize(original.graph.nodes())), kFewestReadings,
                         kMostReadings)) {
    for (const auto& [name, size] : original.dims) {
      const std::optional<SizeRelation> sum = RelationOf(name);
      const bool known = sum && std::all_of(sum->terms.begin(), sum->terms.end(), [&](const auto& term) {
                           return original.dims.contains(term.first) && !RelationOf(term.first);
                         });
      if (known) written_.push_back(*sum);
    }
  }

  std::vector<SizeRelation> Find() {
    if (original_.dims.size() < 2 || original_.has_subgraphs || CanBeRead(written_)) return written_;
    for (const SizeRelation& one : Candidates(written_)) {
      std::vector<SizeRelation> relations = written_;
      relations.push_back(one);
      if (CanBeRead(relations)) return relations;
    }
    for (const SizeRelation& one : Candidates(written_)) {
      std::vector<SizeRelation> relations = written_;
      relations.push_back(one);
      for (const SizeRelation& other : Candidates(relations)) {
        if (other.name < one.name || UsesName(one, other.name)) continue;
        relations.push_back(other);
        if (CanBeRead(relations)) return relations;
        relations.pop_back();
      }
    }
    return written_;
  }

 private:
  static bool UsesName(const SizeRelation& relation, const std::string& name) {
    return std::any_of(relation.terms.begin(), relation.terms.end(),
                       [&](const auto& term) { return term.first == name; });
  }

  std::vector<std::string> FreeNames(const std::vector<SizeRelation>& relations) const {
    std::vector<std::string> names;
    for (const auto& [name, size] : original_.dims) {
      const bool given = std::any_of(relations.begin(), relations.end(),
                                     [&, &name = name](const SizeRelation& r) { return r.name == name; });
      if (!given) names.push_back(name);
    }
    return names;
  }

  bool CanBeRead(const std::vector<SizeRelation>& relations) {
    if (--left_ < 0) return false;
    const std::vector<NamedSizes> samples = RelatedSamples(FreeNames(relations), original_.dims, relations);
    return source_.Import(ReadingAt(original_, samples.front())).ok() &&
           source_.Import(ReadingAt(original_, samples.back())).ok();
  }

  // Sums of one other name, and of two, that hold at the sizes of the original; where all of these are 1, which axes
  // that are repeated hide, sums with 1 and 0 behind them.
  std::vector<SizeRelation> Candidates(const std::vector<SizeRelation>& relations) const {
    const std::vector<std::string> names = FreeNames(relations);
    std::vector<SizeRelation> sums;
    const auto add = [&](const std::string& name, std::vector<std::pair<std::string, int64_t>> terms) {
      int64_t rest = original_.dims.at(name);
      bool ones = rest == 1;
      for (const auto& [term, factor] : terms) {
        rest -= original_.dims.at(term);
        ones = ones && original_.dims.at(term) == 1;
      }
      std::set<int64_t> constants = {rest};
      if (ones) constants = {0, 1};
      for (int64_t constant : constants) {
        if (constant >= 0) sums.push_back({name, terms, constant});  // else it is the other that is the sum
      }
    };
    for (const std::string& name : names) {
      for (const std::string& other : names) {
        if (other != name) add(name, {{other, 1}});
      }
    }
    for (const std::string& name : names) {
      for (size_t i = 0; i < names.size(); ++i) {
        for (size_t j = i + 1; j < names.size(); ++j) {
          if (names[i] != name && names[j] != name) add(name, {{names[i], 1}, {names[j], 1}});
        }
      }
    }
    return sums;
  }

  OnnxModel& source_;
  const ImportedModel& original_;
  int64_t left_;
  std::vector<SizeRelation> written_;  // names that are sums
};

// `original` with its relations, read again where they give sizes that `options` do not.
ImportedModel WithRelations(OnnxModel& source, ImportedModel original, const ImportOptions& options) {
  std::vector<SizeRelation> relations = RelationSearch(source, original).Find();
  ImportOptions reading = options;
  reading.dims = original.dims;
  for (const SizeRelation& relation : relations) {
    if (!options.dims.contains(relation.name)) Complete({relation}, &reading.dims);
  }
  if (reading.dims != original.dims) {
    if (absl::StatusOr<ImportedModel> again = source.Import(reading); again.ok()) {
      again->notes = original.notes;
      for (const SizeRelation& relation : relations) {
        std::erase_if(again->notes, [&](const std::string& note) {
          return absl::StartsWith(note, absl::StrCat("dimension ", relation.name, " is symbolic"));
        });
        again->notes.push_back(
            absl::StrCat("dimension ", relation.ToString(), ": taken to be ", reading.dims.at(relation.name)));
      }
      original = *std::move(again);
    }
  }
  original.relations = std::move(relations);
  return original;
}

}  // namespace

std::string NamedModel::Text() const {
  std::vector<std::string> parts = names;
  for (const SizeRelation& relation : relations) parts.push_back(relation.ToString());
  return absl::StrJoin(parts, ", ");
}

std::vector<SizeRelation> RelationsOf(OnnxModel& source, const ImportedModel& original) {
  return original.relations ? *original.relations : RelationSearch(source, original).Find();
}

absl::StatusOr<SourceModel> ReadSource(ModelFile file, OnnxModel contents, ImportOptions reading, bool mapped) {
  reading.keep_source = true;
  ASSIGN_OR_RETURN(ImportedModel original, contents.Import(reading));
  const bool all_given = std::all_of(original.dims.begin(), original.dims.end(),
                                     [&](const auto& dim) { return reading.dims.contains(dim.first); });
  if (!all_given) original = WithRelations(contents, std::move(original), reading);
  file.set_external_files(original.external_files);
  return SourceModel{std::move(file), std::move(contents), std::move(original), mapped};
}

NameKeeper::NameKeeper(SourceModel& model, const RuleIndex& rules)
    : source_(model.contents), original_(model.original), rules_(rules), relations_(RelationsOf(source_, original_)) {
  for (const auto& [name, size] : original_.dims) {
    const bool given = std::any_of(relations_.begin(), relations_.end(),
                                   [&, &name = name](const SizeRelation& r) { return r.name == name; });
    if (!given) free_.push_back(name);
  }
}

absl::StatusOr<NameKeeper::Samples> NameKeeper::SamplesOf(const std::vector<std::string>& names) {
  Samples samples;
  samples.names = names;
  for (const SizeRelation& relation : relations_) {
    const bool varies = std::any_of(relation.terms.begin(), relation.terms.end(), [&](const auto& term) {
      return std::find(names.begin(), names.end(), term.first) != names.end();
    });
    if (varies) samples.relations.push_back(relation);
  }
  samples.sizes = RelatedSamples(names, original_.dims, samples.relations);
  for (const NamedSizes& dims : samples.sizes) {
    absl::StatusOr<ImportedModel> model = source_.Import(ReadingAt(original_, dims));
    if (!model.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("at ", TextOf(names, dims), ": ", model.status().message()));
    }
    samples.graphs.push_back({model->graph, model->source});
  }
  return samples;
}

const absl::StatusOr<NameKeeper::Samples>& NameKeeper::AllSamples() {
  if (!all_) all_ = SamplesOf(free_);
  return *all_;
}

absl::StatusOr<std::shared_ptr<NamedGraph>> NameKeeper::Try(const Samples& samples, const Replay& made,
                                                            const std::vector<ReplayStep>& steps, size_t count,
                                                            std::vector<int>* failed) {
  std::set<int> without;
  for (size_t i = count; i < steps.size(); ++i) without.insert(static_cast<int>(i));
  auto graph = std::make_shared<NamedGraph>(samples.names, samples.sizes, samples.relations);
  std::vector<Resized> replayed;
  for (size_t k = 0; k < samples.sizes.size(); ++k) {
    const SizedGraph& sample = samples.graphs[k];
    ASSIGN_OR_RETURN(Resized resized, ReplayResized(made, steps, sample.graph, rules_, without));
    std::erase_if(resized.left_out, [&](int step) { return without.contains(step); });
    if (!resized.left_out.empty()) {
      if (failed != nullptr) *failed = resized.left_out;
      return absl::FailedPreconditionError(absl::StrCat("rule ", steps[resized.left_out[0]].rule, " does not apply at ",
                                                        TextOf(samples.names, samples.sizes[k])));
    }
    graph->samples.push_back({resized.graph, sample.source});
    replayed.push_back(std::move(resized));
  }
  int step = -1;
  if (const absl::Status applies = AppliesAtAllSizes(replayed, graph->fit, &step); !applies.ok()) {
    if (failed != nullptr) *failed = {replayed[0].taken[static_cast<size_t>(step)]};
    return applies;
  }
  RETURN_IF_ERROR(CheckNames(original_.metadata, {.tail = !original_.tail.empty(), .named = graph}));
  return graph;
}

absl::StatusOr<std::vector<int>> NameKeeper::StepsThatFixSizes(const Replay& made,
                                                               const std::vector<ReplayStep>& steps) {
  std::vector<int> all(steps.size());
  std::iota(all.begin(), all.end(), 0);
  if (original_.dims.empty()) return std::vector<int>();
  if (original_.has_subgraphs) return all;
  const absl::StatusOr<Samples>& samples = AllSamples();
  if (!samples.ok()) return all;
  std::vector<int> failed;
  absl::Status kept = Try(*samples, made, steps, steps.size(), &failed).status();
  if (kept.ok() || !absl::IsFailedPrecondition(kept)) {
    if (kept.ok()) return std::vector<int>();
    return kept;
  }
  if (!failed.empty()) return failed;
  // It is the file that would differ: the first step behind which it does.
  if (!Try(*samples, made, steps, 0).ok()) return all;
  size_t good = 0, bad = steps.size();
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    (Try(*samples, made, steps, middle).ok() ? good : bad) = middle;
  }
  return std::vector<int>{static_cast<int>(good)};
}

absl::StatusOr<NamedModel> NameKeeper::NameSizes(const Replay& made, const std::vector<ReplayStep>& steps) {
  NamedModel named;
  if (free_.empty()) return named;
  const auto fix = [&](const std::string& why) {
    for (const auto& [name, size] : original_.dims) named.fixed.emplace_back(name, why);
    return named;
  };
  if (original_.has_subgraphs) return fix("nodes that hold graphs may read it");
  const auto attempt = [&](const absl::StatusOr<Samples>& samples) -> absl::StatusOr<std::shared_ptr<NamedGraph>> {
    if (!samples.ok()) return samples.status();
    return Try(*samples, made, steps, steps.size());
  };
  const absl::StatusOr<Samples>* samples = &AllSamples();
  absl::StatusOr<Samples> some;
  absl::StatusOr<std::shared_ptr<NamedGraph>> graph = attempt(*samples);
  if (absl::IsFailedPrecondition(graph.status()) && free_.size() > 1) {
    // Each by itself, then together those that can be kept.
    std::vector<std::string> kept;
    for (const std::string& name : free_) {
      const absl::Status alone = attempt(SamplesOf({name})).status();
      if (alone.ok()) {
        kept.push_back(name);
      } else {
        named.fixed.emplace_back(name, alone.message());
      }
    }
    if (kept.empty()) return named;
    some = SamplesOf(kept);
    samples = &some;
    graph = attempt(some);
  }
  if (absl::IsFailedPrecondition(graph.status())) {
    named.fixed.clear();
    return fix(std::string(graph.status().message()));
  }
  RETURN_IF_ERROR(graph.status());
  named.graph = *std::move(graph);
  named.names = (*samples)->names;
  named.relations = (*samples)->relations;
  NamedSizes smallest = original_.dims;
  for (const std::string& name : named.names) smallest[name] = 1;
  Complete(named.relations, &smallest);
  ImportOptions reading = ReadingAt(original_, smallest);
  reading.keep_source = reading.keep_unknown;
  if (absl::StatusOr<ImportedModel> model = source_.Import(reading); model.ok()) named.smallest = *std::move(model);
  return named;
}

}  // namespace rewright
