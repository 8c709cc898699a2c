#include "backends/cpu/simd/simd.h"

#include "backends/cpu/simd/winograd.h"
#include "oneapi/dnnl/dnnl.h"

namespace rewright::cpu {
namespace {

// oneDNN is held to an instruction set by DNNL_MAX_CPU_ISA; our own kernels then are too, so that both cut channels
// into the same blocks.
bool OneDnnUses(dnnl_cpu_isa_t isa) {
  const dnnl_cpu_isa_t effective = dnnl_get_effective_cpu_isa();
  return effective == dnnl_cpu_isa_all || (effective & isa) == isa;
}

}  // namespace

const SimdTable& Simd() {
  static const SimdTable& table = []() -> const SimdTable& {
    __builtin_cpu_init();
    if (OneDnnUses(dnnl_cpu_isa_avx512_core) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      return simd_avx512::kTable;
    }
    if (OneDnnUses(dnnl_cpu_isa_avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return simd_avx2::kTable;
    return simd_base::kTable;
  }();
  return table;
}

bool MultipliesBf16() {
  __builtin_cpu_init();
  return OneDnnUses(dnnl_cpu_isa_avx512_core_bf16) && __builtin_cpu_supports("avx512bf16");
}

bool MultipliesTilesOfBf16() {
  return MultipliesBf16() && OneDnnUses(dnnl_cpu_isa_avx512_core_amx) && __builtin_cpu_supports("amx-tile") != 0 &&
         __builtin_cpu_supports("amx-bf16") != 0;
}

WinogradTable WinogradAlgorithms() {
  if (&Simd() == &simd_avx512::kTable) return simd_avx512::kWinogradTable;
  if (&Simd() == &simd_avx2::kTable) return simd_avx2::kWinogradTable;
  return {};
}

}  // namespace rewright::cpu
