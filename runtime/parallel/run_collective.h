// One collective of a rank's graph (rank_graph.h) between two of its tensors, and what it sends.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "runtime/comm/communicator.h"
#include "runtime/parallel/rank_graph.h"

namespace rewright {

// An executable that several ranks run together.
class DistributedExecutable : public Executable {
 public:
  // Bytes that this rank sends in a run, and when a state is read.
  virtual int64_t bytes_sent() const = 0;
  virtual int64_t BytesSentToRead(const std::string& name) const = 0;
};

// 0 where others take no part.
int64_t BytesSentBy(const Executable& executable);
int64_t BytesSentToRead(const Executable& executable, const std::string& name);

// Called by all ranks together; `when` stands first in errors: "run 3, all-reduce of matmul: rank 0 waited ..".
absl::Status RunCollective(Communicator& ranks, const std::string& when, const Collective& collective,
                           const Tensor& operand, Tensor* result);

// Bytes that rank `rank` of `size` sends for it.
int64_t BytesSent(const Collective& collective, const TensorType& operand, const TensorType& result, int rank,
                  int size);

// Bytes that rank `rank` of `size` sends for an AllReduce of the type.
int64_t BytesOfAllReduce(const TensorType& type, int rank, int size);

}  // namespace rewright
