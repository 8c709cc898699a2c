#include "verifier/check/rule_values.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"

namespace rewright::check {
namespace {

constexpr int64_t kMostElements = 64;  // of a list

template <typename T>
bool Is(const Value& value) {
  return std::holds_alternative<T>(value);
}

template <typename T>
std::optional<T> Ring(const std::string& op, const T& a, const T& b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  return std::nullopt;
}

Index OfIntegers(const std::string& op, const Index& a, const Index& b) {
  if (const auto result = Ring(op, a, b)) return *result;
  // A divisor that is no literal is shown to be positive by the proof.
  int64_t divisor = 1;
  if (b.IsInt(&divisor) && divisor <= 0) throw NoInstance{"division by a number below one"};
  if (op == "div") return FloorDiv(a, b);
  if (op == "mod") return Mod(a, b);
  throw NoInstance{absl::StrCat(op, " of integers")};
}

Cond Compared(const std::string& op, const Index& a, const Index& b) {
  if (op == "==") return a == b;
  if (op == "!=") return !(a == b);
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  return op == ">" ? b < a : b <= a;
}

class Evaluation {
 public:
  explicit Evaluation(const Scope& scope) : scope_(scope) {}

  Value Of(const ParsedExpr& phrase) {
    DType type;
    switch (phrase.kind) {
      case ParsedExpr::Kind::kInteger: return Index(phrase.integer);
      case ParsedExpr::Kind::kReal: return Constant(phrase.real, DType::kFloat32);
      case ParsedExpr::Kind::kList: return Items(phrase.args);
      case ParsedExpr::Kind::kCall: return Call(phrase.text, phrase.args);
      case ParsedExpr::Kind::kSplice: throw NoInstance{"`..` outside a list"};
      case ParsedExpr::Kind::kAttribute: return scope_.Named(phrase);
      case ParsedExpr::Kind::kName: break;
    }
    return ParseDType(phrase.text, &type) ? Value(type) : scope_.Named(phrase);
  }

  List Items(const std::vector<ParsedExpr>& items) {
    List list;
    for (const ParsedExpr& item : items) {
      if (item.kind == ParsedExpr::Kind::kSplice) {
        for (Index& element : ListOf(item.args[0])) list.push_back(std::move(element));
      } else {
        list.push_back(IntegerOf(item));
      }
    }
    return list;
  }

 private:
  Index IntegerOf(const ParsedExpr& phrase) { return As<Index>(Of(phrase), "expected an integer"); }
  List ListOf(const ParsedExpr& phrase) { return As<List>(Of(phrase), "expected a list"); }
  Cond ConditionOf(const ParsedExpr& phrase) { return As<Cond>(Of(phrase), "expected a condition"); }
  static int64_t Literal(const Index& index, int64_t low, int64_t high) {
    int64_t value;
    if (!index.IsInt(&value)) throw NoInstance{"a position, a length or an axis depends on a size"};
    if (value < low || value > high) throw NoInstance{"a position, a length or an axis is out of range"};
    return value;
  }
  // Counted from the end where it is negative.
  static const Index& At(const List& list, const Index& place) {
    const auto size = static_cast<int64_t>(list.size());
    const int64_t at = Literal(place, -size, size - 1);
    return list[at < 0 ? at + size : at];
  }
  static int64_t Place(const List& list, const Index& place) {
    return Literal(place, 0, static_cast<int64_t>(list.size()) - 1);
  }

