// Processes that work on one enumeration (runtime/comm/mpi.h), and the words that they exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"

namespace rewright::generate {

// All ranks have to call each of these, in the same order. An exchange that fails is thrown (InternalFault): it ends
// the work, and the caller that handles it ends the other ranks.
class Ranks {
 public:
  // The ranks of this run. The first call joins the other processes.
  static Ranks& World();
  explicit Ranks(Communicator& communicator) : communicator_(communicator) {}

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  // Sends `out[r]` to rank r; gives what the ranks sent, in their order.
  std::vector<uint64_t> Exchange(const std::vector<std::vector<uint64_t>>& out);
  // Gives the words of all ranks at rank 0, in their order; nothing at the others.
  std::vector<uint64_t> Gather(const std::vector<uint64_t>& words);
  uint64_t Max(uint64_t word);
  // Calls `make` on rank 0 alone and gives its result at all ranks, however long it takes. Errors: those of `make`.
  absl::StatusOr<std::vector<uint64_t>> FromZero(const std::string& what,
                                                 const std::function<absl::StatusOr<std::vector<uint64_t>>()>& make);

 private:
  Communicator& communicator_;
};

}  // namespace rewright::generate
