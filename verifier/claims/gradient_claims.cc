#include "verifier/claims/gradient_claims.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/adjoint/free_shift.h"
#include "core/adjoint/operators.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"
#include "substitutions/language/rule_terms.h"

namespace rewright {
namespace {

using Kind = GradientClaim::Kind;

TensorTerm VariableTerm(const std::string& name, DType dtype, std::vector<ArgExpr> dims) {
  TensorTerm term;
  term.name = name;
  term.dtype = DTypeArg(dtype);
  term.shape = ShapeSpec{false, std::move(dims)};
  return term;
}

TensorTerm CallOf(const OpDef& op, std::vector<TensorTerm> operands, std::vector<NamedArg> attrs = {}) {
  TensorTerm term;
  term.kind = TensorTerm::Kind::kApply;
  term.name = op.name;
  term.op = &op;
  term.operands = std::move(operands);
  term.attrs = std::move(attrs);
  return term;
}

// The sum of all elements of a * b.
TensorTerm InnerProduct(TensorTerm a, TensorTerm b, int rank) {
  TensorTerm product = OperatorTerm("mul", {std::move(a), std::move(b)});
  if (rank == 0) return product;
  std::vector<int64_t> axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return CallOf(*FindOp("reduce_sum"), {std::move(product)},
                {{"axes", NumbersArg(axes)}, {"keepdims", ArgExpr::Int(0)}});
}

TensorTerm SumOf(std::vector<TensorTerm> terms) {
  TensorTerm sum = std::move(terms[0]);
  for (size_t k = 1; k < terms.size(); ++k) sum = OperatorTerm("add", {std::move(sum), std::move(terms[k])});
  return sum;
}

// Makes the claims of one application of the operator. Sizes and attributes that are not structural are names.
class Claimant {
 public:
  Claimant(const OpDef& op, const OpSample& sample, struct Application application)
      : op_(op), inputs_(sample.inputs), application_(std::move(application)) {
    for (size_t k = 0; k < inputs_.size(); ++k) names_.push_back(InputName(k));
    for (size_t o = 0; o < application_.outputs.size(); ++o) cotangents_.push_back(absl::StrCat("u", o, "_"));
  }

  absl::Status AddTo(std::vector<GradientClaim>* claims) const {
    // An opaque operator has no derivatives.
    if (application_.meaning->IsOpaque() || !HasFloating(application_.outputs)) return absl::OkStatus();
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!IsFloating(inputs_[k].dtype)) continue;
      const absl::StatusOr<GradientClaim> claim = Inversion(static_cast<int>(k));
      if (!claim.ok()) return claim.status();
      claims->push_back(*claim);
    }
    if (!HasFloating(inputs_)) return absl::OkStatus();
    const absl::StatusOr<GradientClaim> duality = Duality();
    if (!duality.ok()) return duality.status();
    claims->push_back(*duality);
    if (application_.meaning->shifts.empty()) return absl::OkStatus();
    const absl::StatusOr<GradientClaim> shift = Shift();
    if (!shift.ok()) return shift.status();
    claims->push_back(*shift);
    return absl::OkStatus();
  }

 private:
  static bool HasFloating(const std::vector<TensorType>& types) {
    return std::any_of(types.begin(), types.end(), [](const TensorType& type) { return IsFloating(type.dtype); });
  }

  std::string InputName(size_t k) const {
    const size_t fixed = op_.inputs.size() - (op_.variadic ? 1 : 0);
    return k < fixed ? op_.inputs[k] : absl::StrCat(op_.inputs.back(), k - fixed);
  }

  GradientClaim Claim(Kind kind) const {
    GradientClaim claim;
    claim.kind = kind;
    std::vector<std::string> types;
    for (const TensorType& type : inputs_) {
      const std::string shape = absl::StrJoin(type.shape, ", ", [this](std::string* out, int64_t size) {
        out->append(op_.broadcasts && size == 1 ? "1" : "_");
      });
      types.push_back(absl::StrCat(DTypeName(type.dtype), "[", shape, "]"));
    }
    claim.structure = absl::StrJoin(types, " ");
    Attrs structural;
    for (const AttrSpec& spec : op_.attrs) {
      if (IsStructural(spec)) structural[spec.name] = application_.attrs.at(spec.name);
    }
    if (!structural.empty()) absl::StrAppend(&claim.structure, "; ", AttrsString(structural));
    return claim;
  }

