#include "verifier/verifier.h"

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ops/ops.h"
#include "verifier/algebra.h"
#include "verifier/context.h"
#include "verifier/counterexample.h"
#include "verifier/elements.h"
#include "verifier/give_up.h"
#include "verifier/integer_search.h"
#include "verifier/numeric_instance.h"
#include "verifier/prover.h"
#include "verifier/solver.h"

namespace rewright {

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kProved: return "proved";
    case Verdict::kRefuted: return "refuted";
    case Verdict::kUnknown: return "unknown";
  }
  return "?";
}

const char* ObligationName(Obligation obligation) {
  switch (obligation) {
    case Obligation::kWellFormed: return "the right side is not legal";
    case Obligation::kShape: return "shapes differ";
    case Obligation::kReads: return "a read is out of bounds";
    case Obligation::kElements: return "elements differ";
  }
  return "?";
}

namespace verifier {
namespace {

// kFailed: an obligation that does not depend on the strategy is open.
enum class Outcome : uint8_t { kProved, kOpen, kNextStrategy, kFailed };

// Whether the first three obligations have been proved, which is done once, and how much of the records they made.
struct Legality {
  bool proved = false;
  size_t steps = 0;
  size_t queries = 0;
  bool nonlinear = false;
};

// One attempt at an instance under one strategy.
class Attempt {
 public:
  Attempt(const RuleInstance& instance, const Strategy& strategy, const ProofOptions& options, ProofSession* record,
          const std::vector<std::vector<int64_t>>& assignments)
      : instance_(instance), ctx_(record, strategy, options.seed), elements_(&ctx_, instance) {
    for (const std::vector<int64_t>& values : assignments) {
      Assignment sample;
      for (size_t s = 0; s < values.size(); ++s) sample[static_cast<Var>(s)] = values[s];
      ctx_.samples.push_back(std::move(sample));
    }
    OrderFactors(strategy.factor_order);
  }

  Outcome Run(Legality* legal, std::string* reason) {
    return ProveLegality(legal, reason) ? EqualElements(reason) : Outcome::kFailed;
  }

  // The first three obligations, once.
  bool ProveLegality(Legality* legal, std::string* reason) {
    CollectFacts();
    if (legal->proved) return true;
    if (!WellFormed(reason) || !EqualTypes(reason) || !ReadsInBounds(reason)) return false;
    const ProofSession& record = *ctx_.record;
    *legal = {true, record.steps.size(), record.smtlib.size(), record.nonlinear};
    return true;
  }

  bool used_finite_law() const { return ctx_.used_finite_law; }
  // Whether no values of the symbols satisfy the rule's conditions and make the left side legal.
  bool IsVacuous() {
    CollectFacts();
    return ctx_.solver().Implies(facts_, Guard::False(), {}, "vacuous");
  }

  const Context& context() const { return ctx_; }
  const std::vector<std::string>& provisos() const { return provisos_; }

 private:
  // A line of the record that certificates hold.
  template <typename... Parts>
  void Step(const Parts&... parts) {
    if (ctx_.record->certify) ctx_.record->steps.push_back(absl::StrCat(parts...));
  }
  std::string Text(const Poly& p) { return ctx_.record->certify ? ctx_.Print(p) : std::string(); }
  std::string Text(const Guard& g) { return ctx_.record->certify ? ctx_.Print(g) : std::string(); }
  std::string Text(const NormalForm& n) { return ctx_.record->certify ? NormalFormKey(ctx_, n) : std::string(); }

  void CollectFacts() {
    std::vector<Guard> facts = elements_.Conditions();
    for (Guard& g : elements_.Requirements(0, instance_.num_lhs_nodes)) facts.push_back(std::move(g));
    for (int k = 0; k < instance_.num_lhs_nodes; ++k) {
      if (!IsLeaf(k)) continue;
      for (const Poly& size : elements_.Shape({k, 0})) {
        if (!ctx_.QuickNonneg(size - Poly(1))) facts.push_back(Guard::Ge(size - Poly(1)));
      }
    }
    std::vector<Guard> flat;
    for (const Guard& g : facts) {
      for (const Guard& part : Conjuncts(g)) flat.push_back(part);
    }
    facts_ = elements_.SolveEquations(std::move(flat));
    for (const Guard& fact : facts_) Step("fact: ", Text(fact));
    AssumeConstantsHaveElements();
  }

