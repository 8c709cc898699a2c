#include "core/interpreter/kernels.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/interpreter/arith.h"

namespace rewright::interp {
namespace {

// ---------------------------------------------------------------- functions as types

template <class A>
struct AddOf {
  static auto F(typename A::T a, typename A::T b) { return A::Add(a, b); }
};
template <class A>
struct SubOf {
  static auto F(typename A::T a, typename A::T b) { return A::Sub(a, b); }
};
template <class A>
struct MulOf {
  static auto F(typename A::T a, typename A::T b) { return A::Mul(a, b); }
};
template <class A>
struct MaxOf {
  static auto F(typename A::T a, typename A::T b) { return A::Max(a, b); }
};
template <class A>
struct MinOf {
  static auto F(typename A::T a, typename A::T b) { return A::Min(a, b); }
};
template <class A>
struct LessOf {
  static uint8_t F(typename A::T a, typename A::T b) { return A::Less(a, b); }
};
template <class A>
struct LessEqualOf {
  static uint8_t F(typename A::T a, typename A::T b) { return A::LessEqual(a, b); }
};
template <class A>
struct EqualOf {
  static uint8_t F(typename A::T a, typename A::T b) { return A::Equal(a, b); }
};
template <class A>
struct DivOf {
  static bool F(typename A::T a, typename A::T b, typename A::T* out) { return A::Div(a, b, out); }
};
template <class A>
struct PowOf {
  static bool F(typename A::T a, typename A::T b, typename A::T* out) { return A::Pow(a, b, out); }
};
// Functions that always have a value, for BinaryKernel.
template <class P, class T>
struct Total {
  static T F(T a, T b) {
    T out;
    P::F(a, b, &out);
    return out;
  }
};
template <class A>
struct NegOf {
  static auto F(typename A::T a) { return A::Neg(a); }
};
template <class A>
struct ExpOf {
  static auto F(typename A::T a) { return A::Exp(a); }
};
template <class A>
struct LogOf {
  static auto F(typename A::T a) { return A::Log(a); }
};
template <class A>
struct SqrtOf {
  static auto F(typename A::T a) { return A::Sqrt(a); }
};
template <class A>
struct ErfOf {
  static auto F(typename A::T a) { return A::Erf(a); }
};
template <class A>
struct TanhOf {
  static auto F(typename A::T a) { return A::Tanh(a); }
};
template <class A>
struct SigmoidOf {
  static auto F(typename A::T a) { return A::Sigmoid(a); }
};
template <class A>
struct AbsOf {
  static auto F(typename A::T a) { return A::Abs(a); }
};
template <class A>
struct FloorOf {
  static auto F(typename A::T a) { return A::Floor(a); }
};
template <class A>
struct CeilOf {
  static auto F(typename A::T a) { return A::Ceil(a); }
};

// ---------------------------------------------------------------- loops

template <class Op, class T, class R>
REWRIGHT_CLONES void UnaryLoop(void* out_p, const void* a_p, int64_t n) {
  R* out = static_cast<R*>(out_p);
  const T* a = static_cast<const T*>(a_p);
  for (int64_t i = 0; i < n; ++i) out[i] = Op::F(a[i]);
}

template <class Op, class T, class R>
REWRIGHT_CLONES void BinaryLoop(void* out_p, const void* a_p, int64_t stride_a, const void* b_p, int64_t stride_b,
                                int64_t n) {
  R* __restrict out = static_cast<R*>(out_p);
  const T* a = static_cast<const T*>(a_p);
  const T* b = static_cast<const T*>(b_p);
  if (stride_a == 1 && stride_b == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = Op::F(a[i], b[i]);
  } else if (stride_a == 1) {
    const T y = *b;
    for (int64_t i = 0; i < n; ++i) out[i] = Op::F(a[i], y);
  } else if (stride_b == 1) {
    const T x = *a;
    for (int64_t i = 0; i < n; ++i) out[i] = Op::F(x, b[i]);
  } else {
    std::fill(out, out + n, Op::F(*a, *b));
  }
}

template <class Op, class T>
bool PartialLoop(void* out_p, const void* a_p, int64_t stride_a, const void* b_p, int64_t stride_b, const uint8_t* mask,
                 int64_t stride_mask, int64_t n) {
  T* out = static_cast<T*>(out_p);
  const T* a = static_cast<const T*>(a_p);
  const T* b = static_cast<const T*>(b_p);
  bool ok = true;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = T{};
    if (mask != nullptr && !mask[i * stride_mask]) continue;
    if (!Op::F(a[i * stride_a], b[i * stride_b], &out[i])) {
      out[i] = static_cast<T>(-1);
      ok = false;
    }
  }
  return ok;
}

template <class Op, class T>
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
      const T next = Op::F(acc[i], value[i * stride]);
      acc[i] = mask[i] ? next : acc[i];
    }
  } else if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) acc[i] = Op::F(acc[i], value[i]);
  } else {
    const T x = *value;
    for (int64_t i = 0; i < n; ++i) acc[i] = Op::F(acc[i], x);
  }
}

