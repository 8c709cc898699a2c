#include "search/precision/narrowing.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "core/numerics/narrow_nodes.h"
#include "core/numerics/ranges.h"
#include "core/numerics/rounding_op.h"
#include "core/ops/foreign.h"

namespace rewright {
namespace {

// How often the tolerance of the estimate is corrected by what was measured.
constexpr int kRounds = 5;
// The part of the tolerance at which a correction aims, and the part that is enough.
constexpr double kAim = 0.8, kEnough = 0.5;
// Elements that the estimate examines, of each output and in all: each takes a backward pass. The largest one alone
// would not do: it may be the one that moves least, as behind a tanh.
constexpr int kElements = 2, kMostLooks = 4;
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
    RETURN_IF_ERROR(Estimate());
    if (looks_.empty()) return Unchanged("no output has an estimate of its error");
    if (IsStopped()) return Unchanged(kStopped);
    if (options_.phase) options_.phase("running the original");
    ASSIGN_OR_RETURN(original_, runner_.Prepare(graph_));
    for (const std::vector<Tensor>& inputs : options_.inputs) {
      RETURN_IF_ERROR(original_->Run(inputs, &expected_.emplace_back()));
    }
    result_.expected = expected_.front();
    RETURN_IF_ERROR(Search());
    if (IsStopped()) return Unchanged(kStopped);
    if (!result_.graph) {
      return Unchanged(absl::StrFormat("nothing worth computing in 16 bits keeps within %.3g", options_.tolerance));
    }
    result_.verdict =
        absl::StrFormat("%d of %d nodes in %s", result_.narrow, result_.eligible, DTypeName(options_.type));
    if (options_.measure) RETURN_IF_ERROR(Time());
    return std::move(result_);
  }

 private:
  using Nodes = absl::flat_hash_set<NodeId>;

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
      for (const Value operand : node.operands) readers_[operand].push_back(id);
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

  // ---- what that does to the outputs

