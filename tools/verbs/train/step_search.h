// The graph of a step of training in operators that have kernels, and in a form that is faster.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/comm/communicator.h"
#include "runtime/training/parallel/parallel_step.h"
#include "runtime/training/stored_forms.h"
#include "runtime/training/trainer.h"
#include "tools/library/engine.h"
#include "tools/program/verb.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {

struct StepSearchFlags {
  double seconds = 0;  // of search; 0: none
  RuleSettings rules;
  int64_t memory_limit = 0;  // of a step, in bytes; 0: none
  bool keep_all = false;     // nothing is computed again
  bool measured = false;     // costs of the device are known, or may be measured
};

// Gradients are lowered; then the whole step, forward pass, gradients and update, is rewritten by the rules of
// `optimize`, timed and checked like any graph, if it was given time. The values that are kept are chosen last
// (step_memory.h), where every rank runs the step as it is. Rank 0 does so, the others take its result. Errors: those
// of lowering, of the rules, of the device with the step as it is derived; a limit of memory that cannot be reached.
absl::StatusOr<Graph> RewriteStep(const Graph& step, const StepSearchFlags& flags, const RankLayout& layout,
                                  const Engine& engine, Communicator& ranks, Session& session);

// The same, for a step of one rank in one graph (joint_search.h): the step is derived of the forward pass as it is, and
// as it is rewritten alone, and its states may be stored in other forms. A step with other forms is taken if it is
// measured to be faster than the best one without.
absl::StatusOr<StoredStep> RewriteWholeStep(const WholeStep& step, const StepSearchFlags& flags, const Engine& engine,
                                            Session& session);

// Likewise the graph of one of several micro-batches, whose gradients `step` takes: recomputation is judged by the
// memory that a rank takes by its list (tools/verbs/layout/step_planner.h).
absl::StatusOr<Graph> RewriteGradients(const Graph& gradients, const Graph& step,
                                       const std::vector<std::string>& updated, const TrainConfig& config,
                                       const SharingOptions& sharing, const StepSearchFlags& flags,
                                       const Engine& engine, Communicator& ranks, Session& session);

// A rank's part of a graph that several compute together: what is kept is chosen by the memory of its stages.
absl::StatusOr<Graph> RewritePart(const RankGraph& part, const StepSearchFlags& flags, const Engine& engine,
                                  Session& session);

}  // namespace rewright
