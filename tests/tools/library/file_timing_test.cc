// Files against files, in onnxruntime.
#include "tools/library/file_timing.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/base/files.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// exp of x, applied `length` times.
Graph Chain(int length) {
  std::string text = "input x: f32[300000]\n%0 = exp(x)\n";
  for (int i = 1; i < length; ++i) absl::StrAppend(&text, "%", i, " = exp(%", i - 1, ")\n");
  return *ParseGraph(absl::StrCat(text, "output y = %", length - 1, "\n"));
}

absl::Cord Bytes(const Graph& graph) { return absl::Cord(*ExportOnnxBytes(graph, {})); }

TEST(MeasureFiles, TellsWhichIsFaster) {
  const std::string python = absl::StrCat(REWRIGHT_SOURCE_DIR, "/.venv/bin/python");
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  setenv("REWRIGHT_PYTHON", python.c_str(), 1);
  const auto device = MakeDevice("onnxruntime", {1});
  unsetenv("REWRIGHT_PYTHON");
  ASSERT_TRUE(device.ok()) << device.status();
  const auto& onnxruntime = dynamic_cast<const FileDevice&>(**device);
  const TemporaryFolder folder;
  const Graph few = Chain(1), many = Chain(8);
  const std::string few_path = folder / "few.onnx", many_path = folder / "many.onnx";
  ASSERT_TRUE(ExportOnnx(few, {}, few_path).ok());
  ASSERT_TRUE(ExportOnnx(many, {}, many_path).ok());
  const auto faster = MeasureFiles(onnxruntime, many, *ModelFile::Open(many_path), Bytes(few), {.pairs = 20}, 1);
  ASSERT_TRUE(faster.ok()) << faster.status();
  EXPECT_GT(faster->ratio, 2);
  EXPECT_LT(faster->p_value, 0.01);
  const auto slower = MeasureFiles(onnxruntime, few, *ModelFile::Open(few_path), Bytes(many), {.pairs = 20}, 1);
  ASSERT_TRUE(slower.ok()) << slower.status();
  EXPECT_LT(slower->ratio, 0.5);
  EXPECT_GT(slower->p_value, 0.9);
  // Onnxruntime says what it refuses.
  EXPECT_THAT(
      MeasureFiles(onnxruntime, few, ModelFile::OfBytes(*ExportOnnxBytes(few, {})), absl::Cord("no model"), {}, 1)
          .status()
          .ToString(),
      HasSubstr("onnxruntime: "));
  EXPECT_THAT(MeasureFiles(onnxruntime, few, ModelFile::OfBytes("none"), Bytes(few), {}, 1).status().ToString(),
              HasSubstr("onnxruntime: "));
}

}  // namespace
}  // namespace rewright
