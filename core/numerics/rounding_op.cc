#include "core/numerics/rounding_op.h"

#include <cmath>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/attr_specs.h"
#include "core/ir/derivative.h"
#include "core/ir/made_op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

Scalar AbsOf(const Scalar& a) { return Call(Fn::kAbs, {a}); }

// Returns the sum; null counts as 0.
Scalar Plus(const Scalar& a, const Scalar& b) {
  if (a.node() == nullptr) return b;
  return b.node() == nullptr ? a : a + b;
}

// Limits magnitudes, so that nothing is infinite and 0 times it is 0: for elements masked by an infinity, or the slope
// of a root at 0.
constexpr double kMostMagnitude = 1e18;
Scalar Limited(const Scalar& magnitude) { return Min(magnitude, Constant(kMostMagnitude, magnitude.dtype())); }

struct LocalError {
  Scalar worst, square;  // null: 0
  bool IsZero() const { return worst.node() == nullptr; }
};

class ErrorBuilder {
 public:
  // Errors of the operations alone, or with `operands` those alone that stand as operand k + `operands` for operand k.
  explicit ErrorBuilder(std::optional<int> operands = std::nullopt) : operands_(operands) {}

  LocalError Of(const ExprPtr& node) {
    const auto found = done_.find(node);
    if (found != done_.end()) return found->second;
    const LocalError error = Make(node);
    done_.emplace(node, error);
    return error;
  }

 private:
  LocalError Rounded(Roundings roundings, const Scalar& result) const {
    if (operands_) return {};
    const Scalar size = Limited(AbsOf(result));
    return {roundings.worst == 1 ? size : roundings.worst * size,
            roundings.square * kMeanSquareOfRounding * (size * size)};
  }
  static LocalError Scaled(const Scalar& slope, const LocalError& error) {
    const Scalar size = Limited(AbsOf(slope));
    return {size * error.worst, size * size * error.square};
  }
  static LocalError Sum(const LocalError& a, const LocalError& b) {
    return {Plus(a.worst, b.worst), Plus(a.square, b.square)};
  }

  LocalError Make(const ExprPtr& node) {
    if (!IsScalarKind(node->kind()) || !IsFloating(node->dtype())) return {};
    switch (node->kind()) {
      case ExprKind::kRead: return OfRead(node);
      case ExprKind::kConst:
        if (!std::isfinite(node->real()) || NearestOf(node->dtype(), node->real()) == node->real()) return {};
        return Rounded({1, 1}, Scalar(node));
      case ExprKind::kParam: return Rounded({1, 1}, Scalar(node));
      case ExprKind::kCast: return OfCast(node);
      case ExprKind::kCall: return OfCall(node);
      case ExprKind::kSelect: {
        const LocalError yes = Of(node->yes()), no = Of(node->no());
        if (yes.IsZero() && no.IsZero()) return {};
        const auto choose = [&](const Scalar& a, const Scalar& b) {
          const Scalar zero = Constant(0, node->dtype());
          return Select(Cond(node->condition()), a.node() == nullptr ? zero : a, b.node() == nullptr ? zero : b);
        };
        return {choose(yes.worst, no.worst), choose(yes.square, no.square)};
      }
      case ExprKind::kReduce: return OfReduction(node);
      default: return {};
    }
  }

  LocalError OfRead(const ExprPtr& node) const {
    if (!operands_) return {};
    std::vector<Index> at;
    for (const ExprPtr& index : node->args()) at.emplace_back(index);
    const Scalar error = Limited(AbsOf(ReadOperand(node->operand() + *operands_, at, node->dtype())));
    return {error, error * error};
  }

