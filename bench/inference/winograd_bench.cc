// Winograd's convolutions beside the direct ones, layer by layer, all in one run:
//   winograd_bench [--threads 1] [--rounds 15] [--errors 1] [--batch 1] [--training 1]
//   winograd_bench --model NAME [--threads 1] [--rounds 15] [--errors 1]
// For each layer every allowed algorithm and the direct convolution take turns; before each run the weights are taken
// out of the caches, as they are in a model that has many. Prints the least processor time of the rounds (of all
// threads, per thread), the ratio of the best algorithm to the direct one, and with --errors the largest difference
// from float64 over the largest element. With --training weights change with every run. With --model a whole model of
// the zoo: the graph as the CPU device runs it with the kernel rewrites that are proved and without, in turns.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backends/cpu/kernel_list.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"
#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/interpreter/interpreter.h"
#include "runtime/executor.h"
#include "runtime/host_memory.h"
#include "runtime/instance.h"
#include "search/resources.h"
#include "substitutions/proved_kernel_rewrites.h"

namespace rewright {
namespace {

struct Layer {
  const char* of;
  int64_t channels, height, width, outputs, rows, columns, pad_down, pad_right;
};

const Layer kLayers[] = {
    {"resnet50", 64, 56, 56, 64, 3, 3, 1, 1},       {"resnet50", 128, 28, 28, 128, 3, 3, 1, 1},
    {"resnet50", 256, 14, 14, 256, 3, 3, 1, 1},     {"resnet50", 512, 7, 7, 512, 3, 3, 1, 1},
    {"inception_v3", 192, 17, 17, 192, 1, 7, 0, 3}, {"inception_v3", 192, 17, 17, 192, 7, 1, 3, 0},
    {"inception_v3", 128, 17, 17, 128, 1, 7, 0, 3}, {"inception_v3", 384, 8, 8, 384, 1, 3, 0, 1},
    {"inception_v3", 384, 8, 8, 384, 3, 1, 1, 0},   {"inception_v3", 48, 35, 35, 64, 5, 5, 2, 2},
    {"inception_v3", 80, 73, 73, 192, 3, 3, 0, 0},  {"squeezenet", 16, 55, 55, 64, 3, 3, 1, 1},
    {"squeezenet", 64, 13, 13, 256, 3, 3, 1, 1},    {"vgg19", 64, 224, 224, 64, 3, 3, 1, 1},
    {"vgg19", 128, 112, 112, 128, 3, 3, 1, 1},      {"vgg19", 256, 56, 56, 256, 3, 3, 1, 1},
    {"vgg19", 512, 28, 28, 512, 3, 3, 1, 1},        {"vgg19", 512, 14, 14, 512, 3, 3, 1, 1},
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tensor Random(const TensorType& type, uint64_t seed, double scale) {
  std::mt19937_64 rng(seed);
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, std::uniform_real_distribution<double>(-scale, scale)(rng));
  }
  return tensor;
}

Graph GraphOf(const Layer& layer, int64_t batch, bool training) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {batch, layer.channels, layer.height, layer.width}});
  const TensorType weights{DType::kFloat32, {layer.outputs, layer.channels, layer.rows, layer.columns}};
  const TensorType bias{DType::kFloat32, {layer.outputs, 1, 1}};
  const Value w = training ? *arena->AddInput("w", weights)
                           : *arena->AddState("w", Random(weights, 1, 1 / std::sqrt(layer.channels)));
  const Value y =
      *arena->Apply("conv2d", {x, w},
                    {{"pads", std::vector<int64_t>{layer.pad_down, layer.pad_right, layer.pad_down, layer.pad_right}}});
  const Value sum = *arena->Apply("add", {y, *arena->AddState("b", Random(bias, 2, 1))});
  std::vector<Value> inputs = {x};
  if (training) inputs.push_back(w);
  return Graph(arena, inputs, {{*arena->Apply("relu", {sum}), "y"}});
}

