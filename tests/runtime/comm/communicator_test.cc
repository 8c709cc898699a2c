// Tests that messages arrive, and how a rank that does not take part is reported.
#include "runtime/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/comm/in_process.h"
#include "runtime/comm/worker_thread.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Messages(const std::vector<absl::Status>& statuses) {
  std::vector<std::string> messages;
  for (const absl::Status& status : statuses) messages.emplace_back(status.message());
  return messages;
}

TEST(CommunicatorTest, MessagesArriveInTheOrderOfTheirSender) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    const int next = (ranks.rank() + 1) % 3, before = (ranks.rank() + 2) % 3;
    for (int i = 0; i < 50; ++i) {
      const int number = 100 * ranks.rank() + i;
      RETURN_IF_ERROR(ranks.Send("numbers", next, &number, sizeof number));
    }
    for (int i = 0; i < 50; ++i) {
      int number = 0;
      RETURN_IF_ERROR(ranks.Receive("numbers", before, &number, sizeof number));
      EXPECT_EQ(number, 100 * before + i);
    }
    EXPECT_EQ(ranks.bytes_sent(), 200);
    RETURN_IF_ERROR(ranks.Barrier("end"));
    EXPECT_EQ(ranks.bytes_sent(), 200);
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", "", ""));
}

TEST(CommunicatorTest, MessagesUnderWayArriveInTheOrderOfTheirStarts) {
  const auto statuses = OnRanks(2, [](Communicator& ranks) -> absl::Status {
    const int other = 1 - ranks.rank(), mine[] = {10 * ranks.rank(), 10 * ranks.rank() + 1};
    int got[] = {-1, -1};
    ASSIGN_OR_RETURN(const auto first, ranks.Start("first", {{other, &mine[0], sizeof(int)}}, {}));
    ASSIGN_OR_RETURN(const auto to_first, ranks.Start("first", {}, {{other, &got[0], sizeof(int)}}));
    ASSIGN_OR_RETURN(const auto both,
                     ranks.Start("second", {{other, &mine[1], sizeof(int)}}, {{other, &got[1], sizeof(int)}}));
    // Receives in another order than they were sent.
    RETURN_IF_ERROR(ranks.Wait(*both));
    RETURN_IF_ERROR(ranks.Wait(*to_first));
    RETURN_IF_ERROR(ranks.Wait(*first));
    EXPECT_THAT(got, ElementsAre(10 * other, 10 * other + 1));
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", ""));
}

TEST(BackgroundTest, DoesOneThingAfterTheOtherBesideItsOwner) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    WorkerThread background(ranks);
    std::vector<std::string> done;
    int64_t last = 0;
    for (int i = 0; i < 20; ++i) {
      last = background.Start([&ranks, &done, i]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto all, AllGather(ranks, "texts", absl::StrCat(i, ".", ranks.rank())));
        done.push_back(all[2]);
        return absl::OkStatus();
      });
    }
    RETURN_IF_ERROR(background.Wait(last));
    EXPECT_EQ(done.size(), 20u);
    for (size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], absl::StrCat(i, ".2"));
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", "", ""));
}

