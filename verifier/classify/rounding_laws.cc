#include "verifier/classify/rounding_laws.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"
#include "substitutions/language/number.h"

namespace rewright {
namespace {

// An unknown function. Its name has no point: the prover takes names with one for functions of integers.
ExprPtr AnyFunction(const std::string& name, std::vector<ExprPtr> args, DType dtype) {
  return OpaqueElement(absl::StrCat("any_", name), 0, std::move(args), dtype).node();
}

// The instance with other elements, attributes and constants; positions and sizes stay.
RuleInstance WithElements(RuleInstance instance,
                          absl::FunctionRef<ExprPtr(const SymbolicNode&, const ExprPtr&)> replaced) {
  for (SymbolicNode& node : instance.nodes) {
    const SymbolicNode given = node;
    for (ExprPtr& param : node.params) {
      param = RewriteExpr(param, [&](const ExprPtr& e) { return replaced(given, e); });
    }
    if (node.meaning == nullptr || node.meaning->IsOpaque()) continue;
    auto meaning = std::make_shared<Meaning>(*node.meaning);
    for (OutputMeaning& output : meaning->outputs) {
      output.element = RewriteExpr(output.element, [&](const ExprPtr& e) { return replaced(given, e); });
    }
    node.meaning = std::move(meaning);
  }
  return instance;
}

// ---------------------------------------------------------------- operations

// Tells whether every value of the instance with real elements has one and the same type.
bool HasOneFloatingType(const RuleInstance& instance) {
  std::set<DType> types;
  for (const SymbolicNode& node : instance.nodes) {
    for (DType type : node.dtypes) {
      if (IsFloating(type)) types.insert(type);
    }
  }
  return types.size() <= 1;
}

class Operations {
 public:
  explicit Operations(const RuleInstance& instance)
      : instance_(instance), correctly_rounded_(HasOneFloatingType(instance)) {}

  ExprPtr operator()(const SymbolicNode& node, const ExprPtr& e) const {
    if (!IsScalarKind(e->kind()) || !IsFloating(e->dtype())) return e;
    switch (e->kind()) {
      case ExprKind::kCall: return FnHas(e->fn(), FnTrait::kExact) ? e : OfCall(node, e);
      case ExprKind::kReduce:
        return e->reduction() == ReduceKind::kSum || e->reduction() == ReduceKind::kProd ? InOrder(node, e) : e;
      case ExprKind::kCast: return OfCast(node, e);
      case ExprKind::kFromIndex:
        return AnyFunction(OfPosition(e->dtype()), {FromIndex(Index(e->arg(0)), DType::kInt64).node()}, e->dtype());
      default: return e;
    }
  }

 private:
  // The number that each element of the operand is known to be.
  std::optional<double> ConstantOf(const SymbolicNode& node, const ExprPtr& e) const {
    if (e->IsConst()) return e->real();
    if (!e->IsRead()) return std::nullopt;
    const std::optional<Number>& splat = instance_.nodes[static_cast<size_t>(node.inputs[e->operand()].node)].splat;
    return splat ? std::optional(RealOf(*splat)) : std::nullopt;
  }

  ExprPtr OfCall(const SymbolicNode& node, const ExprPtr& e) const {
    const auto is_one = [&](size_t k) { return ConstantOf(node, e->arg(k)) == 1; };
    switch (e->fn()) {
      case Fn::kMul:
        if (is_one(0)) return e->arg(1);
        [[fallthrough]];
      case Fn::kDiv:
      case Fn::kPow:
        if (is_one(1)) return e->arg(0);
        break;
      default: break;
    }
    switch (e->fn()) {
      case Fn::kAdd:
      case Fn::kSub:
      case Fn::kMul:
      case Fn::kDiv:
      case Fn::kSqrt:
        // The number of the type next to the real result (IEEE 754, section 5.4.1): an odd function of it.
        if (correctly_rounded_) return AnyFunction("odd", {e}, e->dtype());
        [[fallthrough]];
      default:
        return AnyFunction(absl::StrCat(InfoOf(e->fn()).name, "_", DTypeName(e->dtype())), e->args(), e->dtype());
    }
  }

