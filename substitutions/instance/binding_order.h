// Orders the equations of a rule's left side so that each one binds names by means of those that are bound before it.
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

// `nodes` are those of the left side, with names resolved.
BindingOrder OrderBinding(const std::vector<RuleNode>& nodes);

}  // namespace rewright
