// Times a model of the zoo, or a printed graph (the program.txt of a checkpoint, say), on the CPU device, step by step:
//   cpu_bench resnet50|PROGRAM.txt [--threads 2] [--runs 20] [--top 25] [--image-size 0] [--check 1] [--costs 1]
//   cpu_bench region [--threads 2]      what a parallel region costs
// Prints the latency of whole runs (minimum and median), of a step of training its parts, then the steps by their share
// of the time; with --check the largest difference from the reference interpreter; with --costs the sum of the measured
// costs of the groups.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "runtime/executor.h"
#include "runtime/measure/machine_rates.h"
#include "search/resources.h"
#include "substitutions/proved_kernel_rewrites.h"
#include "tools/program/thread_wait.h"

namespace rewright {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

absl::Status Check(const Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t i = 0; i < inputs.size(); ++i) by_name[graph.node(graph.inputs()[i].node).name] = inputs[i];
  const auto expected = InterpretGraph(graph, by_name, {Precision::kNative, 2});
  if (!expected.ok()) return expected.status();
  for (size_t k = 0; k < outputs.size(); ++k) {
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < outputs[k].num_elements(); ++i) {
      largest = std::max(largest, std::abs((*expected)[k].At(i)));
      const double d = std::abs((*expected)[k].At(i) - outputs[k].At(i));
      difference = d >= difference || d != d ? d : difference;
    }
    std::printf("output %zu: largest element %g, largest difference %g\n", k, largest, difference);
  }
  return absl::OkStatus();
}

// A tensor of small numbers, which are valid where states are positive only (variances), too.
Tensor Typical(const TensorType& type) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const auto number = static_cast<double>((i * 7919) % 1000);
    IsFloating(tensor.dtype()) ? tensor.Set(i, number / 20000 + 0.001) : tensor.SetInt(i, i % 2);
  }
  return tensor;
}

absl::StatusOr<Graph> GraphOf(const std::string& model, const ZooOptions& options) {
  if (!absl::EndsWith(model, ".txt")) return BuildZooModel(model, options);
  ASSIGN_OR_RETURN(const std::string text, ReadText(model));
  ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));
  std::map<std::string, Tensor> states;
  for (Value state : graph.states()) states.emplace(graph.node(state.node).name, Typical(graph.type(state)));
  return ParseGraph(text, states);
}

absl::Status PrintCosts(Device& device, const Graph& graph) {
  double begin = Now();
  const std::vector<Group> groups = device.Partition(graph);
  std::printf("partition: %zu groups in %.3f ms\n", groups.size(), (Now() - begin) * 1e3);
  for (const char* when : {"first", "again"}) {
    double sum = 0;
    begin = Now();
    for (const Group& group : groups) {
      const auto cost = device.Cost(graph, group);
      if (!cost.ok()) return cost.status();
      sum += *cost;
    }
    std::printf("costs %s: sum %.3f ms, asked in %.1f ms\n", when, sum * 1e3, (Now() - begin) * 1e3);
  }
  return absl::OkStatus();
}