  bool IsLeaf(int node) const { return instance_.nodes[node].meaning == nullptr; }

  // A rule is not applied where a constant of its right side would be empty. What does not follow from the rest is
  // part of the domain.
  void AssumeConstantsHaveElements() {
    for (int k = instance_.num_lhs_nodes; k < static_cast<int>(instance_.nodes.size()); ++k) {
      if (!IsLeaf(k)) continue;
      for (const Poly& size : elements_.Shape({k, 0})) {
        const Guard nonempty = Guard::Ge(size - Poly(1));
        if (Prover(ctx_, facts_).Holds(nonempty, "a constant has elements")) continue;
        Step("provided that a constant of the right side has elements: ", Text(nonempty));
        provisos_.push_back(absl::StrCat(ctx_.Print(size), " >= 1"));
        facts_.push_back(nonempty);
        ctx_.SetFacts(facts_);
      }
    }
  }

  void OrderFactors(int order) {
    // Declaration order of the symbols is the order in which a rule names them: most significant factor first.
    for (size_t s = 0; s < instance_.symbols.size(); ++s) ctx_.factor_order.push_back(static_cast<Var>(s));
    if (order == 1) std::reverse(ctx_.factor_order.begin(), ctx_.factor_order.end());
  }

  bool WellFormed(std::string* reason) {
    Prover prover(ctx_, facts_);
    for (const Guard& g : elements_.Requirements(instance_.num_lhs_nodes, static_cast<int>(instance_.nodes.size()))) {
      Step("the right side is legal: ", Text(g));
      if (prover.Holds(g, "legal")) continue;
      *reason = absl::StrCat("not proved: the right side is legal: ", ctx_.Print(g));
      return false;
    }
    return true;
  }

  DType TypeOf(SymbolicValue v) const {
    const SymbolicNode& n = instance_.nodes[v.node];
    return n.meaning != nullptr ? n.meaning->outputs[v.output].dtype : n.dtypes[v.output];
  }

  bool EqualTypes(std::string* reason) {
    if (instance_.lhs.size() != instance_.rhs.size()) {
      *reason = "the sides have different numbers of outputs";
      return false;
    }
    Prover prover(ctx_, facts_);
    for (size_t o = 0; o < instance_.lhs.size(); ++o) {
      std::vector<Poly> a = elements_.Shape(instance_.lhs[o]), b = elements_.Shape(instance_.rhs[o]);
      if (a.size() != b.size() || TypeOf(instance_.lhs[o]) != TypeOf(instance_.rhs[o])) {
        *reason = absl::StrCat("output ", o, " has another rank or element type on the right");
        return false;
      }
      for (size_t k = 0; k < a.size(); ++k) {
        Step("equal sizes of output ", o, ": ", Text(a[k]), " = ", Text(b[k]));
        if (prover.Holds(Guard::Eq(a[k] - b[k]), "shape")) continue;
        *reason = absl::StrCat("not proved: sizes of output ", o, ": ", ctx_.Print(a[k]), " = ", ctx_.Print(b[k]));
        return false;
      }
    }
    return true;
  }

  // Each application by itself, at every position of its outputs: the operands' elements may then be taken for defined.
  bool ReadsInBounds(std::string* reason) {
    for (size_t k = 0; k < instance_.nodes.size(); ++k) {
      for (const Elements::ReadObligation& read : elements_.Reads(static_cast<int>(k))) {
        for (size_t axis = 0; axis < read.at.size(); ++axis) {
          Step("in bounds: ", read.text, ": 0 <= ", Text(read.at[axis]), " < ", Text(read.sizes[axis]), " where ",
               Text(read.path));
          if (InRange(read.path, read.at[axis], read.sizes[axis])) continue;
          *reason = absl::StrCat("not proved: a read of ", instance_.nodes[k].op->name, " is in bounds: ", read.text,
                                 ", index ", ctx_.Print(read.at[axis]), " of ", ctx_.Print(read.sizes[axis]));
          return false;
        }
      }
    }
    return true;
  }

