// Random rules over integers of 8 to 64 bits, 16- and 32-bit floats, casts between them, positions and counts: none may
// be proved that the reference interpreter tells apart, at elements up to the ends of the types and at sizes beyond
// those where positions wrap around.
//
// A proof is about real numbers and about integers that wrap around: it is held against the interpreter with floats of
// 64 bits, where these are exact. A class is held against floats as they are stored: a rule that is exact has the same
// bits, and one whose outputs are no floats has the same outputs unless it is numerically risky.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "tests/counts.h"
#include "tests/support/recorded_list.h"
#include "tests/support/rule_mutation.h"
#include "tests/verifier/rules_util.h"
#include "verifier/prove_rule.h"
#include "verifier/refute/numeric_instance.h"

namespace rewright::narrow_rules {
namespace {

using Rng = std::mt19937_64;

constexpr DType kIntegers[] = {DType::kInt8,   DType::kUInt8, DType::kInt16, DType::kUInt16,
                               DType::kUInt32, DType::kInt32, DType::kInt64};
constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};

template <size_t n>
DType Pick(Rng& rng, const DType (&types)[n]) {
  return types[rng() % n];
}

int64_t Least(DType type) { return IsUnsigned(type) ? 0 : -(int64_t{1} << (BitsOf(type) - 2)) * 2; }
int64_t Greatest(DType type) { return BitsOf(type) == 64 ? INT64_MAX : Least(type) + (int64_t{1} << BitsOf(type)) - 1; }

// The integer's lowest bits as a number of the type.
int64_t Wrapped(int64_t value, DType type) {
  const int spare = 64 - BitsOf(type);
  const auto bits = static_cast<uint64_t>(value) << spare;
  return IsUnsigned(type) ? static_cast<int64_t>(bits >> spare) : static_cast<int64_t>(bits) >> spare;
}

// Numbers at which types end, and their neighbours.
int64_t Edge(Rng& rng) {
  static constexpr int64_t kEdges[] = {0, 0, 1, 1, 2, 3, 5, 127, 128, 255, 256, 2048, 32767, 32768, 65535, 65536};
  const int64_t edge = kEdges[rng() % std::size(kEdges)] + (rng() % 4 == 0 ? 1 : 0);
  return rng() % 2 == 0 ? edge : -edge;
}

// ---------------------------------------------------------------- rules

// An application, a leaf (`text`), or the number of which all elements are (no text).
struct Tree {
  std::string op, text, attrs;
  DType type = DType::kFloat32;
  int64_t number = 0;
  std::vector<Tree> args;

  bool IsNumber() const { return op.empty() && text.empty(); }
};

Tree Apply(const std::string& op, DType type, std::vector<Tree> args, const std::string& attrs = "") {
  return {op, "", attrs, type, 0, std::move(args)};
}
Tree Literal(int64_t number, DType type) {
  if (IsInteger(type)) number = Wrapped(number, type);
  return {"", "", "", type, type == DType::kBool ? number & 1 : number, {}};
}
Tree CastTo(DType type, Tree x) { return Apply("cast", type, {std::move(x)}, absl::StrCat("to=", DTypeName(type))); }
Tree Iota(DType type) { return Apply("iota", type, {}, absl::StrCat("shape=[n], axis=0, dtype=", DTypeName(type))); }
Tree Count(DType type) { return Apply("reduce_sum", type, {Literal(1, type)}, "axes=[0]"); }

class RuleMaker {
 public:
  explicit RuleMaker(Rng* rng) : rng_(*rng) {}

  // `changes` of its laws made of the left side the right one.
  std::string Rule() {
    Tree left = Root();
    Tree right = left;
    for (size_t changes = 1 + rng_() % 2; changes > 0; --changes) Change(&right);
    std::string text = absl::StrCat("rule r identity(", Print(left), ") => ", Print(right));
    for (DType type : kAllDTypes) {
      const std::string name = absl::StrCat("x", DTypeName(type), "_");
      const size_t first = text.find(name);
      // The type of a variable stands where it occurs first.
      if (first != std::string::npos) text.insert(first + name.size(), absl::StrCat(": ", DTypeName(type), "[n]"));
    }
    return text;
  }

