#include "verifier/prove/attempt.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "verifier/integer/give_up.h"
#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/substitute.h"
#include "verifier/prove/prover.h"

namespace rewright::verifier {

Attempt::Attempt(const RuleInstance& instance, const Strategy& strategy, const ProofOptions& options,
                 ProofSession* session, const std::vector<std::vector<int64_t>>& assignments)
    : instance_(instance), ctx_(session, strategy, options.seed), solver_(&ctx_), elements_(&ctx_, instance) {
  for (const std::vector<int64_t>& values : assignments) {
    Assignment sample;
    for (size_t s = 0; s < values.size(); ++s) sample[static_cast<Var>(s)] = values[s];
    ctx_.samples.push_back(std::move(sample));
  }
  OrderFactors(strategy.factor_order);
  if (ProofObserver* observer = ObserverOf(ctx_)) observer->Attempted(ctx_);
}

bool Attempt::Holds(const Guard& goal, const char* tag, Law law) {
  if (!Prover(ctx_, solver_, facts_).Holds(goal, tag)) return false;
  if (ProofObserver* observer = ObserverOf(ctx_)) observer->Decided(ctx_, law, facts_, {goal}, {});
  return true;
}

Outcome Attempt::Run(Legality* legal, std::string* reason) {
  return ProveLegality(legal, reason) ? EqualElements(reason) : Outcome::kFailed;
}

bool Attempt::ProveLegality(Legality* legal, std::string* reason) {
  CollectFacts();
  if (legal->proved) return true;
  if (!WellFormed(reason) || !EqualTypes(reason) || !ReadsInBounds(reason)) return false;
  const ProofSession& session = *ctx_.session;
  *legal = {true, session.steps.size(), session.smtlib.size()};
  return true;
}

bool Attempt::IsVacuous() {
  CollectFacts();
  return solver_.Implies(facts_, Guard::False(), {}, "vacuous");
}

void Attempt::CollectFacts() {
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
  if (ProofObserver* observer = ObserverOf(ctx_)) observer->Stated(ctx_, elements_.symbols());
}

void Attempt::AssumeConstantsHaveElements() {
  for (int k = instance_.num_lhs_nodes; k < static_cast<int>(instance_.nodes.size()); ++k) {
    if (!IsLeaf(k)) continue;
    for (const Poly& size : elements_.Shape({k, 0})) {
      const Guard nonempty = Guard::Ge(size - Poly(1));
      if (Holds(nonempty, "a constant has elements", Law::kConstantHasElements)) continue;
      Step("provided that a constant of the right side has elements: ", Text(nonempty));
      provisos_.push_back(absl::StrCat(ctx_.Print(size), " >= 1"));
      facts_.push_back(nonempty);
      ctx_.SetFacts(facts_);
    }
  }
}

void Attempt::OrderFactors(int order) {
  // Declaration order of the symbols is the order in which a rule names them: most significant factor first.
  for (size_t s = 0; s < instance_.symbols.size(); ++s) ctx_.factor_order.push_back(static_cast<Var>(s));
  if (order == 1) std::reverse(ctx_.factor_order.begin(), ctx_.factor_order.end());
}

bool Attempt::WellFormed(std::string* reason) {
  for (const Guard& g : elements_.Requirements(instance_.num_lhs_nodes, static_cast<int>(instance_.nodes.size()))) {
    Step("the right side is legal: ", Text(g));
    if (Holds(g, "legal", Law::kLegal)) continue;
    *reason = absl::StrCat("not proved: the right side is legal: ", ctx_.Print(g));
    return false;
  }
  return true;
}

DType Attempt::TypeOf(SymbolicValue v) const {
  const SymbolicNode& n = instance_.nodes[v.node];
  return n.meaning != nullptr ? n.meaning->outputs[v.output].dtype : n.dtypes[v.output];
}

bool Attempt::EqualTypes(std::string* reason) {
  if (instance_.lhs.size() != instance_.rhs.size()) {
    *reason = "the sides have different numbers of outputs";
    return false;
  }
  for (size_t o = 0; o < instance_.lhs.size(); ++o) {
    std::vector<Poly> a = elements_.Shape(instance_.lhs[o]), b = elements_.Shape(instance_.rhs[o]);
    if (a.size() != b.size() || TypeOf(instance_.lhs[o]) != TypeOf(instance_.rhs[o])) {
      *reason = absl::StrCat("output ", o, " has another rank or element type on the right");
      return false;
    }
    for (size_t k = 0; k < a.size(); ++k) {
      Step("equal sizes of output ", o, ": ", Text(a[k]), " = ", Text(b[k]));
      if (Holds(Guard::Eq(a[k] - b[k]), "shape", Law::kShape)) continue;
      *reason = absl::StrCat("not proved: sizes of output ", o, ": ", ctx_.Print(a[k]), " = ", ctx_.Print(b[k]));
      return false;
    }
  }
  return true;
}

bool Attempt::ReadsInBounds(std::string* reason) {
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

bool Attempt::InRange(const Guard& path, const Poly& index, const Poly& size) {
  if (!DecideInRange(path, index, size)) return false;
  if (ProofObserver* observer = ObserverOf(ctx_)) {
    observer->Decided(ctx_, Law::kInBounds, {path}, {Guard::InRange(index, Poly(), size)}, {});
  }
  return true;
}

bool Attempt::DecideInRange(const Guard& path, const Poly& index, const Poly& size) {
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
    if (!solver_.Implies(facts, Guard::Ge(goal), {}, "in bounds")) return false;
  }
  return true;
}

std::vector<std::vector<Poly>> Attempt::Positions(const std::vector<Poly>& shape,
                                                  std::vector<std::vector<Guard>>* facts) {
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

void Attempt::CutSum(const Poly& size, std::vector<std::pair<Poly, Poly>>* pieces) {
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

Outcome Attempt::EqualElements(std::string* reason) {
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

Outcome Attempt::EqualByRemainders(size_t output, const std::vector<Poly>& at, const std::vector<Guard>& facts,
                                   int depth) {
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

Outcome Attempt::EqualAt(size_t output, const std::vector<Poly>& at, const std::vector<Guard>& facts) {
  NormalForm a = elements_.Element(instance_.lhs[output], at);
  NormalForm b = elements_.Element(instance_.rhs[output], at);
  Step("equal elements of output ", output, " at [",
       absl::StrJoin(at, ", ", [this](std::string* out, const Poly& p) { out->append(Text(p)); }), "]");
  Step("left: ", Text(a));
  Step("right: ", Text(b));
  ProofObserver* const observer = ObserverOf(ctx_);
  if (observer != nullptr) {
    for (const auto& [value, form] : {std::pair(instance_.lhs[output], a), {instance_.rhs[output], b}}) {
      observer->Composed(ctx_, value.node, value.output, at, form);
    }
  }
  Prover prover(ctx_, solver_, facts);
  auto is_range_max = [](const NormalForm& n) {
    if (!IsSingleAtom(n, AtomNode::Kind::kBinder) || !IsExtremum(n[0].atoms[0]->name)) return false;
    const std::vector<Family>& families = n[0].atoms[0]->families;
    return std::any_of(families.begin(), families.end(), [](const Family& x) { return !x.bound.empty(); });
  };
  NormalForm difference = Add(ctx_, a, Scale(RenameAll(ctx_, b), -1));
  std::vector<std::vector<MovedTerm>> classes;
  if (difference.empty()) {
    Step("the same normal form");
  } else if (ctx_.strategy.probe && MentionsDefinition(difference)) {
    return Outcome::kNextStrategy;
  } else if (!is_range_max(a) || !is_range_max(b) || a[0].atoms[0]->name != b[0].atoms[0]->name ||
             !prover.EqualMaxima(a[0].atoms[0]->families, b[0].atoms[0]->families)) {
    difference = LiftConditions(ctx_, difference);
    if (!prover.IsZero(difference, observer != nullptr ? &classes : nullptr)) return Outcome::kOpen;
  }
  if (observer == nullptr) return Outcome::kProved;
  NormalForm sides = a;
  for (Term t : b) {
    t.coef = -t.coef;
    sides.push_back(std::move(t));
  }
  observer->Equal(ctx_, Law::kDifference, Guard::And(facts), sides, difference);
  observer->Zero(ctx_, facts, difference, classes);
  return Outcome::kProved;
}

bool Attempt::MentionsDefinition(const NormalForm& n) const {
  std::vector<Poly> polys;
  AllPolys(n, &polys);
  return std::any_of(polys.begin(), polys.end(), [&](const Poly& p) { return ctx_.HasDefinition(p); });
}

}  // namespace rewright::verifier
