#define REWRIGHT_SIMD_NAMESPACE simd_base
#define REWRIGHT_SIMD_NAME "base"
#define REWRIGHT_LANES 4
#define REWRIGHT_GEMM_ROWS 6
#define REWRIGHT_GEMM_VECTORS 2
#include "backends/cpu/simd/kernels.inc"
