#include "runtime/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <numeric>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/base/status_macros.h"
#include "runtime/comm/worker_thread.h"

namespace rewright {

// Some of the ranks, as ranks of their own.
class MemberRanks : public Communicator {
 public:
  MemberRanks(Communicator& all, const std::vector<int>& members, int rank)
      : Communicator(rank, static_cast<int>(members.size())), all_(all), members_(members), channel_(ChannelOf(all)) {}

  void set_timeout(double seconds) override { all_.set_timeout(seconds); }
  double timeout() const override { return all_.timeout(); }

  void Abort(const absl::Status& reason) override { all_.Abort(reason); }
  bool for_one_thread() const override { return all_.for_one_thread(); }
  absl::Status Wait(Transfer& transfer) override { return all_.Wait(transfer); }

 private:
  // The same for all members; channel 0 is that of all ranks.
  int ChannelOf(const Communicator& all) const {
    const bool of_all = members_.size() == static_cast<size_t>(all.size());
    if (of_all && std::is_sorted(members_.begin(), members_.end())) return 0;
    uint64_t mixed = 0;
    for (int member : members_) mixed = MixBits(mixed ^ static_cast<uint64_t>(member));
    return 1 + static_cast<int>(mixed % (kChannels - 1));
  }

  absl::StatusOr<std::unique_ptr<Transfer>> Begin(int channel, const std::string& what,
                                                  const std::vector<Outgoing>& out,
                                                  const std::vector<Incoming>& in) override {
    std::vector<Outgoing> out_there = out;
    std::vector<Incoming> in_there = in;
    for (Outgoing& part : out_there) part.to = members_[part.to];
    for (Incoming& part : in_there) part.from = members_[part.from];
    return all_.StartOn((channel + channel_) % kChannels, what, out_there, in_there);
  }

  Communicator& all_;
  const std::vector<int> members_;
  const int channel_;
};

absl::StatusOr<std::unique_ptr<Transfer>> Communicator::Start(const std::string& what, const std::vector<Outgoing>& out,
                                                              const std::vector<Incoming>& in) {
  return StartOn(0, what, out, in);
}

absl::StatusOr<std::unique_ptr<Transfer>> Communicator::StartOn(int channel, const std::string& what,
                                                                const std::vector<Outgoing>& out,
                                                                const std::vector<Incoming>& in) {
  int64_t bytes = 0;
  for (const Outgoing& part : out) {
    CHECK(part.to != rank_ && part.to >= 0 && part.to < size_) << what << ": rank " << rank_ << " to " << part.to;
    bytes += static_cast<int64_t>(part.bytes);
  }
  for (const Incoming& part : in) {
    CHECK(part.from != rank_ && part.from >= 0 && part.from < size_) << what << ": " << rank_ << " from " << part.from;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Transfer> transfer, Begin(channel, what, out, in));
  bytes_sent_ += bytes;
  return transfer;
}

absl::Status Communicator::Exchange(const std::string& what, const std::vector<Outgoing>& out,
                                    const std::vector<Incoming>& in) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> transfer, Start(what, out, in));
  return Wait(*transfer);
}

absl::Status Communicator::Barrier(const std::string& what) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    out.push_back({other, nullptr, 0});
    in.push_back({other, nullptr, 0});
  }
  return Exchange(what, out, in);
}

absl::Status Communicator::WaitedFor(const std::string& what, const std::vector<int>& chain) const {
  return absl::DeadlineExceededError(absl::StrCat(what, ": rank ", rank_, " waited ", timeout(), " s for rank ",
                                                  absl::StrJoin(chain, ", which waits for rank "), ", which may hang"));
}

std::unique_ptr<Communicator> GroupOf(Communicator& all, const std::vector<int>& members) {
  const auto self = std::find(members.begin(), members.end(), all.rank());
  CHECK(self != members.end()) << all.rank();
  return std::make_unique<MemberRanks>(all, members, static_cast<int>(self - members.begin()));
}

namespace {

// The bytes of rank 0 at all ranks.
absl::Status FromZero(Communicator& ranks, const std::string& what, void* data, size_t bytes) {
  if (ranks.rank() != 0) return ranks.Receive(what, 0, data, bytes);
  std::vector<Outgoing> out;
  for (int other = 1; other < ranks.size(); ++other) out.push_back({other, data, bytes});
  return ranks.Exchange(what, out, {});
}

}  // namespace

