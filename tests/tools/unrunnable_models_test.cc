// Models that read well and cannot be run: what the program says of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/onnx/onnx.h"
#include "core/onnx/tensor_file.h"
#include "core/text.h"
#include "tests/tools/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

void WriteModel(const std::string& path, const std::string& text) {
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status written = ExportOnnx(*graph, ModelMetadata{}, path);
  ASSERT_TRUE(written.ok()) << written;
}

TEST(UnrunnableModels, IndicesOutsideWhatTheyIndex) {
  const TemporaryFolder folder;
  WriteModel(folder / "m.onnx", R"(
    input ids: i64[2]
    weight table: f32[5,3]
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

}  // namespace
}  // namespace rewright