  LocalError OfCast(const ExprPtr& node) {
    const ExprPtr& from = node->arg(0);
    if (IsFloating(from->dtype())) {
      const LocalError error = Of(from);
      return error.IsZero() ? error : LocalError{Cast(error.worst, node->dtype()), Cast(error.square, node->dtype())};
    }
    if (from->dtype() == DType::kBool || BitsOf(from->dtype()) < 32) return {};
    // The conversion rounds integers beyond the mantissa.
    const Scalar value(node);
    const Cond large = Holds(Call(Fn::kLess, {Constant(0x1p24, node->dtype()), AbsOf(value)}));
    const LocalError rounded = Rounded({1, 1}, value);
    if (rounded.IsZero()) return {};
    return {Select(large, rounded.worst, 0.0), Select(large, rounded.square, 0.0)};
  }

  LocalError OfCall(const ExprPtr& node) {
    LocalError total;
    std::vector<Scalar> partials;
    for (size_t k = 0; k < node->args().size(); ++k) {
      const LocalError error = Of(node->arg(k));
      if (error.IsZero()) continue;
      if (partials.empty()) partials = Partials(Scalar(node));
      const Scalar& slope = partials[k];
      if (slope.node() == nullptr) continue;
      total = Sum(total, Scaled(slope, error));
    }
    const Roundings roundings = RoundingsOf(*node);
    return roundings.worst == 0 ? total : Sum(total, Rounded(roundings, Scalar(node)));
  }

  LocalError OfReduction(const ExprPtr& node) {
    const ExprPtr& body = node->body();
    const LocalError term = Of(body);
    const auto over = [&](ReduceKind kind, const Scalar& of) {
      return ReduceOver(kind, node->bound(), Cond(node->guard()), of);
    };
    const Scalar value(node), one(body);
    switch (node->reduction()) {
      case ReduceKind::kSum: {
        LocalError total;
        if (!term.IsZero()) {
          total = {over(ReduceKind::kSum, term.worst), over(ReduceKind::kSum, term.square)};
        }
        if (operands_) return total;
        const Scalar n = Points(*node);
        const Scalar squares = over(ReduceKind::kSum, one * one);
        const Scalar order = n * squares - value * value;
        return Sum(total, {n * over(ReduceKind::kSum, AbsOf(one)),
                           kMeanSquareOfRounding * (n * (value * value) / 3.0 + Max(order, 0.0) / 6.0)});
      }
      case ReduceKind::kProd: {
        const Scalar n = Points(*node);
        LocalError total;
        if (!operands_) total = {n * AbsOf(value), kMeanSquareOfRounding * (n * (value * value))};
        if (!term.IsZero()) {
          const LocalError one_term = Scaled(value / one, term);
          total = Sum(total, {over(ReduceKind::kSum, one_term.worst), over(ReduceKind::kSum, one_term.square)});
        }
        return total;
      }
      case ReduceKind::kMax:
      case ReduceKind::kMin:
        if (term.IsZero()) return {};
        return {Max(over(ReduceKind::kMax, term.worst), 0.0), Max(over(ReduceKind::kMax, term.square), 0.0)};
      default: return {};
    }
  }

  Scalar Points(const ExprNode& reduction) {
    Index points = 1;
    for (const BoundVar& variable : reduction.bound()) points = points * Index(variable.extent);
    return FromIndex(points, reduction.dtype());
  }

  const std::optional<int> operands_;
  absl::flat_hash_map<ExprPtr, LocalError> done_;
};

