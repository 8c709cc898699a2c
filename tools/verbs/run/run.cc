// rewright run MODEL: runs a model on given or random inputs and measures it.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "core/onnx/onnx.h"
#include "core/tensor/npy.h"
#include "runtime/measure/timing.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/compare/groups.h"
#include "tools/verbs/rules/rules.h"
#include "tools/verbs/run/run_trace.h"

namespace rewright {
namespace {

struct RunFlags {
  std::string model;
  std::map<std::string, std::string> inputs;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  std::string output_dir;
  std::string device = "cpu";
  std::string precision = "f32";
  std::string profile;
  std::vector<std::string> no_rules;
  int64_t iterations = 30;
  int64_t warmup = 3;
  std::string trace;
};

// A file name of its own for every output: what a path cannot hold becomes _.
std::vector<std::string> FileNames(const std::vector<std::string>& outputs) {
  std::vector<std::string> files;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string file = outputs[i];
    for (char& c : file) {
      if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
    }
    if (file.empty() || file[0] == '.') file = "_" + file;
    if (std::find(files.begin(), files.end(), file) != files.end()) absl::StrAppend(&file, "_", i);
    files.push_back(file);
  }
  return files;
}

// The path of each output; none without --output-dir. The folder is made, and every file of it looked at.
absl::StatusOr<std::vector<std::string>> OutputPaths(const RunFlags& flags, const Graph& graph, Session& session) {
  std::vector<std::string> paths;
  if (flags.output_dir.empty()) return paths;
  RETURN_IF_ERROR(MakeFolder(flags.output_dir));
  std::vector<OutputFlag> outputs;
  std::vector<std::string> inputs = {flags.model};
  for (const auto& [name, file] : flags.inputs) inputs.push_back(file);
  for (const std::string& file : FileNames(OutputNames(graph))) {
    paths.push_back(absl::StrCat(flags.output_dir, "/", file, ".npy"));
    outputs.push_back({"--output-dir", paths.back()});
  }
  RETURN_IF_ERROR(CheckOutputs(outputs, inputs, session));
  return paths;
}

absl::Status SaveOutputs(const std::vector<std::string>& paths, const Graph& graph, const std::vector<Tensor>& outputs,
                         Console& console) {
  for (size_t i = 0; i < paths.size(); ++i) {
    RETURN_IF_ERROR(SaveNpy(paths[i], outputs[i]));
    console.Note(absl::StrCat("output ", graph.outputs()[i].name, ": ", paths[i]));
  }
  return absl::OkStatus();
}

constexpr double kDisturbed = 3;  // medians of so many least times

void Report(const Graph& graph, const Executable& executable, const std::vector<double>& samples, Console& console) {
  const GraphFeatures features = FeaturesOf(graph);
  const Summary seconds = Summarize(samples);
  const double p99 = Quantile(samples, 0.99), rate = seconds.mean > 0 ? 1 / seconds.mean : 0;
  console.Result(absl::StrFormat("latency:  median %.3f ms, min %.3f, p90 %.3f, p99 %.3f, spread %.1f %% over %d runs",
                                 seconds.median * 1e3, seconds.min * 1e3, seconds.p90 * 1e3, p99 * 1e3,
                                 seconds.spread * 100, seconds.count));
  if (seconds.median > kDisturbed * seconds.min) {
    console.Warning(
        "other work disturbs the runs; on several threads each step waits for the last one, which --threads 1 avoids");
  }
  console.Result(absl::StrFormat("rate:     %.4g runs a second, one after the other", rate));
  console.Result(absl::StrFormat("work:     %.3f G FLOP, %.1f GFLOP/s", features.flops / 1e9,
                                 seconds.median > 0 ? features.flops / seconds.median / 1e9 : 0));
  console.Result(absl::StrFormat("memory:   %s for activations (%s live at once), %s for weights as they are read",
                                 BytesText(static_cast<double>(executable.arena_bytes())),
                                 BytesText(static_cast<double>(executable.peak_live_bytes())),
                                 BytesText(static_cast<double>(executable.constant_bytes()))));
  Json& json = console.json();
  json["latency_ms"] = {{"median", seconds.median * 1e3}, {"min", seconds.min * 1e3}, {"p50", seconds.median * 1e3},
                        {"p90", seconds.p90 * 1e3},       {"p99", p99 * 1e3},         {"spread", seconds.spread}};
  json["runs_per_second"] = rate;
  json["iterations"] = seconds.count;
  json["constant_bytes"] = executable.constant_bytes();
  json["peak_activation_bytes"] = executable.arena_bytes();
  json["peak_live_bytes"] = executable.peak_live_bytes();
  json["flops"] = features.flops;
}

absl::StatusOr<Answer> Run(const RunFlags& flags, Session& session) {
  Console& console = session.console;
  const ImportOptions reading = OptionsToRead(flags.dims, flags.device, flags.fold_defaults);
  absl::StatusOr<ImportedModel> model = LoadModel(flags.model, reading, console, flags.inputs);
  if (!model.ok()) return model.status();
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, OutputPaths(flags, model->graph, session));
  RETURN_IF_ERROR(CheckOutputs({{"--profile", flags.profile, OutputFlag::Use::kKeep}, {"--trace", flags.trace}},
                               {flags.model}, session));
  absl::StatusOr<std::vector<Tensor>> inputs = LoadInputs(*model, flags.inputs, session.flags.seed);
  if (!inputs.ok()) return inputs.status();
  absl::StatusOr<Engine> engine =
      Engine::Open(flags.device, session.flags.threads, flags.profile, flags.precision, flags.no_rules);
  if (!engine.ok()) return engine.status();
  engine->Use(*model);
  absl::StatusOr<std::unique_ptr<Executable>> executable = engine->runner().Prepare(model->graph);
  if (!executable.ok()) return executable.status();

