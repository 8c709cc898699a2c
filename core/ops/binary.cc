// Elementwise functions of two operands that broadcast together as in NumPy: out[i..] = f(a[i..], b[i..]); and those of
// three.
#include <functional>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

enum class Order : uint8_t { kFixed, kCommutative };
enum class Result : uint8_t { kSameType, kBool };

using BinaryFn = std::function<Scalar(const Scalar& a, const Scalar& b)>;
using ElementFn = std::function<Scalar(const std::vector<Scalar>& operands)>;

// out[i..] = f of the elements of all operands at i..
absl::Status Elementwise(OpBuilder& b, DType to, const ElementFn& f) {
  std::vector<int> inputs;
  for (int k = 0; k < b.num_inputs(); ++k) inputs.push_back(k);
  const Broadcast common(b, inputs);
  return OnlyOutput(b, to, common.shape(), [&](const std::vector<Index>& i) {
    std::vector<Scalar> operands;
    for (int k : inputs) operands.push_back(b.Read(k, common.At(k, i)));
    return f(operands);
  });
}

// Operands of these types.
OpSample RandomOperands(Rng& rng, const std::vector<DType>& types, Domain domain = {}) {
  OpSample sample{.low = domain.low, .high = domain.high};
  const std::vector<Shape> shapes = RandomBroadcast(rng, static_cast<int>(types.size()), 4);
  for (size_t k = 0; k < types.size(); ++k) sample.inputs.push_back({types[k], shapes[k]});
  return sample;
}

OpDef Binary(const std::string& name, const std::string& summary, Elements elements, Order order, const BinaryFn& f,
             Domain domain = {}, Result result = Result::kSameType) {
  return OpDef{.name = name,
               .summary = summary,
               .inputs = {"a", "b"},
               .commutative = order == Order::kCommutative,
               .broadcasts = true,
               .attrs = {},
               .meaning = [elements, f, result](OpBuilder& b) -> absl::Status {
                 RETURN_IF_ERROR(CheckElements(b, elements));
                 return Elementwise(b, result == Result::kBool ? DType::kBool : b.dtype(0),
                                    [&](const std::vector<Scalar>& x) { return f(x[0], x[1]); });
               },
               .sample =
                   [elements, domain](Rng& rng) {
                     const DType dtype = RandomDType(rng, elements);
                     return RandomOperands(rng, {dtype, dtype}, domain);
                   }};
}

OpDef Comparison(const std::string& name, const std::string& summary, Elements elements, Order order,
                 const BinaryFn& f) {
  return Binary(name, summary, elements, order, f, {}, Result::kBool);
}

BinaryFn Of(Fn fn) {
  return [fn](const Scalar& a, const Scalar& b) { return Call(fn, {a, b}); };
}

// Calls the function with its operands in the opposite order.
BinaryFn Swapped(Fn fn) {
  return [fn](const Scalar& a, const Scalar& b) { return Call(fn, {b, a}); };
}

Scalar Differ(const Scalar& a, const Scalar& b) { return Call(Fn::kNot, {Call(Fn::kEqual, {a, b})}); }

}  // namespace

// out[i..] = a[i..] + b[i..]
OpDef AddOp() {
  return Binary("add", "The sum of two operands.", Elements::kNumbers, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) { return a + b; });
}

// out[i..] = a[i..] - b[i..]
OpDef SubOp() {
  return Binary("sub", "The difference of two operands.", Elements::kNumbers, Order::kFixed,
                [](const Scalar& a, const Scalar& b) { return a - b; });
}

// out[i..] = a[i..] * b[i..]
OpDef MulOp() {
  return Binary("mul", "The product of two operands, element by element.", Elements::kNumbers, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) { return a * b; });
}

// out[i..] = a[i..] / b[i..]; of integers, rounded toward zero
OpDef DivOp() {
  return Binary("div", "The quotient of two operands; of integers, rounded toward zero.", Elements::kNumbers,
                Order::kFixed, [](const Scalar& a, const Scalar& b) { return a / b; }, {1, 4});
}

// Remainder of division of integers: it has the sign of the dividend.
static Scalar Remainder(const Scalar& a, const Scalar& b) { return a - b * (a / b); }

// out[i..] = a[i..] - b[i..] * (a[i..] / b[i..]), the quotient rounded toward zero
OpDef RemOp() {
  return Binary("rem", "The remainder of division rounded toward zero: it has the sign of the dividend.",
                Elements::kIntegers, Order::kFixed, Remainder, {1, 9});
}

// The remainder that has the sign of the divisor. Remainder and divisor are added where their signs differ, so the sum
// is within the type.
static Scalar Modulo(const Scalar& a, const Scalar& b) {
  const Scalar rest = Remainder(a, b), zero = Constant(0, a.dtype());
  const auto less = [](const Scalar& p, const Scalar& q) { return Holds(Call(Fn::kLess, {p, q})); };
  return Select((less(rest, zero) && less(zero, b)) || (less(zero, rest) && less(b, zero)), rest + b, rest);
}

// out[i..] = a[i..] - b[i..] * (a[i..] / b[i..]), the quotient rounded down
OpDef ModOp() {
  return Binary("mod", "The remainder of division rounded down: it has the sign of the divisor.", Elements::kIntegers,
                Order::kFixed, Modulo, {1, 9});
}

// out[i..] = a[i..] to the power b[i..]
OpDef PowOp() {
  return Binary("pow", "The first operand raised to the power of the second.", Elements::kFloats, Order::kFixed,
                [](const Scalar& a, const Scalar& b) { return Pow(a, b); }, {0.25, 2});
}

// out[i..] = min(a[i..], b[i..])
OpDef MinOp() {
  return Binary("min", "The smaller of two operands.", Elements::kNumbers, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) { return Min(a, b); });
}