// Prints the time to wake the threads for a piece of work and to wait for them: the piece is empty.
void PrintRegionCost(int threads) {
  constexpr int kRegions = 1000;
  std::vector<double> rounds;
  for (int round = 0; round < 51; ++round) {
    const double begin = Now();
    for (int i = 0; i < kRegions; ++i) {
#pragma omp parallel num_threads(threads)
      asm volatile("" ::: "memory");
    }
    rounds.push_back((Now() - begin) / kRegions);
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf("a parallel region of %d threads: %.2f us (%.2f to %.2f)\n", threads, rounds[25] * 1e6,
              rounds.front() * 1e6, rounds.back() * 1e6);
}

// The nodes from which the first result, the loss, is computed: the forward pass of a step of training.
std::vector<bool> ForwardPass(const Graph& graph) {
  std::vector<bool> forward(graph.nodes().size(), false);
  forward[graph.index(graph.results()[0].value.node)] = true;
  for (size_t i = forward.size(); i-- > 0;) {  // readers come last
    if (!forward[i]) continue;
    for (int producer : graph.producers(static_cast<int>(i))) forward[producer] = true;
  }
  return forward;
}

// The passes of a step of training, the last of which gives states their next values: their time, and what the last
// one reads and writes.
absl::Status PrintPasses(const Graph& graph, const Schedule& schedule, const std::vector<double>& seconds,
                         Device& device) {
  const std::vector<bool> forward_pass = ForwardPass(graph);
  double forward = 0, backward = 0, update = 0, bytes = 0, reorders = 0;
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    const bool writes_state = std::any_of(step.buffers.begin(), step.buffers.end(), [&](const BufferUse& use) {
      return Writes(use.access) && schedule.buffers[use.buffer].kind == Buffer::Kind::kState;
    });
    if (!writes_state && step.group < 0) {  // counts with the next group, which reads it
      reorders += seconds[s];
      continue;
    }
    if (!writes_state) {
      const bool is_forward = forward_pass[graph.index(schedule.groups[step.group].nodes.back())];
      (is_forward ? forward : backward) += seconds[s] + std::exchange(reorders, 0);
      continue;
    }
    update += seconds[s];
    for (const BufferUse& use : step.buffers) {
      const double once = static_cast<double>(schedule.buffers[use.buffer].bytes);
      bytes += use.access == Access::kUpdate ? 2 * once : use.access == Access::kScratch ? 0 : once;
    }
  }
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rates rates, MeasureRates(device));
  const double rate = rates.bytes_per_second();
  std::printf(
      "forward %.3f ms, backward %.3f ms, update %.3f ms of %.1f MB: %.1f GB/s, %.2f times what as "
      "many loads take (%.1f GB/s)\n",
      forward * 1e3, backward * 1e3, update * 1e3, bytes * 1e-6, bytes / update * 1e-9, update * rate / bytes,
      rate * 1e-9);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::string model = argc > 1 ? argv[1] : "resnet50";
  std::map<std::string, int> flags = {{"--threads", 2}, {"--runs", 20},      {"--top", 25},
                                      {"--check", 0},   {"--image-size", 0}, {"--costs", 0}};
  for (int i = 2; i + 1 < argc; i += 2) flags[argv[i]] = std::atoi(argv[i + 1]);
  const int threads = flags["--threads"], runs = flags["--runs"], top = flags["--top"];
  if (model == "region") return PrintRegionCost(threads), 0;
  ZooOptions options;
  options.image_size = flags["--image-size"];
  const auto graph = GraphOf(model, options);
  if (!graph.ok()) return Fail(graph.status());
  auto allowed_rewrites = LoadAllowedKernelRewrites();
  if (!allowed_rewrites.ok()) return Fail(allowed_rewrites.status());
  auto device = MakeDevice("cpu", {.threads = threads, .allowed_rewrites = *std::move(allowed_rewrites)});
  if (!device.ok()) return Fail(device.status());
  const double start = Now();
  auto schedule = (*device)->Compile(*graph);
  if (!schedule.ok()) return Fail(schedule.status());
  const double compiled = Now();
  auto executor = Executor::Create(*graph, *std::move(schedule));
  if (!executor.ok()) return Fail(executor.status());
  std::vector<Tensor> inputs, outputs;
  for (Value input : graph->inputs()) {
    Tensor tensor(graph->type(input));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      if (IsFloating(tensor.dtype())) {
        tensor.Set(i, static_cast<double>((i * 7919) % 1000) / 500 - 1);
      } else {
        tensor.SetInt(i, i % 2);
      }
    }
    inputs.push_back(std::move(tensor));
  }
  for (int i = 0; i < 3; ++i) {
    if (absl::Status status = (*executor)->Run(inputs, &outputs); !status.ok()) return Fail(status);
  }
  std::vector<double> whole, processor;
  for (int i = 0; i < runs; ++i) {
    const double begin = Now(), cpu = ProcessCpuSeconds();
    if (absl::Status status = (*executor)->Run(inputs, &outputs); !status.ok()) return Fail(status);
    whole.push_back(Now() - begin);
    processor.push_back(ProcessCpuSeconds() - cpu);
  }
  std::sort(processor.begin(), processor.end());
  std::sort(whole.begin(), whole.end());
  std::printf("%s: min %.3f ms, median %.3f ms; processor time min %.3f ms; compile %.0f ms; arena %.1f MB\n",
              model.c_str(), whole[0] * 1e3, whole[whole.size() / 2] * 1e3, processor[0] * 1e3,
              (compiled - start) * 1e3, static_cast<double>((*executor)->arena_bytes()) / 1e6);
  if (flags["--check"] != 0) {
    if (absl::Status status = Check(*graph, inputs, outputs); !status.ok()) return Fail(status);
  }
  if (flags["--costs"] != 0) {
    if (absl::Status status = PrintCosts(**device, *graph); !status.ok()) return Fail(status);
  }
  // The fastest of all runs, step by step.
  const std::vector<Step>& steps = (*executor)->schedule().steps;
  std::vector<double> best(steps.size(), 1e9), sums;
  for (int i = 0; i < runs; ++i) {
    std::vector<double> seconds(steps.size(), 0);
    if (absl::Status status = (*executor)->RunTimed(inputs, &outputs, &seconds); !status.ok()) return Fail(status);
    for (size_t s = 0; s < steps.size(); ++s) best[s] = std::min(best[s], seconds[s]);
    sums.push_back(std::accumulate(seconds.begin(), seconds.end(), 0.0));
  }
  std::sort(sums.begin(), sums.end());
  double total = 0;
  for (double b : best) total += b;
  std::map<std::string, std::pair<double, int>> by_label;
  std::vector<size_t> order(steps.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    order[s] = s;
    by_label[steps[s].label].first += best[s];
    ++by_label[steps[s].label].second;
  }
  const absl::Status printed = PrintPasses(*graph, (*executor)->schedule(), best, **device);
  if (!printed.ok()) return Fail(printed);
  std::printf("sum of fastest steps %.3f ms; of all steps of a run, median %.3f ms\n", total * 1e3,
              sums[sums.size() / 2] * 1e3);
  std::vector<std::pair<double, std::string>> labels;
  for (const auto& [label, sum] : by_label) labels.emplace_back(sum.first, label);
  std::sort(labels.rbegin(), labels.rend());
  for (const auto& [seconds, label] : labels) {
    std::printf("%9.3f ms %5.1f %%  %4d x %s\n", seconds * 1e3, 100 * seconds / total, by_label[label].second,
                label.c_str());
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return best[a] > best[b]; });
  for (size_t i = 0; i < order.size() && i < static_cast<size_t>(top); ++i) {
    const Step& step = steps[order[i]];
    std::string types;
    if (step.group >= 0) {
      const Group& group = (*executor)->schedule().groups[step.group];
      for (Value input : group.inputs) types += " " + graph->type(input).ToString();
      types += " -> " + graph->type(group.outputs[0]).ToString();
    }
    double megabytes = 0;
    for (const BufferUse& use : step.buffers) {
      megabytes += static_cast<double>((*executor)->schedule().buffers[use.buffer].bytes) / 1e6;
    }
    std::printf("%9.3f ms  step %zu, %.2f MB: %s%s\n", best[order[i]] * 1e3, order[i], megabytes, step.label.c_str(),
                types.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) {
  rewright::ShortenThreadWaiting(argv);
  return rewright::Main(argc, argv);
}
