// Arrays in NumPy's .npy files: versions 1 to 3, little-endian, row-major. A file is untrusted: header, sizes and the
// length of the data are checked before memory is taken.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/files.h"
#include "core/tensor/tensor.h"

namespace rewright {

// An element type of such files.
struct NpyType {
  const char* descr;  // as the header has it: "<f4"
  DType dtype;
};

// Contents of a header: type, shape, and the offset of the first element.
struct NpyLayout {
  const NpyType* type = nullptr;
  Shape shape;
  int64_t offset = 0;
};

// Errors: not a .npy file, an invalid header, another order or type of elements, data of another length than the shape
// requires. They do not name the file.
absl::StatusOr<NpyLayout> ReadNpyLayout(const InputFile& file);

// Reads the whole array. Further error: too little memory.
absl::StatusOr<Tensor> LoadNpy(const InputFile& file);

// Writes a temporary file and renames it. Further error: elements of type bf16, which NumPy does not have.
absl::Status SaveNpy(const std::string& path, const Tensor& tensor);

}  // namespace rewright
