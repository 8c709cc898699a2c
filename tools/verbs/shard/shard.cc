// rewright shard MODEL: the model cut over devices, as one graph with one meaning, and run by as many processes.

#include "substitutions/sharding/shard.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "runtime/comm/mpi.h"
#include "runtime/measure/timing.h"
#include "runtime/parallel/rank_executable.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/verb.h"
#include "tools/verbs/check/step_proof.h"
#include "tools/verbs/layout/cluster_cost.h"
#include "tools/verbs/layout/layout_file.h"
#include "tools/verbs/layout/measured_cluster.h"
#include "tools/verbs/layout/placement_search.h"
#include "tools/verbs/train/ranks.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

struct ShardFlags {
  std::string model;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  int64_t degree = 2;
  std::vector<std::string> places;
  std::string places_file;
  std::string layout, cluster, saved, proof;
  bool explain = false;
  std::string output;
  bool check = false;
  double time_limit = 10;

  bool run = false;
  std::map<std::string, std::string> inputs;
  std::string device = "cpu";
  int64_t iterations = 10;
  double timeout = 300;
};

constexpr double kTolerance = 1e-4;  // relative
constexpr char kAuto[] = "auto";

absl::Status ReadPlacements(const std::string& path, std::vector<sharding::Placement>* placements) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  ASSIGN_OR_RETURN(const LayoutFile file, ParseLayoutFile(text, path));
  if (!file.layout.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found the layout ", file.layout, ", which is one of train, expected placements alone"));
  }
  placements->insert(placements->end(), file.placements.begin(), file.placements.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<sharding::Placement>> GivenPlacements(const ShardFlags& flags) {
  std::vector<sharding::Placement> placements;
  for (const std::string& path : {flags.places_file, flags.layout}) {
    if (!path.empty()) RETURN_IF_ERROR(ReadPlacements(path, &placements));
  }
  for (const std::string& place : flags.places) {
    absl::StatusOr<sharding::Placement> placement = sharding::ParsePlacement(place);
    if (!placement.ok()) return ErrorAt("--place", placement.status());
    placements.push_back(*std::move(placement));
  }
  if (placements.empty())
    return absl::InvalidArgumentError("found no placement, expected --place, --places or --layout");
  return placements;
}

// The placements with the shortest estimated time; they go to the file of --save-layout.
absl::StatusOr<std::vector<sharding::Placement>> ChosenPlacements(const ShardFlags& flags, const Graph& graph,
                                                                  int degree, const distributed::Cluster& cluster,
                                                                  ProvedLaws& laws, Console& console) {
  ASSIGN_OR_RETURN(const PlacementChoice choice, PlacementsOfModel(graph, degree, cluster, std::ref(laws)));
  const LayoutFile file{.placements = choice.Placements()};
  console.Result(absl::StrFormat("layout:   %d of %d tensors are cut; %.4g s by estimate, of %d layouts",
                                 file.placements.size(), choice.tensors.size(), choice.cost.seconds, choice.tried));
  Json& json = console.json();
  json["estimated_seconds"] = choice.cost.seconds;
  json["placements"] = Json::object();
  for (const sharding::Placement& placement : file.placements) json["placements"][placement.tensor] = placement.axis;
  const std::vector<std::string> reasons = choice.Reasons();
  for (size_t k = 0; flags.explain && k < reasons.size(); ++k) {
    console.Result(absl::StrCat("why:      ", reasons[k]));
    json["why"].push_back(reasons[k]);
  }
  if (!flags.saved.empty()) RETURN_IF_ERROR(WriteOutput(flags.saved, PrintLayoutFile(file, reasons)));
  return file.placements;
}

// Reports the distance of the outputs from those expected. False where that is too far.
bool Report(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, bool* same_bits, Console& console) {
  bool equal = true;
  *same_bits = true;
  double worst = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    *same_bits &= found[k].BitEqual(expected[k]);
    const double distance = DefaultDistance(expected[k].dtype(), LargestMagnitude(expected[k]));
    const Comparison comparison = Compare(found[k], expected[k], kTolerance, distance);
    equal &= comparison.close && comparison.same_type;
    worst = std::max(worst, comparison.max_abs);
  }
  console.Result(*same_bits ? "outputs:  the same bits"
                            : absl::StrFormat("outputs:  %s, largest difference %.3g",
                                              equal ? "equal within tolerance" : "DIFFERENT", worst));
  console.json()["same_bits"] = *same_bits;
  console.json()["max_difference"] = worst;
  return equal;
}

