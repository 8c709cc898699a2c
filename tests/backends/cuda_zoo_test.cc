// Tests of the CUDA device on whole models: no step of an inference depends on constants alone.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/lower/context_layout.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/memory/idle_gpu.h"
#include "bench/zoo/zoo.h"
#include "gtest/gtest.h"
#include "runtime/schedule.h"

namespace rewright {
namespace {

// The buffers with memory of their own that are read.
std::vector<bool> RootsRead(const Schedule& schedule) {
  std::vector<bool> read(schedule.buffers.size());
  for (int id : schedule.outputs) read[ResolveBuffer(schedule.buffers, id).root] = true;
  for (const Step& step : schedule.steps) {
    for (const BufferUse& use : step.buffers) {
      if (Reads(use.access)) read[ResolveBuffer(schedule.buffers, use.buffer).root] = true;
    }
  }
  return read;
}

class CudaZoo : public testing::TestWithParam<std::string> {};

TEST_P(CudaZoo, NoStepDependsOnConstantsAlone) {
  ZooOptions options;
  for (const ZooModel& model : ZooModels()) {
    if (model.name != GetParam()) continue;
    for (const std::string& option : model.options) {
      if (option == "image-size" && model.name != "vgg19") options.image_size = model.name == "inception_v3" ? 139 : 64;
      if (option == "layers" && model.name.find("nasnet") == std::string::npos) options.layers = 2;
    }
  }
  const absl::StatusOr<Graph> graph = BuildZooModel(GetParam(), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kTf32, cuda::Precision::kBf16}) {
    SCOPED_TRACE(absl::StrCat("precision ", static_cast<int>(precision)));
    cuda::IdleGpu gpu;
    cuda::LoweringOptions lowering;
    lowering.precision = precision;
    lowering.channels_last = precision != cuda::Precision::kFp32;
    cuda::Lowering lowered(gpu, *graph, lowering);
    const absl::StatusOr<Schedule> schedule = lowered.Run();
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    // Costs are looked up by the layouts that are told without lowering. Two kinds of values lie elsewhere, which costs
    // know besides: results for the caller are row-major, and parts of a concatenation lie in it.
    cuda::CudaLayouts layouts(lowering.channels_last);
    std::set<Value> elsewhere;
    const int bytes = precision == cuda::Precision::kBf16 ? 2 : 4;
    for (const Output& output : graph->outputs()) elsewhere.insert(output.value);
    for (NodeId id : graph->nodes()) {
      const auto slots = cuda::ConcatSlots(*graph, id, lowering.channels_last, bytes);
      for (size_t i = 0; i < slots.size(); ++i) {
        if (slots[i]) elsewhere.insert(graph->node(id).operands[i]);
      }
    }
    for (NodeId id : graph->nodes()) {
      for (size_t k = 0; k < graph->node(id).outputs.size(); ++k) {
        const Value value{id, static_cast<int32_t>(k)};
        const std::optional<Layout> lies = lowered.LayoutOf(value);
        if (!lies || !graph->IsRun(graph->node(id)) || elsewhere.count(value) > 0) continue;
        EXPECT_EQ(layouts.Of(*graph, value).ToString(), lies->ToString())
            << graph->node(id).op->name << " " << graph->type(value).ToString();
      }
    }
    EXPECT_FALSE(schedule->steps.empty());
    for (const Step& step : schedule->steps) {
      bool changes = false;
      for (const BufferUse& use : step.buffers) {
        if (!Reads(use.access)) continue;
        const Buffer& root = schedule->buffers[ResolveBuffer(schedule->buffers, use.buffer).root];
        changes = changes || root.kind != Buffer::Kind::kConstant;
      }
      EXPECT_TRUE(changes) << step.label << " reads nothing but constants, at every inference";
    }
    const std::vector<bool> read = RootsRead(*schedule);
    for (size_t id = 0; id < schedule->buffers.size(); ++id) {
      const Buffer& buffer = schedule->buffers[id];
      if (buffer.kind != Buffer::Kind::kConstant || buffer.alias_of >= 0) continue;
      EXPECT_TRUE(read[id] || buffer.data == nullptr) << buffer.bytes << " bytes that nobody reads";
    }
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const ZooModel& model : ZooModels()) names.push_back(model.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaZoo, testing::ValuesIn(Names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rewright
