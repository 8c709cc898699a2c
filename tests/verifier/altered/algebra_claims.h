// Elements and indices at which laws of the prover's algebra matter that hardly a rule needs, for
// altered_algebra_test.cc. Each claim has the algebra work on something and tell a checker its steps.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/smt/solver.h"

namespace rewright::verifier {

// Sizes n and d, positions i below n and j below d, sums over u, v, and w, of which a range below n is recorded.
class AlgebraScene {
 public:
  AlgebraScene(ProofObserver* observer, const Strategy& strategy);

  Context& ctx() { return ctx_; }
  Poly V(Var v) const { return Poly::Of(v); }
  NormalForm X(std::vector<Poly> at) { return Read("x@0", std::move(at)); }
  NormalForm Y(std::vector<Poly> at) { return Read("y@1", std::move(at)); }
  Atom Fn(const std::string& name, const NormalForm& argument) { return MakeFnAtom(ctx_, name, {argument}); }
  // SUM over `bound` of [guard] x[bound].
  NormalForm Sum(const std::vector<Guard>& guard, const std::vector<Var>& bound);
  // Has the prover tell why the form, which is not 0, would be.
  void Vanishes(const NormalForm& form);

 private:
  NormalForm Read(const std::string& name, std::vector<Poly> at);

  QueryCache query_cache_;
  ProofSession session_;
  Context ctx_;
  Solver solver_;

 public:
  const Var n, d, i, j, u, v, w;
};

struct AlgebraClaim {
  std::string name;
  Strategy strategy;
  std::function<void(AlgebraScene&)> work;
};

const std::vector<AlgebraClaim>& AlgebraClaims();

}  // namespace rewright::verifier