// Runs both graphs by the interpreter on one draw of inputs.
absl::StatusOr<Answer> Check(const Graph& original, const sharding::Sharded& sharded, Session& session) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> drawn,
                   RandomInputs(original, static_cast<uint64_t>(session.flags.seed), 0));
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (size_t k = 0; k < drawn.size(); ++k) inputs[original.node(original.inputs()[k].node).name] = drawn[k];
  const InterpretOptions options{.threads = NumThreads(session.flags.threads)};
  ASSIGN_OR_RETURN(const std::vector<Tensor> expected, InterpretGraph(original, inputs, options));
  ASSIGN_OR_RETURN(const std::vector<Tensor> found, InterpretGraph(sharded.graph, inputs, options));
  bool same_bits = false;
  const bool equal = Report(found, expected, &same_bits, session.console);
  return equal && (same_bits || !sharded.exact) ? Answer::kYes : Answer::kNo;
}

// `cluster`: that of --layout auto.
absl::StatusOr<sharding::Sharded> Cut(const ShardFlags& flags, const Graph& graph, int degree,
                                      const distributed::Cluster& cluster, Console& console) {
  ProvedLaws laws(flags.time_limit);
  ASSIGN_OR_RETURN(
      const std::vector<sharding::Placement> placements,
      flags.layout == kAuto ? ChosenPlacements(flags, graph, degree, cluster, laws, console) : GivenPlacements(flags));
  ASSIGN_OR_RETURN(sharding::Sharded sharded, sharding::Shard(graph, placements, degree, std::ref(laws)));
  int applications = 0;
  for (NodeId id : graph.nodes()) applications += graph.node(id).op != nullptr;
  console.Result(
      absl::StrFormat("%d of %d applications on blocks, by %d laws proved for every size and number of devices%s",
                      sharded.cut, applications, sharded.laws, sharded.exact ? "; exact" : "; sums in another order"));
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
    console.Result(absl::StrFormat("  %-14s %4d  %10.3f MB sent by a device", exchange.collective, exchange.count,
                                   exchange.bytes / 1e6));
    json["exchanges"].push_back(
        {{"collective", exchange.collective}, {"count", exchange.count}, {"bytes", exchange.bytes}});
  }
  for (const sharding::Sharded::Step& step : sharded.steps) {
    json["steps"].push_back({{"rule", step.rule}, {"replaced", step.replaced}, {"bindings", step.bindings}});
  }
  if (!flags.output.empty()) RETURN_IF_ERROR(WriteOutput(flags.output, PrintGraph(sharded.graph)));
  if (!flags.proof.empty()) {
    distributed::ProofText proof;
    proof.model =
        distributed::ModelClaim{graph, {.axes = AxesOf(placements), .degree = degree, .graph = sharded.graph}};
    RETURN_IF_ERROR(WriteStepProof(std::move(proof), flags.time_limit, flags.proof, console));
  }
  return sharded;
}

absl::StatusOr<Answer> ShardModel(const ShardFlags& flags, Session& session) {
  ASSIGN_OR_RETURN(const ImportedModel model,
                   LoadModel(flags.model, {.dims = flags.dims, .fold_defaults = flags.fold_defaults}, session.console));
  const auto degree = static_cast<int>(flags.degree);
  distributed::Cluster cluster;
  if (!flags.cluster.empty()) {
    ASSIGN_OR_RETURN(cluster, distributed::ReadCluster(flags.cluster));
  } else if (flags.layout == kAuto) {
    ASSIGN_OR_RETURN(cluster, DefaultCluster(degree, NumThreads(session.flags.threads)));
  }
  ASSIGN_OR_RETURN(const sharding::Sharded sharded, Cut(flags, model.graph, degree, cluster, session.console));
  return flags.check ? Check(model.graph, sharded, session) : Answer::kYes;
}

