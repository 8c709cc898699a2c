// Batches made ahead of their use, on threads of their own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace rewright {

// Gives batches first, first + 1, .. in order, whichever thread made them. Next is for one thread at a time.
class Prefetcher {
 public:
  // A batch follows from its number alone. Called on any thread, several at a time.
  using Make = std::function<absl::StatusOr<std::vector<Tensor>>(int64_t number)>;

  // Up to `threads` batches are made at a time and twice as many wait to be used; 0: each is made when it is asked for.
  Prefetcher(Make make, int64_t first, int threads);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The tensors that `make` gives for the next number; an exception of `make` is an error.
  absl::StatusOr<std::vector<Tensor>> Next();

 private:
  using Batch = absl::StatusOr<std::vector<Tensor>>;
  void Work();

  const Make make_;
  const size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t taken_;  // the next number to make
  int64_t used_;   // the next number to give
  std::map<int64_t, std::unique_ptr<Batch>> made_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rewright
