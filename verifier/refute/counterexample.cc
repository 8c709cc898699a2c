#include "verifier/refute/counterexample.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/stop.h"
#include "core/base/work.h"
#include "core/ir/expr.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"
#include "verifier/refute/concrete.h"

namespace rewright::verifier {
namespace {

// Sides that differ by less are taken for equal: doubles were used.
constexpr double kTolerance = 1e-6;
constexpr int kPointsPerOutput = 10;
constexpr int kSearchBudget = 4000;

// The number of the type for a double of the search; a value that is no exact integer stays a double.
Number NumberOf(DType type, double value) {
  constexpr double kExact = 0x1p53;
  if (IsFloating(type) || !(std::abs(value) <= kExact)) return value;
  return static_cast<int64_t>(value);
}

}  // namespace

bool Differ(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return false;
  if (std::isinf(a) || std::isinf(b)) return a != b;
  return std::abs(a - b) > kTolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

CounterexampleSearch::CounterexampleSearch(const RuleInstance& instance, uint64_t seed)
    : instance_(instance), fractions_(RoundsToIntegers(instance)), rng_(seed) {
  auto add = [this](Constraint c) {
    c.symbols = FreeVariables(c.condition != nullptr ? c.condition : c.size);
    left_.push_back(std::move(c));
  };
  for (const ExprPtr& condition : instance.conditions) add({condition, nullptr, 0, {}, ""});
  for (const SymbolicNode& n : instance.nodes) {
    if (n.meaning != nullptr) continue;
    for (const ExprPtr& size : n.shapes[0]) add({nullptr, size, 1, {}, ""});
  }
  std::vector<Constraint> requirements;
  AddConstraints(instance, 0, instance.num_lhs_nodes, &requirements);
  for (Constraint& c : requirements) add(std::move(c));
  AddConstraints(instance, instance.num_lhs_nodes, static_cast<int>(instance.nodes.size()), &right_);
  PlanSearch();
}

void CounterexampleSearch::AddConstraints(const RuleInstance& instance, int first, int last,
                                          std::vector<Constraint>* out) {
  for (int k = first; k < last; ++k) {
    const SymbolicNode& n = instance.nodes[k];
    if (n.meaning == nullptr) continue;
    for (size_t v = 0; v < n.meaning->variables.size() && v < n.indices.size(); ++v) {
      const Meaning::Variable& variable = n.meaning->variables[v];
      if (variable.kind != Meaning::VarKind::kAttr || variable.min == INT64_MIN || n.indices[v] == nullptr) continue;
      out->push_back({nullptr,
                      n.indices[v],
                      variable.min,
                      {},
                      absl::StrCat(n.op->name, ": ", variable.attr, " is less than ", variable.min)});
    }
    for (const Requirement& requirement : n.meaning->requirements) {
      out->push_back({Substitute(requirement.condition, n.indices, {}),
                      nullptr,
                      0,
                      {},
                      absl::StrCat(n.op->name, ": ", requirement.message)});
    }
    for (const OutputMeaning& output : n.meaning->outputs) {
      for (const ExprPtr& size : output.shape) {
        out->push_back({nullptr,
                        Substitute(size, n.indices, {}),
                        0,
                        {},
                        absl::StrCat(n.op->name, ": the output has a negative size")});
      }
    }
  }
}

// Symbols of equations come first and next to one another; a symbol that an equation gives comes right after the
// others of that equation.
void CounterexampleSearch::PlanSearch() {
  const size_t count = instance_.symbols.size();
  std::vector<const Constraint*> order;
  for (const Constraint& c : left_) order.push_back(&c);
  auto rank = [](const Constraint* c) {
    bool equation = c->condition != nullptr && c->condition->kind() == ExprKind::kEqual;
    return std::make_pair(!equation, c->symbols.size());
  };
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  std::vector<bool> known(count, false);
  auto add = [&](int symbol, ExprPtr forced) {
    if (known[symbol]) return;
    known[symbol] = true;
    levels_.push_back({symbol, std::move(forced), {}});
  };
  for (const Constraint* c : order) {
    int given = -1;
    ExprPtr value;
    if (c->condition != nullptr && c->condition->kind() == ExprKind::kEqual) {
      for (size_t side : {0u, 1u}) {
        const ExprPtr& alone = c->condition->arg(side);
        if (!alone->IsVariable() || known[alone->variable()]) continue;
        const std::vector<int> needed = FreeVariables(c->condition->arg(1 - side));
        if (std::find(needed.begin(), needed.end(), alone->variable()) != needed.end()) continue;
        given = alone->variable();
        value = c->condition->arg(1 - side);
      }
    }
    for (int symbol : c->symbols) {
      if (symbol != given) add(symbol, nullptr);
    }
    if (given >= 0) add(given, value);
  }
  for (size_t symbol = 0; symbol < count; ++symbol) add(static_cast<int>(symbol), nullptr);
  level_of_.resize(count);
  for (size_t level = 0; level < levels_.size(); ++level) level_of_[static_cast<size_t>(levels_[level].symbol)] = level;
  for (size_t i = 0; i < left_.size(); ++i) {
    size_t last = 0;
    for (int symbol : left_[i].symbols) last = std::max(last, level_of_[static_cast<size_t>(symbol)]);
    if (!levels_.empty()) levels_[last].completed.push_back(static_cast<int>(i));
  }
}

bool CounterexampleSearch::Holds(const Constraint& c, const std::vector<int64_t>& values) const {
  if (c.condition != nullptr) return EvalCond(c.condition, values).value_or(false);
  const std::optional<int64_t> size = EvalIndex(c.size, values);
  return size && *size >= c.min;
}

void CounterexampleSearch::Blame(const std::vector<int>& symbols, size_t level, std::vector<bool>* blame) const {
  for (int symbol : symbols) {
    const size_t other = level_of_[static_cast<size_t>(symbol)];
    if (other < level) (*blame)[other] = true;
  }
}

bool CounterexampleSearch::Extend(size_t level, int width, std::vector<int64_t>* values, int* budget,
                                  std::vector<bool>* blame) {
  if (level == levels_.size()) return true;
  const Level& here = levels_[level];
  const int64_t min = instance_.symbols[here.symbol].min;
  if (blame != nullptr && here.forced != nullptr) Blame(FreeVariables(here.forced), level, blame);
  std::vector<int64_t> choices;
  if (here.forced != nullptr) {
    const std::optional<int64_t> value = EvalIndex(here.forced, *values);
    if (!value || *value < min) return false;
    if (given_ && given_->first == here.symbol && given_->second != *value) return false;
    choices = {*value};
  } else if (given_ && given_->first == here.symbol) {
    choices = {given_->second};
  } else {
    const int64_t low = min == INT64_MIN ? -1 : min;
    for (int64_t d = 0; d < width; ++d) choices.push_back(low + d);
    std::shuffle(choices.begin(), choices.end(), rng_);
    if (given_ && instance_.symbols[here.symbol].is_size) {
      for (int64_t near : {given_->second, given_->second / 2, 2 * given_->second}) choices.push_back(near);
      for (int64_t d = 1; d < width; ++d) {
        for (int64_t near : {given_->second - d, given_->second + d}) choices.push_back(near);
      }
    }
  }
  for (int64_t choice : choices) {
    if (--*budget < 0 || StopScope::Stopped()) return false;
    CountSteps(1);
    (*values)[here.symbol] = choice;
    const auto failed = std::find_if(here.completed.begin(), here.completed.end(),
                                     [&](int c) { return !Holds(left_[static_cast<size_t>(c)], *values); });
    if (failed != here.completed.end()) {
      if (blame != nullptr) Blame(left_[static_cast<size_t>(*failed)].symbols, level, blame);
      continue;
    }
    if (blame == nullptr) {
      if (Extend(level + 1, width, values, budget, nullptr)) return true;
      continue;
    }
    std::vector<bool> above(levels_.size(), false);
    if (Extend(level + 1, width, values, budget, &above)) return true;
    const bool innocent = !above[level];
    above[level] = false;
    if (innocent) {  // no other choice here helps
      *blame = std::move(above);
      return false;
    }
    for (size_t i = 0; i < level; ++i) (*blame)[i] = (*blame)[i] || above[i];
  }
  return false;
}

bool CounterexampleSearch::FindAssignment(int width, std::vector<int64_t>* values) {
  for (const bool jumps : {false, true}) {
    values->assign(instance_.symbols.size(), 1);
    int budget = kSearchBudget;
    std::vector<bool> blame(levels_.size(), false);
    if (Extend(0, width, values, &budget, jumps ? &blame : nullptr)) return true;
    if (budget >= 0 || StopScope::Stopped()) return false;  // there is none
  }
  return false;
}

// A literal as it is, not as the double for which the search took it.
Counterexample::Input CounterexampleSearch::InputAt(const ConcreteInstance& concrete, size_t leaf) const {
  const SymbolicNode& node = instance_.nodes[leaf];
  const SymbolicValue value{static_cast<int>(leaf), 0};
  Counterexample::Input input{
      node.name, TensorType{node.dtypes[0], concrete.ShapeOf(value)}, concrete.LeafValues(static_cast<int>(leaf)), {}};
  if (!IsInteger(node.dtypes[0])) return input;
  const int64_t* literal = node.splat ? std::get_if<int64_t>(&*node.splat) : nullptr;
  for (double element : input.values) {
    input.integers.push_back(literal != nullptr ? *literal : static_cast<int64_t>(element));
  }
  return input;
}

std::optional<Counterexample> CounterexampleSearch::CheckAt(const std::vector<int64_t>& values) {
  Counterexample found;
  for (size_t s = 0; s < values.size(); ++s) found.symbols.emplace_back(instance_.symbols[s].name, values[s]);
  for (const Constraint& c : right_) {
    if (Holds(c, values)) continue;
    found.obligation = Obligation::kWellFormed;
    found.detail = c.text;
    for (const RealSymbol& real : instance_.reals)
      found.reals.emplace_back(real.name, OneOf(real.dtype));  // legal whatever they are
    return found;
  }
  ConcreteInstance concrete(instance_, values, fractions_, &rng_);
  if (!concrete.usable()) return std::nullopt;
  bool compared = false;
  for (size_t r = 0; r < instance_.reals.size(); ++r) {
    const RealSymbol& real = instance_.reals[r];
    found.reals.emplace_back(real.name, NumberOf(real.dtype, concrete.reals()[r]));
  }
  for (size_t o = 0; o < instance_.lhs.size() && o < instance_.rhs.size(); ++o) {
    found.output = static_cast<int>(o);
    const Shape shape = concrete.ShapeOf(instance_.lhs[o]);
    if (shape != concrete.ShapeOf(instance_.rhs[o])) {
      found.obligation = Obligation::kShape;
      found.detail = ShapeString(shape) + " and " + ShapeString(concrete.ShapeOf(instance_.rhs[o]));
      return found;
    }
    const int64_t elements = NumElements(shape);
    for (int64_t point = 0; point < std::min<int64_t>(elements, kPointsPerOutput); ++point) {
      int64_t linear = point;
      if (elements > kPointsPerOutput) linear = static_cast<int64_t>(rng_() % static_cast<uint64_t>(elements));
      std::vector<int64_t> at(shape.size());
      for (size_t k = shape.size(); k-- > 0; linear /= shape[k]) at[k] = linear % shape[k];
      concrete.Clear();
      const double lhs = concrete.Element(instance_.lhs[o], at);
      if (concrete.undefined() || concrete.out_of_bounds()) continue;
      const double rhs = concrete.Element(instance_.rhs[o], at);
      const SymbolicNode& output = instance_.nodes[instance_.lhs[o].node];
      const DType type = output.dtypes[instance_.lhs[o].output];
      found.lhs = NumberOf(type, lhs);
      found.rhs = NumberOf(type, rhs);
      found.at = at;
      if (concrete.out_of_bounds()) {
        found.obligation = Obligation::kReads;
        found.detail = "the right side reads beyond a tensor";
      } else if (concrete.undefined() || !Differ(lhs, rhs)) {
        compared = compared || !concrete.undefined();
        continue;
      }
      ++trials_;
      for (size_t k = 0; k < instance_.nodes.size(); ++k) {
        const SymbolicNode& n = instance_.nodes[k];
        if (n.meaning != nullptr) continue;
        found.inputs.push_back(InputAt(concrete, k));
      }
      return found;
    }
  }
  trials_ += compared ? 1 : 0;
  return std::nullopt;
}

std::vector<std::vector<int64_t>> CounterexampleSearch::Draw(int count) {
  std::vector<std::vector<int64_t>> drawn;
  for (int k = 0; k < count; ++k) {
    if (auto values = DrawWithin(2 + k % 5)) drawn.push_back(*std::move(values));
  }
  return drawn;
}

std::optional<std::vector<int64_t>> CounterexampleSearch::DrawWithin(int width) {
  std::vector<int64_t> values;
  if (!FindAssignment(width, &values)) return std::nullopt;
  return values;
}

std::optional<std::vector<int64_t>> CounterexampleSearch::DrawAt(int symbol, int64_t value) {
  constexpr int kTries = 4;
  given_ = {symbol, value};
  std::optional<std::vector<int64_t>> drawn;
  for (int k = 0; k < kTries && !drawn; ++k) drawn = DrawWithin(2 + k);
  given_.reset();
  return drawn;
}

std::optional<Counterexample> CounterexampleSearch::Run(int trials, double work_limit_s) {
  const double start = ThreadWorkSeconds();
  std::optional<Counterexample> best;
  int64_t best_size = INT64_MAX;
  int after_first = 0;
  for (int k = 0; k < trials && ThreadWorkSeconds() - start < work_limit_s && !StopScope::Stopped(); ++k) {
    if (best.has_value() && ++after_first > 24) break;
    // The ranges grow from tiny to wide: three values per symbol, then up to six.
    const int width = best.has_value() ? 2 + k % 2 : std::min(6, 2 + round_++ / 6);
    std::vector<int64_t> values;
    if (!FindAssignment(width, &values)) continue;
    if (assignments_.size() < 24) assignments_.push_back(values);
    std::optional<Counterexample> found = CheckAt(values);
    if (!found.has_value()) continue;
    int64_t size = 0;
    for (const auto& symbol : found->symbols) size += symbol.second;
    if (size < best_size) {
      best = std::move(found);
      best_size = size;
    }
  }
  return best;
}

std::optional<Counterexample> CounterexampleSearch::RunAt(const std::vector<std::vector<int64_t>>& assignments) {
  for (const std::vector<int64_t>& values : assignments) {
    if (std::optional<Counterexample> found = CheckAt(values)) return found;
  }
  return std::nullopt;
}

}  // namespace rewright::verifier

namespace rewright {

const char* ObligationName(Obligation obligation) {
  switch (obligation) {
    case Obligation::kWellFormed: return "the right side is not legal";
    case Obligation::kShape: return "shapes differ";
    case Obligation::kReads: return "a read is out of bounds";
    case Obligation::kElements: return "elements differ";
  }
  return "?";
}

std::string Counterexample::ToString() const {
  std::string out = ObligationName(obligation);
  for (const auto& [name, value] : symbols) absl::StrAppend(&out, " ", name, "=", value);
  for (const auto& [name, value] : reals) absl::StrAppend(&out, " ", name, "=", NumberString(value));
  if (!detail.empty()) absl::StrAppend(&out, ": ", detail);
  if (obligation == Obligation::kElements) {
    absl::StrAppend(&out, ": output ", output, " at [", absl::StrJoin(at, ","), "] is ", NumberString(lhs),
                    " on the left and ", NumberString(rhs), " on the right");
  }
  const auto digits = [](std::string* text, double value) { text->append(NumberString(value)); };
  for (const Input& input : inputs) {
    absl::StrAppend(
        &out, "\n  ", input.name, " ", input.type.ToString(), " = [",
        input.integers.empty() ? absl::StrJoin(input.values, ",", digits) : absl::StrJoin(input.integers, ","), "]");
  }
  return out;
}

}  // namespace rewright