// out[i..] = max(a[i..], b[i..])
OpDef MaxOp() {
  return Binary("max", "The larger of two operands.", Elements::kNumbers, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) { return Max(a, b); });
}

// out[i..] = a[i..] = b[i..]
OpDef EqualOp() {
  return Comparison("equal", "Whether two operands are equal.", Elements::kAny, Order::kCommutative, Of(Fn::kEqual));
}

// out[i..] = a[i..] < b[i..]
OpDef LessOp() {
  return Comparison("less", "Whether the first operand is less than the second.", Elements::kNumbers, Order::kFixed,
                    Of(Fn::kLess));
}

// out[i..] = a[i..] <= b[i..]
OpDef LessEqualOp() {
  return Comparison("less_equal", "Whether the first operand is at most the second.", Elements::kNumbers, Order::kFixed,
                    Of(Fn::kLessEqual));
}

// out[i..] = not (a[i..] = b[i..])
OpDef NotEqualOp() {
  return Comparison("not_equal", "Whether two operands differ.", Elements::kAny, Order::kCommutative, Differ);
}

// out[i..] = b[i..] < a[i..]
OpDef GreaterOp() {
  return Comparison("greater", "Whether the first operand is greater than the second.", Elements::kNumbers,
                    Order::kFixed, Swapped(Fn::kLess));
}

// out[i..] = b[i..] <= a[i..]
OpDef GreaterEqualOp() {
  return Comparison("greater_equal", "Whether the first operand is at least the second.", Elements::kNumbers,
                    Order::kFixed, Swapped(Fn::kLessEqual));
}

// out[i..] = a[i..] and b[i..]
OpDef LogicalAndOp() {
  return Binary("logical_and", "Whether both operands are true.", Elements::kBools, Order::kCommutative, Of(Fn::kAnd));
}

// out[i..] = a[i..] or b[i..]
OpDef LogicalOrOp() {
  return Binary("logical_or", "Whether one operand at least is true.", Elements::kBools, Order::kCommutative,
                Of(Fn::kOr));
}

static OpDef OfBits(Fn fn, const std::string& summary, Order order, Domain domain = {}) {
  return Binary(InfoOf(fn).name, summary, Elements::kIntegers, order, Of(fn), domain);
}

// out[i..] = a[i..] & b[i..], bit by bit
OpDef BitAndOp() { return OfBits(Fn::kBitAnd, "The bits that both operands have.", Order::kCommutative); }

// out[i..] = a[i..] | b[i..], bit by bit
OpDef BitOrOp() { return OfBits(Fn::kBitOr, "The bits that one operand at least has.", Order::kCommutative); }

// out[i..] = a[i..] ^ b[i..], bit by bit
OpDef BitXorOp() { return OfBits(Fn::kBitXor, "The bits that exactly one operand has.", Order::kCommutative); }

// out[i..] = a[i..] * 2^b[i..]; bits that do not fit are dropped
OpDef ShiftLeftOp() {
  return OfBits(Fn::kShiftLeft, "The bits of the first operand, moved up by the second.", Order::kFixed, {0, 9});
}

// out[i..] = a[i..] / 2^b[i..], rounded down, with the first operand taken as unsigned
OpDef ShiftRightOp() {
  return OfBits(Fn::kShiftRight, "The bits of the first operand, moved down by the second; zeros come in.",
                Order::kFixed, {0, 9});
}

// out[i..] = not (a[i..] = b[i..])
OpDef LogicalXorOp() {
  return Binary("logical_xor", "Whether exactly one operand is true.", Elements::kBools, Order::kCommutative, Differ);
}

// out[i..] = condition[i..] ? a[i..] : b[i..]
static absl::Status WhereMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 0, Elements::kBools));
  if (b.dtype(1) != b.dtype(2)) {
    return b.Error(std::string("a and b must have one element type, not ") + DTypeName(b.dtype(1)) + " and " +
                   DTypeName(b.dtype(2)));
  }
  return Elementwise(b, b.dtype(1), [](const std::vector<Scalar>& x) { return Select(Holds(x[0]), x[1], x[2]); });
}

static OpSample WhereSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kAny);
  return RandomOperands(rng, {DType::kBool, dtype, dtype});
}

OpDef WhereOp() {
  return OpDef{.name = "where",
               .summary = "Chooses between two operands, element by element.",
               .inputs = {"condition", "a", "b"},
               .broadcasts = true,
               .attrs = {},
               .meaning = WhereMeaning,
               .sample = WhereSample};
}

// out[i..] = min(max(x[i..], low[i..]), high[i..]). Equal bounds count as one: at it the slope is that of x alone.
static absl::Status ClampMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, Elements::kNumbers));
  return Elementwise(b, b.dtype(0), [](const std::vector<Scalar>& operands) {
    const Scalar &low = operands[0], &x = operands[1], &high = operands[2];
    const Scalar within = Min(Max(x, low), high);
    if (!IsFloating(x.dtype())) return within;
    const auto holds = [](Fn fn, const Scalar& p, const Scalar& q) { return Holds(Call(fn, {p, q})); };
    return Select(holds(Fn::kEqual, low, high),
                  Select(holds(Fn::kLess, x, low), low, Select(holds(Fn::kLess, high, x), high, x)), within);
  });
}

static OpSample ClampSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kNumbers);
  return RandomOperands(rng, {dtype, dtype, dtype});
}

OpDef ClampOp() {
  return OpDef{.name = "clamp",
               .summary = "The second operand held between the first and the third.",
               .inputs = {"low", "x", "high"},
               .broadcasts = true,
               .attrs = {},
               .meaning = ClampMeaning,
               .sample = ClampSample};
}

}  // namespace rewright
