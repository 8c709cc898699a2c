#include "tests/verifier/altered/algebra_claims.h"

#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/extrema.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/monotone.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/products.h"
#include "verifier/prove/prover.h"

namespace rewright::verifier {

AlgebraScene::AlgebraScene(ProofObserver* observer, const Strategy& strategy)
    : session_{.work_limit_s = kNoLimit, .query_cache = &query_cache_, .observer = observer},
      ctx_(&session_, strategy, 1),
      solver_(&ctx_),
      n(ctx_.NewParam("n", 1)),
      d(ctx_.NewParam("d", 1)),
      i(ctx_.NewRanged("i", Poly(), V(n))),
      j(ctx_.NewRanged("j", Poly(), V(d))),
      u(ctx_.NewLocal("u")),
      v(ctx_.NewLocal("v")),
      w(ctx_.NewRanged("w", Poly(), V(n))) {
  for (const auto& [sizes_n, sizes_d] : {std::pair(5, 2), std::pair(2, 3), std::pair(3, 1)}) {
    ctx_.samples.push_back({{n, sizes_n}, {d, sizes_d}});
  }
}

NormalForm AlgebraScene::Read(const std::string& name, std::vector<Poly> at) {
  return AtomForm(MakeRead(ctx_, {name, false, false}, std::move(at)));
}

NormalForm AlgebraScene::Sum(const std::vector<Guard>& guard, const std::vector<Var>& bound) {
  std::vector<Poly> at;
  for (Var b : bound) at.push_back(V(b));
  return {{1, bound, Guard::And(guard), X(at)[0].atoms}};
}

void AlgebraScene::Vanishes(const NormalForm& form) {
  std::vector<std::vector<MovedTerm>> classes;
  if (Prover(ctx_, solver_, {}).IsZero(form, &classes)) ObserverOf(ctx_)->Zero(ctx_, {}, form, classes);
}

namespace {

using Scene = AlgebraScene;

Guard Below(const Poly& p, const Poly& size) { return Guard::InRange(p, Poly(), size); }

constexpr Strategy kPlain{}, kFinite{.finite_laws = true}, kQuotients{.quotients = true}, kDigits{.digits = true};

}  // namespace

const std::vector<AlgebraClaim>& AlgebraClaims() {
  static const auto* const kClaims = new std::vector<AlgebraClaim>{
      // ---- sums
      // d v = n is no equation where d does not divide n.
      {"sum-of-multiple", kQuotients,
       [](Scene& s) { Simplify(s.ctx(), s.Sum({Guard::Eq(s.V(s.d) * s.V(s.v) - s.V(s.n))}, {s.v})); }},
      // v div d = i has d solutions.
      {"sum-below-quotient", kDigits,
       [](Scene& s) { Simplify(s.ctx(), s.Sum({Guard::Eq(s.ctx().FloorDiv(s.V(s.v), s.V(s.d)) - s.V(s.i))}, {s.v})); }},
      // d v <= n < d v + d says v = n div d.
      {"sum-over-quotient", kQuotients,
       [](Scene& s) { Simplify(s.ctx(), s.Sum({Below(s.V(s.n) - s.V(s.d) * s.V(s.v), s.V(s.d))}, {s.v})); }},
      // n v + u = i has solutions with v other than 0, where u is no digit.
      {"sum-without-digits", kPlain,
       [](Scene& s) {
         Simplify(s.ctx(),
                  s.Sum({Guard::Eq(s.V(s.n) * s.V(s.v) + s.V(s.u) - s.V(s.i)), Below(s.V(s.v), s.V(s.d))}, {s.v, s.u}));
       }},
      // 0 <= n v + u < 2 n: v may be 1.
      {"sum-over-two-periods", kPlain,
       [](Scene& s) {
         const Poly whole = s.V(s.n) * s.V(s.v) + s.V(s.u);
         Simplify(s.ctx(), s.Sum({Below(whole, s.V(s.n) * Poly(2)), Below(s.V(s.u), s.V(s.n))}, {s.v, s.u}));
       }},
      {"sum-at-one-point", kPlain,
       [](Scene& s) {
         Simplify(s.ctx(), s.Sum({Guard::Eq(s.V(s.v) - s.V(s.i)), Below(s.V(s.v), s.V(s.d))}, {s.v}));
         Simplify(s.ctx(), s.Sum({Guard::InRange(s.V(s.v), s.V(s.i), s.V(s.i) + Poly(1))}, {s.v}));
         Simplify(s.ctx(), s.Sum({Guard::InRange(s.V(s.v), s.V(s.i), s.V(s.i) + Poly(2))}, {s.v}));
       }},
      // n - d times x is said of a sum over 0 <= v < n - d only where that many points are no fewer than none.
      {"count-of-nothing", kPlain,
       [](Scene& s) {
         Simplify(s.ctx(), {{1, {s.v}, Below(s.V(s.v), s.V(s.n) - s.V(s.d)), s.X({s.V(s.i)})[0].atoms}});
       }},
      // Only the range of w, which nothing states here, shows that w is not negative.
      {"range-that-is-not-stated", kPlain,
       [](Scene& s) {
         Simplify(s.ctx(), s.Sum({Guard::Ge(s.V(s.w)), Below(s.V(s.u), s.V(s.n))}, {s.w, s.u}));
       }},
      {"weaker-bound", kPlain,
       [](Scene& s) {
         Simplify(s.ctx(), s.Sum({Guard::Ge(s.V(s.v)), Guard::Ge(s.V(s.v) - s.V(s.n)),
                                  Guard::Ge(s.V(s.n) + s.V(s.d) - s.V(s.v))},
                                 {s.v}));
       }},

      // ---- indices
      // (d v + i) div (d (n + 1)) depends on i, which may be larger than d.
      {"quotient-of-large-rest", kPlain,
       [](Scene& s) {
         s.ctx().FloorDiv(s.V(s.d) * s.V(s.v) + s.V(s.i), s.V(s.d) * (s.V(s.n) + Poly(1)));
         s.ctx().FloorDiv(s.V(s.i), s.V(s.d));
       }},
      {"quotient-of-quotient", kPlain,
       [](Scene& s) { s.ctx().FloorDiv(s.ctx().FloorDiv(s.V(s.i), s.V(s.d)) + Poly(1), s.V(s.n)); }},
      {"minimum-of-neighbours", kPlain,
       [](Scene& s) {
         s.ctx().MinOf(s.V(s.n) + Poly(1), s.V(s.n));
         s.ctx().MinOf(s.V(s.n), s.V(s.n) + Poly(1));
       }},
      {"index-beyond-another-size", kPlain,
       [](Scene& s) {
         s.ctx().ProveNonneg({s.V(s.d) - Poly(1) - s.V(s.i)});
         s.ctx().ProveNonneg({s.V(s.d) - Poly(1) - s.ctx().FloorDiv(s.V(s.i) * Poly(3), Poly(2))});
       }},
      // d (i div d) is at most i, and may be less.
      {"index-below-its-multiple", kPlain,
       [](Scene& s) {
         const Poly quotient = s.ctx().FloorDiv(s.V(s.i), s.V(s.d));
         s.ctx().ProveNonneg({s.V(s.d) * quotient - s.V(s.i)});
       }},
      // x div n may be n, where x <= n n.
      {"quotient-at-its-end", kPlain,
       [](Scene& s) {
         const Var x = s.ctx().NewRanged("x", Poly(), s.V(s.n) * s.V(s.n) + Poly(1));
         s.ctx().ProveNonneg({s.V(s.n) - Poly(1) - s.ctx().FloorDiv(s.V(x), s.V(s.n))});
       }},
      // n may be above 3, where n >= 3.
      {"size-above-its-least", kPlain,
       [](Scene& s) {
         s.ctx().SetFacts({Guard::Ge(s.V(s.n) - Poly(3))});
         s.ctx().ProveNonneg({Poly(3) - s.V(s.n)});
       }},

      // ---- cases
      {"condition-at-its-end", kPlain,
       [](Scene& s) {
         // n >= 3 where n <= 3, and n < 3 where n >= 3.
         const Guard more = Guard::Ge(s.V(s.n) - Poly(3)), less = Guard::Ge(Poly(3) - s.V(s.n));
         NormalForm x = s.X({s.V(s.i)});
         x[0].guard = more;
         AssumeForm(s.ctx(), x, less, Guard::Not(less));
         x[0].guard = Guard::Not(more);
         AssumeForm(s.ctx(), x, more, Guard::Not(more));
       }},

      // ---- factors, extrema and products
      {"zero-times-operand", kPlain,
       [](Scene& s) {
         const NormalForm x = s.X({s.V(s.i)});
         Simplify(s.ctx(), {{1, {}, Guard::True(), {s.Fn("zero", x), x[0].atoms[0]}}});
       }},
      // x max(x, y) is no square.
      {"operand-times-maximum", kFinite,
       [](Scene& s) {
         const NormalForm x = s.X({s.V(s.i)}), y = s.Y({s.V(s.i)});
         const Atom largest = MakeBinderAtom(s.ctx(), "max", {{{}, Guard::True(), x}, {{}, Guard::True(), y}});
         Simplify(s.ctx(), {{1, {}, Guard::True(), {x[0].atoms[0], largest}}});
         Simplify(s.ctx(), {{1, {}, Guard::True(), {y[0].atoms[0], largest}}});
       }},
      // A factor of either sign stays in a maximum.
      {"maximum-of-multiples", kPlain,
       [](Scene& s) {
         const NormalForm product = Multiply(s.ctx(), s.X({s.V(s.i)}), s.Y({s.V(s.v)}));
         MaxOver(s.ctx(), {{{s.v}, Below(s.V(s.v), s.V(s.n)), product}});
       }},
      {"maximum-of-odd-product", kPlain,
       [](Scene& s) {
         MaxOver(s.ctx(), {{{}, Guard::True(), s.X({s.V(s.i)})}, {{}, Guard::True(), {}}});
       }},
      {"maximum-of-square", kPlain,
       [](Scene& s) {
         const NormalForm square = Multiply(s.ctx(), s.X({s.V(s.i)}), s.X({s.V(s.i)}));
         MaxOver(s.ctx(), {{{}, Guard::True(), square}, {{}, Guard::True(), {}}});
       }},
      // An increasing function decreases when it is negated.
      {"largest-of-negated", kPlain,
       [](Scene& s) {
         const auto negated = [&](const NormalForm& x) { return Scale(AtomForm(s.Fn("exp", x)), -1); };
         MaxOver(s.ctx(),
                 {{{}, Guard::True(), negated(s.X({s.V(s.i)}))}, {{}, Guard::True(), negated(s.Y({s.V(s.i)}))}});
         const Family family{{s.v}, Below(s.V(s.v), s.V(s.n)), negated(s.X({s.V(s.v)}))};
         MaxOver(s.ctx(), {family});
         ArgmaxOver(s.ctx(), family, s.V(s.v));
       }},
      {"place-of-largest-floor", kPlain,
       [](Scene& s) {
         const NormalForm rounded = AtomForm(s.Fn("floor", s.X({s.V(s.v)})));
         ArgmaxOver(s.ctx(), {{s.v}, Below(s.V(s.v), s.V(s.n)), rounded}, s.V(s.v));
       }},
      // x to the power of n.
      {"product-of-equals", kPlain,
       [](Scene& s) {
         ProdOver(s.ctx(), {{s.v}, Below(s.V(s.v), s.V(s.n)), s.X({s.V(s.i)})});
       }},
      // A product of nothing is one.
      {"product-under-condition", kPlain,
       [](Scene& s) {
         const Guard guard = Guard::And(Below(s.V(s.v), s.V(s.n)), Guard::Ge(s.V(s.n) - Poly(3)));
         ProdOver(s.ctx(), {{s.v}, guard, s.Y({s.V(s.v)})});
       }},
      // ---- functions of which nothing is known, or one thing
      {"increasing-of-zero", kPlain, [](Scene& s) { Apply(s.ctx(), "any_increasing", {NormalForm()}); }},
      {"keeping-zero-of-negated", kPlain,
       [](Scene& s) { Apply(s.ctx(), "any_keeping_zero", {Scale(s.X({s.V(s.i)}), -1)}); }},
      {"largest-of-any-function", kPlain,
       [](Scene& s) {
         const NormalForm image = AtomForm(s.Fn("any_function", s.X({s.V(s.v)})));
         MaxOver(s.ctx(), {{{s.v}, Below(s.V(s.v), s.V(s.n)), image}});
       }},
      {"place-of-largest-increasing", kPlain,
       [](Scene& s) {
         const NormalForm image = AtomForm(s.Fn("any_increasing", s.X({s.V(s.v)})));
         ArgmaxOver(s.ctx(), {{s.v}, Below(s.V(s.v), s.V(s.n)), image}, s.V(s.v));
       }},
      // ---- which terms cancel, and queries in which elements are uninterpreted
      {"two-elements", kPlain,
       [](Scene& s) {
         s.Vanishes(Add(s.ctx(), s.X({s.V(s.i)}), Scale(s.Y({s.V(s.i)}), -1)));
         s.Vanishes(Add(s.ctx(), s.X({s.V(s.i)}), Scale(s.X({s.V(s.i) + Poly(1)}), -1)));
       }},
      {"larger-and-either", kPlain,
       [](Scene& s) {
         const NormalForm x = s.X({s.V(s.i)}), y = s.Y({s.V(s.i)});
         const NormalForm larger = MaxOver(s.ctx(), {{{}, Guard::True(), x}, {{}, Guard::True(), y}});
         for (const NormalForm& either : {x, y}) s.Vanishes(Add(s.ctx(), larger, Scale(either, -1)));
       }},
      {"exponential-above-one", kPlain,
       [](Scene& s) {
         const NormalForm image = AtomForm(s.Fn("exp", s.X({s.V(s.i)})));
         const NormalForm larger = MaxOver(s.ctx(), {{{}, Guard::True(), image}, {{}, Guard::True(), ConstantForm(1)}});
         s.Vanishes(Add(s.ctx(), larger, Scale(image, -1)));
       }},
      {"fraction-above-zero", kPlain,
       [](Scene& s) {
         const NormalForm x = s.X({s.V(s.i)});
         const NormalForm fraction = Add(s.ctx(), x, Scale(AtomForm(s.Fn("floor", x)), -1));
         s.Vanishes(Add(s.ctx(), Apply(s.ctx(), "pos", {fraction}), ConstantForm(-1)));
       }},
      {"order-of-increasing", kPlain,
       [](Scene& s) {
         // Small numbers, of which many have equal images.
         const NormalForm x = Scale(s.X({s.V(s.i)}), Rational(1, 8)), y = Scale(s.Y({s.V(s.i)}), Rational(1, 8));
         const auto above = [&](const NormalForm& a, const NormalForm& b) {
           return Apply(s.ctx(), "pos", {Add(s.ctx(), a, Scale(b, -1))});
         };
         const NormalForm images = above(AtomForm(s.Fn("any_increasing", x)), AtomForm(s.Fn("any_increasing", y)));
         s.Vanishes(Add(s.ctx(), images, Scale(above(x, y), -1)));
       }},
  };
  return *kClaims;
}

}  // namespace rewright::verifier
