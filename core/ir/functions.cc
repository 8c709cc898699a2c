#include "core/ir/functions.h"

#include "absl/container/flat_hash_map.h"
#include "core/ir/function_values.h"

namespace rewright {
namespace {

// Names of traits in the rows of the table.
constexpr uint32_t kOdd = static_cast<uint32_t>(FnTrait::kOdd);
constexpr uint32_t kEven = static_cast<uint32_t>(FnTrait::kEven);
constexpr uint32_t kPositive = static_cast<uint32_t>(FnTrait::kPositive);
constexpr uint32_t kCommutes = static_cast<uint32_t>(FnTrait::kCommutes);
constexpr uint32_t kExact = static_cast<uint32_t>(FnTrait::kExact);
constexpr uint32_t kSteps = static_cast<uint32_t>(FnTrait::kSteps);
constexpr uint32_t kCompares = static_cast<uint32_t>(FnTrait::kCompares);

template <Fn fn, typename T>
Partial<T> EvaluateOne(T a, T b) {
  const auto value = [&] {
    if constexpr (FnOf<fn>::kArity == 1) {
      return FnValue<fn>(a);
    } else {
      return FnValue<fn>(a, b);
    }
  }();
  if constexpr (!kFnIsDefined<fn, T>) {
    return {false, T()};
  } else if constexpr (kFnIsPartial<fn, T>) {
    return value;
  } else {
    return {true, static_cast<T>(value)};
  }
}

}  // namespace

const std::vector<FnInfo>& AllFns() {
  static const auto* const table = new std::vector<FnInfo>{
#define REWRIGHT_REAL(Id, name, summary, low, high, traits, ...) {Fn::k##Id, name, "", 1, traits, summary, low, high},
#define REWRIGHT_UNARY(Id, name, traits, ...) {Fn::k##Id, name, "", 1, traits, nullptr, 0, 0},
#define REWRIGHT_BINARY(Id, name, sign, traits, ...) {Fn::k##Id, name, sign, 2, traits, nullptr, 0, 0},
#include "core/ir/functions.def"
  };
  return *table;
}

const FnInfo* FindFn(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new absl::flat_hash_map<std::string_view, const FnInfo*>;
    for (const FnInfo& info : AllFns()) map->emplace(info.name, &info);
    return map;
  }();
  const auto found = by_name->find(name);
  return found == by_name->end() ? nullptr : found->second;
}

const char* FnName(Fn fn) {
  const FnInfo& info = InfoOf(fn);
  return info.sign[0] != 0 ? info.sign : info.name;
}

bool FnIsInfix(Fn fn) { return InfoOf(fn).sign[0] != 0; }

template <typename T>
Partial<T> Evaluate(Fn fn, T a, T b) {
  switch (fn) {
#define REWRIGHT_CASE(Id) \
  case Fn::k##Id:         \
    return EvaluateOne<Fn::k##Id>(a, b);
#define REWRIGHT_REAL(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_UNARY(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_BINARY(Id, ...) REWRIGHT_CASE(Id)
#include "core/ir/functions.def"
#undef REWRIGHT_CASE
  }
  return {false, T()};
}

template Partial<float> Evaluate(Fn, float, float);
template Partial<double> Evaluate(Fn, double, double);
template Partial<int32_t> Evaluate(Fn, int32_t, int32_t);
template Partial<int64_t> Evaluate(Fn, int64_t, int64_t);
template Partial<uint64_t> Evaluate(Fn, uint64_t, uint64_t);
template Partial<uint8_t> Evaluate(Fn, uint8_t, uint8_t);

double EvaluateReal(Fn fn, double a, double b) {
  const Partial<double> value = Evaluate(fn, a, b);
  return value.exists ? value.value : Evaluate(fn, static_cast<uint8_t>(a != 0), static_cast<uint8_t>(b != 0)).value;
}

}  // namespace rewright
