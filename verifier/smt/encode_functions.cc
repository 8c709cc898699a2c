// States facts about functions of elements for Z3: signs and truth values are cases, roundings are integers next to
// their argument, increasing functions keep the order of their arguments.
#include <algorithm>

#include "verifier/normal_form/internal.h"
#include "verifier/smt/encode.h"

namespace rewright::verifier {
namespace {

constexpr size_t kMostPairs = 12;  // applications of one function that are compared with a further one

}  // namespace

z3::expr Encoder::OfFunction(const Atom& a, const Guard& path) {
  std::vector<z3::expr> args;
  for (const NormalForm& n : a->args) args.push_back(OfForm(n, path));
  const auto truth = [&](const z3::expr& holds) { return z3::ite(holds, z3_.real_val(1), z3_.real_val(0)); };
  if (a->name == "pos") return cases_ = true, truth(args[0] > 0);
  if (a->name == "zero") return cases_ = true, truth(args[0] == 0);
  if (a->name == "floor" || a->name == "round") return Rounded(a->name, args[0]);
  if (a->name.starts_with("float.")) {
    return z3::to_real(Uninterpreted("fn " + a->name, args, z3_.int_sort()));
  }
  z3::expr value = Uninterpreted("fn " + a->name, args, z3_.real_sort());
  if (a->name == "exp" || a->name == "sigmoid") side_.push_back(value > 0);
  if (a->boolean) side_.push_back(value == 0 || value == 1);
  if (const Increasing* fn = FindIncreasing(a->name)) Increase(*fn, args[0], value);
  return value;
}

// floor(x) is the integer n with n <= x < n + 1, round(x) one with |n - x| <= 1/2.
z3::expr Encoder::Rounded(const std::string& name, const z3::expr& x) {
  z3::expr value = z3::to_real(Uninterpreted("fn " + name, {x}, z3_.int_sort()));
  if (name == "floor") {
    side_.push_back(value <= x && x < value + 1);
  } else {
    side_.push_back(2 * value <= 2 * x + 1 && 2 * x <= 2 * value + 1);
  }
  return value;
}

void Encoder::Increase(const Increasing& fn, const z3::expr& x, const z3::expr& value) {
  using Domain = Increasing::Domain;
  const auto inside = [&](const z3::expr& at) {
    switch (fn.domain) {
      case Domain::kReals: return z3_.bool_val(true);
      case Domain::kNonnegative: return at >= 0;
      case Domain::kPositive: return at > 0;
    }
    return z3_.bool_val(false);
  };
  std::vector<std::pair<z3::expr, z3::expr>>& known = applications_[fn.name];
  if (known.empty() && fn.den != 0) known.emplace_back(RealOf(fn.anchor), RealOf(Rational(fn.num, fn.den)));
  for (size_t i = 0; i < std::min(known.size(), kMostPairs); ++i) {
    const auto& [other, other_value] = known[i];
    if (!fn.strictly) {
      side_.push_back(z3::implies(inside(x) && inside(other) && x <= other, value <= other_value));
      side_.push_back(z3::implies(inside(x) && inside(other) && x >= other, value >= other_value));
      continue;
    }
    side_.push_back(z3::implies(inside(x) && inside(other), (x < other) == (value < other_value)));
    side_.push_back(z3::implies(inside(x) && inside(other), (x > other) == (value > other_value)));
  }
  known.emplace_back(x, value);
}

}  // namespace rewright::verifier
