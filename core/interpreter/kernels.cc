#include "core/interpreter/kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/check.h"
#include "core/interpreter/arith.h"
#include "core/ir/function_values.h"

namespace rewright::interp {
namespace {

// ---------------------------------------------------------------- loops

template <Fn fn, class T, class R>
REWRIGHT_CLONES void UnaryLoop(void* out_p, const void* a_p, int64_t n) {
  R* out = static_cast<R*>(out_p);
  const T* a = static_cast<const T*>(a_p);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(FnValue<fn>(a[i]));
}

template <Fn fn, class T, class R>
REWRIGHT_CLONES void BinaryLoop(void* out_p, const void* a_p, int64_t stride_a, const void* b_p, int64_t stride_b,
                                int64_t n) {
  R* __restrict out = static_cast<R*>(out_p);
  const T* a = static_cast<const T*>(a_p);
  const T* b = static_cast<const T*>(b_p);
  if (stride_a == 1 && stride_b == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(FnValue<fn>(a[i], b[i]));
  } else if (stride_a == 1) {
    const T y = *b;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(FnValue<fn>(a[i], y));
  } else if (stride_b == 1) {
    const T x = *a;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(FnValue<fn>(x, b[i]));
  } else {
    std::fill(out, out + n, static_cast<R>(FnValue<fn>(*a, *b)));
  }
}

template <Fn fn, class T>
bool PartialLoop(void* out_p, const void* a_p, int64_t stride_a, const void* b_p, int64_t stride_b, const uint8_t* mask,
                 int64_t stride_mask, int64_t n) {
  T* out = static_cast<T*>(out_p);
  const T* a = static_cast<const T*>(a_p);
  const T* b = static_cast<const T*>(b_p);
  bool ok = true;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = T{};
    if (mask != nullptr && !mask[i * stride_mask]) continue;
    const Partial<T> value = FnValue<fn>(a[i * stride_a], b[i * stride_b]);
    ok &= value.exists;
    out[i] = value.exists ? value.value : static_cast<T>(-1);
  }
  return ok;
}

template <Fn fn, class T>
REWRIGHT_CLONES void AccumulateLoop(void* acc_p, const void* value_p, int64_t stride, const uint8_t* mask,
                                    int64_t stride_mask, int64_t n) {
  T* __restrict acc = static_cast<T*>(acc_p);
  const T* value = static_cast<const T*>(value_p);
  if (mask != nullptr && stride_mask == 0) {
    if (!*mask) return;
    mask = nullptr;
  }
  if (mask != nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      const T next = FnValue<fn>(acc[i], value[i * stride]);
      acc[i] = mask[i] ? next : acc[i];
    }
  } else if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) acc[i] = FnValue<fn>(acc[i], value[i]);
  } else {
    const T x = *value;
    for (int64_t i = 0; i < n; ++i) acc[i] = FnValue<fn>(acc[i], x);
  }
}

template <class T>
REWRIGHT_CLONES void MulAddLoop(void* acc_p, const void* a_p, int64_t stride_a, const void* b_p, int64_t stride_b,
                                int64_t n) {
  T* __restrict acc = static_cast<T*>(acc_p);
  const T* a = static_cast<const T*>(a_p);
  const T* b = static_cast<const T*>(b_p);
  if (stride_a == 0) {
    std::swap(a, b);
    std::swap(stride_a, stride_b);
  }
  if (stride_b == 0) {
    const T y = *b;
    if (stride_a == 0) {
      const T product = FnValue<Fn::kMul>(*a, y);
      for (int64_t i = 0; i < n; ++i) acc[i] = FnValue<Fn::kAdd>(acc[i], product);
    } else {
      for (int64_t i = 0; i < n; ++i) acc[i] = FnValue<Fn::kAdd>(acc[i], static_cast<T>(FnValue<Fn::kMul>(a[i], y)));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) acc[i] = FnValue<Fn::kAdd>(acc[i], static_cast<T>(FnValue<Fn::kMul>(a[i], b[i])));
  }
}

template <class A, bool kMax>
void ArgLoop(void* best_p, int64_t* position, const void* value_p, int64_t stride, const uint8_t* mask,
             int64_t stride_mask, int64_t at, int64_t n) {
  using T = typename A::T;
  T* best = static_cast<T*>(best_p);
  const T* value = static_cast<const T*>(value_p);
  for (int64_t i = 0; i < n; ++i) {
    if (mask != nullptr && !mask[i * stride_mask]) continue;
    const T candidate = value[i * stride];
    if (position[i] < 0 || (kMax ? A::Better(candidate, best[i]) : A::Worse(candidate, best[i]))) {
      best[i] = candidate;
      position[i] = at;
    }
  }
}

