#include "verifier/ranks/rank_fault.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "verifier/ranks/placement_search.h"

namespace rewright {
namespace {

// True for a number of ranks, tokens.. by which something may be too large or too small; not for 1.
bool IsOfCounts(double factor) {
  if (factor <= 0) return false;
  const double count = factor > 1 ? factor : 1 / factor;
  return count > 1.5 && count < 1e6 && std::abs(count - std::round(count)) < 1e-9 * count;
}

class FaultSearch {
 public:
  explicit FaultSearch(const RankEvidence& evidence) : e_(evidence) {}

  RankFault Run(const std::set<size_t>& wrong) {
    std::set<int> parted;  // steps between what the model has and the wrong outputs
    for (size_t output : wrong) Walk(e_.program.outputs[output], &parted);
    if (parted.empty()) return OtherPlacement(*wrong.begin());
    const int first = *parted.begin();
    const RankStep& step = Step(first);
    RankFault fault{.node = step.name};
    const std::vector<int> summed = SummedAxes(step);
    std::vector<int> missing;
    std::set_difference(summed.begin(), summed.end(), step.group.begin(), step.group.end(),
                        std::back_inserter(missing));
    const auto collective = std::find_if(parted.begin(), parted.end(),
                                         [&](int number) { return Step(number).collective != nullptr; });
    if (step.collective == nullptr && !missing.empty()) {
      Blame("no reduction", missing, &fault);
      fault.text = absl::StrCat(What(first), " reads summands over ", AxesText(missing),
                                " as if each were the sum: no reduction over ", AxesText(missing), " comes before it");
    } else if (step.collective != nullptr) {
      Blame(KindText(step), step.group, &fault);
      fault.text = absl::StrCat(What(first), " takes ", OperandsText(step));
      if (!missing.empty()) absl::StrAppend(&fault.text, ", and not over ", AxesText(missing));
    } else if (collective != parted.end()) {
      Blame(absl::StrCat(KindText(Step(*collective)), " ", Step(*collective).name), Step(*collective).group, &fault);
      fault.text = absl::StrCat(What(first), " is the first that the model has not, before ", fault.collective);
    } else if (const std::optional<int> above = CollectiveAbove(first)) {
      Blame(absl::StrCat(KindText(Step(*above)), " ", Step(*above).name), Step(*above).group, &fault);
      fault.text = absl::StrCat(What(first), " is the first that the model has not, behind ", fault.collective);
    } else {
      Blame("no collective", CutAxes(step), &fault);
      fault.text = absl::StrCat(What(first), " is the first that the model has not; it takes ", OperandsText(step),
                                ", and no collective comes before it");
    }
    absl::StrAppend(&fault.text, OwnConstantText(step));
    for (int number : parted) {
      const std::string multiple = MultipleText(number);
      if (multiple.empty()) continue;
      absl::StrAppend(&fault.text, "; ", multiple);
      break;
    }
    return fault;
  }

 private:
  const RankStep& Step(int number) const { return e_.program.steps[number]; }
  const Statement* Seen(const StepValue& at) const {
    const auto found = e_.seen.find(at);
    return found == e_.seen.end() ? nullptr : &found->second;
  }

  void Walk(const StepValue& at, std::set<int>* parted) const {
    const RankStep& step = Step(at.first);
    if (step.op == nullptr || Seen(at) != nullptr || !parted->insert(at.first).second) return;
    for (const StepValue& operand : step.operands) Walk(operand, parted);
  }

  std::string AxesText(const std::vector<int>& axes) const { return e_.plan.GroupText(axes); }

  static std::string KindText(const RankStep& step) {
    switch (step.collective->kind) {
      case CollectiveKind::kAllReduce: return "all-reduce";
      case CollectiveKind::kAllGather: return "all-gather";
      case CollectiveKind::kReduceScatter: return "reduce-scatter";
      case CollectiveKind::kAllToAll: return "all-to-all";
    }
    return "";
  }

  void Blame(const std::string& collective, const std::vector<int>& axes, RankFault* fault) const {
    fault->collective = collective;
    fault->ranks = axes.empty() ? "all ranks" : AxesText(axes);
  }

  std::string What(int number) const {
    const RankStep& step = Step(number);
    return absl::StrCat(step.name, " = ", step.collective != nullptr
                                             ? absl::StrCat(KindText(step), " over ", AxesText(step.group))
                                             : step.op->name);
  }

  // The axes of the mesh along which operands are held in a way.
  template <typename Way>
  std::vector<int> AxesWhere(const RankStep& step, Way way) const {
    std::set<int> axes;
    for (const StepValue& operand : step.operands) {
      const Statement* seen = Seen(operand);
      for (size_t axis = 0; seen != nullptr && axis < seen->placement.size(); ++axis) {
        if (way(seen->placement[axis])) axes.insert(static_cast<int>(axis));
      }
    }
    return {axes.begin(), axes.end()};
  }
  std::vector<int> SummedAxes(const RankStep& step) const {
    return AxesWhere(step, IsShare);
  }
  std::vector<int> CutAxes(const RankStep& step) const {
    return AxesWhere(step, [](int place) { return place >= 0; });
  }

