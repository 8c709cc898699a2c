#include "runtime/reference_runner.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "runtime/memory_plan.h"

namespace rewright {
namespace {

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(Graph graph, int threads)
      : graph_(std::move(graph)), threads_(threads), peak_live_bytes_(PeakLiveBytes(graph_)) {}

  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    if (inputs.size() != graph_.inputs().size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("run: ", inputs.size(), " inputs given, ", graph_.inputs().size(), " expected"));
    }
    absl::flat_hash_map<std::string, Tensor> by_name;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = graph_.node(graph_.inputs()[i].node).name;
      const TensorType& type = graph_.type(graph_.inputs()[i]);
      if (inputs[i].type() != type) {
        return absl::InvalidArgumentError(
            absl::StrCat("run: input ", name, " is ", inputs[i].type().ToString(), ", expected ", type.ToString()));
      }
      by_name[name] = inputs[i];
    }
    InterpretOptions options;
    options.threads = threads_;
    absl::StatusOr<std::vector<Tensor>> results = InterpretGraph(graph_, by_name, options);
    if (!results.ok()) return results.status();
    *outputs = *std::move(results);
    return absl::OkStatus();
  }

  int64_t arena_bytes() const override { return peak_live_bytes_; }
  int64_t peak_live_bytes() const override { return peak_live_bytes_; }

 private:
  const Graph graph_;
  const int threads_;
  const int64_t peak_live_bytes_;
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
