// A device whose costs are a table, and a runner that interprets graphs and takes as long as it is told to.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "search/rewriter.h"
#include "search/search.h"

namespace rewright {

// Each application is a group of its own. It costs the table's entry for its operator (1 if there is none), in
// milliseconds.
class FakeDevice : public Device {
 public:
  explicit FakeDevice(std::map<std::string, double> milliseconds = {}) : milliseconds_(std::move(milliseconds)) {}

  std::string name() const override { return "fake"; }
  std::vector<Group> Partition(const Graph& graph) const override;
  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override;
  absl::StatusOr<Schedule> Compile(const Graph& graph) override;

  // A cost that depends on more than the operator.
  std::function<double(const Graph&, const Node&)> cost_of;
  // Operators that cannot be costed.
  std::vector<std::string> unsupported;
  int cost_calls = 0;

 private:
  std::map<std::string, double> milliseconds_;
};

// A clock that only runs of a FakeRunner's executables advance, so that no busy machine decides a test.
double FakeSeconds();

// Runs take `seconds(graph)` by FakeSeconds and give the interpreter's results.
class FakeRunner : public GraphRunner {
 public:
  explicit FakeRunner(std::function<double(const Graph&)> seconds) : seconds_(std::move(seconds)) {}
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override;

 private:
  std::function<double(const Graph&)> seconds_;
};

// Rules from text, unproved.
RuleIndex RulesFrom(const std::string& text);
// A graph from text; weights are random.
Graph GraphFrom(const std::string& text);

// x -> exp -> mul by a weight, `blocks` times: for rules that lead through something dearer to something cheap.
std::string Detours(int blocks);

// `count` products of one input with weights of their own; and the rule that makes two such products one.
std::string Siblings(int count);
inline constexpr char kMergeSiblings[] = R"(
rule matmul-shared-lhs
  { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }
  => split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])
  when weight(y) and weight(z)
)";

// Searches with a fresh rewriter and cost model; any error fails the test.
SearchResult RunSearch(const Graph& graph, const RuleIndex& rules, Device& device, const SearchOptions& options = {});

}  // namespace rewright
