#include "tests/support/random_graph.h"

#include <optional>
#include <random>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ir/op.h"
#include "core/ir/random_tensors.h"
#include "core/ops/ops.h"
#include "substitutions/instance/random_application.h"

namespace rewright {
namespace {

constexpr size_t kInstances = 5;  // of a rule
constexpr int64_t kMaxGrown = 4096;
constexpr uint64_t kInstanceSeed = 20240615;

}  // namespace

RandomGraphs::RandomGraphs(const std::vector<std::shared_ptr<const Matcher>>& rules) {
  std::mt19937_64 rng(kInstanceSeed);
  for (const auto& matcher : rules) {
    Piece piece{&matcher->rule(), {}};
    uint64_t seen = 0;
    const absl::Status status =
        ForEachStructuralAssignment(matcher->rule(), SmallLimits(matcher->rule()),
                                    [&](const StructuralAssignment& structure, RuleInstance instance) {
                                      ++seen;
                                      if (piece.instances.size() < kInstances) {
                                        piece.instances.emplace_back(structure, std::move(instance));
                                      } else if (const uint64_t place = rng() % seen; place < kInstances) {
                                        piece.instances[place] = {structure, std::move(instance)};
                                      }
                                      return absl::OkStatus();
                                    });
    CHECK(status.ok()) << status.ToString();
    if (!piece.instances.empty()) pieces_.push_back(std::move(piece));
  }
}

class RandomGraphs::Grower {
 public:
  Grower(const RandomGraphs& graphs, uint64_t seed) : graphs_(graphs), seed_(seed), rng_(seed) {}

  RandomGraph Run(int pieces) {
    for (int i = 0; i < pieces; ++i) {
      if (i == 0 || graphs_.pieces_.empty() || Chance(1, 3)) {
        const std::vector<const OpDef*>& ops = AllOps();
        AddSample(*ops[(seed_ + static_cast<uint64_t>(i)) % ops.size()]);
      } else {
        AddLeftSide(graphs_.pieces_[rng_() % graphs_.pieces_.size()]);
      }
    }
    std::vector<Output> outputs;
    for (Value value : made_) {
      if (!read_.contains(value) || Chance(1, 8)) outputs.push_back({value, absl::StrCat("y", outputs.size())});
    }
    result_.graph = Graph(arena_, inputs_, std::move(outputs));
    return std::move(result_);
  }

 private:
  bool Chance(uint64_t of, uint64_t among) { return rng_() % among < of; }

  void AddSample(const OpDef& op) {
    const OpSample sample = op.sample(rng_);
    const bool any_value = sample.low == OpSample().low && sample.high == OpSample().high;
    std::vector<Value> operands;
    for (const TensorType& type : sample.inputs) {
      const std::optional<Value> value = any_value ? Existing(type) : std::nullopt;
      operands.push_back(value ? *value : NewLeaf(RandomTensor(type, rng_, sample.low, sample.high)));
    }
    const absl::StatusOr<NodeId> id = arena_->Add(op, operands, sample.attrs);
    CHECK(id.ok()) << id.status().ToString();
    Made(*id);
  }

  void AddLeftSide(const Piece& piece) {
    const auto& [structure, instance] = piece.instances[rng_() % piece.instances.size()];
    const auto application = DrawApplication(*piece.rule, structure, instance, {.tries = 300}, rng_);
    if (!application) return;
    const Graph& graph = application->graph;
    ValueMap values;
    for (NodeId id : graph.nodes()) {
      const Node& node = graph.node(id);
      if (node.leaf == LeafKind::kInput) {
        const std::optional<Value> value = Existing(node.outputs[0]);
        values[{id, 0}] = value ? *value : NewInput(application->inputs.at(node.name));
      } else if (node.leaf == LeafKind::kState) {
        values[{id, 0}] = NewWeight(*graph.arena()->Elements(id));
      } else if (node.leaf == LeafKind::kConstant) {
        values[{id, 0}] = arena_->AddConstant(node.data);
      } else {
        std::vector<Value> operands;
        for (Value operand : node.operands) operands.push_back(values.at(operand));
        const NodeId copy = arena_->AddLike(node, std::move(operands));
        for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) values[{id, k}] = {copy, k};
        Made(copy);
      }
    }
  }

  // Returns a value that was computed before, recent ones first, or nothing.
  std::optional<Value> Existing(const TensorType& type) {
    for (size_t i = made_.size(); i-- > 0;) {
      if (arena_->type(made_[i]) == type && Chance(3, 4)) return made_[i];
    }
    // Returns another shape with as many elements.
    for (size_t i = made_.size(); i-- > 0 && Chance(1, 2);) {
      const TensorType& found = arena_->type(made_[i]);
      if (found.dtype != type.dtype || found.num_elements() != type.num_elements() || found == type) continue;
      const absl::StatusOr<NodeId> id = arena_->Add("reshape", {made_[i]}, {{"shape", type.shape}});
      if (!id.ok()) continue;
      Made(*id);
      return Value{*id, 0};
    }
    return std::nullopt;
  }

  Value NewLeaf(const Tensor& data) { return Chance(2, 3) ? NewInput(data) : NewWeight(data); }
  Value NewInput(const Tensor& data) {
    const std::string name = absl::StrCat("x", inputs_.size());
    const absl::StatusOr<Value> input = arena_->AddInput(name, data.type());
    CHECK(input.ok()) << input.status().ToString();
    inputs_.push_back(*input);
    result_.inputs[name] = data;
    return *input;
  }
  Value NewWeight(const Tensor& data) {
    const absl::StatusOr<Value> weight = arena_->AddState(absl::StrCat("w", arena_->size()), data);
    CHECK(weight.ok()) << weight.status().ToString();
    return *weight;
  }

  void Made(NodeId id) {
    const Node& node = arena_->node(id);
    for (Value operand : node.operands) read_.insert(operand);
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      if (node.outputs[k].num_elements() <= kMaxGrown) made_.push_back({id, k});
    }
  }

  const RandomGraphs& graphs_;
  const uint64_t seed_;
  std::mt19937_64 rng_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::vector<Value> inputs_, made_;
  absl::flat_hash_set<Value> read_;
  RandomGraph result_;
};

RandomGraph RandomGraphs::Grow(uint64_t seed, int pieces) const { return Grower(*this, seed).Run(pieces); }

}  // namespace rewright
