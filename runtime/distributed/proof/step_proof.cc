#include "runtime/distributed/proof/step_proof.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/plan_text.h"
#include "runtime/distributed/proof/terms.h"
#include "runtime/parallel/rank_graph.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

absl::Status Fault(const std::string& what) { return absl::FailedPreconditionError(what); }

// The statement about a tensor of a rank.
struct Statement {
  Term term;
  int block = -1;  // of weights: this rank's block along their axis; -1: all
};
struct SumStatement {
  std::vector<Term> terms;
  enum class Form : uint8_t { kWhole, kShard };
  Form form = Form::kWhole;
};

class Prover {
 public:
  Prover(const StepClaim& claim, const CutDerivation& derive, StepVerdict* verdict)
      : claim_(claim), plan_(claim.plan), derive_(derive), verdict_(*verdict), ranks_(claim.plan.lists.size()) {}

  // A fault is a FailedPrecondition error; one with elements sets the verdict to refuted.
  absl::Status Run() {
    if (!plan_.alike.empty()) return Fault("the plan has lists for some ranks only, expected those of all");
    if (static_cast<int>(claim_.loads.size()) != plan_.mesh.replicas()) {
      return Fault(absl::StrCat("found data of ", claim_.loads.size(), " replicas, expected ", plan_.mesh.replicas()));
    }
    RETURN_IF_ERROR(ReadGradients());
    RETURN_IF_ERROR(CheckSums());
    RETURN_IF_ERROR(CheckPasses());
    RETURN_IF_ERROR(CheckUpdate());
    RETURN_IF_ERROR(Follow());
    // The order of what the lists do, which terms do not tell.
    const absl::Status sound = CheckPlan(plan_);
    return sound.ok() ? sound : Fault(std::string(sound.message()));
  }

 private:
  using Numbered = std::pair<int, int64_t>;  // a tensor, or subgraph, with its micro-batch
  struct Rank {
    size_t next = 0;  // action
    std::map<Numbered, Statement> values;
    std::map<int, SumStatement> sums;
    std::set<int> updated;
    std::vector<int64_t> loaded;  // micro-batches, in the order in which the rank comes to them
  };

  std::string Name(int rank, size_t action) const {
    return absl::StrCat("rank ", rank, ", action ", action, ", ", PrintAction(plan_, plan_.lists[rank][action]));
  }
  std::string NameOf(int tensor) const {
    return PrintAction(plan_, {Kind::kRun, 0, {tensor}, -1}).substr(7);  // behind "RUN s0 "
  }

  // The values of one device: of inputs and states, and the outputs.
  absl::Status ReadGradients() {
    ValueMap values;
    for (Value input : claim_.gradients.inputs()) {
      ASSIGN_OR_RETURN(values[input], LeafOf(claim_.gradients, input));
      inputs_.push_back(values[input]);
    }
    for (Value state : claim_.gradients.states()) {
      ASSIGN_OR_RETURN(values[state], LeafOf(claim_.gradients, state));
      states_.push_back(values[state]);
      weights_.insert(values[state]);
    }
    ASSIGN_OR_RETURN(leaves_, terms_.OutputsOf(claim_.gradients, values));
    int input = 0, weight = 0;
    for (const PlanTensor& tensor : plan_.tensors) {
      number_of_.push_back(tensor.kind == PlanTensor::Kind::kInput    ? input++
                           : tensor.kind == PlanTensor::Kind::kWeight ? weight++
                                                                      : -1);
    }
    if (input != static_cast<int>(inputs_.size())) {
      return Fault(absl::StrCat("the plan has ", input, " inputs, expected ", inputs_.size()));
    }
    if (weight != 0 && weight != static_cast<int>(states_.size())) {
      return Fault(absl::StrCat("the plan has ", weight, " weights, expected ", states_.size()));
    }
    for (size_t tensor = 0; tensor < plan_.tensors.size(); ++tensor) {
      const PlanTensor::Kind kind = plan_.tensors[tensor].kind;
      const int number = number_of_[tensor];
      if (kind == PlanTensor::Kind::kInput) RETURN_IF_ERROR(HasType(static_cast<int>(tensor), inputs_[number]));
      if (kind == PlanTensor::Kind::kWeight) RETURN_IF_ERROR(HasType(static_cast<int>(tensor), states_[number]));
    }
    return absl::OkStatus();
  }
  // Ranks send and keep a tensor by its type in the plan.
  absl::Status HasType(int tensor, Value value) const {
    const TensorType &said = plan_.tensors[tensor].type, &is = terms_.type(value);
    if (said == is) return absl::OkStatus();
    return Fault(absl::StrCat(NameOf(tensor), " is ", said.ToString(), " in the plan, expected ", is.ToString()));
  }
  absl::StatusOr<Value> LeafOf(const Graph& graph, Value leaf) {
    return terms_.Leaf(graph.node(leaf.node).name, graph.type(leaf));
  }

