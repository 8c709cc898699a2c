// In which order the equations of a rule's left side are worked through, so that each binds names with what those
// before it have bound.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "substitutions/instance/compiled_rule.h"

namespace rewright {

struct BindingOrder {
  std::vector<RuleEquation> equations;           // one may come up again: CompiledRule::binding_order()
  std::set<std::pair<ArgExpr::Ref, int>> bound;  // names, in the end
  bool complete = true;                          // false: some equation cannot be solved for its names
};

// `nodes`: of the left side, with names resolved.
BindingOrder OrderBinding(const std::vector<RuleNode>& nodes);

}  // namespace rewright
