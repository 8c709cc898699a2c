#include "substitutions/generate/space.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rewright::generate {
namespace {

Size Var(int variable) { return {variable, 0}; }
Size Num(int64_t number) { return {-1, number}; }

OperatorChoice Binary(const std::string& op) {
  return {.name = op, .op = op, .arity = 2, .commutative = true, .distinct = true, .same_shape = true};
}

OperatorChoice Unary(const std::string& op) { return {.name = op, .op = op}; }

OperatorChoice Matmul() { return {.name = "matmul", .op = "matmul", .arity = 2, .distinct = true, .ranks = {2, 2}}; }

OperatorChoice Scale() {
  return {.name = "scale", .op = "mul", .arity = 2, .distinct = true, .scalar_second = true};
}

OperatorChoice Conv(int64_t r, int64_t s, bool relu) {
  const std::vector<int64_t> pads = {(r - 1) / 2, (s - 1) / 2, r / 2, s / 2};
  return {.name = absl::StrCat("conv", r, "x", s, relu ? "_relu" : ""),
          .op = "conv2d",
          .arity = 2,
          .attrs = {{"pads", pads}},
          .derived = Derived::kGroups,
          .then = relu ? "relu" : "",
          .no_kernel_input = true,
          .ranks = {4, 4},
          .kernel = {r, s}};
}

OperatorChoice Pool(const std::string& op) {
  OperatorChoice pool{.name = op,
                      .op = op,
                      .attrs = {{"kernel", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}},
                      .ranks = {4}};
  if (op == "avg_pool2d") pool.attrs["count_include_pad"] = int64_t{1};
  return pool;
}

OperatorChoice Concat(int rank, int64_t axis) {
  return {.name = absl::StrCat("concat", axis, "_", rank, "d"),
          .op = "concat",
          .arity = 2,
          .attrs = {{"axis", axis}},
          .distinct = true,
          .in_order = true,
          .ranks = {rank, rank}};
}

OperatorChoice Split(int64_t axis) {
  return {.name = absl::StrCat("split", axis), .op = "split", .attrs = {{"axis", axis}}, .derived = Derived::kParts};
}

OperatorChoice Transpose(bool view) {
  return {.name = view ? "transpose_view" : "transpose",
          .op = "transpose",
          .attrs = {{"perm", std::vector<int64_t>{1, 0}}},
          .ranks = {2},
          .view = view};
}

OperatorChoice Constant(const std::string& name, OperatorChoice::Constant kind, std::vector<Size> shape,
                        int64_t denominator = 1) {
  return {.name = name, .arity = 0, .constant = kind, .shape = std::move(shape), .denominator = denominator};
}

}  // namespace

int Space::num_inputs() const {
  int count = 0;
  for (const InputGroup& group : inputs) count += group.count;
  return count;
}

Space TasoSpace() {
  enum : int { kM, kK, kN, kC, kH, kW };
  const std::vector<Size> image = {Var(kN), Var(kC), Var(kH), Var(kW)};
  const auto kernel = [](int64_t r, int64_t s) {
    return std::vector<Size>{Var(kC), Var(kC), Num(r), Num(s)};
  };
  const std::vector<Size> depthwise = {Var(kC), Num(1), Num(3), Num(3)};
  using Kind = OperatorChoice::Constant;
  Space space{.name = "taso",
              .variables = {"m", "k", "n", "c", "h", "w"},
              .inputs = {{"x", {Var(kM), Var(kK)}, 3},
                         {"y", {Var(kK), Var(kK)}, 3, true},
                         {"i", image, 3},
                         {"u", kernel(3, 3), 3, true},
                         {"v", kernel(1, 3), 3, true},
                         {"w", kernel(3, 1), 3, true},
                         {"d", depthwise, 1, true},
                         {"s", {}, 1}},
              .max_ops = 3,
              // Channels are even, so that two groups are possible.
              .assignments = {{2, 3, 1, 2, 4, 3}, {5, 4, 3, 4, 3, 2}},
              .confirmation = {{3, 7, 2, 6, 5, 2}, {7, 5, 3, 2, 5, 6}},
              .nominal = {2, 4, 2, 4, 5, 5}};
  OperatorChoice matmul = Matmul();
  matmul.forbidden_inner = kM;
  OperatorChoice enlarge{.name = "enlarge",
                         .op = "pad",
                         .derived = Derived::kEnlarge,
                         .leaf_only = true,
                         .ranks = {4},
                         .extent = {3, 3}};
  space.operators = {matmul,
                     Binary("add"),
                     Binary("mul"),
                     Conv(3, 3, false),
                     Conv(3, 3, true),
                     Conv(1, 1, false),
                     Conv(1, 1, true),
                     Conv(1, 3, false),
                     Conv(1, 3, true),
                     Pool("avg_pool2d"),
                     Pool("max_pool2d"),
                     Constant("pool_kernel", Kind::kSplat, depthwise, 9),
                     Constant("identity_kernel", Kind::kIdentity, kernel(3, 3)),
                     Constant("identity", Kind::kIdentity, {Var(kK), Var(kK)}),
                     Constant("one", Kind::kSplat, image),
                     enlarge,
                     Scale(),
                     Unary("relu"),
                     Concat(2, 1),
                     Concat(2, 0),
                     Concat(4, 1),
                     Concat(4, 0),
                     Split(1),
                     Split(0),
                     Transpose(true),
                     Transpose(false)};
  return space;
}

std::vector<std::string> PresetNames() { return {"taso"}; }

absl::StatusOr<Space> Preset(const std::string& name) {
  if (name == "taso") return TasoSpace();
  return absl::InvalidArgumentError(
      absl::StrCat("found `", name, "`, expected a preset: ", absl::StrJoin(PresetNames(), ", ")));
}

absl::Status Restrict(const std::vector<std::string>& ops, int inputs, Space* space) {
  const auto is = [](const OperatorChoice& choice, const std::string& name) {
    return choice.name == name || choice.op == name;
  };
  std::vector<OperatorChoice> chosen;
  for (const OperatorChoice& choice : space->operators) {
    if (std::any_of(ops.begin(), ops.end(), [&](const std::string& name) { return is(choice, name); })) {
      chosen.push_back(choice);
    }
  }
  for (const std::string& name : ops) {
    if (std::any_of(chosen.begin(), chosen.end(), [&](const OperatorChoice& choice) { return is(choice, name); })) {
      continue;
    }
    std::vector<std::string> known;
    for (const OperatorChoice& choice : space->operators) known.push_back(choice.name);
    return absl::InvalidArgumentError(
        absl::StrCat("found `", name, "`, expected operators of ", space->name, ": ", absl::StrJoin(known, ", ")));
  }
  if (!ops.empty()) space->operators = std::move(chosen);
  for (InputGroup& group : space->inputs) {
    if (inputs > 0) group.count = std::min(group.count, inputs);
  }
  return absl::OkStatus();
}

}  // namespace rewright::generate
