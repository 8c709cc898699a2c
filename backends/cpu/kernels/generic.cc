// Any operator: the reference interpreter on one node.
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/kernels.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"

namespace rewright::cpu {
namespace {

class GenericKernel : public Kernel {
 public:
  GenericKernel(CompiledMeaning meaning, std::vector<TensorType> inputs, std::vector<TensorType> outputs, int threads)
      : meaning_(std::move(meaning)), inputs_(std::move(inputs)), outputs_(std::move(outputs)), threads_(threads) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs.emplace_back(inputs_[i], nullptr, buffers[i]);
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, meaning_.Run(inputs, threads_, Undefined::kMinusOne));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::memcpy(buffers[inputs_.size() + i], outputs[i].data(), static_cast<size_t>(outputs_[i].num_bytes()));
    }
    return absl::OkStatus();
  }

 private:
  const CompiledMeaning meaning_;
  const std::vector<TensorType> inputs_;
  const std::vector<TensorType> outputs_;
  const int threads_;
};

}  // namespace

absl::StatusOr<KernelPtr> MakeGenericKernel(const Graph& graph, NodeId id, int threads) {
  const Node& node = graph.node(id);
  std::vector<TensorType> inputs;
  for (Value operand : node.operands) inputs.push_back(graph.type(operand));
  absl::StatusOr<CompiledMeaning> meaning = CompiledMeaning::Compile(
      *node.meaning, BindingsOf(*node.meaning, inputs, node.attrs), inputs, node.outputs, Precision::kNative);
  if (!meaning.ok()) return meaning.status();
  return KernelPtr(std::make_unique<GenericKernel>(*std::move(meaning), std::move(inputs), node.outputs, threads));
}

}  // namespace rewright::cpu
