#include "tools/library/written_model.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "core/onnx/onnx.h"
#include "core/ops/foreign.h"
#include "search/optimize/weight_bytes.h"

namespace rewright {

bool NeedsFileForWeights(const Graph& graph) { return BytesOfElements(graph) >= ExportOptions().max_inline_bytes; }

ExportOptions OptionsToWrite(const ImportedModel& original, const NamedModel& named) {
  ExportOptions options;
  options.source = original.source;
  options.named = named.graph;
  options.tail = !original.tail.empty();
  return options;
}

namespace {

// Reads the written bytes at those sizes.
absl::StatusOr<ImportedModel> Read(const absl::Cord& bytes, const ImportedModel& original,
                                   const index::NamedSizes& dims, const Engine& engine) {
  const bool tail = !original.tail.empty(), keep = tail || CountForeign(original.graph) > 0;
  absl::StatusOr<ImportedModel> again = ImportSerialized(
      bytes, "the result", {.dims = dims, .keep_source = keep, .keep_unknown = keep, .keep_tail = tail});
  if (!again.ok()) {
    return absl::InternalError(absl::StrCat("what is written cannot be read: ", again.status().message()));
  }
  if (keep) engine.Use(*again);
  return again;
}

absl::StatusOr<OutputCheck> Equal(const Graph& read, const OutputChecker::Compiled& written, OutputChecker& checker) {
  ASSIGN_OR_RETURN(OutputCheck check, checker.Check(read, written));
  if (check.done && !check.equal) {
    return absl::InternalError(absl::StrCat("the outputs of the model to be written differ: ", check.text));
  }
  return check;
}

// Nodes that are not known here may refuse sizes for which the rest of the model can be read.
bool RunsAtAll(const ImportedModel& model, const Engine& engine) {
  if (model.opaque.empty()) return true;
  engine.Use(model);
  absl::StatusOr<std::vector<Tensor>> inputs = RandomInputs(model.graph, 1);
  if (!inputs.ok()) return false;
  PutGiven(model.graph, model.metadata.defaults, &*inputs);
  const absl::StatusOr<std::unique_ptr<Executable>> executable = engine.runner().Prepare(model.graph);
  std::vector<Tensor> outputs;
  return executable.ok() && (*executable)->Run(*inputs, &outputs).ok();
}

}  // namespace

absl::StatusOr<WrittenModel> BytesToWrite(const Graph& rewritten, const ImportedModel& original,
                                          const NamedModel& named, const Engine& engine, bool read) {
  WrittenModel written;
  if (NeedsFileForWeights(rewritten)) return written;
  absl::StatusOr<SerializedModel> model = SerializeOnnx(rewritten, original.metadata, OptionsToWrite(original, named));
  if (!model.ok()) return written;
  written.bytes = std::move(model->bytes);
  written.computed = std::move(model->computed);
  written.initializers = std::move(model->initializers);
  if (!read) return written;
  index::NamedSizes given;
  for (const std::string& kept : named.names) given[kept] = original.dims.at(kept);
  for (const SizeRelation& kept : named.relations) given[kept.name] = original.dims.at(kept.name);
  ASSIGN_OR_RETURN(written.read, Read(*written.bytes, original, given, engine));
  return written;
}

absl::StatusOr<OutputCheck> CheckWritten(const WrittenModel& written, const Graph& rewritten, OutputChecker& checker) {
  return Equal(written.read->graph, {.written = &rewritten, .computed = &written.computed}, checker);
}

absl::Status CheckWrittenAtOnes(const WrittenModel& written, const NamedModel& named, const Engine& engine,
                                const OutputCheckOptions& checking) {
  if (!named.smallest || !RunsAtAll(*named.smallest, engine)) return absl::OkStatus();
  const Graph& smallest = named.smallest->graph;
  index::NamedSizes ones;
  for (const std::string& kept : named.names) ones[kept] = 1;
  Complete(named.relations, &ones);
  ASSIGN_OR_RETURN(const ImportedModel read, Read(*written.bytes, *named.smallest, ones, engine));
  OutputChecker checks(smallest, &engine.runner(), checking);
  return Equal(read.graph, {}, checks).status();
}

}  // namespace rewright
