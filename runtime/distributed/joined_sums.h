// Small tensors go through an all-reduce as one vector of each element type: each exchange has a latency.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace rewright::distributed {

// The tensors, by number, that go together: each of at least kJoinedBytes alone, the others of a type together.
inline constexpr int64_t kJoinedBytes = int64_t{1} << 20;
std::vector<std::vector<size_t>> JoinedTensors(const std::vector<TensorType>& types);
// The types of what goes through the all-reduce.
std::vector<TensorType> JoinedTypes(const std::vector<TensorType>& types);

}  // namespace rewright::distributed
