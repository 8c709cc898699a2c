// Element types of tensors: one row each, which all readers use by VisitDType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/tensor/float16.h"

namespace rewright {

// X(Id, name, type in memory, type in which elements are computed).
//
// Types of 8 and 16 bits are types of memory: an operator's elements are computed in the wider type and rounded once
// (integers: wrapped) where its result is stored (docs/decisions/054).
#define REWRIGHT_DTYPES(X)               \
  X(Float32, "f32", float, Float32)      \
  X(Float64, "f64", double, Float64)     \
  X(Int64, "i64", int64_t, Int64)        \
  X(Int32, "i32", int32_t, Int32)        \
  X(Bool, "bool", uint8_t, Bool)         \
  X(Float16, "f16", Float16, Float32)    \
  X(BFloat16, "bf16", BFloat16, Float32) \
  X(Int8, "i8", int8_t, Int32)           \
  X(UInt8, "u8", uint8_t, Int32)         \
  X(Int16, "i16", int16_t, Int32)        \
  X(UInt16, "u16", uint16_t, Int32)      \
  X(UInt32, "u32", uint32_t, Int64)      \
  X(UInt64, "u64", uint64_t, UInt64)

enum class DType : uint8_t {
#define REWRIGHT_DTYPE(Id, ...) k##Id,
  REWRIGHT_DTYPES(REWRIGHT_DTYPE)
#undef REWRIGHT_DTYPE
};

inline constexpr DType kAllDTypes[] = {
#define REWRIGHT_DTYPE(Id, ...) DType::k##Id,
    REWRIGHT_DTYPES(REWRIGHT_DTYPE)
#undef REWRIGHT_DTYPE
};

// The types that are computed in themselves. Rules are proved for these except u64
// (substitutions/instance/instances.h).
inline constexpr DType kPlainDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32, DType::kBool};

// An element type as a C++ type: Type is the type in memory.
template <DType dtype>
struct DTypeTag;
#define REWRIGHT_DTYPE(Id, name, type, computed)           \
  template <>                                              \
  struct DTypeTag<DType::k##Id> {                          \
    using Type = type;                                     \
    static constexpr DType kDType = DType::k##Id;          \
    static constexpr DType kComputed = DType::k##computed; \
    static constexpr const char* kName = name;             \
  };
REWRIGHT_DTYPES(REWRIGHT_DTYPE)
#undef REWRIGHT_DTYPE

// Calls f with the type's DTypeTag.
template <typename F>
auto VisitDType(DType dtype, const F& f) {
  switch (dtype) {
#define REWRIGHT_DTYPE(Id, ...) \
  case DType::k##Id: return f(DTypeTag<DType::k##Id>());
    REWRIGHT_DTYPES(REWRIGHT_DTYPE)
#undef REWRIGHT_DTYPE
  }
  __builtin_unreachable();
}

// Printed names: f32, bf16, u8, bool.
const char* DTypeName(DType type);
// Finds the type of a name; false if `name` is not the name of a type.
bool ParseDType(const std::string& name, DType* type);

// Returns the bytes of one element in memory (a bool takes one byte).
inline size_t DTypeSize(DType type) {
  return VisitDType(type, [](auto t) { return sizeof(typename decltype(t)::Type); });
}

// Returns the type in which elements of that type are computed.
inline DType ComputedDType(DType type) {
  return VisitDType(type, [](auto t) { return decltype(t)::kComputed; });
}
// True if elements are computed in a wider type than they are stored in.
inline bool IsNarrow(DType type) { return ComputedDType(type) != type; }

inline bool IsFloating(DType type) {
  const DType computed = ComputedDType(type);
  return computed == DType::kFloat32 || computed == DType::kFloat64;
}
// 16-bit floats.
inline bool IsHalf(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }
inline bool IsInteger(DType type) { return !IsFloating(type) && type != DType::kBool; }
inline bool IsUnsigned(DType type) {
  return IsInteger(type) && VisitDType(type, [](auto t) { return std::is_unsigned_v<typename decltype(t)::Type>; });
}
// Returns the number of bits of an integer in memory.
inline int BitsOf(DType type) { return static_cast<int>(DTypeSize(type)) * 8; }

// Returns the unit roundoff of a floating type, half a unit in the last place: the greatest relative error of rounding
// a number to it.
double RoundingOf(DType type);
// Return the largest finite number of a floating type, and the smallest normal one.
double LargestOf(DType type);
double SmallestNormalOf(DType type);
// Rounds to the nearest number of a floating type (halves to the even one; an infinity beyond the largest); truncates
// to an integer type.
double NearestOf(DType type, double number);

// Writes n elements of type `from` as elements of type `to`: both floating (rounded to the nearest, an f64 by way of
// f32 where 16 bits are left of it), or neither (integers keep their lowest bits). Elements are aligned to their size;
// the two places do not overlap.
void ConvertElements(DType from, const void* in, DType to, void* out, int64_t n);

}  // namespace rewright
