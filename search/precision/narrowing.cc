#include "search/precision/narrowing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "core/ir/pointwise.h"
#include "core/numerics/narrow_nodes.h"
#include "core/numerics/ranges.h"
#include "core/numerics/rounding_op.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

// How often the tolerance of the estimate is corrected by what was measured.
constexpr int kRounds = 6;
// The part of the tolerance at which a correction aims, and the part that is enough.
constexpr double kAim = 0.8, kEnough = 0.5;
// Elements that the estimate examines, one of each output: each takes a backward pass.
constexpr size_t kMostLooks = 4;
constexpr size_t kMostNamed = 10;
constexpr char kStopped[] = "no time was left to choose nodes for 16 bits";
// The weight of an element that is read or written, in operations: about what memory costs.
constexpr double kOperationsPerByte = 2;

class Chooser {
 public:
  Chooser(const Graph& graph, GraphRunner& runner, const NarrowingOptions& options)
      : graph_(graph), runner_(runner), options_(options) {}

  absl::StatusOr<Narrowing> Run() {
    FindEligible();
    result_.eligible = static_cast<int>(eligible_.size());
    if (!HasProduct(eligible_)) return Unchanged("no product or convolution may be computed in 16 bits");
    if (IsStopped()) return Unchanged(kStopped);
    if (options_.phase) options_.phase("running the original");
    ASSIGN_OR_RETURN(original_, runner_.Prepare(graph_));
    for (const std::vector<Tensor>& inputs : options_.inputs) {
      RETURN_IF_ERROR(original_->Run(inputs, &expected_.emplace_back()));
    }
    result_.expected = expected_.front();
    if (IsStopped()) return Unchanged(kStopped);
    RETURN_IF_ERROR(Estimate());
    if (looks_.empty()) return Unchanged("no output has an estimate of its error");
    RETURN_IF_ERROR(Search());
    if (!best_ || options_.measure || best_->narrow < static_cast<int>(eligible_.size())) {
      std::optional<Candidate> results = std::exchange(best_, std::nullopt);
      KeepResults();
      if (!eligible_.empty()) RETURN_IF_ERROR(Search());
      RETURN_IF_ERROR(TakeBetter(std::move(results)));
    }
    if (IsStopped()) return Unchanged(kStopped);
    if (!best_) {
      return Unchanged(absl::StrFormat("nothing worth computing in 16 bits keeps within %.3g", options_.tolerance));
    }
    Report();
    if (options_.measure) RETURN_IF_ERROR(Time());
    return std::move(result_);
  }

 private:
  using Nodes = absl::flat_hash_set<NodeId>;
  // An element of an output: by value what its rounding adds, in squares of the output's largest element.
  struct Look {
    size_t output = 0;
    absl::flat_hash_map<Value, double> squares;
  };
  // A graph that keeps to the tolerance.
  struct Candidate {
    Graph graph;
    int narrow = 0, eligible = 0;
    bool keeps_results = false;
    double estimated = 0, measured = 0;
    std::vector<ErrorShare> kept_wide;
    std::unique_ptr<Executable> executable;
  };

  bool IsStopped() const { return options_.stop && options_.stop(); }

  Narrowing Unchanged(std::string why) {
    result_.graph.reset();
    result_.verdict = std::move(why);
    return std::move(result_);
  }

  // ---- what may become narrow

