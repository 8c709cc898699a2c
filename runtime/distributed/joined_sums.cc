#include "runtime/distributed/joined_sums.h"

#include <map>

namespace rewright::distributed {

std::vector<std::vector<size_t>> JoinedTensors(const std::vector<TensorType>& types) {
  std::vector<std::vector<size_t>> joined;
  std::map<DType, size_t> small;  // the number of the vector
  for (size_t k = 0; k < types.size(); ++k) {
    if (types[k].num_bytes() >= kJoinedBytes) {
      joined.push_back({k});
      continue;
    }
    const auto [found, is_new] = small.try_emplace(types[k].dtype, joined.size());
    if (is_new) joined.emplace_back();
    joined[found->second].push_back(k);
  }
  return joined;
}

std::vector<TensorType> JoinedTypes(const std::vector<TensorType>& types) {
  std::vector<TensorType> vectors;
  for (const std::vector<size_t>& tensors : JoinedTensors(types)) {
    if (tensors.size() == 1) {
      vectors.push_back(types[tensors[0]]);
      continue;
    }
    TensorType vector{types[tensors[0]].dtype, {0}};
    for (size_t k : tensors) vector.shape[0] += types[k].num_elements();
    vectors.push_back(vector);
  }
  return vectors;
}

}  // namespace rewright::distributed