TEST(BackgroundTest, AnErrorEndsWhatComesBehindIt) {
  const auto ranks = InProcessRanks(1);
  WorkerThread background(*ranks[0]);
  bool later = false;
  background.Start([] { return absl::InternalError("first"); });
  background.Start([]() -> absl::Status { throw std::runtime_error("second"); });
  background.Start([&] {
    later = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(background.WaitForAll().message(), "first");
  EXPECT_FALSE(later);
  WorkerThread thrown(*ranks[0]);
  EXPECT_THAT(
      std::string(thrown.Wait(thrown.Start([]() -> absl::Status { throw std::runtime_error("thrown"); })).message()),
      HasSubstr("thrown"));
}

TEST(CommunicatorTest, GathersTextsOfAnyLength) {
  for (int size = 1; size <= 4; ++size) {
    OnRanks(size, [&](Communicator& ranks) -> absl::Status {
      ASSIGN_OR_RETURN(const auto all, AllGather(ranks, "texts", std::string(static_cast<size_t>(ranks.rank()), 'x')));
      EXPECT_EQ(all.size(), static_cast<size_t>(size));
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::string(i, 'x'));
      return absl::OkStatus();
    });
  }
}

TEST(CommunicatorTest, TheRankThatDiffersIsNamedByAll) {
  const auto statuses = OnRanks(4, [](Communicator& ranks) {
    return CheckSame(ranks, "start", {{"seed", "7"}, {"threads", ranks.rank() == 2 ? "2" : "1"}});
  });
  // Each rank finds the fault, unless another was faster and ended the run.
  EXPECT_THAT(Messages(statuses),
              ::testing::Each(HasSubstr("start: rank 2 differs from rank 0: threads: found 2, rank 0 has 1")));
}

TEST(CommunicatorTest, ARankThatFailsEndsTheOthersWithItsReason) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    if (ranks.rank() == 1) return absl::ResourceExhaustedError("step 3: out of memory");
    return ranks.Barrier("step 3");
  });
  const std::string others = "rank 1: step 3: out of memory";
  EXPECT_THAT(Messages(statuses), ElementsAre(others, "step 3: out of memory", others));
}

TEST(CommunicatorTest, ARankThatThrowsEndsTheOthersToo) {
  const auto statuses = OnRanks(2, [](Communicator& ranks) -> absl::Status {
    if (ranks.rank() == 0) throw std::runtime_error("broken");
    return ranks.Barrier("step 4");
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("broken", "rank 0: broken"));
}

// The rank sends nothing; it has ended.
TEST(CommunicatorTest, ARankThatIsGoneIsNamed) {
  auto ranks = InProcessRanks(3);
  const int number = 5;
  ASSERT_TRUE(ranks[2]->Send("step 1", 0, &number, sizeof number).ok());
  ranks[2].reset();
  int received = 0;
  EXPECT_TRUE(ranks[0]->Receive("step 1", 2, &received, sizeof received).ok()) << "what it sent before arrives";
  EXPECT_EQ(received, 5);
  const std::string error = "step 2, sum of gradients: rank 2 has ended; rank 0 waits for it";
  EXPECT_EQ(ranks[0]->Receive("step 2, sum of gradients", 2, &received, sizeof received).message(), error);
  EXPECT_EQ(ranks[1]->Barrier("step 2").message(), error) << "the others end for the same reason";
}

TEST(CommunicatorTest, ARankThatHangsEndsTheOthersBehindTheLimit) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) {
    ranks.set_timeout(0.2);
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    return ranks.Barrier("step 9");
  });
  // Either of the two waiting ranks may report first.
  EXPECT_THAT(Messages(statuses), ::testing::Each(::testing::ContainsRegex(
                                      "^(rank [02]: )?step 9: rank [02] waited 0.2 s for rank 1, which may hang$")));
}

// Rank 0 waits for rank 1, which waits for rank 2, which does something else.
TEST(CommunicatorTest, WhoHangsIsNamedByThoseWhoWaitForOthers) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    ranks.set_timeout(ranks.rank() == 0 ? 1 : 60);
    char byte = 0;
    if (ranks.rank() < 2) return ranks.Receive("wait", ranks.rank() + 1, &byte, 1);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return absl::OkStatus();
  });
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("wait: rank 0 waited 1 s for rank 1, which waits for rank 2, which may hang"));
}

// Rank 0 works longer than the limit, once for all ranks and once for a group.
TEST(CommunicatorTest, OthersWaitAsLongAsRankZeroIsAtWork) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    ranks.set_timeout(1.5);
    const auto group = GroupOf(ranks, ranks.rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2});
    for (Communicator* of : {&ranks, group.get()}) {
      int calls = 0;
      ASSIGN_OR_RETURN(const std::string text, FromRankZero(*of, "a proof", [&]() -> absl::StatusOr<std::string> {
                         ++calls;
                         std::this_thread::sleep_for(std::chrono::milliseconds(2500));
                         return "a law";
                       }));
      EXPECT_EQ(text, "a law");
      EXPECT_EQ(calls, of->rank() == 0 ? 1 : 0);
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", "", ""));
}