  // Applications on f32 whose results reach no decision: there a rounding would change a choice.
  void FindEligible() {
    Numerics numerics;
    const absl::flat_hash_map<Value, Decisions> decisions = numerics.DecisionsOf(graph_);
    for (const NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.op == nullptr || graph_.IsKnown({id, 0}) || IsForeign(node) || node.meaning->IsOpaque()) continue;
      bool eligible = false;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const auto found = decisions.find({id, static_cast<int32_t>(o)});
        eligible = node.outputs[o].dtype == DType::kFloat32 && !(found != decisions.end() && found->second.Any());
        if (!eligible) break;
      }
      if (!eligible || !Admits(id)) continue;
      eligible_.insert(id);
      const CostFeatures features = FeaturesOf(*node.meaning, graph_.types(node.operands), node.attrs, node.outputs);
      work_[id] = features.flops + kOperationsPerByte * features.bytes;
    }
    for (const NodeId id : graph_.nodes()) {
      for (const Value source : SourcesOf(id)) readers_[source].push_back(id);
    }
  }

  // The values that an application reads, and those that they were moved from: moves do not round.
  const absl::btree_set<Value>& SourcesOf(NodeId id) {
    const auto [found, is_new] = sources_.try_emplace(id);
    if (!is_new) return found->second;
    absl::btree_set<Value> sources;
    for (const Value operand : graph_.node(id).operands) {
      const Node& producer = graph_.node(operand.node);
      sources.insert(operand);
      if (producer.op == nullptr || !MovesElements(*producer.meaning)) continue;
      const absl::btree_set<Value>& before = SourcesOf(operand.node);
      sources.insert(before.begin(), before.end());
    }
    return sources_[id] = std::move(sources);
  }

  // Returns whether the application admits operands of the type.
  bool Admits(NodeId id) const {
    Arena& arena = *graph_.arena();
    std::vector<Value> operands = graph_.node(id).operands;
    for (Value& operand : operands) {
      if (graph_.type(operand).dtype != DType::kFloat32) continue;
      const absl::StatusOr<Value> narrow = arena.Apply("cast", {operand}, {{"to", options_.type}});
      if (!narrow.ok()) return false;
      operand = *narrow;
    }
    return AddNarrow(arena, id, std::move(operands), options_.type).ok();
  }

  bool IsProduct(NodeId id) const {
    const Node& node = graph_.node(id);
    ExprPtr terms;
    return node.op != nullptr && node.operands.size() >= 2 && IsSumOfProducts(*node.meaning, &terms);
  }
  bool HasProduct(const Nodes& nodes) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return IsProduct(id); });
  }

  // From here on products with a weight read operands of the type, and their results stay in f32: roundings are fewer.
  void KeepResults() {
    keeps_results_ = true;
    absl::erase_if(eligible_, [&](NodeId id) {
      const std::vector<Value>& operands = graph_.node(id).operands;
      const auto known = [&](Value value) { return graph_.IsKnown(value); };
      return graph_.node(id).op != ops::Matmul() || std::none_of(operands.begin(), operands.end(), known);
    });
  }

  // ---- what that does to the outputs

  absl::Status Estimate() {
    if (options_.phase) options_.phase("estimating what roundings do to the outputs");
    ErrorOptions options;
    options.precision.stored = options_.type;
    ASSIGN_OR_RETURN(options.at, MostMoved());
    if (options.at.empty()) return absl::OkStatus();
    options.seed = options_.seed;
    options.threads = options_.threads;
    ASSIGN_OR_RETURN(const ErrorEstimate estimate, EstimateErrors(graph_, options_.inputs.front(), options));
    for (const OutputError& look : estimate.looks) {
      const double largest = LargestMagnitude(expected_.front()[OutputOf(look.output)]), unit = largest * largest;
      if (!(unit > 0) || !std::isfinite(look.typical)) continue;
      auto& [output, squares] = looks_.emplace_back();
      output = OutputOf(look.output);
      for (const ErrorShare& share : look.shares) {
        squares[share.value] += share.square / unit;
        shares_.try_emplace(share.value, share);
      }
    }
    // An error of that many times the typical one is to be expected somewhere among as many elements.
    int64_t elements = 2;
    for (const Output& output : graph_.results()) {
      if (IsFloating(graph_.type(output.value).dtype)) elements += graph_.type(output.value).num_elements();
    }
    spread_ = std::sqrt(2 * std::log(static_cast<double>(elements)));
    return absl::OkStatus();
  }

  // Returns whether the value is rounded: narrow applications, without that one, read it, or give it in the type.
  bool IsRounded(Value value, const Nodes& narrow, NodeId without = -1) const {
    const auto counts = [&](NodeId id) { return id != without && narrow.contains(id); };
    if (!keeps_results_ && counts(value.node)) return true;
    const auto readers = readers_.find(value);
    return readers != readers_.end() && std::any_of(readers->second.begin(), readers->second.end(), counts);
  }

  // The element of each output that moves most where all that may be narrow is: the largest one may move least, as
  // behind a tanh. Outputs that move most come first.
  absl::StatusOr<std::map<std::string, std::vector<int64_t>>> MostMoved() const {
    ASSIGN_OR_RETURN(const Graph all, WithNarrowNodes(graph_, eligible_, options_.type));
    ASSIGN_OR_RETURN(const std::unique_ptr<Executable> executable, runner_.Prepare(all));
    std::vector<Tensor> found;
    RETURN_IF_ERROR(executable->Run(options_.inputs.front(), &found));
    std::multimap<double, std::pair<std::string, int64_t>, std::greater<>> moved;
    for (size_t o = 0; o < found.size(); ++o) {
      const Tensor& expected = expected_.front()[o];
      if (!IsFloating(expected.dtype()) || expected.num_elements() == 0) continue;
      int64_t most = 0;
      double by = -1;
      for (int64_t e = 0; e < expected.num_elements(); ++e) {
        const double difference = std::abs(expected.At(e) - found[o].At(e));
        if (difference > by && std::isfinite(difference)) most = e, by = difference;
      }
      moved.emplace(by / LargestMagnitude(expected), std::pair(graph_.results()[o].name, most));
    }
    std::map<std::string, std::vector<int64_t>> elements;
    for (const auto& [by, element] : moved) {
      if (elements.size() < kMostLooks) elements[element.first] = {element.second};
    }
    return elements;
  }

  size_t OutputOf(const std::string& name) const {
    const auto outputs = graph_.results();
    return std::find_if(outputs.begin(), outputs.end(), [&](const Output& output) { return output.name == name; }) -
           outputs.begin();
  }

  // Returns the typical error of the look, as a share of the output's largest element.
  double TypicalOf(const Look& look, const Nodes& narrow) const {
    double square = 0;
    for (const auto& [value, part] : look.squares) {
      if (IsRounded(value, narrow)) square += part;
    }
    return std::sqrt(square);
  }

  std::vector<double> TypicalErrors(const Nodes& narrow) const {
    std::vector<double> worst(graph_.results().size(), 0.0);
    for (const Look& look : looks_) worst[look.output] = std::max(worst[look.output], TypicalOf(look, narrow));
    return worst;
  }

  // Returns how much of the squares of a look vanishes with the application: its results and what it alone reads.
  double SquareOf(const Look& look, NodeId id, const Nodes& narrow) const {
    const Node& node = graph_.node(id);
    double square = 0;
    const auto count = [&](Value value) {
      const auto part = look.squares.find(value);
      const bool vanishes = IsRounded(value, narrow) && !IsRounded(value, narrow, id);
      if (part != look.squares.end() && vanishes) square += part->second;
    };
    for (size_t o = 0; o < node.outputs.size(); ++o) count({id, static_cast<int32_t>(o)});
    for (const Value source : sources_.at(id)) count(source);
    return square;
  }

  // ---- which do

  // Takes away those that add most error for their work, until each look's typical error is at most that of its output.
  Nodes Within(const std::vector<double>& most) const {
    Nodes narrow = eligible_;
    for (const Look& look : looks_) {
      double typical = TypicalOf(look, narrow);
      while (typical > most[look.output] && !narrow.empty()) {
        NodeId worst = -1;
        double worst_rate = -1;
        for (const NodeId id : narrow) {
          const double rate = SquareOf(look, id, narrow) / work_.at(id);
          if (rate > worst_rate || (rate == worst_rate && id < worst)) worst = id, worst_rate = rate;
        }
        narrow.erase(worst);
        typical = TypicalOf(look, narrow);
      }
    }
    DropIslands(&narrow);
    return narrow;
  }

  // Takes away groups of narrow applications, connected by values, that have no product among them: conversions
  // around them cost more than they save.
  void DropIslands(Nodes* narrow) const {
    Nodes kept, seen;
    for (const NodeId start : *narrow) {
      if (!seen.insert(start).second) continue;
      std::vector<NodeId> island = {start};
      for (size_t i = 0; i < island.size(); ++i) {
        const Node& node = graph_.node(island[i]);
        const auto visit = [&](NodeId id) {
          if (narrow->contains(id) && seen.insert(id).second) island.push_back(id);
        };
        for (const Value operand : node.operands) visit(operand.node);
        for (size_t o = 0; o < node.outputs.size(); ++o) {
          const auto readers = readers_.find({island[i], static_cast<int32_t>(o)});
          if (readers == readers_.end()) continue;
          for (const NodeId reader : readers->second) visit(reader);
        }
      }
      if (std::any_of(island.begin(), island.end(), [&](NodeId id) { return IsProduct(id); })) {
        kept.insert(island.begin(), island.end());
      }
    }
    *narrow = std::move(kept);
  }

  absl::Status Search() {
    std::vector<double> most(graph_.results().size(), options_.tolerance / spread_);
    std::vector<double> kept(most.size(), 0.0), missed(most.size(), HUGE_VAL);  // within the tolerance, and beyond it
    Nodes last;
    for (int round = 0; round < kRounds && !IsStopped(); ++round) {
      const Nodes narrow = Within(most);
      if (!HasProduct(narrow) || narrow == last) return absl::OkStatus();
      last = narrow;
      ASSIGN_OR_RETURN(const Graph mixed, keeps_results_ ? WithRoundedOperands(graph_, narrow, options_.type)
                                                         : WithNarrowNodes(graph_, narrow, options_.type));
      if (options_.phase) options_.phase(absl::StrFormat("running %d nodes in 16 bits", narrow.size()));
      ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable, runner_.Prepare(mixed));
      ASSIGN_OR_RETURN(const std::vector<double> errors, ErrorsOf(*executable));
      const std::vector<double> typical = TypicalErrors(narrow);
      const double error = *std::max_element(errors.begin(), errors.end());
      const int count = static_cast<int>(narrow.size());
      if (error <= options_.tolerance && count > (best_ ? best_->narrow : 0)) {
        best_ = Candidate{mixed,
                          count,
                          static_cast<int>(eligible_.size()),
                          keeps_results_,
                          *std::max_element(typical.begin(), typical.end()),
                          error,
                          WideOf(narrow),
                          std::move(executable)};
      }
      const bool enough = error <= options_.tolerance && error >= kEnough * options_.tolerance;
      if (enough || (error <= options_.tolerance && narrow.size() == eligible_.size())) return absl::OkStatus();
      for (size_t o = 0; o < most.size(); ++o) {
        if (errors[o] == 0) continue;
        if (errors[o] <= options_.tolerance) {
          kept[o] = std::max(kept[o], typical[o]);
        } else {
          missed[o] = std::min(missed[o], typical[o]);
        }
        const double factor = std::isfinite(errors[o]) ? kAim * options_.tolerance / errors[o] : 0.25;
        most[o] = kept[o] > 0 && missed[o] < HUGE_VAL ? std::sqrt(kept[o] * missed[o])
                                                      : std::min(most[o], typical[o]) * std::clamp(factor, 0.1, 4.0);
      }
    }
    return absl::OkStatus();
  }

  // The largest difference of an element of each output on any inputs, as a share of the output's largest element.
  absl::StatusOr<std::vector<double>> ErrorsOf(Executable& candidate) const {
    std::vector<double> largest(graph_.results().size(), 0.0);
    for (size_t i = 0; i < options_.inputs.size(); ++i) {
      std::vector<Tensor> outputs;
      RETURN_IF_ERROR(candidate.Run(options_.inputs[i], &outputs));
      for (size_t o = 0; o < outputs.size(); ++o) {
        largest[o] = std::max(largest[o], LargestDifference(expected_[i][o], outputs[o]));
      }
    }
    return largest;
  }

  // The applications that would add most.
  std::vector<ErrorShare> WideOf(const Nodes& narrow) const {
    std::vector<ErrorShare> wide;
    for (const auto& [value, share] : shares_) {
      if (eligible_.contains(value.node) && !narrow.contains(value.node)) wide.push_back(share);
    }
    std::sort(wide.begin(), wide.end(), [](const ErrorShare& a, const ErrorShare& b) {
      return a.square != b.square ? a.square > b.square : a.value < b.value;
    });
    if (wide.size() > kMostNamed) wide.resize(kMostNamed);
    return wide;
  }

  // The faster one of both, or where nothing is measured the one that has more narrow.
  absl::Status TakeBetter(std::optional<Candidate> other) {
    if (!other || IsStopped()) return absl::OkStatus();
    bool faster = best_ && best_->narrow == best_->eligible;
    if (best_ && options_.measure) {
      if (options_.phase) options_.phase("timing two ways to 16 bits");
      ASSIGN_OR_RETURN(const Measurement timing, MeasureInterleaved(*other->executable, *best_->executable,
                                                                    options_.inputs.front(), options_.measuring));
      faster = timing.ratio > 1;
    }
    if (!faster) best_ = std::move(other);
    return absl::OkStatus();
  }

  void Report() {
    result_.graph = best_->graph;
    result_.narrow = best_->narrow;
    result_.eligible = best_->eligible;
    result_.estimated = best_->estimated;
    result_.measured = best_->measured;
    result_.kept_wide = best_->kept_wide;
    const char* const what = best_->keeps_results ? "products on operands" : "nodes";
    result_.verdict =
        absl::StrFormat("%d of %d %s in %s", result_.narrow, result_.eligible, what, DTypeName(options_.type));
  }

  absl::Status Time() {
    if (options_.phase) options_.phase("timing 16 bits");
    ASSIGN_OR_RETURN(const Measurement timing,
                     MeasureInterleaved(*original_, *best_->executable, options_.inputs.front(), options_.measuring));
    result_.timing = timing;
    if (IsFaster(timing, options_.significance)) {
      absl::StrAppend(&result_.verdict, absl::StrFormat(", %.3g times faster: %s", timing.ratio, Describe(timing)));
    } else {
      result_.graph.reset();
      result_.verdict = absl::StrCat("16 bits are not measurably faster: ", Describe(timing));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  GraphRunner& runner_;
  const NarrowingOptions& options_;
  absl::node_hash_map<NodeId, absl::btree_set<Value>> sources_;
  absl::flat_hash_map<Value, std::vector<NodeId>> readers_;  // of whose sources the value is one
  Nodes eligible_;
  absl::flat_hash_map<NodeId, double> work_;
  std::vector<Look> looks_;
  absl::flat_hash_map<Value, ErrorShare> shares_;          // of the first look that has one
  double spread_ = 1;
  bool keeps_results_ = false;
  std::unique_ptr<Executable> original_;
  std::optional<Candidate> best_;
  std::vector<std::vector<Tensor>> expected_;  // by set of inputs
  Narrowing result_;
};

}  // namespace

double LargestDifference(const Tensor& expected, const Tensor& found) {
  double scale = 0, difference = 0;
  for (int64_t e = 0; e < expected.num_elements(); ++e) {
    const double a = expected.At(e), b = found.At(e);
    if (std::isfinite(a)) scale = std::max(scale, std::abs(a));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return HUGE_VAL;
    difference = std::max(difference, std::abs(a - b));
  }
  return difference == 0 ? 0 : scale > 0 ? difference / scale : HUGE_VAL;
}

double LargestDifference(const std::vector<Tensor>& expected, const std::vector<Tensor>& found) {
  double largest = 0;
  for (size_t o = 0; o < expected.size(); ++o) largest = std::max(largest, LargestDifference(expected[o], found[o]));
  return largest;
}

absl::StatusOr<Narrowing> ChooseNarrowNodes(const Graph& graph, GraphRunner& runner, const NarrowingOptions& options) {
  return Chooser(graph, runner, options).Run();
}

}  // namespace rewright
