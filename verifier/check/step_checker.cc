#include "verifier/check/step_checker.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/work.h"
#include "verifier/check/step_values.h"
#include "verifier/integer/give_up.h"

namespace rewright {

using verifier::Atom;
using verifier::AtomNode;
using verifier::ElementValues;
using verifier::Family;
using verifier::Has;
using verifier::IndexEnvironment;
using verifier::IndexSum;
using verifier::Law;
using verifier::StepQueryBuilder;
using verifier::VarInfo;

namespace {

constexpr unsigned kLimit = 500000;  // of Z3, for one question
constexpr unsigned kLittle = 3000;   // the same, where there is another way to ask
// Seconds of work (work.h) on one checker's questions that stay open; later ones are not asked.
constexpr double kMostLostSeconds = 20;
// Seconds on the clock, for a question on which Z3 counts nothing; it stays open then.
constexpr double kQuestionHangSeconds = 1;
constexpr size_t kMostRefused = 20;

// v, or a quotient, minimum or element in which it occurs.
bool Mentions(const verifier::Variables& ctx, const verifier::Poly& p, verifier::Var v) {
  for (const verifier::Poly::Item& item : p.items()) {
    if (std::any_of(item.vars.begin(), item.vars.end(),
                    [&](verifier::Var x) { return x == v || Has(ctx.Info(x).inner, v); })) {
      return true;
    }
  }
  return false;
}

bool Mentions(const verifier::Variables& ctx, const verifier::Guard& g, verifier::Var v) {
  using Kind = verifier::Guard::Kind;
  if (g.kind() == Kind::kGe || g.kind() == Kind::kEq) return Mentions(ctx, g.poly(), v);
  if (g.kind() != Kind::kAnd && g.kind() != Kind::kNot) return false;
  return std::any_of(g.args().begin(), g.args().end(),
                     [&](const verifier::Guard& part) { return Mentions(ctx, part, v); });
}

std::vector<verifier::Guard> Parts(const verifier::Guard& g) {
  if (g.kind() == verifier::Guard::Kind::kAnd) return g.args();
  return {g};
}

IndexEnvironment With(const IndexEnvironment& outer, const std::vector<verifier::Var>& vars,
                      const std::vector<IndexSum>& values) {
  IndexEnvironment inner = outer;
  for (size_t i = 0; i < vars.size(); ++i) inner[vars[i]] = values[i];
  return inner;
}

}  // namespace

StepChecker::~StepChecker() = default;

// ---------------------------------------------------------------- the same elements under two environments

// Collects the equalities of indices that make two terms equal.
class StepChecker::Comparison {
 public:
  Comparison(StepChecker& checker, StepQueryBuilder& claim, std::vector<std::string> facts)
      : checker_(checker), claim_(claim), facts_(std::move(facts)) {}

  // kWrong where the two are of different shape.
  Finding OfAtoms(const std::vector<Atom>& a, const IndexEnvironment& ea, const std::vector<Atom>& b,
                  const IndexEnvironment& eb) {
    if (a.size() != b.size()) return Finding::kWrong;
    return Paired(a.size(), [&](size_t i, size_t j) { return OfAtom(*a[i], ea, *b[j], eb); });
  }

  Finding OfForms(const NormalForm& a, const IndexEnvironment& ea, const NormalForm& b, const IndexEnvironment& eb) {
    if (a.size() != b.size()) return Finding::kWrong;
    return Paired(a.size(), [&](size_t i, size_t j) {
      return a[i].coef == b[j].coef ? OfTerms(a[i], ea, b[j], eb) : Finding::kWrong;
    });
  }

  // Matches each of `count` things with one of as many others, in their order if possible. Gives the worst finding
  // `of(i, j)`, where j is the best of the others that are left for thing i.
  template <typename F>
  static Finding Paired(size_t count, F of) {
    std::vector<bool> taken(count, false);
    Finding worst = Finding::kText;
    for (size_t i = 0; i < count; ++i) {
      Finding best = Finding::kWrong;
      size_t place = 0;
      for (size_t k = 0; k < count && best != Finding::kText; ++k) {
        const size_t j = (i + k) % count;
        if (taken[j]) continue;
        const Finding finding = of(i, j);
        if (finding < best) {
          best = finding;
          place = j;
        }
      }
      if (best == Finding::kWrong) return best;
      taken[place] = true;
      worst = std::max(worst, best);
    }
    return worst;
  }