  Value Call(const std::string& function, const std::vector<ParsedExpr>& args) {
    static const auto* const kComparisons = new std::set<std::string>{"==", "!=", "<", "<=", ">", ">="};
    static const auto* const kOperators = new std::set<std::string>{"+", "-", "*", "/", "div", "mod"};
    // weight(x) and constant(x) say nothing about values. positive(x) and finite(x) at the top level are assumptions on
    // a leaf. Elsewhere a proof does without them and takes the truth value that makes the condition weaker.
    static const auto* const kPredicates = new std::set<std::string>{"weight", "constant", "positive", "finite"};
    if (kPredicates->count(function) > 0) return Cond(weaker_if_true_);
    if (function == "not") {
      weaker_if_true_ = !weaker_if_true_;
      const Cond condition = ConditionOf(args.at(0));
      weaker_if_true_ = !weaker_if_true_;
      return !condition;
    }
    if (function == "and" || function == "or") {
      const Cond a = ConditionOf(args.at(0)), b = ConditionOf(args.at(1));
      return function == "and" ? a && b : a || b;
    }
    if (kComparisons->count(function) > 0) return Comparison(function, Of(args.at(0)), Of(args.at(1)));
    if (function == "-" && args.size() == 1) return Negated(Of(args[0]));
    if (kOperators->count(function) > 0) return Arithmetic(function, Of(args.at(0)), Of(args.at(1)));
    if (function == "rank") return Index(static_cast<int64_t>(scope_.ShapeOf(args.at(0)).size()));
    if (function == "shape") return scope_.ShapeOf(args.at(0));
    if (function == "dim") return At(scope_.ShapeOf(args.at(0)), IntegerOf(args.at(1)));
    if (function == "min" || function == "max") return Extremum(function == "min", Of(args.at(0)), Of(args.at(1)));
    if (function == "iota") {
      List list;
      const int64_t length = Literal(IntegerOf(args.at(0)), 0, kMostElements);
      for (int64_t i = 0; i < length; ++i) list.emplace_back(i);
      return list;
    }
    if (function == "repeat") {
      const Index element = IntegerOf(args.at(0));
      return List(static_cast<size_t>(Literal(IntegerOf(args.at(1)), 0, kMostElements)), element);
    }
    return OfList(function, ListOf(args.at(0)), args);
  }

  static Value Negated(const Value& value) {
    if (const auto* real = std::get_if<Scalar>(&value)) return -*real;
    if (const auto* element = std::get_if<Element>(&value)) return Element{-element->value};
    return Arithmetic("-", Index(0), value);
  }

  // Computes a op b for integers, reals, integers of tensors, two lists element by element, or a list and an integer.
  static Value Arithmetic(const std::string& op, const Value& a, const Value& b) {
    if (Is<Element>(a) || Is<Element>(b)) {
      const auto element = [](const Value& value) {
        if (const auto* integer = std::get_if<Index>(&value)) return FromIndex(*integer, DType::kInt64);
        return As<Element>(value, "arithmetic of an integer and a real").value;
      };
      if (const auto result = Ring(op, element(a), element(b))) return Element{*result};
      throw NoInstance{"integers of tensors are not divided"};
    }
    if (Is<Scalar>(a) || Is<Scalar>(b) || op == "/") {
      const auto real = [](const Value& value) {
        if (const auto* integer = std::get_if<Index>(&value)) return FromIndex(*integer, DType::kFloat32);
        return As<Scalar>(value, "arithmetic on what is no number");
      };
      if (op == "/") return real(a) / real(b);
      if (const auto result = Ring(op, real(a), real(b))) return *result;
      throw NoInstance{"div and mod are of integers"};
    }
    const auto *x = std::get_if<Index>(&a), *y = std::get_if<Index>(&b);
    if (x != nullptr && y != nullptr) return OfIntegers(op, *x, *y);
    const size_t size = x != nullptr ? As<List>(b, "expected a list").size() : As<List>(a, "expected a list").size();
    const List left = x != nullptr ? List(size, *x) : As<List>(a, "expected a list");
    const List right = y != nullptr ? List(size, *y) : As<List>(b, "expected a list");
    if (left.size() != right.size()) throw NoInstance{"arithmetic on lists of different lengths"};
    List list;
    for (size_t i = 0; i < size; ++i) list.push_back(OfIntegers(op, left[i], right[i]));
    return list;
  }