 private:
  bool Chance(uint64_t n) { return rng_() % n == 0; }
  DType AnyNumber() { return Chance(3) ? Pick(rng_, kFloats) : Pick(rng_, kIntegers); }

  Tree Root() {
    const DType type = AnyNumber();
    switch (rng_() % 8) {
      case 0: return Compared(2);
      case 1: return Apply("argmax", DType::kInt64, {Make(type, 2)}, "axis=0");
      case 2: return Apply(Chance(2) ? "reduce_max" : "reduce_min", type, {Make(type, 2)}, "axes=[0]");
      case 3: return Apply("reduce_sum", type, {Make(type, 1)}, "axes=[0]");
      case 4: {
        const DType index = Pick(rng_, kIntegers);
        return Apply("gather_elements", type, {Variable(type), CastTo(DType::kInt64, Make(index, 1))}, "axis=0");
      }
      default: return Make(type, 3);
    }
  }

  Tree Compared(int depth) {
    static constexpr const char* kComparisons[] = {"less", "less_equal", "equal", "greater", "not_equal"};
    const DType type = AnyNumber();
    return Apply(kComparisons[rng_() % std::size(kComparisons)], DType::kBool,
                 {Make(type, depth - 1), Chance(3) ? Literal(Edge(rng_), type) : Make(type, depth - 1)});
  }

  static Tree Variable(DType type) { return {"", absl::StrCat("x", DTypeName(type), "_"), "", type, 0, {}}; }

  Tree Make(DType type, int depth) {
    if (type == DType::kBool) return depth == 0 ? Variable(type) : Compared(depth);
    if (depth == 0) {
      switch (rng_() % 8) {
        case 0:
        case 1: return Iota(type);
        case 2: return Count(type);
        case 3: return Literal(Edge(rng_), type);
        default: return Variable(type);
      }
    }
    switch (rng_() % 10) {
      case 0:
      case 1:
      case 2:
      case 3: return CastTo(type, Make(Chance(12) ? DType::kBool : AnyNumber(), depth - 1));
      case 4: return Apply("where", type, {Compared(1), Make(type, depth - 1), Make(type, 0)});
      case 5: return One(type, depth);
      case 6: return OfBits(type, depth);
      default: {
        static constexpr const char* kBinary[] = {"add", "sub", "mul", "min", "max", "add", "sub", "div", "rem", "mod"};
        const std::string op = kBinary[rng_() % (IsInteger(type) ? std::size(kBinary) : 5)];
        return Apply(op, type, {Make(type, depth - 1), Make(type, static_cast<int>(rng_() % 3) % depth)});
      }
    }
  }

  Tree One(DType type, int depth) {
    static constexpr const char* kAny[] = {"neg", "abs", "sign", "relu"};
    static constexpr const char* kReal[] = {"floor", "round", "ceil", "neg", "abs"};
    Tree x = Make(type, depth - 1);
    if (Chance(6)) return Apply("cumsum", type, {Chance(2) ? Literal(1, type) : std::move(x)}, "axis=0");
    if (IsFloating(type) && Chance(6)) return Clip(std::move(x), Edge(rng_), Edge(rng_));
    if (Chance(3)) {
      return Apply("clamp", type, {Literal(Edge(rng_), type), std::move(x), Literal(Edge(rng_), type)});
    }
    if (IsFloating(type)) return Apply(kReal[rng_() % std::size(kReal)], type, {std::move(x)});
    return Apply(kAny[rng_() % (IsInteger(type) ? 3 : 4)], type, {std::move(x)});
  }

  static Tree Clip(Tree x, int64_t low, int64_t high) {
    const DType type = x.type;
    return Apply("clip", type, {std::move(x)}, absl::StrCat("min=", low, ", max=", high));
  }

