// The library on a model with a node that only onnxruntime knows.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/library/model_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OpaqueModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
    if (!std::filesystem::exists(python)) GTEST_SKIP() << "tools/python_env.sh makes " << python;
    setenv("REWRIGHT_PYTHON", python.c_str(), 1);
  }
  void TearDown() override { unsetenv("REWRIGHT_PYTHON"); }

  static Model Load(const std::string& device) {
    const std::string bytes = InvertingModel();
    return Model::FromBytes(bytes.data(), bytes.size(), Options(device));
  }
  static ModelOptions Options(const std::string& device) {
    ModelOptions options;
    options.dims = {{"n", 2}};
    options.device = device;
    options.threads = 1;
    return options;
  }

  // The matrix with 2, 4, 6.. in its diagonal, and -1 in the last corner, which the model takes for 0.
  static void ExpectInverse(const Model& model, int64_t n) {
    std::vector<float> x(static_cast<size_t>(n * n), 0);
    for (int64_t i = 0; i < n; ++i) x[i * n + i] = static_cast<float>(2 * (i + 1));
    x[n - 1] = n > 1 ? -1 : x[n - 1];
    const std::vector<OutputArray> outputs = model.Run({InputView::Of("x", {n, n}, x.data())});
    ASSERT_EQ(outputs.size(), 1U);
    ASSERT_EQ(outputs[0].size(), x.size());
    for (int64_t i = 0; i < n * n; ++i) {
      const float expected = i % (n + 1) == 0 ? 0.5F / static_cast<float>(i / (n + 1) + 1) : 0;
      EXPECT_NEAR(outputs[0].data<float>()[i], expected, 1e-6) << i << " of " << n;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OpaqueModel, ::testing::Values("cpu", "onnxruntime"));

TEST_P(OpaqueModel, RunsAtEverySize) {
  const Model model = Load(GetParam());
  for (int64_t n : {2, 1, 5, 2}) ExpectInverse(model, n);
}

TEST_P(OpaqueModel, IsOptimizedAndSaved) {
  Model model = Load(GetParam());
  OptimizeSettings settings;
  settings.cost = "analytic:v100";  // the same rewrites on every machine
  const OptimizeSummary summary = model.Optimize(settings);
  EXPECT_TRUE(summary.rewritten) << summary.verdict;
  EXPECT_TRUE(summary.checked);
  for (int64_t n : {2, 3}) ExpectInverse(model, n);
  const TemporaryFolder folder;
  const std::string path = folder / "saved.onnx";
  model.Save(path);
  const Model saved = Model::Load(path, Options(GetParam()));
  EXPECT_EQ(saved.dims().at("n"), 2);
  for (int64_t n : {2, 4}) ExpectInverse(saved, n);
}

TEST(OpaqueModelElsewhere, IsRefusedByName) {
  const std::string bytes = InvertingModel();
  const auto error = [&](const std::string& device, bool run) -> std::string {
    try {
      ModelOptions options;
      options.device = device;
      const Model model = Model::FromBytes(bytes.data(), bytes.size(), options);
      const float one = 1;
      if (run) model.Run({InputView::Of("x", {1, 1}, &one)});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << error.what();
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error("reference", false), HasSubstr("com.microsoft.Inverse [1 node: node \"inv\""));
  setenv("REWRIGHT_ONNXRUNTIME", "/nowhere/libonnxruntime.so", 1);
  EXPECT_EQ(error("cpu", false), "");
  EXPECT_THAT(error("cpu", true),
              AllOf(HasSubstr("node \"inv\" (com.microsoft.Inverse): not known here, and onnxruntime"),
                    HasSubstr("/nowhere/libonnxruntime.so")));
  unsetenv("REWRIGHT_ONNXRUNTIME");
}

// A library that anybody may have put into the current folder is not loaded, whatever Python is called.
TEST(OpaqueModelElsewhere, DoesNotLoadFromTheCurrentFolder) {
  const TemporaryFolder folder;
  const std::string package = folder / "lib/python3.11/site-packages/onnxruntime/capi";
  std::filesystem::create_directories(package);
  std::filesystem::create_directories(folder / "bin");
  WriteContents(package + "/libonnxruntime.so.1", "its loading is an error that names it");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string bytes = InvertingModel();
  for (const char* python : {"python3", "bin/python3", "./bin/python3"}) {
    setenv("REWRIGHT_PYTHON", python, 1);
    try {
      const float one = 1;
      Model::FromBytes(bytes.data(), bytes.size()).Run({InputView::Of("x", {1, 1}, &one)});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("site-packages"))) << python;
    }
  }
  unsetenv("REWRIGHT_PYTHON");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace rewright
