#include "tools/verbs/train/joint_search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "runtime/training/optimizer.h"
#include "runtime/training/term.h"
#include "search/cost_model.h"
#include "substitutions/lowering.h"

namespace rewright {
namespace {

constexpr double kSignificance = 0.05;  // that a form which is no faster passes for faster, over all trials together

int64_t AxisOf(const Node& concat) { return std::get<int64_t>(concat.attrs.at("axis")); }

// The operands of a tree of concatenations along one axis.
void Spliced(const Graph& graph, Value value, int64_t axis, std::vector<Value>* operands) {
  std::vector<Value> open = {value};
  while (!open.empty()) {
    const Value next = open.back();
    const Node& node = graph.node(next.node);
    open.pop_back();
    if (node.op == ops::Concat() && AxisOf(node) == axis) {
      open.insert(open.end(), node.operands.rbegin(), node.operands.rend());
    } else {
      operands->push_back(next);
    }
  }
}

// Trees of concatenations become one each: concat-of-concat-first of core.rules, as often as it applies (decision 062
// says why an operator of more operands than a rule names needs no law of its own).
absl::StatusOr<Graph> WithFlatConcats(const Graph& graph) {
  ValueMap flat;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op != ops::Concat()) continue;
    std::vector<Value> operands;
    Spliced(graph, {id, 0}, AxisOf(node), &operands);
    if (operands.size() == node.operands.size()) continue;
    ASSIGN_OR_RETURN(flat[Value(id, 0)], graph.arena()->Apply("concat", operands, node.attrs));
  }
  if (flat.empty()) return graph;
  return ReplaceEverywhere(graph, flat);
}

// Below transpositions.
Value Source(const Graph& graph, Value value) {
  while (graph.node(value.node).op == ops::Transpose()) value = graph.node(value.node).operands[0];
  return value;
}

bool IsPartOfState(const Graph& graph, Value value) {
  const Node& node = graph.node(Source(graph, value).node);
  return node.op == ops::Slice() && graph.node(node.operands[0].node).leaf == LeafKind::kState;
}

// The text of a weight's update, with its own states, values that are no function of these, and scalars as leaves.
class UpdateText {
 public:
  UpdateText(const Graph& step, const std::string& weight) : step_(step) {
    for (Value state : step.states()) {
      for (const char* suffix : kKeptSuffixes) {
        if (step.node(state.node).name == weight + suffix) own_[state.node] = absl::StrCat("state", suffix);
      }
    }
  }

  std::string Of(Value value) {
    const auto [it, fresh] = known_.try_emplace(value.node);
    if (!fresh) return it->second;
    const std::string text = Make(value);
    return known_[value.node] = text;
  }

 private:
  std::string Make(Value value) {
    const Node& node = step_.node(value.node);
    if (const auto own = own_.find(value.node); own != own_.end()) return own->second;
    if (step_.type(value).rank() == 0 || node.leaf == LeafKind::kConstant) return absl::StrCat("%", value.node);
    std::string text = node.op == nullptr ? "leaf" : node.op->name;
    bool reads_own = false;
    for (Value operand : node.operands) {
      // Values behind an operator that changes shapes are computed without the states of the weight.
      const std::string below =
          step_.type(operand).rank() > 0 && step_.type(operand) != step_.type(value) ? "value" : Of(operand);
      reads_own = reads_own || below.find("state") != std::string::npos;
      absl::StrAppend(&text, "(", below, ")");
    }
    return reads_own ? text : "value";
  }

  const Graph& step_;
  std::map<NodeId, std::string> own_;
  absl::flat_hash_map<NodeId, std::string> known_;
};

// Vectors of one size and one kind of update.
std::vector<std::vector<StoredForm>> FamiliesOfVectors(const Graph& step, const std::vector<std::string>& trained) {
  std::map<std::string, Output> next;
  for (const Output& output : step.outputs()) {
    if (output.updates.node >= 0) next[step.node(output.updates.node).name] = output;
  }
  std::vector<std::string> keys;  // in the order of the weights
  std::map<std::string, StoredForm> forms;
  for (const std::string& weight : trained) {
    const auto output = next.find(weight);
    if (output == next.end() || step.type(output->second.updates).rank() != 1) continue;
    const std::string key = absl::StrCat(step.type(output->second.updates).ToString(), " ",
                                         UpdateText(step, weight).Of(output->second.value));
    if (!forms.contains(key)) keys.push_back(key);
    forms[key].parts.push_back(weight);
  }
  std::vector<std::vector<StoredForm>> families;
  for (const std::string& key : keys) {
    if (forms[key].parts.size() > 1) families.push_back({forms[key]});
  }
  return families;
}

// Matrices of which a concatenation consists.
std::optional<StoredForm> FormOfConcat(const Graph& graph, const Node& concat, const std::set<std::string>& weights) {
  StoredForm form;
  for (Value operand : concat.operands) {
    Value value = operand;
    int64_t axis = AxisOf(concat);
    while (graph.node(value.node).op == ops::Transpose()) {
      const Node& node = graph.node(value.node);
      axis = std::get<std::vector<int64_t>>(node.attrs.at("perm"))[static_cast<size_t>(axis)];
      value = node.operands[0];
    }
    const Node& leaf = graph.node(value.node);
    const bool first = form.parts.empty();
    if (leaf.leaf != LeafKind::kState || !weights.contains(leaf.name) || graph.type(value).rank() < 2) return {};
    if (!first && axis != form.axis) return {};
    if (std::find(form.parts.begin(), form.parts.end(), leaf.name) != form.parts.end()) return {};
    form.axis = axis;
    form.parts.push_back(leaf.name);
  }
  return form;
}

