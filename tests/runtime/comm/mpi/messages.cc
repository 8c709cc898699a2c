// Messages between processes that do not agree. Usage: mpirun -n 2 messages short|long|group|gone|many. Rank 0 prints
// the errors that it gets.
#include <iostream>
#include <string>
#include <vector>

#include "runtime/comm/mpi.h"

namespace rewright {
namespace {

constexpr size_t kLarge = 16, kSmall = 8;

absl::Status WithSizes(Communicator& ranks, size_t sent, size_t expected) {
  std::string bytes(kLarge, static_cast<char>('0' + ranks.rank()));
  return ranks.rank() == 1 ? ranks.Send("numbers", 0, bytes.data(), sent)
                           : ranks.Receive("numbers", 1, bytes.data(), expected);
}

// The message that is sent first, by the group, is received last, by the group.
absl::Status ByGroup(Communicator& ranks) {
  const auto group = GroupOf(ranks, {1, 0});
  int numbers[] = {1, 2};
  if (ranks.rank() == 1) {
    absl::Status status = group->Send("by the group", 1, &numbers[0], sizeof(int));
    status.Update(ranks.Send("by all", 0, &numbers[1], sizeof(int)));
    return status;
  }
  absl::Status status = ranks.Receive("by all", 1, &numbers[0], sizeof(int));
  status.Update(group->Receive("by the group", 0, &numbers[1], sizeof(int)));
  if (status.ok()) std::cout << numbers[0] << " " << numbers[1] << std::endl;
  return status;
}

// Rank 0 gives up a transfer before the message is sent that it would have received.
absl::Status Gone(Communicator& ranks) {
  int numbers[] = {7, 5, 0};
  char go = 0;
  if (ranks.rank() == 1) {
    absl::Status status = ranks.Receive("a sign", 0, &go, 1);
    status.Update(ranks.Send("a number", 0, &numbers[1], sizeof(int)));
    return status;
  }
  absl::Status status = ranks.Start("given up", {}, {{1, &numbers[0], sizeof(int)}}).status();
  status.Update(ranks.Send("a sign", 1, &go, 1));
  status.Update(ranks.Receive("a number", 1, &numbers[2], sizeof(int)));
  if (status.ok()) std::cout << "given up " << numbers[0] << ", received " << numbers[2] << std::endl;
  return status;
}

// One exchange has thousands of parts.
absl::Status Many(Communicator& ranks) {
  constexpr int kMany = 5000;
  const int other = 1 - ranks.rank();
  std::vector<int> mine(kMany), theirs(kMany);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int i = 0; i < kMany; ++i) {
    mine[i] = i * (ranks.rank() + 1);
    out.push_back({other, &mine[i], sizeof(int)});
    in.push_back({other, &theirs[i], sizeof(int)});
  }
  const absl::Status status = ranks.Exchange("many", out, in);
  bool right = status.ok();
  for (int i = 0; i < kMany; ++i) right = right && theirs[i] == i * (other + 1);
  if (right && ranks.rank() == 0) std::cout << "all arrived" << std::endl;
  return status;
}

int Run(const std::string& what) {
  Communicator& ranks = ProcessRanks();
  ranks.set_timeout(20);
  const absl::Status status = what == "short"   ? WithSizes(ranks, kSmall, kLarge)
                              : what == "long"  ? WithSizes(ranks, kLarge, kSmall)
                              : what == "group" ? ByGroup(ranks)
                              : what == "gone"  ? Gone(ranks)
                                                : Many(ranks);
  if (ranks.rank() == 0 && !status.ok()) {
    std::cout << status.message() << std::endl;
    ranks.Abort(status);
  }
  return 0;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Run(argc > 1 ? argv[1] : ""); }