  ArgExpr Size(const std::string& tensor, int64_t size, size_t axis) const {
    if (op_.broadcasts && size == 1) return ArgExpr::Int(1);
    return NameArg(absl::StrCat(tensor, "_", axis));
  }
  std::vector<ArgExpr> Sizes(const std::string& tensor, const Shape& shape) const {
    std::vector<ArgExpr> sizes;
    for (size_t axis = 0; axis < shape.size(); ++axis) sizes.push_back(Size(tensor, shape[axis], axis));
    return sizes;
  }
  TensorTerm Input(int k) const {
    return VariableTerm(names_[k], inputs_[k].dtype, Sizes(names_[k], inputs_[k].shape));
  }
  TensorTerm Tangent(int k) const {
    return VariableTerm("d" + names_[k], inputs_[k].dtype, Sizes(names_[k], inputs_[k].shape));
  }
  // Sizes of outputs follow from those of the inputs, but a name that an equation determines need not be spelled out.
  TensorTerm Cotangent(int o) const {
    const TensorType& type = application_.outputs[o];
    std::vector<ArgExpr> sizes;
    for (int axis = 0; axis < type.rank(); ++axis) {
      const ExprPtr& size = application_.meaning->outputs[o].shape[axis];
      sizes.push_back(size->IsInt(1) ? ArgExpr::Int(1) : NameArg(absl::StrCat(cotangents_[o], axis)));
    }
    return VariableTerm(cotangents_[o], type.dtype, std::move(sizes));
  }

  static ArgExpr Literal(const Attr& attr) {
    if (const auto* integer = std::get_if<int64_t>(&attr)) return ArgExpr::Int(*integer);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) return NumbersArg(*list);
    return DTypeArg(std::get<DType>(attr));
  }

  // The attribute of the operator: a literal if it is structural, else a name.
  ArgExpr Attribute(const AttrSpec& spec, const Attr& attr) const {
    if (IsStructural(spec)) return Literal(attr);
    const auto* list = std::get_if<std::vector<int64_t>>(&attr);
    if (list == nullptr) return AttrArg(spec.name);
    std::vector<ArgExpr> items;
    for (size_t i = 0; i < list->size(); ++i) items.push_back(AttrArg(absl::StrCat(spec.name, i)));
    return ArgExpr::List(std::move(items));
  }

  // The attributes of a derived operator: the operator's own ones, and shapes, ranks and types of inputs that are no
  // operands.
  std::vector<NamedArg> Attributes(const DerivedCall& call, const OpDef& derived) const {
    std::vector<NamedArg> attrs;
    for (const AttrSpec& spec : derived.attrs) {
      if (op_.FindAttr(spec.name) != nullptr) {
        attrs.push_back({spec.name, Attribute(spec, call.attrs.at(spec.name))});
      } else if (absl::EndsWith(spec.name, "_shape")) {
        attrs.push_back({spec.name, ArgExpr::List(ShapesOf(spec.name.substr(0, spec.name.size() - 6)))});
      } else {
        attrs.push_back({spec.name, Literal(call.attrs.at(spec.name))});
      }
    }
    return attrs;
  }

  // The sizes of an input, or of all members of the variadic one.
  std::vector<ArgExpr> ShapesOf(const std::string& input) const {
    std::vector<ArgExpr> sizes;
    const size_t fixed = op_.inputs.size() - (op_.variadic ? 1 : 0);
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (names_[k] != input && (k < fixed || input != op_.inputs.back())) continue;
      for (ArgExpr& size : Sizes(names_[k], inputs_[k].shape)) sizes.push_back(std::move(size));
    }
    return sizes;
  }

  TensorTerm Gradient(const DerivedCall& call, const OpDef& derived) const {
    std::vector<TensorTerm> operands;
    for (const DerivedCall::Operand& operand : call.operands) {
      operands.push_back(operand.is_direction ? Cotangent(operand.number) : Input(operand.number));
    }
    return CallOf(derived, std::move(operands), Attributes(call, derived));
  }

  absl::StatusOr<DerivedCall> CallBy(int k) const {
    return GradientCall(op_, inputs_, application_.attrs, application_.outputs, k);
  }

  // Declares each variable where it occurs first.
  static Rule Law(const std::string& name, TensorTerm left, TensorTerm right) {
    Rule rule;
    rule.name = name;
    DeclaredVariables variables;
    std::set<std::string> seen;
    for (TensorTerm* side : {&left, &right}) CollectDeclarations(*side, variables);
    for (TensorTerm* side : {&left, &right}) PlaceDeclarations(*side, variables, seen);
    rule.lhs.outputs = {std::move(left)};
    rule.rhs.outputs = {std::move(right)};
    return rule;
  }

  absl::StatusOr<GradientClaim> Inversion(int k) const {
    const absl::StatusOr<DerivedCall> call = CallBy(k);
    if (!call.ok()) return call.status();
    const absl::StatusOr<const OpDef*> scattered = ScatteredGradientOp(op_, k);
    if (!scattered.ok()) return scattered.status();
    GradientClaim claim = Claim(Kind::kInversion);
    claim.input = names_[k];
    claim.rule = Law(absl::StrCat("inversion-", op_.name, "-", names_[k]), Gradient(*call, **scattered),
                     Gradient(*call, *call->op));
    return claim;
  }

  absl::StatusOr<GradientClaim> Duality() const {
    const absl::StatusOr<DerivedCall> tangent = TangentCall(op_, inputs_, application_.attrs);
    if (!tangent.ok()) return tangent.status();
    std::vector<TensorTerm> operands;
    for (const DerivedCall::Operand& operand : tangent->operands) {
      operands.push_back(operand.is_direction ? Tangent(operand.number) : Input(operand.number));
    }
    const TensorTerm along = CallOf(*tangent->op, std::move(operands), Attributes(*tangent, *tangent->op));
    std::vector<TensorTerm> left, right;
    int number = 0;
    for (size_t o = 0; o < application_.outputs.size(); ++o) {
      if (!IsFloating(application_.outputs[o].dtype)) continue;
      TensorTerm output = along;
      if (application_.outputs.size() > 1) output.output = number;
      ++number;
      left.push_back(InnerProduct(Cotangent(static_cast<int>(o)), std::move(output), application_.outputs[o].rank()));
    }
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!IsFloating(inputs_[k].dtype)) continue;
      const absl::StatusOr<DerivedCall> call = CallBy(static_cast<int>(k));
      if (!call.ok()) return call.status();
      const absl::StatusOr<const OpDef*> scattered = ScatteredGradientOp(op_, static_cast<int>(k));
      if (!scattered.ok()) return scattered.status();
      right.push_back(InnerProduct(Gradient(*call, **scattered), Tangent(static_cast<int>(k)), inputs_[k].rank()));
    }
    GradientClaim claim = Claim(Kind::kDuality);
    claim.rule = Law(absl::StrCat("duality-", op_.name), SumOf(std::move(left)), SumOf(std::move(right)));
    return claim;
  }

  absl::StatusOr<GradientClaim> Shift() const {
    const absl::StatusOr<const OpDef*> freed = FreeShiftOp(op_);
    if (!freed.ok()) return freed.status();
    std::vector<TensorTerm> operands;
    for (size_t k = 0; k < inputs_.size(); ++k) operands.push_back(Input(static_cast<int>(k)));
    std::vector<NamedArg> attrs;
    for (const AttrSpec& spec : op_.attrs)
      attrs.push_back({spec.name, Attribute(spec, application_.attrs.at(spec.name))});
    TensorTerm right = CallOf(op_, operands, attrs);
    // Sizes of a shift follow from those of the inputs, as those of cotangents do.
    for (const TensorType& type : ShiftTypes(application_)) {
      const std::string& name = (*freed)->inputs[operands.size()];
      std::vector<ArgExpr> sizes;
      for (int axis = 0; axis < type.rank(); ++axis) sizes.push_back(NameArg(absl::StrCat(name, "_", axis)));
      operands.push_back(VariableTerm(name, type.dtype, std::move(sizes)));
    }
    GradientClaim claim = Claim(Kind::kShift);
    claim.rule =
        Law(absl::StrCat("shift-", op_.name), CallOf(**freed, std::move(operands), std::move(attrs)), std::move(right));
    return claim;
  }

  const OpDef& op_;
  const std::vector<TensorType>& inputs_;
  const struct Application application_;
  std::vector<std::string> names_, cotangents_;
};