TEST(CommunicatorTest, WhatRankZeroFailsAtEndsTheOthers) {
  const auto statuses = OnRanks(2, [](Communicator& ranks) {
    return FromRankZero(ranks, "a proof", []() -> absl::StatusOr<std::string> { throw std::runtime_error("unknown"); })
        .status();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("unknown", "rank 0: unknown"));
}

TEST(CommunicatorTest, SizesThatDifferAreAnError) {
  auto ranks = InProcessRanks(2);
  const int64_t number = 5;
  ASSERT_TRUE(ranks[1]->Send("sizes", 0, &number, sizeof number).ok());
  int received = 0;
  EXPECT_EQ(ranks[0]->Receive("sizes", 1, &received, sizeof received).message(),
            "sizes: rank 1 sent 8 bytes, rank 0 expected 4");
}

TEST(CommunicatorTest, NoCommunicatorWaitsWithoutEndUnlessItIsTold) {
  const auto ranks = InProcessRanks(2);
  EXPECT_EQ(ranks[0]->timeout(), kDefaultTimeout);
  EXPECT_LT(ranks[0]->timeout(), 3600);
  const auto group = GroupOf(*ranks[1], {1, 0});
  EXPECT_EQ(group->timeout(), kDefaultTimeout);
  ranks[1]->set_timeout(7);
  EXPECT_EQ(group->timeout(), 7);
}

// A message within a group is not taken for one to all, though it comes first and has the same size.
TEST(CommunicatorTest, AGroupReceivesWhatTheGroupSends) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    if (ranks.rank() == 2) return absl::OkStatus();
    const auto group = GroupOf(ranks, {1, 0});
    int numbers[] = {1, 2}, got[] = {0, 0};
    if (ranks.rank() == 0) {
      RETURN_IF_ERROR(group->Send("by the group", 0, &numbers[0], sizeof(int)));
      return ranks.Send("by all", 1, &numbers[1], sizeof(int));
    }
    RETURN_IF_ERROR(ranks.Receive("by all", 0, &got[0], sizeof(int)));
    RETURN_IF_ERROR(group->Receive("by the group", 1, &got[1], sizeof(int)));
    EXPECT_THAT(got, ElementsAre(2, 1));
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", "", ""));
}

// A transfer that was given up gets no message: its memory may be another's by then.
TEST(CommunicatorTest, ATransferThatIsGoneReceivesNothing) {
  const auto ranks = InProcessRanks(2);
  ranks[0]->set_timeout(5);
  int given_up = 0, received = 0;
  ASSERT_TRUE(ranks[0]->Start("given up", {}, {{1, &given_up, sizeof given_up}}).ok());
  const int number = 5;
  ASSERT_TRUE(ranks[1]->Send("a number", 0, &number, sizeof number).ok());
  EXPECT_EQ(ranks[0]->Receive("a number", 1, &received, sizeof received), absl::OkStatus());
  EXPECT_EQ(received, 5);
  EXPECT_EQ(given_up, 0);
}

// Works only on the thread of its first call, and notes the limits under which it waits.
class OfOneThread : public Communicator {
 public:
  explicit OfOneThread(Communicator& all) : Communicator(all.rank(), all.size()), all_(all) {}
  bool for_one_thread() const override { return true; }
  absl::Status Wait(Transfer& transfer) override {
    limits_.push_back(timeout());
    return all_.Wait(transfer);
  }
  void Abort(const absl::Status& reason) override { all_.Abort(reason); }
  const std::vector<double>& limits() const { return limits_; }

 private:
  absl::StatusOr<std::unique_ptr<Transfer>> Begin(int, const std::string& what, const std::vector<Outgoing>& out,
                                                  const std::vector<Incoming>& in) override {
    return all_.Start(what, out, in);
  }