  // But for the coefficient. The bound variables correspond in some order.
  Finding OfTerms(const Term& a, const IndexEnvironment& ea, const Term& b, const IndexEnvironment& eb) {
    return OfBinders(a.bound, a.guard, ea, a.atoms, b.bound, b.guard, eb, b.atoms,
                     [&](Comparison& inner, const IndexEnvironment& ia, const IndexEnvironment& ib) {
                       return inner.OfAtoms(a.atoms, ia, b.atoms, ib);
                     });
  }

 private:
  // Notes the places of v: names of reads and of the integers beside them, and the axes.
  static void AddPlaces(const Variables& ctx, Var v, const Atom& atom, std::multiset<std::string>* places) {
    for (size_t axis = 0; axis < atom->at.size(); ++axis) {
      if (Mentions(ctx, atom->at[axis], v)) places->insert(absl::StrCat(atom->name, " ", axis));
    }
    if (Mentions(ctx, atom->value, v)) places->insert(atom->name);
    const auto of_form = [&](const NormalForm& form) {
      for (const Term& t : form) {
        for (const Atom& inner : t.atoms) AddPlaces(ctx, v, inner, places);
      }
    };
    for (const NormalForm& form : atom->args) of_form(form);
    for (const Family& family : atom->families) of_form(family.body);
  }

  // The numbers of the variables, in the order of the places where they stand.
  std::vector<size_t> ByPlaces(const std::vector<Var>& vars, const std::vector<Atom>& atoms) const {
    std::vector<std::pair<std::multiset<std::string>, size_t>> places(vars.size());
    for (size_t i = 0; i < vars.size(); ++i) {
      places[i].second = i;
      for (const Atom& atom : atoms) AddPlaces(claim_.context(), vars[i], atom, &places[i].first);
    }
    std::sort(places.begin(), places.end());
    std::vector<size_t> order;
    for (const auto& entry : places) order.push_back(entry.second);
    return order;
  }

  // `in_a` and `in_b`: atoms in which the variables stand.
  template <typename Body>
  Finding OfBinders(const std::vector<Var>& a, const Guard& ga, const IndexEnvironment& ea,
                    const std::vector<Atom>& in_a, const std::vector<Var>& b, const Guard& gb,
                    const IndexEnvironment& eb, const std::vector<Atom>& in_b, const Body& body) {
    constexpr size_t kMostPermuted = 4;
    if (a.size() != b.size()) return Finding::kWrong;
    claim_.Hide(a);
    claim_.Hide(b);
    std::vector<IndexSum> fresh;
    for (size_t i = 0; i < a.size(); ++i) fresh.push_back(claim_.Fresh());
    const IndexEnvironment ia = With(ea, a, fresh);
    const std::string left = claim_.Of(ga, ia);
    // `order[i]` is the partner in a of variable i of b.
    const auto in_order = [&](const std::vector<size_t>& order) {
      std::vector<IndexSum> permuted;
      for (size_t i : order) permuted.push_back(fresh[i]);
      const IndexEnvironment ib = With(eb, b, permuted);
      const std::string right = claim_.Of(gb, ib);
      Comparison inner(checker_, claim_, facts_);
      for (const Guard& part : Parts(ga)) inner.facts_.push_back(claim_.Of(part, ia));
      return std::max(OfGuards(ga, ia, left, gb, ib, right), body(inner, ia, ib));
    };
    // First those that stand in the same places of reads.
    std::vector<size_t> order(a.size());
    const std::vector<size_t> mine = ByPlaces(a, in_a), theirs = ByPlaces(b, in_b);
    for (size_t i = 0; i < order.size(); ++i) order[theirs[i]] = mine[i];
    Finding best = in_order(order);
    if (best == Finding::kText || a.size() > kMostPermuted) return best;
    std::sort(order.begin(), order.end());
    do {
      best = std::min(best, in_order(order));
    } while (best != Finding::kText && std::next_permutation(order.begin(), order.end()));
    return best;
  }

