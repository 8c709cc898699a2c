#include "runtime/parallel/stages.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

class Stager {
 public:
  explicit Stager(const RankGraph& rank)
      : rank_(rank), graph_(rank.graph), first_operand_(graph_.outputs().size() - rank.collectives.size()) {}

  absl::StatusOr<Stages> Run() {
    RETURN_IF_ERROR(FindLevels());
    NumberLeaves();
    for (NodeId id : graph_.nodes()) {
      if (graph_.IsRun(graph_.node(id))) Add(id);
    }
    for (size_t k = 0; k < graph_.outputs().size(); ++k) {
      const int tensor = Escaping(graph_.outputs()[k].value);
      (k < first_operand_ ? result_.outputs : result_.operands).push_back(tensor);
    }
    for (size_t k = 0; k < rank_.collectives.size(); ++k) {
      result_.stages[static_cast<size_t>(levels_of_collectives_[k])].collectives.push_back(static_cast<int>(k));
    }
    for (size_t k = 0; k < building_.size(); ++k) {
      Building& stage = building_[k];
      result_.stages[k].graph = Graph(stage.arena, std::move(stage.inputs), std::move(stage.outputs));
    }
    return std::move(result_);
  }

 private:
  struct Building {
    std::shared_ptr<Arena> arena;
    absl::flat_hash_map<Value, Value> here;
    std::vector<Value> inputs;
    std::vector<Output> outputs;
  };

  // A node runs as soon as the collectives that it needs are done.
  absl::Status FindLevels() {
    const size_t collectives = rank_.collectives.size();
    levels_.assign(graph_.nodes().size(), 0);
    levels_of_collectives_.assign(collectives, 0);
    absl::flat_hash_map<NodeId, size_t> results;
    for (size_t k = 0; k < collectives; ++k) {
      results[graph_.inputs()[graph_.inputs().size() - collectives + k].node] = k;
    }
    bool changed = true;
    for (size_t round = 0; changed; ++round) {
      if (round > collectives + 1) return absl::InternalError("a collective waits for itself");
      changed = false;
      for (size_t i = 0; i < levels_.size(); ++i) {
        const NodeId id = graph_.nodes()[i];
        const auto result = results.find(id);
        int level = result == results.end() ? 0 : levels_of_collectives_[result->second] + 1;
        for (int producer : graph_.producers(static_cast<int>(i))) level = std::max(level, levels_[producer]);
        levels_[i] = level;
      }
      for (size_t k = 0; k < collectives; ++k) {
        const int level = LevelOf(graph_.outputs()[first_operand_ + k].value);
        changed |= level != levels_of_collectives_[k];
        levels_of_collectives_[k] = level;
      }
    }
    const int last = *std::max_element(levels_.begin(), levels_.end());
    result_.stages.resize(static_cast<size_t>(last) + 1);
    for (int level = 0; level <= last; ++level) {
      building_.push_back({std::make_shared<Arena>(graph_.mode()), {}, {}, {}});
    }
    return absl::OkStatus();
  }

  int LevelOf(Value value) const { return levels_[graph_.index(value.node)]; }

  void NumberLeaves() {
    for (Value input : graph_.inputs()) Number(input);
    if (graph_.mode() != Mode::kTraining) return;
    absl::flat_hash_map<std::string, Value> states;
    for (Value state : graph_.states()) states[graph_.node(state.node).name] = state;
    for (const RankLeaf& state : rank_.states) Number(states.at(state.name));
  }

  int Number(Value value) {
    const auto [found, is_new] = numbers_.try_emplace(value, static_cast<int>(result_.tensors.size()));
    if (is_new) result_.tensors.push_back(graph_.type(value));
    return found->second;
  }

  // The tensor of a value that is needed outside of its stage.
  int Escaping(Value value) {
    if (const auto found = numbers_.find(value); found != numbers_.end()) return found->second;
    const int number = Number(value);
    const auto level = static_cast<size_t>(LevelOf(value));
    building_[level].outputs.push_back({In(level, value), absl::StrCat("value.", number)});
    result_.stages[level].outputs.push_back(number);
    return number;
  }

  // The value in a stage: its own, known before the run, or an input.
  Value In(size_t level, Value value) {
    Building& stage = building_[level];
    if (const auto found = stage.here.find(value); found != stage.here.end()) return found->second;
    Value here;
    if (graph_.IsKnown(value)) {
      here = Known(stage, value);
    } else {
      const int number = Escaping(value);
      const Node& node = graph_.node(value.node);
      const std::string name = node.name.empty() ? absl::StrCat("value.", number) : node.name;
      here = stage.arena->AddInput(name, graph_.type(value)).value();
      stage.inputs.push_back(here);
      result_.stages[level].inputs.push_back(number);
    }
    stage.here[value] = here;
    return here;
  }

  Value Known(Building& stage, Value value) {
    const Node& node = graph_.node(value.node);
    if (node.leaf == LeafKind::kConstant) return stage.arena->AddConstant(node.data);
    if (node.leaf == LeafKind::kState) {
      return stage.arena->AddState(node.name, *graph_.arena()->Elements(value.node)).value();
    }
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      const auto found = stage.here.find(operand);
      operands.push_back(found != stage.here.end() ? found->second : stage.here[operand] = Known(stage, operand));
    }
    return {stage.arena->AddLike(node, std::move(operands)), value.output};
  }

  void Add(NodeId id) {
    const Node& node = graph_.node(id);
    const auto level = static_cast<size_t>(LevelOf({id, 0}));
    std::vector<Value> operands;
    for (Value operand : node.operands) operands.push_back(In(level, operand));
    const NodeId copy = building_[level].arena->AddLike(node, std::move(operands));
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) building_[level].here[{id, k}] = {copy, k};
  }

  const RankGraph& rank_;
  const Graph& graph_;
  const size_t first_operand_;  // among the outputs
  std::vector<int> levels_;     // by position in nodes()
  std::vector<int> levels_of_collectives_;
  absl::flat_hash_map<Value, int> numbers_;
  std::vector<Building> building_;
  Stages result_;
};

}  // namespace

absl::StatusOr<Stages> StagesOf(const RankGraph& rank) { return Stager(rank).Run(); }

}  // namespace rewright
