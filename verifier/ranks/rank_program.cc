#include "verifier/ranks/rank_program.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"

namespace rewright {

int64_t RankPlan::num_ranks() const {
  int64_t count = 1;
  for (const MeshAxis& axis : mesh) count *= axis.size;
  return count;
}

std::string RankPlan::GroupText(const std::vector<int>& axes) const {
  std::vector<int64_t> group = {0};
  std::vector<std::string> names;
  int64_t stride = 1;
  for (int axis = static_cast<int>(mesh.size()) - 1; axis >= 0; stride *= mesh[axis--].size) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
    names.insert(names.begin(), mesh[axis].name);
    const std::vector<int64_t> inner = group;
    group.clear();
    for (int64_t p = 0; p < mesh[axis].size; ++p) {
      for (int64_t rank : inner) group.push_back(p * stride + rank);
    }
  }
  return absl::StrCat(absl::StrJoin(names, " x "), ", ranks ", absl::StrJoin(group, ","),
                      static_cast<int64_t>(group.size()) < num_ranks() ? ".." : "");
}

namespace {

class Alignment {
 public:
  explicit Alignment(const RankPlan& plan) : plan_(plan) {}

  absl::StatusOr<RankProgram> Run() {
    for (size_t k = 0; k < plan_.outputs.size(); ++k) {
      std::vector<Value> values;
      for (const RankModel& rank : plan_.ranks) values.push_back(rank.graph.outputs()[k].value);
      ASSIGN_OR_RETURN(const StepValue output, Align(values));
      program_.outputs.push_back(output);
    }
    return std::move(program_);
  }

 private:
  const Node& NodeOf(size_t rank, Value value) const { return plan_.ranks[rank].graph.node(value.node); }

  std::string NameOf(size_t rank, Value value) const {
    const std::string& name = plan_.ranks[rank].graph.arena()->name(value);
    const Node& node = NodeOf(rank, value);
    const std::string what = node.op != nullptr ? node.op->name : node.name.empty() ? "constant" : node.name;
    return name.empty() ? what : absl::StrCat(name, " = ", what);
  }

