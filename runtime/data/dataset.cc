#include "runtime/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/data/permutation.h"

namespace rewright {
namespace {

// Calls use(elements) with the elements as an array of their C++ type.
template <typename Use>
void WithElements(DType type, const void* elements, const Use& use) {
  VisitDType(type, [&](auto t) { use(static_cast<const typename decltype(t)::Type*>(elements)); });
}

// `count` elements as numbers of type T, times `scale`.
template <typename T>
void Convert(DType type, const void* from, int64_t count, double scale, T* to) {
  WithElements(type, from, [&](const auto* elements) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = scale == 1 ? static_cast<T>(elements[i]) : static_cast<T>(static_cast<double>(elements[i]) * scale);
    }
  });
}

void ConvertTo(const Column& column, DType type, const void* from, int64_t count, void* to) {
  VisitDType(column.batch.dtype, [&](auto t) {
    auto* elements = static_cast<typename decltype(t)::Type*>(to);
    if constexpr (decltype(t)::kDType == DType::kBool) {
      for (int64_t i = 0; i < count; ++i) elements[i] = static_cast<const uint8_t*>(from)[i] != 0;
    } else {
      Convert(type, from, count, IsFloating(column.batch.dtype) ? column.scale : 1, elements);
    }
  });
}

bool Converts(DType from, DType to) {
  if (IsFloating(to)) return true;
  if (to == DType::kBool) return from == DType::kBool;
  return !IsFloating(from);
}

Shape SampleShape(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

absl::Status CheckType(const Column& column, const NpyLayout& layout) {
  const Shape expected = SampleShape(column.batch.shape);
  // Samples may be flat.
  const auto fits = [&](const Shape& sample) { return sample == expected || sample == Shape{NumElements(expected)}; };
  if (layout.shape.empty() || !fits(SampleShape(layout.shape))) {
    return absl::InvalidArgumentError(absl::StrCat("found an array ", ShapeString(layout.shape),
                                                   ", expected samples along its first axis, each of shape ",
                                                   ShapeString(expected)));
  }
  if (layout.shape[0] == 0) return absl::InvalidArgumentError("found no samples, expected some");
  if (!Converts(layout.type->dtype, column.batch.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("found elements ", layout.type->descr,
                                                   ", expected some that become ", DTypeName(column.batch.dtype)));
  }
  if (column.scale != 1 && !IsFloating(column.batch.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("found a scale, expected none for ", DTypeName(column.batch.dtype), " elements"));
  }
  return absl::OkStatus();
}

// Integers outside 0..classes-1, or outside the type that they become.
absl::Status CheckElements(const Column& column, DType type, const void* from, int64_t count) {
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  VisitDType(column.batch.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (std::is_integral_v<T>) {
      least = static_cast<int64_t>(std::numeric_limits<T>::min());
      if (sizeof(T) < sizeof most) most = static_cast<int64_t>(std::numeric_limits<T>::max());
    }
  });
  if (column.classes > 0) {
    least = 0;
    most = column.classes - 1;
  }
  absl::Status status;
  if (IsFloating(column.batch.dtype) || IsFloating(type)) return status;
  WithElements(type, from, [&](const auto* elements) {
    for (int64_t i = 0; i < count && status.ok(); ++i) {
      const auto element = static_cast<int64_t>(elements[i]);
      if (element < least || element > most) {
        status = absl::InvalidArgumentError(
            absl::StrCat("element ", i, ": found ", element, ", expected ", least, " to ", most));
      }
    }
  });
  return status;
}

bool EndsWithNpy(const std::string& file) { return file.size() >= 4 && file.substr(file.size() - 4) == ".npy"; }

// The layout of a text: its bytes.
absl::StatusOr<NpyLayout> TextLayout(const InputFile& file) {
  static constexpr NpyType kBytes = {"|u1", DType::kUInt8};
  return NpyLayout{&kBytes, {file.size()}, 0};
}

// Makes the layout of a list of tokens that of its samples.
absl::Status CutWindows(const Column& column, NpyLayout& layout, int64_t* stride) {
  const Shape sample = SampleShape(column.batch.shape);
  if (sample.size() != 1 || layout.shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("found tokens ", ShapeString(layout.shape), " for samples ",
                                                   ShapeString(sample), ", expected one axis of both"));
  }
  const int64_t length = sample[0], tokens = layout.shape[0];
  if (tokens <= length) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", tokens, " tokens, expected more than the ", length, " of a sample"));
  }
  *stride = column.tokens->stride > 0 ? column.tokens->stride : length;
  layout.shape = {(tokens - 1 - length) / *stride + 1, length};
  return absl::OkStatus();
}

}  // namespace

