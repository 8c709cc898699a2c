#include "verifier/ranks/equal_ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/tensor/compare.h"
#include "verifier/ranks/device_terms.h"
#include "verifier/ranks/placement_search.h"
#include "verifier/ranks/rank_claims.h"
#include "verifier/ranks/rank_fault.h"
#include "verifier/ranks/rank_program.h"
#include "verifier/ranks/reciprocals.h"

namespace rewright {
namespace {

// Random inputs by their names.
absl::StatusOr<absl::flat_hash_map<std::string, Tensor>> DrawnInputs(const Graph& model, uint64_t seed) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> drawn, RandomInputs(model, seed));
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (size_t i = 0; i < drawn.size(); ++i) inputs.emplace(model.node(model.inputs()[i].node).name, drawn[i]);
  return inputs;
}

// The elements of all values of the model and of the program, on one draw of inputs.
class RanksRun {
 public:
  RanksRun(const Graph& model, const RankPlan& plan, const RankProgram& program)
      : model_(model), plan_(plan), program_(program) {}

  absl::Status Run(const EqualRanksOptions& options, std::map<Value, Tensor>* of_model,
                   std::map<StepValue, Tensor>* of_ranks) {
    std::vector<Output> outputs;
    std::vector<Value> model_values;
    for (NodeId id : model_.nodes()) {
      const int32_t results = static_cast<int32_t>(model_.node(id).outputs.size());
      for (int32_t k = 0; k < results; ++k) model_values.push_back({id, k});
    }
    for (Value value : model_values) outputs.push_back({value, ""});
    std::vector<StepValue> step_values;
    RETURN_IF_ERROR(AddSteps(&outputs, &step_values));
    const Graph both(model_.arena(), model_.inputs(), std::move(outputs));
    ASSIGN_OR_RETURN(const auto inputs, DrawnInputs(model_, options.seed));
    ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                     InterpretGraph(both, inputs, {.precision = Precision::kFloat64, .threads = options.threads}));
    for (size_t i = 0; i < model_values.size(); ++i) of_model->emplace(model_values[i], tensors[i]);
    for (size_t i = 0; i < step_values.size(); ++i) {
      of_ranks->emplace(step_values[i], tensors[model_values.size() + i]);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddSteps(std::vector<Output>* outputs, std::vector<StepValue>* step_values) {
    std::vector<int> axes;
    for (size_t axis = 0; axis < plan_.mesh.size(); ++axis) axes.push_back(static_cast<int>(axis));
    DeviceTerms terms(*model_.arena(), plan_, axes);
    std::map<StepValue, Value> values;
    for (int number = 0; number < static_cast<int>(program_.steps.size()); ++number) {
      const RankStep& step = program_.steps[number];
      std::vector<Value> results;
      if (step.IsInput()) {
        ASSIGN_OR_RETURN(const Value input, InputOf(model_, step.name));
        ASSIGN_OR_RETURN(results.emplace_back(), terms.Place(input, plan_.inputs.at(step.name)));
      } else if (step.op == nullptr) {
        ASSIGN_OR_RETURN(results.emplace_back(), terms.Constant(step));
      } else {
        std::vector<Value> operands;
        for (const StepValue& operand : step.operands) operands.push_back(values.at(operand));
        ASSIGN_OR_RETURN(results, terms.Apply(step, operands));
      }
      for (int32_t k = 0; k < static_cast<int32_t>(results.size()); ++k) {
        const TensorType found = model_.arena()->type(results[k]);
        if (Shape(found.shape.begin() + static_cast<int64_t>(axes.size()), found.shape.end()) !=
            step.types[k].shape) {
          return absl::InvalidArgumentError(absl::StrCat(step.name, ": found ", step.types[k].ToString(),
                                                         " on a rank, expected ", found.ToString(),
                                                         " on all, the mesh first"));
        }
        values[{number, k}] = results[k];
        outputs->push_back({results[k], ""});
        step_values->push_back({number, k});
      }
    }
    return absl::OkStatus();
  }

  const Graph& model_;
  const RankPlan& plan_;
  const RankProgram& program_;
};

class RanksProof {
 public:
  RanksProof(const Graph& model, const RankPlan& plan, const EqualRanksOptions& options)
      : model_(CopyGraph(model)), plan_(plan), options_(options) {}