  absl::Status Parts(size_t rank, const std::vector<Value>& values, const std::string& found,
                     const std::string& expected) const {
    return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " runs another graph than rank 0: at ",
                                                      NameOf(rank, values[rank]), " found ", found,
                                                      ", expected as on rank 0 (", NameOf(0, values[0]), ") ",
                                                      expected));
  }

  absl::StatusOr<StepValue> Align(const std::vector<Value>& values) {
    std::vector<NodeId> key;
    for (Value value : values) {
      if (value.output != values[0].output) {
        return Parts(&value - values.data(), values, "another output", "the same");
      }
      key.push_back(value.node);
    }
    if (const auto found = steps_.find(key); found != steps_.end()) return StepValue(found->second, values[0].output);
    const Node& first = NodeOf(0, values[0]);
    RankStep step{.op = first.op,
                  .attrs = first.attrs,
                  .types = first.outputs,
                  .name = plan_.ranks[0].graph.arena()->name(values[0])};
    if (first.leaf == LeafKind::kInput) step.name = first.name;
    const bool moves = SliceMoves(values);
    for (size_t rank = 0; rank < values.size(); ++rank) RETURN_IF_ERROR(CheckAlike(rank, values, moves));
    if (first.op == nullptr) RETURN_IF_ERROR(TakeElements(values, &step));
    for (size_t k = 0; k < first.operands.size(); ++k) {
      std::vector<Value> operands;
      for (size_t rank = 0; rank < values.size(); ++rank) operands.push_back(NodeOf(rank, values[rank]).operands[k]);
      ASSIGN_OR_RETURN(const StepValue operand, Align(operands));
      step.operands.push_back(operand);
    }
    if (first.op != nullptr && IsForeign(first)) RETURN_IF_ERROR(TakeCollective(values, &step));
    if (moves) TakeStarts(values, &step);
    steps_[key] = Add(std::move(step));
    return StepValue(steps_[key], values[0].output);
  }

  int Add(RankStep step) {
    program_.steps.push_back(std::move(step));
    return static_cast<int>(program_.steps.size()) - 1;
  }

  std::vector<int64_t> StartsOf(size_t rank, Value value) const {
    return std::get<std::vector<int64_t>>(NodeOf(rank, value).attrs.at("starts"));
  }

  // True if the value is a slice without steps that begins elsewhere on other ranks.
  bool SliceMoves(const std::vector<Value>& values) const {
    bool moves = false;
    for (size_t rank = 0; rank < values.size(); ++rank) {
      const Node& node = NodeOf(rank, values[rank]);
      if (node.op == nullptr || node.op->name != "slice") return false;
      const auto& steps = std::get<std::vector<int64_t>>(node.attrs.at("steps"));
      if (std::any_of(steps.begin(), steps.end(), [](int64_t one) { return one != 1; })) return false;
      moves = moves || StartsOf(rank, values[rank]) != StartsOf(0, values[0]);
    }
    return moves;
  }

  void TakeStarts(const std::vector<Value>& values, RankStep* step) {
    step->op = FindOp("dynamic_slice");
    step->attrs = {{"sizes", step->types[0].shape}};
    for (size_t axis = 0; axis < step->types[0].shape.size(); ++axis) {
      RankStep start{.types = {{DType::kInt64, {}}}, .name = step->name + " start"};
      for (size_t rank = 0; rank < values.size(); ++rank) {
        start.constants.push_back(
            Tensor::Scalar(DType::kInt64, static_cast<double>(StartsOf(rank, values[rank])[axis])));
      }
      MergeEqual(&start.constants);
      step->operands.push_back({Add(std::move(start)), 0});
    }
  }

  // One tensor where all ranks have the same.
  static void MergeEqual(std::vector<Tensor>* constants) {
    for (const Tensor& other : *constants) {
      for (int64_t i = 0; i < other.num_elements(); ++i) {
        if (IsFloating(other.dtype()) ? other.At(i) != (*constants)[0].At(i)
                                      : other.AtInt(i) != (*constants)[0].AtInt(i)) {
          return;
        }
      }
    }
    constants->resize(1);
  }

  absl::Status CheckAlike(size_t rank, const std::vector<Value>& values, bool moves) const {
    const Node &own = NodeOf(rank, values[rank]), &first = NodeOf(0, values[0]);
    const auto op = [](const Node& node) { return node.op == nullptr ? "a leaf" : node.op->name; };
    if (own.op != first.op || own.operands.size() != first.operands.size()) {
      return Parts(rank, values, op(own), op(first));
    }
    if (own.outputs != first.outputs) {
      return Parts(rank, values, own.outputs[0].ToString(), first.outputs[0].ToString());
    }
    const bool collective = own.op != nullptr && IsForeign(own);
    if (!collective && !moves && own.attrs != first.attrs) {
      return Parts(rank, values, AttrsString(own.attrs), AttrsString(first.attrs));
    }
    if (own.leaf == LeafKind::kInput && own.name != first.name) return Parts(rank, values, own.name, first.name);
    return absl::OkStatus();
  }

  absl::Status TakeElements(const std::vector<Value>& values, RankStep* step) const {
    if (NodeOf(0, values[0]).leaf == LeafKind::kInput) return absl::OkStatus();
    for (size_t rank = 0; rank < values.size(); ++rank) {
      const Tensor* elements = plan_.ranks[rank].graph.arena()->Elements(values[rank].node);
      if (elements == nullptr) return absl::FailedPreconditionError(step->name + ": a weight without elements");
      step->constants.push_back(*elements);
    }
    MergeEqual(&step->constants);
    return absl::OkStatus();
  }

  // The axes of the mesh along which the ranks of a group lie, in the group of each rank alike.
  absl::Status TakeCollective(const std::vector<Value>& values, RankStep* step) const {
    const int axes = static_cast<int>(plan_.mesh.size());
    std::vector<int64_t> strides(axes, 1);
    for (int axis = axes - 2; axis >= 0; --axis) strides[axis] = strides[axis + 1] * plan_.mesh[axis + 1].size;
    for (size_t rank = 0; rank < values.size(); ++rank) {
      const int64_t number = std::get<int64_t>(NodeOf(rank, values[rank]).attrs.at("node"));
      const auto found = plan_.ranks[rank].collectives.find(number);
      if (found == plan_.ranks[rank].collectives.end()) {
        return absl::FailedPreconditionError(NameOf(rank, values[rank]) + " is not computed here");
      }
      const RankCollective& collective = found->second;
      if (rank == 0) {
        step->collective = &collective;
        for (int axis = 0; axis < axes; ++axis) {
          const auto at = std::find(collective.group.begin(), collective.group.end(), strides[axis]);
          if (plan_.mesh[axis].size > 1 && at != collective.group.end()) step->group.push_back(axis);
        }
      }
      std::vector<int64_t> expected = {static_cast<int64_t>(rank)};
      for (auto axis = step->group.rbegin(); axis != step->group.rend(); ++axis) {
        std::vector<int64_t> wider;
        for (int64_t p = 0; p < plan_.mesh[*axis].size; ++p) {
          for (int64_t other : expected) {
            wider.push_back(other + (p - other / strides[*axis] % plan_.mesh[*axis].size) * strides[*axis]);
          }
        }
        expected = wider;
      }
      const RankCollective& first = *step->collective;
      if (collective.group != expected || collective.kind != first.kind || collective.axis != first.axis ||
          collective.reduction != first.reduction) {
        return absl::FailedPreconditionError(absl::StrCat(
            "rank ", rank, ": ", NameOf(rank, values[rank]), " goes over the ranks ",
            absl::StrJoin(collective.group, ","), ", expected as on rank 0 (", absl::StrJoin(first.group, ","),
            ") a group along axes of the mesh: ", absl::StrJoin(expected, ",")));
      }
    }
    return absl::OkStatus();
  }

  const RankPlan& plan_;
  RankProgram program_;
  std::map<std::vector<NodeId>, int> steps_;
};

}  // namespace

absl::StatusOr<RankProgram> AlignRanks(const RankPlan& plan) { return Alignment(plan).Run(); }

}  // namespace rewright