  Tree OfBits(DType type, int depth) {
    if (!IsInteger(type)) return Make(type, depth - 1);
    static constexpr const char* kBits[] = {"bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"};
    const size_t chosen = rng_() % std::size(kBits);
    const Tree by = chosen < 3 ? Make(type, 0) : Literal(static_cast<int64_t>(rng_() % 9), type);
    return Apply(kBits[chosen], type, {Make(type, depth - 1), by});
  }

  // A law of numbers, somewhere in the tree: many are false where integers wrap around or floats round.
  void Change(Tree* tree) {
    if (!tree->args.empty() && !Chance(2)) return Change(&tree->args[rng_() % tree->args.size()]);
    std::optional<Tree> changed = Chance(3) ? ThereAndBack(*tree) : ByItsOperator(*tree);
    if (!changed) changed = ThereAndBack(*tree);
    *tree = *std::move(changed);
  }

  // Casts to another type and back.
  Tree ThereAndBack(const Tree& tree) {
    if (tree.type == DType::kBool) return Apply("logical_not", tree.type, {Apply("logical_not", tree.type, {tree})});
    return CastTo(tree.type, CastTo(AnyNumber(), tree));
  }

  std::optional<Tree> ByItsOperator(const Tree& tree) {
    const std::string& op = tree.op;
    const DType type = tree.type;
    const std::vector<Tree>& args = tree.args;
    const auto flipped = [&](const std::string& other) { return Apply(other, type, {args[1], args[0]}); };
    if (tree.IsNumber()) {
      if (type == DType::kBool) return std::nullopt;
      const DType other = AnyNumber();
      if (Chance(2)) return CastTo(type, Literal(tree.number, other));
      return Literal(tree.number + (Chance(2) ? 256 : 65536), type);
    }
    if (op == "iota") return CastTo(type, Iota(AnyNumber()));
    if (op == "reduce_sum" && args[0].IsNumber()) {
      if (Chance(2)) return CastTo(type, Count(AnyNumber()));
      return Apply("add", type, {Apply("reduce_max", type, {Iota(type)}, "axes=[0]"), Literal(1, type)});
    }
    if (op == "cumsum" && args[0].IsNumber()) return Apply("add", type, {Iota(type), Literal(1, type)});
    if (op == "clip") return Chance(2) ? Clip(tree, -65536, 65536) : Apply(op, type, {tree}, tree.attrs);
    if (op == "rem") return Apply("sub", type, {args[0], Apply("mul", type, {Apply("div", type, args), args[1]})});
    if (op == "div" && Chance(2)) {
      const auto negative = [&](const Tree& x) { return Apply("neg", type, {x}); };
      return Apply(op, type, {negative(args[0]), negative(args[1])});
    }
    if (op == "cast") return OfCast(tree);
    if (op == "add") return Chance(2) ? flipped(op) : Apply("sub", type, {args[0], Apply("neg", type, {args[1]})});
    if (op == "sub") return Apply("add", type, {args[0], Apply("neg", type, {args[1]})});
    if (op == "neg") return Apply("sub", type, {Literal(0, type), args[0]});
    if (op == "abs") return Apply("max", type, {args[0], Apply("neg", type, {args[0]})});
    if (op == "relu") return Apply("max", type, {args[0], Literal(0, type)});
    if (op == "mul" && (args[0].op == "add" || args[0].op == "sub")) {
      const Tree& sum = args[0];
      return Apply(sum.op, type, {Apply(op, type, {sum.args[0], args[1]}), Apply(op, type, {sum.args[1], args[1]})});
    }
    if (op == "min" || op == "max") {
      const char* other = op == "max" ? "min" : "max";
      if (Chance(2)) {
        return Apply("neg", type, {Apply(other, type, {Apply("neg", type, {args[0]}), Apply("neg", type, {args[1]})})});
      }
      const Tree least = Apply("where", type, {Apply("less", DType::kBool, {args[0], args[1]}), args[0], args[1]});
      return op == "min" ? least : flipped(op);
    }
    if (op == "clamp") return Apply("min", type, {Apply("max", type, {args[1], args[0]}), args[2]});
    if (op == "floor") return Apply("neg", type, {Apply("ceil", type, {Apply("neg", type, {args[0]})})});
    if (op == "round" || op == "ceil") return Apply("floor", type, {tree});
    if (op == "shift_left") {
      return Apply("mul", type, {args[0], Literal(int64_t{1} << (args[1].number & 15), type)});
    }
    if (op == "bit_and" && Chance(2)) return Apply("sub", type, {args[0], Apply("bit_xor", type, {args[0], tree})});
    if (op == "bit_or" && Chance(2)) {
      return Apply("sub", type, {Apply("add", type, {args[0], args[1]}), Apply("bit_and", type, {args[0], args[1]})});
    }
    if (op == "mul" || op.starts_with("bit_")) return flipped(op);
    if (op == "where") return Apply(op, type, {Apply("logical_not", DType::kBool, {args[0]}), args[2], args[1]});
    if (op == "gather_elements") {
      // Each element from its own place.
      return args[1].op == "cast" && args[1].args[0].op == "iota" ? args[0] : std::optional<Tree>();
    }
    if (op == "reduce_max" || op == "reduce_min" || op == "argmax") {
      if (args[0].op == "cast") {  // before the rounding
        const Tree inner = Apply(op, op == "argmax" ? type : args[0].args[0].type, {args[0].args[0]}, tree.attrs);
        if (args[0].args[0].type == DType::kBool) return std::nullopt;
        return op == "argmax" ? inner : CastTo(type, inner);
      }
      return Apply(op, type, {Apply("reverse", args[0].type, {args[0]}, "axes=[0]")}, tree.attrs);
    }
    if (type == DType::kBool && args.size() == 2) return OfComparison(tree);
    return std::nullopt;
  }

