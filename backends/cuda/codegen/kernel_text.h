// The text of generated kernels: words for types, functions, literals.
#pragma once

#include <string>

#include "backends/cuda/codegen/kernel_source.h"
#include "core/ir/expr.h"

namespace rewright::cuda {

const char* TypeName(DType dtype);
const char* StorageName(DType dtype, Storage storage);
int StorageBytes(DType dtype, Storage storage);
// The type of `width` neighbours that are moved at once.
std::string VectorName(DType dtype, Storage storage, int width);
std::string RealLiteral(double value, DType dtype);
std::string IntegerLiteral(int64_t value, DType dtype);
// A real number as an element of any type.
std::string Literal(double value, DType dtype);
// The number that a reduction starts from.
std::string Identity(ReduceKind kind, DType dtype);
const char* ReduceOp(ReduceKind kind);

}  // namespace rewright::cuda
