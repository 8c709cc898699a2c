#include "tools/library/named_model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "search/all_sizes.h"

namespace rewright {
namespace {

class Namer {
 public:
  Namer(OnnxModel& source, const ImportedModel& original, const Replay& made, const std::vector<ReplayStep>& steps,
        const RuleIndex& rules)
      : source_(source), original_(original), made_(made), steps_(steps), rules_(rules) {}

  // The graph with those names; kFailedPrecondition where they cannot be kept.
  absl::StatusOr<std::shared_ptr<NamedGraph>> Try(const std::vector<std::string>& names) {
    const std::vector<index::NamedSizes> sizes = index::SampleSizes(names, original_.dims);
    auto graph = std::make_shared<NamedGraph>(names, sizes);
    std::vector<Resized> replayed;
    for (const index::NamedSizes& dims : sizes) {
      absl::StatusOr<ImportedModel> model =
          source_.Import({.dims = dims,
                          .fold_defaults = original_.fold_defaults,
                          .keep_source = true,
                          .keep_unknown = !original_.opaque.empty() || !original_.tail.empty(),
                          .keep_tail = !original_.tail.empty()});
      if (!model.ok()) {
        return absl::FailedPreconditionError(absl::StrCat("at ", TextOf(names, dims), ": ", model.status().message()));
      }
      ASSIGN_OR_RETURN(Resized resized, ReplayResized(made_, steps_, model->graph, rules_));
      if (!resized.left_out.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("rule ", steps_[resized.left_out[0]].rule, " does not apply at ", TextOf(names, dims)));
      }
      graph->samples.push_back({resized.graph, model->source});
      replayed.push_back(std::move(resized));
    }
    RETURN_IF_ERROR(AppliesAtAllSizes(replayed, graph->fit));
    RETURN_IF_ERROR(CheckNames(original_.metadata, {.tail = !original_.tail.empty(), .named = graph}));
    return graph;
  }

 private:
  static std::string TextOf(const std::vector<std::string>& names, const index::NamedSizes& dims) {
    return absl::StrJoin(names, ", ", [&](std::string* out, const std::string& name) {
      absl::StrAppend(out, name, " = ", dims.at(name));
    });
  }

  OnnxModel& source_;
  const ImportedModel& original_;
  const Replay& made_;
  const std::vector<ReplayStep>& steps_;
  const RuleIndex& rules_;
};

}  // namespace

absl::StatusOr<NamedModel> NameSizes(OnnxModel& source, const ImportedModel& original, const Replay& made,
                                     const std::vector<ReplayStep>& steps, const RuleIndex& rules) {
  NamedModel named;
  std::vector<std::string> names;
  for (const auto& [name, size] : original.dims) names.push_back(name);
  if (names.empty()) return named;
  const auto fix = [&](const std::string& why) {
    for (const std::string& name : names) named.fixed.emplace_back(name, why);
    return named;
  };
  if (original.has_subgraphs) return fix("nodes that hold graphs may read it");
  Namer namer(source, original, made, steps, rules);
  absl::StatusOr<std::shared_ptr<NamedGraph>> graph = namer.Try(names);
  if (absl::IsFailedPrecondition(graph.status()) && names.size() > 1) {
    // Each by itself, then together those that can be kept.
    std::vector<std::string> kept;
    for (const std::string& name : names) {
      const absl::Status alone = namer.Try({name}).status();
      if (alone.ok()) {
        kept.push_back(name);
      } else {
        named.fixed.emplace_back(name, alone.message());
      }
    }
    names = kept;
    if (names.empty()) return named;
    graph = namer.Try(names);
  }
  if (absl::IsFailedPrecondition(graph.status())) return fix(std::string(graph.status().message()));
  RETURN_IF_ERROR(graph.status());
  named.graph = *std::move(graph);
  named.names = names;
  ImportOptions smallest;
  smallest.dims = original.dims;
  smallest.fold_defaults = original.fold_defaults;
  smallest.keep_tail = !original.tail.empty();
  smallest.keep_source = smallest.keep_unknown = !original.opaque.empty() || smallest.keep_tail;
  for (const std::string& name : names) smallest.dims[name] = 1;
  if (absl::StatusOr<ImportedModel> model = source.Import(smallest); model.ok()) named.smallest = *std::move(model);
  return named;
}

}  // namespace rewright