  std::optional<Tree> OfCast(const Tree& tree) {
    const Tree& x = tree.args[0];
    const DType type = tree.type;
    if (x.op == "cast" && Chance(2)) return CastTo(type, x.args[0]);
    if (x.op == "iota") return Iota(type);
    if (x.op == "reduce_sum") return Count(type);
    if (x.IsNumber()) return Literal(x.number, type);
    static constexpr const char* kInside[] = {"add", "sub",     "mul",    "min",     "max",   "neg",
                                              "abs", "bit_and", "bit_or", "bit_xor", "floor", "round",
                                              "div", "rem",     "mod",    "cumsum",  "clip",  "where"};
    if (std::find(std::begin(kInside), std::end(kInside), x.op) == std::end(kInside)) return std::nullopt;
    std::vector<Tree> args;
    for (const Tree& arg : x.args) args.push_back(arg.type == DType::kBool ? arg : CastTo(type, arg));
    return Apply(x.op, type, std::move(args), x.attrs);
  }

  Tree OfComparison(const Tree& tree) {
    const std::string& op = tree.op;
    const std::vector<Tree>& args = tree.args;
    const auto with = [&](Tree a, Tree b) { return Apply(op, DType::kBool, {std::move(a), std::move(b)}); };
    const DType type = args[0].type;
    switch (rng_() % 4) {
      case 0: {  // in another type
        const DType other = AnyNumber();
        return with(CastTo(other, args[0]), CastTo(other, args[1]));
      }
      case 1: {
        const Tree by = Literal(Edge(rng_), type);
        return with(Apply("add", type, {args[0], by}), Apply("add", type, {args[1], by}));
      }
      case 2: return with(Apply("sub", type, {args[0], args[1]}), Literal(0, type));
      default:
        if (op == "less") {
          return Apply("logical_not", DType::kBool, {Apply("less_equal", DType::kBool, {args[1], args[0]})});
        }
        if (args[0].op == "iota" && args[1].IsNumber() && Chance(2)) return Literal(0, DType::kBool);
        if (op == "equal" || op == "not_equal") return with(args[1], args[0]);
        return Apply(op == "greater" ? "less" : "greater", DType::kBool, {args[1], args[0]});
    }
  }

