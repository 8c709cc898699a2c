#include "substitutions/generate/presets/choices.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {
namespace {

using Kind = OperatorChoice::Constant;

// Tensors of one axis stand for those of any shape. Nothing is merged: only graphs of one output.
Space Elements(const std::string& name, int inputs, std::vector<OperatorChoice> operators, int max_ops = 3) {
  return {.name = name,
          .variables = {"n"},
          .inputs = {{"x", {Var(0)}, inputs}},
          .operators = std::move(operators),
          .max_ops = max_ops,
          .max_outputs = 1,
          .assignments = {{5}, {7}},
          .confirmation = {{6}, {11}},
          .nominal = {4}};
}

}  // namespace

std::vector<Space> ElementwiseSpaces() {
  const std::vector<Size> shape = {Var(0)};
  const OperatorChoice zero = Constant("zero", Kind::kSplat, shape, 0), one = Constant("one", Kind::kSplat, shape);
  OperatorChoice add = Binary("add"), mul = Binary("mul");
  add.distinct = mul.distinct = false;  // x + x
  Space scaled = Elements("scaled", 2, {Binary("add"), Ordered("sub"), Unary("neg"), Unary("relu"), Scale(), zero});
  scaled.inputs.push_back({"s", {}, 2});
  return {
      Elements("sums", 3, {Binary("add"), Ordered("sub"), Unary("neg"), zero}),
      Elements("products", 3, {Binary("add"), Binary("mul"), Unary("neg"), zero, one}),
      Elements("quotients", 3, {Binary("mul"), Ordered("div"), Unary("neg"), one, zero}),
      Elements("reciprocals", 2,
               {Binary("mul"), Ordered("div"), Unary("reciprocal"), Unary("sqrt"), Unary("rsqrt"), one}),
      Elements("order", 3, {Binary("max"), Binary("min"), Unary("neg"), Unary("relu"), zero}),
      Elements("functions", 2,
               {Unary("exp"), Unary("sqrt"), Unary("abs"), Unary("log"), Unary("relu"), mul, zero, one}),
      Elements("exponents", 2,
               {Unary("exp"), Unary("neg"), Binary("add"), Ordered("sub"), Binary("mul"), Ordered("div"), one, zero}),
      Elements("sigmoids", 1, {Unary("sigmoid"), Unary("neg"), Ordered("sub"), one}, 4),
      scaled};
}

}  // namespace rewright::generate
