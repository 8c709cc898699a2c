#include "backends/cuda/kernel_prelude.h"

namespace rewright::cuda {

const char kKernelPrelude[] = R"cuda(
typedef unsigned char boolean;
typedef long long int64;

// ---- indices
__device__ inline int64 floor_div(int64 a, int64 b) { int64 q = a / b; return a % b < 0 ? q - 1 : q; }
__device__ inline int floor_div(int a, int b) { int q = a / b; return a % b < 0 ? q - 1 : q; }
__device__ inline int64 floor_div(int64 a, int b) { return floor_div(a, (int64)b); }
__device__ inline int64 floor_mod(int64 a, int64 b) { int64 r = a % b; return r < 0 ? r + b : r; }
__device__ inline int floor_mod(int a, int b) { int r = a % b; return r < 0 ? r + b : r; }
__device__ inline int64 floor_mod(int64 a, int b) { return floor_mod(a, (int64)b); }
__device__ inline int index_min(int a, int b) { return a < b ? a : b; }
__device__ inline int64 index_min(int64 a, int64 b) { return a < b ? a : b; }
__device__ inline int64 index_min(int64 a, int b) { return a < b ? a : (int64)b; }
__device__ inline int64 index_min(int a, int64 b) { return a < b ? (int64)a : b; }
__device__ inline int index_max(int a, int b) { return a > b ? a : b; }
__device__ inline int64 index_max(int64 a, int64 b) { return a > b ? a : b; }
__device__ inline int64 index_max(int64 a, int b) { return a > b ? a : (int64)b; }
__device__ inline int64 index_max(int a, int64 b) { return a > b ? (int64)a : b; }

// ---- elements
#define REAL_FUNCTIONS(T, F)                                                                     \
  __device__ inline T op_add(T a, T b) { return a + b; }                                         \
  __device__ inline T op_sub(T a, T b) { return a - b; }                                         \
  __device__ inline T op_mul(T a, T b) { return a * b; }                                         \
  __device__ inline T op_div(T a, T b) { return a / b; }                                         \
  __device__ inline T op_neg(T a) { return -a; }                                                 \
  __device__ inline T op_max(T a, T b) { return a > b || a != a ? a : b; }                       \
  __device__ inline T op_min(T a, T b) { return a < b || a != a ? a : b; }                       \
  __device__ inline T op_pow(T a, T b) { return F(pow)(a, b); }                                  \
  __device__ inline T op_exp(T a) { return F(exp)(a); }                                          \
  __device__ inline T op_log(T a) { return F(log)(a); }                                          \
  __device__ inline T op_sqrt(T a) { return F(sqrt)(a); }                                        \
  __device__ inline T op_erf(T a) { return F(erf)(a); }                                          \
  __device__ inline T op_tanh(T a) { return F(tanh)(a); }                                        \
  __device__ inline T op_sigmoid(T a) { return (T)1 / ((T)1 + F(exp)(-a)); }                     \
  __device__ inline T op_abs(T a) { return F(fabs)(a); }                                         \
  __device__ inline T op_floor(T a) { return F(floor)(a); }                                      \
  __device__ inline T op_ceil(T a) { return F(ceil)(a); }                                        \
  __device__ inline bool better(T a, T b) { return a > b || (a != a && b == b); }                \
  __device__ inline bool worse(T a, T b) { return a < b || (a != a && b == b); }
#define FLOAT_NAME(name) name##f
#define DOUBLE_NAME(name) name
REAL_FUNCTIONS(float, FLOAT_NAME)
REAL_FUNCTIONS(double, DOUBLE_NAME)

#define INTEGER_FUNCTIONS(T, U)                                                                  \
  __device__ inline T op_add(T a, T b) { return (T)((U)a + (U)b); }                              \
  __device__ inline T op_sub(T a, T b) { return (T)((U)a - (U)b); }                              \
  __device__ inline T op_mul(T a, T b) { return (T)((U)a * (U)b); }                              \
  __device__ inline T op_neg(T a) { return (T)((U)0 - (U)a); }                                   \
  __device__ inline T op_div(T a, T b) { return b == 0 ? (T)0 : b == -1 ? op_neg(a) : a / b; }   \
  __device__ inline T op_max(T a, T b) { return a > b ? a : b; }                                 \
  __device__ inline T op_min(T a, T b) { return a < b ? a : b; }                                 \
  __device__ inline T op_abs(T a) { return a < 0 ? op_neg(a) : a; }                              \
  __device__ inline T op_floor(T a) { return a; }                                                \
  __device__ inline T op_ceil(T a) { return a; }                                                 \
  __device__ inline bool better(T a, T b) { return a > b; }                                      \
  __device__ inline bool worse(T a, T b) { return a < b; }                                       \
  __device__ inline T op_pow(T a, T b) {                                                         \
    if (b < 0) return a == 1 ? (T)1 : a == -1 ? (b % 2 == 0 ? (T)1 : (T)-1) : (T)0;              \
    T result = 1;                                                                                \
    for (U rest = (U)b; rest != 0; rest >>= 1) {                                                 \
      if (rest & 1) result = op_mul(result, a);                                                  \
      a = op_mul(a, a);                                                                          \
    }                                                                                            \
    return result;                                                                               \
  }
INTEGER_FUNCTIONS(int, unsigned)
INTEGER_FUNCTIONS(int64, unsigned long long)

__device__ inline boolean op_add(boolean a, boolean b) { return a | b; }
__device__ inline boolean op_mul(boolean a, boolean b) { return a & b; }
__device__ inline boolean op_max(boolean a, boolean b) { return a | b; }
__device__ inline boolean op_min(boolean a, boolean b) { return a & b; }
__device__ inline bool better(boolean a, boolean b) { return a > b; }
__device__ inline bool worse(boolean a, boolean b) { return a < b; }

// ---- conversions
__device__ inline int64 to_integer(double a) {
  if (a != a) return 0;
  if (a >= 9223372036854775808.0) return 0x7fffffffffffffffLL;
  if (a < -9223372036854775808.0) return -0x7fffffffffffffffLL - 1;
  return (int64)a;
}
__device__ inline int64 to_integer(float a) { return to_integer((double)a); }
__device__ inline int64 to_integer(int64 a) { return a; }
__device__ inline int64 to_integer(int a) { return a; }
__device__ inline int64 to_integer(boolean a) { return a; }

// ---- reals in 16 bits
struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };
// Neighbours that one access moves.
template <class T, int n> struct alignas(sizeof(T) * n) Vec { T at[n]; };
__device__ inline float from_bits(unsigned a) { float b; memcpy(&b, &a, 4); return b; }
__device__ inline unsigned to_bits(float a) { unsigned b; memcpy(&b, &a, 4); return b; }
__device__ inline float load(float a) { return a; }
__device__ inline double load(double a) { return a; }
__device__ inline int64 load(int64 a) { return a; }
__device__ inline int load(int a) { return a; }
__device__ inline boolean load(boolean a) { return a; }
__device__ inline float load(bf16 a) { return from_bits((unsigned)a.bits << 16); }
__device__ inline void store(bf16* to, float a) {
  const unsigned bits = to_bits(a);
  // To nearest, ties to even; a NaN stays one.
  to->bits = (unsigned short)(a != a ? (bits >> 16) | 64u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#ifdef __CUDA_ARCH__
__device__ inline float load(fp16 a) { float b; asm("cvt.f32.f16 %0, %1;" : "=f"(b) : "h"(a.bits)); return b; }
__device__ inline void store(fp16* to, float a) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(a)); }
#else
__device__ inline float load(fp16 a) {
  const unsigned exponent = a.bits >> 10 & 31u, mantissa = a.bits & 1023u;
  const float size = exponent == 31u ? (mantissa != 0 ? NAN : INFINITY)
                     : exponent == 0 ? ldexpf((float)mantissa, -24)
                                     : ldexpf((float)(mantissa | 1024u), (int)exponent - 25);
  return a.bits >> 15 ? -size : size;
}
__device__ inline void store(fp16* to, float a) {
  const unsigned sign = to_bits(a) >> 31 << 15;
  const float size = fabsf(a);
  if (a != a) { to->bits = (unsigned short)(sign | 0x7e00u); return; }
  if (size == 0.0f) { to->bits = (unsigned short)sign; return; }
  if (size >= 65520.0f) { to->bits = (unsigned short)(sign | 0x7c00u); return; }
  int exponent = 0;
  frexpf(size, &exponent);
  const int step = exponent - 11 > -24 ? exponent - 11 : -24;  // of the last bit
  const unsigned units = (unsigned)nearbyintf(ldexpf(size, -step));
  to->bits = (unsigned short)(sign | ((unsigned)(step + 24) * 1024u + units));
}
#endif
template <class T> __device__ inline void store(T* to, T a) { *to = a; }