  bool InRange(const Guard& path, const Poly& index, const Poly& size) {
    std::vector<Guard> facts;
    for (const Poly& goal : {index, size - index - Poly(1)}) {
      if (ctx_.QuickNonneg(goal) || ctx_.QuickNonnegByEquation(facts_, goal)) continue;
      bool given = false;
      for (const Guard& g : Conjuncts(path)) given = given || (g.IsGe() && ctx_.TriviallyNonneg(goal - g.poly()));
      if (given) continue;
      if (facts.empty()) {
        facts = facts_;
        facts.push_back(path);
      }
      if (!ctx_.solver().Implies(facts, Guard::Ge(goal), {}, "in bounds")) return false;
    }
    return true;
  }

  // Alternatives of positions that together cover the output. A product axis is indexed by digits; a sum axis, where
  // the strategy says so, is covered piece by piece.
  std::vector<std::vector<Poly>> Positions(const std::vector<Poly>& shape, std::vector<std::vector<Guard>>* facts) {
    std::vector<std::vector<Poly>> out = {{}};
    *facts = {{}};
    for (size_t k = 0; k < shape.size(); ++k) {
      std::vector<std::pair<Poly, Poly>> pieces = {{Poly(), shape[k]}};  // offset, size
      CutSum(shape[k], &pieces);
      std::vector<std::vector<Poly>> longer;
      std::vector<std::vector<Guard>> longer_facts;
      for (const auto& [offset, size] : pieces) {
        const std::string name = "i" + std::to_string(k);
        std::vector<Var> digits;
        Poly index;
        if (!SplitProduct(ctx_, name, size, &digits, &index)) {
          digits = {ctx_.NewRanged(name, Poly(), size)};
          index = Poly::Of(digits[0]);
        }
        index = index + offset;
        for (size_t a = 0; a < out.size(); ++a) {
          longer.push_back(out[a]);
          longer.back().push_back(index);
          longer_facts.push_back((*facts)[a]);
          longer_facts.back().push_back(Guard::InRange(index, Poly(), shape[k]));
        }
      }
      out = std::move(longer);
      *facts = std::move(longer_facts);
      if (out.size() > 64) throw GiveUp("too many cases of positions");
    }
    return out;
  }

  void CutSum(const Poly& size, std::vector<std::pair<Poly, Poly>>* pieces) {
    bool sum = size.items().size() > 1 || (size.items().size() == 1 && size.items()[0].coef > 1);
    if (size.IsConst() || !sum) return;
    ctx_.met_sum = true;
    if (!ctx_.strategy.sum_cases) return;
    for (const Poly::Item& item : size.items()) {
      if (item.coef < 0 || !ctx_.QuickNonneg(Poly::Of(item.vars, 1))) return;
    }
    pieces->clear();
    Poly offset;
    for (const Poly::Item& item : size.items()) {
      const int64_t copies = item.vars.empty() ? 1 : std::min<int64_t>(item.coef, 5);
      for (int64_t c = 0; c < copies; ++c) {
        // The last of very many copies takes the rest.
        int64_t coef = item.vars.empty() ? item.coef : c + 1 < copies ? 1 : item.coef - c;
        Poly piece = Poly::Of(item.vars, coef);
        pieces->emplace_back(offset, piece);
        offset = offset + piece;
      }
    }
  }

  Outcome EqualElements(std::string* reason) {
    for (size_t o = 0; o < instance_.lhs.size(); ++o) {
      std::vector<std::vector<Guard>> position_facts;
      std::vector<std::vector<Poly>> positions = Positions(elements_.Shape(instance_.lhs[o]), &position_facts);
      for (size_t p = 0; p < positions.size(); ++p) {
        std::vector<Guard> facts = facts_;
        facts.insert(facts.end(), position_facts[p].begin(), position_facts[p].end());
        Outcome outcome =
            ctx_.strategy.unroll ? EqualByRemainders(o, positions[p], facts) : EqualAt(o, positions[p], facts);
        if (outcome == Outcome::kProved) continue;
        *reason = absl::StrCat("not proved: the elements of output ", o, " are equal");
        return outcome;
      }
    }
    return Outcome::kProved;
  }

