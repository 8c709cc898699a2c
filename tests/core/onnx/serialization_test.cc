// Tests large weights on their way into serialized models and back.
#include "core/onnx/serialization.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/ir/text.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

// Two of more than a megabyte, of which one is computed when the model is written, and a small one.
Graph Weighted() {
  const std::map<std::string, Tensor> weights = {{"a", Iota({600, 500})}, {"b", Iota({600, 500})}, {"c", Iota({500})}};
  auto graph = ParseGraph(
      "input x: f32[3,600]\nstate a: f32[600,500]\nstate b: f32[600,500]\nstate c: f32[500]\n"
      "%0 = matmul(x, a)\n%1 = relu(b)\n%2 = matmul(x, %1)\n%3 = add(%0, %2)\n%4 = add(%3, c)\noutput y = %4\n",
      weights);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::set<const void*> Places(const Graph& graph) {
  std::set<const void*> places;
  for (NodeId id : graph.nodes()) {
    const Tensor* elements = graph.arena()->Elements(id);
    if (elements != nullptr && elements->num_bytes() > 1 << 20) places.insert(elements->data());
  }
  return places;
}

absl::StatusOr<Graph> Read(const absl::Cord& bytes) {
  absl::StatusOr<ImportedModel> imported = ImportSerialized(bytes, "m");
  if (!imported.ok()) return imported.status();
  return imported->graph;
}

TEST(Parse, LargeWeightsStayWhereTheyAre) {
  absl::StatusOr<Graph> read;
  std::set<const void*> places;
  {
    const Graph graph = Weighted();
    const auto serialized = SerializeOnnx(graph, {});
    ASSERT_TRUE(serialized.ok()) << serialized.status();
    ASSERT_EQ(serialized->computed.size(), 1);
    for (NodeId id : graph.nodes()) {
      const Tensor* elements = graph.arena()->Elements(id);
      if (elements != nullptr && graph.node(id).name == "a") places.insert(elements->data());
    }
    places.insert(serialized->computed.begin()->second.data());
    read = Read(serialized->bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(Places(*read), places);
    // The bytes equal those of a message that copies all elements.
    const std::string bytes(serialized->bytes);
    const auto copied = ImportOnnxBytes(bytes, "m", "");
    ASSERT_TRUE(copied.ok()) << copied.status();
    EXPECT_EQ(PrintGraph(copied->graph), PrintGraph(*read));
    onnx::ModelProto message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    EXPECT_EQ(message.graph().initializer_size(), 3);
    for (const onnx::TensorProto& proto : message.graph().initializer()) {
      const auto tensor = TensorFromProto(proto, "");
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      for (NodeId id : read->nodes()) {
        if (read->node(id).name != proto.name()) continue;
        EXPECT_TRUE(tensor->BitEqual(*read->arena()->Elements(id)));
      }
    }
  }
  // The tensors that were read keep their memory.
  double sum = 0;
  for (const void* place : places) sum += *static_cast<const float*>(place);
  EXPECT_EQ(sum, sum);
}

// Elements that lie in two pieces are copied, and so are those whose raw data are no tensor as they are.
TEST(Parse, OthersAreCopied) {
  const auto bytes = ExportOnnxBytes(Weighted(), {});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  absl::Cord halves(absl::string_view(*bytes).substr(0, bytes->size() / 4));
  halves.Append(absl::string_view(*bytes).substr(bytes->size() / 4));
  const auto read = Read(halves);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(PrintGraph(*read), PrintGraph(ImportOnnxBytes(*bytes, "m", "")->graph));

  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(*bytes));
  model.mutable_graph()->mutable_initializer(0)->add_dims(2);
  const std::string wrong = model.SerializeAsString();
  EXPECT_EQ(Read(absl::Cord(wrong)).status().message(), ImportOnnxBytes(wrong, "m", "").status().message());
  EXPECT_FALSE(Read(absl::Cord(wrong)).ok());
}

}  // namespace
}  // namespace rewright
