// Elementwise functions of two operands that broadcast together as in NumPy: out[i..] = f(a[i..], b[i..]).
#include <functional>

#include "core/base/status_macros.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

enum class Order : uint8_t { kFixed, kCommutative };
enum class Result : uint8_t { kSameType, kBool };

struct Domain {
  double low = -2;
  double high = 2;
};

using BinaryFn = std::function<Scalar(const Scalar& a, const Scalar& b)>;

OpDef Binary(const std::string& name, const std::string& summary, Elements elements, Order order, const BinaryFn& f,
             Result result = Result::kSameType, Domain domain = {}) {
  return OpDef{.name = name,
               .summary = summary,
               .inputs = {"a", "b"},
               .commutative = order == Order::kCommutative,
               .broadcasts = true,
               .attrs = {},
               .meaning = [elements, f, result](OpBuilder& b) -> absl::Status {
                 RETURN_IF_ERROR(CheckElements(b, elements));
                 const Broadcast common(b, {0, 1});
                 b.Output(result == Result::kBool ? DType::kBool : b.dtype(0), common.shape(),
                          [&](const std::vector<Index>& i) {
                            return f(b.Read(0, common.At(0, i)), b.Read(1, common.At(1, i)));
                          });
                 return absl::OkStatus();
               },
               .sample =
                   [elements, domain](Rng& rng) {
                     const DType dtype = RandomDType(rng, elements);
                     const std::vector<Shape> shapes = RandomBroadcast(rng, 2, 4);
                     return OpSample{.inputs = {{dtype, shapes[0]}, {dtype, shapes[1]}},
                                     .attrs = {},
                                     .low = domain.low,
                                     .high = domain.high};
                   }};
}

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
                Order::kFixed, [](const Scalar& a, const Scalar& b) { return a / b; }, Result::kSameType, {1, 4});
}

// What division of integers leaves over: it has the sign of the dividend.
static Scalar Remainder(const Scalar& a, const Scalar& b) { return a - b * (a / b); }

// out[i..] = a[i..] - b[i..] * (a[i..] / b[i..]), the quotient rounded toward zero
OpDef RemOp() {
  return Binary("rem", "The remainder of division rounded toward zero: it has the sign of the dividend.",
                Elements::kIntegers, Order::kFixed, Remainder, Result::kSameType, {1, 9});
}

// out[i..] = a[i..] - b[i..] * (a[i..] / b[i..]), the quotient rounded down
OpDef ModOp() {
  return Binary("mod", "The remainder of division rounded down: it has the sign of the divisor.", Elements::kIntegers,
                Order::kFixed, [](const Scalar& a, const Scalar& b) { return Remainder(Remainder(a, b) + b, b); },
                Result::kSameType, {1, 9});
}

// out[i..] = a[i..] to the power b[i..]
OpDef PowOp() {
  return Binary("pow", "The first operand raised to the power of the second.", Elements::kFloats, Order::kFixed,
                [](const Scalar& a, const Scalar& b) { return Pow(a, b); }, Result::kSameType, {0.25, 2});
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
  return Binary(
      "equal", "Whether two operands are equal.", Elements::kAny, Order::kCommutative,
      [](const Scalar& a, const Scalar& b) {
        return Call(Fn::kEqual, {a, b});
      },
      Result::kBool);
}

// out[i..] = a[i..] < b[i..]
OpDef LessOp() {
  return Binary(
      "less", "Whether the first operand is less than the second.", Elements::kNumbers, Order::kFixed,
      [](const Scalar& a, const Scalar& b) {
        return Call(Fn::kLess, {a, b});
      },
      Result::kBool);
}

// out[i..] = a[i..] <= b[i..]
OpDef LessEqualOp() {
  return Binary(
      "less_equal", "Whether the first operand is at most the second.", Elements::kNumbers, Order::kFixed,
      [](const Scalar& a, const Scalar& b) {
        return Call(Fn::kLessEqual, {a, b});
      },
      Result::kBool);
}

// out[i..] = not (a[i..] = b[i..])
OpDef NotEqualOp() {
  return Binary(
      "not_equal", "Whether two operands differ.", Elements::kAny, Order::kCommutative,
      [](const Scalar& a, const Scalar& b) {
        return Call(Fn::kNot, {Call(Fn::kEqual, {a, b})});
      },
      Result::kBool);
}

// out[i..] = b[i..] < a[i..]
OpDef GreaterOp() {
  return Binary(
      "greater", "Whether the first operand is greater than the second.", Elements::kNumbers, Order::kFixed,
      [](const Scalar& a, const Scalar& b) {
        return Call(Fn::kLess, {b, a});
      },
      Result::kBool);
}

// out[i..] = b[i..] <= a[i..]
OpDef GreaterEqualOp() {
  return Binary(
      "greater_equal", "Whether the first operand is at least the second.", Elements::kNumbers, Order::kFixed,
      [](const Scalar& a, const Scalar& b) {
        return Call(Fn::kLessEqual, {b, a});
      },
      Result::kBool);
}

// out[i..] = a[i..] and b[i..]
OpDef LogicalAndOp() {
  return Binary("logical_and", "Whether both operands are true.", Elements::kBools, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) {
                  return Call(Fn::kAnd, {a, b});
                });
}

// out[i..] = a[i..] or b[i..]
OpDef LogicalOrOp() {
  return Binary("logical_or", "Whether one operand at least is true.", Elements::kBools, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) {
                  return Call(Fn::kOr, {a, b});
                });
}

static OpDef OfBits(Fn fn, const std::string& summary, Order order, Domain domain = {}) {
  return Binary(InfoOf(fn).name, summary, Elements::kIntegers, order, [fn](const Scalar& a, const Scalar& b) {
    return Call(fn, {a, b});
  }, Result::kSameType, domain);
}

// out[i..] = a[i..] & b[i..], bit by bit
OpDef BitAndOp() { return OfBits(Fn::kBitAnd, "The bits that both operands have.", Order::kCommutative); }

// out[i..] = a[i..] | b[i..], bit by bit
OpDef BitOrOp() { return OfBits(Fn::kBitOr, "The bits that one operand at least has.", Order::kCommutative); }

// out[i..] = a[i..] ^ b[i..], bit by bit
OpDef BitXorOp() { return OfBits(Fn::kBitXor, "The bits that exactly one operand has.", Order::kCommutative); }

// out[i..] = a[i..] * 2^b[i..]; the bits that do not fit are gone
OpDef ShiftLeftOp() {
  return OfBits(Fn::kShiftLeft, "The bits of the first operand, moved up by the second.", Order::kFixed, {0, 9});
}

// out[i..] = a[i..] / 2^b[i..], rounded down, of the first operand as a number without a sign
OpDef ShiftRightOp() {
  return OfBits(Fn::kShiftRight, "The bits of the first operand, moved down by the second; zeros come in.",
                Order::kFixed, {0, 9});
}

// out[i..] = not (a[i..] = b[i..])
OpDef LogicalXorOp() {
  return Binary("logical_xor", "Whether exactly one operand is true.", Elements::kBools, Order::kCommutative,
                [](const Scalar& a, const Scalar& b) {
                  return Call(Fn::kNot, {Call(Fn::kEqual, {a, b})});
                });
}

}  // namespace rewright
