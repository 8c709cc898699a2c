// Tests what collectives put on links against closed forms, and the descriptions of clusters that come with the
// program.
#include "runtime/distributed/collective_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace rewright::distributed {
namespace {

using ::testing::ElementsAre;
using Kind = Action::Kind;

// Nodes of eight devices.
const Cluster kNodes = {"nodes", 1, {{"inner", 8, 1e9, 1e-6}, {"outer", 1024, 1e8, 1e-5}}};

GroupLinks Links(int size, int step) {
  std::vector<int> group;
  for (int k = 0; k < size; ++k) group.push_back(k * step);
  return LinksOf(group, 0, kNodes);
}

TEST(CollectiveRoundsTest, GroupsSeeLevels) {
  EXPECT_THAT(Links(32, 1).others, ElementsAre(7, 24));
  EXPECT_THAT(Links(32, 1).by_step, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(Links(4, 8).others, ElementsAre(0, 3));
}

// A ring goes through each node once, and the devices of a node share what enters and leaves it.
TEST(CollectiveRoundsTest, RingsEnterEachNodeOnce) {
  const double bytes = 3.2e7;
  const std::vector<Round> rounds = RoundsOf(Kind::kAllGather, Links(32, 1), bytes, CollectiveBy::kRing, kNodes);
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_NEAR(rounds[0].seconds, 28 * 1e-6 + 3 * 1e-5, 1e-12);
  EXPECT_NEAR(rounds[0].bytes[0], bytes * 31 / 32, 1);
  EXPECT_NEAR(rounds[0].bytes[1], bytes * 31 / 32 / 8, 1);
  const double alone = SecondsAlone(Kind::kAllReduce, Links(4, 8), bytes, CollectiveBy::kRing, kNodes);
  EXPECT_NEAR(alone, 6 * 1e-5 + 2 * bytes * 3 / 4 / 1e8, 1e-9);
}

TEST(CollectiveRoundsTest, AllWaysSendTheSameBytes) {
  for (const auto by :
       {CollectiveBy::kDirect, CollectiveBy::kRing, CollectiveBy::kTree, CollectiveBy::kParameterServer}) {
    double all = 0;
    for (double bytes : BytesByLevel(Kind::kAllReduce, Links(32, 1), 1e6, by)) all += 32 * bytes;
    EXPECT_NEAR(all, 2 * 31 * 1e6, 1);
  }
  EXPECT_THAT(BytesByLevel(Kind::kAllToAll, Links(32, 1), 32, CollectiveBy::kRing), ElementsAre(7, 24));
}

// A tree is best for few bytes, a ring for many, and a server for none.
TEST(CollectiveRoundsTest, WaysDifferBySize) {
  const auto seconds = [](CollectiveBy by, double bytes) {
    return SecondsAlone(Kind::kAllReduce, Links(64, 8), bytes, by, kNodes);
  };
  EXPECT_LT(seconds(CollectiveBy::kTree, 100), seconds(CollectiveBy::kRing, 100));
  EXPECT_GT(seconds(CollectiveBy::kTree, 1e8), seconds(CollectiveBy::kRing, 1e8));
  EXPECT_GT(seconds(CollectiveBy::kParameterServer, 1e8), seconds(CollectiveBy::kTree, 1e8));
}

TEST(LinkLevelTest, RatesAreThoseMeasured) {
  LinkLevel level{"link", 8, 1e9, 0};
  EXPECT_EQ(level.RateOf("send", 10), std::numeric_limits<double>::infinity());
  level.rates[""] = {{1e4, 1e8}, {1e6, 4e8}};
  level.rates["all_reduce"] = {{1e6, 9e8}};
  EXPECT_NEAR(level.RateOf("send", 1e5), 2e8, 1);  // halfway in logarithms
  EXPECT_NEAR(level.RateOf("send", 1e9), 4e8, 1);
  EXPECT_NEAR(level.RateOf("send", 1e3), 1e7, 1);  // the time of the smallest that was measured
  EXPECT_NEAR(level.RateOf("all_reduce", 1e9), 9e8, 1);
}

TEST(ClusterFilesTest, AllAreReadAndHaveSources) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REWRIGHT_SOURCE_DIR "/runtime/distributed/clusters")) {
    const auto cluster = ReadCluster(entry.path().stem());
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->name, entry.path().stem());
    EXPECT_GE(cluster->sources.size(), 3u) << cluster->name;
    EXPECT_TRUE(cluster->device) << cluster->name;
    // The error for another name has this one.
    EXPECT_NE(ReadCluster("no-such").status().message().find(cluster->name), std::string::npos) << cluster->name;
    ++count;
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace rewright::distributed