  std::string Print(const Tree& tree) const {
    if (tree.IsNumber()) return absl::StrCat(tree.number, ": ", DTypeName(tree.type), "[n]");
    if (tree.op.empty()) return tree.text;
    std::string text;
    for (const Tree& arg : tree.args) absl::StrAppend(&text, text.empty() ? "" : ", ", Print(arg));
    absl::StrAppend(&text, text.empty() || tree.attrs.empty() ? "" : ", ", tree.attrs);
    return absl::StrCat(tree.op, "(", text, ")");
  }

  Rng& rng_;
};

// ---------------------------------------------------------------- the attack

double FloatElement(DType type, bool exact, Rng& rng) {
  const double small = static_cast<double>(static_cast<int64_t>(rng() % 17) - 8) / 4;
  switch (rng() % (exact ? 3 : 6)) {
    case 0: return small;
    case 1: return static_cast<double>(Edge(rng));
    case 2: return static_cast<double>(Edge(rng)) + 0.5;
    case 3: return small * LargestOf(type) / 2;
    case 4: return small * SmallestNormalOf(type);
    default: return small * std::exp2(static_cast<double>(rng() % 30)) * (1 + RoundingOf(type));
  }
}

// `exact`: no element that a double does not hold beside its neighbours.
int64_t IntegerElement(DType type, bool exact, Rng& rng) {
  if (type == DType::kBool) return static_cast<int64_t>(rng() % 2);
  const auto near = static_cast<int64_t>(rng() % 3);
  const bool ends = !exact || BitsOf(type) < 64;
  switch (rng() % 5) {
    case 0: return ends ? Least(type) + near : Edge(rng);
    case 1: return ends ? Greatest(type) - near : Edge(rng);
    case 2: return Wrapped(Greatest(type) / 2 + near, ends ? type : DType::kInt32);
    default: return Wrapped(Edge(rng), type);
  }
}

Tensor Leaf(const SymbolicNode& node, const TensorType& type, Precision precision, bool exact, Rng& rng) {
  Tensor leaf(TensorType{StoredDType(precision, type.dtype), type.shape});
  // If all elements are ends of their type, nothing else is tested.
  const bool small = rng() % 3 == 0;
  for (int64_t i = 0; i < leaf.num_elements(); ++i) {
    if (node.splat) {
      SetElement(*node.splat, i, &leaf);
    } else if (IsFloating(type.dtype)) {
      leaf.Set(i, NearestOf(type.dtype, FloatElement(type.dtype, exact || small, rng)));
    } else {
      const int64_t tiny = static_cast<int64_t>(rng() % 7) - 3;
      leaf.SetInt(
          i, type.dtype == DType::kBool || !small ? IntegerElement(type.dtype, exact, rng) : Wrapped(tiny, type.dtype));
    }
  }
  return leaf;
}

bool HasFloats(const RuleInstance& instance) {
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [](const SymbolicNode& node) {
    return std::any_of(node.dtypes.begin(), node.dtypes.end(), IsFloating);
  });
}

// True if doubles, of which all are sums of quarters, have held all real numbers without rounding.
bool AreExact(const std::vector<std::vector<Tensor>>& values) {
  for (const std::vector<Tensor>& outputs : values) {
    for (const Tensor& value : outputs) {
      if (!IsFloating(value.dtype())) continue;
      for (int64_t i = 0; i < value.num_elements(); ++i) {
        if (!(std::abs(value.At(i)) < 0x1p40)) return false;
      }
    }
  }
  return true;
}