  static Value Comparison(const std::string& op, const Value& a, const Value& b) {
    const bool equation = op == "==" || op == "!=";
    if (Is<DType>(a) && Is<DType>(b) && equation) {
      return Cond((std::get<DType>(a) == std::get<DType>(b)) == (op == "=="));
    }
    if (const auto* x = std::get_if<List>(&a), *y = std::get_if<List>(&b); x != nullptr && y != nullptr && equation) {
      Cond equal(x->size() == y->size());
      for (size_t i = 0; i < std::min(x->size(), y->size()); ++i) equal = equal && (*x)[i] == (*y)[i];
      return op == "==" ? equal : !equal;
    }
    if (const auto* x = std::get_if<List>(&a); x != nullptr && Is<Index>(b) && !equation) {
      Cond all(true);
      for (const Index& element : *x) all = all && Compared(op, element, std::get<Index>(b));
      return all;
    }
    return Compared(op, As<Index>(a, "comparison of what is no integer"), As<Index>(b, "comparison with no integer"));
  }

  static Value Extremum(bool least, const Value& a, const Value& b) {
    const auto of = [&](const Index& x, const Index& y) { return least ? Min(x, y) : Max(x, y); };
    if (Is<Index>(a) && Is<Index>(b)) return of(std::get<Index>(a), std::get<Index>(b));
    List list = As<List>(a, "min and max are of integers or lists");
    const List other = As<List>(b, "min and max are of integers or lists");
    if (list.size() != other.size()) throw NoInstance{"min and max of lists of different lengths"};
    for (size_t i = 0; i < list.size(); ++i) list[i] = of(list[i], other[i]);
    return list;
  }

  Value OfList(const std::string& function, List list, const std::vector<ParsedExpr>& args) {
    const auto size = static_cast<int64_t>(list.size());
    if (function == "len") return Index(size);
    if (function == "[]") return At(list, IntegerOf(args.at(1)));
    if (function == "sum" || function == "prod") {
      Index total(function == "sum" ? 0 : 1);
      for (const Index& element : list) total = function == "sum" ? total + element : total * element;
      return total;
    }
    if (function == "take" || function == "drop") {
      const auto cut = list.begin() + Literal(IntegerOf(args.at(1)), 0, size);
      return function == "take" ? List(list.begin(), cut) : List(cut, list.end());
    }
    if (function == "compose") {
      List composed;
      for (const Index& place : ListOf(args.at(1))) composed.push_back(list[Place(list, place)]);
      return composed;
    }
    if (function == "inverse") {
      List inverse(list.size(), Index(-1));
      for (int64_t i = 0; i < size; ++i) {
        Index& place = inverse[Place(list, list[i])];
        if (!place.Is(-1)) throw NoInstance{"inverse of what is no permutation"};
        place = Index(i);
      }
      return inverse;
    }
    if (function == "replace") {
      const List places = ListOf(args.at(1));
      const Index element = IntegerOf(args.at(2));
      for (const Index& place : places) list[Place(list, place)] = element;
      return list;
    }
    constexpr int64_t kMost = INT64_MAX;
    const int64_t bound = Literal(IntegerOf(args.at(1)), -kMost, kMost);
    const auto count = [&](auto test) {
      return std::count_if(list.begin(), list.end(), [&](const Index& x) { return test(Literal(x, -kMost, kMost)); });
    };
    if (function == "count_less") return Index(count([&](int64_t x) { return x < bound; }));
    if (function == "contains") return Cond(count([&](int64_t x) { return x == bound; }) > 0);
    throw NoInstance{absl::StrCat("found `", function, "`, expected a function")};
  }

  const Scope& scope_;
  bool weaker_if_true_ = true;
};

}  // namespace

Value Evaluate(const ParsedExpr& phrase, const Scope& scope) { return Evaluation(scope).Of(phrase); }

List EvaluateItems(const std::vector<ParsedExpr>& items, const Scope& scope) { return Evaluation(scope).Items(items); }

}  // namespace rewright::check
