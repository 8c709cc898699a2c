// Elementwise functions of one operand: out[i..] = f(x[i..]). Those that are one function of floating-point elements,
// exp and the like, are rows of core/ir/functions.def.
#include <functional>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

constexpr Domain kPositive = {0.1, 3};

using UnaryFn = std::function<Scalar(const OpBuilder& b, const Scalar& x)>;

absl::Status Elementwise(OpBuilder& b, DType to, const UnaryFn& f) {
  return OnlyOutput(b, to, b.sizes(0), [&](const std::vector<Index>& i) { return f(b, b.Read(0, i)); });
}

OpDef Unary(const std::string& name, const std::string& summary, Elements elements, const UnaryFn& f,
            Domain domain = {}, std::vector<AttrSpec> attrs = {}, const Attrs& sample_attrs = {}) {
  return OpDef{.name = name,
               .summary = summary,
               .inputs = {"x"},
               .attrs = std::move(attrs),
               .meaning = [elements, f](OpBuilder& b) -> absl::Status {
                 RETURN_IF_ERROR(CheckElements(b, elements));
                 return Elementwise(b, b.dtype(0), f);
               },
               .sample =
                   [elements, domain, sample_attrs](Rng& rng) {
                     return OpSample{.inputs = {RandomTensor(rng, elements, 0, 4)},
                                     .attrs = sample_attrs,
                                     .low = domain.low,
                                     .high = domain.high};
                   }};
}

}  // namespace

// out[i..] = x[i..]
OpDef IdentityOp() {
  return Unary("identity", "The operand itself.", Elements::kAny, [](const OpBuilder&, const Scalar& x) { return x; });
}

// out[i..] = -x[i..]
OpDef NegOp() {
  return Unary("neg", "The negative.", Elements::kNumbers, [](const OpBuilder&, const Scalar& x) { return -x; });
}

// out[i..] = |x[i..]|
OpDef AbsOp() {
  return Unary("abs", "The absolute value.", Elements::kNumbers,
               [](const OpBuilder&, const Scalar& x) { return Call(Fn::kAbs, {x}); });
}

// out[i..] = -1, 0 or 1, as x[i..] is negative, zero or positive; NaN of NaN
OpDef SignOp() {
  return Unary("sign", "The sign: -1, 0 or 1.", Elements::kNumbers,
               [](const OpBuilder&, const Scalar& x) { return Call(Fn::kSign, {x}); });
}

// out[i..] = f(x[i..])
std::vector<OpDef> RealFunctionOps() {
  std::vector<OpDef> ops;
  for (const FnInfo& info : AllFns()) {
    if (info.summary == nullptr) continue;
    ops.push_back(Unary(info.name, info.summary, Elements::kFloats,
                        [fn = info.fn](const OpBuilder&, const Scalar& x) { return Call(fn, {x}); },
                        {info.low, info.high}));
  }
  return ops;
}

// out[i..] = 1 / x[i..]
OpDef ReciprocalOp() {
  return Unary(
      "reciprocal", "One divided by the operand.", Elements::kFloats,
      [](const OpBuilder&, const Scalar& x) { return 1.0 / x; }, kPositive);
}

// out[i..] = 1 / sqrt(x[i..])
OpDef RsqrtOp() {
  return Unary(
      "rsqrt", "One divided by the square root.", Elements::kFloats,
      [](const OpBuilder&, const Scalar& x) { return 1.0 / Sqrt(x); }, kPositive);
}

// out[i..] = max(x[i..], 0)
OpDef ReluOp() {
  return Unary("relu", "The positive part.", Elements::kNumbers,
               [](const OpBuilder&, const Scalar& x) { return Max(x, 0.0); });
}

// out[i..] = x[i..] where 0 < x[i..], and alpha * x[i..] elsewhere
OpDef LeakyReluOp() {
  return Unary("leaky_relu", "The operand where it is positive, alpha times the operand elsewhere.", Elements::kFloats,
               [](const OpBuilder& b, const Scalar& x) {
                 const Cond positive = Holds(Call(Fn::kLess, {Constant(0, x.dtype()), x}));
                 return Select(positive, x, b.Real("alpha", x.dtype()) * x);
               },
               {}, {RealAttr("alpha", 0.01, "slope of the negative side")}, {{"alpha", 0.125}});
}

