#include "verifier/ranks/rank_claims.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_printer.h"
#include "verifier/equal/region.h"
#include "verifier/ranks/claim_sizes.h"
#include "verifier/ranks/device_terms.h"

namespace rewright {
namespace {

constexpr size_t kLargestPiece = 40;  // steps of a claim that is worth a try

// Copies values of the model into the arena of a claim; those about which there are statements are leaves there.
class ModelTerms {
 public:
  ModelTerms(const Graph& model, Arena& arena) : model_(model), arena_(arena) {}

  void Put(Value value, Value term) { terms_[value] = term; }

  const Value* Find(Value value) const {
    const auto found = terms_.find(value);
    return found == terms_.end() ? nullptr : &found->second;
  }

  absl::StatusOr<Value> Term(Value value) {
    if (const auto found = terms_.find(value); found != terms_.end()) return found->second;
    const Node& node = model_.node(value.node);
    if (node.leaf == LeafKind::kInput) {
      ASSIGN_OR_RETURN(terms_[value], arena_.AddInput(node.name, model_.type(value)));
      return terms_[value];
    }
    if (node.op == nullptr) return terms_[value] = arena_.AddConstant(*model_.arena()->Elements(value.node));
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      ASSIGN_OR_RETURN(operands.emplace_back(), Term(operand));
    }
    return terms_[value] = Value{arena_.AddLike(node, std::move(operands)), value.output};
  }

 private:
  const Graph& model_;
  Arena& arena_;
  std::map<Value, Value> terms_;
};

}  // namespace

bool Statement::HasShares() const {
  return std::any_of(placement.begin(), placement.end(), IsShare);
}

absl::StatusOr<Value> InputOf(const Graph& model, const std::string& name) {
  for (Value input : model.inputs()) {
    if (model.node(input.node).name == name) return input;
  }
  return absl::InvalidArgumentError(absl::StrCat("the model has no input ", name, ", which a rank has"));
}

struct RankClaims::Piece {
  std::set<int> steps;
  std::map<StepValue, const Known*> leaves;
};

const Statement* RankClaims::Find(const StepValue& at) const {
  const auto found = statements_.find(at);
  return found == statements_.end() ? nullptr : &found->second.statement;
}

RankClaims::Piece RankClaims::PieceOf(const StepValue& at, int depth) const {
  Piece piece;
  std::vector<std::pair<StepValue, int>> stack = {{at, depth}};
  std::map<StepValue, int> visited;  // how far above it may go
  while (!stack.empty()) {
    const auto [value, left] = stack.back();
    stack.pop_back();
    const auto found = statements_.find(value);
    const bool is_root = value == at;
    const bool is_leaf = !is_root && found != statements_.end() &&
                         (left == 0 || program_.steps[value.first].op == nullptr);
    if (const auto [seen, first] = visited.emplace(value, left); !first) {
      if (seen->second >= left) continue;
      seen->second = left;
    }
    if (is_leaf) continue;
    piece.steps.insert(value.first);
    const int further = !is_root && found != statements_.end() ? left - 1 : left;
    for (const StepValue& operand : program_.steps[value.first].operands) stack.push_back({operand, further});
  }
  for (const auto& [value, left] : visited) {
    if (!piece.steps.contains(value.first)) piece.leaves[value] = &statements_.at(value);
  }
  return piece;
}

// The other axes of the mesh have copies alone.
std::vector<int> RankClaims::AxesOf(const Statement& statement, const Piece& piece) const {
  std::set<int> axes;
  const auto add = [&](const MeshPlacement& placement) {
    for (size_t axis = 0; axis < placement.size(); ++axis) {
      if (placement[axis] != kWhole) axes.insert(static_cast<int>(axis));
    }
  };
  add(statement.placement);
  for (const auto& [value, known] : piece.leaves) add(known->statement.placement);
  for (int number : piece.steps) {
    const RankStep& step = program_.steps[number];
    axes.insert(step.group.begin(), step.group.end());
    for (size_t axis = 0; step.constants.size() > 1 && axis < plan_.mesh.size(); ++axis) {
      axes.insert(static_cast<int>(axis));
    }
  }
  std::erase_if(axes, [&](int axis) { return plan_.mesh[axis].size == 1; });
  return {axes.begin(), axes.end()};
}

absl::StatusOr<bool> RankClaims::Prove(const StepValue& at, const Statement& statement, int depth) {
  const Piece piece = PieceOf(at, depth);
  if (piece.steps.size() > kLargestPiece) return false;
  const std::vector<int> axes = AxesOf(statement, piece);
  const auto is_axis = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  std::set<int> differ;
  for (const auto& [value, known] : piece.leaves) {
    // A claim about shares speaks of one sum: ranks along other axes of the mesh must have the same ones.
    if (std::any_of(known->differ.begin(), known->differ.end(), is_axis)) return false;
    differ.insert(known->differ.begin(), known->differ.end());
  }
  ASSIGN_OR_RETURN(bool holds, Holds(at, statement, piece, axes, /*legal=*/false));
  if (const std::vector<Value> indices = IndicesOf(piece); !holds && !indices.empty()) {
    ASSIGN_OR_RETURN(holds, Holds(at, statement, piece, axes, /*legal=*/true));
    for (Value value : indices) {
      if (holds) assumed_.insert(*legal_indices_.find(value));
    }
  }
  if (!holds) return false;
  for (int axis : axes) {
    if (statement.placement[axis] == kWhole) differ.insert(axis);
  }
  if (!statement.HasShares()) differ.clear();
  statements_[at] = {statement, differ};
  return true;
}

