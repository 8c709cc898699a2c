#include "verifier/smt/solver.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "verifier/integer/give_up.h"
#include "verifier/smt/encode.h"
#include "verifier/z3/watchdog.h"

namespace rewright::verifier {
namespace {

// The most that one query may cost, in Z3's resource units (work.h). Units and not milliseconds: verdicts then do not
// depend on the machine, and the timer threads of Z3 4.8, which can deadlock, are never started.
constexpr unsigned kLinearLimit = 3000000;
constexpr unsigned kNonlinearLimit = 1500000;
constexpr unsigned kIndexLimit = 300000;
constexpr unsigned kNonlinearIndexLimit = 100000;
// Steps of making a context for one query, of putting a query to a solver, and of each of its assertions there.
constexpr int64_t kStepsOfContext = 80000, kStepsOfQuery = 5000, kStepsOfAssertion = 50;

// The most that a query may cost if its proof may still work for `seconds`.
unsigned WithinWork(unsigned limit, double seconds) {
  constexpr double kLeast = 1000;
  return static_cast<unsigned>(std::clamp(seconds * kStepsPerSecond + kLeast, kLeast, static_cast<double>(limit)));
}

void AddBounds(const Context& ctx, const Guard& g, std::set<Poly>* bounds) {
  std::vector<Poly> polys;
  CollectPolys(g, &polys);
  for (Poly& p : polys) bounds->insert(std::move(p));
  for (Var v : ctx.BaseVars(g)) {
    const VarInfo& info = ctx.Info(v);
    if (info.range.has_value()) {
      bounds->insert(Poly::Of(v) - info.range->first);
      bounds->insert(info.range->second - Poly::Of(v) - Poly(1));
    }
    if (info.kind == VarInfo::Kind::kParam && info.min.has_value()) bounds->insert(Poly::Of(v) - Poly(*info.min));
  }
}

bool HaveSameConjuncts(const Guard& a, const Guard& b) {
  const std::vector<Guard> left = Conjuncts(a), right = Conjuncts(b);
  return left.size() == right.size() && std::all_of(left.begin(), left.end(), [&](const Guard& g) {
           return std::find(right.begin(), right.end(), g) != right.end();
         });
}

// The terms' conditions, each once, with the sum of their coefficients; without those whose sum is 0.
NormalForm WithoutEqualGuards(const NormalForm& terms) {
  NormalForm merged;
  for (const Term& t : terms) {
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&](const Term& other) { return HaveSameConjuncts(other.guard, t.guard); });
    if (same == merged.end()) {
      merged.push_back(t);
    } else {
      same->coef = same->coef + t.coef;
    }
  }
  std::erase_if(merged, [](const Term& t) { return t.coef.IsZero(); });
  return merged;
}

}  // namespace

struct QueryCache::Impl {
  z3::context& Z3() {
    if (z3 == nullptr) {
      z3 = std::make_unique<z3::context>();
      Z3_set_ast_print_mode(*z3, Z3_PRINT_SMTLIB2_COMPLIANT);
    }
    return *z3;
  }

  // A query by the numbers of its assertions: Z3 has each expression once, and gives its number to no other while it
  // is kept.
  struct Answer {
    z3::check_result result = z3::unknown;
    std::vector<z3::expr> kept;
  };
  std::unique_ptr<z3::context> z3;  // outlives the answers
  std::map<std::vector<unsigned>, Answer> answers;
  int64_t units = 0;  // used by the context
};

QueryCache::QueryCache() : impl_(std::make_unique<Impl>()) {}
QueryCache::~QueryCache() = default;

struct Solver::Impl {
  Impl(Context* context, QueryCache::Impl* shared) : ctx(*context), shared_(*shared) {}

  z3::context& Z3() { return shared_.Z3(); }