  Finding OfGuards(const Guard& ga, const IndexEnvironment& ia, const std::string& left, const Guard& gb,
                   const IndexEnvironment& ib, const std::string& right) {
    if (left == right) return Finding::kText;
    std::set<std::string> mine, theirs;
    for (const Guard& part : Parts(ga)) mine.insert(claim_.Of(part, ia));
    for (const Guard& part : Parts(gb)) theirs.insert(claim_.Of(part, ib));
    if (mine == theirs) return Finding::kText;
    return checker_.Ask(claim_, facts_, {absl::StrCat("(= ", left, " ", right, ")")});
  }

  Finding OfAtom(const AtomNode& a, const IndexEnvironment& ea, const AtomNode& b, const IndexEnvironment& eb) {
    if (&a == &b && ea == eb) return Finding::kText;
    if (a.kind != b.kind || a.name != b.name || a.at.size() != b.at.size() || a.args.size() != b.args.size() ||
        a.families.size() != b.families.size()) {
      return Finding::kWrong;
    }
    std::vector<std::string> equations;
    for (size_t i = 0; i < a.at.size(); ++i) {
      equations.push_back(claim_.Equal(claim_.Of(a.at[i], ea), claim_.Of(b.at[i], eb)));
    }
    if (a.kind == AtomNode::Kind::kInt) {
      equations.push_back(claim_.Equal(claim_.Of(a.value, ea), claim_.Of(b.value, eb)));
    }
    Finding worst = checker_.Ask(claim_, facts_, equations);
    for (size_t i = 0; i < a.args.size() && worst != Finding::kWrong; ++i) {
      worst = std::max(worst, OfForms(a.args[i], ea, b.args[i], eb));
    }
    std::vector<bool> taken(b.families.size(), false);
    for (size_t i = 0; i < a.families.size() && worst != Finding::kWrong; ++i) {
      Finding best = Finding::kWrong;
      size_t place = 0;
      for (size_t k = 0; k < b.families.size() && best != Finding::kText; ++k) {
        const size_t j = (i + k) % b.families.size();
        if (taken[j]) continue;
        const Family &x = a.families[i], &y = b.families[j];
        const Finding finding =
            OfBinders(x.bound, x.guard, ea, AtomsOf(x.body), y.bound, y.guard, eb, AtomsOf(y.body),
                      [&](Comparison& inner, const IndexEnvironment& ia, const IndexEnvironment& ib) {
                        return inner.OfForms(x.body, ia, y.body, ib);
                      });
        if (finding < best) {
          best = finding;
          place = j;
        }
      }
      if (best != Finding::kWrong) taken[place] = true;
      worst = std::max(worst, best);
    }
    return worst;
  }

