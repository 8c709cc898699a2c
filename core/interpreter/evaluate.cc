#include "core/interpreter/evaluate.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/interpreter/arith.h"
#include "core/ir/memory.h"

namespace rewright {

absl::StatusOr<Tensor> ToCarrier(const Tensor& tensor, Carrier carrier) {
  const DType stored = StoredDType(carrier, tensor.dtype());
  if (stored == tensor.dtype()) return tensor;
  auto allocated = AllocateTensor({stored, tensor.shape()}, "a copy");
  if (!allocated.ok()) return allocated.status();
  Tensor result = *std::move(allocated);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double value = tensor.At(i);
    if (carrier == Carrier::kFloat64) {
      result.as<double>()[i] = value;
    } else if (carrier == Carrier::kPrimeField) {
      result.as<uint64_t>()[i] = FieldFromReal(value);
    } else {
      if (std::isfinite(value) && value != std::floor(value)) {
        return absl::OutOfRangeError(absl::StrCat("element ", i, " is ", value, ", no integer"));
      }
      result.as<int64_t>()[i] = interp::ExactArith::FromReal(value);
    }
  }
  return result;
}

}  // namespace rewright
