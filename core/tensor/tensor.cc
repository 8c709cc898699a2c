#include "core/tensor/tensor.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace rewright {

absl::StatusOr<int64_t> CheckedElements(const Shape& shape) {
  if (shape.size() > kMaxRank) return InvalidArgument("a tensor with ", shape.size(), " axes; at most ", kMaxRank);
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  int64_t elements = 1;
  bool too_large = false;
  for (int64_t size : shape) {
    if (size < 0) return InvalidArgument("shape ", ShapeString(shape), " has a negative size");
    // A later size of zero does not make large sizes harmless: products of parts of a shape are computed, too.
    if (size > 0) {
      too_large = too_large || elements > kMaxElements / size;
      if (!too_large) elements *= size;
    }
  }
  if (too_large) return InvalidArgument("shape ", ShapeString(shape), " is too large");
  return NumElements(shape);
}

int64_t NumElements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string ShapeString(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ","), "]"); }

std::string TensorType::ToString() const { return DTypeName(dtype) + ShapeString(shape); }

Tensor::Tensor(TensorType type) : type_(std::move(type)) {
  constexpr size_t kAlignment = 64;
  const size_t bytes = static_cast<size_t>(num_bytes()) + 2 * kAlignment;
  // calloc does not touch the pages of large tensors: the zeros with which an optimizer begins take no memory until
  // written.
  owner_ = std::shared_ptr<void>(std::calloc(bytes, 1), std::free);
  CHECK(owner_ != nullptr) << "out of memory: " << bytes << " bytes for " << type_.ToString();
  const auto address = reinterpret_cast<uintptr_t>(owner_.get());
  data_ = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

Tensor::Tensor(TensorType type, std::shared_ptr<void> owner, void* data)
    : type_(std::move(type)), owner_(std::move(owner)), data_(data) {}

Tensor Tensor::Int64s(const std::vector<int64_t>& values) {
  Tensor tensor(TensorType{DType::kInt64, {static_cast<int64_t>(values.size())}});
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size() * sizeof(int64_t));
  return tensor;
}

Tensor Tensor::Scalar(DType dtype, double value) {
  Tensor tensor(TensorType{dtype, {}});
  tensor.Set(0, value);
  return tensor;
}

double Tensor::At(int64_t i) const {
  return VisitDType(type_.dtype, [&](auto t) { return static_cast<double>(as<typename decltype(t)::Type>()[i]); });
}

int64_t Tensor::AtInt(int64_t i) const {
  return VisitDType(type_.dtype, [&](auto t) { return static_cast<int64_t>(as<typename decltype(t)::Type>()[i]); });
}

void Tensor::Set(int64_t i, double value) {
  if (!IsFloating(type_.dtype)) return SetInt(i, static_cast<int64_t>(value));
  const double nearest = NearestOf(type_.dtype, value);
  VisitDType(type_.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    as<T>()[i] = static_cast<T>(nearest);
  });
}

void Tensor::SetInt(int64_t i, int64_t value) {
  VisitDType(type_.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (decltype(t)::kDType == DType::kBool) {
      as<T>()[i] = value != 0;
    } else if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
      as<T>()[i] = static_cast<T>(value);
    } else {
      Set(i, static_cast<double>(value));
    }
  });
}

bool Tensor::BitEqual(const Tensor& other) const {
  return type_ == other.type_ && std::memcmp(data_, other.data_, static_cast<size_t>(num_bytes())) == 0;
}

}  // namespace rewright