template <class A>
REWRIGHT_CLONES void MulAddLoop(void* acc_p, const void* a_p, int64_t stride_a, const void* b_p, int64_t stride_b,
                                int64_t n) {
  using T = typename A::T;
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
      const T product = A::Mul(*a, y);
      for (int64_t i = 0; i < n; ++i) acc[i] = A::Add(acc[i], product);
    } else {
      for (int64_t i = 0; i < n; ++i) acc[i] = A::Add(acc[i], A::Mul(a[i], y));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) acc[i] = A::Add(acc[i], A::Mul(a[i], b[i]));
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

// Between numbers by value; to and from the carriers of reals by their integers; from kDouble by its exact value.
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
    } else if constexpr (std::is_floating_point_v<S> && std::is_same_v<To, FieldArith>) {
      out[i] = To::FromReal(a[i]);
    } else {
      out[i] = To::FromInt(From::ToInt(a[i]));
    }
  }
}

// ---------------------------------------------------------------- choice

template <class A, class Op>
constexpr UnaryKernel Unary() {
  return UnaryLoop<Op, typename A::T, typename A::T>;
}
template <class A, class Op>
constexpr BinaryKernel Binary() {
  return BinaryLoop<Op, typename A::T, typename A::T>;
}
template <class A, class Op>
constexpr BinaryKernel Predicate() {
  return BinaryLoop<Op, typename A::T, uint8_t>;
}

template <class A>
constexpr bool kIsBool = std::is_same_v<A, BoolArith>;
// Whether the representation has exp and its like.
template <class A>
constexpr bool kIsReal = !kIsBool<A> && !std::is_same_v<A, IntArith<int32_t>> && !std::is_same_v<A, IntArith<int64_t>>;
template <class A>
constexpr bool kIsFloat = std::is_floating_point_v<typename A::T>;

template <class A>
UnaryKernel UnaryOf(Fn fn) {
  if constexpr (!kIsBool<A>) {
    switch (fn) {
      case Fn::kNeg: return Unary<A, NegOf<A>>();
      case Fn::kAbs: return Unary<A, AbsOf<A>>();
      case Fn::kFloor: return Unary<A, FloorOf<A>>();
      case Fn::kCeil: return Unary<A, CeilOf<A>>();
      default: break;
    }
  }
  if constexpr (kIsReal<A>) {
    switch (fn) {
      case Fn::kExp: return Unary<A, ExpOf<A>>();
      case Fn::kLog: return Unary<A, LogOf<A>>();
      case Fn::kSqrt: return Unary<A, SqrtOf<A>>();
      case Fn::kErf: return Unary<A, ErfOf<A>>();
      case Fn::kTanh: return Unary<A, TanhOf<A>>();
      case Fn::kSigmoid: return Unary<A, SigmoidOf<A>>();
      default: break;
    }
  }
  return nullptr;
}

template <class A>
BinaryKernel BinaryOf(Fn fn) {
  switch (fn) {
    case Fn::kMax: return Binary<A, MaxOf<A>>();
    case Fn::kMin: return Binary<A, MinOf<A>>();
    case Fn::kLess: return Predicate<A, LessOf<A>>();
    case Fn::kLessEqual: return Predicate<A, LessEqualOf<A>>();
    case Fn::kEqual: return Predicate<A, EqualOf<A>>();
    default: break;
  }
  if constexpr (kIsBool<A>) {
    if (fn == Fn::kAnd) return Binary<A, MinOf<A>>();
    if (fn == Fn::kOr) return Binary<A, MaxOf<A>>();
  } else {
    if (fn == Fn::kAdd) return Binary<A, AddOf<A>>();
    if (fn == Fn::kSub) return Binary<A, SubOf<A>>();
    if (fn == Fn::kMul) return Binary<A, MulOf<A>>();
  }
  if constexpr (kIsFloat<A>) {
    if (fn == Fn::kDiv) return Binary<A, Total<DivOf<A>, typename A::T>>();
    if (fn == Fn::kPow) return Binary<A, Total<PowOf<A>, typename A::T>>();
  }
  return nullptr;
}

template <class A>
AccumulateKernel AccumulateOf(ReduceKind kind) {
  using T = typename A::T;
  switch (kind) {
    case ReduceKind::kSum: return AccumulateLoop<AddOf<A>, T>;
    case ReduceKind::kProd: return AccumulateLoop<MulOf<A>, T>;
    case ReduceKind::kMax: return AccumulateLoop<MaxOf<A>, T>;
    case ReduceKind::kMin: return AccumulateLoop<MinOf<A>, T>;
    default: return nullptr;
  }
}

}  // namespace

