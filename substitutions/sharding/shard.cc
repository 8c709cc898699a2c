#include "substitutions/sharding/shard.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/lift/lift.h"
#include "core/ops/ops.h"
#include "substitutions/match/applier.h"

namespace rewright::sharding {
namespace {

// True if the name fits the pattern, in which `*` stands for any characters.
bool Fits(absl::string_view pattern, absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '*');
  if (parts.size() == 1) return pattern == name;
  if (!absl::StartsWith(name, parts.front())) return false;
  name.remove_prefix(parts.front().size());
  for (size_t k = 1; k + 1 < parts.size(); ++k) {
    const size_t at = name.find(parts[k]);
    if (at == absl::string_view::npos) return false;
    name.remove_prefix(at + parts[k].size());
  }
  return absl::EndsWith(name, parts.back());
}

class Sharder {
 public:
  Sharder(const Graph& graph, int64_t degree, const LawSource& laws, bool exact_only)
      : graph_(graph), arena_(*graph.arena()), degree_(degree), laws_(laws), exact_only_(exact_only) {}

  absl::StatusOr<Sharded> Run(const std::vector<Placement>& placements) {
    for (const Placement& placement : placements) RETURN_IF_ERROR(Place(placement));
    for (NodeId id : graph_.nodes()) {
      if (graph_.node(id).op != nullptr) RETURN_IF_ERROR(Carry(id));
    }
    std::vector<Output> outputs = graph_.outputs();
    for (Output& output : outputs) output.value = At(output.value);
    result_.graph = Graph(graph_.arena(), graph_.inputs(), std::move(outputs));
    result_.whole.assign(whole_.begin(), whole_.end());
    result_.laws = static_cast<int>(used_.size());
    return std::move(result_);
  }

 private:
  Value At(Value value) const {
    const auto found = values_.find(value);
    return found == values_.end() ? value : found->second;
  }

  absl::Status Place(const Placement& placement) {
    bool some = false;
    std::vector<std::string> names;
    for (NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.leaf != LeafKind::kInput && node.leaf != LeafKind::kState) continue;
      names.push_back(node.name);
      if (!Fits(placement.tensor, node.name)) continue;
      some = true;
      const TensorType& type = node.outputs[0];
      const auto error = [&](const std::string& what) {
        return absl::InvalidArgumentError(absl::StrCat("placement ", placement.tensor, ": ", node.name, " is ",
                                                       type.ToString(), ", expected ", what));
      };
      if (placement.axis < 0 || placement.axis >= type.rank()) return error(absl::StrCat("an axis ", placement.axis));
      if (type.shape[placement.axis] % degree_ != 0) {
        return error(absl::StrCat("a size along axis ", placement.axis, " that ", degree_, " divides"));
      }
      const Value leaf{id, 0};
      ASSIGN_OR_RETURN(values_[leaf], Cut(leaf, placement.axis));
      result_.steps.push_back({"combine-of-partition", node.name, absl::StrCat("axis=", placement.axis)});
    }
    if (some) return absl::OkStatus();
    constexpr size_t kNamed = 8;
    const bool more = names.size() > kNamed;
    if (more) names.resize(kNamed);
    return absl::NotFoundError(absl::StrCat("placement ", placement.tensor,
                                            ": no input or weight has that name; there are ",
                                            absl::StrJoin(names, ", "), more ? ", .." : ""));
  }

  // The value, joined from blocks along the axis: combine(partition(value)), unless every device can make its block.
  absl::StatusOr<Value> Cut(Value value, int64_t axis) {
    ASSIGN_OR_RETURN(const std::optional<Value> made, Made(value, axis));
    if (made) return *made;
    ASSIGN_OR_RETURN(const Value parts, arena_.Apply("partition", {value}, {{"axis", axis}, {"degree", degree_}}));
    return arena_.Apply("combine", {parts}, {{"axis", axis}});
  }

  // The number of operators in a row that make the value on the devices without cutting a tensor, such as a mask of
  // random numbers: they read smaller values, or values that are made themselves. 0: it cannot be made.
  int OperatorsToMake(Value value) {
    std::vector<NodeId> open = {value.node};
    for (size_t i = 0; i < open.size(); ++i) {
      if (!to_make_.try_emplace(open[i], 0).second) continue;
      for (Value operand : arena_.node(open[i]).operands) open.push_back(operand.node);
    }
    std::sort(open.begin(), open.end());  // an arena has operands before users
    for (NodeId id : open) {
      if (to_make_[id] == 0) to_make_[id] = OperatorsToMake(id);
    }
    return to_make_[value.node];
  }
  int OperatorsToMake(NodeId id) const {
    if (arena_.node(id).op == nullptr || ReadsDevices(id)) return 0;
    int most = 0;
    for (Value operand : arena_.node(id).operands) {
      if (ReadsDevices(operand.node)) return 0;
      if (arena_.type(operand).num_elements() < arena_.type({id, 0}).num_elements()) continue;
      const int operators = to_make_.at(operand.node);
      if (operators == 0) return 0;
      most = std::max(most, operators);
    }
    return most + 1;
  }

