// Scalar functions: names and properties of the rows of core/ir/functions.def.
//
// A new function needs a row there, a row of core/onnx/functions.cc if ONNX has it, and, if the compiler's loop is too
// slow, a vectorized body in backends/cpu/simd/kernels.inc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rewright {

enum class Fn : uint8_t {
#define REWRIGHT_REAL(Id, ...) k##Id,
#define REWRIGHT_UNARY(Id, ...) k##Id,
#define REWRIGHT_BINARY(Id, ...) k##Id,
#include "core/ir/functions.def"
};

inline constexpr int kNumFns = 0
#define REWRIGHT_REAL(...) +1
#define REWRIGHT_UNARY(...) +1
#define REWRIGHT_BINARY(...) +1
#include "core/ir/functions.def"
    ;

// A function may have several; see functions.def.
enum class FnTrait : uint32_t {
  kOdd = 1,        // f(-x) = -f(x), bit for bit
  kEven = 2,       // f(-x) = f(x), bit for bit
  kPositive = 4,   // f(x) > 0 over the reals
  kCommutes = 8,   // f(a, b) = f(b, a)
  kExact = 16,     // no rounding
  kSteps = 32,     // jumps
  kCompares = 64,  // gives a truth value of two elements of any type
};

struct FnInfo {
  Fn fn;
  const char* name;  // "exp", "add"
  const char* sign;  // "+"; "" of functions that are printed as name(a, b)
  int arity;         // 1 or 2
  uint32_t traits;
  // Documentation and sample range of the operator of that name, for functions that are operators.
  const char* summary;  // null: no operator is made of this function
  double low;
  double high;
};

// Every function, in the order of Fn.
const std::vector<FnInfo>& AllFns();
inline const FnInfo& InfoOf(Fn fn) { return AllFns()[static_cast<int>(fn)]; }
// Returns null if no function has that name.
const FnInfo* FindFn(std::string_view name);

const char* FnName(Fn fn);  // as printed: the sign of infix functions, else the name
inline int FnArity(Fn fn) { return InfoOf(fn).arity; }
bool FnIsInfix(Fn fn);  // + - * / and comparisons
inline bool FnHas(Fn fn, FnTrait trait) { return (InfoOf(fn).traits & static_cast<uint32_t>(trait)) != 0; }

// A value, or none: a function of integers may have none, as division by zero.
template <typename T>
struct Partial {
  bool exists;
  T value;
};

// fn(a, b) as the table defines it for elements of the type T: float, double, int32_t, int64_t, uint64_t, or uint8_t
// for truth values (0 or 1). Comparisons give 0 or 1. No value exists where the table defines none, either. Functions
// of one argument ignore b. For one element at a time; loops are made of core/ir/function_values.h.
template <typename T>
Partial<T> Evaluate(Fn fn, T a, T b);
// Computes fn(a, b) on reals; truth values are 0 and 1.
double EvaluateReal(Fn fn, double a, double b);

}  // namespace rewright