  // Sum k is input k of the update, and of output k of the gradients.
  absl::Status CheckSums() {
    sums_ = plan_.TensorsOf(PlanTensor::Kind::kSum);
    if (sums_.size() != claim_.step.inputs().size() || leaves_.size() != sums_.size()) {
      return Fault(absl::StrCat("the plan has ", sums_.size(), " sums, the update takes ", claim_.step.inputs().size(),
                                ", and a micro-batch makes ", leaves_.size()));
    }
    for (size_t k = 0; k < sums_.size(); ++k) {
      const PlanTensor& sum = plan_.tensors[sums_[k]];
      if (sum.apart) return Fault(absl::StrCat(NameOf(sums_[k]), " is another one in each replica"));
      sum_numbers_[sums_[k]] = k;
      const TensorType& whole = claim_.step.type(claim_.step.inputs()[k]);
      if (!(terms_.type(leaves_[k]) == whole)) {
        return Fault(absl::StrCat("output ", k, " of a micro-batch is ", terms_.type(leaves_[k]).ToString(),
                                  ", the update takes ", whole.ToString()));
      }
      if (whole == sum.type || IsBlock(sum, whole)) continue;
      return Fault(
          absl::StrCat(NameOf(sums_[k]), " is ", sum.type.ToString(), ", the update takes ", whole.ToString()));
    }
    return absl::OkStatus();
  }
  // True if a sum has the type of one of the blocks that the ranks of a replica have of it.
  bool IsBlock(const PlanTensor& sum, const TensorType& whole) const {
    if (sum.cut < 0 || sum.cut >= whole.rank()) return false;
    TensorType joined = sum.type;
    if (joined.rank() != whole.rank()) return false;
    joined.shape[sum.cut] *= plan_.mesh.ranks() / plan_.mesh.replicas();
    return joined == whole;
  }

  absl::Status SameAsDerived(const Graph& graph, const CutByLaws& cut, const std::string& what) {
    absl::StatusOr<Graph> derived = derive_(graph, cut);
    if (!derived.ok()) return Fault(absl::StrCat(what, ": ", std::string(derived.status().message())));
    if (PrintGraph(*derived) == PrintGraph(cut.graph)) return absl::OkStatus();
    return Fault(absl::StrCat(what, ": proved laws make another graph of it over ", cut.degree, " devices"));
  }

  absl::Status CheckPasses() {
    if (claim_.subgraphs.size() != plan_.subgraphs.size()) {
      return Fault(
          absl::StrCat("found ", claim_.subgraphs.size(), " graphs of subgraphs, expected ", plan_.subgraphs.size()));
    }
    for (const auto& [number, cut] : claim_.passes) {
      const std::string name = absl::StrCat("s", number);
      if (number < 0 || number >= static_cast<int>(plan_.subgraphs.size())) return Fault(name + ": is none");
      const int over = plan_.subgraphs[number].over;
      if (over < 0 || plan_.mesh.axes()[over].size != cut.degree) {
        return Fault(absl::StrCat(name, ": is cut over ", cut.degree, " devices, but not run by as many ranks"));
      }
      RETURN_IF_ERROR(SameAsDerived(claim_.subgraphs[number], cut, name));
    }
    return absl::OkStatus();
  }