  absl::Status Estimate() {
    if (options_.phase) options_.phase("estimating what roundings do to the outputs");
    ErrorOptions options;
    options.precision.stored = options_.type;
    options.elements = kElements;
    options.most_looks = kMostLooks;
    options.seed = options_.seed;
    options.threads = options_.threads;
    ASSIGN_OR_RETURN(const ErrorEstimate estimate, EstimateErrors(graph_, options_.inputs.front(), options));
    absl::flat_hash_map<std::string, double> largest;  // by output; its first look is at the largest element
    for (const OutputError& look : estimate.looks) largest.try_emplace(look.output, std::abs(look.value));
    for (const OutputError& look : estimate.looks) {
      const double unit = largest.at(look.output) * largest.at(look.output);
      if (!(unit > 0) || !std::isfinite(look.typical)) continue;
      auto& squares = looks_.emplace_back();
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

  // Returns whether the value is rounded: narrow applications, without that one, give or read it.
  bool IsRounded(Value value, const Nodes& narrow, NodeId without = -1) const {
    const auto counts = [&](NodeId id) { return id != without && narrow.contains(id); };
    if (counts(value.node)) return true;
    const auto readers = readers_.find(value);
    return readers != readers_.end() && std::any_of(readers->second.begin(), readers->second.end(), counts);
  }

  // Returns the typical error of the look, as a share of the output's largest element.
  double TypicalOf(const absl::flat_hash_map<Value, double>& look, const Nodes& narrow) const {
    double square = 0;
    for (const auto& [value, part] : look) {
      if (IsRounded(value, narrow)) square += part;
    }
    return std::sqrt(square);
  }

  double WorstTypical(const Nodes& narrow) const {
    double worst = 0;
    for (const auto& look : looks_) worst = std::max(worst, TypicalOf(look, narrow));
    return worst;
  }

  // Returns how much of the squares of a look vanishes with the application: its results and what it alone reads.
  double SquareOf(const absl::flat_hash_map<Value, double>& look, NodeId id, const Nodes& narrow) const {
    const Node& node = graph_.node(id);
    double square = 0;
    const auto count = [&](Value value) {
      const auto part = look.find(value);
      if (part != look.end() && !IsRounded(value, narrow, id)) square += part->second;
    };
    for (size_t o = 0; o < node.outputs.size(); ++o) count({id, static_cast<int32_t>(o)});
    for (const Value operand : node.operands) count(operand);
    return square;
  }

  // ---- which do

  // Takes away those that add most error for their work, until each look's typical error is at most `most`.
  Nodes Within(double most) const {
    Nodes narrow = eligible_;
    for (const auto& look : looks_) {
      double typical = TypicalOf(look, narrow);
      while (typical > most && !narrow.empty()) {
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
    double most = options_.tolerance / spread_;
    Nodes last;
    for (int round = 0; round < kRounds && !IsStopped(); ++round) {
      const Nodes narrow = Within(most);
      if (!HasProduct(narrow) || narrow == last) return absl::OkStatus();
      last = narrow;
      ASSIGN_OR_RETURN(const Graph mixed, WithNarrowNodes(graph_, narrow, options_.type));
      if (options_.phase) options_.phase(absl::StrFormat("running %d nodes in 16 bits", narrow.size()));
      ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable, runner_.Prepare(mixed));
      ASSIGN_OR_RETURN(const double error, ErrorOf(*executable));
      if (error <= options_.tolerance && static_cast<int>(narrow.size()) > result_.narrow) {
        result_.graph = mixed;
        result_.narrow = static_cast<int>(narrow.size());
        result_.estimated = WorstTypical(narrow);
        result_.measured = error;
        candidate_ = std::move(executable);
        NameWide(narrow);
      }
      const bool enough = error <= options_.tolerance && error >= kEnough * options_.tolerance;
      if (enough || (error <= options_.tolerance && narrow.size() == eligible_.size())) return absl::OkStatus();
      const double factor = std::isfinite(error) && error > 0 ? kAim * options_.tolerance / error : 0.25;
      most = std::min(most, WorstTypical(narrow)) * std::clamp(factor, 0.1, 4.0);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> ErrorOf(Executable& candidate) const {
    double largest = 0;
    for (size_t i = 0; i < options_.inputs.size(); ++i) {
      std::vector<Tensor> outputs;
      RETURN_IF_ERROR(candidate.Run(options_.inputs[i], &outputs));
      largest = std::max(largest, LargestDifference(expected_[i], outputs));
    }
    return largest;
  }

  void NameWide(const Nodes& narrow) {
    result_.kept_wide.clear();
    for (const auto& [value, share] : shares_) {
      if (eligible_.contains(value.node) && !narrow.contains(value.node)) result_.kept_wide.push_back(share);
    }
    std::sort(result_.kept_wide.begin(), result_.kept_wide.end(), [](const ErrorShare& a, const ErrorShare& b) {
      return a.square != b.square ? a.square > b.square : a.value < b.value;
    });
    if (result_.kept_wide.size() > kMostNamed) result_.kept_wide.resize(kMostNamed);
  }

  absl::Status Time() {
    if (options_.phase) options_.phase("timing 16 bits");
    ASSIGN_OR_RETURN(const Measurement timing,
                     MeasureInterleaved(*original_, *candidate_, options_.inputs.front(), options_.measuring));
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
  absl::flat_hash_map<Value, std::vector<NodeId>> readers_;
  Nodes eligible_;
  absl::flat_hash_map<NodeId, double> work_;
  std::vector<absl::flat_hash_map<Value, double>> looks_;  // squares by value, in squares of the largest element
  absl::flat_hash_map<Value, ErrorShare> shares_;          // of the first look that has one
  double spread_ = 1;
  std::unique_ptr<Executable> original_, candidate_;
  std::vector<std::vector<Tensor>> expected_;  // by set of inputs
  Narrowing result_;
};

}  // namespace

double LargestDifference(const std::vector<Tensor>& expected, const std::vector<Tensor>& found) {
  double largest = 0;
  for (size_t o = 0; o < expected.size(); ++o) {
    double scale = 0, difference = 0;
    for (int64_t e = 0; e < expected[o].num_elements(); ++e) {
      const double a = expected[o].At(e), b = found[o].At(e);
      if (std::isfinite(a)) scale = std::max(scale, std::abs(a));
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (!std::isfinite(a) || !std::isfinite(b)) return HUGE_VAL;
      difference = std::max(difference, std::abs(a - b));
    }
    if (difference > 0) largest = std::max(largest, scale > 0 ? difference / scale : HUGE_VAL);
  }
  return largest;
}

absl::StatusOr<Narrowing> ChooseNarrowNodes(const Graph& graph, GraphRunner& runner, const NarrowingOptions& options) {
  return Chooser(graph, runner, options).Run();
}

}  // namespace rewright
