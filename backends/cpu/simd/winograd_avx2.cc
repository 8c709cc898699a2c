#define REWRIGHT_SIMD_NAMESPACE simd_avx2
#define REWRIGHT_LANES 8
#include "backends/cpu/simd/winograd.inc"