  // True for what is on devices or joined from there.
  bool ReadsDevices(NodeId id) const {
    const Node& node = arena_.node(id);
    return node.op != nullptr && (node.op == ops::Combine() || IsOnDevices(*node.op));
  }

  // The blocks of such a value. None if there are no laws.
  absl::StatusOr<std::optional<Value>> Made(Value value, int64_t axis) {
    constexpr int kMostOperators = 200;  // each is made while the one that reads it is
    if (const int operators = OperatorsToMake(value); operators == 0 || operators > kMostOperators) return std::nullopt;
    const std::pair key(value, axis);
    if (not_made_.contains(key)) return std::nullopt;
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    ASSIGN_OR_RETURN(const std::optional<Value> made, MadeByLaws(value, axis));
    if (made) {
      made_[key] = *made;
      made_in_order_.push_back(key);
    } else {
      not_made_.insert(key);
    }
    return made;
  }
  absl::StatusOr<std::optional<Value>> MadeByLaws(Value value, int64_t axis) {
    const Node& node = arena_.node(value.node);
    ASSIGN_OR_RETURN(const std::vector<ConjecturedLaw> conjectures,
                     laws_(*node.op, arena_.types(node.operands), node.attrs));
    for (const ConjecturedLaw& conjecture : conjectures) {
      if (conjecture.effect != Effect::kMade && conjecture.effect != Effect::kCut) continue;
      ASSIGN_OR_RETURN(const ProvedLaw* const found, Usable(conjecture));
      if (found == nullptr) continue;
      const ProvedLaw& law = *found;
      const size_t steps = result_.steps.size(), before = made_in_order_.size();
      const auto counts = std::pair(result_.exact, result_.cut);
      std::optional<Value> made;
      if (law.effect == Effect::kMade) {
        ASSIGN_OR_RETURN(const Value parts, arena_.Apply("partition", {value}, {{"axis", axis}, {"degree", degree_}}));
        ASSIGN_OR_RETURN(made, Rewritten(law, parts, node.op->name));
        if (made) {
          ASSIGN_OR_RETURN(made, arena_.Apply("combine", {*made}, {{"axis", axis}}));
        }
      } else {
        ASSIGN_OR_RETURN(made, MadeOf(law, value));
      }
      if (made && AxisOf(*made) == axis) return made;
      result_.steps.resize(steps);
      for (; made_in_order_.size() > before; made_in_order_.pop_back()) made_.erase(made_in_order_.back());
      std::tie(result_.exact, result_.cut) = counts;
    }
    return std::nullopt;
  }

  // The law, if it holds and keeps as many bits as are asked for.
  absl::StatusOr<const ProvedLaw*> Usable(const ConjecturedLaw& conjecture) const {
    ASSIGN_OR_RETURN(const ProvedLaw* const law, conjecture.proved());
    const bool keeps = law != nullptr && (!exact_only_ || law->exact || law->same_numbers);
    return keeps ? law : nullptr;
  }

