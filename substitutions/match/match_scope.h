// The names of a rule at a place in a graph, as ArgEvaluator reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "substitutions/instance/arg_eval.h"
#include "substitutions/language/number.h"
#include "substitutions/match/matcher.h"

namespace rewright {

// The most elements of a tensor that conditions look at: they are about scalars and per-channel values.
inline constexpr int64_t kMaxLookedAt = 1 << 16;

class MatchScope {
 public:
  using Value = ArgValue<Concrete>;

  // `nodes`: as Match::nodes, possibly with those of the right side behind; node -1: not known. `bound`: null when
  // all names are bound. All outlive the scope.
  MatchScope(const CompiledRule& rule, const Arena& arena, const std::vector<rewright::Value>& nodes,
             const RuleBindings& bindings)
      : rule_(rule), arena_(arena), nodes_(nodes), bindings_(bindings) {}

  bool Get(ArgExpr::Ref ref, int id, Value* value) const;
  bool TensorShape(int node, std::vector<int64_t>* shape) const;
  bool Predicate(ArgFn fn, const ArgExpr& arg, bool positive_place, bool* truth) const;

 private:
  const CompiledRule& rule_;
  const Arena& arena_;
  const std::vector<rewright::Value>& nodes_;
  const RuleBindings& bindings_;
};

using MatchEvaluator = ArgEvaluator<Concrete, MatchScope>;

// An evaluated attribute as an operator takes it; false when the kinds do not fit.
bool ToAttr(const ArgValue<Concrete>& value, AttrKind kind, Attr* attr);
// An evaluated constant as an element of type `type`; false where that has no such number, or cannot tell.
bool ToNumber(const ArgValue<Concrete>& value, DType type, Number* number);
void FromAttr(const Attr& attr, ArgValue<Concrete>* value);

}  // namespace rewright
