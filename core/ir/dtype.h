// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rewright {

enum class DType : uint8_t { kFloat32, kFloat64, kInt64, kInt32, kBool };

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32, DType::kBool};

// Printed names: f32, f64, i64, i32, bool.
const char* DTypeName(DType type);
// The inverse of DTypeName; false when `name` is not the name of a type.
bool ParseDType(const std::string& name, DType* type);
// Bytes of one element in memory (a bool takes one byte).
size_t DTypeSize(DType type);

inline bool IsFloating(DType type) { return type == DType::kFloat32 || type == DType::kFloat64; }
inline bool IsInteger(DType type) { return type == DType::kInt64 || type == DType::kInt32; }

}  // namespace rewright
