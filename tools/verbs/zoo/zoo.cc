// rewright zoo [NAME [-o F.onnx]]: known architectures with seeded random weights.

#include "bench/zoo/zoo.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/index/cost_features.h"
#include "core/onnx/onnx.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/verb.h"

namespace rewright {
namespace {

struct ZooFlags {
  std::string name;
  std::string output;
  ZooOptions options;
};

absl::StatusOr<Answer> ListModels(Session& session) {
  size_t width = 0;
  for (const ZooModel& model : ZooModels()) width = std::max(width, model.name.size());
  Json list = Json::array();
  for (const ZooModel& model : ZooModels()) {
    session.console.Result(absl::StrFormat("%-*s  %s", static_cast<int>(width), model.name, model.description));
    list.push_back({{"name", model.name}, {"description", model.description}, {"options", model.options}});
  }
  session.console.json()["models"] = std::move(list);
  return Answer::kYes;
}

absl::StatusOr<Answer> MakeModel(const ZooFlags& flags, Session& session) {
  std::vector<std::string> names;
  for (const ZooModel& model : ZooModels()) names.push_back(model.name);
  if (std::find(names.begin(), names.end(), flags.name) == names.end()) {
    return absl::NotFoundError(absl::StrCat("no model is called `", flags.name, "`", DidYouMean(flags.name, names),
                                            "; `rewright zoo` lists them"));
  }
  RETURN_IF_ERROR(CheckOutputs({{"-o", flags.output, OutputFlag::Use::kReplace, /*binary=*/true}}, {}, session));
  ZooOptions options = flags.options;
  options.seed = session.flags.seed;
  absl::StatusOr<Graph> graph = BuildZooModel(flags.name, options);
  if (!graph.ok()) return graph.status();
  ModelMetadata metadata;
  metadata.producer_name = "rewright";
  metadata.graph_name = flags.name;
  RETURN_IF_ERROR(WriteModel(*graph, metadata, flags.output, kWeightsAsTheyAre));
  const GraphFeatures features = FeaturesOf(*graph);
  session.console.Result(
      absl::StrFormat("%s%s, %d nodes, %.3f G FLOP, %.2f M parameters",
                      flags.output.empty() || IsStandardOutput(flags.output) ? "" : flags.output + ": ", flags.name,
                      graph->num_applications(), features.flops / 1e9, static_cast<double>(features.parameters) / 1e6));
  session.console.json() = {{"name", flags.name},
                            {"output", flags.output},
                            {"nodes", graph->num_applications()},
                            {"flops", features.flops},
                            {"parameters", features.parameters}};
  return Answer::kYes;
}

}  // namespace

Action DeclareZoo(CommandLine& line) {
  auto flags = std::make_shared<ZooFlags>();
  ZooOptions& options = flags->options;
  line.Add("name", &flags->name, "An architecture; all are listed without one");
  line.AddOutputPath("-o,--output", &flags->output, "Where to write the model; - is standard output (default: nowhere)")
      .Type("F.onnx");
  line.AddInt("--batch", &options.batch, 1, 1 << 20, "Examples at once (default 1)");
  line.AddInt("--image-size", &options.image_size, 1, 1 << 14, "Height and width of images (default: the usual)");
  line.AddInt("--sequence-length", &options.sequence_length, 1, 1 << 20, "Tokens (default: the usual)");
  line.AddInt("--layers", &options.layers, 1, 10000, "Layers, blocks or steps (default: the usual)");
  line.AddInt("--width", &options.width, 1, 1 << 16,
              "Hidden size or channels, where a model has one (default: the usual)");
  line.AddSwitch("--attention-mask", &options.attention_mask, "bert_base: an input that masks tokens");
  return [flags](Session& session) { return flags->name.empty() ? ListModels(session) : MakeModel(*flags, session); };
}

}  // namespace rewright