UnaryKernel FindUnary(Rep rep, Fn fn) {
  return Dispatch(rep, [&](auto a) { return UnaryOf<decltype(a)>(fn); });
}

BinaryKernel FindBinary(Rep rep, Fn fn) {
  return Dispatch(rep, [&](auto a) { return BinaryOf<decltype(a)>(fn); });
}

PartialKernel FindPartial(Rep rep, Fn fn) {
  return Dispatch(rep, [&](auto a) -> PartialKernel {
    using A = decltype(a);
    if constexpr (!kIsBool<A> && !kIsFloat<A>) {
      if (fn == Fn::kDiv) return PartialLoop<DivOf<A>, typename A::T>;
      if (fn == Fn::kPow) return PartialLoop<PowOf<A>, typename A::T>;
    }
    return nullptr;
  });
}

AccumulateKernel FindAccumulate(Rep rep, ReduceKind kind) {
  return Dispatch(rep, [&](auto a) { return AccumulateOf<decltype(a)>(kind); });
}

MulAddKernel FindMulAdd(Rep rep) {
  return Dispatch(rep, [&](auto a) -> MulAddKernel { return MulAddLoop<decltype(a)>; });
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

bool HasKernel(Rep rep, Fn fn) {
  return FnArity(fn) == 1 ? (fn == Fn::kNot && rep == Rep::kBool) || FindUnary(rep, fn) != nullptr
                          : FindBinary(rep, fn) != nullptr || FindPartial(rep, fn) != nullptr;
}

bool IsPartial(Rep rep, Fn fn) { return FnArity(fn) == 2 && FindPartial(rep, fn) != nullptr; }

bool HasReduction(Rep rep, ReduceKind kind) {
  return FindAccumulate(rep, kind) != nullptr || FindArg(rep, kind) != nullptr;
}

void StoreConst(Rep rep, double real, int64_t imm, void* out) {
  Dispatch(rep, [&](auto a) {
    using A = decltype(a);
    *static_cast<typename A::T*>(out) = kIsBool<A> ? A::FromInt(imm) : A::FromReal(real);
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

template <class T>
void CopyStridedOf(T* out, const T* in, int64_t stride, int64_t n) {
  if (n == 0) return;  // nothing may be read
  if (stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill(out, out + n, *in);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * stride];
  }
}

template <class T>
void CopyStridedMaskedOf(T* out, const T* in, int64_t stride, const uint8_t* mask, int64_t stride_mask, T fill,
                         int64_t n) {
  int64_t first = 0, last = n;  // the lanes that are read lie in [first, last)
  if (stride_mask == 0) {
    if (!*mask) last = 0;
  } else {
    while (first < n && !mask[first]) ++first;
    while (last > first && !mask[last - 1]) --last;
  }
  std::fill(out, out + first, fill);
  int64_t held = last - first;
  if (stride_mask != 0) {
    held = 0;
    for (int64_t i = first; i < last; ++i) held += mask[i];
  }
  if (held == last - first) {
    CopyStridedOf(out + first, in + first * stride, stride, last - first);
  } else {
    for (int64_t i = first; i < last; ++i) out[i] = mask[i] ? in[i * stride] : fill;
  }
  std::fill(out + std::max(first, last), out + n, fill);
}

template <class T>
void GatherOf(T* out, const T* in, const int64_t* offsets, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[offsets[i]];
}

template <class T>
void GatherMaskedOf(T* out, const T* in, const int64_t* offsets, const uint8_t* mask, int64_t stride_mask, T fill,
                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i * stride_mask] ? in[offsets[i]] : fill;
}

template <class T>
REWRIGHT_CLONES void SelectOf(T* out, const uint8_t* mask, int64_t stride_mask, const T* yes, int64_t stride_yes,
                              const T* no, int64_t stride_no, int64_t n) {
  if (stride_mask == 1 && stride_yes == 1 && stride_no == 0) {
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

void StoreStrided(size_t size, void* out, int64_t stride_out, const void* in, int64_t stride_in, int64_t n) {
  if (stride_out == 1) return CopyStrided(size, out, in, stride_in, n);
  BySize(size, [&](auto t) {
    using T = decltype(t);
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i * stride_out] = static_cast<const T*>(in)[i * stride_in];
  });
}

void CopyStridedMasked(size_t size, void* out, const void* in, int64_t stride, const uint8_t* mask, int64_t stride_mask,
                       const void* fill, int64_t n) {
  BySize(size, [&](auto t) {
    using T = decltype(t);
    CopyStridedMaskedOf(static_cast<T*>(out), static_cast<const T*>(in), stride, mask, stride_mask,
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