bool AreSame(const Tensor& left, const Tensor& right, int64_t i, bool bits) {
  if (!IsFloating(left.dtype())) return left.AtInt(i) == right.AtInt(i);
  const double a = left.At(i), b = right.At(i);
  if (!bits) return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(a));
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// Describes the place where the sides differ, at one draw of the elements; adds to `compared` if both sides have
// values.
std::optional<std::string> DifferenceAt(const RuleInstance& instance, int64_t n, Precision precision, Rng& rng,
                                        bool bits, int* compared) {
  const NumericInstance numeric(instance, std::vector<int64_t>(instance.symbols.size(), n), {});
  const bool exact = precision == Precision::kFloat64 && HasFloats(instance);
  std::vector<Tensor> leaves(instance.nodes.size());
  for (size_t k = 0; k < instance.nodes.size(); ++k) {
    const SymbolicNode& node = instance.nodes[k];
    if (!numeric.Legal(node).ok()) return std::nullopt;
    if (node.op == nullptr) leaves[k] = Leaf(node, numeric.TypeOf(node, 0), precision, exact, rng);
  }
  const auto values = numeric.Run(leaves, precision, instance.nodes.size());
  if (!values.ok() || (exact && !AreExact(*values))) return std::nullopt;
  ++*compared;
  for (size_t o = 0; o < instance.lhs.size(); ++o) {
    const Tensor& left = (*values)[instance.lhs[o].node][instance.lhs[o].output];
    const Tensor& right = (*values)[instance.rhs[o].node][instance.rhs[o].output];
    for (int64_t i = 0; i < left.num_elements(); ++i) {
      if (AreSame(left, right, i, bits)) continue;
      std::string at = absl::StrCat("n=", n, ", element ", i, ": ", NumberString(ElementOf(left, i)), " and ",
                                    NumberString(ElementOf(right, i)), ";");
      for (size_t k = 0; k < instance.nodes.size(); ++k) {
        const SymbolicNode& node = instance.nodes[k];
        if (node.op != nullptr || node.splat || leaves[k].num_elements() <= i) continue;
        absl::StrAppend(&at, " ", node.name, "=", NumberString(ElementOf(leaves[k], i)));
      }
      return at;
    }
  }
  return std::nullopt;
}

// Sizes beyond which positions and counts wrap around in 8 bits, round in bf16 and in f16, and wrap around in 16 bits.
std::optional<std::string> Difference(const RuleInstance& instance, Precision precision, Rng& rng, bool bits,
                                      int* compared) {
  constexpr std::pair<int64_t, int> kSizesAndDraws[] = {{1, 6}, {3, 10}, {129, 3}, {300, 3}, {2100, 1}, {70000, 1}};
  constexpr int64_t kPlainSize = 300;
  const bool has_positions = std::any_of(instance.nodes.begin(), instance.nodes.end(), [](const SymbolicNode& node) {
    if (node.op == nullptr) return false;
    return node.op->name == "iota" || node.op->name == "cumsum" || node.op->name == "reduce_sum";
  });
  for (const auto& [n, draws] : kSizesAndDraws) {
    if (n > kPlainSize && !has_positions) break;
    for (int draw = 0; draw < draws; ++draw) {
      if (auto found = DifferenceAt(instance, n, precision, rng, bits, compared)) return found;
    }
  }
  return std::nullopt;
}

struct Tally {
  int made = 0, proved = 0, exact = 0, refuted = 0, differ = 0;

  void Print(const char* what, uint64_t seed) const {
    std::cout << "seed " << seed << ": " << made << " " << what << ", " << proved << " proved, " << exact << " exact, "
              << refuted << " refuted, " << differ << " told apart\n";
  }
};

