#include "backends/cuda/codegen/kernel_text.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rewright::cuda {
namespace {

int64_t ToInteger(double a) {
  if (std::isnan(a)) return 0;
  if (a >= 9223372036854775808.0) return INT64_MAX;
  if (a < -9223372036854775808.0) return INT64_MIN;
  return static_cast<int64_t>(a);
}

}  // namespace

const char* TypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float";
    case DType::kFloat64: return "double";
    case DType::kInt64: return "int64";
    case DType::kInt32: return "int";
    case DType::kBool: return "boolean";
    default: return "?";
  }
}

const char* StorageName(DType dtype, Storage storage) {
  switch (storage) {
    case Storage::kNative: break;
    case Storage::kFp16: return "fp16";
    case Storage::kBf16: return "bf16";
  }
  return TypeName(dtype);
}

int StorageBytes(DType dtype, Storage storage) {
  return storage == Storage::kNative ? static_cast<int>(DTypeSize(dtype)) : 2;
}

std::string VectorName(DType dtype, Storage storage, int width) {
  return absl::StrCat("Vec<", StorageName(dtype, storage), ", ", width, ">");
}

std::string RealLiteral(double value, DType dtype) {
  const char* type = dtype == DType::kFloat32 ? "float" : "double";
  if (dtype == DType::kFloat32) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return absl::StrCat("(", type, ")__longlong_as_double(0x7ff8000000000000LL)");
  if (std::isinf(value)) {
    return absl::StrCat("(", value < 0 ? "-" : "", "(", type, ")__longlong_as_double(0x7ff0000000000000LL))");
  }
  std::string text = absl::StrFormat("%a", value);
  if (dtype == DType::kFloat32) text += "f";
  return value < 0 || std::signbit(value) ? absl::StrCat("(", text, ")") : text;
}

std::string IntegerLiteral(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return absl::StrCat("(boolean)", value != 0 ? 1 : 0);
  if (dtype == DType::kInt32) {
    const int32_t narrow = static_cast<int32_t>(value);
    return narrow == INT32_MIN ? "(-2147483647-1)" : absl::StrCat("(", narrow, ")");
  }
  if (value == INT64_MIN) return "(int64)(-9223372036854775807LL-1)";
  return absl::StrCat("(int64)(", value, "LL)");
}

std::string Literal(double value, DType dtype) {
  return IsFloating(dtype) ? RealLiteral(value, dtype)
                           : IntegerLiteral(dtype == DType::kBool ? value != 0 : ToInteger(value), dtype);
}

std::string Identity(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::kSum: return Literal(0, dtype);
    case ReduceKind::kProd: return Literal(1, dtype);
    case ReduceKind::kMax:
    case ReduceKind::kArgMax:
      if (dtype == DType::kInt64) return IntegerLiteral(INT64_MIN, dtype);
      if (dtype == DType::kInt32) return IntegerLiteral(INT32_MIN, dtype);
      return dtype == DType::kBool ? Literal(0, dtype) : RealLiteral(-INFINITY, dtype);
    case ReduceKind::kMin:
    case ReduceKind::kArgMin:
      if (dtype == DType::kInt64) return IntegerLiteral(INT64_MAX, dtype);
      if (dtype == DType::kInt32) return IntegerLiteral(INT32_MAX, dtype);
      return dtype == DType::kBool ? Literal(1, dtype) : RealLiteral(INFINITY, dtype);
  }
  return "?";
}

const char* ReduceOp(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum: return "Sum";
    case ReduceKind::kProd: return "Prod";
    case ReduceKind::kMax: return "Max";
    case ReduceKind::kMin: return "Min";
    case ReduceKind::kArgMax: return "ArgMax";
    case ReduceKind::kArgMin: return "ArgMin";
  }
  return "?";
}

}  // namespace rewright::cuda
