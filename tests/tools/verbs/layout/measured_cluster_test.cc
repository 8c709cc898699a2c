// Tests the measurement of links between ranks.
#include "tools/verbs/layout/measured_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "runtime/comm/in_process.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MeasuredClusterTest, AllRanksGetTheSameRatesOfAllKinds) {
  constexpr int kRanks = 3;
  std::vector<distributed::Cluster> found(kRanks);
  const std::vector<std::unique_ptr<Communicator>> ranks = InProcessRanks(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto cluster = MeasuredCluster(*ranks[rank], /*threads=*/1);
      ASSERT_TRUE(cluster.ok()) << cluster.status();
      found[rank] = *cluster;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = PrintCluster(found[0]);
  for (const distributed::Cluster& cluster : found) EXPECT_EQ(PrintCluster(cluster), text);
  const auto parsed = distributed::ParseCluster(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const distributed::LinkLevel& link = parsed->levels[0];
  EXPECT_EQ(link.devices, kRanks);
  EXPECT_GT(link.seconds, 0);
  using ::testing::_;
  EXPECT_THAT(link.rates, ElementsAre(Pair("all_gather", _), Pair("all_reduce", _), Pair("all_to_all", _),
                                      Pair("reduce_scatter", _), Pair("send", _)));
  for (const auto& [kind, rates] : link.rates) {
    ASSERT_EQ(rates.size(), 4u) << kind;
    for (const distributed::MeasuredRate& rate : rates) EXPECT_LE(rate.bytes_per_second, link.bytes_per_second);
  }
}

}  // namespace
}  // namespace rewright
