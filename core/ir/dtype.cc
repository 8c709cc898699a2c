#include "core/ir/dtype.h"

#include "core/base/check.h"

namespace rewright {

const char* DTypeName(DType type) {
  switch (type) {
    case DType::kFloat32: return "f32";
    case DType::kFloat64: return "f64";
    case DType::kInt64: return "i64";
    case DType::kInt32: return "i32";
    case DType::kBool: return "bool";
  }
  CHECK(false) << "no such type: " << static_cast<int>(type);
  return "";
}

bool ParseDType(const std::string& name, DType* type) {
  for (DType candidate : kAllDTypes) {
    if (name == DTypeName(candidate)) {
      *type = candidate;
      return true;
    }
  }
  return false;
}

size_t DTypeSize(DType type) {
  switch (type) {
    case DType::kFloat32: return 4;
    case DType::kFloat64: return 8;
    case DType::kInt64: return 8;
    case DType::kInt32: return 4;
    case DType::kBool: return 1;
  }
  CHECK(false) << "no such type: " << static_cast<int>(type);
  return 0;
}

}  // namespace rewright
