#include "tools/library/written_model.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {

int64_t WeightBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (NodeId id : graph.nodes()) {
    if (const Tensor* elements = graph.arena()->Elements(id)) bytes += elements->num_bytes();
  }
  return bytes;
}

bool NeedsFileForWeights(const Graph& graph) { return WeightBytes(graph) >= ExportOptions().max_inline_bytes; }

absl::StatusOr<WrittenModel> BytesToWrite(const Graph& rewritten, const ImportedModel& original,
                                          const std::string& name, GraphRunner& runner,
                                          const std::optional<OutputCheckOptions>& checking) {
  WrittenModel written;
  if (NeedsFileForWeights(rewritten)) return written;
  absl::StatusOr<std::string> bytes = ExportOnnxBytes(rewritten, original.metadata, {.source = original.source});
  if (!bytes.ok()) return written;
  if (checking) {
    absl::StatusOr<ImportedModel> again = ImportOnnxBytes(*bytes, name, "");
    if (!again.ok()) {
      return absl::InternalError(absl::StrCat("what is written cannot be read: ", again.status().message()));
    }
    OutputChecker checker(original.graph, &runner, *checking);
    ASSIGN_OR_RETURN(written.check, checker.Check(again->graph));
    if (written.check.done && !written.check.equal) {
      return absl::InternalError(absl::StrCat("the outputs of the model to be written differ: ", written.check.text));
    }
  }
  written.bytes = *std::move(bytes);
  return written;
}

}  // namespace rewright
