// Names the node and the collective at which ranks part from the model.
#pragma once

#include <map>
#include <set>

#include "core/tensor/tensor.h"
#include "verifier/ranks/equal_ranks.h"
#include "verifier/ranks/rank_claims.h"

namespace rewright {

struct RankEvidence {
  const Graph& model;
  const RankPlan& plan;
  const RankProgram& program;
  const std::map<Value, Tensor>& of_model;       // elements, on one draw
  const std::map<StepValue, Tensor>& of_ranks;
  const std::map<StepValue, Statement>& seen;    // what these elements suggest
};

// `wrong` has numbers of outputs whose elements are not the model's; there is one.
RankFault FaultOf(const RankEvidence& evidence, const std::set<size_t>& wrong);

}  // namespace rewright