  std::string PlacementText(const MeshPlacement& placement) const {
    std::vector<std::string> parts;
    for (size_t axis = 0; axis < placement.size(); ++axis) {
      if (e_.plan.mesh[axis].size == 1) continue;
      const std::string& name = e_.plan.mesh[axis].name;
      parts.push_back(placement[axis] == kWhole     ? absl::StrCat("whole on each rank of ", name)
                      : placement[axis] == kSummand ? absl::StrCat("in summands over ", name)
                      : placement[axis] == kMean    ? absl::StrCat("in parts of a mean over ", name)
                                                    : absl::StrCat("cut over ", name, " along axis ", placement[axis]));
    }
    return absl::StrJoin(parts, ", ");
  }

  std::string OperandsText(const RankStep& step) const {
    std::vector<std::string> texts;
    for (const StepValue& operand : step.operands) {
      const Statement* seen = Seen(operand);
      texts.push_back(seen == nullptr ? Step(operand.first).name
                                      : absl::StrCat(Step(operand.first).name, ", ", PlacementText(seen->placement)));
    }
    return absl::StrJoin(texts, "; ");
  }

  // Names the first rank with another constant than rank 0 among the operands.
  std::string OwnConstantText(const RankStep& step) const {
    for (const StepValue& operand : step.operands) {
      const std::vector<Tensor>& constants = Step(operand.first).constants;
      for (size_t rank = 1; rank < constants.size(); ++rank) {
        const double own = constants[rank].At(0), first = constants[0].At(0);
        if (constants[rank].num_elements() == 1 && own != first) {
          return absl::StrFormat("; rank %d has %.6g where rank 0 has %.6g", rank, own, first);
        }
      }
    }
    return "";
  }

  std::string NameOf(Value value) const {
    const std::string& name = e_.model.arena()->name(value);
    const Node& node = e_.model.node(value.node);
    return !name.empty() ? name : node.op != nullptr ? node.op->name : node.name.empty() ? "a constant" : node.name;
  }

  // The result of a step as a multiple of a value of the model.
  std::string MultipleText(int number) const {
    const auto tensor = e_.of_ranks.find({number, 0});
    if (tensor == e_.of_ranks.end()) return "";
    for (const PlacedTensor& placed : WholesOf(tensor->second, e_.plan.mesh)) {
      for (const auto& [value, elements] : e_.of_model) {
        const double factor = elements.num_elements() > 1 || e_.model.node(value.node).op != nullptr
                                  ? FactorOf(placed.whole, elements)
                                  : 0;
        if (!IsOfCounts(factor)) continue;
        return absl::StrFormat("%s, %s, is %.6g times %s of the model", Step(number).name,
                               PlacementText(placed.placement), factor, NameOf(value));
      }
    }
    return "";
  }

  // The nearest collective that a step depends on.
  std::optional<int> CollectiveAbove(int number) const {
    std::set<int> above = {number};
    for (int at = number; at >= 0; --at) {
      if (!above.contains(at)) continue;
      if (at != number && Step(at).collective != nullptr) return at;
      for (const StepValue& operand : Step(at).operands) above.insert(operand.first);
    }
    return std::nullopt;
  }

  // The output is a value of the model, but ranks hold it otherwise than the plan says, or it is another value.
  RankFault OtherPlacement(size_t output) const {
    const StepValue at = e_.program.outputs[output];
    const auto& [name, wanted] = e_.plan.outputs[output];
    const RankStep& step = Step(at.first);
    RankFault fault{.node = step.name};
    const Statement* seen = Seen(at);
    if (seen == nullptr) return fault;
    std::vector<int> summed, other;
    for (size_t axis = 0; axis < wanted.size(); ++axis) {
      if (seen->placement[axis] == wanted[axis] || e_.plan.mesh[axis].size == 1) continue;
      (IsShare(seen->placement[axis]) ? summed : other).push_back(static_cast<int>(axis));
    }
    if (!summed.empty() && step.collective != nullptr) {
      Blame(KindText(step), step.group, &fault);
      fault.text = absl::StrCat("the output ", name, " is in summands over ", AxesText(summed), " behind ",
                                What(at.first));
    } else if (!summed.empty()) {
      Blame("no reduction", summed, &fault);
      fault.text = absl::StrCat("the output ", name, " is in summands over ", AxesText(summed),
                                ": no reduction over these comes behind ", step.name);
    } else {
      const std::optional<int> above = step.collective != nullptr ? at.first : CollectiveAbove(at.first);
      Blame(above ? KindText(Step(*above)) : "none", above ? Step(*above).group : other, &fault);
      fault.text = absl::StrCat("the output ", name, " is ", NameOf(seen->value), " of the model, ",
                                PlacementText(seen->placement), "; the plan says ", PlacementText(wanted));
    }
    return fault;
  }

  const RankEvidence& e_;
};

}  // namespace

RankFault FaultOf(const RankEvidence& evidence, const std::set<size_t>& wrong) {
  return FaultSearch(evidence).Run(wrong);
}

}  // namespace rewright
