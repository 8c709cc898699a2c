// rewright shard MODEL: the model cut over devices, as one graph with one meaning.

#include "substitutions/sharding/shard.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/compare.h"
#include "core/ir/random_inputs.h"
#include "core/ir/text.h"
#include "tools/flags.h"
#include "tools/models.h"
#include "tools/outputs.h"
#include "tools/verb.h"
#include "verifier/sharding_laws.h"

namespace rewright {
namespace {

struct ShardFlags {
  std::string model;
  std::map<std::string, int64_t> dims;
  int64_t degree = 2;
  std::vector<std::string> places;
  std::string output;
  bool check = false;
  double time_limit = 10;
};

// NAME:AXIS
absl::StatusOr<sharding::Placement> ParsePlacement(const std::string& text) {
  const size_t colon = text.rfind(':');
  sharding::Placement placement;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &placement.axis)) {
    return absl::InvalidArgumentError(absl::StrCat("--place ", text, ": expected NAME:AXIS"));
  }
  placement.tensor = text.substr(0, colon);
  return placement;
}

// Both graphs by the interpreter on one draw of inputs.
absl::StatusOr<Answer> Check(const Graph& original, const sharding::Sharded& sharded, Session& session) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> drawn,
                   RandomInputs(original, static_cast<uint64_t>(session.flags.seed), 0));
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (size_t k = 0; k < drawn.size(); ++k) inputs[original.node(original.inputs()[k].node).name] = drawn[k];
  const InterpretOptions options{.threads = NumThreads(session.flags.threads)};
  ASSIGN_OR_RETURN(const std::vector<Tensor> expected, InterpretGraph(original, inputs, options));
  ASSIGN_OR_RETURN(const std::vector<Tensor> found, InterpretGraph(sharded.graph, inputs, options));
  bool equal = true, same_bits = true;
  double worst = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    same_bits &= found[k].BitEqual(expected[k]);
    const Comparison comparison = Compare(found[k], expected[k], /*rtol=*/1e-4, /*atol=*/1e-4);
    equal &= comparison.close && comparison.same_type;
    worst = std::max(worst, comparison.max_abs);
  }
  session.console.Result(same_bits ? "outputs:  the same bits"
                                   : absl::StrFormat("outputs:  %s, largest difference %.3g",
                                                     equal ? "equal within tolerance" : "DIFFERENT", worst));
  session.console.json()["same_bits"] = same_bits;
  session.console.json()["max_difference"] = worst;
  const bool as_promised = equal && (same_bits || !sharded.exact);
  return as_promised ? Answer::kYes : Answer::kNo;
}

absl::StatusOr<Answer> ShardModel(const ShardFlags& flags, Session& session) {
  Console& console = session.console;
  std::vector<sharding::Placement> placements;
  for (const std::string& place : flags.places) {
    ASSIGN_OR_RETURN(sharding::Placement placement, ParsePlacement(place));
    placements.push_back(std::move(placement));
  }
  ASSIGN_OR_RETURN(const ImportedModel model, LoadModel(flags.model, flags.dims, console));
  ProvedLaws laws(flags.time_limit);
  ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                   sharding::Shard(model.graph, placements, flags.degree, std::ref(laws)));
  int applications = 0;
  for (NodeId id : model.graph.nodes()) applications += model.graph.node(id).op != nullptr;
  console.Result(absl::StrFormat(
      "%d of %d applications on blocks, by %d laws proved for every size and number of devices%s", sharded.cut,
      applications, laws.num_proved(), sharded.exact ? "; exact" : "; sums in another order"));
  if (!sharded.whole.empty()) {
    console.Result(absl::StrCat("joined for want of a law: ", absl::StrJoin(sharded.whole, ", ")));
  }
  Json& json = console.json();
  json["cut"] = sharded.cut;
  json["applications"] = applications;
  json["exact"] = sharded.exact;
  json["whole"] = sharded.whole;
  json["exchanges"] = Json::array();
  for (const sharding::Exchange& exchange : sharding::ExchangesOf(sharded.graph)) {
    console.Result(absl::StrFormat("  %-12s %4d  %10.3f MB sent by a device", exchange.collective, exchange.count,
                                   exchange.bytes / 1e6));
    json["exchanges"].push_back(
        {{"collective", exchange.collective}, {"count", exchange.count}, {"bytes", exchange.bytes}});
  }
  for (const sharding::Sharded::Step& step : sharded.steps) {
    json["steps"].push_back({{"rule", step.rule}, {"replaced", step.replaced}, {"bindings", step.bindings}});
  }
  if (!flags.output.empty()) RETURN_IF_ERROR(WriteOutput(flags.output, PrintGraph(sharded.graph)));
  return flags.check ? Check(model.graph, sharded, session) : Answer::kYes;
}

}  // namespace

Action DeclareShard(CLI::App& app) {
  auto flags = std::make_shared<ShardFlags>();
  app.add_option("model", flags->model, "An ONNX file")->required()->type_name("MODEL.onnx");
  AddSizes(app, "--dim", &flags->dims, "The size of a symbolic dimension (default 1)");
  app.add_option("--degree", flags->degree, "Number of devices")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--place", flags->places,
                 "An input or weight and the axis that is cut; * in the name stands for any characters (repeatable)")
      ->required()
      ->type_name("NAME:AXIS");
  app.add_flag("--check", flags->check, "Compare with the original by the interpreter on random inputs");
  AddOutputPath(app, "-o,--output", &flags->output, "Write the graph as text; - is standard output")
      ->type_name("GRAPH.txt");
  return [flags](Session& session) { return ShardModel(*flags, session); };
}

}  // namespace rewright