  // Where the elements depend on the remainder of a position p by d, at p = d q + 0, d q + 1, ..
  Outcome EqualByRemainders(size_t output, const std::vector<Poly>& at, const std::vector<Guard>& facts,
                            int depth = 0) {
    constexpr int kMostAxes = 4;
    ctx_.positions.clear();
    for (const Poly& p : at) {
      for (Var v : p.Vars()) {
        if (!ctx_.IsParam(v)) ctx_.positions.push_back(v);
      }
    }
    Var position = -1;
    Poly by;
    try {
      return EqualAt(output, at, facts);
    } catch (const DividedPosition& divided) {
      position = divided.position;
      by = Poly(divided.by);
    }
    if (depth == kMostAxes) throw GiveUp("positions are divided too often");
    const auto [low, high] = *ctx_.Info(position).range;
    const Poly q = Poly::Of(ctx_.NewRanged(ctx_.Info(position).name, Poly(), ctx_.FloorDiv(high + by - Poly(1), by)));
    for (Poly remainder; remainder != by; remainder = remainder + Poly(1)) {
      Substitution s;
      s.Set(position, by * q + remainder);
      std::vector<Poly> there;
      for (const Poly& p : at) there.push_back(ctx_.Subst(p, s));
      std::vector<Guard> known;
      for (const Guard& fact : facts) known.push_back(ctx_.Subst(fact, s));
      known.push_back(Guard::InRange(*s.Find(position), low, high));
      const Outcome outcome = EqualByRemainders(output, there, known, depth + 1);
      if (outcome != Outcome::kProved) return outcome;
    }
    return Outcome::kProved;
  }

  Outcome EqualAt(size_t output, const std::vector<Poly>& at, const std::vector<Guard>& facts) {
    NormalForm a = elements_.Element(instance_.lhs[output], at);
    NormalForm b = elements_.Element(instance_.rhs[output], at);
    Step("equal elements of output ", output, " at [",
         absl::StrJoin(at, ", ", [this](std::string* out, const Poly& p) { out->append(Text(p)); }), "]");
    Step("left: ", Text(a));
    Step("right: ", Text(b));
    Prover prover(ctx_, facts);
    auto is_range_max = [](const NormalForm& n) {
      if (!IsSingleAtom(n, AtomNode::Kind::kMax) || !IsExtremum(n[0].atoms[0]->name)) return false;
      const std::vector<Branch>& branches = n[0].atoms[0]->branches;
      return std::any_of(branches.begin(), branches.end(), [](const Branch& x) { return !x.bound.empty(); });
    };
    NormalForm difference = Add(ctx_, a, Scale(RenameAll(ctx_, b), -1));
    if (difference.empty()) {
      Step("the same normal form");
      return Outcome::kProved;
    }
    if (ctx_.strategy.probe && MentionsDefinition(difference)) return Outcome::kNextStrategy;
    if (is_range_max(a) && is_range_max(b) && a[0].atoms[0]->name == b[0].atoms[0]->name &&
        prover.EqualMaxima(a[0].atoms[0]->branches, b[0].atoms[0]->branches)) {
      return Outcome::kProved;
    }
    return prover.IsZero(LiftConditions(ctx_, difference)) ? Outcome::kProved : Outcome::kOpen;
  }

  bool MentionsDefinition(const NormalForm& n) const {
    std::vector<Poly> polys;
    AllPolys(n, &polys);
    return std::any_of(polys.begin(), polys.end(), [&](const Poly& p) { return ctx_.HasDefinition(p); });
  }

