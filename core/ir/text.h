// The printed form of graphs, one node per line, which parses back:
//
//   input x: f32[1,3,8,8]
//   state w: f32[4,3,3,3]
//   const %2: i64[2] = [1,2]
//   %3 = conv2d(x, w, pads=[1,1,1,1])        # f32[1,4,8,8]
//   %4.0, %4.1 = split(%3, axis=1, sizes=[2,2])
//   output y = %4.0
//
// Attributes equal to their defaults are not printed. States print without their values: they are given to the parser
// (zeros otherwise). A graph for training begins with the line `training` and may end with next values of states:
//
//   update w = %7
//
// `#` starts a comment.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

std::string PrintGraph(const Graph& graph);

// Parses a graph. Errors name line and column. `states` gives values by name; a state without one is filled with zeros.
absl::StatusOr<Graph> ParseGraph(const std::string& text, const std::map<std::string, Tensor>& states = {});

}  // namespace rewright