  const InterruptGuard interrupt;
  std::vector<Tensor> outputs;
  absl::Status status = (*executable)->Run(*inputs, &outputs);
  if (!status.ok()) return status;
  RETURN_IF_ERROR(SaveOutputs(paths, model->graph, outputs, console));
  std::string trace;
  if (!flags.trace.empty()) {
    ASSIGN_OR_RETURN(trace, TraceOfRun(model->graph, engine->device(), **executable, *inputs, session.flags.threads));
  }
  Progress progress(console, "run");
  int done = 0;
  TimingOptions options;
  options.warmup = static_cast<int>(flags.warmup);
  options.iterations = static_cast<int>(flags.iterations);
  options.stop = [&] {
    const double total = static_cast<double>(flags.warmup + flags.iterations);
    progress.Update(static_cast<double>(done++) / total, "");
    return InterruptGuard::interrupted();
  };
  std::vector<double> samples;
  options.samples = &samples;
  RETURN_IF_ERROR(TimeRuns(**executable, *inputs, options).status());
  ShowLoss(engine->profile_loss(), console);
  Report(model->graph, **executable, samples, console);
  if (!flags.trace.empty()) RETURN_IF_ERROR(WriteOutput(flags.trace, trace));
  if (engine->file_device() != nullptr) {
    for (const std::string& fault : engine->device()->faults()) console.Note(fault);
  }
  if (engine->device() != nullptr && engine->device()->runs()) {
    ASSIGN_OR_RETURN(const auto laws, LawsOf(*engine->device(), model->graph));
    if (!laws.empty()) console.Result("laws:     " + LawsText(laws));
    console.json()["laws"] = laws;
  }
  return Answer::kYes;
}

}  // namespace

Action DeclareRun(CommandLine& line) {
  auto flags = std::make_shared<RunFlags>();
  line.Add("model", &flags->model, "An ONNX file").Required().Type("MODEL.onnx");
  line.AddPairs("--input", &flags->inputs, "An input from a .npy or .pb file (default: random)");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddOutputPath("--output-dir", &flags->output_dir, "Write every output there as NAME.npy").Type("DIR");
  AddDevice(line, &flags->device, /*with_reference=*/true);
  AddPrecision(line, &flags->precision);
  AddKernelLaws(line, &flags->no_rules);
  line.AddOutputPath("--profile", &flags->profile,
                     "Database of measured costs, as optimize fills it: kernels are chosen by them")
      .Type("DB");
  line.AddOutputPath("--trace", &flags->trace,
                     "Write when each kernel of one more run begins and how long it takes, for Perfetto and "
                     "chrome://tracing; - is standard output")
      .Type("F.json");
  line.AddInt("--iterations", &flags->iterations, 1, 1'000'000, "Measured runs (default 30; reference 1)");
  line.AddInt("--warmup", &flags->warmup, 0, 1'000'000, "Runs before that (default 3; reference 0)");
  return [flags, line](Session& session) {
    if (flags->device == "reference") {
      if (!line.Given("--iterations")) flags->iterations = 1;
      if (!line.Given("--warmup")) flags->warmup = 0;
    }
    return Run(*flags, session);
  };
}

}  // namespace rewright
