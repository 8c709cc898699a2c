// Processes that work on one enumeration, where the program is started by mpirun and was built with MPI. Otherwise
// there is one.
#pragma once

#include <cstdint>
#include <vector>

namespace rewright::generate {

class Ranks {
 public:
  // Of this process. Joins the others at the first call.
  static Ranks& World();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // All ranks have to call each of these, in the same order. A rank that dies ends all of them.
  //
  // `out[r]` goes to rank r; what comes is in order of ranks.
  std::vector<uint64_t> Exchange(const std::vector<std::vector<uint64_t>>& out);
  // At rank 0 those of all ranks, in their order; empty at the others.
  std::vector<uint64_t> Gather(const std::vector<uint64_t>& words);
  uint64_t Max(uint64_t word);
  // Ends the other ranks, too. Does not return where there are any.
  void Abort(int status);

 private:
  Ranks();
  int rank_ = 0, size_ = 1;
};

}  // namespace rewright::generate