// Gives the operator outputs of the shape of an output of another meaning of the same operands, with these elements.
void AddOutputs(const Meaning& meaning, const OutputMeaning& output, const std::vector<Scalar>& elements,
                OpBuilder& b) {
  std::vector<ExprPtr> symbols = SymbolsOf(b, meaning, [&](int input, int axis) { return b.size(input, axis); });
  const auto read = [&b](int operand, const std::vector<Index>& at, DType) { return b.Read(operand, at); };
  for (const Requirement& requirement : meaning.requirements) {
    b.Require(Cond(ExprReindexer(b, symbols, read)(requirement.condition)), requirement.message);
  }
  std::vector<Index> shape;
  for (const ExprPtr& size : output.shape) shape.emplace_back(ExprReindexer(b, symbols, read)(size));
  for (const Scalar& part : elements) {
    const Scalar element = part.node() == nullptr ? Constant(0, output.dtype) : part;
    b.Output(output.dtype, shape, [&](const std::vector<Index>& position) {
      std::vector<ExprPtr> variables = symbols;
      for (size_t axis = 0; axis < position.size(); ++axis) {
        variables[static_cast<size_t>(output.index_vars[axis])] = position[axis].node();
      }
      return Scalar(ExprReindexer(b, std::move(variables), read)(element.node()));
    });
  }
}

// Writes the errors of output `number` of another operator, whose operands are the first ones here.
absl::Status ErrorMeaning(const Meaning& meaning, int number, std::optional<int> operands, OpBuilder& b) {
  const OutputMeaning& output = meaning.outputs.at(static_cast<size_t>(number));
  if (meaning.IsOpaque() || !IsFloating(output.dtype)) return b.Error("has no roundings");
  const LocalError error = ErrorBuilder(operands).Of(output.element);
  std::vector<Scalar> parts = {error.worst};
  if (!operands && output.element->Reduces()) parts.push_back(error.square);
  AddOutputs(meaning, output, parts, b);
  return absl::OkStatus();
}

// Returns a product with every factor squared, in the form in which the interpreter sums fastest.
Scalar SquareOfFactors(const ExprPtr& product) {
  if (product->IsCall(Fn::kMul)) return SquareOfFactors(product->arg(0)) * SquareOfFactors(product->arg(1));
  return Scalar(product) * Scalar(product);
}

absl::Status TermSquaresMeaning(const OpDef& base, int /*number*/, SharedMeanings& meanings, OpBuilder& b) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Meaning> meaning, meanings.Get(base, b.key()));
  ExprPtr terms;
  if (!IsSumOfProducts(*meaning, &terms)) return b.Error("is no sum of products");
  const ExprNode& sum = *meaning->outputs[0].element;
  AddOutputs(*meaning, meaning->outputs[0],
             {ReduceOver(ReduceKind::kSum, sum.bound(), Cond(sum.guard()), SquareOfFactors(sum.body()))}, b);
  return absl::OkStatus();
}

absl::Status RoundingMeaning(const OpDef& base, int number, SharedMeanings& meanings, OpBuilder& b) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Meaning> meaning, meanings.Get(base, b.key()));
  return ErrorMeaning(*meaning, number, std::nullopt, b);
}

absl::Status CarriedMeaning(const OpDef& base, int number, SharedMeanings& meanings, OpBuilder& b) {
  const size_t operands = static_cast<size_t>(b.num_inputs()) / 2;
  StructuralKey key = b.key();
  key.ranks.resize(operands);
  key.dtypes.resize(operands);
  if (!key.units.empty()) {
    const auto errors = key.units.begin() + static_cast<std::ptrdiff_t>(operands);
    key.units.erase(errors, errors + static_cast<std::ptrdiff_t>(operands));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const Meaning> meaning, meanings.Get(base, key));
  return ErrorMeaning(*meaning, number, static_cast<int>(operands), b);
}