absl::StatusOr<std::vector<std::string>> AllGather(Communicator& ranks, const std::string& what,
                                                   const std::string& mine) {
  std::vector<std::string> all(static_cast<size_t>(ranks.size()));
  std::vector<uint64_t> sizes(all.size());
  sizes[ranks.rank()] = mine.size();
  all[ranks.rank()] = mine;
  if (ranks.rank() == 0) {
    std::vector<Incoming> in;
    for (size_t other = 1; other < all.size(); ++other) {
      in.push_back({static_cast<int>(other), &sizes[other], sizeof sizes[other]});
    }
    RETURN_IF_ERROR(ranks.Exchange(what, {}, in));
    in.clear();
    for (size_t other = 1; other < all.size(); ++other) {
      all[other].resize(sizes[other]);
      if (sizes[other] > 0) in.push_back({static_cast<int>(other), all[other].data(), all[other].size()});
    }
    RETURN_IF_ERROR(ranks.Exchange(what, {}, in));
  } else {
    RETURN_IF_ERROR(ranks.Send(what, 0, &sizes[ranks.rank()], sizeof(uint64_t)));
    if (!mine.empty()) RETURN_IF_ERROR(ranks.Send(what, 0, mine.data(), mine.size()));
  }
  // Rank 0 sends all texts to all ranks.
  RETURN_IF_ERROR(FromZero(ranks, what, sizes.data(), sizes.size() * sizeof(uint64_t)));
  std::string joined;
  if (ranks.rank() == 0) joined = absl::StrJoin(all, "");
  joined.resize(std::accumulate(sizes.begin(), sizes.end(), size_t{0}));
  if (!joined.empty()) RETURN_IF_ERROR(FromZero(ranks, what, joined.data(), joined.size()));
  size_t at = 0;
  for (size_t rank = 0; rank < all.size(); at += sizes[rank++]) all[rank] = joined.substr(at, sizes[rank]);
  return all;
}

absl::StatusOr<std::string> FromRankZero(Communicator& ranks, const std::string& what,
                                         const std::function<absl::StatusOr<std::string>()>& make) {
  constexpr char kAtWork = 0, kDone = 1;
  if (ranks.rank() != 0) {
    const double limit = ranks.timeout();
    if (ranks.for_one_thread()) ranks.set_timeout(std::numeric_limits<double>::infinity());
    const auto restore = absl::MakeCleanup([&] { ranks.set_timeout(limit); });
    for (char sign = kAtWork; sign == kAtWork;) RETURN_IF_ERROR(ranks.Receive(what, 0, &sign, sizeof sign));
    ASSIGN_OR_RETURN(std::vector<std::string> all, AllGather(ranks, what, ""));
    return std::move(all[0]);
  }
  const auto tell = [&](char sign) { return FromZero(ranks, what, &sign, sizeof sign); };
  std::promise<void> end;
  std::future<void> ended = end.get_future();
  const std::chrono::duration<double> period(std::min(1.0, ranks.timeout() / 4));
  WorkerThread signs(ranks);
  if (!ranks.for_one_thread()) {
    signs.Start([&]() -> absl::Status {
      while (ended.wait_for(period) == std::future_status::timeout) RETURN_IF_ERROR(tell(kAtWork));
      return absl::OkStatus();
    });
  }
  const absl::StatusOr<std::string> made = Guarded(make);
  end.set_value();
  RETURN_IF_ERROR(signs.WaitForAll());
  RETURN_IF_ERROR(made.status());
  RETURN_IF_ERROR(tell(kDone));
  ASSIGN_OR_RETURN(std::vector<std::string> all, AllGather(ranks, what, *made));
  return std::move(all[0]);
}

absl::StatusOr<bool> AnyRank(Communicator& ranks, const std::string& what, bool mine) {
  std::vector<char> answers(static_cast<size_t>(ranks.size()), mine ? 1 : 0);
  std::vector<Incoming> in;
  for (int other = 1; other < ranks.size(); ++other) in.push_back({other, &answers[other], 1});
  RETURN_IF_ERROR(ranks.rank() == 0 ? ranks.Exchange(what, {}, in) : ranks.Send(what, 0, answers.data(), 1));
  char any = *std::max_element(answers.begin(), answers.end());
  RETURN_IF_ERROR(FromZero(ranks, what, &any, 1));
  return any != 0;
}

absl::Status CheckSame(Communicator& ranks, const std::string& what,
                       const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) {
    ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(ranks, what, value));
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      return absl::FailedPreconditionError(absl::StrCat(what, ": rank ", rank, " differs from rank 0: ", name,
                                                        ": found ", all[rank], ", rank 0 has ", all[0]));
    }
  }
  return absl::OkStatus();
}

}  // namespace rewright