// Compares the verdict on the rule with the interpreter. Returns a check that is hardly one, or "": a rule that is
// proved and compared at few draws, for the interpreter's many errors or large numbers; or one that is told apart and
// not refuted. Returns nothing where the text is no rule.
std::optional<std::string> Judge(const Rule& rule, const std::string& text, Rng& rng, Tally* tally) {
  const auto compiled = CompileRule(rule, RuleUse::kProof);
  // The right side mentions a name that the left one does not, or types do not fit.
  if (!compiled.ok()) return std::nullopt;
  const auto instances = Instances(**compiled, SmallLimits(**compiled));
  if (!instances.ok()) return std::nullopt;
  std::string found;
  ++tally->made;
  RuleProofOptions options;
  options.use = RuleUse::kProof;
  options.work_limit_s = options.instance_limit_s = 0.5;
  const RuleVerdict verdict = ProveRule(rule, options);
  const bool proved = verdict.verdict == Verdict::kProved;
  const bool exact = proved && verdict.rule_class == RuleClass::kExact;
  tally->proved += proved;
  tally->exact += exact;
  tally->refuted += verdict.verdict == Verdict::kRefuted;
  for (const RuleInstance& instance : *instances) {
    constexpr int kFew = 3;
    int compared = 0;
    const auto told_apart = Difference(instance, Precision::kFloat64, rng, /*bits=*/false, &compared);
    if (proved && compared < kFew) found = absl::StrCat("proved, and compared ", compared, " times");
    if (told_apart && verdict.verdict == Verdict::kUnknown) found = "told apart, and open";
    tally->differ += told_apart.has_value();
    if (!proved) continue;
    EXPECT_FALSE(told_apart.has_value()) << "proved and false: " << text << "\n" << *told_apart;
    const SymbolicValue output = instance.lhs[0];
    const bool decides = !IsFloating(instance.nodes[output.node].dtypes[output.output]);
    const bool risky = verdict.rule_class == RuleClass::kNumericallyRisky;
    if (!exact && (!decides || risky || verdict.rule_class == RuleClass::kFiniteOnly)) continue;
    const auto rounded = Difference(instance, Precision::kNative, rng, /*bits=*/true, &compared);
    EXPECT_FALSE(rounded.has_value()) << RuleClassName(verdict.rule_class) << ", and differs: " << text << "\n"
                                      << *rounded;
  }
  return found;
}

// Judges a rule of each of today's part of `whole` draws.
template <typename Draw>
Tally JudgeAll(int whole, int part, uint64_t seed, const std::string& what, const Draw& draw) {
  Tally tally;
  Findings findings;
  ForTodaysCases(
      whole,
      [&](size_t k) {
        Rng rng(seed + k);
        std::optional<std::string> found;
        std::string text;
        while (!found) {
          const std::optional<Rule> rule = draw(rng);
          ASSERT_FALSE(::testing::Test::HasFatalFailure());
          if (!rule) continue;
          text = PrintLaw(*rule);
          found = Judge(*rule, text, rng, &tally);
        }
        findings[absl::StrCat("#", k, " ", text)] = *found;
      },
      part);
  tally.Print(what.c_str(), seed);
  ExpectRecorded("verifier/lists/random_rules.txt", "narrow " + what, findings, AllCases());
  return tally;
}

std::optional<Rule> RandomRule(Rng& rng) {
  const std::string text = RuleMaker(&rng).Rule();
  const auto parsed = ParseRules(text, "random");
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? std::optional<Rule>(parsed->at(0)) : std::nullopt;
}

TEST(NarrowRulesTest, NoRuleThatDiffersIsProved) {
  const Tally tally = JudgeAll(2000, /*part=*/20, /*seed=*/20241127, "rules", RandomRule);
  EXPECT_GT(tally.proved, tally.made / 10);
  EXPECT_GT(tally.exact, tally.made / 20);
  EXPECT_GT(tally.differ, tally.made / 10);
  EXPECT_GT(tally.refuted, tally.differ / 2);
}

// The same rules, changed at one place.
TEST(NarrowRulesTest, NoMutantThatDiffersIsProved) {
  const Tally tally = JudgeAll(1000, /*part=*/10, /*seed=*/20241128, "mutants", [](Rng& rng) -> std::optional<Rule> {
    const std::optional<Rule> rule = RandomRule(rng);
    const std::optional<Mutant> mutant = rule ? MutateRule(*rule, rng) : std::nullopt;
    return mutant ? std::optional<Rule>(mutant->rule) : std::nullopt;
  });
  EXPECT_GT(tally.differ, tally.made / 4);
}

}  // namespace
}  // namespace rewright::narrow_rules
