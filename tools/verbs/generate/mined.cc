#include "tools/verbs/generate/mined.h"

#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "substitutions/baseline/baseline.h"
#include "substitutions/generate/enumerate/ranks.h"
#include "substitutions/generate/mined/mined_spaces.h"
#include "substitutions/generate/mined/subgraphs.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"

namespace rewright {
namespace {

constexpr int kDefaultNodes = 3;

absl::StatusOr<std::vector<Graph>> ReadGraphs(const GenerateFlags& flags, Session& session) {
  ASSIGN_OR_RETURN(const Baseline baseline, Baseline::Load());
  std::vector<Graph> graphs;
  for (const std::string& path : flags.models) {
    ImportOptions options;
    options.dims = flags.dims;
    options.fold_defaults = flags.fold_defaults;
    options.other_dims = true;  // a size may be of another model
    options.keep_unknown = options.keep_tail = true;
    ASSIGN_OR_RETURN(const ImportedModel model, LoadModel(path, options, session.console));
    ASSIGN_OR_RETURN(BaselineResult result, baseline.Apply(model.graph));
    graphs.push_back(std::move(result.graph));
  }
  return graphs;
}

// Spaces have tensors of f32. Error: none of the models' values are.
absl::Status CheckElements(const std::vector<Graph>& graphs) {
  std::set<std::string> found;
  for (const Graph& graph : graphs) {
    for (NodeId id : graph.nodes()) {
      if (graph.node(id).op == nullptr) continue;
      for (const TensorType& type : graph.node(id).outputs) found.insert(DTypeName(type.dtype));
    }
  }
  if (found.contains(DTypeName(DType::kFloat32))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--from: found values of ", absl::StrJoin(found, ", "),
                                                 ", expected some of f32: rules are of these"));
}

}  // namespace

absl::StatusOr<std::vector<generate::Space>> SpacesOfModels(const GenerateFlags& flags, Session& session) {
  ASSIGN_OR_RETURN(const std::vector<Graph> graphs, ReadGraphs(flags, session));
  generate::MineOptions options;
  options.max_nodes = flags.max_ops > 0 ? static_cast<int>(flags.max_ops) : kDefaultNodes;
  options.min_count = flags.min_count;
  const generate::MinedSubgraphs mined = generate::MineSubgraphs(graphs, options);
  generate::MinedSpaces found =
      generate::SpacesOf(graphs, mined, static_cast<int>(flags.max_spaces), session.flags.seed);
  if (generate::Ranks::World().rank() == 0) {
    session.console.Result(absl::StrFormat(
        "mined:      %d subgraphs of up to %d applications, of %d in %s (%d are no operators of a space); %s",
        mined.subgraphs.size(), options.max_nodes, mined.nodes, Counted(graphs.size(), "model"), mined.left_out,
        Counted(found.spaces.size(), "space")));
    for (const std::string& line : found.explanations) {
      if (flags.explain) session.console.Result(line);
    }
    session.console.json()["mined_subgraphs"] = mined.subgraphs.size();
    session.console.json()["mined_left_out"] = mined.left_out;
  }
  if (found.spaces.empty()) {
    RETURN_IF_ERROR(CheckElements(graphs));
    return absl::InvalidArgumentError(absl::StrCat("--from: no subgraph of two applications or more occurs ",
                                                   flags.min_count,
                                                   " times (--min-count) in a space of the generator; --explain "
                                                   "says why"));
  }
  return std::move(found.spaces);
}

}  // namespace rewright