// Converts between numbers, by value.
template <class From, class To>
void CastLoop(void* out_p, const void* a_p, int64_t n) {
  using S = typename From::T;
  using D = typename To::T;
  D* out = static_cast<D*>(out_p);
  const S* a = static_cast<const S*>(a_p);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, BoolArith>) {
      out[i] = a[i] != S{};
    } else if constexpr (std::is_floating_point_v<S> && std::is_floating_point_v<D>) {
      out[i] = static_cast<D>(a[i]);
    } else if constexpr (std::is_same_v<S, uint64_t> && std::is_floating_point_v<D>) {
      out[i] = static_cast<D>(a[i]);
    } else if constexpr (std::is_same_v<D, uint64_t> && std::is_floating_point_v<S>) {
      out[i] = To::FromReal(a[i]);
    } else {
      out[i] = To::FromInt(From::ToInt(a[i]));
    }
  }
}

// ---------------------------------------------------------------- selection

template <Fn fn, class T>
UnaryKernel UnaryOf() {
  if constexpr (FnOf<fn>::kArity == 1) {
    if constexpr (kFnIsDefined<fn, T>) return UnaryLoop<fn, T, T>;
  }
  return nullptr;
}

template <Fn fn, class T>
BinaryKernel BinaryOf() {
  if constexpr (FnOf<fn>::kArity == 2) {
    if constexpr (std::is_same_v<FnResult<fn, T>, bool>) {
      return BinaryLoop<fn, T, uint8_t>;
    } else if constexpr (kFnIsDefined<fn, T> && !kFnIsPartial<fn, T>) {
      return BinaryLoop<fn, T, T>;
    }
  }
  return nullptr;
}

template <Fn fn, class T>
PartialKernel PartialOf() {
  if constexpr (kFnIsPartial<fn, T>) return PartialLoop<fn, T>;
  return nullptr;
}

template <class T>
FnKernels KernelsOf(Fn fn) {
  switch (fn) {
#define REWRIGHT_CASE(Id) \
  case Fn::k##Id:         \
    return {UnaryOf<Fn::k##Id, T>(), BinaryOf<Fn::k##Id, T>(), PartialOf<Fn::k##Id, T>()};
#define REWRIGHT_REAL(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_UNARY(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_BINARY(Id, ...) REWRIGHT_CASE(Id)
#include "core/ir/functions.def"
#undef REWRIGHT_CASE
  }
  return {};
}

template <class T>
AccumulateKernel AccumulateOf(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum: return AccumulateLoop<Fn::kAdd, T>;
    case ReduceKind::kProd: return AccumulateLoop<Fn::kMul, T>;
    case ReduceKind::kMax: return AccumulateLoop<Fn::kMax, T>;
    case ReduceKind::kMin: return AccumulateLoop<Fn::kMin, T>;
    default: return nullptr;
  }
}

}  // namespace

FnKernels KernelsOf(Rep rep, Fn fn) {
  return Dispatch(rep, [&](auto a) { return KernelsOf<typename decltype(a)::T>(fn); });
}

AccumulateKernel FindAccumulate(Rep rep, ReduceKind kind) {
  return Dispatch(rep, [&](auto a) { return AccumulateOf<typename decltype(a)::T>(kind); });
}

MulAddKernel FindMulAdd(Rep rep) {
  return Dispatch(rep, [&](auto a) -> MulAddKernel { return MulAddLoop<typename decltype(a)::T>; });
}

ArgKernel FindArg(Rep rep, ReduceKind kind) {
  return Dispatch(rep, [&](auto a) -> ArgKernel {
    if (kind == ReduceKind::kArgMax) return ArgLoop<decltype(a), true>;
    if (kind == ReduceKind::kArgMin) return ArgLoop<decltype(a), false>;
    return nullptr;
  });
}

UnaryKernel FindCast(Rep from, Rep to) {
  return Dispatch(from, [&](auto a) {
    return Dispatch(to, [&](auto b) -> UnaryKernel { return CastLoop<decltype(a), decltype(b)>; });
  });
}

