#define REWRIGHT_SIMD_NAMESPACE simd_avx512
#define REWRIGHT_SIMD_NAME "avx512"
#define REWRIGHT_LANES 16
#define REWRIGHT_GEMM_ROWS 8
#define REWRIGHT_GEMM_VECTORS 2
#include "backends/cpu/simd/kernels.inc"