  // Argmax stands for a binder about which the prover knows only that it sees each term at its place. A range of one
  // place adds no operation.
  static ExprPtr InOrder(const SymbolicNode& node, const ExprPtr& e) {
    const std::string type = DTypeName(e->dtype());  // in which it rounds
    const std::string name = absl::StrCat(ReduceName(e->reduction()), "_", type);
    std::vector<BoundVar> bound;
    std::vector<ExprPtr> zeros;
    for (const BoundVar& b : e->bound()) {
      if (!IsOne(node, b.extent)) {
        bound.push_back(b);
        continue;
      }
      zeros.resize(std::max(zeros.size(), static_cast<size_t>(b.id) + 1));
      zeros[static_cast<size_t>(b.id)] = Index(0).node();
    }
    ExprPtr sum = AnyFunction("term_" + type, {Substitute(e->body(), zeros, {})}, e->dtype());
    const Cond guard(Substitute(e->guard(), zeros, {}));
    if (bound.empty()) return Select(guard, Scalar(sum), 0.0).node();
    for (size_t k = bound.size(); k-- > 0;) {
      const Scalar places =
          ReduceOver(ReduceKind::kArgMax, {bound[k]}, k + 1 == bound.size() ? guard : Cond(true), Scalar(sum));
      sum = AnyFunction(name, {places.node()}, e->dtype());
    }
    return sum;
  }

  static bool IsOne(const SymbolicNode& node, const ExprPtr& extent) {
    if (extent->IsInt(1)) return true;
    if (!extent->IsVariable()) return false;
    const auto variable = static_cast<size_t>(extent->variable());
    return variable < node.indices.size() && node.indices[variable] != nullptr && node.indices[variable]->IsInt(1);
  }

  ExprPtr OfCast(const SymbolicNode& node, const ExprPtr& e) const {
    const DType from = e->arg(0)->dtype(), to = e->dtype();
    if (from == to || from == DType::kBool || HoldsAll(to, from) || IsWidened(node, e->arg(0), to)) return e;
    if (IsPosition(node, e->arg(0))) return AnyFunction(OfPosition(to), e->args(), to);
    return AnyFunction(absl::StrCat(DTypeName(to), "_of_", DTypeName(from)), e->args(), to);
  }

  static std::string OfPosition(DType to) { return absl::StrCat(DTypeName(to), "_of_position"); }

  // True if the operand that is read has positions for elements, which 32 bits hold: as numbers of a floating type they
  // are those that it has for the positions themselves.
  bool IsPosition(const SymbolicNode& node, const ExprPtr& e) const {
    if (!e->IsRead() || !IsInteger(e->dtype()) || BitsOf(e->dtype()) < 32) return false;
    const ExprPtr* element = ElementRead(node, e);
    return element != nullptr && (*element)->kind() == ExprKind::kFromIndex;
  }

  // The element of the application that is read; null where a leaf is.
  const ExprPtr* ElementRead(const SymbolicNode& node, const ExprPtr& e) const {
    const SymbolicValue operand = node.inputs[static_cast<size_t>(e->operand())];
    const SymbolicNode& before = instance_.nodes[static_cast<size_t>(operand.node)];
    if (before.meaning == nullptr || before.meaning->IsOpaque()) return nullptr;
    return &before.meaning->outputs[static_cast<size_t>(operand.output)].element;
  }

  // True if the wide floating type has every number of the narrow one.
  static bool HoldsAll(DType wide, DType narrow) {
    return IsFloating(narrow) && (wide == DType::kFloat64 || (wide == DType::kFloat32 && IsNarrow(narrow)));
  }

  // True if the operand that is read is itself a conversion from the narrower type.
  bool IsWidened(const SymbolicNode& node, const ExprPtr& e, DType narrow) const {
    if (!e->IsRead() || !HoldsAll(e->dtype(), narrow)) return false;
    const ExprPtr* element = ElementRead(node, e);
    return element != nullptr && (*element)->kind() == ExprKind::kCast && (*element)->arg(0)->IsRead() &&
           (*element)->arg(0)->dtype() == narrow;
  }