absl::Status ExtremumTermsMeaning(const OpDef& base, SharedMeanings& meanings, OpBuilder& b) {
  StructuralKey key = b.key();
  key.ranks.resize(1);
  key.dtypes.resize(1);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Meaning> meaning, meanings.Get(base, key));
  const OutputMeaning& output = meaning->outputs[0];
  const ExprNode& extremum = *output.element;
  std::vector<ExprPtr> variables = SymbolsOf(b, *meaning, [&](int input, int axis) { return b.size(input, axis); });
  const auto read = [&b](int operand, const std::vector<Index>& at, DType) { return b.Read(operand, at); };
  std::vector<Index> position;
  for (const int variable : output.index_vars) {
    position.push_back(Variable(variable, meaning->variables[static_cast<size_t>(variable)].name));
  }
  const Scalar term(extremum.body());
  const Cond is_it = Holds(Call(Fn::kEqual, {term, ReadOperand(1, position, term.dtype())}));
  const Scalar terms = ReduceOver(ReduceKind::kSum, extremum.bound(), Cond(extremum.guard()), Select(is_it, term, 0.0));
  b.Output(output.dtype, b.sizes(1), [&](const std::vector<Index>& here) {
    for (size_t axis = 0; axis < here.size(); ++axis) {
      variables[static_cast<size_t>(output.index_vars[axis])] = here[axis].node();
    }
    return Scalar(ExprReindexer(b, variables, read)(terms.node()));
  });
  return absl::OkStatus();
}

// The worst case and the square of a value's error, which `next` gives the elements of u and of the terms' operands.
struct ErrorOfTerm {
  Scalar worst, square;  // null: 0
};

ErrorOfTerm OfTerm(ErrorTerm term, const Scalar& u, const std::function<Scalar()>& next) {
  switch (term) {
    case ErrorTerm::kOf: {
      // An infinity is exact, as that of a mask is: it is limited before 0 is multiplied by it.
      const Scalar product = Limited(AbsOf(u) * Limited(AbsOf(next())));
      return {product, product * product};
    }
    case ErrorTerm::kSquare: {
      const Scalar product = AbsOf(u) * Limited(AbsOf(next()));
      return {{}, Min(product * product, Constant(kMostMagnitude * kMostMagnitude, u.dtype()))};
    }
    case ErrorTerm::kRoot: {
      const Scalar q = Limited(next());
      return {AbsOf(u) * Sqrt(q), u * u * q};
    }
    case ErrorTerm::kPair: {
      const Scalar worst = Limited(next());
      return {AbsOf(u) * worst, u * u * Limited(next())};
    }
    case ErrorTerm::kPlain: break;
  }
  return {AbsOf(u), u * u};
}

// Both sums are one output, so that what they share is read and computed once.
absl::Status ErrorSumMeaning(OpBuilder& b) {
  const int summed = b.rank(0) - static_cast<int>(b.Int("kept"));
  if (summed < 0) return b.Error("keeps more axes than there are");
  std::vector<Index> shape = {2};
  OpBuilder::Ranges ranges;
  for (int axis = 0; axis < b.rank(0); ++axis) {
    if (axis < summed) {
      ranges.emplace_back(absl::StrCat("j", axis), b.size(0, axis));
    } else {
      shape.push_back(b.size(0, axis));
    }
  }
  b.Output(b.dtype(0), shape, [&](const std::vector<Index>& i) {
    const auto term = [&](const std::vector<Index>& j) {
      std::vector<Index> at = j;
      at.insert(at.end(), i.begin() + 1, i.end());
      int operand = 0;
      const auto next = [&] { return b.Read(operand++, at); };
      const Scalar u = next();
      ErrorOfTerm sum;
      int number = 0;
      for (const int64_t kind : b.Ints("terms")) {
        const ErrorOfTerm one = OfTerm(static_cast<ErrorTerm>(kind), u, next);
        const auto factor = [&](const char* name) { return b.Real(absl::StrCat(name, number), b.dtype(0)); };
        if (one.worst.node() != nullptr) sum.worst = Plus(sum.worst, factor("worst") * one.worst);
        sum.square = Plus(sum.square, factor("square") * one.square);
        ++number;
      }
      const Scalar worst = sum.worst.node() == nullptr ? Constant(0, b.dtype(0)) : sum.worst;
      return Select(i[0] == 0, worst, sum.square);
    };
    return ranges.empty() ? term({}) : b.Sum(ranges, term);
  });
  return absl::OkStatus();
}