  // Makes the value by a law about blocks of the operands, all of which can be made. None if one cannot.
  absl::StatusOr<std::optional<Value>> MadeOf(const ProvedLaw& law, Value value) {
    std::vector<Value> operands = arena_.node(value.node).operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (law.operands[k] < 0) continue;
      if (arena_.type(operands[k]).shape[law.operands[k]] % degree_ != 0) return std::nullopt;
      ASSIGN_OR_RETURN(const std::optional<Value> made, Made(operands[k], law.operands[k]));
      if (!made) return std::nullopt;
      operands[k] = *made;
    }
    const std::string name = arena_.node(value.node).op->name;
    const NodeId left = arena_.AddLike(arena_.node(value.node), std::move(operands));
    return Rewritten(law, {left, value.output}, name);
  }

  // The axis along which the value is joined; -1: it is not on devices.
  int AxisOf(Value value) const {
    const Node& node = arena_.node(value.node);
    return node.op == ops::Combine() ? static_cast<int>(std::get<int64_t>(node.attrs.at("axis"))) : -1;
  }

  double Bytes(Value value) const { return static_cast<double>(arena_.type(value).num_bytes()); }

  // Bytes that are moved between devices if the law is used. None if it cannot be used.
  std::optional<double> CostOf(const ConjecturedLaw& law, const std::vector<Value>& operands, NodeId id) const {
    double bytes = 0;
    bool some = false;
    for (size_t k = 0; k < operands.size(); ++k) {
      const int is = AxisOf(operands[k]), wanted = law.operands[k];
      some |= is >= 0 && is == wanted;
      if (wanted >= 0 && arena_.type(operands[k]).shape[wanted] % degree_ != 0) return std::nullopt;
      if (is < 0 || is == wanted) continue;
      bytes += Bytes(operands[k]) / (wanted < 0 ? 1.0 : static_cast<double>(degree_));
    }
    if (law.effect == Effect::kPartial) {
      for (const TensorType& type : graph_.node(id).outputs) bytes += 2 * static_cast<double>(type.num_bytes());
    }
    if (!some) return std::nullopt;
    return bytes;
  }

  absl::Status Carry(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<Value> operands;
    double joined = 0;
    for (Value operand : node.operands) {
      operands.push_back(At(operand));
      if (AxisOf(operands.back()) >= 0) joined += Bytes(operands.back());
    }
    if (joined > 0) {
      ASSIGN_OR_RETURN(const std::vector<ConjecturedLaw> laws, laws_(*node.op, arena_.types(operands), node.attrs));
      std::vector<std::pair<double, const ConjecturedLaw*>> choices;
      for (const ConjecturedLaw& law : laws) {
        if (const std::optional<double> cost = CostOf(law, operands, id)) choices.emplace_back(*cost, &law);
      }
      std::stable_sort(choices.begin(), choices.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      // A joined operand is computed on every device, which costs at least the time of reading it. It costs no more
      // where the operator only moves elements, such as the gradient of a reshape.
      const bool moves = operands.size() == 1;
      for (const auto& [cost, conjecture] : choices) {
        if (cost > 2 * joined || (moves && cost == 2 * joined)) break;
        ASSIGN_OR_RETURN(const ProvedLaw* const law, Usable(*conjecture));
        if (law == nullptr) continue;
        ASSIGN_OR_RETURN(const bool done, Use(*law, id, operands));
        if (done) return absl::OkStatus();
      }
      whole_.insert(node.op->name);
    }
    const NodeId copy = arena_.AddLike(node, operands);
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) values_[{id, k}] = {copy, k};
    return absl::OkStatus();
  }

  // Rewrites the application by the law; false where its conditions do not hold.
  absl::StatusOr<bool> Use(const ProvedLaw& law, NodeId id, std::vector<Value> operands) {
    const Node& node = graph_.node(id);
    for (size_t k = 0; k < operands.size(); ++k) {
      if (law.operands[k] < 0 || AxisOf(operands[k]) == law.operands[k]) continue;
      ASSIGN_OR_RETURN(operands[k], Cut(operands[k], law.operands[k]));
    }
    const NodeId left = arena_.AddLike(node, std::move(operands));
    ASSIGN_OR_RETURN(const std::optional<ValueMap> made, RewrittenAt(law, left, node.op->name));
    if (!made) return false;
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      const auto found = made->find(Value{left, k});
      values_[{id, k}] = found == made->end() ? Value{left, k} : found->second;
    }
    return true;
  }

  absl::StatusOr<std::optional<Value>> Rewritten(const ProvedLaw& law, Value value, const std::string& replaced) {
    ASSIGN_OR_RETURN(const std::optional<ValueMap> made, RewrittenAt(law, value.node, replaced));
    if (!made) return std::nullopt;
    const auto found = made->find(value);
    return found == made->end() ? std::nullopt : std::optional<Value>(found->second);
  }

  // Rewrites the results of an application by the law; none if its conditions do not hold.
  absl::StatusOr<std::optional<ValueMap>> RewrittenAt(const ProvedLaw& law, NodeId left, const std::string& replaced) {
    std::vector<Match> matches;
    law.matcher->MatchBelow(arena_, left, &matches);
    for (const Match& match : matches) {
      absl::StatusOr<ValueMap> made = BuildReplacement(arena_, match);
      if (!made.ok() && made.status().code() == absl::StatusCode::kOutOfRange) continue;
      if (!made.ok()) return made.status();
      result_.steps.push_back({law.matcher->rule().name(), replaced, match.Describe()});
      result_.exact &= law.exact;
      used_.insert(law.matcher.get());
      ++result_.cut;
      return *std::move(made);
    }
    return std::nullopt;
  }

  const Graph& graph_;
  Arena& arena_;
  const int64_t degree_;
  const LawSource& laws_;
  const bool exact_only_;
  absl::flat_hash_map<Value, Value> values_;
  absl::flat_hash_map<NodeId, int> to_make_;                    // OperatorsToMake
  absl::flat_hash_map<std::pair<Value, int64_t>, Value> made_;  // by axis, joined from its blocks
  std::vector<std::pair<Value, int64_t>> made_in_order_;
  absl::flat_hash_set<std::pair<Value, int64_t>> not_made_;  // by axis, without laws
  std::set<std::string> whole_;
  std::set<const Matcher*> used_;
  Sharded result_;
};

}  // namespace

