#define REWRIGHT_SIMD_NAMESPACE simd_avx2
#define REWRIGHT_SIMD_NAME "avx2"
#define REWRIGHT_LANES 8
#define REWRIGHT_GEMM_ROWS 6
#define REWRIGHT_GEMM_VECTORS 2
#include "backends/cpu/simd/kernels.inc"
