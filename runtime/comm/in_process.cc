#include "runtime/comm/in_process.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

using Clock = std::chrono::steady_clock;

// The state that the ranks share.
struct Ranks {
  explicit Ranks(int size)
      : messages(static_cast<size_t>(size) * static_cast<size_t>(size)),
        has_ended(static_cast<size_t>(size)),
        waits_for(static_cast<size_t>(size), -1) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::map<int, std::deque<std::string>>> messages;  // sent, not yet received: [from * size + to], channel
  std::vector<bool> has_ended;                                   // by rank
  std::vector<int> waits_for;                                    // likewise; -1: for none
  absl::Status failure;                                          // the first one, which is that of all
};

// Messages that a rank waits for, each until it is there.
struct Arrivals : Transfer {
  std::string what;
  int channel = 0;
  std::vector<Incoming> parts;
  std::vector<std::shared_ptr<bool>> done;
};

class InProcess : public Communicator {
 public:
  InProcess(int rank, int size, std::shared_ptr<Ranks> group)
      : Communicator(rank, size), expected_(static_cast<size_t>(size)), group_(std::move(group)) {}
  ~InProcess() override {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    group_->has_ended[rank()] = true;
    group_->changed.notify_all();
  }

  void Abort(const absl::Status& reason) override {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    Fail(reason).IgnoreError();
  }

  absl::Status Wait(Transfer& transfer) override {
    std::unique_lock<std::mutex> lock(group_->mutex);
    const auto& arrivals = static_cast<const Arrivals&>(transfer);
    for (size_t k = 0; k < arrivals.parts.size(); ++k) {
      while (!*arrivals.done[k]) RETURN_IF_ERROR(Take(arrivals, arrivals.parts[k].from, lock));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::unique_ptr<Transfer>> Begin(int channel, const std::string& what,
                                                  const std::vector<Outgoing>& out,
                                                  const std::vector<Incoming>& in) override {
    const std::lock_guard<std::mutex> lock(group_->mutex);
    if (!group_->failure.ok()) return group_->failure;
    for (const Outgoing& part : out) {
      Messages(rank(), part.to, channel).emplace_back(static_cast<const char*>(part.data), part.bytes);
    }
    group_->changed.notify_all();
    auto arrivals = std::make_unique<Arrivals>();
    arrivals->what = what;
    arrivals->channel = channel;
    for (const Incoming& part : in) {
      arrivals->parts.push_back(part);
      arrivals->done.push_back(std::make_shared<bool>(false));
      expected_[part.from][channel].emplace_back(part, arrivals->done.back());
    }
    return arrivals;
  }

  // The next message of a rank, for the first transfer that waits for it. The limit counts from the one before.
  absl::Status Take(const Arrivals& arrivals, int from, std::unique_lock<std::mutex>& lock) {
    const std::string& what = arrivals.what;
    const auto start = Clock::now();
    std::deque<std::string>& messages = Messages(from, rank(), arrivals.channel);
    const auto may_go_on = [&] { return !messages.empty() || !group_->failure.ok() || group_->has_ended[from]; };
    int& waits_for = group_->waits_for[rank()];
    while (!may_go_on()) {
      waits_for = from;
      const double left = timeout() - std::chrono::duration<double>(Clock::now() - start).count();
      if (left <= 0) return Fail(WaitedFor(what, ChainFrom(from)));
      // An hour at a time: no limit is no point in time.
      group_->changed.wait_for(lock, std::chrono::duration<double>(std::min(left, 3600.0)), may_go_on);
    }
    waits_for = -1;
    if (!group_->failure.ok()) return group_->failure;
    if (messages.empty()) {
      return Fail(
          absl::UnavailableError(absl::StrCat(what, ": rank ", from, " has ended; rank ", rank(), " waits for it")));
    }
    Expected& expected = expected_[from][arrivals.channel];
    std::shared_ptr<bool> done;
    Incoming part;
    while (done == nullptr) {  // the memory of a transfer that is gone may be another's by now
      done = expected.front().second.lock();
      part = expected.front().first;
      expected.pop_front();
    }
    const std::string message = std::move(messages.front());
    messages.pop_front();
    if (message.size() != part.bytes) {
      return Fail(absl::InternalError(absl::StrCat(what, ": rank ", from, " sent ", message.size(), " bytes, rank ",
                                                   rank(), " expected ", part.bytes)));
    }
    if (!message.empty()) std::memcpy(part.data, message.data(), message.size());
    *done = true;
    return absl::OkStatus();
  }

  std::deque<std::string>& Messages(int from, int to, int channel) {
    return group_->messages[static_cast<size_t>(from) * static_cast<size_t>(size()) + static_cast<size_t>(to)][channel];
  }
  // The rank `other`, the rank for which it waits, and so on.
  std::vector<int> ChainFrom(int other) const {
    std::vector<int> chain = {other};
    for (int next; (next = group_->waits_for[chain.back()]) >= 0;) {
      if (next == rank() || std::count(chain.begin(), chain.end(), next) > 0) break;
      chain.push_back(next);
    }
    return chain;
  }
  // Returns the status with which all ranks fail. The lock is held.
  absl::Status Fail(const absl::Status& reason) {
    if (group_->failure.ok()) group_->failure = reason;
    group_->changed.notify_all();
    return group_->failure;
  }

  using Expected = std::deque<std::pair<Incoming, std::weak_ptr<bool>>>;
  std::vector<std::map<int, Expected>> expected_;  // by the rank that sends, and by channel
  const std::shared_ptr<Ranks> group_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> InProcessRanks(int size) {
  const auto group = std::make_shared<Ranks>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<InProcess>(rank, size, group));
  return ranks;
}

std::vector<absl::Status> OnRanks(int size, const std::function<absl::Status(Communicator&)>& work) {
  std::vector<std::unique_ptr<Communicator>> ranks = InProcessRanks(size);
  std::vector<absl::Status> results;
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  // The errors of want are made beforehand: where threads take the last memory, there is none for a message.
  for (size_t i = 0; i < ranks.size(); ++i) {
    results.push_back(absl::ResourceExhaustedError(absl::StrCat("no thread or no memory for rank ", i)));
  }
  const auto run = [&](size_t i) {
    const std::unique_ptr<Communicator> rank = std::move(ranks[i]);
    try {
      absl::Status result = Guarded([&] { return work(*rank); });
      if (!result.ok()) rank->Abort(ErrorAt(absl::StrCat("rank ", i), result));
      results[i] = std::move(result);
    } catch (const std::bad_alloc&) {
      rank->Abort(results[i]);
    }
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    try {
      threads.emplace_back(run, i);
    } catch (const std::exception&) {  // std::system_error or std::bad_alloc; those that run end with it
      ranks[i]->Abort(results[i]);
    }
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace rewright