  StepChecker& checker_;
  StepQueryBuilder& claim_;
  std::vector<std::string> facts_;
};

// ---------------------------------------------------------------- questions

StepChecker::Finding StepChecker::Ask(StepQueryBuilder& claim, const std::vector<std::string>& facts,
                                      const std::vector<std::string>& goals) {
  const std::vector<std::string> open = claim.Open(facts, goals);
  if (open.empty()) return Finding::kText;
  SmtAnswer answer = SmtAnswer::kUnknown;
  for (bool connected : {true, false}) {  // facts may contradict each other without the goal
    const SmtQuery query = claim.Query(facts, open, connected);
    if (connected && query.logic == "QF_NIA") {
      // Easy queries are settled as they are; Z3 wastes its time on products that are hard.
      answer = AnswerTo(query, kLittle);
      if (answer == SmtAnswer::kUnknown && AnswerTo(StepQueryBuilder::LemmaOfProducts(), kLimit) == SmtAnswer::kUnsat) {
        answer = AnswerTo(claim.LinearQuery(facts, open), kLimit);
      }
      if (answer == SmtAnswer::kUnsat) return Finding::kQuestion;
    }
    answer = AnswerTo(query, kLimit);
    if (answer == SmtAnswer::kUnsat) return Finding::kQuestion;
  }
  return answer == SmtAnswer::kUnknown ? Finding::kOpen : Finding::kWrong;
}

SmtAnswer StepChecker::AnswerTo(SmtQuery query, unsigned limit) {
  Asked& asked = answers_[query.text];
  if (asked.answer != SmtAnswer::kUnknown || asked.limit >= limit) return asked.answer;
  if (lost_s_ > kMostLostSeconds && query.logic == "QF_NIA") return asked.answer;
  asked.limit = limit;
  const double start_s = verifier::ThreadWorkSeconds();
  const absl::StatusOr<SmtAnswer> answer = AskZ3(query, limit, kQuestionHangSeconds);
  if (answer.ok()) {
    asked.answer = *answer;
  } else if (report_.refused.size() < kMostRefused) {
    const std::string why(answer.status().message());
    report_.refused.push_back(absl::StrCat("a question that no solver reads: ", why));
  }
  if (asked.answer == SmtAnswer::kUnknown) lost_s_ += verifier::ThreadWorkSeconds() - start_s;
  if (asked.answer == SmtAnswer::kUnsat) report_.questions.push_back(std::move(query));
  return asked.answer;
}

std::vector<std::string> StepChecker::FactsOf(const Variables& ctx, StepQueryBuilder& claim) {
  std::vector<std::string> facts;
  for (const std::vector<Guard>* all : {&ctx.facts(), &ctx.assumptions}) {
    for (const Guard& g : *all) {
      for (const Guard& part : Parts(g)) facts.push_back(claim.Of(part, {}));
    }
  }
  return facts;
}

namespace {

// An element that selects positions, also below quotients and minima.
bool HasElement(const verifier::Variables& ctx, const verifier::Poly& p) {
  const auto has = [&](verifier::Var v) {
    const VarInfo& info = ctx.Info(v);
    return info.kind == VarInfo::Kind::kValue || HasElement(ctx, info.a) || HasElement(ctx, info.b);
  };
  return std::any_of(p.items().begin(), p.items().end(), [&](const verifier::Poly::Item& item) {
    return std::any_of(item.vars.begin(), item.vars.end(), has);
  });
}

// A value as a whole, which opaque operators read.
bool HasWholeValue(const verifier::NormalForm& n) {
  const auto has = [](const Atom& a) {
    return verifier::IsWholeValue(*a) || std::any_of(a->args.begin(), a->args.end(), HasWholeValue) ||
           std::any_of(a->families.begin(), a->families.end(),
                       [](const Family& family) { return HasWholeValue(family.body); });
  };
  return std::any_of(n.begin(), n.end(),
                     [&](const verifier::Term& t) { return std::any_of(t.atoms.begin(), t.atoms.end(), has); });
}

}  // namespace

bool StepChecker::Subject::HasElements(const Variables& ctx) const {
  std::vector<Poly> polys = indices;
  for (const Guard& g : guards) verifier::CollectPolys(g, &polys);
  verifier::AllPolys(terms, &polys);
  return HasWholeValue(terms) ||
         std::any_of(polys.begin(), polys.end(), [&](const Poly& p) { return HasElement(ctx, p); });
}

std::string StepChecker::Subject::ToString(const Variables& ctx) const {
  std::vector<std::string> parts;
  if (!note.empty()) parts.push_back(note);
  for (const Term& t : terms) parts.push_back(absl::StrCat(t.coef.ToString(), " ", verifier::TermKey(ctx, t)));
  for (const Guard& g : guards) parts.push_back(ctx.Print(g));
  for (const Poly& p : indices) parts.push_back(ctx.Print(p));
  return absl::StrJoin(parts, ", ");
}

void StepChecker::Note(const Variables& ctx, Finding finding, Law law, absl::FunctionRef<Subject()> subject) {
  LawSteps& own = report_.by_law[law];
  const auto open = [&] {
    ++own.open;
    ++report_.open[verifier::LawName(law)];
  };
  ++report_.steps;
  ++own.steps;
  switch (finding) {
    case Finding::kText:
      ++report_.by_text;
      ++own.by_text;
      return;
    case Finding::kQuestion:
      ++report_.by_question;
      ++own.by_question;
      return;
    case Finding::kValue:
      ++report_.by_value;
      ++own.by_value;
      return;
    case Finding::kOpen: open(); return;
    case Finding::kWrong: break;
  }
  const Subject wrong = subject();
  // This checker knows nothing of the assumptions that rules make of indices that are elements, nor of the results of
  // opaque operators.
  if (wrong.HasElements(ctx)) {
    ++own.excused;
    open();
    return;
  }
  ++own.refused;
  if (report_.refused.size() < kMostRefused) {
    report_.refused.push_back(absl::StrCat(verifier::LawName(law), ": ", wrong.ToString(ctx),
                                           instance_ == nullptr ? "" : " at ",
                                           instance_ == nullptr ? "" : instance_->description));
  }
}

// ---------------------------------------------------------------- laws of sums

void StepChecker::Resummed(const Variables& ctx, Law law, const Term& before, const Term& after,
                           const Substitution& forward, const Substitution& backward) {
  Finding finding = before.coef == after.coef ? Finding::kText : Finding::kWrong;
  // From after to before: u are the variables of after.
  {
    StepQueryBuilder claim(ctx);
    claim.Hide(before.bound);
    claim.Hide(after.bound);
    IndexEnvironment f;
    for (const auto& [v, p] : forward.entries()) f[v] = claim.Of(p, {});
    std::vector<std::string> facts = FactsOf(ctx, claim);
    for (const Guard& part : Parts(after.guard)) facts.push_back(claim.Of(part, {}));
    std::vector<std::string> goals;
    for (const Guard& part : Parts(before.guard)) goals.push_back(claim.Of(part, f));
    for (Var u : after.bound) {
      const Poly* back = backward.Find(u);
      if (back == nullptr && !Has(before.bound, u)) finding = Finding::kWrong;
      const auto same = f.find(u);
      const IndexSum there = back != nullptr   ? claim.Of(*back, f)
                             : same != f.end() ? same->second
                                               : claim.Of(Poly::Of(u), {});
      goals.push_back(claim.Equal(there, claim.Of(Poly::Of(u), {})));
    }
    finding = std::max(finding, Ask(claim, facts, goals));
    if (finding != Finding::kWrong) {
      Comparison atoms(*this, claim, facts);
      finding = std::max(finding, atoms.OfAtoms(before.atoms, f, after.atoms, {}));
    }
  }
  // From before to after.
  if (finding != Finding::kWrong) {
    StepQueryBuilder claim(ctx);
    claim.Hide(before.bound);
    claim.Hide(after.bound);
    IndexEnvironment b;
    for (const auto& [v, p] : backward.entries()) b[v] = claim.Of(p, {});
    std::vector<std::string> facts = FactsOf(ctx, claim);
    for (const Guard& part : Parts(before.guard)) facts.push_back(claim.Of(part, {}));
    std::vector<std::string> goals;
    for (const Guard& part : Parts(after.guard)) goals.push_back(claim.Of(part, b));
    for (Var v : before.bound) {
      const Poly* there = forward.Find(v);
      if (there == nullptr && !Has(after.bound, v)) finding = Finding::kWrong;
      if (there != nullptr) goals.push_back(claim.Equal(claim.Of(*there, b), claim.Of(Poly::Of(v), {})));
    }
    finding = std::max(finding, Ask(claim, facts, goals));
  }
  Note(ctx, finding, law, [&] {
    Subject subject{.terms = {before, after}};
    for (const auto& [v, p] : forward.entries()) subject.guards.push_back(Guard::Eq(Poly::Of(v) - p));
    return subject;
  });
}

void StepChecker::Counted(const Variables& ctx, const Term& before, const Term& after, Var v, const Poly& count) {
  Finding finding = Finding::kWrong;
  std::vector<Atom> atoms = after.atoms;
  const bool counted = !atoms.empty() && atoms.back()->kind == AtomNode::Kind::kInt && atoms.back()->value == count;
  if (counted) atoms.pop_back();
  std::vector<Var> bound = before.bound;
  bound.erase(std::remove(bound.begin(), bound.end(), v), bound.end());
  const bool plain = counted && atoms == before.atoms && bound == after.bound && before.coef == after.coef &&
                     !Mentions(ctx, count, v) && !Mentions(ctx, after.guard, v) &&
                     std::none_of(atoms.begin(), atoms.end(), [&](const Atom& a) { return Has(a->vars, v); }) &&
                     std::none_of(bound.begin(), bound.end(), [&](Var other) { return Mentions(ctx, count, other); });
  for (const Guard& part : Parts(before.guard)) {
    // Some condition says v + c >= 0.
    if (!plain || finding != Finding::kWrong || !part.IsGe() || part.poly().Coef(v) != 1) continue;
    bool once = true;
    for (const Poly::Item& item : part.poly().items()) {
      once = once && ((item.vars.size() == 1 && item.vars[0] == v) || !Mentions(ctx, Poly::Of(item.vars, 1), v));
    }
    if (!once) continue;
    StepQueryBuilder claim(ctx);
    claim.Hide(before.bound);
    const IndexSum from = claim.Of(part.poly(), {}), n = claim.Of(count, {});
    const std::string range =
        absl::StrCat("(and ", claim.AtLeastZero(from), " ",
                     claim.AtLeastZero(verifier::PlusTimes(verifier::PlusTimes(n, from, -1), {{{}, 1}}, -1)), ")");
    const std::string rest = claim.Of(after.guard, {});
    const std::vector<std::string> facts = FactsOf(ctx, claim);
    finding = Ask(claim, facts,
                  {absl::StrCat("(= ", claim.Of(before.guard, {}), " (and ", range, " ", rest, "))"),
                   absl::StrCat("(=> ", rest, " ", claim.AtLeastZero(n), ")")});
  }
  Note(ctx, finding, Law::kCounting, [&] { return Subject{.terms = {before, after}}; });
}

void StepChecker::Vanished(const Variables& ctx, const Term& term) {
  StepQueryBuilder claim(ctx);
  claim.Hide(term.bound);
  std::vector<std::string> facts = FactsOf(ctx, claim);
  for (const Guard& part : Parts(term.guard)) facts.push_back(claim.Of(part, {}));
  const Finding finding = Ask(claim, facts, {"false"});
  Note(ctx, finding, Law::kEmptyGuard, [&] { return Subject{.terms = {term}}; });
}

void StepChecker::Collected(const Variables& ctx, const NormalForm& parts, const std::vector<size_t>& place,
                            const NormalForm& sum) {
  std::vector<verifier::Rational> coefs(sum.size(), 0);
  std::vector<bool> met(sum.size(), false);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t at = place[i];
    coefs[at] = coefs[at] + parts[i].coef;
    if (met[at]) {
      StepQueryBuilder claim(ctx);
      Comparison same(*this, claim, FactsOf(ctx, claim));
      const Finding finding = same.OfTerms(parts[i], {}, sum[at], {});
      Note(ctx, finding, Law::kEqualTerms, [&] { return Subject{.terms = {parts[i], sum[at]}}; });
    }
    met[at] = true;
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    if (coefs[i] != sum[i].coef) {
      Note(ctx, Finding::kWrong, Law::kCoefficients,
           [&] { return Subject{.note = absl::StrCat(coefs[i].ToString(), " is expected of"), .terms = {sum[i]}}; });
    }
  }
}

