// Declarations that elements.cc and reductions.cc share.
#pragma once

#include <string>

#include "verifier/prove/elements.h"

namespace rewright::verifier {

// A sum over a literal range, and the remainders of a position, are taken apart up to here.
inline constexpr int64_t kMostTerms = 16;

// Not counting conditions of elements that are indices.
bool MentionsHolds(const ExprPtr& e);

// The name of a function as a normal form has it: integers have their own.
std::string Typed(const char* name, DType dtype);

class Elements::Under {
 public:
  Under(Context& ctx, Scope& scope, const Guard& condition)
      : ctx_(ctx), scope_(scope), path_(scope.path.size()), assumptions_(ctx.assumptions.size()) {
    scope.path.push_back(condition);
    for (const Guard& g : Conjuncts(condition)) ctx.assumptions.push_back(g);
  }
  ~Under() {
    scope_.path.resize(path_);
    ctx_.assumptions.resize(assumptions_);
  }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;

 private:
  Context& ctx_;
  Scope& scope_;
  size_t path_, assumptions_;
};

}  // namespace rewright::verifier
