#include "core/tensor/dtype.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/check.h"

namespace rewright {
namespace {

// A floating type: the number of significant bits (the leading one included), and the least and greatest exponent of a
// normal number.
struct FloatFormat {
  int digits;
  int least, greatest;
};

FloatFormat FormatOf(DType type) {
  switch (type) {
    case DType::kFloat16: return {11, -14, 15};
    case DType::kBFloat16: return {8, -126, 127};
    case DType::kFloat32: return {24, -126, 127};
    case DType::kFloat64: return {53, -1022, 1023};
    default: break;
  }
  CHECK(false) << "no floating type: " << DTypeName(type);
  return {};
}

template <typename From, typename To>
void Convert(const From* __restrict in, To* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
}

#if defined(__x86_64__)
constexpr int64_t kLanes = 8;

bool HasF16c() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}

// The instructions give the same bits as Float16.
__attribute__((target("avx,f16c"))) void ConvertLanes(const float* in, Float16* out, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
}
__attribute__((target("avx,f16c"))) void ConvertLanes(const Float16* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
}

template <typename From, typename To>
void ConvertFast(const From* in, To* out, int64_t n) {
  const int64_t whole = HasF16c() ? n / kLanes * kLanes : 0;
  ConvertLanes(in, out, whole);
  for (int64_t i = whole; i < n; ++i) out[i] = static_cast<To>(in[i]);
}
void Convert(const float* in, Float16* out, int64_t n) { ConvertFast(in, out, n); }
void Convert(const Float16* in, float* out, int64_t n) { ConvertFast(in, out, n); }
#endif

}  // namespace

const char* DTypeName(DType type) {
  return VisitDType(type, [](auto t) { return decltype(t)::kName; });
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

double RoundingOf(DType type) { return std::ldexp(1.0, -FormatOf(type).digits); }

double LargestOf(DType type) {
  const FloatFormat format = FormatOf(type);
  return std::ldexp(2 - std::ldexp(1.0, 1 - format.digits), format.greatest);
}

double SmallestNormalOf(DType type) { return std::ldexp(1.0, FormatOf(type).least); }

double NearestOf(DType type, double number) {
  if (!IsFloating(type)) return std::trunc(number);
  if (type == DType::kFloat64 || number == 0 || !std::isfinite(number)) return number;
  if (type == DType::kFloat32) return static_cast<double>(static_cast<float>(number));
  const FloatFormat format = FormatOf(type);
  int exponent = 0;
  std::frexp(number, &exponent);  // |number| is in [2^(exponent - 1), 2^exponent)
  const int unit = std::max(exponent - 1, format.least) - (format.digits - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(number, -unit)), unit);
  return std::abs(rounded) > LargestOf(type) ? std::copysign(std::numeric_limits<double>::infinity(), number) : rounded;
}

void ConvertElements(DType from, const void* in, DType to, void* out, int64_t n) {
  CHECK(IsFloating(from) == IsFloating(to)) << DTypeName(from) << " to " << DTypeName(to);
  VisitDType(from, [&](auto a) {
    VisitDType(to, [&](auto b) {
      using From = typename decltype(a)::Type;
      using To = typename decltype(b)::Type;
      if constexpr (std::is_integral_v<From> == std::is_integral_v<To>) {
        Convert(static_cast<const From*>(in), static_cast<To*>(out), n);
      }
    });
  });
}

}  // namespace rewright