void StepChecker::Zero(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum,
                       const std::vector<std::vector<verifier::MovedTerm>>& classes) {
  std::vector<bool> met(sum.size(), false);
  for (const std::vector<verifier::MovedTerm>& terms : classes) {
    NormalForm members;
    for (const verifier::MovedTerm& t : terms) {
      if (t.place >= sum.size() || met[t.place]) {
        Note(ctx, Finding::kWrong, Law::kClassesOfTerms, [&] { return Subject{.terms = {t.moved}}; });
        continue;
      }
      met[t.place] = true;
      Resummed(ctx, Law::kAlignment, sum[t.place], t.moved, t.forward, t.backward);
      members.push_back(t.moved);
    }
    if (!members.empty()) Cancelled(ctx, facts, members);
  }
  NormalForm rest;
  for (size_t i = 0; i < sum.size(); ++i) {
    if (!met[i]) rest.push_back(sum[i]);
  }
  if (rest.empty()) return;
  ++report_.joint;
  Equal(ctx, Law::kJointQuery, Guard::And(facts), rest, {});
}

void StepChecker::Cancelled(const Variables& ctx, const std::vector<Guard>& given, const NormalForm& members) {
  StepQueryBuilder claim(ctx);
  for (const Term& t : members) claim.Hide(t.bound);
  std::vector<std::string> facts = FactsOf(ctx, claim);
  for (const Guard& g : given) facts.push_back(claim.Of(g, {}));
  Finding finding = Finding::kText;
  verifier::Rational scale = 1;
  for (const Term& t : members) {
    if (t.bound != members[0].bound) finding = Finding::kWrong;
    scale = scale * verifier::Rational((t.coef * scale).den());
  }
  std::string total = "(+ 0";
  for (const Term& t : members) {
    std::vector<std::string> here = facts;
    here.push_back(claim.Of(t.guard, {}));
    Comparison atoms(*this, claim, here);
    finding = std::max(finding, atoms.OfAtoms(t.atoms, {}, members[0].atoms, {}));
    const int64_t coef = (t.coef * scale).num();
    absl::StrAppend(&total, " (ite ", claim.Of(t.guard, {}), " ",
                    coef < 0 ? absl::StrCat("(- ", -coef, ")") : absl::StrCat(coef), " 0)");
  }
  if (finding != Finding::kWrong) finding = std::max(finding, Ask(claim, facts, {absl::StrCat("(= ", total, ") 0)")}));
  Note(ctx, finding, Law::kCancelling, [&] { return Subject{.terms = members}; });
}