  const RuleInstance& instance_;
  Context ctx_;
  Elements elements_;
  std::vector<Guard> facts_;
  std::vector<std::string> provisos_;
};

// From cheap to thorough. First only laws that hold for infinities too.
std::vector<Strategy> Strategies() {
  std::vector<Strategy> out;
  for (bool probe : {true, false}) {
    for (bool finite_laws : {false, true}) {
      for (int order : {0, 1}) {
        out.push_back({.finite_laws = finite_laws, .probe = probe, .factor_order = order});
        out.push_back({.sum_cases = true, .finite_laws = finite_laws, .probe = probe, .factor_order = order});
        out.push_back({.split_products = true, .finite_laws = finite_laws, .probe = probe, .factor_order = order});
      }
    }
  }
  out.push_back({.finite_laws = true, .unfold = true});
  for (bool digits : {false, true}) {
    for (int order = 0; order <= (digits ? 1 : 0); ++order) {
      for (bool split : {false, true}) {
        out.push_back(
            {.split_products = split, .finite_laws = true, .factor_order = order, .quotients = true, .digits = digits});
      }
    }
  }
  out.push_back({.unroll = true});
  return out;
}

// What the attempts so far have shown to make no difference.
class Differences {
 public:
  // An attempt that was cut short shows nothing.
  void Note(const Strategy& strategy, const Attempt* finished, Outcome outcome) {
    const bool cut_short = finished == nullptr;
    products_ = products_ || cut_short || finished->context().met_product;
    sums_ = sums_ || cut_short || finished->context().met_sum;
    literals_ = literals_ || cut_short || finished->context().met_literal;
    if (strategy.probe && (cut_short || outcome == Outcome::kNextStrategy)) unprobed_.push_back(strategy);
  }
  bool Matters(const Strategy& s) const {
    if (!products_ && (s.split_products || s.factor_order != 0)) return false;
    if (!sums_ && s.sum_cases) return false;
    if (s.unroll) return literals_;
    return s.probe || s.unfold || s.quotients || std::any_of(unprobed_.begin(), unprobed_.end(), [&](Strategy t) {
             t.probe = false;
             return t == s;
           });
  }

 private:
  bool products_ = false, sums_ = false, literals_ = false;
  std::vector<Strategy> unprobed_;
};

// A concatenation of constants: what a matrix in a rule stands for.
bool HasMatrix(const RuleInstance& instance) {
  const auto constant = [&](const SymbolicValue& value) {
    return instance.nodes[value.node].splat.has_value() || IsFill(instance.nodes[value.node]);
  };
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [&](const SymbolicNode& node) {
    return node.op == ops::Concat() && std::all_of(node.inputs.begin(), node.inputs.end(), constant);
  });
}

void TryStrategies(const RuleInstance& instance, const ProofOptions& options, ProofSession* record,
                   const std::vector<std::vector<int64_t>>& assignments, ProofResult* result) {
  Legality legal;
  Differences differences;
  const std::vector<Strategy> strategies = Strategies();
  std::vector<const Strategy*> order;
  for (const Strategy& strategy : strategies) order.push_back(&strategy);
  // With a matrix nothing else leads anywhere.
  const bool unroll_first = HasMatrix(instance);
  if (unroll_first) std::rotate(order.begin(), order.end() - 1, order.end());
  for (const Strategy* tried : order) {
    const Strategy& strategy = *tried;
    if (tried != order[0] && !differences.Matters(strategy)) continue;
    // What the first three obligations left behind stays.
    record->steps.resize(legal.steps);
    record->smtlib.resize(legal.queries);
    record->nonlinear = legal.nonlinear;
    std::string reason;
    bool finished = false;
    try {
      Attempt attempt(instance, strategy, options, record, assignments);
      Outcome outcome = attempt.Run(&legal, &reason);
      if (outcome == Outcome::kProved) {
        result->verdict = Verdict::kProved;
        result->strategy = static_cast<int>(&strategy - strategies.data());
        result->used_finite_only_step = attempt.used_finite_law();
        result->used_bounds = attempt.context().used_bounds;
        result->provisos = attempt.provisos();
        result->reason.clear();
        return;
      }
      finished = true;
      differences.Note(strategy, &attempt, outcome);
    } catch (const GiveUp& stopped) {
      reason = stopped.reason;
    } catch (const std::exception& error) {
      reason = absl::StrCat("internal: ", error.what());
    }
    if (!finished) differences.Note(strategy, nullptr, Outcome::kOpen);
    if (!reason.empty()) result->reason = reason;
    if (!legal.proved) return;
    if (record->RemainingSeconds() <= 0) {
      result->reason = "time limit; last: " + reason;
      return;
    }
  }
}

void FollowStrategy(const RuleInstance& instance, int number, ProofSession* record, ProofResult* result) {
  const std::vector<Strategy> strategies = Strategies();
  if (number < 0 || number >= static_cast<int>(strategies.size())) {
    result->reason = absl::StrCat("found strategy ", number, ", expected one from 0 to ", strategies.size() - 1);
    return;
  }
  const Strategy& strategy = strategies[number];
  try {
    Legality legal;
    if (number != 0) {
      // The first three obligations are settled by the first attempt.
      Attempt first(instance, strategies[0], {}, record, {});
      if (!first.ProveLegality(&legal, &result->reason)) return;
    }
    Attempt attempt(instance, strategy, {}, record, {});
    if (attempt.Run(&legal, &result->reason) != Outcome::kProved) return;
    result->verdict = Verdict::kProved;
    result->strategy = number;
    result->used_finite_only_step = attempt.used_finite_law();
  } catch (const GiveUp& stopped) {
    result->reason = stopped.reason;
  } catch (const std::exception& error) {
    result->reason = absl::StrCat("internal: ", error.what());
  }
}

void TakeRecord(ProofSession* record, ProofResult* result) {
  result->queries = record->queries;
  result->used_nonlinear_arithmetic = record->nonlinear;
  result->steps = std::move(record->steps);
  result->smtlib = std::move(record->smtlib);
  result->cpu_ms = 1000 * (ThreadCpuSeconds() - record->cpu_start_s);
}

// Not where the search has found values: a solver need not be asked then.
bool IsVacuous(const RuleInstance& instance, const ProofOptions& options, ProofSession* record) {
  try {
    return Attempt(instance, Strategies()[0], options, record, {}).IsVacuous();
  } catch (const GiveUp&) {
    return false;
  }
}

}  // namespace
}  // namespace verifier