// out[i..] = x[i..] where 0 < x[i..], and alpha * (exp(x[i..]) - 1) elsewhere
OpDef EluOp() {
  return Unary("elu", "The operand where it is positive, an exponential that tends to -alpha elsewhere.",
               Elements::kFloats,
               [](const OpBuilder& b, const Scalar& x) {
                 const Cond positive = Holds(Call(Fn::kLess, {Constant(0, x.dtype()), x}));
                 return Select(positive, x, b.Real("alpha", x.dtype()) * (Exp(x) - 1.0));
               },
               {}, {RealAttr("alpha", 1, "what the negative side tends to, with the sign changed")}, {{"alpha", 0.75}});
}

// out[i..] = min(max(x[i..], min), max)
OpDef ClipOp() {
  return Unary("clip", "The operand held between two bounds.", Elements::kFloats,
               [](const OpBuilder& b, const Scalar& x) {
                 return Min(Max(x, b.Real("min", x.dtype())), b.Real("max", x.dtype()));
               },
               {}, {RealAttr("min", std::nullopt, "lower bound"), RealAttr("max", std::nullopt, "upper bound")},
               {{"min", -0.75}, {"max", 1.25}});
}

// out[i..] = x[i..] / 2 * (1 + erf(x[i..] / sqrt 2))
OpDef GeluOp() {
  constexpr double kSqrt2 = 1.4142135623730951;
  return Unary("gelu", "The Gaussian error linear unit, in its exact form.", Elements::kFloats,
               [](const OpBuilder&, const Scalar& x) { return 0.5 * x * (1.0 + Erf(x / kSqrt2)); });
}

// out[i..] = x[i..] / 2 * (1 + tanh(sqrt(2 / pi) * (x[i..] + 0.044715 x[i..]^3)))
OpDef GeluTanhOp() {
  constexpr double kSqrt2OverPi = 0.7978845608028654;
  return Unary("gelu_tanh", "The Gaussian error linear unit, approximated by a hyperbolic tangent.", Elements::kFloats,
               [](const OpBuilder&, const Scalar& x) {
                 return 0.5 * x * (1.0 + Tanh(kSqrt2OverPi * (x + 0.044715 * (x * x * x))));
               });
}

// out[i..] = x[i..] * sigmoid(x[i..])
OpDef SwishOp() {
  return Unary("swish", "The operand times its sigmoid; also called SiLU.", Elements::kFloats,
               [](const OpBuilder&, const Scalar& x) { return x * Call(Fn::kSigmoid, {x}); });
}

// out[i..] = x[i..] * (min(max(x[i..] + 3, 0), 6) / 6)
OpDef HardSwishOp() {
  return Unary(
      "hard_swish", "The operand times a sigmoid made of straight lines.", Elements::kFloats,
      [](const OpBuilder&, const Scalar& x) { return x * (Min(Max(x + 3.0, 0.0), Constant(6, x.dtype())) / 6.0); },
      {-4, 4});
}

// out[i..] = x[i..] * tanh(softplus(x[i..]))
OpDef MishOp() {
  return Unary("mish", "The operand times the hyperbolic tangent of its softplus (Misra, arXiv:1908.08681).",
               Elements::kFloats, [](const OpBuilder&, const Scalar& x) { return x * Tanh(Call(Fn::kSoftplus, {x})); });
}

// out[i..] = not x[i..]
OpDef LogicalNotOp() {
  return Unary("logical_not", "The negation of truth values.", Elements::kBools,
               [](const OpBuilder&, const Scalar& x) { return Call(Fn::kNot, {x}); });
}

// out[i..] = x[i..] as an element of type `to`
static absl::Status CastMeaning(OpBuilder& b) {
  const DType to = b.Type("to");
  return Elementwise(b, to, [to](const OpBuilder&, const Scalar& x) { return Cast(x, to); });
}

static OpSample CastSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 0, 4);
  return OpSample{.inputs = {x}, .attrs = {{"to", RandomDType(rng, Elements::kAny)}}};
}

OpDef CastOp() {
  return OpDef{.name = "cast",
               .summary = "Converts the elements to another type.",
               .inputs = {"x"},
               .attrs = {DTypeAttr("to", "type of the result")},
               .meaning = CastMeaning,
               .sample = CastSample};
}

}  // namespace rewright