std::vector<StoredForm> FormsOfConcats(const Graph& searched, const std::vector<std::string>& trained) {
  const std::set<std::string> weights(trained.begin(), trained.end());
  std::set<std::string> taken;
  std::vector<StoredForm> forms;
  for (NodeId id : searched.nodes()) {
    if (searched.node(id).op != ops::Concat()) continue;
    const std::optional<StoredForm> form = FormOfConcat(searched, searched.node(id), weights);
    if (!form || std::any_of(form->parts.begin(), form->parts.end(),
                             [&](const std::string& part) { return taken.contains(part); })) {
      continue;
    }
    taken.insert(form->parts.begin(), form->parts.end());
    forms.push_back(*form);
  }
  return forms;
}

}  // namespace

absl::StatusOr<RuleSet> StoredFormRules() {
  ASSIGN_OR_RETURN(const std::string file, FindRuleFile("stored_forms.rules"));
  return RuleSet::FromFiles({file});
}

absl::StatusOr<Graph> LoweredInForms(const Graph& step, const std::vector<StoredForm>& forms,
                                     const std::vector<std::string>& trained, const RuleSet& laws) {
  ASSIGN_OR_RETURN(const Graph joined, InStoredForms(step, forms, trained));
  ASSIGN_OR_RETURN(const Lowering lowered, Lower(joined, laws));
  ASSIGN_OR_RETURN(const Graph flat, WithFlatConcats(lowered.graph));
  return CopyGraph(flat);
}

absl::StatusOr<Graph> WithViewsOfStates(const Graph& graph, const RuleSet& laws) {
  ValueMap trees;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op != ops::Concat() || node.operands.size() < 3) continue;
    if (!std::all_of(node.operands.begin(), node.operands.end(),
                     [&](Value operand) { return IsPartOfState(graph, operand); })) {
      continue;
    }
    ASSIGN_OR_RETURN(trees[Value(id, 0)], ConcatTree(*graph.arena(), node.operands, AxisOf(node)));
  }
  ASSIGN_OR_RETURN(const Graph apart, trees.empty() ? graph : ReplaceEverywhere(graph, trees));
  ASSIGN_OR_RETURN(const Lowering lowered, Lower(apart, laws));
  return WithFlatConcats(lowered.graph);
}

std::vector<std::vector<StoredForm>> FormFamilies(const Graph& step, const std::vector<std::string>& trained,
                                                  const Graph& searched) {
  std::vector<std::vector<StoredForm>> families = FamiliesOfVectors(step, trained);
  const std::vector<StoredForm> matrices = FormsOfConcats(searched, trained);
  if (!matrices.empty()) families.push_back(matrices);
  return families;
}

absl::StatusOr<SearchedStep> FasterStep(SearchedStep first, SearchedStep other, Device& device,
                                        const WholeSteps& time) {
  CostModel costs(device);
  ASSIGN_OR_RETURN(const GraphCost cost, costs.Cost(first.report.graph));
  ASSIGN_OR_RETURN(const GraphCost cost_of_other, costs.Cost(other.report.graph));
  if (cost_of_other.seconds >= cost.seconds) return first;
  if (time == nullptr) return other;
  ASSIGN_OR_RETURN(const Measurement measured, time(first.report.graph, other.report.graph));
  return IsFaster(measured, kSignificance) ? other : first;
}

absl::StatusOr<JointStep> SearchStep(const SearchedStep& searched, const std::vector<std::string>& trained,
                                     Device& device,
                                     const std::function<absl::StatusOr<OptimizeReport>(const Graph&)>& search,
                                     const WholeSteps& time) {
  ASSIGN_OR_RETURN(const RuleSet laws, StoredFormRules());
  CostModel costs(device);
  JointStep found;
  found.graph = searched.report.graph;
  ASSIGN_OR_RETURN(const GraphCost first, costs.Cost(found.graph));
  found.seconds = first.seconds;
  std::vector<std::vector<StoredForm>> families = FormFamilies(searched.step, trained, found.graph);
  families.insert(families.begin(), std::vector<StoredForm>());
  for (std::vector<StoredForm>& family : families) {
    std::vector<StoredForm> forms = found.forms;
    forms.insert(forms.end(), family.begin(), family.end());
    ASSIGN_OR_RETURN(const Graph start, LoweredInForms(searched.step, forms, trained, laws));
    ASSIGN_OR_RETURN(OptimizeReport report, search(start));
    ASSIGN_OR_RETURN(GraphCost cost, costs.Cost(report.graph));
    Graph graph = report.graph;
    ASSIGN_OR_RETURN(const Graph views, WithViewsOfStates(graph, laws));
    ASSIGN_OR_RETURN(const GraphCost cost_of_views, costs.Cost(views));
    if (cost_of_views.total() < cost.total()) {
      graph = views;
      cost = cost_of_views;
    }
    FormTrial& trial = found.trials.emplace_back(FormTrial{std::move(family), cost.seconds});
    if (cost.seconds >= found.seconds) continue;
    if (time != nullptr) {
      ASSIGN_OR_RETURN(trial.measured, time(found.graph, graph));
      if (!IsFaster(*trial.measured, kSignificance, families.size())) continue;
    }
    trial.kept = true;
    found.graph = graph;
    found.seconds = cost.seconds;
    found.report = std::move(report);
    found.start = start;
    found.forms = std::move(forms);
  }
  return found;
}

}  // namespace rewright
