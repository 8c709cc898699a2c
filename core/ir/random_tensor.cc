#include "core/ir/random_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace rewright {

Tensor RandomTensor(const TensorType& type, Rng& rng, double low, double high) {
  Tensor tensor(type);
  const int64_t least = IsUnsigned(type.dtype) ? 0 : std::numeric_limits<int64_t>::min();
  const int64_t first = std::max(static_cast<int64_t>(std::ceil(low)), least);
  const int64_t last = std::max(static_cast<int64_t>(std::floor(high)), least);
  if (IsInteger(type.dtype)) CHECK(first <= last) << "no integer in [" << low << ", " << high << "]";
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t bits = rng();
    if (IsFloating(type.dtype)) {
      tensor.Set(i, low + (high - low) * (static_cast<double>(bits >> 11) * 0x1p-53));
    } else if (IsInteger(type.dtype)) {
      const uint64_t count = static_cast<uint64_t>(last - first) + 1;
      const uint64_t offset = static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * count >> 64);
      tensor.SetInt(i, first + static_cast<int64_t>(offset));
    } else {
      tensor.SetInt(i, static_cast<int64_t>(bits >> 63));
    }
  }
  return tensor;
}

}  // namespace rewright