// ---------------------------------------------------------------- run on ranks

// Reports the bytes that each rank sent in a run, and those that it computed with.
absl::Status ReportRanks(Communicator& ranks, const RankExecutable& executable, double bytes, Console& console) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   AllGather(ranks, "the report", absl::StrCat(bytes, " ", executable.arena_bytes())));
  console.json()["ranks"] = Json::array();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::vector<std::string> words = absl::StrSplit(all[rank], ' ');
    double sent = 0;
    int64_t activations = 0;
    if (!absl::SimpleAtod(words[0], &sent) || !absl::SimpleAtoi(words[1], &activations)) continue;
    console.Result(absl::StrFormat("rank %d:   sends %.3f MB a run, %s for activations", rank, sent / 1e6,
                                   BytesText(static_cast<double>(activations))));
    console.json()["ranks"].push_back({{"bytes_sent", sent}, {"peak_activation_bytes", activations}});
  }
  return absl::OkStatus();
}

// The outputs of all ranks, compared with those of the model without a cut, on the same device.
absl::StatusOr<Answer> CheckRanks(Communicator& ranks, const Graph& original, GraphRunner& runner,
                                  const std::vector<Tensor>& inputs, const std::vector<Tensor>& found,
                                  Console& console) {
  std::string bytes;
  for (const Tensor& tensor : found) bytes.append(tensor.as<char>(), static_cast<size_t>(tensor.num_bytes()));
  RETURN_IF_ERROR(CheckSame(ranks, "the outputs", {{"their bits", Sha256::HexOf(bytes)}}));
  bool equal = true;
  if (ranks.rank() == 0) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Executable> executable, runner.Prepare(original));
    std::vector<Tensor> expected;
    RETURN_IF_ERROR(executable->Run(inputs, &expected));
    bool same_bits = false;
    equal = Report(found, expected, &same_bits, console);
  }
  ASSIGN_OR_RETURN(const bool differ, AnyRank(ranks, "the comparison", !equal));
  return differ ? Answer::kNo : Answer::kYes;
}

absl::StatusOr<Answer> RunModel(const ShardFlags& flags, Communicator& ranks, Session& session) {
  Console& console = session.console;
  ASSIGN_OR_RETURN(
      const ImportedModel model,
      LoadModel(flags.model, {.dims = flags.dims, .fold_defaults = flags.fold_defaults}, console, flags.inputs));
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, LoadInputs(model, flags.inputs, session.flags.seed));
  distributed::Cluster cluster;
  if (flags.layout == kAuto) {
    ASSIGN_OR_RETURN(cluster, flags.cluster.empty() ? MeasuredCluster(ranks, NumThreads(session.flags.threads))
                                                    : distributed::ReadCluster(flags.cluster));
  }
  ASSIGN_OR_RETURN(const Graph cut, CutOnRanks(model.graph, ranks, [&]() -> absl::StatusOr<Graph> {
                     ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                                      Cut(flags, model.graph, ranks.size(), cluster, console));
                     return sharded.graph;
                   }));
  ASSIGN_OR_RETURN(const Engine engine, Engine::Open(flags.device, session.flags.threads, /*profile=*/""));
  ASSIGN_OR_RETURN(const std::unique_ptr<RankExecutable> executable,
                   RankExecutable::Create(cut, ranks, engine.runner()));
  std::vector<Tensor> outputs;
  RETURN_IF_ERROR(executable->Run(inputs, &outputs));
  const int64_t before = ranks.bytes_sent();
  RETURN_IF_ERROR(executable->Run(inputs, &outputs));
  const auto sent = static_cast<double>(ranks.bytes_sent() - before);
  TimingOptions options;
  options.warmup = 1;
  options.iterations = options.min_iterations = static_cast<int>(flags.iterations);  // as many on every rank
  ASSIGN_OR_RETURN(const Summary seconds, TimeRuns(*executable, inputs, options));
  console.Result(absl::StrFormat("latency:  median %.3f ms, min %.3f, p90 %.3f over %d runs on %d ranks, %d stages",
                                 seconds.median * 1e3, seconds.min * 1e3, seconds.p90 * 1e3, seconds.count,
                                 ranks.size(), executable->num_segments()));
  console.json()["latency_ms"] = {
      {"median", seconds.median * 1e3}, {"min", seconds.min * 1e3}, {"p90", seconds.p90 * 1e3}};
  RETURN_IF_ERROR(ReportRanks(ranks, *executable, sent, console));
  return flags.check ? CheckRanks(ranks, model.graph, engine.runner(), inputs, outputs, console) : Answer::kYes;
}

}  // namespace

