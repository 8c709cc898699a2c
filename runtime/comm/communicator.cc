#include "runtime/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/comm/background.h"

namespace rewright {
namespace {

// Some of the ranks, as ranks of their own.
class Group : public Communicator {
 public:
  Group(Communicator& all, const std::vector<int>& members, int rank)
      : Communicator(rank, static_cast<int>(members.size())), all_(all), members_(members) {
    set_limit(all.limit());
  }

  void Abort(const absl::Status& reason) override { all_.Abort(reason); }
  bool for_one_thread() const override { return all_.for_one_thread(); }
  absl::Status Wait(Transfer& transfer) override { return all_.Wait(transfer); }

 private:
  absl::StatusOr<std::unique_ptr<Transfer>> Begin(const std::string& what, const std::vector<Outgoing>& out,
                                                  const std::vector<Incoming>& in) override {
    std::vector<Outgoing> out_there = out;
    std::vector<Incoming> in_there = in;
    for (Outgoing& part : out_there) part.to = members_[part.to];
    for (Incoming& part : in_there) part.from = members_[part.from];
    return all_.Start(what, out_there, in_there);
  }

  Communicator& all_;
  const std::vector<int> members_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transfer>> Communicator::Start(const std::string& what, const std::vector<Outgoing>& out,
                                                              const std::vector<Incoming>& in) {
  int64_t bytes = 0;
  for (const Outgoing& part : out) {
    CHECK(part.to != rank_ && part.to >= 0 && part.to < size_) << what << ": rank " << rank_ << " to " << part.to;
    bytes += static_cast<int64_t>(part.bytes);
  }
  for (const Incoming& part : in) {
    CHECK(part.from != rank_ && part.from >= 0 && part.from < size_) << what << ": " << rank_ << " from " << part.from;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Transfer> transfer, Begin(what, out, in));
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
  return absl::DeadlineExceededError(absl::StrCat(what, ": rank ", rank_, " waited ", limit_, " s for rank ",
                                                  absl::StrJoin(chain, ", which waits for rank "), ", which may hang"));
}

std::unique_ptr<Communicator> GroupOf(Communicator& all, const std::vector<int>& members) {
  const auto self = std::find(members.begin(), members.end(), all.rank());
  CHECK(self != members.end()) << all.rank();
  return std::make_unique<Group>(all, members, static_cast<int>(self - members.begin()));
}

absl::StatusOr<std::vector<std::string>> AllGather(Communicator& ranks, const std::string& what,
                                                   const std::string& mine) {
  std::vector<std::string> all(static_cast<size_t>(ranks.size()));
  std::vector<uint64_t> sizes(all.size());
  const uint64_t size = mine.size();
  all[ranks.rank()] = mine;
  const auto with_all = [&](const void* data, size_t bytes, const auto& to) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int other = 0; other < ranks.size(); ++other) {
      if (other == ranks.rank()) continue;
      out.push_back({other, data, bytes});
      in.push_back(to(other));
    }
    return ranks.Exchange(what, out, in);
  };
  RETURN_IF_ERROR(with_all(&size, sizeof size, [&](int other) { return Incoming{other, &sizes[other], sizeof size}; }));
  RETURN_IF_ERROR(with_all(mine.data(), mine.size(), [&](int other) {
    std::string& text = all[other];
    text.resize(sizes[other]);
    return Incoming{other, text.data(), text.size()};
  }));
  return all;
}

absl::StatusOr<std::string> FromRankZero(Communicator& ranks, const std::string& what,
                                         const std::function<absl::StatusOr<std::string>()>& make) {
  constexpr char kAtWork = 0, kDone = 1;
  if (ranks.rank() != 0) {
    for (char sign = kAtWork; sign == kAtWork;) RETURN_IF_ERROR(ranks.Receive(what, 0, &sign, sizeof sign));
    ASSIGN_OR_RETURN(std::vector<std::string> all, AllGather(ranks, what, ""));
    return std::move(all[0]);
  }
  const auto tell = [&](const char& sign) {
    std::vector<Outgoing> out;
    for (int other = 1; other < ranks.size(); ++other) out.push_back({other, &sign, sizeof sign});
    return ranks.Exchange(what, out, {});
  };
  std::promise<void> end;
  std::future<void> ended = end.get_future();
  const std::chrono::duration<double> period(std::min(1.0, ranks.limit() / 4));
  Background signs(ranks);
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
  ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(ranks, what, mine ? "yes" : ""));
  return std::any_of(all.begin(), all.end(), [](const std::string& answer) { return !answer.empty(); });
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
