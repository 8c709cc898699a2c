// Any operator: the reference interpreter on one node.
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/fallible_kernel.h"
#include "core/interpreter/interpreter.h"

namespace rewright::cpu {
namespace {

// A value that does not exist, such as a quotient by 0, is no fault: devices give something for it.
class GenericKernel : public FallibleKernel {
 public:
  GenericKernel(std::string label, CompiledMeaning meaning, std::vector<TensorType> inputs,
                std::vector<TensorType> outputs, int threads)
      : label_(std::move(label)),
        meaning_(std::move(meaning)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        threads_(threads) {}

  void Run(void* const* buffers) const override {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs.emplace_back(inputs_[i], nullptr, buffers[i]);
    const absl::StatusOr<std::vector<Tensor>> outputs = meaning_.Run(inputs, threads_);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      void* to = buffers[inputs_.size() + i];
      const size_t bytes = outputs_[i].num_bytes();
      if (outputs.ok()) {
        std::memcpy(to, (*outputs)[i].data(), bytes);
      } else {
        std::memset(to, 0xff, bytes);  // NaN: a value that does not exist
      }
    }
    if (!absl::IsOutOfRange(outputs.status())) fault_.Update(outputs.status());
  }
  absl::Status TakeFault() const override {
    const absl::Status fault = std::exchange(fault_, absl::OkStatus());
    return fault.ok() ? fault : absl::Status(fault.code(), absl::StrCat(label_, ": ", fault.message()));
  }

 private:
  const std::string label_;
  const CompiledMeaning meaning_;
  const std::vector<TensorType> inputs_;
  const std::vector<TensorType> outputs_;
  const int threads_;
  mutable absl::Status fault_;
};

}  // namespace

absl::StatusOr<KernelPtr> MakeGenericKernel(const Graph& graph, NodeId id, int threads) {
  const Node& node = graph.node(id);
  std::vector<TensorType> inputs;
  for (Value operand : node.operands) inputs.push_back(graph.type(operand));
  absl::StatusOr<CompiledMeaning> meaning = CompiledMeaning::Compile(
      *node.meaning, BindingsOf(*node.meaning, inputs, node.attrs), inputs, node.outputs, Precision::kNative);
  if (!meaning.ok()) return meaning.status();
  return KernelPtr(std::make_unique<GenericKernel>(absl::StrCat(node.op->name, " (node ", id, ")"), *std::move(meaning),
                                                   std::move(inputs), node.outputs, threads));
}

}  // namespace rewright::cpu
