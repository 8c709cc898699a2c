// Models that read well and cannot be run: what the program says of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "core/onnx/onnx.h"
#include "core/tensor/npy.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

void WriteModel(const std::string& path, const std::string& text) {
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status written = ExportOnnx(*graph, ModelMetadata{}, path, {.fold_weights = false});
  ASSERT_TRUE(written.ok()) << written;
}

TEST(UnrunnableModels, IndicesOutsideWhatTheyIndex) {
  const TemporaryFolder folder;
  WriteModel(folder / "m.onnx", R"(
    input ids: i64[2]
    state table: f32[5,3]
    %1 = add(ids, ids)
    %2 = gather(table, %1)
    output y = %2
  )");
  ASSERT_TRUE(SaveNpy(folder / "inside.npy", Tensor::Int64s({2, -2})).ok());
  ASSERT_TRUE(SaveNpy(folder / "outside.npy", Tensor::Int64s({2, 4})).ok());
  for (const std::string device : {"cpu", "reference"}) {
    const std::string run =
        "run --iterations 1 --warmup 0 --threads 1 --quiet --device " + device + " " + (folder / "m.onnx");
    EXPECT_EQ(Rewright(run + " --input ids=" + (folder / "inside.npy")).status, 0);
    const Outcome outside = Rewright(run + " --input ids=" + (folder / "outside.npy"));
    EXPECT_EQ(outside.status, 2) << outside.err;
    EXPECT_THAT(outside.err, HasSubstr("gather (node "));
    EXPECT_THAT(outside.err, HasSubstr("index 8 at element 1 of the indices i64[2], expected -5 <= index < 5"));
  }
}

// 10^12 elements are within the limit of a tensor and beyond that of any machine.
TEST(UnrunnableModels, TensorsLargerThanTheMemory) {
  const TemporaryFolder folder;
  const struct {
    std::string name, text, error;
  } models[] = {
      {"input", "input x: f32[1000000,1000000]\n%1 = relu(x)\n%2 = reduce_sum(%1, axes=[0,1])\noutput y = %2\n",
       "f32[1000000,1000000]"},
      {"between",
       "input x: f32[1000000,1]\ninput y: f32[1,1000000]\n%1 = matmul(x, y)\n%2 = softmax(%1, axis=1)\n"
       "%3 = reduce_max(%2, axes=[0,1])\noutput z = %3\n",
       "f32[1000000,1000000]"},
      {"output", "input x: f32[1000000,1]\ninput y: f32[1,1000000]\n%1 = matmul(x, y)\noutput z = %1\n",
       "f32[1000000,1000000]"},
      {"weight",
       "input x: f32[1]\nstate a: f32[1000000,1]\nstate b: f32[1,1000000]\n%1 = matmul(a, b)\n%2 = add(%1, x)\n"
       "%3 = reduce_max(%2, axes=[0,1])\noutput z = %3\n",
       "f32[1000000,1000000]"},
  };
  for (const auto& model : models) {
    const std::string path = folder / (model.name + ".onnx");
    WriteModel(path, model.text);
    EXPECT_EQ(Rewright("inspect --quiet " + path).status, 0);
    const std::vector<std::string> verbs = {"run ", "run --device reference ", "diff " + path + " ",
                                            "compare --no-peers ", "optimize -o " + (folder / "out.onnx") + " "};
    for (const std::string& verb : verbs) {
      SCOPED_TRACE(verb + model.name);
      const Outcome outcome = Rewright(verb + path + " --threads 1 --quiet");
      EXPECT_EQ(outcome.status, 2) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(model.error));
      EXPECT_THAT(outcome.err, HasSubstr("GiB of memory are available"));
    }
  }
}

}  // namespace
}  // namespace rewright
