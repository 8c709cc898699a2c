#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

const SimdTable& Simd() {
  static const SimdTable& table = []() -> const SimdTable& {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return simd_avx512::kTable;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return simd_avx2::kTable;
    return simd_base::kTable;
  }();
  return table;
}

}  // namespace rewright::cpu
