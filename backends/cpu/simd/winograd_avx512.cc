#define REWRIGHT_SIMD_NAMESPACE simd_avx512
#define REWRIGHT_LANES 16
#include "backends/cpu/simd/winograd.inc"