REWRIGHT_CLONES int64_t CountHeld(const uint8_t* conditions, int64_t n) {
  constexpr int64_t kMostOfByte = 255;
  int64_t held = 0, i = 0;
  while (i < n) {
    constexpr int64_t kWidth = 32;
    uint8_t sums[kWidth] = {};
    const int64_t blocks = std::min((n - i) / kWidth, kMostOfByte);
    for (int64_t block = 0; block < blocks; ++block, i += kWidth) {
      for (int64_t k = 0; k < kWidth; ++k) sums[k] = static_cast<uint8_t>(sums[k] + conditions[i + k]);
    }
    for (uint8_t sum : sums) held += sum;
    for (; blocks < kMostOfByte && i < n; ++i) held += conditions[i];
  }
  return held;
}

void StoreConst(Rep rep, double real, int64_t imm, void* out) {
  Dispatch(rep, [&](auto a) {
    using A = decltype(a);
    *static_cast<typename A::T*>(out) = std::is_same_v<A, BoolArith> ? A::FromInt(imm) : A::FromReal(real);
  });
}

void StoreIdentity(Rep rep, ReduceKind kind, void* out) {
  Dispatch(rep, [&](auto a) {
    using A = decltype(a);
    typename A::T& value = *static_cast<typename A::T*>(out);
    switch (kind) {
      case ReduceKind::kSum: value = A::FromInt(0); break;
      case ReduceKind::kProd: value = A::FromInt(1); break;
      case ReduceKind::kMin:
      case ReduceKind::kArgMin: value = A::Highest(); break;
      default: value = A::Lowest(); break;
    }
  });
}

// ---------------------------------------------------------------- moves

