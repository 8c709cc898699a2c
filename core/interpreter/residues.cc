// Reductions that are computed residue by residue.
//
// The derivative of a window of stride 2, a sum such as
//   out[y] = sum r: u[(y - r) div 2] where (y - r) mod 2 = 0
// reads neighbours y by different loops: its indices are not linear in y, and lanes are gathered. At the positions
// y = 2 z + s, with s fixed, they are linear in z. A costly reduction with such indices becomes a stage for each
// residue s; all of them fill one tensor. Each element is the same sum of the same terms in the same order.
#include "core/interpreter/residues.h"

#include <algorithm>
#include <utility>

namespace rewright::interp {
namespace {

using index::Form;

constexpr int64_t kMostResidues = 4;  // of an axis
constexpr int64_t kMostStages = 16;

// The positions `first` + `step` * q for q in [0, extent), by axis.
struct Grid {
  std::vector<int64_t> first, step, extents;
};

Stage LowerOn(Context& context, const OutputMeaning& output, const Grid& grid) {
  StageLowering lowering(context, grid.extents);
  for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
    const Form place = lowering.builder().Axis(static_cast<int>(axis)) * grid.step[axis] + grid.first[axis];
    lowering.SetVar(output.index_vars[axis], place);
  }
  const int root = lowering.Element(output.element.get());
  return context.status.ok() ? lowering.builder().Take(root) : Stage();
}

// The axes on which a dividend depends by a factor that the divisor does not divide get that divisor as their step.
void NoteSteps(const Stage& stage, const Node& quotient, std::vector<int64_t>* steps) {
  const Node& divisor = stage.nodes[static_cast<size_t>(quotient.args[1])];
  const int64_t step = divisor.linear.imm;
  if (divisor.kind != NodeKind::kLinear || !divisor.linear.terms.empty() || step < 2 || step > kMostResidues) return;
  const auto note = [&](const Node& variable, int64_t factor) {
    if (variable.kind != NodeKind::kVar || variable.imm >= kFirstBound || factor % step == 0) return;
    int64_t& of_axis = (*steps)[static_cast<size_t>(variable.imm)];
    of_axis = std::max(of_axis, step);
  };
  const Node& dividend = stage.nodes[static_cast<size_t>(quotient.args[0])];
  note(dividend, 1);
  for (const auto& [id, factor] : dividend.linear.terms) note(stage.nodes[static_cast<size_t>(id)], factor);
}

// Returns by axis how many residues of positions get stages of their own.
std::vector<int64_t> StepsOf(const Stage& stage, double least_cost) {
  std::vector<int64_t> steps(stage.extents.size(), 1);
  const bool reduces = std::any_of(stage.nodes.begin(), stage.nodes.end(),
                                   [](const Node& node) { return node.kind == NodeKind::kReduce; });
  if (!reduces || stage.cost < least_cost) return steps;
  for (const Node& node : stage.nodes) {
    if (node.kind == NodeKind::kMod || node.kind == NodeKind::kFloorDiv) NoteSteps(stage, node, &steps);
  }
  for (size_t axis = 0; axis < steps.size(); ++axis) steps[axis] = std::min(steps[axis], stage.extents[axis]);
  return NumElements(steps) <= kMostStages ? steps : std::vector<int64_t>(steps.size(), 1);
}

}  // namespace

int LowerOutput(Context& context, const OutputMeaning& output, const Shape& shape) {
  std::vector<Stage>& stages = context.program->stages;
  const size_t before = stages.size();
  const size_t rank = shape.size();
  Stage whole = LowerOn(context, output, {Shape(rank, 0), Shape(rank, 1), shape});
  const std::vector<int64_t> steps = StepsOf(whole, context.program->tuning.min_residues);
  if (NumElements(steps) <= 1 || !context.status.ok()) {
    stages.push_back(std::move(whole));
    return static_cast<int>(stages.size()) - 1;
  }
  stages.resize(before);  // those that the whole reads
  int first_stage = -1;
  for (int64_t number = 0; number < NumElements(steps) && context.status.ok(); ++number) {
    Grid grid{Shape(rank, 0), steps, Shape(rank, 0)};
    Part part{.shape = shape, .strides = Shape(rank, 0)};
    int64_t rest = number, stride = 1;
    for (size_t axis = rank; axis-- > 0;) {
      grid.first[axis] = rest % steps[axis];
      rest /= steps[axis];
      grid.extents[axis] = (shape[axis] - grid.first[axis] + steps[axis] - 1) / steps[axis];
      part.offset += grid.first[axis] * stride;
      part.strides[axis] = steps[axis] * stride;
      stride *= shape[axis];
    }
    Stage stage = LowerOn(context, output, grid);
    if (first_stage < 0) first_stage = static_cast<int>(stages.size());
    part.first_stage = first_stage;
    stage.part = std::move(part);
    stages.push_back(std::move(stage));
  }
  return first_stage;
}

}  // namespace rewright::interp