  // Facts and the condition that `build` gives are unsatisfiable.
  bool Unsatisfiable(const std::vector<Guard>& facts, const std::vector<Guard>& guards, const std::vector<Var>& hidden,
                     const ClosureEquality& equal_closures, const std::string& tag,
                     const std::function<z3::expr(Encoder&)>& build) {
    std::set<Poly> bounds;
    for (const Guard& g : facts) AddBounds(ctx, g, &bounds);
    for (const Guard& g : guards) AddBounds(ctx, g, &bounds);
    try {
      for (bool linear : {true, false}) {
        ctx.session->CheckLimit();
        Encoder encoder(ctx, Z3(), linear, equal_closures);
        z3::expr goal = build(encoder);
        std::vector<z3::expr> assertions;
        for (const Guard& g : facts) assertions.push_back(encoder.OfGuard(g));
        for (const z3::expr& e : encoder.VariableFacts(hidden)) assertions.push_back(e);
        for (const z3::expr& e : encoder.Lemmas({bounds.begin(), bounds.end()})) assertions.push_back(e);
        // Lemmas can bring in further quotients and their definitions.
        for (const z3::expr& e : encoder.VariableFacts(hidden)) assertions.push_back(e);
        for (const z3::expr& e : encoder.side()) assertions.push_back(e);
        z3::check_result result = Check(assertions, goal, linear, tag);
        if (result == z3::unsat) return true;
        if (linear && (!encoder.has_products() || tag == "simplify")) return false;
      }
    } catch (const z3::exception& error) {
      throw GiveUp(std::string("z3: ") + error.msg());
    }
    return false;
  }

  z3::check_result Check(const std::vector<z3::expr>& assertions, const z3::expr& goal, bool linear,
                         const std::string& tag) {
    ProofSession& session = *ctx.session;
    session.CheckLimit();
    std::vector<unsigned> key;
    for (const z3::expr& e : assertions) key.push_back(Z3_get_ast_id(e.ctx(), e));
    key.push_back(Z3_get_ast_id(goal.ctx(), goal));
    std::sort(key.begin(), key.end());
    key.erase(std::unique(key.begin(), key.end()), key.end());
    const auto known = shared_.answers.find(key);
    const bool index = tag == "index" || tag == "simplify";
    unsigned limit = linear ? (index ? kIndexLimit : kLinearLimit) : index ? kNonlinearIndexLimit : kNonlinearLimit;
    limit = WithinWork(limit, session.RemainingSeconds());
    const auto text = [&] {
      std::vector<z3::expr> all = assertions;
      all.push_back(goal);
      return AsText(all, linear, tag);
    };
    z3::check_result result = z3::unknown;
    if (session.known_unsat) {
      if (session.known_unsat(text())) result = z3::unsat;
    } else if (known != shared_.answers.end()) {
      result = known->second.result;
    } else if (linear || !session.hung) {
      ++session.queries;
      result = Ask(assertions, goal, linear, limit);
      std::vector<z3::expr> kept = assertions;
      kept.push_back(goal);
      shared_.answers.emplace(std::move(key), QueryCache::Impl::Answer{result, std::move(kept)});
    }
    if (result == z3::unsat && session.certify) {
      SmtQuery query = text();
      session.steps.push_back("query " + query.Name() + ": " + query.purpose);
      session.smtlib.push_back(std::move(query));
    }
    return result;
  }

  z3::check_result Ask(const std::vector<z3::expr>& assertions, const z3::expr& goal, bool linear, unsigned limit) {
    if (linear) return Ask(Z3(), assertions, goal, limit, &shared_.units);
    // The search in non-linear arithmetic depends on the numbers of expressions, and so on earlier questions: with a
    // context of its own it depends on the query alone.
    CountSteps(kStepsOfContext);
    z3::context fresh;
    const auto moved = [&](const z3::expr& e) { return z3::to_expr(fresh, Z3_translate(Z3(), e, fresh)); };
    const z3::expr last = moved(goal);
    std::vector<z3::expr> translated;
    for (const z3::expr& e : assertions) translated.push_back(moved(e));
    const Watchdog watchdog(fresh, kHangSeconds);
    int64_t units = 0;
    const z3::check_result result = Ask(fresh, translated, last, limit, &units);
    ctx.session->hung = watchdog.fired();
    return result;
  }

  // `units`: the resource units that the context had used before the query; updated.
  static z3::check_result Ask(z3::context& z3, const std::vector<z3::expr>& assertions, const z3::expr& goal,
                              unsigned limit, int64_t* units) {
    z3::solver solver(z3, z3::solver::simple());
    solver.set(SolverParameters(z3, limit));
    for (const z3::expr& e : assertions) solver.add(e);
    solver.add(goal);
    const z3::check_result result = solver.check();
    const int64_t used = UnitsUsed(solver);
    CountSteps(kStepsOfQuery + kStepsOfAssertion * static_cast<int64_t>(assertions.size()) +
               std::max<int64_t>(0, used - *units));
    *units = used;
    return result;
  }

