// The time of a group by itself in onnxruntime.
#pragma once

#include "absl/status/statusor.h"
#include "backends/cpu/disturbance.h"
#include "backends/onnxruntime/library.h"
#include "backends/profile_db.h"
#include "core/ir/device.h"

namespace rewright::ort {

// The inputs, or the results, of a graph as a model that is written of it has them.
std::vector<Port> InputPorts(const Graph& graph);
std::vector<Port> OutputPorts(const Graph& graph);

// Times one model of several copies of the group, each on operands of its own: so many that their weights exceed the
// caches, as those of a whole model do, and that what a run costs besides counts little. Errors: FailedPrecondition
// where onnxruntime refuses the group, with its words; too little memory; no form in ONNX.
absl::StatusOr<ProfileEntry> MeasureGroup(const Library& library, int threads, const Graph& graph, const Group& group,
                                          cpu::DisturbanceProbe& probe);

}  // namespace rewright::ort
