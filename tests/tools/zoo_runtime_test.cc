// Memory and results of whole models on the CPU device: what the runtime makes of real schedules.

#include <gtest/gtest.h>

#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "tools/verbs/diff/tensor_diff.h"

namespace rewright {
namespace {

struct Model {
  const char* name;
  ZooOptions options;
  bool small = false;  // enough for the interpreter
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

Model Image(const char* name, int64_t size, bool small = false) {
  Model model{name, {}, small};
  model.options.image_size = size;
  return model;
}

Model Layers(const char* name, int64_t layers, bool small = false) {
  Model model{name, {}, small};
  model.options.layers = layers;
  return model;
}

// A transformer of one layer.
Model Text(const char* name, int64_t length, bool small = false) {
  Model model = Layers(name, 1, small);
  model.options.sequence_length = length;
  return model;
}

class ZooRuntime : public ::testing::TestWithParam<Model> {};

TEST_P(ZooRuntime, RunsInLittleMemory) {
  const auto graph = BuildZooModel(GetParam().name, GetParam().options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  DeviceOptions options;
  options.threads = 1;
  const auto device = MakeDevice("cpu", options);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  // The floor, and a little for alignment.
  EXPECT_LE(static_cast<double>((*executable)->arena_bytes()),
            1.25 * static_cast<double>((*executable)->peak_live_bytes()) + 4096);

  // Nothing of the first run is left in the second, whose arena is dirty.
  const std::vector<Tensor> inputs = *RandomInputs(*graph, 1);
  std::vector<Tensor> first;
  std::vector<Tensor> second;
  ASSERT_TRUE((*executable)->Run(inputs, &first).ok());
  ASSERT_TRUE((*executable)->Run(*RandomInputs(*graph, 2), &second).ok());
  ASSERT_TRUE((*executable)->Run(inputs, &second).ok());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].BitEqual(second[i])) << "output " << i;

  if (!GetParam().small) return;
  const auto reference = MakeReferenceRunner(/*threads=*/1)->Prepare(*graph);
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::vector<Tensor> expected;
  ASSERT_TRUE((*reference)->Run(inputs, &expected).ok());
  std::vector<std::string> names;
  for (const Output& output : graph->outputs()) names.push_back(output.name);
  const OutputsDiff diff = DiffOutputs(names, expected, first, {});
  EXPECT_TRUE(diff.equal) << diff.worst;
}

INSTANTIATE_TEST_SUITE_P(Models, ZooRuntime,
                         ::testing::Values(Image("resnet50", 32), Image("squeezenet", 64, true),
                                           Image("mobilenet_v2", 32, true), Image("inception_v3", 96),
                                           Image("taso_nasnet_a", 32), Text("bert_base", 16, true),
                                           Layers("taso_nasrnn", 2, true), Layers("mlp", 1, true)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rewright
