// Dense tensors in row-major order, and their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/check.h"
#include "core/tensor/dtype.h"

namespace rewright {

using Shape = std::vector<int64_t>;

// The greatest number of axes of a tensor.
inline constexpr int kMaxRank = 31;

// Returns the number of elements of an untrusted shape. Errors: negative sizes, too many axes, and more than 2^40
// elements, sizes of zero left out.
absl::StatusOr<int64_t> CheckedElements(const Shape& shape);
// Returns the product of the sizes; 1 for a scalar.
int64_t NumElements(const Shape& shape);
// "[2,3]"; "[]" for a scalar.
std::string ShapeString(const Shape& shape);

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t num_elements() const { return NumElements(shape); }
  int64_t num_bytes() const { return num_elements() * static_cast<int64_t>(DTypeSize(dtype)); }
  // "f32[2,3]"
  std::string ToString() const;
  friend bool operator==(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.shape == b.shape; }
  friend bool operator!=(const TensorType& a, const TensorType& b) { return !(a == b); }
};

// A tensor that owns (shares) its elements, aligned to 64 bytes. Copies share the buffer; fill a tensor before it is
// shared. Not thread-safe while it is being written.
class Tensor {
 public:
  Tensor() = default;
  // Makes a tensor of zeros.
  explicit Tensor(TensorType type);
  // Uses memory that `owner` keeps alive (a mapped file); `data` is aligned to the element size.
  Tensor(TensorType type, std::shared_ptr<void> owner, void* data);

  template <typename T>
  static Tensor FromVector(DType dtype, Shape shape, const std::vector<T>& values) {
    Tensor tensor(TensorType{dtype, std::move(shape)});
    CHECK(static_cast<int64_t>(values.size()) == tensor.num_elements()) << values.size();
    for (size_t i = 0; i < values.size(); ++i) tensor.Set(static_cast<int64_t>(i), static_cast<double>(values[i]));
    return tensor;
  }
  static Tensor Int64s(const std::vector<int64_t>& values);  // one axis
  static Tensor Scalar(DType dtype, double value);

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t num_elements() const { return type_.num_elements(); }
  int64_t num_bytes() const { return type_.num_bytes(); }

  void* data() { return data_; }
  const void* data() const { return data_; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

  // True if the elements are in memory that the tensor owns; false if another owner may write them.
  bool owns() const { return owner_ != nullptr; }

  // Gives an element by linear index, converted. At/Set go through double; AtInt is exact for integers.
  double At(int64_t i) const;
  int64_t AtInt(int64_t i) const;
  void Set(int64_t i, double value);
  void SetInt(int64_t i, int64_t value);

  // True for the same type and the same bytes.
  bool BitEqual(const Tensor& other) const;

 private:
  TensorType type_;
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
};

}  // namespace rewright
