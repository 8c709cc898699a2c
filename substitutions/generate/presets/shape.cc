#include "substitutions/generate/presets/choices.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {
namespace {

enum : int { kDepth, kRows, kColumns, kCut, kSecondCut };
const std::vector<Size> kVector = {Var(kColumns)};
const std::vector<Size> kMatrix = {Var(kRows), Var(kColumns)};
const std::vector<Size> kCube = {Var(kDepth), Var(kRows), Var(kColumns)};

Space Shapes(const std::string& name, std::vector<InputGroup> inputs, int max_ops,
             std::vector<OperatorChoice> operators) {
  return {.name = name,
          .variables = {"b", "m", "n", "p", "q"},
          .inputs = std::move(inputs),
          .operators = std::move(operators),
          .max_ops = max_ops,
          .max_outputs = 1,
          // The last two variables are the begins of the parts of n: p, and q for the third part.
          .assignments = {{3, 2, 4, 1, 3}, {2, 5, 7, 3, 5}},
          .confirmation = {{2, 7, 9, 3, 5}, {5, 3, 6, 1, 3}},
          .nominal = {2, 3, 4, 1, 3}};
}

Space TwoOutputs(Space space) {
  space.max_outputs = 2;
  return space;
}

Space ThreeOutputs(Space space) {
  space.max_outputs = 3;
  return space;
}

// Tensors that are two parts along their last axis, and the parts of others.
InputGroup InTwo(const std::string& name, int count) {
  return {.name = name, .shape = kMatrix, .count = count, .cut_axis = 1, .cuts = {Var(kCut)}};
}

}  // namespace

std::vector<Space> ShapeSpaces() {
  const InputGroup matrices{"x", kMatrix, 3}, cubes{"x", kCube, 2};
  const std::vector<OperatorChoice> transposes = {Transpose({0, 2, 1}), Transpose({1, 0, 2}), Transpose({2, 1, 0}),
                                                  Transpose({1, 2, 0}), Transpose({2, 0, 1})};
  std::vector<OperatorChoice> moves = transposes;
  OperatorChoice sum = Reduce("reduce_sum", 1), max = Reduce("reduce_max", 2);
  sum.no_units = max.no_units = true;
  moves.insert(moves.end(), {Unary("relu"), Unary("exp"), sum, max, Binary("add")});
  return {
      TwoOutputs(Shapes(
          "joins", {{"x", kMatrix, 3}}, 3,
          {Concat(2, 0), Concat(2, 1), Split(0), Split(1), FirstPart(2, 0), FirstPart(2, 1), Transpose({1, 0})})),
      // A tensor of two or three parts, and an operator on each of them.
      ThreeOutputs(Shapes("parts",
                          {InTwo("x", 1),
                           {.name = "y", .shape = kMatrix, .cut_axis = 1, .cuts = {Var(kCut), Var(kSecondCut)}},
                           {"z", kMatrix, 3}},
                          2, {Split(1), Split(1, 3), Concat(2, 1), Concat(2, 1, 3)})),
      TwoOutputs(Shapes("functions-of-parts", {InTwo("x", 1)}, 3,
                        {Split(1), Unary("relu"), Unary("sigmoid"), Unary("tanh"), Unary("gelu")})),
      ScaledParts("columns-in-two", 2, 1, {"m", "n"}, {{4}, {3}, {2}, {6}, {2}}, 1),
      ScaledParts("columns-in-three", 3, 1, {"m", "n"}, {{4}, {3}, {2}, {6}, {2}}, 1),
      TwoOutputs(Shapes("elements", {matrices}, 3,
                        {Concat(2, 0), Concat(2, 1), Split(1), FirstPart(2, 1), Transpose({1, 0}), Unary("relu"),
                         Binary("add"), Merge("flatten", {{0, 1}}, 2), Reshape("matrix", 1, kMatrix)})),
      Shapes("transposes", {cubes}, 3, moves),
      Shapes("reshapes", {{"x", kCube, 3}}, 3,
             {Merge("rows", {{0, 1}, {2}}, 3), Merge("columns", {{0}, {1, 2}}, 3), Merge("line", {{0, 1, 2}}, 3),
              Reshape("cube1", 1, kCube), Reshape("cube2", 2, kCube), Unary("relu"), Binary("add"), Unary("exp")}),
      Shapes("stretches", {matrices, {"y", kVector, 1}}, 3,
             {Expand("expand", 1, kMatrix), Stretched("add", {2, 1}), Stretched("mul", {2, 1}), Binary("add"),
              Binary("mul"), Unary("relu")}),
      Shapes("pads", {matrices}, 3,
             {Pad("pad_rows", {1, 0}, {2, 0}), Pad("pad_columns", {0, 2}, {0, 1}), Unary("relu"), Binary("add"),
              Binary("mul"), Transpose({1, 0}), Concat(2, 0)}),
  };
}

}  // namespace rewright::generate