  absl::StatusOr<EqualRanksResult> Run() {
    ASSIGN_OR_RETURN(model_, WithQuotients(model_));
    for (RankModel& rank : plan_.ranks) {
      ASSIGN_OR_RETURN(rank.graph, WithQuotients(rank.graph));
    }
    RETURN_IF_ERROR(CheckNames());
    absl::StatusOr<RankProgram> program = AlignRanks(plan_);
    if (!program.ok()) {
      if (!absl::IsFailedPrecondition(program.status())) return program.status();
      result_.open.push_back(std::string(program.status().message()));
      result_.fault = RankFault{.text = result_.open[0]};
      return std::move(result_);
    }
    program_ = *std::move(program);
    const absl::Status run = RanksRun(model_, plan_, program_).Run(options_, &of_model_, &of_ranks_);
    if (absl::IsOutOfRange(run) && ModelRuns()) return ReadOutside(run);
    RETURN_IF_ERROR(run);
    Compare();
    RETURN_IF_ERROR(Derive());
    return std::move(result_);
  }

 private:
  bool ModelRuns() const {
    const auto inputs = DrawnInputs(model_, options_.seed);
    return inputs.ok() && InterpretGraph(model_, *inputs, {.threads = options_.threads}).ok();
  }

  // Ranks read at indices that their tensors do not have, on inputs on which the model runs.
  EqualRanksResult ReadOutside(const absl::Status& run) {
    result_.equality = Equality::kDifferent;
    result_.fault = RankFault{.text = absl::StrCat("the ranks, not the model, read outside: ", run.message())};
    return std::move(result_);
  }

  absl::Status CheckNames() const {
    const auto error = [](const std::string& text) { return absl::InvalidArgumentError(text); };
    if (static_cast<int64_t>(plan_.ranks.size()) != plan_.num_ranks()) {
      return error(absl::StrCat("found ", plan_.ranks.size(), " graphs, expected one for each of the ",
                                plan_.num_ranks(), " ranks of the mesh"));
    }
    for (Value input : model_.inputs()) {
      const std::string& name = model_.node(input.node).name;
      const auto placed = plan_.inputs.find(name);
      if (placed == plan_.inputs.end()) return error(absl::StrCat("the plan has no placement of the input ", name));
      for (int place : placed->second) {
        if (IsShare(place) || place >= model_.type(input).rank()) {
          return error(absl::StrCat("the input ", name, " of type ", model_.type(input).ToString(),
                                    " cannot be placed as the plan says"));
        }
      }
    }
    for (const RankModel& rank : plan_.ranks) {
      for (Value input : rank.graph.inputs()) {
        RETURN_IF_ERROR(InputOf(model_, rank.graph.node(input.node).name).status());
      }
      if (rank.graph.outputs().size() != plan_.outputs.size()) {
        return error(absl::StrCat("found ", rank.graph.outputs().size(), " outputs of a rank, expected ",
                                  plan_.outputs.size()));
      }
    }
    if (model_.outputs().size() != plan_.outputs.size()) {
      return error(absl::StrCat("found ", model_.outputs().size(), " outputs of the model, expected ",
                                plan_.outputs.size()));
    }
    return absl::OkStatus();
  }

  // Compares outputs by their elements.
  void Compare() {
    for (size_t k = 0; k < plan_.outputs.size(); ++k) {
      const auto& [name, placement] = plan_.outputs[k];
      int disagree = -1;
      const Tensor ranks = WholeOf(of_ranks_.at(program_.outputs[k]), plan_.mesh, placement, &disagree);
      const Tensor& whole = of_model_.at(model_.outputs()[k].value);
      RankDifference difference{.output = name};
      if (ranks.shape() != whole.shape()) {
        difference.disagree = absl::StrCat("[", absl::StrJoin(ranks.shape(), ","), "] where the model has [",
                                           absl::StrJoin(whole.shape(), ","), "]");
      } else if (disagree >= 0) {
        difference.disagree = plan_.GroupText({disagree});
      }
      if (difference.disagree.empty() && SameElements(ranks, whole)) continue;
      wrong_.insert(k);
      if (ranks.shape() == whole.shape()) {
        int64_t worst = 0;
        const auto apart = [&](int64_t i) { return std::abs(ranks.At(i) - whole.At(i)); };
        for (int64_t i = 0; i < whole.num_elements(); ++i) worst = apart(i) > apart(worst) ? i : worst;
        difference.at = PositionOf(whole.shape(), worst);
        difference.whole = whole.At(worst);
        difference.ranks = ranks.At(worst);
        difference.factor = FactorOf(ranks, whole);
      }
      result_.differences.push_back(std::move(difference));
    }
  }