  Communicator& all_;
  std::vector<double> limits_;
};

// Rank 0 cannot say beside its work that it is alive, so the others wait for it without a limit, and only for that.
TEST(CommunicatorTest, WorkOfRankZeroHasNoLimitWhereItCannotTellOfIt) {
  const auto statuses = OnRanks(3, [](Communicator& ranks) -> absl::Status {
    OfOneThread alone(ranks);
    ASSIGN_OR_RETURN(const std::string text, FromRankZero(alone, "a proof", [] { return std::string("a law"); }));
    EXPECT_EQ(text, "a law");
    const double limit = ranks.rank() == 0 ? kDefaultTimeout : std::numeric_limits<double>::infinity();
    EXPECT_THAT(alone.limits(), testing::AllOf(testing::SizeIs(testing::Ge(2)), testing::Each(limit)));
    EXPECT_EQ(alone.timeout(), kDefaultTimeout);
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", "", ""));
}

// Runs in a process of its own with too little memory for the stacks of as many threads.
[[noreturn]] void AskForTooManyThreads() {
  const rlimit limit{size_t{256} << 20, size_t{256} << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(1);
  const auto statuses = OnRanks(200, [](Communicator& ranks) { return ranks.Barrier("start"); });
  const bool all_failed = std::none_of(statuses.begin(), statuses.end(), [](const auto& one) { return one.ok(); });
  const bool last_has_none = statuses.back().message().find("no thread or no memory for rank 199") != std::string::npos;
  std::exit(all_failed && last_has_none ? 0 : 2);
}

TEST(CommunicatorTest, RanksWithoutAThreadAreAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more address space than any limit";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a new process, without what other tests have taken
  EXPECT_EXIT(AskForTooManyThreads(), testing::ExitedWithCode(0), "");
}

// Counts the messages of another communicator.
class Counting : public Communicator {
 public:
  explicit Counting(Communicator& all) : Communicator(all.rank(), all.size()), all_(all) {}
  absl::Status Wait(Transfer& transfer) override { return all_.Wait(transfer); }
  void Abort(const absl::Status& reason) override { all_.Abort(reason); }
  size_t messages() const { return messages_; }

 private:
  absl::StatusOr<std::unique_ptr<Transfer>> Begin(int, const std::string& what, const std::vector<Outgoing>& out,
                                                  const std::vector<Incoming>& in) override {
    messages_ += out.size();
    return all_.Start(what, out, in);
  }

  Communicator& all_;
  size_t messages_ = 0;
};

// Combines one bit of each of N ranks at all of them, with far fewer than N^2 messages.
TEST(CommunicatorTest, WhatEachHasReachesAllInFewMessages) {
  constexpr int kRanks = 16;
  std::atomic<size_t> messages = 0;
  const auto statuses = OnRanks(kRanks, [&](Communicator& ranks) -> absl::Status {
    Counting counting(ranks);
    ASSIGN_OR_RETURN(const bool any, AnyRank(counting, "a question", ranks.rank() == 5));
    EXPECT_TRUE(any);
    messages += counting.messages();
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ::testing::Each(""));
  EXPECT_LE(messages, 4u * (kRanks - 1));
}

// Three messages, each well within the limit, together take longer than it.
TEST(CommunicatorTest, TheLimitCountsFromTheLastArrival) {
  const auto statuses = OnRanks(2, [](Communicator& ranks) -> absl::Status {
    ranks.set_timeout(2);
    int numbers[] = {0, 0, 0};
    if (ranks.rank() == 0) {
      std::vector<Incoming> in;
      for (int& number : numbers) in.push_back({1, &number, sizeof number});
      return ranks.Exchange("numbers", {}, in);
    }
    for (int& number : numbers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(900));
      RETURN_IF_ERROR(ranks.Send("numbers", 0, &number, sizeof number));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Messages(statuses), ElementsAre("", ""));
}

}  // namespace
}  // namespace rewright
