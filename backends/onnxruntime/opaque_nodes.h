// Nodes of model files whose operators Rewright does not know (core/ops/foreign.h), run one by one by onnxruntime,
// which is loaded when the first of them is compiled.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/onnxruntime/library.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"

namespace rewright::ort {

// The nodes of all models that a device runs. Thread-safe.
class OpaqueNodes {
 public:
  // To be called before graphs of the model are compiled.
  void Add(const ImportedModel& model);

  // Runs an application of the graph. Buffers: the operands that `known` has not got (null), then all outputs,
  // row-major. Errors: no onnxruntime is found, which name all such nodes of the graph; onnxruntime refuses the node; a
  // node of no model that was added.
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const Graph& graph, NodeId id,
                                                     const std::vector<const Tensor*>& known, int threads) const;

 private:
  // Requires the mutex.
  const OpaqueNode* Find(const Node& node) const;

  mutable std::mutex mutex_;  // of what follows
  std::map<int64_t, OpaqueNode> nodes_;
  mutable std::shared_ptr<const Library> library_;
};

}  // namespace rewright::ort