  // Statements about all values, operands first; then those about the outputs.
  absl::Status Derive() {
    RankClaims claims(model_, plan_, program_, options_.claim_limit_s, options_.stop);
    const StopScope limit(nullptr, absl::Now() + absl::Seconds(options_.time_limit_s));
    for (int number = 0; number < static_cast<int>(program_.steps.size()); ++number) {
      const RankStep& step = program_.steps[number];
      result_.values += step.op != nullptr ? static_cast<int>(step.types.size()) : 0;
      for (int32_t k = 0; k < static_cast<int32_t>(step.types.size()); ++k) {
        if (IsStopped(options_.stop)) return absl::CancelledError("interrupted");
        const absl::Status stated = StopScope::Stopped() ? absl::CancelledError() : State({number, k}, &claims);
        result_.time_out = result_.time_out || absl::IsCancelled(stated);
        if (!absl::IsCancelled(stated)) RETURN_IF_ERROR(stated);
      }
    }
    RETURN_IF_ERROR(Conclude(&claims));
    result_.immediate = claims.immediate();
    result_.at_any_size = claims.at_any_size();
    for (const auto& [value, index] : claims.assumed()) result_.assumed.push_back(index.Text(model_, value));
    result_.claims = claims.TakeRules();
    if (result_.equality == Equality::kOpen) {
      for (const auto& [at, rule] : claims.undecided()) result_.undecided.push_back(rule);
    }
    return absl::OkStatus();
  }

  absl::Status State(const StepValue& at, RankClaims* claims) {
    const RankStep& step = program_.steps[at.first];
    if (step.IsInput()) {
      ASSIGN_OR_RETURN(const Value input, InputOf(model_, step.name));
      claims->Assume(at, {input, plan_.inputs.at(step.name)});
      return absl::OkStatus();
    }
    std::vector<Statement> candidates = CandidatesOf(at);
    if (!candidates.empty()) seen_.emplace(at, candidates[0]);
    if (step.op == nullptr) {
      if (step.constants.size() > 1 && !candidates.empty() && model_.IsKnown(candidates[0].value)) {
        claims->Assume(at, candidates[0]);
      }
      return absl::OkStatus();
    }
    constexpr size_t kMostTries = 8;
    if (candidates.size() > kMostTries) candidates.resize(kMostTries);
    for (int depth = 0; depth < 3; ++depth) {
      for (const Statement& candidate : candidates) {
        ASSIGN_OR_RETURN(const bool proved, claims->Prove(at, candidate, depth));
        if (!proved) continue;
        ++result_.statements;
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  // Statements that the elements suggest: what the plan says of an output first.
  std::vector<Statement> CandidatesOf(const StepValue& at) {
    std::vector<Statement> candidates;
    const auto add = [&](const Statement& statement) {
      if (std::find(candidates.begin(), candidates.end(), statement) == candidates.end()) {
        candidates.push_back(statement);
      }
    };
    for (size_t k = 0; k < plan_.outputs.size(); ++k) {
      if (program_.outputs[k] == at && !wrong_.contains(k)) add({model_.outputs()[k].value, plan_.outputs[k].second});
    }
    for (const PlacedTensor& placed : WholesOf(of_ranks_.at(at), plan_.mesh)) {
      for (const auto& [value, tensor] : of_model_) {
        if (SameElements(placed.whole, tensor)) add({value, placed.placement});
      }
    }
    return candidates;
  }

  absl::Status Conclude(RankClaims* claims) {
    for (size_t k = 0; k < plan_.outputs.size() && !result_.time_out; ++k) {
      const Statement wanted = {model_.outputs()[k].value, plan_.outputs[k].second};
      const Statement* found = claims->Find(program_.outputs[k]);
      bool proved = found != nullptr && *found == wanted;
      if (!proved && !wrong_.contains(k)) {
        ASSIGN_OR_RETURN(proved, claims->Prove(program_.outputs[k], wanted, /*depth=*/0));
      }
      if (!proved) result_.open.push_back(plan_.outputs[k].first);
    }
    result_.equality = !wrong_.empty() ? Equality::kDifferent
                       : result_.open.empty() && !result_.time_out ? Equality::kProved
                                                                   : Equality::kOpen;
    if (!wrong_.empty()) {
      result_.fault = FaultOf({model_, plan_, program_, of_model_, of_ranks_, seen_}, wrong_);
    }
    return absl::OkStatus();
  }

  Graph model_;
  RankPlan plan_;
  const EqualRanksOptions& options_;
  RankProgram program_;
  std::map<Value, Tensor> of_model_;
  std::map<StepValue, Tensor> of_ranks_;
  std::map<StepValue, Statement> seen_;  // by elements, proved or not
  std::set<size_t> wrong_;               // outputs
  EqualRanksResult result_;
};

}  // namespace

absl::StatusOr<EqualRanksResult> ProveRanks(const Graph& model, const RankPlan& plan,
                                            const EqualRanksOptions& options) {
  const StopScope scope(options.stop);
  return RanksProof(model, plan, options).Run();
}

}  // namespace rewright