// ---------------------------------------------------------------- indices

void StepChecker::Decided(const Variables& ctx, Law law, const std::vector<Guard>& also,
                          const std::vector<Guard>& goals, const std::vector<Var>& hidden) {
  StepQueryBuilder claim(ctx);
  claim.Hide(hidden);
  std::vector<std::string> facts = FactsOf(ctx, claim), wanted;
  for (const Guard& g : also) {
    for (const Guard& part : Parts(g)) facts.push_back(claim.Of(part, {}));
  }
  for (const Guard& g : goals) {
    for (const Guard& part : Parts(g)) wanted.push_back(claim.Of(part, {}));
  }
  const Finding finding = Ask(claim, facts, wanted);
  Note(ctx, finding, law, [&] { return Subject{.guards = goals}; });
}

void StepChecker::Divided(const Variables& ctx, const Poly& num, const Poly& den, const Poly& result) {
  StepQueryBuilder claim(ctx);
  const IndexSum n = claim.Of(num, {}), d = claim.Of(den, {}), q = claim.Of(result, {});
  const IndexSum rest = verifier::PlusTimes(n, verifier::Times(d, q), -1);
  std::vector<std::string> facts = FactsOf(ctx, claim);
  // The prover decides before it divides that the divisor is positive.
  facts.push_back(claim.AtLeastZero(verifier::PlusTimes(d, {{{}, 1}}, -1)));
  const Finding finding =
      Ask(claim, facts,
          {claim.AtLeastZero(rest),
           claim.AtLeastZero(verifier::PlusTimes(verifier::PlusTimes(d, rest, -1), {{{}, 1}}, -1))});
  Note(ctx, finding, Law::kQuotient, [&] { return Subject{.indices = {num, den, result}}; });
}

void StepChecker::Least(const Variables& ctx, const Poly& a, const Poly& b, const Poly& result) {
  StepQueryBuilder claim(ctx);
  const IndexSum x = claim.Of(a, {}), y = claim.Of(b, {}), least = claim.Of(result, {});
  const Finding finding =
      Ask(claim, FactsOf(ctx, claim),
          {claim.AtLeastZero(verifier::PlusTimes(x, least, -1)), claim.AtLeastZero(verifier::PlusTimes(y, least, -1)),
           absl::StrCat("(or ", claim.Equal(least, x), " ", claim.Equal(least, y), ")")});
  Note(ctx, finding, Law::kMinimum, [&] { return Subject{.indices = {a, b, result}}; });
}

}  // namespace rewright
