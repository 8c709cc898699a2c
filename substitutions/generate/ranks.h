// Processes that work on one enumeration (runtime/comm/ranks.h), and the words that they exchange.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/communicator.h"

namespace rewright::generate {

// All ranks have to call each of these, in the same order. An exchange that fails is thrown (InternalFault): it ends
// the work, and whoever answers for that ends the other ranks.
class Ranks {
 public:
  // Of this process. Joins the others at the first call.
  static Ranks& World();
  explicit Ranks(Communicator& communicator) : communicator_(communicator) {}

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  // `out[r]` goes to rank r; what comes is in order of ranks.
  std::vector<uint64_t> Exchange(const std::vector<std::vector<uint64_t>>& out);
  // At rank 0 those of all ranks, in their order; empty at the others.
  std::vector<uint64_t> Gather(const std::vector<uint64_t>& words);
  uint64_t Max(uint64_t word);

 private:
  Communicator& communicator_;
};

}  // namespace rewright::generate