namespace {

// Calls f with the stride, as a constant if it is 1 or 2: the compiler makes loops of vectors of these.
template <class F>
void ByStride(int64_t stride, const F& f) {
  if (stride == 1) return f(std::integral_constant<int64_t, 1>());
  if (stride == 2) return f(std::integral_constant<int64_t, 2>());
  f(stride);
}

template <class T>
void CopyStridedOf(T* out, const T* in, int64_t stride, int64_t n) {
  if (n == 0) return;  // nothing may be read
  if (stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill(out, out + n, *in);
  } else {
    ByStride(stride, [&](auto step) {
      for (int64_t i = 0; i < n; ++i) out[i] = in[i * step];
    });
  }
}

// Transposes four by four elements of four bytes.
inline void TransposeFour(uint32_t* out, int64_t row_out, const uint32_t* in, int64_t row_in) {
  typedef uint32_t V __attribute__((vector_size(16), aligned(4), may_alias));
  const auto row = [&](int64_t i) { return *reinterpret_cast<const V*>(in + i * row_in); };
  const auto put = [&](int64_t k, V column) { *reinterpret_cast<V*>(out + k * row_out) = column; };
  const V low01 = __builtin_shufflevector(row(0), row(1), 0, 4, 1, 5);
  const V high01 = __builtin_shufflevector(row(0), row(1), 2, 6, 3, 7);
  const V low23 = __builtin_shufflevector(row(2), row(3), 0, 4, 1, 5);
  const V high23 = __builtin_shufflevector(row(2), row(3), 2, 6, 3, 7);
  put(0, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
  put(1, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
  put(2, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
  put(3, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
}

template <class T>
void CopyTransposedOf(T* out, int64_t row_out, const T* in, int64_t row_in, int64_t rows, int columns) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    for (; columns % 4 == 0 && i + 4 <= rows; i += 4) {
      for (int k = 0; k < columns; k += 4) TransposeFour(out + k * row_out + i, row_out, in + i * row_in + k, row_in);
    }
  }
  for (; i < rows; ++i) {
    for (int k = 0; k < columns; ++k) out[k * row_out + i] = in[i * row_in + k];
  }
}

// Elements between two that are held are read as well: they lie between these.
template <class T, class Stride>
REWRIGHT_CLONES void CopyHeld(T* __restrict out, const T* in, Stride stride, const uint8_t* mask, T fill, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T element = in[i * stride];
    out[i] = mask[i] != 0 ? element : fill;
  }
}

template <class T>
void CopyStridedMaskedOf(T* out, const T* in, int64_t stride, const uint8_t* mask, const HeldLanes& held, T fill,
                         int64_t n) {
  const int64_t first = held.first, last = held.last;
  std::fill(out, out + first, fill);
  ByStride(stride,
           [&](auto step) { CopyHeld(out + first, in + first * stride, step, mask + first, fill, last - first); });
  std::fill(out + last, out + n, fill);
}

template <class T>
REWRIGHT_CLONES void GatherOf(T* out, const T* in, const int64_t* offsets, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[offsets[i]];
}

template <class T>
REWRIGHT_CLONES void GatherMaskedOf(T* out, const T* in, const int64_t* offsets, const uint8_t* mask,
                                    int64_t stride_mask, T fill, int64_t n) {
  if (stride_mask == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? in[offsets[i]] : fill;
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i * stride_mask] ? in[offsets[i]] : fill;
}

template <class T>
REWRIGHT_CLONES void SelectOf(T* out, const uint8_t* mask, int64_t stride_mask, const T* yes, int64_t stride_yes,
                              const T* no, int64_t stride_no, int64_t n) {
  if (stride_mask == 0) {
    if (n > 0) CopyStridedOf(out, *mask ? yes : no, *mask ? stride_yes : stride_no, n);
  } else if (stride_mask == 1 && stride_yes == 1 && stride_no == 0) {
    const T other = *no;
    for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? yes[i] : other;
  } else if (stride_mask == 1 && stride_yes == 1 && stride_no == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? yes[i] : no[i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = mask[i * stride_mask] ? yes[i * stride_yes] : no[i * stride_no];
  }
}

// Elements are moved as integers of their size.
template <typename F>
void BySize(size_t size, const F& f) {
  switch (size) {
    case 1: f(uint8_t{}); break;
    case 2: f(uint16_t{}); break;
    case 4: f(uint32_t{}); break;
    case 8: f(uint64_t{}); break;
    default: CHECK(false) << size;
  }
}

}  // namespace

void CopyStrided(size_t size, void* out, const void* in, int64_t stride, int64_t n) {
  BySize(size, [&](auto t) {
    using T = decltype(t);
    CopyStridedOf(static_cast<T*>(out), static_cast<const T*>(in), stride, n);
  });
}

void CopyTransposed(size_t size, void* out, int64_t row_out, const void* in, int64_t row_in, int64_t rows,
                    int columns) {
  BySize(size, [&](auto t) {
    using T = decltype(t);
    CopyTransposedOf(static_cast<T*>(out), row_out, static_cast<const T*>(in), row_in, rows, columns);
  });
}

void StoreStrided(size_t size, void* out, int64_t stride_out, const void* in, int64_t stride_in, int64_t n) {
  if (stride_out == 1) return CopyStrided(size, out, in, stride_in, n);
  BySize(size, [&](auto t) {
    using T = decltype(t);
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i * stride_out] = static_cast<const T*>(in)[i * stride_in];
  });
}

static HeldLanes FindHeld(const uint8_t* mask, int64_t n) {
  HeldLanes held{mask, 0, n};
  while (held.first < n && !mask[held.first]) ++held.first;
  while (held.last > held.first && !mask[held.last - 1]) --held.last;
  return held;
}

void CopyStridedMasked(size_t size, void* out, const void* in, int64_t stride, const uint8_t* mask, int64_t stride_mask,
                       const void* fill, int64_t n, HeldLanes* held) {
  if (stride_mask == 0) return *mask ? CopyStrided(size, out, in, stride, n) : CopyStrided(size, out, fill, 0, n);
  if (held->of != mask) *held = FindHeld(mask, n);
  BySize(size, [&](auto t) {
    using T = decltype(t);
    CopyStridedMaskedOf(static_cast<T*>(out), static_cast<const T*>(in), stride, mask, *held,
                        *static_cast<const T*>(fill), n);
  });
}

void Gather(size_t size, void* out, const void* in, const int64_t* offsets, int64_t n) {
  BySize(size, [&](auto t) {
    using T = decltype(t);
    GatherOf(static_cast<T*>(out), static_cast<const T*>(in), offsets, n);
  });
}

void GatherMasked(size_t size, void* out, const void* in, const int64_t* offsets, const uint8_t* mask,
                  int64_t stride_mask, const void* fill, int64_t n) {
  BySize(size, [&](auto t) {
    using T = decltype(t);
    GatherMaskedOf(static_cast<T*>(out), static_cast<const T*>(in), offsets, mask, stride_mask,
                   *static_cast<const T*>(fill), n);
  });
}

void SelectLanes(size_t size, void* out, const uint8_t* mask, int64_t stride_mask, const void* yes, int64_t stride_yes,
                 const void* no, int64_t stride_no, int64_t n) {
  BySize(size, [&](auto t) {
    using T = decltype(t);
    SelectOf(static_cast<T*>(out), mask, stride_mask, static_cast<const T*>(yes), stride_yes, static_cast<const T*>(no),
             stride_no, n);
  });
}

}  // namespace rewright::interp