struct Made {
  SharedMeanings meanings;
  OpDef op;
};

// By operator and output.
using MadeOps = Memo<std::pair<const OpDef*, int>, std::unique_ptr<Made>>;
using MeaningOfOutput = absl::Status (*)(const OpDef& base, int number, SharedMeanings& meanings, OpBuilder& b);

// Returns the operator over `inputs` with that meaning, whose name ends in `suffix`; made once.
const OpDef& MadeOf(const OpDef& op, int output, MadeOps& all, const char* suffix, const std::string& summary,
                    MeaningOfOutput meaning, bool with_errors = false) {
  const std::unique_ptr<Made>& made = all.Get({&op, output}, [&] {
    auto fresh = std::make_unique<Made>();
    fresh->op = op;
    fresh->op.name = absl::StrCat(op.name, suffix, output == 0 ? "" : absl::StrCat(output));
    fresh->op.summary = summary;
    if (with_errors) {
      fresh->op.commutative = false;
      for (size_t k = 0; k < op.inputs.size() && !op.variadic; ++k) {
        fresh->op.inputs.push_back(absl::StrCat("error_of_", op.inputs[k]));
      }
    }
    Made* const self = fresh.get();
    fresh->op.meaning = [self, base = &op, output, meaning](OpBuilder& b) {
      return meaning(*base, output, self->meanings, b);
    };
    return fresh;
  });
  return made->op;
}

}  // namespace

Roundings RoundingsOf(const ExprNode& call) {
  if (FnHas(call.fn(), FnTrait::kExact)) return {};
  switch (call.fn()) {
    case Fn::kMul:
      for (const ExprPtr& arg : call.args()) {
        int exponent;
        if (arg->IsConst() && std::abs(std::frexp(arg->real(), &exponent)) == 0.5) return {};
      }
      return {1, 1};
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kDiv:
    case Fn::kSqrt: return {1, 1};
    default: return {4, 2};
  }
}

const OpDef& TermSquaresOp(const OpDef& op) {
  static auto* const all = new MadeOps;
  return MadeOf(op, 0, *all, "_squares", absl::StrCat("The sum of the squares of the terms of ", op.name, "."),
                TermSquaresMeaning);
}

std::optional<Roundings> RoundingsOfOneCall(const ExprNode& element) {
  if (element.kind() == ExprKind::kCast || element.IsRead()) return Roundings();
  if (!element.IsCall()) return std::nullopt;
  for (const ExprPtr& arg : element.args()) {
    if (!arg->IsRead() && !arg->IsConst()) return std::nullopt;
  }
  return RoundingsOf(element);
}

const OpDef& RoundingOp(const OpDef& op, int output) {
  static auto* const all = new MadeOps;
  return MadeOf(op, output, *all, "_rounding",
                absl::StrCat("What roundings inside of ", op.name, " do to its result, to first order."),
                RoundingMeaning);
}

const OpDef& CarriedErrorOp(const OpDef& op, int output) {
  static auto* const all = new MadeOps;
  return MadeOf(op, output, *all, "_carried",
                absl::StrCat("What errors of operands do to the result of ", op.name, ", to first order."),
                CarriedMeaning, /*with_errors=*/true);
}

bool IsExtremumOfReads(const OpDef& op, const Meaning& meaning) {
  if (op.ties != Ties::kFirst || op.inputs.size() != 1 || op.variadic || op.broadcasts || meaning.IsOpaque())
    return false;
  const ExprNode& element = *meaning.outputs[0].element;
  return meaning.outputs.size() == 1 && element.kind() == ExprKind::kReduce && element.body()->IsRead(0) &&
         (element.reduction() == ReduceKind::kMax || element.reduction() == ReduceKind::kMin);
}