  // Ranks have of sums and weights what the update takes and leaves.
  absl::Status CheckUpdate() {
    std::map<std::string, int> axes;  // of leaves that ranks have blocks of
    if (claim_.update) {
      RETURN_IF_ERROR(SameAsDerived(claim_.step, *claim_.update, "the update"));
      const absl::StatusOr<RankGraph> part = GraphOfRank(claim_.update->graph, /*rank=*/0, claim_.update->degree);
      if (!part.ok()) return Fault(absl::StrCat("the update: ", std::string(part.status().message())));
      const int together = claim_.owners.empty() ? plan_.mesh.ranks() : plan_.mesh.replicas();
      if (claim_.update->takes_blocks && claim_.update->degree != together) {
        return Fault(absl::StrCat("the update: is cut over ", claim_.update->degree, " devices, expected ", together));
      }
      for (const ShardedLeaf& state : part->states) axes[state.name] = state.axis;
      for (const ShardedLeaf& input : part->inputs) axes[input.name] = claim_.update->takes_blocks ? input.axis : -1;
    }
    const auto check = [&](int tensor, const std::string& name) -> absl::Status {
      const PlanTensor& of = plan_.tensors[tensor];
      const auto axis = axes.find(name);
      const int cut = axis == axes.end() ? -1 : axis->second;
      if (of.cut != cut) {
        return Fault(absl::StrCat(NameOf(tensor), " is cut along ", of.cut, ", `", name, "` of the update along ", cut,
                                  " (-1: not)"));
      }
      const auto owner = claim_.owners.find(name);
      const int updates = owner == claim_.owners.end() ? -1 : owner->second;
      if (of.owner != updates) {
        return Fault(absl::StrCat(NameOf(tensor), " is of rank ", of.owner, ", but rank ", updates, " updates `", name,
                                  "` (-1: all)"));
      }
      return absl::OkStatus();
    };
    for (size_t k = 0; k < sums_.size(); ++k) {
      RETURN_IF_ERROR(check(sums_[k], claim_.step.node(claim_.step.inputs()[k].node).name));
    }
    std::set<std::string> updated;
    for (Value state : claim_.step.states()) updated.insert(claim_.step.node(state.node).name);
    for (int weight : plan_.TensorsOf(PlanTensor::Kind::kWeight)) {
      const std::string& name = claim_.gradients.node(claim_.gradients.states()[number_of_[weight]].node).name;
      if (updated.contains(name)) {
        RETURN_IF_ERROR(check(weight, name));
      } else if (plan_.tensors[weight].cut >= 0 || plan_.tensors[weight].owner >= 0) {
        return Fault(absl::StrCat(NameOf(weight), ": `", name, "` is not updated, expected all of it on every rank"));
      }
    }
    return absl::OkStatus();
  }

