#include "core/ir/convert.h"

#include <type_traits>

#include "core/base/check.h"

namespace rewright {

void ConvertElements(DType from, const void* in, DType to, void* out, int64_t n) {
  CHECK(IsFloating(from) == IsFloating(to)) << DTypeName(from) << " to " << DTypeName(to);
  VisitDType(from, [&](auto a) {
    VisitDType(to, [&](auto b) {
      using From = typename decltype(a)::Type;
      using To = typename decltype(b)::Type;
      if constexpr (std::is_integral_v<From> == std::is_integral_v<To>) {
        const From* __restrict source = static_cast<const From*>(in);
        To* __restrict target = static_cast<To*>(out);
        for (int64_t i = 0; i < n; ++i) target[i] = static_cast<To>(source[i]);
      }
    });
  });
}

}  // namespace rewright