// ---- reductions over a block of kThreads threads, the result in every thread
template <class T> struct Best { T value; int64 at; };
struct Sum { template <class T> __device__ static T Of(T a, T b) { return op_add(a, b); } };
struct Prod { template <class T> __device__ static T Of(T a, T b) { return op_mul(a, b); } };
struct Max { template <class T> __device__ static T Of(T a, T b) { return op_max(a, b); } };
struct Min { template <class T> __device__ static T Of(T a, T b) { return op_min(a, b); } };
// The better value; of equal ones the one that comes first. `at` is -1 where there is none.
struct ArgMax {
  template <class T> __device__ static Best<T> Of(Best<T> a, Best<T> b) {
    if (a.at < 0 || (b.at >= 0 && better(b.value, a.value))) return b;
    if (b.at < 0 || better(a.value, b.value)) return a;
    return a.at < b.at ? a : b;
  }
};
struct ArgMin {
  template <class T> __device__ static Best<T> Of(Best<T> a, Best<T> b) {
    if (a.at < 0 || (b.at >= 0 && worse(b.value, a.value))) return b;
    if (b.at < 0 || worse(a.value, b.value)) return a;
    return a.at < b.at ? a : b;
  }
};
template <class T> __device__ inline T lane_xor(T a, int lane) { return __shfl_xor_sync(0xffffffffu, a, lane); }
__device__ inline boolean lane_xor(boolean a, int lane) { return (boolean)__shfl_xor_sync(0xffffffffu, (int)a, lane); }
template <class T> __device__ inline Best<T> lane_xor(Best<T> a, int lane) {
  Best<T> other;
  other.value = lane_xor(a.value, lane);
  other.at = lane_xor(a.at, lane);
  return other;
}
template <class Op, int kThreads, class T> __device__ inline T block_reduce(T value) {
  for (int lane = 16; lane > 0; lane >>= 1) value = Op::Of(value, lane_xor(value, lane));
  if (kThreads > 32) {
    __shared__ __align__(16) char memory[sizeof(T) * 32];
    T* parts = (T*)memory;
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < kThreads / 32; ++warp) value = Op::Of(value, parts[warp]);
  }
  return value;
}
)cuda";

}  // namespace rewright::cuda