const OpDef& ExtremumTermsOp(const OpDef& op) {
  static auto* const all = new Memo<const OpDef*, std::unique_ptr<Made>>;
  const std::unique_ptr<Made>& made = all->Get(&op, [&] {
    auto fresh = std::make_unique<Made>();
    fresh->op = op;
    fresh->op.name = absl::StrCat(op.name, "_terms");
    fresh->op.summary = absl::StrCat("The sum of the elements that ", op.name, " gives.");
    fresh->op.inputs.push_back("m");
    Made* const self = fresh.get();
    fresh->op.meaning = [self, base = &op](OpBuilder& b) { return ExtremumTermsMeaning(*base, self->meanings, b); };
    fresh->op.sample = [base = &op](Rng& rng) {
      OpSample sample = base->sample(rng);
      MeaningCache meanings;
      const absl::StatusOr<Application> application = Apply(*base, sample.inputs, sample.attrs, meanings);
      if (application.ok()) sample.inputs.push_back(application->outputs[0]);
      return sample;
    };
    return fresh;
  });
  return made->op;
}

const OpDef& HoldOp() {
  static const auto* const op = new OpDef{
      .name = "hold",
      .summary = "The operand itself, which derivatives take for a constant.",
      .inputs = {"x"},
      .meaning =
          [](OpBuilder& b) {
            b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) { return b.Shift(b.Read(0, i)); });
            return absl::OkStatus();
          },
      .sample =
          [](Rng&) {
            return OpSample{.inputs = {TensorType{DType::kFloat32, {2, 3}}}};
          }};
  return *op;
}

const OpDef& ErrorSumOp() {
  static const auto* const op = [] {
    auto* made = new OpDef{
        .name = "error_sum",
        .summary = "What roundings of a value do to a result.",
        .inputs = {"u"},
        .variadic = true,
        .attrs = {StructuralInts("terms", "what the error is made of"),
                  StructuralInt("kept", 0, "axes that are not summed over")},
        .meaning = ErrorSumMeaning,
        .sample =
            [](Rng&) {
              return OpSample{.inputs = std::vector<TensorType>(3, {DType::kFloat32, {2, 3}}),
                              .attrs = {{"terms", std::vector<int64_t>{2, 0}}, {"kept", int64_t{1}}},
                              .low = 0};
            }};
    for (int term = 0; term < kMostErrorTerms; ++term) {
      for (const char* sum : {"worst", "square"}) {
        made->attrs.push_back(RealAttr(absl::StrCat(sum, term), 1, "by what the term is multiplied in that sum"));
      }
    }
    return made;
  }();
  return *op;
}

// Adds the operands that are factors of the product; false if the expression is none, or has a factor twice.
static bool AddFactors(const ExprNode& product, std::set<int>* operands) {
  if (product.IsRead()) return operands->insert(product.operand()).second;
  if (product.IsCall(Fn::kMul)) return AddFactors(*product.arg(0), operands) && AddFactors(*product.arg(1), operands);
  if (product.kind() != ExprKind::kSelect || product.condition()->ReadsData()) return false;
  return product.no()->IsConst() && product.no()->real() == 0 && AddFactors(*product.yes(), operands);
}

bool IsSumOfProducts(const Meaning& meaning, ExprPtr* terms) {
  if (meaning.IsOpaque() || meaning.outputs.size() != 1) return false;
  const ExprNode& element = *meaning.outputs[0].element;
  if (element.kind() != ExprKind::kReduce || element.reduction() != ReduceKind::kSum || !IsFloating(element.dtype())) {
    return false;
  }
  std::set<int> operands;
  if (element.guard()->ReadsData() || !AddFactors(*element.body(), &operands)) return false;
  Index points = 1;
  for (const BoundVar& variable : element.bound()) points = points * Index(variable.extent);
  *terms = points.node();
  for (const int variable : FreeVariables(points.node())) {
    if (meaning.variables[static_cast<size_t>(variable)].kind == Meaning::VarKind::kOutputIndex) *terms = nullptr;
  }
  return true;
}

}  // namespace rewright
