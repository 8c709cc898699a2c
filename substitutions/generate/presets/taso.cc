// TASO's space, as its generator writes it down.
#include "substitutions/generate/presets/choices.h"

namespace rewright::generate {

Space TasoSpace() {
  enum : int { kM, kK, kN, kC, kH, kW };
  const std::vector<Size> image = {Var(kN), Var(kC), Var(kH), Var(kW)};
  const auto kernel = [](int64_t r, int64_t s) { return std::vector<Size>{Var(kC), Var(kC), Num(r), Num(s)}; };
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
  // Two transposes there: one moves elements, the other is a view.
  OperatorChoice transpose = Transpose({1, 0}), view = Transpose({1, 0});
  transpose.name = "transpose";
  view.name = "transpose_view";
  view.view = true;
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
                     Constant("pool_kernel", Kind::kSplat, depthwise, 1, 9),
                     Constant("identity_kernel", Kind::kIdentity, kernel(3, 3)),
                     Constant("identity", Kind::kIdentity, {Var(kK), Var(kK)}),
                     Constant("one", Kind::kSplat, image),
                     Enlarge(3, 3),
                     Scale(),
                     Unary("relu"),
                     Concat(2, 1),
                     Concat(2, 0),
                     Concat(4, 1),
                     Concat(4, 0),
                     Split(1),
                     Split(0),
                     view,
                     transpose};
  for (OperatorChoice& choice : space.operators) choice.in_order = choice.op == "concat";
  return space;
}

}  // namespace rewright::generate