  // The assertions as they were made, each once, after the declarations that they need in the order of their names.
  static SmtQuery AsText(const std::vector<z3::expr>& assertions, bool linear, const std::string& tag) {
    std::map<std::string, std::string> declarations;
    std::set<unsigned> visited;
    bool elements = false, functions = false;
    std::string body;
    std::set<std::string> seen;
    for (const z3::expr& assertion : assertions) {
      std::vector<z3::expr> open = {assertion};
      while (!open.empty()) {
        const z3::expr e = open.back();
        open.pop_back();
        if (!visited.insert(Z3_get_ast_id(e.ctx(), e)).second) continue;
        elements = elements || e.is_real();
        for (unsigned i = 0; i < e.num_args(); ++i) open.push_back(e.arg(i));
        if (e.decl().decl_kind() != Z3_OP_UNINTERPRETED) continue;
        functions = functions || e.num_args() > 0;
        declarations.emplace(e.decl().name().str(), e.decl().to_string());
      }
      const std::string text = "(assert " + assertion.to_string() + ")\n";
      if (seen.insert(text).second) body += text;
    }
    // Integers alone are conditions on sizes and indices; reals and uninterpreted functions come with elements. (Z3 has
    // no name for integers, reals and functions without arrays.)
    const std::string logic = std::string("QF_") +
                              (elements    ? "AUF"
                               : functions ? "UF"
                                           : "") +
                              (linear ? "L" : "N") + (elements ? "IRA" : "IA");
    SmtQuery query{tag, logic, "(set-logic " + logic + ")\n(set-info :status unsat)\n"};
    for (const auto& [name, declaration] : declarations) query.text += declaration + "\n";
    query.text += body + "(check-sat)\n";
    return query;
  }

  Context& ctx;
  QueryCache::Impl& shared_;
};

Solver::Solver(Context* ctx) : impl_(std::make_unique<Impl>(ctx, ctx->session->query_cache->impl_.get())) {
  ctx->oracle = this;
}

Solver::~Solver() = default;

bool Solver::Implies(const std::vector<Guard>& facts, const Guard& goal, const std::vector<Var>& hidden,
                     const char* tag) {
  if (goal.IsTrue()) return true;
  return impl_->Unsatisfiable(facts, {goal}, hidden, {}, tag, [&](Encoder& e) { return !e.OfGuard(goal); });
}

bool Solver::CoefficientsCancel(const std::vector<Guard>& facts, const NormalForm& all) {
  const NormalForm terms = WithoutEqualGuards(all);
  if (terms.empty()) return true;
  std::vector<Guard> guards;
  Rational scale = 1;
  for (const Term& t : terms) {
    guards.push_back(t.guard);
    scale = scale * Rational((t.coef * scale).den());
  }
  return impl_->Unsatisfiable(facts, guards, {}, {}, "guards", [&](Encoder& e) {
    if (terms.size() == 1) return e.OfGuard(terms[0].guard);
    z3::expr zero = impl_->Z3().int_val(0);
    z3::expr total = zero;
    for (const Term& t : terms) {
      int64_t coef = (t.coef * scale).num();
      total = total + z3::ite(e.OfGuard(t.guard), impl_->Z3().int_val(coef), zero);
    }
    return total != zero;
  });
}

bool Solver::IsZero(const std::vector<Guard>& facts, const NormalForm& n, const ClosureEquality& equal_closures) {
  std::vector<Guard> guards;
  for (const Term& t : n) guards.push_back(t.guard);
  return impl_->Unsatisfiable(facts, guards, {}, equal_closures, "elements",
                              [&](Encoder& e) { return e.OfForm(n, Guard::True()) != impl_->Z3().real_val(0); });
}

bool Solver::IsCovered(const std::vector<Guard>& facts, const Guard& guard, const NormalForm& body,
                       const std::vector<std::pair<Guard, NormalForm>>& candidates,
                       const ClosureEquality& equal_closures) {
  std::vector<Guard> guards = {guard};
  for (const auto& candidate : candidates) guards.push_back(candidate.first);
  return impl_->Unsatisfiable(facts, guards, {}, equal_closures, "cover", [&](Encoder& e) {
    z3::expr value = e.OfForm(body, guard);
    z3::expr_vector covers(impl_->Z3());
    for (const auto& [holds, other] : candidates) {
      covers.push_back(e.OfGuard(holds) && value == e.OfForm(other, Guard::And(guard, holds)));
    }
    return e.OfGuard(guard) && !z3::mk_or(covers);
  });
}

}  // namespace rewright::verifier
