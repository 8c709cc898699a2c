// A graph in which a past grows from run to run, as one of a fixed capacity (docs/decisions/161).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "tools/library/growth.h"

namespace rewright {

// The input that is a state, by name, and the output that is its next value.
using StateNames = std::map<std::string, std::string>;

// By the name of the input. Errors: an input or output that the graph lacks, an output that is no such concat, states
// that get different numbers of rows.
absl::StatusOr<std::map<std::string, Append>> FindAppends(const Graph& graph, const StateNames& states);

struct CheckedLengths;

struct GrowingGraph {
  // Inputs as in the model, those that hold the past at full capacity, and behind them how many rows the past has
  // (i64[]). Outputs as in the model; those that are next values of states update their inputs.
  Graph graph;
  std::vector<int> growing;  // by input of the model: the axis that grows; -1: none does
  std::shared_ptr<const CheckedLengths> lengths;

  // Error (kFailedPrecondition): the model at this length of the past, from 2 to the first sample's, is another one
  // than the graph says. Lengths between the samples are seen by it alone.
  absl::Status Check(const Graph& model) const;
  // True if that follows from the nodes of the file that change, where inputs have these shapes. They are far fewer
  // than all. False: Check tells.
  bool CheckChanges(int64_t length, const std::vector<Shape>& inputs) const;
  // Error: behind an empty past a constant is another one. No model can be read there, since no size may be 0, but some
  // of its nodes can.
  absl::Status CheckEmpty() const;
};

// Makes the graph out of the model at several lengths of the past, the capacity less the new rows first. Its results
// are those of the model at every length that `check` takes, if what lies in the states behind the past is zero; there
// it stays zero.
//   concat(past, new)       becomes dynamic_update_slice(past, new, length): rows behind it keep what they have
//   sums and maxima over the past   read 0, or -infinity, behind its end; all else works row by row
//   numbers of a constant that are the length plus something   become that
//   constants that end alike at every length, such as causal masks   are cut so that they end behind the new rows
// `source`: of the file of the first sample, if that is as it says; null: CheckChanges is never true. Errors
// (kFailedPrecondition): values that depend on the length otherwise, by name.
absl::StatusOr<GrowingGraph> MakeGrowing(const std::vector<Graph>& samples, const StateNames& states,
                                         std::shared_ptr<const OnnxSource> source = nullptr);

}  // namespace rewright