Action DeclareShard(CommandLine& line) {
  auto flags = std::make_shared<ShardFlags>();
  line.Add("model", &flags->model, "An ONNX file").Required().Type("MODEL.onnx");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  const Flag degree = line.AddInt("--degree", &flags->degree, 1, 1 << 20, "Number of devices (default 2)");
  line.Add("--place", &flags->places,
           "An input or weight and the axis that is cut; * in the name stands for any characters (repeatable)")
      .Type("NAME:AXIS");
  line.Add("--places", &flags->places_file, "A file of such placements, one on each line; # starts a comment")
      .Type("FILE");
  const Flag layout = line.Add("--layout", &flags->layout,
                               "auto: cut what makes a run shortest by estimate; F.layout: the placements of that file")
                          .Type("auto|F.layout")
                          .Excludes("--place")
                          .Excludes("--places");
  line.Add("--cluster", &flags->cluster,
           "With --layout auto: the devices and their links, a file or one that comes with the program (default: this "
           "machine)")
      .Type("FILE.json|NAME")
      .Needs(layout);
  line.AddSwitch("--explain", &flags->explain,
                 "With --layout auto: show why each tensor lies as it does, and what the second best costs")
      .Needs(layout);
  line.AddOutputPath("--save-layout", &flags->saved, "With --layout auto: write the choice, for --layout F.layout")
      .Type("F.layout")
      .Needs(layout);
  line.AddSwitch("--check", &flags->check,
                 "Compare with the original on random inputs: by the interpreter; with --run on the device");
  line.AddOutputPath("--prove", &flags->proof, "Write the proof that the cut graph is the model, for rewright check")
      .Type("F.proof");
  line.AddOutputPath("-o,--output", &flags->output, "Write the graph as text; - is standard output").Type("GRAPH.txt");
  const Flag run =
      line.AddSwitch("--run", &flags->run, "Run it, under mpirun -n N on N processes, and time it").Excludes(degree);
  line.AddPairs("--input", &flags->inputs, "An input from a .npy or .pb file (default: random)").Needs(run);
  AddDevice(line, &flags->device, /*with_reference=*/true).Needs(run);
  line.AddInt("--iterations", &flags->iterations, 1, 1'000'000, "Measured runs (default 10)").Needs(run);
  line.AddSeconds("--timeout", &flags->timeout, 0.1,
                  "Seconds that a process waits for another one before all of them end")
      .Needs(run);
  return [flags](Session& session) -> absl::StatusOr<Answer> {
    if (!flags->run) return ShardModel(*flags, session);
    Communicator& ranks = ProcessRanks();
    ranks.set_timeout(flags->timeout);
    if (ranks.rank() != 0) session.console.Mute();
    return OnProcessRanks("shard", ranks, session.console, [&] { return RunModel(*flags, ranks, session); });
  };
}

}  // namespace rewright
