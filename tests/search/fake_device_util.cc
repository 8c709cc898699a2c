#include "tests/search/fake_device_util.h"

#include <algorithm>
#include <random>

#include "core/base/check.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gtest/gtest.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"

namespace rewright {
namespace {

double fake_seconds = 0;

class FakeExecutable : public Executable {
 public:
  FakeExecutable(const Graph& graph, double seconds) : graph_(graph), seconds_(seconds) {}

  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    if (results_.empty() || !inputs_.at(0).BitEqual(inputs.at(0))) {
      absl::flat_hash_map<std::string, Tensor> by_name;
      for (size_t i = 0; i < inputs.size(); ++i) by_name[graph_.node(graph_.inputs()[i].node).name] = inputs[i];
      auto results = InterpretGraph(graph_, by_name);
      if (!results.ok()) return results.status();
      results_ = *results;
      inputs_ = inputs;
    }
    *outputs = results_;
    fake_seconds += seconds_;
    return absl::OkStatus();
  }
  int64_t arena_bytes() const override { return 0; }
  int64_t peak_live_bytes() const override { return 0; }

 private:
  Graph graph_;
  double seconds_;
  std::vector<Tensor> inputs_, results_;
};

}  // namespace

double FakeSeconds() { return fake_seconds; }

std::vector<Group> FakeDevice::Partition(const Graph& graph) const {
  std::vector<Group> groups;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!graph.IsRun(node)) continue;
    Group group;
    group.nodes = {id};
    group.inputs = node.operands;
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i) group.outputs.push_back(Value{id, i});
    groups.push_back(std::move(group));
  }
  return groups;
}

absl::StatusOr<double> FakeDevice::Cost(const Graph& graph, const Group& group) {
  ++cost_calls;
  const Node& node = graph.node(group.nodes[0]);
  const std::string& op = node.op->name;
  if (std::find(unsupported.begin(), unsupported.end(), op) != unsupported.end()) {
    return absl::UnimplementedError(op + " is not supported");
  }
  if (cost_of) return 1e-3 * cost_of(graph, node);
  auto it = milliseconds_.find(op);
  return 1e-3 * (it == milliseconds_.end() ? 1 : it->second);
}

absl::StatusOr<Schedule> FakeDevice::Compile(const Graph&) { return absl::UnimplementedError("no kernels"); }

absl::StatusOr<std::unique_ptr<Executable>> FakeRunner::Prepare(const Graph& graph) {
  return std::unique_ptr<Executable>(new FakeExecutable(graph, seconds_(graph)));
}

RuleIndex RulesFrom(const std::string& text) {
  auto rules = ParseRules(text, "test");
  CHECK(rules.ok()) << rules.status().ToString();
  std::vector<std::shared_ptr<const Matcher>> matchers;
  for (const Rule& rule : *rules) {
    auto compiled = CompileRule(rule);
    CHECK(compiled.ok()) << compiled.status().ToString();
    matchers.push_back(std::make_shared<Matcher>(*compiled));
  }
  return RuleIndex(std::move(matchers));
}

Graph GraphFrom(const std::string& text) {
  auto parsed = ParseGraph(text);
  CHECK(parsed.ok()) << parsed.status().ToString();
  std::map<std::string, Tensor> weights;
  std::mt19937_64 rng(7);
  for (NodeId id : parsed->nodes()) {
    const Node& node = parsed->node(id);
    if (node.leaf != LeafKind::kState) continue;
    Tensor data(node.outputs[0]);
    for (int64_t i = 0; i < data.num_elements(); ++i) data.Set(i, 0.5 + static_cast<double>(rng() % 1000) / 1000);
    weights[node.name] = data;
  }
  auto graph = ParseGraph(text, weights);
  CHECK(graph.ok()) << graph.status().ToString();
  return *graph;
}

std::string Siblings(int count) {
  std::string leaves = "input x: f32[2,4]\n", products, outputs;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&leaves, "state w", i, ": f32[4,", 3 + i, "]\n");
    absl::StrAppend(&products, "%", i, " = matmul(x, w", i, ")\n");
    absl::StrAppend(&outputs, "output y", i, " = %", i, "\n");
  }
  return leaves + products + outputs;
}

std::string Detours(int blocks) {
  std::string text = "input x: f32[2,3]\nstate w: f32[2,3]\n";
  std::string last = "x";
  for (int i = 0; i < blocks; ++i) {
    absl::StrAppend(&text, "%", 2 * i, " = exp(", last, ")\n%", 2 * i + 1, " = mul(%", 2 * i, ", w)\n");
    last = absl::StrCat("%", 2 * i + 1);
  }
  return absl::StrCat(text, "output y = ", last, "\n");
}

SearchResult RunSearch(const Graph& graph, const RuleIndex& rules, Device& device, const SearchOptions& options) {
  RuleRewriter rewriter(rules);
  CostModel costs(device);
  absl::StatusOr<SearchResult> result = Search(graph, rewriter, costs, options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(rewriter.failures(), 0) << rewriter.first_failure();
  return result.ok() ? *std::move(result) : SearchResult();
}

}  // namespace rewright
