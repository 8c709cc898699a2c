#include "substitutions/generate/mined/mined_spaces.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "substitutions/generate/enumerate/terms.h"
#include "substitutions/generate/mined/choices_of_nodes.h"
#include "substitutions/generate/presets/choices.h"

namespace rewright::generate {
namespace {

constexpr int kSizeDraws = 100000;    // of sizes
constexpr size_t kAssignments = 5;    // two that are searched, two that confirm, the nominal one
constexpr int64_t kSmall = 6;         // most sizes are 2 to this
constexpr int64_t kLarge = 30;        // those of products and sums of others may be
constexpr size_t kMaxVariables = 10;  // of sizes
constexpr int kMaxInputs = 6;
const char* const kVariableNames[kMaxVariables] = {"m", "n", "p", "q", "r", "s", "t", "u", "v", "w"};
const char* const kInputNames[] = {"x", "y", "z", "u", "v", "w"};

absl::Status None(const std::string& why) { return absl::NotFoundError(why); }

class SpaceBuilder {
 public:
  SpaceBuilder(const Graph& graph, const FrequentSubgraph& subgraph) : graph_(graph), subgraph_(subgraph) {}

  absl::StatusOr<Space> Build(bool batch_varies, uint64_t seed) {
    batch_varies_ = batch_varies;
    for (NodeId id : subgraph_.nodes) RETURN_IF_ERROR(AddNode(id));
    RETURN_IF_ERROR(AddInputs());
    if (space_.variables.size() > kMaxVariables) return None("too many sizes");
    space_.max_ops = static_cast<int>(subgraph_.nodes.size() + constants_.size());
    if (space_.max_ops > kMaxOps) return None("too many applications");
    space_.max_outputs = 2;
    RETURN_IF_ERROR(DrawAssignments(seed));
    return space_;
  }

 private:
  // An application of the subgraph in the space.
  struct Step {
    int op = 0;
    std::vector<Value> operands;
    NodeId node = -1;
  };

  Size SizeOf(int64_t number) {
    if (number == 1) return Num(1);
    const auto [at, fresh] = variables_.try_emplace(number, static_cast<int>(variables_.size()));
    if (fresh) space_.variables.push_back(VariableName(variables_.size() - 1));
    return Var(at->second);
  }
  static std::string VariableName(size_t i) { return i < kMaxVariables ? kVariableNames[i] : absl::StrCat("v", i); }

  // One image or sequence stands for any number of them.
  std::vector<Size> ShapeOf(const Shape& shape, bool batched) {
    std::vector<Size> sizes;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool batch = batched && batch_varies_ && axis == 0 && shape.size() >= 3 && shape[0] == 1;
      sizes.push_back(SizeOf(batch ? kBatch : shape[axis]));
    }
    return sizes;
  }

  int AddOperator(const OperatorChoice& choice) {
    for (size_t i = 0; i < space_.operators.size(); ++i) {
      if (space_.operators[i].name == choice.name) return static_cast<int>(i);
    }
    space_.operators.push_back(choice);
    return static_cast<int>(space_.operators.size()) - 1;
  }

  absl::Status AddNode(NodeId id) {
    const Node& node = graph_.node(id);
    NodeChoice found = *ChoiceOf(graph_, node);
    if (found.choice.derived == Derived::kShape) found.choice.shape = ShapeOf(node.outputs[0].shape, true);
    if (found.choice.derived == Derived::kParts || found.choice.derived == Derived::kFirst) AddCuts(node, found.choice);
    Step step{.node = id};
    step.operands = node.operands;
    if (found.swapped) std::swap(step.operands[0], step.operands[1]);
    for (Value operand : step.operands) {
      if (const auto number = WholeNumber(graph_, operand)) AddConstant(operand, *number);
    }
    step.op = AddOperator(found.choice);
    steps_.push_back(std::move(step));
    if (node.op->name == "conv2d") kernels_.insert(node.operands[1]);
    return absl::OkStatus();
  }