  // Follows all lists: each rank as far as it comes without the others, in turns.
  absl::Status Follow() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
        while (ranks_[rank].next < plan_.lists[rank].size()) {
          ASSIGN_OR_RETURN(const bool done, Step(rank));
          if (!done) break;
          moves = true;
        }
      }
    }
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (ranks_[rank].next < plan_.lists[rank].size()) {
        const absl::Status told = CheckPlan(plan_);
        return Fault(told.ok() ? Name(rank, ranks_[rank].next) + ": waits for ever" : std::string(told.message()));
      }
      for (int sum : sums_) {
        const int owner = plan_.tensors[sum].owner;
        const bool own = owner < 0 || owner == plan_.mesh.NumberOf(rank);
        if (own && !ranks_[rank].updated.contains(sum)) {
          return Fault(absl::StrCat("rank ", rank, " makes no update by ", NameOf(sum)));
        }
      }
    }
    return absl::OkStatus();
  }

  // Does the next action of a rank; false: it waits for another one.
  absl::StatusOr<bool> Step(int number) {
    Rank& rank = ranks_[number];
    const Action& action = plan_.lists[number][rank.next];
    const auto fault = [&](const absl::Status& status) {
      return status.ok() || status.code() != absl::StatusCode::kFailedPrecondition
                 ? status
                 : Fault(absl::StrCat(Name(number, rank.next), ": ", std::string(status.message())));
    };
    if (IsCollective(action.kind)) {
      const std::vector<int> group = plan_.mesh.GroupOf(number, action.axis);
      for (int other : group) {
        const Rank& there = ranks_[other];
        if (there.next == plan_.lists[other].size() || !(plan_.lists[other][there.next] == action)) return false;
      }
      RETURN_IF_ERROR(fault(Collective(group, action)));
      for (int other : group) ++ranks_[other].next;
      return true;
    }
    if (action.kind == Kind::kReceive) {
      std::deque<Statement>& messages = sent_[{action.target, number}];
      if (messages.size() < action.tensors.size()) return false;
      for (int tensor : action.tensors) {
        rank.values[{tensor, action.micro_batch}] = messages.front();
        messages.pop_front();
        ++verdict_.statements;
      }
    } else {
      RETURN_IF_ERROR(fault(Alone(number, action)));
    }
    ++rank.next;
    return true;
  }

  absl::Status Alone(int number, const Action& action) {
    Rank& rank = ranks_[number];
    switch (action.kind) {
      case Kind::kRun: return RunSubgraph(number, action);
      case Kind::kSend:
        for (int tensor : action.tensors) {
          ASSIGN_OR_RETURN(const Statement statement, StatementOf(number, tensor, action.micro_batch));
          sent_[{number, action.target}].push_back(statement);
        }
        return absl::OkStatus();
      case Kind::kAccumulate:
        for (int sum : action.tensors) {
          ASSIGN_OR_RETURN(const Term leaf, LeafOfSum(number, sum, action.micro_batch));
          rank.sums[sum].terms.push_back(leaf);
          ++verdict_.statements;
        }
        return absl::OkStatus();
      case Kind::kUpdate:
        for (int sum : action.tensors) RETURN_IF_ERROR(Update(number, sum));
        return absl::OkStatus();
      default: return absl::OkStatus();  // a WAIT; CheckPlan tells what is offloaded
    }
  }

  // A tensor of a rank, before the action at which it is.
  absl::StatusOr<Statement> StatementOf(int number, int tensor, int64_t micro_batch) {
    const PlanTensor& of = plan_.tensors[tensor];
    if (of.kind == PlanTensor::Kind::kInput) return Statement{{inputs_[number_of_[tensor]], micro_batch}};
    if (of.kind == PlanTensor::Kind::kWeight) micro_batch = -1;
    const auto found = ranks_[number].values.find({tensor, micro_batch});
    if (found != ranks_[number].values.end()) return found->second;
    const bool own = of.owner < 0 || of.owner == plan_.mesh.NumberOf(number);
    if (of.kind == PlanTensor::Kind::kWeight && own) {
      const bool whole = of.cut < 0 || plan_.mesh.replicas() == 1;
      return Statement{{states_[number_of_[tensor]], -1}, whole ? -1 : plan_.mesh.PlaceOf(number, 0)};
    }
    return Fault(absl::StrCat(NameOf(tensor), " is not there"));
  }

  // A rank gets the data of its next micro-batch when it comes to a new one.
  absl::Status Load(int number, int64_t micro_batch) {
    std::vector<int64_t>& loaded = ranks_[number].loaded;
    if (std::find(loaded.begin(), loaded.end(), micro_batch) != loaded.end()) return absl::OkStatus();
    const std::vector<int64_t>& data = claim_.loads[plan_.mesh.PlaceOf(number, 0)];
    if (loaded.size() == data.size() || data[loaded.size()] != micro_batch) {
      return Fault(loaded.size() == data.size()
                       ? std::string("the replica has no more data")
                       : absl::StrCat("the replica has the data of micro-batch ", data[loaded.size()], " next"));
    }
    loaded.push_back(micro_batch);
    return absl::OkStatus();
  }

  absl::Status RunSubgraph(int number, const Action& action) {
    const PlanSubgraph& subgraph = plan_.subgraphs[action.target];
    const Graph& graph = claim_.subgraphs[action.target];
    RETURN_IF_ERROR(Load(number, action.micro_batch));
    if (graph.arena() == nullptr) {
      return subgraph.makes.empty() ? absl::OkStatus() : Fault("the subgraph has no graph");
    }
    if (graph.inputs().size() != subgraph.reads.size() || graph.outputs().size() != subgraph.makes.size()) {
      return Fault(absl::StrCat("its graph has ", graph.inputs().size(), " inputs and ", graph.outputs().size(),
                                " outputs, expected ", subgraph.reads.size(), " and ", subgraph.makes.size()));
    }
    std::vector<Value> reads;
    ValueMap values;
    for (size_t k = 0; k < subgraph.reads.size(); ++k) {
      const int tensor = subgraph.reads[k];
      ASSIGN_OR_RETURN(const Statement read, StatementOf(number, tensor, action.micro_batch));
      if (read.block >= 0) return Fault(absl::StrCat(NameOf(tensor), " is block ", read.block, ", expected all of it"));
      if (read.term.micro_batch >= 0 && read.term.micro_batch != action.micro_batch) {
        return Fault(absl::StrCat(NameOf(tensor), " is of micro-batch ", read.term.micro_batch));
      }
      const TensorType& wanted = graph.type(graph.inputs()[k]);
      if (!(terms_.type(read.term.value) == wanted)) {
        return Fault(absl::StrCat(NameOf(tensor), " is ", terms_.type(read.term.value).ToString(),
                                  ", the subgraph takes ", wanted.ToString()));
      }
      reads.push_back(read.term.value);
      values[graph.inputs()[k]] = read.term.value;
    }
    const auto [made, is_new] = made_.try_emplace({action.target, reads});
    if (is_new) {
      for (Value state : graph.states()) {
        ASSIGN_OR_RETURN(values[state], LeafOf(graph, state));
        if (!weights_.contains(values[state])) {
          return Fault(absl::StrCat("`", graph.node(state.node).name, "` is no weight of the gradients"));
        }
      }
      ASSIGN_OR_RETURN(made->second, terms_.OutputsOf(graph, std::move(values)));
    }
    for (size_t k = 0; k < subgraph.makes.size(); ++k) {
      const PlanTensor& tensor = plan_.tensors[subgraph.makes[k]];
      if (tensor.over >= 0) return Fault(absl::StrCat(NameOf(subgraph.makes[k]), " is a part of a value, by no law"));
      RETURN_IF_ERROR(HasType(subgraph.makes[k], made->second[k]));
      ranks_[number].values[{subgraph.makes[k], action.micro_batch}] = {{made->second[k], action.micro_batch}};
      ++verdict_.statements;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Term> LeafOfSum(int number, int sum, int64_t micro_batch) {
    ASSIGN_OR_RETURN(const Statement leaf, StatementOf(number, plan_.tensors[sum].leaf, micro_batch));
    if (leaf.block >= 0) return Fault(absl::StrCat(NameOf(plan_.tensors[sum].leaf), " is a block"));
    return leaf.term;
  }

  absl::Status Collective(const std::vector<int>& group, const Action& action) {
    for (int tensor : action.tensors) {
      const PlanTensor& of = plan_.tensors[tensor];
      if (of.kind == PlanTensor::Kind::kWeight) {
        if (action.kind != Kind::kAllGather || action.axis != 0) {
          return Fault(absl::StrCat(NameOf(tensor), " is a weight, expected ALL_GATHER over replicas"));
        }
        RETURN_IF_ERROR(Gather(group, tensor));
      } else if (of.kind == PlanTensor::Kind::kSum) {
        RETURN_IF_ERROR(Reduce(group, action, tensor));
      } else {
        return Fault(absl::StrCat(NameOf(tensor), " is a value that ranks complete, by no law"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Gather(const std::vector<int>& group, int weight) {
    std::optional<Term> whole;
    for (size_t place = 0; place < group.size(); ++place) {
      ranks_[group[place]].values.erase({weight, -1});
      ASSIGN_OR_RETURN(const Statement block, StatementOf(group[place], weight, -1));
      if (block.block != static_cast<int>(place) || (whole && !(*whole == block.term))) {
        return Fault(absl::StrCat(NameOf(weight), " of rank ", group[place], " is not block ", place));
      }
      whole = block.term;
    }
    for (int rank : group) ranks_[rank].values[{weight, -1}] = {*whole};
    verdict_.statements += static_cast<int64_t>(group.size());
    return absl::OkStatus();
  }

  absl::Status Reduce(const std::vector<int>& group, const Action& action, int sum) {
    if (action.kind == Kind::kAllToAll || action.axis != 0) {
      return Fault(absl::StrCat(NameOf(sum), " is a sum, expected one over replicas"));
    }
    using Form = SumStatement::Form;
    std::vector<Term> terms;
    if (action.givers > static_cast<int64_t>(group.size())) return Fault("more micro-batches than ranks of the group");
    if (action.givers > 0) {  // each rank adds to its shard
      for (int place = 0; place < action.givers; ++place) {
        ASSIGN_OR_RETURN(const Term leaf, LeafOfSum(group[place], sum, action.micro_batch + place));
        terms.push_back(leaf);
      }
      for (int rank : group) {
        SumStatement& here = ranks_[rank].sums[sum];
        if (here.form == Form::kWhole && !here.terms.empty()) return Fault("the sum is whole, expected a shard");
        here.form = Form::kShard;
        here.terms.insert(here.terms.end(), terms.begin(), terms.end());
      }
      return absl::OkStatus();
    }
    const bool gathers = action.kind == Kind::kAllGather;
    for (int rank : group) {
      const SumStatement& here = ranks_[rank].sums[sum];
      if ((here.form == Form::kShard) != gathers) {
        return Fault(absl::StrCat(NameOf(sum), " of rank ", rank, gathers ? " is whole" : " is in shards"));
      }
      if (gathers && here.terms != ranks_[group[0]].sums[sum].terms) return Fault("shards are of several sums");
      if (gathers) continue;
      terms.insert(terms.end(), here.terms.begin(), here.terms.end());
    }
    if (gathers) terms = ranks_[group[0]].sums[sum].terms;
    for (int rank : group) {
      ranks_[rank].sums[sum] = {terms, action.kind == Kind::kReduceScatter ? Form::kShard : Form::kWhole};
    }
    verdict_.statements += static_cast<int64_t>(group.size());
    return absl::OkStatus();
  }

  absl::Status Update(int number, int sum) {
    Rank& rank = ranks_[number];
    const PlanTensor& of = plan_.tensors[sum];
    rank.updated.insert(sum);
    ++verdict_.statements;
    std::vector<Term> found = rank.sums[sum].terms, expected;
    const Value leaf = leaves_[sum_numbers_.at(sum)];
    for (int64_t k = 0; k < plan_.micro_batches; ++k) expected.push_back({leaf, k});
    std::sort(found.begin(), found.end());
    if (found != expected) return Refute(sum, found, expected);
    const bool shard = of.cut >= 0 && plan_.mesh.replicas() > 1;
    if ((rank.sums[sum].form == SumStatement::Form::kShard) == shard) return absl::OkStatus();
    return Fault(absl::StrCat(NameOf(sum), shard ? " is whole, expected a block" : " is in shards, expected all"));
  }

  // The sum of the elements of terms; terms of another type, or of none, count as nothing.
  absl::StatusOr<std::vector<double>> Added(const std::vector<Term>& terms, const TensorType& type) {
    std::vector<double> sum(static_cast<size_t>(type.num_elements()), 0);
    for (const Term& term : terms) {
      if (!(terms_.type(term.value) == type)) continue;
      ASSIGN_OR_RETURN(const Tensor elements, terms_.ElementsOf(term, weights_));
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += elements.as<double>()[k];
    }
    return sum;
  }

  std::string Described(const std::vector<Term>& terms, Value leaf) const {
    std::vector<std::string> names;
    for (const Term& term : terms) {
      names.push_back(term.value == leaf ? absl::StrCat(term.micro_batch)
                                         : absl::StrCat(term.micro_batch, " (of another value)"));
    }
    return absl::StrJoin(names, ", ");
  }

  // Tells the difference of a sum from that of one device, with elements where the interpreter finds one.
  absl::Status Refute(int sum, const std::vector<Term>& found, const std::vector<Term>& expected) {
    const Value leaf = expected[0].value;
    const std::string told = absl::StrCat(NameOf(sum), " has the micro-batches [", Described(found, leaf),
                                          "], expected [", Described(expected, leaf), "]");
    const TensorType& type = terms_.type(leaf);
    if (!IsFloating(type.dtype)) return Fault(told);
    ASSIGN_OR_RETURN(const std::vector<double> is, Added(found, type));
    ASSIGN_OR_RETURN(const std::vector<double> was, Added(expected, type));
    double largest = 0, worst = 0;
    size_t at = 0;
    for (size_t k = 0; k < is.size(); ++k) {
      largest = std::max({largest, std::abs(is[k]), std::abs(was[k])});
      const double difference = std::abs(is[k] - was[k]);
      if (difference <= worst || !std::isfinite(difference)) continue;
      worst = difference;
      at = k;
    }
    constexpr double kRounding = 1e-9;
    if (worst <= kRounding * largest) return Fault(told);
    verdict_.kind = StepVerdict::Kind::kRefuted;
    return Fault(absl::StrFormat("%s: element %d is %.9g, on one device it is %.9g", told, at, is[at], was[at]));
  }

  const StepClaim& claim_;
  const Plan& plan_;
  const CutDerivation& derive_;
  StepVerdict& verdict_;
  Terms terms_;
  std::vector<Value> inputs_, states_, leaves_;                            // of one device
  std::set<Value> weights_;                                                // the states
  std::vector<int> number_of_;                                             // by tensor, among the inputs or the weights
  std::vector<int> sums_;                                                  // tensors
  std::map<int, size_t> sum_numbers_;                                      // by tensor
  std::map<std::pair<int, std::vector<Value>>, std::vector<Value>> made_;  // by subgraph and what it reads
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<Statement>> sent_;  // from, to
};

}  // namespace

const char* StepVerdictName(StepVerdict::Kind kind) {
  switch (kind) {
    case StepVerdict::Kind::kProved: return "proved";
    case StepVerdict::Kind::kRefuted: return "refuted";
    case StepVerdict::Kind::kUnproved: return "unproved";
  }
  return "";
}

absl::StatusOr<StepVerdict> ProveStep(const StepClaim& claim, const CutDerivation& derive) {
  StepVerdict verdict;
  const absl::Status status = Prover(claim, derive, &verdict).Run();
  if (status.ok()) {
    verdict.kind = StepVerdict::Kind::kProved;
  } else if (status.code() == absl::StatusCode::kFailedPrecondition) {
    verdict.reason = std::string(status.message());
  } else {
    return status;
  }
  return verdict;
}

}  // namespace rewright::distributed