ProofResult Replay(const RuleInstance& instance, int strategy,
                   const std::function<bool(const SmtQuery&)>& known_unsat) {
  ProofResult result;
  verifier::ProofSession record;
  record.cpu_start_s = verifier::ThreadCpuSeconds();
  record.cpu_limit_s = 1e9;
  record.certify = true;
  record.known_unsat = known_unsat;
  verifier::SolverMemory memory;
  record.memory = &memory;
  verifier::FollowStrategy(instance, strategy, &record, &result);
  verifier::TakeRecord(&record, &result);
  return result;
}

ProofResult Prove(const RuleInstance& instance, const ProofOptions& options) {
  using verifier::CounterexampleSearch;
  using verifier::HasIntegers;
  using verifier::SearchIntegers;
  constexpr int kCounterexampleAttempts = 3;
  ProofResult result;
  verifier::ProofSession record;
  record.cpu_start_s = verifier::ThreadCpuSeconds();
  record.cpu_limit_s = options.time_limit_s;
  record.certify = options.keep_smtlib;
  verifier::SolverMemory own;
  record.memory = options.memory != nullptr ? options.memory : &own;
  CounterexampleSearch search(instance, options.seed);
  std::string unconfirmed;
  auto refute = [&](int trials, double limit_s) {
    if (!options.search_counterexample) return;
    for (int attempt = 0; attempt < kCounterexampleAttempts && !result.counterexample; ++attempt) {
      result.counterexample = search.Run(trials, limit_s);
      if (!result.counterexample) break;
      // Nothing is called false that the interpreter has not computed to be.
      const absl::Status confirmed = ConfirmCounterexample(instance, *result.counterexample);
      if (confirmed.ok()) continue;
      unconfirmed = std::string(confirmed.message());
      result.counterexample.reset();
    }
    if (!result.counterexample && HasIntegers(instance)) {
      std::mt19937_64 rng(options.seed);
      result.counterexample = SearchIntegers(instance, search.assignments(), trials / 2, &rng);
    }
    if (!result.counterexample) return;
    result.verdict = Verdict::kRefuted;
    result.reason = result.counterexample->ToString();
    result.reason = result.reason.substr(0, result.reason.find('\n'));
  };
  refute(options.trials, options.time_limit_s / 4);
  if (result.verdict != Verdict::kRefuted) {
    const bool searched = options.search_counterexample && search.assignments().empty();
    result.vacuous = searched && verifier::IsVacuous(instance, options, &record);
    verifier::TryStrategies(instance, options, &record, search.assignments(), &result);
    if (result.verdict == Verdict::kUnknown) refute(options.more_trials, options.time_limit_s);
  }
  if (result.verdict == Verdict::kUnknown && !unconfirmed.empty()) {
    absl::StrAppend(&result.reason, "; ", unconfirmed);
  }
  result.trials = search.trials();
  verifier::TakeRecord(&record, &result);
  return result;
}

}  // namespace rewright