  void AddConstant(Value value, int64_t number) {
    const Shape shape = graph_.type(value).shape;
    const std::string name = absl::StrCat("number", number, "_", shape.size(), "d");
    constants_[value] = AddOperator(Constant(name, OperatorChoice::Constant::kSplat, ShapeOf(shape, false), number));
  }

  // Parts of an axis: tensors with an axis of that size are known to be made of them.
  void AddCuts(const Node& node, const OperatorChoice& choice) {
    const Shape& shape = graph_.type(node.operands[0]).shape;
    const bool parts = choice.derived == Derived::kParts;
    const auto axis = static_cast<size_t>(parts ? std::get<int64_t>(node.attrs.at("axis")) : choice.axis);
    std::vector<int64_t>& cuts = cuts_[shape[axis]];
    if (!cuts.empty()) return;
    for (size_t k = 0; k + 1 < std::max<size_t>(node.outputs.size(), 2); ++k) {
      cuts.push_back((cuts.empty() ? 0 : cuts.back()) + node.outputs[k].shape[axis]);
    }
  }

  absl::Status AddInputs() {
    std::vector<Value> leaves;
    const std::set<NodeId> inner(subgraph_.nodes.begin(), subgraph_.nodes.end());
    for (const Step& step : steps_) {
      for (Value operand : step.operands) {
        if (inner.contains(operand.node) || constants_.contains(operand)) continue;
        if (std::find(leaves.begin(), leaves.end(), operand) == leaves.end()) leaves.push_back(operand);
      }
    }
    for (Value leaf : leaves) AddInput(leaf);
    // A law of one operator about two tensors needs two of them.
    InputGroup& first = space_.inputs[groups_.at(leaves[0]).first];
    first.count = std::max(first.count, 2);
    if (space_.num_inputs() > kMaxInputs) return None("too many inputs");
    return absl::OkStatus();
  }

  void AddInput(Value leaf) {
    const bool kernel = kernels_.contains(leaf);
    InputGroup group{.shape = ShapeOf(graph_.type(leaf).shape, !graph_.IsKnown(leaf)), .kernel = kernel};
    for (size_t axis = 2; kernel && axis < group.shape.size(); ++axis) {
      group.shape[axis] = Num(graph_.type(leaf).shape[axis]);
    }
    const Shape& shape = graph_.type(leaf).shape;
    for (size_t axis = 0; axis < shape.size() && !kernel; ++axis) {
      const auto found = cuts_.find(shape[axis]);
      if (found == cuts_.end()) continue;
      group.cut_axis = static_cast<int>(axis);
      for (int64_t cut : found->second) group.cuts.push_back(SizeOf(cut));
    }
    const std::string key = KeyOf(group);
    const auto [at, fresh] = group_of_key_.try_emplace(key, space_.inputs.size());
    if (fresh) {
      group.name = kInputNames[std::min(space_.inputs.size(), std::size(kInputNames) - 1)];
      space_.inputs.push_back(group);
    } else {
      ++space_.inputs[at->second].count;
    }
    groups_[leaf] = {at->second, space_.inputs[at->second].count - 1};
  }

  static std::string KeyOf(const InputGroup& group) {
    std::string key = absl::StrCat(group.kernel, ":", group.cut_axis);
    for (const Size& size : group.shape) absl::StrAppend(&key, ",", size.variable, ".", size.number);
    return key;
  }

  // True if the subgraph is legal where the variables have these values.
  bool IsLegal(const std::vector<int64_t>& assignment) const {
    Terms terms(space_, {assignment}, false, 1);
    std::map<Value, TypeId> types;
    for (const auto& [leaf, at] : groups_) {
      const ValueId input = terms.first_of(static_cast<int>(at.first)) + at.second;
      types[leaf] = terms.value(input).type;
      if (NumElements(terms.type(types[leaf]).shapes[0]) > space_.max_elements) return false;
    }
    for (const auto& [value, op] : constants_) types[value] = terms.Apply(op, nullptr)->outputs[0];
    for (const Step& step : steps_) {
      std::vector<TypeId> operands;
      for (Value operand : step.operands) operands.push_back(types.at(operand));
      const TypedApplication* applied = terms.Apply(step.op, operands.data());
      if (applied == nullptr) return false;
      for (size_t k = 0; k < applied->outputs.size(); ++k) {
        types[{step.node, static_cast<int32_t>(k)}] = applied->outputs[k];
      }
    }
    return true;
  }

