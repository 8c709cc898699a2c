#include "substitutions/language/number.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "core/ir/op.h"

namespace rewright {
namespace {

bool InRange(DType type, int64_t integer) {
  if (type == DType::kBool) return integer == 0 || integer == 1;
  return VisitDType(type, [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (std::is_integral_v<T>) return std::in_range<T>(integer);
    return true;
  });
}

// Straight from an integer, so that it is rounded once.
template <typename Float>
Float Rounded(const Number& number) {
  const int64_t* integer = std::get_if<int64_t>(&number);
  return integer != nullptr ? static_cast<Float>(*integer) : static_cast<Float>(std::get<double>(number));
}

}  // namespace

double RealOf(const Number& number) { return Rounded<double>(number); }

std::string NumberString(const Number& number) {
  std::string text = std::visit([](auto value) { return AttrString(Attr(value)); }, number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

Number ElementOf(const Tensor& tensor, int64_t i) {
  if (!IsFloating(tensor.dtype())) return tensor.AtInt(i);
  return tensor.At(i);
}

void SetElement(const Number& number, int64_t i, Tensor* tensor) {
  const int64_t* integer = std::get_if<int64_t>(&number);
  if (tensor->dtype() == DType::kFloat32) {
    tensor->as<float>()[i] = Rounded<float>(number);
  } else if (integer != nullptr) {
    tensor->SetInt(i, *integer);
  } else {
    tensor->Set(i, std::get<double>(number));
  }
}

void FillWith(const Number& number, Tensor* tensor) {
  for (int64_t i = 0, count = tensor->num_elements(); i < count; ++i) SetElement(number, i, tensor);
}

bool HasNumber(DType type, const Number& number) {
  if (!IsFloating(type)) {
    const int64_t* integer = std::get_if<int64_t>(&number);
    return integer != nullptr && InRange(type, *integer);
  }
  const double real = RealOf(number);
  if (type == DType::kFloat64 || real == 0 || !std::isfinite(real)) return true;
  const double nearest = std::abs(NearestOf(type, real));
  return std::isfinite(nearest) && nearest >= SmallestNormalOf(type);
}

Number OneOf(DType type) { return IsFloating(type) ? Number(1.0) : Number(int64_t{1}); }

double RoundedTo(DType type, const Number& number) {
  return type == DType::kFloat32 ? static_cast<double>(Rounded<float>(number))
                                 : NearestOf(type, Rounded<double>(number));
}

bool AllElementsEqual(const Tensor& tensor, const Number& number) {
  // Most tensors differ early, so that the length does not matter.
  const int64_t count = tensor.num_elements();
  if (!IsFloating(tensor.dtype())) {
    const int64_t* integer = std::get_if<int64_t>(&number);
    if (integer == nullptr) return false;
    for (int64_t i = 0; i < count; ++i) {
      if (tensor.AtInt(i) != *integer) return false;
    }
    return count > 0;
  }
  const double value = RoundedTo(tensor.dtype(), number);
  for (int64_t i = 0; i < count; ++i) {
    if (tensor.At(i) != value) return false;
  }
  return count > 0;
}

bool AllElementsSame(const Tensor& tensor) {
  const auto size = DTypeSize(tensor.dtype());
  const char* bytes = static_cast<const char*>(tensor.data());
  const int64_t count = tensor.num_elements();
  for (int64_t i = 1; i < count; ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return false;
  }
  return count > 0;
}

}  // namespace rewright
