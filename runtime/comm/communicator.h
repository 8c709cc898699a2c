// Several ranks that work on one thing, and the bytes that go between them.
//
// A rank is a process that mpirun started or a thread of this one (mpi.h, in_process.h). Every rank makes the same
// calls in the same order. Nothing here adds numbers: the order of sums is all_reduce.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/comm/memory_pool.h"

namespace rewright {

struct Outgoing {
  int to = 0;
  const void* data = nullptr;
  size_t bytes = 0;
};

struct Incoming {
  int from = 0;
  void* data = nullptr;
  size_t bytes = 0;
};

// Seconds that a rank waits for another one where nothing else is said.
constexpr double kDefaultTimeout = 300;

// Messages on their way. One that ends before it was waited for, because of an error, receives nothing any more.
class Transfer {
 public:
  virtual ~Transfer() = default;
};

// A rank's connection to the others. One thread may use it at a time. If `for_one_thread()` is true, only the thread
// that made the first call may ever use it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }  // 0..size-1
  int size() const { return size_; }

  // Seconds that this rank waits for another one before it gives up, and all others with it.
  virtual void set_timeout(double seconds) { timeout_ = seconds; }
  virtual double timeout() const { return timeout_; }

  virtual bool for_one_thread() const { return false; }

  // Begins to send and to receive all of these; their memory must not be touched until Wait has returned. Messages from
  // one rank to another arrive whole and in the order in which they were sent; an Incoming takes the next of them, of
  // as many bytes. `what` names the work in errors. Errors end the work of all ranks: a rank that ended or was not
  // there within the limit (both ranks and `what` are named), an Abort of another rank (its reason), a message of
  // another size.
  absl::StatusOr<std::unique_ptr<Transfer>> Start(const std::string& what, const std::vector<Outgoing>& out,
                                                  const std::vector<Incoming>& in);
  virtual absl::Status Wait(Transfer& transfer) = 0;
  // Start and Wait.
  absl::Status Exchange(const std::string& what, const std::vector<Outgoing>& out, const std::vector<Incoming>& in);
  absl::Status Send(const std::string& what, int to, const void* data, size_t bytes) {
    return Exchange(what, {{to, data, bytes}}, {});
  }
  absl::Status Receive(const std::string& what, int from, void* data, size_t bytes) {
    return Exchange(what, {}, {{from, data, bytes}});
  }
  // Returns when every rank has called it.
  absl::Status Barrier(const std::string& what);

  // Ends the work of all ranks: their calls return the reason, or their processes end. Processes: does not return.
  virtual void Abort(const absl::Status& reason) = 0;

  // Bytes that this rank sent to others.
  int64_t bytes_sent() const { return bytes_sent_; }

  // For what arrives and what is packed to be sent; for any thread.
  MemoryPool& memory() { return memory_; }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  // "step 3, sum of gradients: rank 0 waited 5 s for rank 1, which waits for rank 2, which may hang"; `chain` are the
  // others.
  absl::Status WaitedFor(const std::string& what, const std::vector<int>& chain) const;

  // Start, on a channel: a message arrives at an Incoming of the same channel alone.
  absl::StatusOr<std::unique_ptr<Transfer>> StartOn(int channel, const std::string& what,
                                                    const std::vector<Outgoing>& out, const std::vector<Incoming>& in);
  static constexpr int kChannels = 30000;

 private:
  friend class MemberRanks;
  virtual absl::StatusOr<std::unique_ptr<Transfer>> Begin(int channel, const std::string& what,
                                                          const std::vector<Outgoing>& out,
                                                          const std::vector<Incoming>& in) = 0;

  const int rank_, size_;
  double timeout_ = kDefaultTimeout;
  int64_t bytes_sent_ = 0;
  MemoryPool memory_;
};

// The ranks `members` of `all`, this one among them, as ranks 0, 1, ..; `all` outlives the group, and its limit, errors
// and count of bytes hold. Each group has a channel of its own, so only the group receives its messages.
std::unique_ptr<Communicator> GroupOf(Communicator& all, const std::vector<int>& members);

// Gives the texts of all ranks, in the order of ranks, to all of them. They go by way of rank 0, in at most four
// messages for each other rank.
absl::StatusOr<std::vector<std::string>> AllGather(Communicator& ranks, const std::string& what,
                                                   const std::string& mine);

// Calls `make` on rank 0 alone and gives its result to all ranks. It may take long: the others wait while rank 0 is
// alive and says so, a few times within the limit. If the communicator is for one thread, which cannot say so beside
// `make`, they wait without a limit. REQUIRES: `make` does not use the communicator. Errors: those of `make`, on rank 0
// alone.
absl::StatusOr<std::string> FromRankZero(Communicator& ranks, const std::string& what,
                                         const std::function<absl::StatusOr<std::string>()>& make);

// Returns whether `mine` is true on any rank.
absl::StatusOr<bool> AnyRank(Communicator& ranks, const std::string& what, bool mine);

// Checks that all ranks have the same values, given as names and texts; the names are the same everywhere. The error,
// which every rank finds, names the first value that differs from rank 0: "start: rank 2 differs from rank 0: threads:
// found 2, rank 0 has 1".
absl::Status CheckSame(Communicator& ranks, const std::string& what,
                       const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace rewright