  absl::Status DrawAssignments(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::set<std::vector<int64_t>> found;
    std::vector<std::vector<int64_t>> assignments;
    for (int draw = 0; draw < kSizeDraws && assignments.size() < kAssignments; ++draw) {
      std::vector<int64_t> sizes(space_.variables.size());
      for (int64_t& size : sizes) {
        const auto range = static_cast<uint64_t>(random() % 3 == 0 ? kLarge : kSmall) - 1;
        size = 2 + static_cast<int64_t>(random() % range);
      }
      if (std::set<int64_t>(sizes.begin(), sizes.end()).size() != sizes.size()) continue;
      if (IsLegal(sizes) && found.insert(sizes).second) assignments.push_back(sizes);
    }
    if (assignments.size() < (space_.variables.empty() ? 1 : kAssignments)) return None("no small sizes");
    assignments.resize(kAssignments, assignments[0]);
    space_.assignments = {assignments[0], assignments[1]};
    space_.confirmation = {assignments[2], assignments[3]};
    space_.nominal = assignments[4];
    return absl::OkStatus();
  }

  static constexpr int64_t kBatch = -1;  // stands for the number of images

  const Graph& graph_;
  const FrequentSubgraph& subgraph_;
  bool batch_varies_ = true;
  Space space_;
  std::vector<Step> steps_;
  std::map<int64_t, int> variables_;  // by number in the model
  std::map<Value, int> constants_;    // operators
  std::set<Value> kernels_;
  std::map<int64_t, std::vector<int64_t>> cuts_;    // by size of the axis
  std::map<Value, std::pair<size_t, int>> groups_;  // of leaves: the group, the number in it
  std::map<std::string, size_t> group_of_key_;
};

std::set<std::string> AlphabetOf(const Graph& graph, const FrequentSubgraph& subgraph) {
  std::set<std::string> names;
  for (NodeId id : subgraph.nodes) names.insert(ChoiceOf(graph, graph.node(id))->choice.name);
  return names;
}

}  // namespace

MinedSpaces SpacesOf(const std::vector<Graph>& graphs, const MinedSubgraphs& mined, int max_spaces, uint64_t seed) {
  MinedSpaces result;
  std::vector<std::set<std::string>> alphabets;
  for (const FrequentSubgraph& subgraph : mined.subgraphs) {
    if (result.spaces.size() == static_cast<size_t>(max_spaces)) break;
    if (subgraph.nodes.size() < 2) continue;
    const Graph& graph = graphs[subgraph.graph];
    const std::set<std::string> alphabet = AlphabetOf(graph, subgraph);
    if (std::any_of(alphabets.begin(), alphabets.end(), [&](const std::set<std::string>& other) {
          return std::includes(other.begin(), other.end(), alphabet.begin(), alphabet.end());
        })) {
      continue;
    }
    absl::StatusOr<Space> space = SpaceBuilder(graph, subgraph).Build(true, seed);
    if (!space.ok()) space = SpaceBuilder(graph, subgraph).Build(false, seed);
    if (!space.ok()) {
      result.explanations.push_back(absl::StrCat("no space: ", space.status().message(), ": ", subgraph.form));
      continue;
    }
    alphabets.push_back(alphabet);
    space->name = absl::StrCat("mined", result.spaces.size() + 1);
    result.explanations.push_back(absl::StrCat("space ", space->name, ": ", subgraph.form,
                                               ": occurrences: ", subgraph.count, ", models: ", subgraph.graphs));
    result.spaces.push_back(*std::move(space));
  }
  return result;
}

}  // namespace rewright::generate
