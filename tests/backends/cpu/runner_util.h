// Runs schedules on hostile memory, and compares them with the reference interpreter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "tests/support/parsed_graph.h"

namespace rewright {

// Random elements in [low, high]; whole numbers for integer types.
Tensor RandomTensor(const TensorType& type, double low, double high, Rng& rng);

// The schedule on hostile memory: it is filled with NaN before a buffer's first step and after its last, so that a
// kernel which reads a value that is not alive, or destroys one that is, shows in the result.
absl::StatusOr<std::unique_ptr<Executor>> MakeHostile(const Graph& graph, Schedule schedule,
                                                      DeviceMemory& memory = HostMemory());
// Runs twice, and expects inputs to be left as they are.
absl::StatusOr<std::vector<Tensor>> RunTwice(Executable& executable, const std::vector<Tensor>& inputs);

// Compiles and runs the graph on random inputs in [low, high] and expects the interpreter's results.
void ExpectAgrees(Device& device, const Graph& graph, double low, double high, uint64_t seed);
// `tolerance` is relative to the largest element, and ten times that to each.
void ExpectAgrees(Schedule schedule, const Graph& graph, double low, double high, uint64_t seed,
                  double tolerance = 1e-5);
void ExpectAgrees(Executable& executable, const Graph& graph, double low, double high, uint64_t seed,
                  double tolerance = 1e-5);

// Whatever runs the graph: outputs in its order.
using RunInputs = std::function<absl::StatusOr<std::vector<Tensor>>(const std::vector<Tensor>&)>;
void ExpectAgrees(const RunInputs& run, const Graph& graph, double low, double high, uint64_t seed, double tolerance);

}  // namespace rewright
