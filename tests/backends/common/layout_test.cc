#include "backends/common/layout.h"

#include "backends/cuda/lower/lowering.h"
#include "gmock/gmock.h"

namespace rewright {
namespace {

TEST(Layout, AxesByStridePutsAxesOfSizeOneFirst) {
  // The first and the last axis are in the wrong order, and what stands between them says nothing.
  const Layout layout{{2, 1, 3}, {1, 7, 2}, 0};
  EXPECT_THAT(AxesByStride(layout), testing::ElementsAre(1, 2, 0));
  EXPECT_THAT(AxesByStride(Layout::RowMajor({4, 5, 6})), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(AxesByStride(Layout{{1, 4, 1}, {0, 1, 0}, 0}), testing::ElementsAre(0, 2, 1));
}

TEST(Layout, DenseLikeKeepsTheOrderInMemory) {
  const Layout like{{2, 1, 3}, {1, 7, 2}, 0};
  EXPECT_EQ(cuda::DenseLike(like, {2, 4, 3}), (Layout{{2, 4, 3}, {1, 6, 2}, 0}));
  EXPECT_EQ(cuda::DenseLike(Layout::ChannelsLast({2, 5, 3, 4}), {2, 6, 3, 4}), Layout::ChannelsLast({2, 6, 3, 4}));
}

}  // namespace
}  // namespace rewright
