#include "backends/cpu/simd/simd.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/simd/split.h"
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

// Returns whether the processor multiplies tiles of bf16 and Linux saves tiles for this process, which is to ask.
bool HasTiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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

const SplitTable* SplitProducts() {
  static const bool has_tiles =
      &Simd() == &simd_avx512::kTable && OneDnnUses(dnnl_cpu_isa_avx512_core_amx) && HasTiles();
  return has_tiles ? &simd_avx512::kSplitTable : nullptr;
}

const SplitConvTable* SplitConvs() { return SplitProducts() == nullptr ? nullptr : &simd_avx512::kSplitConvTable; }

bool MultipliesTilesOfBf16() {
  static const bool has_tiles = MultipliesBf16() && OneDnnUses(dnnl_cpu_isa_avx512_core_amx) && HasTiles();
  return has_tiles;
}

WinogradTable WinogradAlgorithms() {
  if (&Simd() == &simd_avx512::kTable) return simd_avx512::kWinogradTable;
  if (&Simd() == &simd_avx2::kTable) return simd_avx2::kWinogradTable;
  return {};
}

}  // namespace rewright::cpu
