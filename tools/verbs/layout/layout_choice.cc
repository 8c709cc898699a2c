#include "tools/verbs/layout/layout_choice.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "runtime/training/parallel/parallel_step.h"
#include "tools/verbs/layout/placement_search.h"

namespace rewright {

using distributed::PipelineSchedule;

namespace {

constexpr char kAuto[] = "auto";

// The keys of a layout's text, as ParseLayout and PrintLayout have them, with their values.
std::map<std::string, std::string> KeysOf(const RankLayout& layout) {
  std::map<std::string, std::string> keys = {{"dp", absl::StrCat(layout.dp)},
                                             {"tp", absl::StrCat(layout.tp)},
                                             {"pp", absl::StrCat(layout.pp)},
                                             {"zero", absl::StrCat(layout.zero)},
                                             {"micro", absl::StrCat(layout.micro)},
                                             {"chunks", "1"},
                                             {"cp", "1"}};
  keys["schedule"] = "1f1b";
  for (const absl::string_view part : absl::StrSplit(distributed::PrintLayout(layout), ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(part, absl::MaxSplits('=', 1));
    keys[sides.first] = sides.second;
  }
  return keys;
}

std::map<std::string, std::string> KeysOf(const LayoutCandidate& candidate) {
  std::map<std::string, std::string> keys = KeysOf(candidate.layout);
  keys["remat"] = candidate.again ? "some" : "none";
  return keys;
}

std::string Text(const LayoutCandidate& candidate) {
  return absl::StrCat(distributed::PrintLayout(candidate.layout),
                      candidate.again ? " with values that are computed again" : "");
}

// The keys that stand beside `auto`; error: one is no part of a layout.
absl::StatusOr<std::map<std::string, std::string>> Kept(const std::string& layout) {
  std::map<std::string, std::string> kept;
  if (layout == kAuto) return kept;
  const std::string rest = layout.substr(sizeof(kAuto));
  std::string checked = rest;
  // `schedule` needs pp in a layout by itself.
  if (!absl::StrContains(absl::StrCat(",", rest), ",pp=")) absl::StrAppend(&checked, ",pp=2");
  RETURN_IF_ERROR(distributed::ParseLayout(checked).status());
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    kept.insert(absl::StrSplit(part, absl::MaxSplits('=', 1)));
  }
  return kept;
}

// Numbers of micro-batches: that of the configuration where it says one, else a few for each replica.
std::vector<int64_t> MicroBatches(const TrainConfig& config, int ranks) {
  if (config.step.micro_batches > 1) return {config.step.micro_batches};
  std::vector<int64_t> counts;
  for (int64_t count = 2; count <= std::min<int64_t>(config.batch, int64_t{4} * ranks); ++count) {
    const bool is_round = (count & (count - 1)) == 0 || count % ranks == 0;
    if (config.batch % count == 0 && is_round) counts.push_back(count);
  }
  return counts;
}

std::vector<RankLayout> Layouts(int ranks, int64_t micro) {
  std::vector<RankLayout> layouts;
  for (int dp = 1; dp <= ranks; ++dp) {
    if (ranks % dp != 0) continue;
    for (int pp = 1; pp <= ranks / dp; ++pp) {
      if (ranks / dp % pp != 0) continue;
      RankLayout layout{.dp = dp, .tp = ranks / dp / pp, .pp = pp, .zero = 0, .micro = micro};
      const bool may_cut = dp > 1 || (pp == 1 && layout.tp > 1);
      for (layout.zero = 0; layout.zero <= (may_cut ? 3 : 0); ++layout.zero) {
        layout.schedule = PipelineSchedule::k1F1B;
        layout.chunks = 1;
        layouts.push_back(layout);
        if (pp == 1) continue;
        layout.schedule = PipelineSchedule::kZeroBubble;
        layouts.push_back(layout);
        layout.schedule = PipelineSchedule::kInterleaved;
        for (layout.chunks = 2; layout.chunks <= 4; layout.chunks *= 2) layouts.push_back(layout);
        layout.chunks = 1;
        // Its steps are those of 1f1b, with more memory; it is here for those who ask for it.
        layout.schedule = PipelineSchedule::kGPipe;
        layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

class Chooser {
 public:
  Chooser(const TrainConfig& config, const distributed::Cluster& cluster, Device& memory_of,
          const LayoutChoiceOptions& options)
      : config_(config), cluster_(cluster), memory_of_(memory_of), options_(options) {}

  absl::StatusOr<LayoutChoice> Run() {
    ASSIGN_OR_RETURN(const auto kept, Kept(options_.layout));
    std::set<int64_t> counts;
    for (int64_t count : MicroBatches(config_, options_.ranks)) counts.insert(count);
    if (const auto micro = kept.find("micro"); micro != kept.end()) {
      ASSIGN_OR_RETURN(const RankLayout asked, distributed::ParseLayout(absl::StrCat("micro=", micro->second)));
      counts = {asked.micro};
    }
    for (int64_t micro : counts) {
      for (const RankLayout& layout : Layouts(options_.ranks, micro)) {
        const std::map<std::string, std::string> keys = KeysOf(layout);
        const bool asked = std::all_of(kept.begin(), kept.end(), [&](const auto& key) {
          return keys.contains(key.first) && keys.at(key.first) == key.second;
        });
        if (asked) RETURN_IF_ERROR(Try(layout));
      }
    }
    return Best();
  }

 private:
  absl::StatusOr<StepPlanner*> PlannerOf(int64_t micro) {
    const auto found = planners_.find(micro);
    if (found != planners_.end()) return found->second.get();
    TrainConfig config = config_;
    RETURN_IF_ERROR(ApplyLayout({.micro = micro}, &config));
    ASSIGN_OR_RETURN(const TrainableModel model, options_.load(config));
    ASSIGN_OR_RETURN(std::unique_ptr<StepPlanner> planner,
                     StepPlanner::Create(config, model, cluster_, memory_of_, options_.planner));
    return planners_.emplace(micro, std::move(planner)).first->second.get();
  }

  // The weights that tp cuts for the shortest micro-batch; none where the configuration says them.
  absl::StatusOr<StateAxes> PlacesOf(StepPlanner& planner, int tp) {
    if (tp == 1 || !config_.places.empty()) return StateAxes();
    const auto [found, is_new] = places_.try_emplace(tp);
    if (is_new) {
      ASSIGN_OR_RETURN(const Graph unpacked, planner.UnpackedGradients());
      const std::vector<std::string>& updated = planner.graphs().updated;
      std::vector<Value> weights = unpacked.states();
      std::erase_if(weights, [&](Value state) {
        return std::find(updated.begin(), updated.end(), unpacked.node(state.node).name) == updated.end();
      });
      const auto cost_of = [&](const std::vector<sharding::Placement>& placements) -> absl::StatusOr<PlacementCost> {
        ASSIGN_OR_RETURN(const auto part, planner.CostOfPart(unpacked, AxesOf(placements), tp, /*with_memory=*/false));
        return PlacementCost{part.seconds, part.kept_bytes};
      };
      // Larger graphs take longer to cut.
      constexpr int64_t kNodes = 40'000;
      const int64_t most = std::clamp<int64_t>(kNodes / unpacked.num_applications(), 24, 150);
      ASSIGN_OR_RETURN(found->second, ChoosePlacements(GroupsOf(unpacked, weights, tp), cost_of, {.most_tried = most}));
    }
    return AxesOf(found->second.Placements());
  }

  // Everything is kept. A layout that does not fit the graphs is passed over; the last such fault is told where none
  // fits.
  absl::Status Try(const RankLayout& layout) {
    ASSIGN_OR_RETURN(StepPlanner* const planner, PlannerOf(layout.micro));
    ASSIGN_OR_RETURN(StateAxes places, PlacesOf(*planner, layout.tp));
    const bool cuts = !places.empty() || !config_.places.empty();
    if (layout.tp > 1 && !cuts) return absl::OkStatus();  // nothing is gained by cutting weights
    const absl::StatusOr<GraphStep> made = planner->PlanOf(layout, places);
    if (!made.ok()) {
      fault_ = made.status();
      return absl::OkStatus();
    }
    ++tried_;
    ASSIGN_OR_RETURN(LayoutCandidate candidate, Simulated(layout, *made));
    candidate.places = std::move(places);
    found_.push_back(std::move(candidate));
    return absl::OkStatus();
  }

  absl::StatusOr<LayoutCandidate> Simulated(const RankLayout& layout, const GraphStep& made) const {
    ASSIGN_OR_RETURN(const distributed::SimulatedStep step,
                     distributed::Simulate(made.plan, cluster_, {.collectives = options_.collectives, .spans = false}));
    LayoutCandidate candidate{.layout = layout, .seconds = step.seconds};
    candidate.bytes = made.bytes();
    candidate.kept_bytes = made.kept_bytes;
    candidate.bound_by = BoundOf(made.plan.mesh, step);
    return candidate;
  }

  // Returns true if ranks could compute values of the layout again to the end that it fits.
  bool MayFitByLess(const LayoutCandidate& candidate) const {
    const bool one_computes_a_pass = candidate.layout.pass_ranks() == 1 || candidate.layout.pp > 1;
    return !options_.keep_all && one_computes_a_pass && candidate.kept_bytes < options_.memory_bytes;
  }

  // The layout with as much computed again as it takes; it may exceed the memory all the same.
  absl::StatusOr<LayoutCandidate> ComputedAgain(const LayoutCandidate& candidate) {
    StepPlanner& planner = *planners_.at(candidate.layout.micro);
    ASSIGN_OR_RETURN(const Rematerialization less,
                     planner.Fit(candidate.layout, candidate.places, options_.memory_bytes, options_.measured));
    ASSIGN_OR_RETURN(const GraphStep made, planner.PlanOf(candidate.layout, candidate.places, less.graph));
    ASSIGN_OR_RETURN(LayoutCandidate again, Simulated(candidate.layout, made));
    again.places = candidate.places;
    again.again = {options_.memory_bytes, less.replaced, candidate.seconds, candidate.bytes};
    return again;
  }

  // Those that fit, the best first.
  absl::StatusOr<std::vector<LayoutCandidate>> Fitting() {
    const int64_t limit = options_.memory_bytes;
    const auto is_better = [](const LayoutCandidate& a, const LayoutCandidate& b) {
      return std::pair(a.seconds, a.bytes) < std::pair(b.seconds, b.bytes);
    };
    std::stable_sort(found_.begin(), found_.end(), is_better);
    std::vector<LayoutCandidate> fitting, others;
    for (const LayoutCandidate& one : found_) (limit <= 0 || one.bytes <= limit ? fitting : others).push_back(one);
    double best = fitting.empty() ? std::numeric_limits<double>::infinity() : fitting[0].seconds;
    for (const LayoutCandidate& one : others) {
      if (one.seconds >= best) break;
      if (!MayFitByLess(one)) continue;
      ASSIGN_OR_RETURN(LayoutCandidate again, ComputedAgain(one));
      if (again.bytes <= limit) {
        best = std::min(best, again.seconds);
        fitting.push_back(again);
      }
      found_.push_back(std::move(again));
    }
    std::stable_sort(fitting.begin(), fitting.end(), is_better);
    return fitting;
  }

  absl::StatusOr<LayoutChoice> Best() {
    if (found_.empty()) {
      if (!fault_.ok()) return fault_;
      return absl::InvalidArgumentError(absl::StrCat("--layout: found ", options_.layout, ", expected what ",
                                                     options_.ranks, " ranks and a batch of ", config_.batch,
                                                     " can do"));
    }
    LayoutChoice choice;
    ASSIGN_OR_RETURN(choice.found, Fitting());
    choice.tried = tried_;
    if (choice.found.empty()) {
      const auto least = std::min_element(found_.begin(), found_.end(),
                                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      return absl::ResourceExhaustedError(absl::StrFormat(
          "--layout: a rank has %.1f MB of memory, expected at least %.1f MB, for %s",
          static_cast<double>(options_.memory_bytes) / 1e6, static_cast<double>(least->bytes) / 1e6, Text(*least)));
    }
    RETURN_IF_ERROR(Explain(&choice));
    return choice;
  }

  absl::Status Explain(LayoutChoice* choice) {
    const LayoutCandidate& best = choice->found[0];
    const std::map<std::string, std::string> keys = KeysOf(best);
    for (const char* axis : {"dp", "tp", "pp", "zero", "micro", "schedule", "remat"}) {
      const auto other = std::find_if(choice->found.begin(), choice->found.end(), [&](const LayoutCandidate& one) {
        return KeysOf(one).at(axis) != keys.at(axis);
      });
      std::string line = absl::StrCat(axis, "=", keys.at(axis), ": ");
      if (other == choice->found.end()) {
        absl::StrAppend(&line, "no layout with another one fits");
      } else {
        absl::StrAppend(&line, absl::StrFormat("the best with another is %s: %.4g s (%+.1f %%), %.1f MB, bound by %s",
                                               Text(*other), other->seconds, 100 * (other->seconds / best.seconds - 1),
                                               static_cast<double>(other->bytes) / 1e6, other->bound_by));
      }
      choice->reasons.push_back(std::move(line));
    }
    if (const auto places = places_.find(best.layout.tp); places != places_.end()) {
      for (std::string& line : places->second.Reasons()) choice->reasons.push_back(std::move(line));
    }
    return ExplainTensors(best, *planners_.at(best.layout.micro), choice);
  }

  // Where a weight of the plan lies, and the memory that this saves.
  static absl::Status ExplainTensors(const LayoutCandidate& best, StepPlanner& planner, LayoutChoice* choice) {
    ASSIGN_OR_RETURN(const GraphStep made, planner.PlanOf(best.layout, best.places));
    ASSIGN_OR_RETURN(const Graph unpacked, planner.UnpackedGradients());
    const std::vector<int> weights = made.plan.TensorsOf(distributed::PlanTensor::Kind::kWeight);
    const std::vector<Value> states = unpacked.states();
    for (size_t k = 0; k < weights.size(); ++k) {
      const distributed::PlanTensor& tensor = made.plan.tensors[weights[k]];
      const double megabytes = static_cast<double>(tensor.type.num_bytes()) / 1e6;
      std::string where = "whole on every rank";
      if (tensor.owner >= 0) where = absl::StrCat("of rank ", tensor.owner, " of each replica, whose stage reads it");
      if (tensor.cut >= 0) {
        absl::StrAppend(&where, absl::StrFormat(", in blocks along axis %d over dp: %.3f of %.3f MB a rank", tensor.cut,
                                                megabytes / best.layout.dp, megabytes));
      } else {
        absl::StrAppend(&where, absl::StrFormat(": %.3f MB", megabytes));
      }
      choice->reasons.push_back(absl::StrCat(unpacked.node(states[k].node).name, ": ", where));
    }
    return absl::OkStatus();
  }

  const TrainConfig& config_;
  const distributed::Cluster& cluster_;
  Device& memory_of_;
  const LayoutChoiceOptions& options_;
  std::map<int64_t, std::unique_ptr<StepPlanner>> planners_;  // by micro-batches
  std::map<int, PlacementChoice> places_;                     // by tp, for the first micro-batches that were tried
  std::vector<LayoutCandidate> found_;
  absl::Status fault_;
  int64_t tried_ = 0;
};

}  // namespace

bool IsAutoLayout(const std::string& layout) { return layout == kAuto || absl::StartsWith(layout, "auto,"); }

LayoutFile LayoutChoice::File() const {
  const LayoutCandidate& best = found[0];
  return {distributed::PrintLayout(best.layout), best.again ? best.again->memory_bytes : 0, PlacementsOf(best.places)};
}

absl::StatusOr<LayoutChoice> ChooseLayout(const TrainConfig& config, const distributed::Cluster& cluster,
                                          Device& memory_of, const LayoutChoiceOptions& options) {
  return Chooser(config, cluster, memory_of, options).Run();
}

std::string BoundOf(const distributed::Mesh& mesh, const distributed::SimulatedStep& step) {
  std::vector<std::pair<double, std::string>> parts = {{step.computing(), "computation"}, {step.bubble(), "bubbles"}};
  for (size_t axis = 0; axis < step.exposed_over.size(); ++axis) {
    parts.emplace_back(step.exposed_over[axis] / std::max(step.seconds, 1e-300),
                       absl::StrCat("communication over ", mesh.axes()[axis].name));
  }
  return std::max_element(parts.begin(), parts.end())->second;
}

}  // namespace rewright