std::vector<Value> RankClaims::IndicesOf(const Piece& piece) const {
  std::vector<Value> indices;
  for (const auto& [value, known] : piece.leaves) {
    if (legal_indices_.contains(known->statement.value)) indices.push_back(known->statement.value);
  }
  return indices;
}

absl::StatusOr<bool> RankClaims::Holds(const StepValue& at, const Statement& statement, const Piece& piece,
                                       const std::vector<int>& axes, bool legal) {
  Region region;
  region.arena = std::make_shared<Arena>();
  ModelTerms model(model_, *region.arena);
  DeviceTerms terms(*region.arena, plan_, axes);
  ClaimSizes sizes(plan_, axes);
  sizes.AddTerms(&terms);
  std::map<StepValue, Value> values;
  std::map<Value, std::pair<NodeId, int>> positions;  // by what is read at them
  // A value that ranks hold in shares is their sum or mean for all readers.
  for (const bool shares : {true, false}) {
    for (const auto& [value, known] : piece.leaves) {
      const auto& [whole, placement] = known->statement;
      if (known->statement.HasShares() != shares) continue;
      const TensorType type = program_.steps[value.first].types[value.second];
      if (!shares && model.Find(whole) != nullptr) {
        ASSIGN_OR_RETURN(values[value], terms.Place(*model.Find(whole), placement));
        sizes.Add(-1, type.shape, placement);
        continue;
      }
      ASSIGN_OR_RETURN(Value parts, region.arena->AddInput(absl::StrCat("x", value.first, ".", value.second),
                                                                 sizes.PartsOf(type, placement)));
      sizes.Add(parts.node, type.shape, placement);
      if (const auto index = legal_indices_.find(whole); legal && index != legal_indices_.end()) {
        ASSIGN_OR_RETURN(const LegalTerm term, TermOfLegal(*region.arena, parts, index->second.size));
        positions[index->second.indexed] = {term.positions, index->second.axis};
        parts = term.value;
      }
      ASSIGN_OR_RETURN(const Value joined, terms.Join(parts, placement, /*lacks_whole=*/true));
      model.Put(whole, joined);
      ASSIGN_OR_RETURN(values[value], terms.Repeat(parts, placement));
    }
  }
  for (const auto& [value, known] : piece.leaves) {
    const auto& [whole, placement] = known->statement;
    if (const auto found = positions.find(whole); found != positions.end()) {
      const auto& [node, axis] = found->second;
      sizes.AddSizeOfWhole(node, program_.steps[value.first].types[value.second].shape, placement, axis);
    }
  }
  for (int number : piece.steps) {
    const RankStep& step = program_.steps[number];
    if (step.op == nullptr) {
      ASSIGN_OR_RETURN((values[{number, 0}]), terms.Constant(step));
      continue;
    }
    std::vector<Value> operands;
    for (const StepValue& operand : step.operands) operands.push_back(values.at(operand));
    ASSIGN_OR_RETURN(const std::vector<Value> results, terms.Apply(step, operands));
    for (int32_t k = 0; k < static_cast<int32_t>(results.size()); ++k) values[{number, k}] = results[k];
    ++region.applications;
  }
  sizes.Add(-1, program_.steps[at.first].types[at.second].shape, statement.placement);
  ASSIGN_OR_RETURN(const Value whole, model.Term(statement.value));
  std::vector<int> repeated;
  for (int axis : axes) {
    if (statement.placement[axis] == kWhole) repeated.push_back(axis);
  }
  DeviceTerms on_all(*region.arena, plan_, repeated);
  ASSIGN_OR_RETURN(const Value left, on_all.Place(whole, statement.placement));
  ASSIGN_OR_RETURN(const Value right, terms.Join(values.at(at), statement.placement, /*lacks_whole=*/false));
  sizes.AddTerms(&on_all);
  if (region.arena->type(left) != region.arena->type(right)) return false;
  if (left == right) {
    ++immediate_;
    return true;
  }
  region.pairs = {{left, right}};
  // Sizes that have names first: the claim is then about all of them, and easier to prove.
  for (const Naming naming : kNamings) {
    const absl::StatusOr<Rule> rule = NamedRule(region, sizes.Names(naming, true), sizes.Names(naming, false));
    if (!rule.ok()) return false;  // the ranks read what the model does not
    if (Judge(*rule, /*named=*/true) == Verdict::kProved) return true;
  }
  ASSIGN_OR_RETURN(const Rule rule, NamedRule(region, nullptr, nullptr));
  const Verdict verdict = Judge(rule, /*named=*/false);
  if (verdict == Verdict::kUnknown) undecided_.emplace(at, rule);
  return verdict == Verdict::kProved;
}

absl::StatusOr<Rule> RankClaims::NamedRule(const Region& region, const SizeNames& of_whole,
                                           const SizeNames& of_rank) const {
  return RegionRule(region, absl::StrCat("claim-", rules_.size() + 1), of_whole, of_rank);
}

Verdict RankClaims::Judge(const Rule& rule, bool named) {
  Rule unnamed = rule;
  unnamed.name = "claim";
  const auto [judged, first] = judged_.emplace(PrintRule(unnamed), Verdict::kUnknown);
  if (!first) return judged->second;
  RuleProofOptions options;
  options.work_limit_s = options.instance_limit_s = limit_s_;
  options.use = RuleUse::kProof;
  options.classify = false;
  options.stop = stop_;
  judged->second = ProveRule(rule, options).verdict;
  if (judged->second == Verdict::kProved) {
    rules_.push_back(rule);
    at_any_size_ += named;
  }
  return judged->second;
}

}  // namespace rewright
