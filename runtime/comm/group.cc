#include "runtime/comm/group.h"

#include <algorithm>
#include <string>

#include "core/base/check.h"

namespace rewright {
namespace {

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
    for (Outgoing& part : out_there) part.to = members_[static_cast<size_t>(part.to)];
    for (Incoming& part : in_there) part.from = members_[static_cast<size_t>(part.from)];
    return all_.Start(what, out_there, in_there);
  }

  Communicator& all_;
  const std::vector<int> members_;
};

}  // namespace

std::unique_ptr<Communicator> GroupOf(Communicator& all, const std::vector<int>& members) {
  const auto self = std::find(members.begin(), members.end(), all.rank());
  CHECK(self != members.end()) << all.rank();
  return std::make_unique<Group>(all, members, static_cast<int>(self - members.begin()));
}

}  // namespace rewright