bool HasDoubles(const std::vector<TensorType>& types) {
  return std::any_of(types.begin(), types.end(), [](const TensorType& type) { return type.dtype == DType::kFloat64; });
}

}  // namespace

const char* ClaimName(Kind kind) {
  switch (kind) {
    case Kind::kInversion: return "inversion";
    case Kind::kDuality: return "duality";
    case Kind::kShift: break;
  }
  return "shift";
}

absl::StatusOr<std::vector<GradientClaim>> GradientClaims(const OpDef& op, int structures) {
  constexpr uint64_t kSeeds = 200;
  constexpr int kMaxRank = 4;
  std::vector<GradientClaim> claims;
  std::set<StructuralKey> seen;
  MeaningCache cache;
  for (uint64_t seed = 0; op.sample && seed < kSeeds && static_cast<int>(seen.size()) < structures; ++seed) {
    Rng rng(seed);
    const OpSample sample = op.sample(rng);
    // A claim about one floating type holds for the other: the expressions differ only in the type.
    if (HasDoubles(sample.inputs) || !std::any_of(sample.inputs.begin(), sample.inputs.end(),
                                                  [](const TensorType& t) { return IsFloating(t.dtype); })) {
      continue;
    }
    absl::StatusOr<struct Application> application = Apply(op, sample.inputs, sample.attrs, cache);
    if (!application.ok()) return application.status();
    const auto too_many = [](const TensorType& type) { return type.rank() > kMaxRank; };
    if (std::any_of(sample.inputs.begin(), sample.inputs.end(), too_many)) continue;
    if (!seen.insert(StructuralKeyOf(op, sample.inputs, application->attrs)).second) continue;
    const size_t first = claims.size();
    RETURN_IF_ERROR(Claimant(op, sample, *std::move(application)).AddTo(&claims));
    for (size_t k = first; k < claims.size() && seen.size() > 1; ++k) {
      absl::StrAppend(&claims[k].rule.name, "-", seen.size());
    }
  }
  return claims;
}

RuleVerdict JudgeClaim(const GradientClaim& claim, double work_limit_s, bool certify) {
  RuleProofOptions options;
  options.work_limit_s = work_limit_s;
  options.instance_limit_s = work_limit_s;
  options.use = RuleUse::kProof;
  options.classify = certify;  // a certificate tells the class
  options.certify = certify;
  return ProveRule(claim.rule, options);
}

}  // namespace rewright