// The convolution by one law, in a form that can be run again and again.
struct Way {
  std::string law;
  std::vector<std::pair<const char*, size_t>> constants;
  Schedule schedule;
  std::unique_ptr<MemoryPlan> plan;
  std::unique_ptr<Instance> instance;  // on images as they lie between convolutions
  std::unique_ptr<Executor> executor;
  double least = 1e30, wall = 1e30;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(int threads, int rounds, bool errors, int64_t batch, bool training) {
  auto context = std::make_shared<cpu::DnnlContext>();
  context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  context->threads = threads;
  context->block = cpu::Simd().lanes < 16 ? 8 : 16;
  absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> allowed_rewrites = LoadAllowedKernelRewrites();
  if (!allowed_rewrites.ok()) return Fail(allowed_rewrites.status());
  context->allowed_rewrites = *std::move(allowed_rewrites);
  const cpu::ThreadScope scope(threads);
  std::printf("%s, %d thread%s, least of %d rounds; us of processor time of a thread (and by the clock)\n",
              cpu::Simd().name, threads, threads == 1 ? "" : "s", rounds);
  for (const Layer& layer : kLayers) {
    const Graph graph = GraphOf(layer, batch, training);
    const std::vector<cpu::FusedGroup> groups = cpu::FuseGraph(graph);
    std::vector<std::string> laws = {""};
    for (std::string& law : cpu::AllowedLaws(*context, graph, groups[0])) laws.push_back(std::move(law));
    std::deque<Way> ways;
    for (const std::string& law : laws) {
      cpu::LoweringOptions options;
      options.law_of = [&](const cpu::FusedGroup&) { return law; };
      absl::StatusOr<Schedule> whole = cpu::Lowering(context, graph, options).Run();
      if (!whole.ok()) return Fail(whole.status());
      options.keep_output_layouts = true;
      const Value x = graph.inputs()[0];
      options.input_layouts[x] = Layout::Blocked(graph.type(x).shape, context->block);
      absl::StatusOr<Schedule> schedule = cpu::Lowering(context, graph, options).Run();
      if (!schedule.ok()) return Fail(schedule.status());
      Way& way = ways.emplace_back();
      way.law = law.empty() ? "direct" : law.substr(std::string("conv-winograd-").size());
      for (const Buffer& buffer : schedule->buffers) {
        if (buffer.kind != Buffer::Kind::kConstant || buffer.data == nullptr) continue;
        way.constants.emplace_back(static_cast<const char*>(buffer.data.get()), buffer.bytes);
      }
      way.schedule = *std::move(schedule);
      absl::StatusOr<MemoryPlan> plan = PlanMemory(way.schedule, {.separate = true, .externals = true});
      if (!plan.ok()) return Fail(plan.status());
      way.plan = std::make_unique<MemoryPlan>(*std::move(plan));
      absl::StatusOr<std::unique_ptr<Instance>> instance = Instance::Create(way.schedule, *way.plan, HostMemory());
      if (!instance.ok()) return Fail(instance.status());
      way.instance = *std::move(instance);
      for (const int input : way.schedule.inputs) {
        float* const values = static_cast<float*>(way.instance->address(input));
        for (size_t i = 0; i < way.schedule.buffers[input].bytes / sizeof(float); ++i) values[i] = i % 7 * 0.1f - 0.3f;
      }
      absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(graph, *std::move(whole));
      if (!executor.ok()) return Fail(executor.status());
      way.executor = *std::move(executor);
    }
    std::vector<Tensor> inputs;
    absl::flat_hash_map<std::string, Tensor> by_name;
    for (const Value input : graph.inputs()) {
      inputs.push_back(Random(graph.type(input), 3, inputs.empty() ? 1 : 1 / std::sqrt(layer.channels)));
      by_name[graph.node(input.node).name] = inputs.back();
    }
    std::vector<Tensor> outputs;
    for (int round = 0; round < rounds; ++round) {
      for (Way& way : ways) {
        for (const auto& [data, bytes] : way.constants) {
          for (size_t at = 0; at < bytes; at += 64) __builtin_ia32_clflush(data + at);
        }
        __builtin_ia32_mfence();
        const double wall = Now(), begin = ProcessCpuSeconds();
        if (absl::Status status = way.instance->Run(); !status.ok()) return Fail(status);
        way.least = std::min(way.least, (ProcessCpuSeconds() - begin) / threads);
        way.wall = std::min(way.wall, Now() - wall);
      }
    }
    const auto best = std::min_element(ways.begin(), ways.end(), [](auto& a, auto& b) { return a.least < b.least; });
    std::printf("%-12s %4ld -> %-4ld %3ldx%-3ld %ldx%ld ", layer.of, layer.channels, layer.outputs, layer.height,
                layer.width, layer.rows, layer.columns);
    for (const Way& way : ways) std::printf(" %s %.0f (%.0f)", way.law.c_str(), way.least * 1e6, way.wall * 1e6);
    std::printf("  best %s %.2f\n", best->law.c_str(), best->least / ways[0].least);
    if (!errors) continue;
    const auto exact = InterpretGraph(graph, by_name, {Precision::kFloat64, 2});
    if (!exact.ok()) return Fail(exact.status());
    std::printf("    largest error over largest element:");
    for (Way& way : ways) {
      if (absl::Status status = way.executor->Run(inputs, &outputs); !status.ok()) return Fail(status);
      double largest = 0, error = 0;
      for (int64_t i = 0; i < outputs[0].num_elements(); ++i) {
        largest = std::max(largest, std::abs((*exact)[0].At(i)));
        error = std::max(error, std::abs((*exact)[0].At(i) - outputs[0].At(i)));
      }
      std::printf(" %s %.1e", way.law.c_str(), error / largest);
    }
    std::printf("\n");
  }
  return 0;
}

int RunModel(const std::string& name, int threads, int rounds, bool errors) {
  const absl::StatusOr<Graph> graph = BuildZooModel(name);
  if (!graph.ok()) return Fail(graph.status());
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<GraphRunner>> runners;
  std::vector<std::unique_ptr<Executable>> executables;
  for (const bool allowed : {false, true}) {
    DeviceOptions options;
    options.threads = threads;
    if (allowed) {
      absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> allowed_rewrites = LoadAllowedKernelRewrites();
      if (!allowed_rewrites.ok()) return Fail(allowed_rewrites.status());
      options.allowed_rewrites = *std::move(allowed_rewrites);
    }
    absl::StatusOr<std::unique_ptr<Device>> device = MakeDevice("cpu", options);
    if (!device.ok()) return Fail(device.status());
    devices.push_back(*std::move(device));
    runners.push_back(MakeGraphRunner(*devices.back()));
    absl::StatusOr<std::unique_ptr<Executable>> executable = runners.back()->Prepare(*graph);
    if (!executable.ok()) return Fail(executable.status());
    executables.push_back(*std::move(executable));
  }
  std::vector<Tensor> inputs, outputs[2];
  for (Value input : graph->inputs()) inputs.push_back(Random(graph->type(input), 4, 1));
  double least[2] = {1e30, 1e30}, wall[2] = {1e30, 1e30};
  for (int round = 0; round < rounds; ++round) {
    for (int k = 0; k < 2; ++k) {
      const double clock = Now(), begin = ProcessCpuSeconds();
      if (absl::Status status = executables[k]->Run(inputs, &outputs[k]); !status.ok()) return Fail(status);
      least[k] = std::min(least[k], (ProcessCpuSeconds() - begin) / threads);
      wall[k] = std::min(wall[k], Now() - clock);
    }
  }
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < outputs[0][0].num_elements(); ++i) {
    largest = std::max(largest, std::abs(outputs[0][0].At(i)));
    difference = std::max(difference, std::abs(outputs[0][0].At(i) - outputs[1][0].At(i)));
  }
  std::printf(
      "%s, %s, %d thread%s, least of %d rounds in turns: direct %.2f ms (%.2f by the clock), allowed %.2f (%.2f): "
      "%.2f; weights %.1f and %.1f MB; outputs differ by %.1e of the largest\n",
      name.c_str(), cpu::Simd().name, threads, threads == 1 ? "" : "s", rounds, least[0] * 1e3, wall[0] * 1e3,
      least[1] * 1e3, wall[1] * 1e3, least[1] / least[0], static_cast<double>(executables[0]->constant_bytes()) * 1e-6,
      static_cast<double>(executables[1]->constant_bytes()) * 1e-6, difference / largest);
  if (!errors) return 0;
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t i = 0; i < inputs.size(); ++i) by_name[graph->node(graph->inputs()[i].node).name] = inputs[i];
  const auto exact = InterpretGraph(*graph, by_name, {Precision::kFloat64, 2});
  if (!exact.ok()) return Fail(exact.status());
  double off[2] = {0, 0};
  for (size_t o = 0; o < exact->size(); ++o) {
    double greatest = 0, farthest[2] = {0, 0};
    for (int64_t i = 0; i < (*exact)[o].num_elements(); ++i) {
      greatest = std::max(greatest, std::abs((*exact)[o].At(i)));
      for (int k = 0; k < 2; ++k) {
        farthest[k] = std::max(farthest[k], std::abs((*exact)[o].At(i) - outputs[k][o].At(i)));
      }
    }
    for (int k = 0; k < 2; ++k) off[k] = std::max(off[k], farthest[k] / greatest);
  }
  std::printf("    largest error over largest element: direct %.1e allowed %.1e\n", off[0], off[1]);
  return 0;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) {
  std::map<std::string, int> flags = {
      {"--threads", 1}, {"--rounds", 15}, {"--errors", 0}, {"--batch", 1}, {"--training", 0}};
  std::string model;
  for (int i = 1; i < argc; i += 2) {
    if (std::string(argv[i]) == "--model" && i + 1 < argc) {
      model = argv[i + 1];
      continue;
    }
    if (!flags.contains(argv[i]) || i + 1 == argc) {
      std::fprintf(stderr,
                   "found %s, expected --threads N, --rounds N, --errors 1, --batch N, --training 1 or --model NAME\n",
                   argv[i]);
      return 1;
    }
    flags[argv[i]] = std::atoi(argv[i + 1]);
  }
  if (!model.empty()) return rewright::RunModel(model, flags["--threads"], flags["--rounds"], flags["--errors"] != 0);
  return rewright::Run(flags["--threads"], flags["--rounds"], flags["--errors"] != 0, flags["--batch"],
                       flags["--training"] != 0);
}
