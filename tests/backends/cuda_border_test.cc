// The border between the program and its CUDA plugin: both are built from one text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "backends/cuda/gpu.h"
#include "core/base/source_text.h"
#include "core/base/text_hash.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

TEST(CudaBorder, APluginOfAnotherBuildIsNotCalled) {
  const int same = cuda::kGpuBorder, other = cuda::kGpuBorder + 1;
  EXPECT_EQ(cuda::CheckBorder(&same), "");
  EXPECT_THAT(cuda::CheckBorder(&other), HasSubstr("found a plugin with border " + std::to_string(other)));
  EXPECT_THAT(cuda::CheckBorder(nullptr), HasSubstr("found a plugin without a number of its border"));
}

// Where this fails the border was changed: raise kGpuBorder in backends/cuda/gpu.h, and write the new hash here.
TEST(CudaBorder, ItsNumberIsRaisedWithItsText) {
  constexpr int kBorder = 1;
  constexpr char kHash[] = "a875f141e7eeb328";
  std::string text;
  for (const char* name : {"backends/cuda/gpu.h", "core/base/queue_step.h"}) {
    std::ifstream file(std::string(REWRIGHT_SOURCE_DIR "/") + name);
    ASSERT_TRUE(file.good()) << name;
    text += SourceTokens(std::string((std::istreambuf_iterator<char>(file)), {}));
  }
  EXPECT_EQ(TextHash::HexOf(text), kHash);
  EXPECT_EQ(cuda::kGpuBorder, kBorder);
}

}  // namespace
}  // namespace rewright