absl::Status Dataset::Add(Column column) {
  CHECK(!column.batch.shape.empty()) << column.file;
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(column.file));
  const auto named = [&](const absl::Status& status) { return ErrorAt(column.file, status); };
  absl::StatusOr<NpyLayout> layout =
      column.tokens && !EndsWithNpy(column.file) ? TextLayout(file) : ReadNpyLayout(file);
  if (!layout.ok()) return named(layout.status());
  const auto bytes = static_cast<int64_t>(DTypeSize(layout->type->dtype));
  if (layout->offset % bytes != 0) {
    return named(absl::InvalidArgumentError(
        absl::StrCat("found the elements at byte ", layout->offset, ", expected a multiple of ", bytes)));
  }
  Array array;
  array.type = layout->type;
  const int64_t elements = NumElements(layout->shape);
  int64_t first = 0;
  if (column.tokens) {
    const absl::Status windows = CutWindows(column, *layout, &array.stride);
    if (!windows.ok()) return named(windows);
    first = column.tokens->shift;
  }
  if (const absl::Status status = CheckType(column, *layout); !status.ok()) return named(status);
  const int64_t samples = layout->shape[0];
  if (size_ >= 0 && samples != size_) {
    return named(absl::InvalidArgumentError(
        absl::StrCat("found ", samples, " samples, expected ", size_, " as in ", arrays_.front().column.file)));
  }
  size_ = samples;
  array.sample = NumElements(SampleShape(layout->shape));
  if (!column.tokens) array.stride = array.sample;
  ASSIGN_OR_RETURN(array.file, file.Map());
  const char* begin = static_cast<const char*>(array.file.get()) + layout->offset;
  if (const absl::Status status = CheckElements(column, array.type->dtype, begin, elements); !status.ok()) {
    return named(status);
  }
  array.elements = begin + first * bytes;
  array.column = std::move(column);
  arrays_.push_back(std::move(array));
  return absl::OkStatus();
}

absl::StatusOr<Dataset> Dataset::Open(std::vector<Column> columns) {
  CHECK(!columns.empty());
  Dataset dataset;
  for (Column& column : columns) RETURN_IF_ERROR(dataset.Add(std::move(column)));
  return dataset;
}

absl::StatusOr<std::vector<Tensor>> Dataset::Gather(const std::vector<int64_t>& rows) const {
  std::vector<Tensor> batch;
  for (const Array& array : arrays_) {
    const TensorType& type = array.column.batch;
    CHECK(static_cast<int64_t>(rows.size()) <= type.shape[0]) << rows.size();
    ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, absl::StrCat("a batch of ", array.column.file)));
    const int64_t bytes = array.sample * static_cast<int64_t>(DTypeSize(type.dtype));
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK(rows[i] >= 0 && rows[i] < size_) << rows[i] << " of " << size_;
      ConvertTo(array.column, array.type->dtype, array.elements + rows[i] * array.stride * array.bytes(), array.sample,
                static_cast<char*>(tensor.data()) + static_cast<int64_t>(i) * bytes);
    }
    batch.push_back(std::move(tensor));
  }
  return batch;
}

std::string Dataset::Sha256Of(int64_t most) const {
  CHECK(most >= 2) << most;
  Sha256 hash;
  const int64_t count = std::min(most, size_);
  for (const Array& array : arrays_) {
    hash.Add(absl::StrCat(array.type->descr, " ", array.sample, " ", size_, " ", array.column.scale, " ",
                          array.column.batch.ToString(), "\n"));
    const int64_t bytes = array.sample * array.bytes(), stride = array.stride * array.bytes();
    // Both ends are among them.
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = count == size_ ? i : i * (size_ - 1) / (count - 1);
      hash.Add(array.elements + row * stride, static_cast<size_t>(bytes));
    }
  }
  return hash.Hex();
}

BatchOrder::BatchOrder(int64_t samples, int64_t batch, std::optional<uint64_t> seed)
    : samples_(samples), batch_(batch), seed_(seed) {
  CHECK(batch >= 1 && batch <= samples) << batch << " of " << samples;
}

std::vector<int64_t> BatchOrder::Rows(int64_t number, int64_t first, int64_t count) const {
  CHECK(first >= 0 && count >= 0 && first + count <= batch_) << first << ", " << count << " of " << batch_;
  const int64_t epoch = number / batches_per_epoch();
  std::vector<int64_t> rows;
  const int64_t begin = number % batches_per_epoch() * batch_ + first;
  for (int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
  if (seed_) {
    const KeyedPermutation order(samples_, MixBits(*seed_) ^ MixBits(~static_cast<uint64_t>(epoch)));
    for (int64_t& row : rows) row = order(row);
  }
  return rows;
}

std::vector<int64_t> RowsInOrder(int64_t samples, int64_t batch, int64_t number) {
  std::vector<int64_t> rows;
  for (int64_t i = number * batch; i < std::min(samples, (number + 1) * batch); ++i) rows.push_back(i);
  return rows;
}

}  // namespace rewright