  const RuleInstance& instance_;
  const bool correctly_rounded_;
};

// ---------------------------------------------------------------- magnitudes

ExprPtr MagnitudeOf(const ExprPtr& e, const std::set<ExprPtr>& exponents, Counts counts) {
  if (!IsScalarKind(e->kind()) || !IsFloating(e->dtype()) || exponents.contains(e)) return e;
  // An infinity is where an extremum begins: its sign is no part of a magnitude.
  if (e->IsConst()) return e->real() < 0 && std::isfinite(e->real()) ? Constant(-e->real(), e->dtype()).node() : e;
  if (e->kind() == ExprKind::kFromIndex) {
    // An integer that a number is made of, as -3 in -3 / 4.
    int64_t integer;
    if (!Index(e->arg(0)).IsInt(&integer)) {
      if (counts == Counts::kAbsolute) return Call(Fn::kAbs, {Scalar(e)}).node();
      return AnyFunction("magnitude", {FromIndex(Index(e->arg(0)), DType::kInt64).node()}, e->dtype());
    }
    return integer < 0 ? FromIndex(Index(-integer), e->dtype()).node() : e;
  }
  if (e->kind() == ExprKind::kReduce && e->reduction() == ReduceKind::kMin) {
    return ReduceOver(ReduceKind::kMax, e->bound(), Cond(e->guard()), Scalar(e->body())).node();
  }
  if (!e->IsCall()) return e;
  switch (e->fn()) {
    case Fn::kSub: return (Scalar(e->arg(0)) + Scalar(e->arg(1))).node();
    case Fn::kMin: return Max(Scalar(e->arg(0)), Scalar(e->arg(1))).node();
    case Fn::kNeg:
    case Fn::kAbs: return e->arg(0);
    default: return e;
  }
}

// Constants that are exponents, and leaves that are: their sign says how the power grows.
struct Exponents {
  explicit Exponents(const RuleInstance& instance) {
    for (const SymbolicNode& node : instance.nodes) {
      if (node.meaning == nullptr || node.meaning->IsOpaque()) continue;
      for (const OutputMeaning& output : node.meaning->outputs) {
        Visit(output.element, [&](const ExprPtr& e) {
          if (!e->IsCall(Fn::kPow)) return;
          if (e->arg(1)->IsConst()) constants.insert(e->arg(1));
          if (e->arg(1)->IsRead()) leaves.insert(node.inputs[static_cast<size_t>(e->arg(1)->operand())].node);
        });
      }
    }
  }
  std::set<ExprPtr> constants;
  std::set<int> leaves;
};

Number MagnitudeOf(const Number& number) {
  const double* real = std::get_if<double>(&number);
  return real != nullptr && std::isfinite(*real) ? Number(std::abs(*real)) : number;
}

// ---------------------------------------------------------------- ranges

// An application made for one law: the greatest value that any function gives for the elements of its operands, of
// either sign, and for 0 and 1. Two such applications are equal, whatever the function, only if they have the same
// elements.
SymbolicNode GreatestOf(const RuleInstance& instance, const std::vector<SymbolicValue>& values, DType dtype) {
  static const OpDef* const kGreatest = [] {
    auto* const op = new OpDef;
    op->name = "greatest";
    return op;
  }();
  SymbolicNode node;
  node.op = kGreatest;
  node.inputs = values;
  auto meaning = std::make_shared<Meaning>();
  const auto any = [&](const Scalar& x) { return Scalar(AnyFunction("order", {x.node()}, dtype)); };
  Scalar greatest = Max(any(Constant(0, dtype)), any(Constant(1, dtype)));
  for (size_t input = 0; input < values.size(); ++input) {
    const std::vector<ExprPtr>& shape = instance.nodes[values[input].node].shapes[values[input].output];
    std::vector<BoundVar> bound;
    std::vector<Index> at;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const auto add = [&](const std::string& name, Meaning::VarKind kind, const ExprPtr& index) {
        const int id = static_cast<int>(meaning->variables.size());
        meaning->variables.push_back({name, kind, static_cast<int>(input), static_cast<int>(axis)});
        node.indices.push_back(index);
        return Variable(id, name);
      };
      const Index size = add(absl::StrCat("n", input, "_", axis), Meaning::VarKind::kSize, shape[axis]);
      at.push_back(add(absl::StrCat("e", input, "_", axis), Meaning::VarKind::kBound, nullptr));
      bound.push_back({at.back().node()->variable(), at.back().node()->name(), size.node()});
    }
    const Scalar element = ReadOperand(static_cast<int>(input), at, dtype);
    for (const Scalar& x : {any(element), any(-element)}) {
      greatest = Max(greatest, bound.empty() ? x : ReduceOver(ReduceKind::kMax, bound, Cond(true), x));
    }
  }
  meaning->outputs.push_back({dtype, {}, {}, greatest.node()});
  node.meaning = std::move(meaning);
  node.dtypes = {dtype};
  node.shapes = {{}};
  return node;
}

}  // namespace

