#include "backends/cpu/kernel_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace rewright::cpu {
namespace {

// One kernel that changed and one that went, one that came: sums of versions would stay as they were, and costs that
// were measured before would stand.
TEST(KernelList, EveryChangeGivesAnotherVersion) {
  const std::string version = VersionOf({{"Conv", 2}, {"Matmul", 1}});
  EXPECT_EQ(version, VersionOf({{"Conv", 2}, {"Matmul", 1}}));
  EXPECT_NE(version, VersionOf({{"Conv", 3}}));
  EXPECT_NE(version, VersionOf({{"Conv", 1}, {"Matmul", 2}}));
  EXPECT_NE(version, VersionOf({{"Conv", 2}, {"Pool", 1}}));
  EXPECT_NE(version, VersionOf({{"Matmul", 1}, {"Conv", 2}}));
  EXPECT_FALSE(KernelListVersion().empty());
}

}  // namespace
}  // namespace rewright::cpu