absl::StatusOr<Placement> ParsePlacement(const std::string& text) {
  const size_t colon = text.rfind(':');
  Placement placement;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &placement.axis)) {
    return absl::InvalidArgumentError(absl::StrCat("found `", text, "`, expected NAME:AXIS"));
  }
  placement.tensor = text.substr(0, colon);
  return placement;
}

absl::StatusOr<std::vector<Placement>> ParsePlacements(const std::string& text, const std::string& file) {
  std::vector<Placement> placements;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    absl::StatusOr<Placement> placement = ParsePlacement(std::string(line));
    if (!placement.ok()) return ErrorAt(absl::StrCat(file, ", line ", number), placement.status());
    placements.push_back(*std::move(placement));
  }
  return placements;
}

absl::StatusOr<Sharded> Shard(const Graph& graph, const std::vector<Placement>& placements, int64_t degree,
                              const LawSource& laws, bool exact_only) {
  if (degree < 1) return absl::InvalidArgumentError(absl::StrCat("found ", degree, " devices, expected at least 1"));
  return Sharder(graph, degree, laws, exact_only).Run(placements);
}

namespace {

// True if the joined value is only the next value of states that are cut alike: then nothing is joined.
bool StaysInBlocks(const Graph& graph, NodeId id) {
  const auto axis_of = [&](const Node& node) { return std::get<int64_t>(node.attrs.at("axis")); };
  const int64_t axis = axis_of(graph.node(id));
  if (!graph.users(graph.index(id)).empty()) return false;
  for (const Output& output : graph.outputs()) {
    if (output.value.node != id) continue;
    if (output.updates.node < 0 || !graph.contains(output.updates.node)) return false;
    for (int user : graph.users(graph.index(output.updates.node))) {
      const Node& node = graph.node(graph.nodes()[user]);
      if (node.op != ops::Partition() || axis_of(node) != axis) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<Exchange> ExchangesOf(const Graph& graph) {
  std::map<std::string, Exchange> found;
  const auto add = [&](const std::string& collective, double bytes) {
    Exchange& exchange = found[collective];
    exchange.collective = collective;
    ++exchange.count;
    exchange.bytes += bytes;
  };
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op == nullptr || node.operands.empty()) continue;
    const TensorType& operand = graph.type(node.operands[0]);
    const Node& producer = graph.node(node.operands[0].node);
    const bool over_devices = node.op->name.starts_with("reduce_") && producer.op != nullptr &&
                              IsOnDevices(*producer.op) &&
                              std::get<std::vector<int64_t>>(node.attrs.at("axes")) == std::vector<int64_t>{0};
    if (node.op == ops::Halo()) {
      const double whole = static_cast<double>(node.outputs[0].num_bytes() - operand.num_bytes());
      add("halo", whole / static_cast<double>(operand.shape[0]));
    }
    if (node.op != ops::Combine() && !over_devices) continue;
    const auto degree = static_cast<double>(operand.shape[0]);
    // The bytes that all devices but one have of the whole.
    const double bytes = static_cast<double>(node.outputs[0].num_bytes()) * (degree - 1) / degree;
    // Joined or added to be cut again: every device gets its block.
    const std::vector<int>& users = graph.users(graph.index(id));
    const bool cut_again =
        !graph.is_output({id, 0}) && !users.empty() && std::all_of(users.begin(), users.end(), [&](int user) {
          return graph.node(graph.nodes()[user]).op == ops::Partition();
        });
    if (over_devices) {
      cut_again ? add("reduce-scatter", bytes * static_cast<double>(users.size())) : add("all-reduce", 2 * bytes);
    } else if (cut_again) {
      add("all-to-all", bytes / degree);
    } else if (!StaysInBlocks(graph, id)) {
      add("all-gather", bytes);
    }
  }
  std::vector<Exchange> exchanges;
  for (auto& [name, exchange] : found) exchanges.push_back(std::move(exchange));
  return exchanges;
}

}  // namespace rewright::sharding
