#include "runtime/reference_runner.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "runtime/memory_plan.h"
#include "runtime/signature.h"

namespace rewright {
namespace {

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(Graph graph, int threads)
      : graph_(std::move(graph)), signature_(graph_), threads_(threads), peak_live_bytes_(PeakLiveBytes(graph_)) {}

  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    RETURN_IF_ERROR(signature_.CheckInputs(inputs));
    absl::flat_hash_map<std::string, Tensor> by_name;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, value] : states_) by_name[name] = value;
    for (size_t i = 0; i < inputs.size(); ++i) by_name[signature_.input_names[i]] = inputs[i];
    InterpretOptions options;
    options.threads = threads_;
    ASSIGN_OR_RETURN(std::vector<Tensor> values, InterpretGraph(graph_, by_name, options));
    outputs->clear();
    for (size_t i = 0; i < values.size(); ++i) {
      const Value updates = graph_.outputs()[i].updates;
      if (updates.node < 0) {
        outputs->push_back(std::move(values[i]));
      } else if (const auto input = std::find(graph_.inputs().begin(), graph_.inputs().end(), updates);
                 input != graph_.inputs().end()) {
        const Tensor& taken = inputs[static_cast<size_t>(input - graph_.inputs().begin())];
        std::memcpy(const_cast<void*>(taken.data()), values[i].data(), static_cast<size_t>(values[i].num_bytes()));
      } else {
        states_[graph_.node(updates.node).name] = std::move(values[i]);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> ReadState(const std::string& name) override {
    RETURN_IF_ERROR(signature_.TypeOfState(name).status());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = states_.find(name);
    if (found != states_.end()) return found->second;
    for (Value state : graph_.states()) {
      if (graph_.node(state.node).name == name) return *graph_.arena()->Elements(state.node);
    }
    return absl::InternalError(absl::StrCat("the state ", name, " has no value"));
  }

  absl::Status WriteState(const std::string& name, const Tensor& value) override {
    RETURN_IF_ERROR(signature_.CheckState(name, value));
    const std::lock_guard<std::mutex> lock(mutex_);
    states_[name] = value;
    return absl::OkStatus();
  }

  int64_t arena_bytes() const override { return peak_live_bytes_; }
  int64_t peak_live_bytes() const override { return peak_live_bytes_; }

 private:
  const Graph graph_;
  const Signature signature_;
  const int threads_;
  const int64_t peak_live_bytes_;
  std::mutex mutex_;                                 // of what follows: runs take turns
  absl::flat_hash_map<std::string, Tensor> states_;  // that were replaced
};

class ReferenceRunner : public GraphRunner {
 public:
  explicit ReferenceRunner(int threads) : threads_(threads) {}
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override {
    return std::unique_ptr<Executable>(std::make_unique<ReferenceExecutable>(graph, threads_));
  }

 private:
  const int threads_;
};

}  // namespace

std::unique_ptr<GraphRunner> MakeReferenceRunner(int threads) { return std::make_unique<ReferenceRunner>(threads); }

int64_t PeakLiveBytes(const Graph& graph) {
  std::vector<Lifetime> lifetimes;
  const int count = static_cast<int>(graph.nodes().size());
  for (int i = 0; i < count; ++i) {
    const NodeId id = graph.nodes()[i];
    const Node& node = graph.node(id);
    if (node.leaf != LeafKind::kNone || graph.IsKnown(node)) continue;
    const std::vector<int>& users = graph.users(i);
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      if (graph.is_output({id, k})) continue;
      lifetimes.push_back({node.outputs[k].num_bytes(), i, users.empty() ? i : users.back()});
    }
  }
  return PeakLiveBytes(lifetimes);
}

}  // namespace rewright