RuleInstance LawOfOperations(const RuleInstance& instance, bool stored) {
  RuleInstance law = WithElements(instance, Operations(instance));
  for (SymbolicNode& node : law.nodes) {
    if (node.meaning == nullptr || node.meaning->IsOpaque()) continue;
    auto meaning = std::make_shared<Meaning>(*node.meaning);
    for (OutputMeaning& output : meaning->outputs) {
      const bool rounds = IsFloating(output.dtype) && (stored || IsNarrow(output.dtype));
      if (rounds && output.element->Contains(ExprKind::kOpaque)) {
        // The number of the narrow type next to it: an odd function, too.
        output.element = AnyFunction("odd_stored", {output.element}, output.dtype);
      }
    }
    node.meaning = std::move(meaning);
  }
  return law;
}

RuleInstance LawOfMagnitudes(const RuleInstance& instance, Counts counts) {
  const Exponents exponents(instance);
  RuleInstance law = WithElements(
      instance, [&](const SymbolicNode&, const ExprPtr& e) { return MagnitudeOf(e, exponents.constants, counts); });
  for (RealSymbol& real : law.reals) real.positive = real.positive || IsFloating(real.dtype);
  for (size_t n = 0; n < law.nodes.size(); ++n) {
    SymbolicNode& node = law.nodes[n];
    const bool is_exponent = exponents.leaves.contains(static_cast<int>(n));
    if (node.meaning != nullptr || !IsFloating(node.dtypes[0]) || is_exponent) continue;
    node.positive = true;
    if (node.splat) node.splat = MagnitudeOf(*node.splat);
  }
  return law;
}

std::set<int> Used(const RuleInstance& instance, const std::vector<SymbolicValue>& outputs) {
  std::set<int> used;
  std::vector<SymbolicValue> open = outputs;
  while (!open.empty()) {
    const int node = open.back().node;
    open.pop_back();
    if (!used.insert(node).second) continue;
    const std::vector<SymbolicValue>& inputs = instance.nodes[node].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return used;
}

RuleInstance LawOfRanges(const RuleInstance& instance, SymbolicValue value) {
  const DType dtype = instance.nodes[value.node].dtypes[value.output];
  RuleInstance law = instance;
  std::vector<SymbolicValue> known;
  for (int node : Used(instance, instance.lhs)) {
    const std::vector<DType>& dtypes = instance.nodes[node].dtypes;
    for (size_t k = 0; k < dtypes.size(); ++k) {
      if (dtypes[k] == dtype) known.push_back({node, static_cast<int>(k)});
    }
  }
  law.nodes.push_back(GreatestOf(instance, known, dtype));
  law.lhs = {{static_cast<int>(law.nodes.size()) - 1, 0}};
  known.push_back(value);
  law.nodes.push_back(GreatestOf(instance, known, dtype));
  law.rhs = {{static_cast<int>(law.nodes.size()) - 1, 0}};
  return law;
}

}  // namespace rewright
