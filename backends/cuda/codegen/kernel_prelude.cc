#include "backends/cuda/codegen/kernel_prelude.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/ir/functions.h"

namespace rewright::cuda {
namespace {

const char kIndices[] = R"cuda(
typedef unsigned char boolean;
typedef long long int64;
typedef unsigned long long uint64;

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
template <class T> struct UnsignedOf;
template <> struct UnsignedOf<int> { typedef unsigned type; };
template <> struct UnsignedOf<int64> { typedef uint64 type; };
template <class T> __device__ inline T IntegerPower(T a, T b) {
  typedef typename UnsignedOf<T>::type U;
  if (b < 0) return a == 1 ? (T)1 : a == -1 ? (b % 2 == 0 ? (T)1 : (T)-1) : (T)0;
  U result = 1, factor = (U)a;
  for (U rest = (U)b; rest != 0; rest >>= 1) {
    if (rest & 1) result *= factor;
    factor *= factor;
  }
  return (T)result;
}
)cuda";

const char kRandomBits[] =
#define REWRIGHT_SOURCE(...) #__VA_ARGS__
#include "core/tensor/random_bits.inc"
#undef REWRIGHT_SOURCE
    ;

// Definitions of a function, as text.
struct Definition {
  const char* name;
  int arity;
  const char* real;
  const char* integer;
  const char* boolean;
};
constexpr Definition kDefinitions[] = {
#define REWRIGHT_REAL(Id, name, summary, low, high, traits, real, ...) {name, 1, #real, "NONE", "NONE"},
#define REWRIGHT_UNARY(Id, name, traits, real, integer, boolean, ...) {name, 1, #real, #integer, #boolean},
#define REWRIGHT_BINARY(Id, name, sign, traits, real, integer, boolean, ...) {name, 2, #real, #integer, #boolean},
#include "core/ir/functions.def"
};

// The functions of elements of one type, and what is better and worse for argmax and argmin: of floats the first NaN.
std::string FunctionsOf(const char* type, const char* unsigned_type, const char* Definition::*definition) {
  const bool real = definition == &Definition::real;
  std::string text = absl::StrCat("#define T ", type, "\n#define U ", unsigned_type, "\n");
  if (real) absl::StrAppend(&text, "#define MATH(name) name", std::strcmp(type, "float") == 0 ? "##f" : "", "\n");
  for (const Definition& fn : kDefinitions) {
    if (std::strcmp(fn.*definition, "NONE") == 0) continue;
    const char* result = FnHas(FindFn(fn.name)->fn, FnTrait::kCompares) ? "boolean" : "T";
    absl::StrAppend(&text, "__device__ inline ", result, " op_", fn.name, "(T a", fn.arity == 2 ? ", T b" : "",
                    ") { return (", result, ")(", fn.*definition, "); }\n");
  }
  const char* first_nan = real ? " || (a != a && b == b)" : "";
  absl::StrAppend(&text, "__device__ inline bool better(T a, T b) { return a > b", first_nan, "; }\n",
                  "__device__ inline bool worse(T a, T b) { return a < b", first_nan, "; }\n#undef T\n#undef U\n",
                  real ? "#undef MATH\n" : "");
  return text;
}

const char kConversionsAndReductions[] = R"cuda(
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
// Two neighbours at an address that is a multiple of 4, by one instruction where there is one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline void store_pair(bf16* to, float a, float b) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  *(unsigned*)to = both;
}
__device__ inline void store_pair(fp16* to, float a, float b) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  *(unsigned*)to = both;
}
#else
template <class T> __device__ inline void store_pair(T* to, float a, float b) { store(to, a); store(to + 1, b); }
#endif

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
// Reduces over the threads with the same remainder by kColumns.
template <int kColumns, class Op, int kThreads, class T> __device__ inline T column_reduce(T value) {
  __shared__ __align__(16) char memory[sizeof(T) * kThreads];
  T* parts = (T*)memory;
  __syncthreads();
  parts[threadIdx.x] = value;
  __syncthreads();
  value = parts[threadIdx.x % kColumns];
  for (int i = threadIdx.x % kColumns + kColumns; i < kThreads; i += kColumns) value = Op::Of(value, parts[i]);
  return value;
}
)cuda";

}  // namespace

const std::string& KernelPrelude() {
  // A function of integers that has no value gives 0.
  static const auto* const prelude = new std::string(absl::StrCat(
      kIndices, "#define FUNCTION __device__ inline\n", kRandomBits, "\n#undef FUNCTION\n",
      "#define PARTIAL(condition, value) ((condition) ? (value) : T(0))\n",
      FunctionsOf("float", "unsigned", &Definition::real), FunctionsOf("double", "uint64", &Definition::real),
      FunctionsOf("int", "unsigned", &Definition::integer), FunctionsOf("int64", "uint64", &Definition::integer),
      FunctionsOf("boolean", "boolean", &Definition::boolean), "#undef PARTIAL\n", kConversionsAndReductions));
  return *prelude;
}

}  // namespace rewright::cuda
