// From a graph to a schedule: every value gets a place in memory and a layout, every group its kernels.
//
// Layouts are assigned greedily in the order of execution. A convolution states the layouts that oneDNN wants for it;
// pooling, concatenation along channels and pointwise groups keep the layout of their (largest) operands; everything
// else is row-major. A value that is wanted in another layout than it has is converted by an extra step, once per
// layout. Greedy is close to the best here because convolutions, the only operators with a strong preference, nearly
// all want one and the same layout, and a conversion costs a few per cent of a convolution.
//
// Reshapes, transposes, slices, splits and expansions are views: other strides over the memory of their operand. Who
// cannot read such a layout asks for another one. Matrix products read and write any strides, so the transposes around
// attention cost nothing. Operands of a concatenation are written straight into it where they lie in one piece.
//
// A kernel may overwrite an operand (sum into the residual, pointwise in place) only when `IsExpendable`: the operand
// has no reader left, and no other live value lies in its memory.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/cpu/fusion.h"
#include "backends/cpu/kernels/dnnl_util.h"
#include "backends/layout.h"
#include "backends/schedule_builder.h"
#include "core/ir/device.h"

namespace rewright::cpu {

struct LoweringOptions {
  WeightMode weights = WeightMode::kConstant;
  // Graph inputs with another layout than row-major (for measuring a group alone).
  std::map<Value, Layout> input_layouts;
  // Outputs stay in whatever layout they have.
  bool keep_output_layouts = false;
};

class Lowering : private ScheduleBuilder {
 public:
  Lowering(std::shared_ptr<const DnnlContext> context, const Graph& graph, LoweringOptions options);
  absl::StatusOr<Schedule> Run();

 private:
  struct Place {
    int buffer = -1;
    Layout layout;
  };

  // ---- constants (constants.cc)
  absl::Status FoldConstants();
  bool IsConstant(Value value) const;
  // The tensor of a constant value.
  absl::StatusOr<Tensor> ConstantTensor(Value value);
  // A constant as a view of a leaf's memory: what reshapes, transposes and slices of weights are. False for others.
  bool ConstantView(Value value, Tensor* base, Layout* layout, int64_t* offset) const;

  // ---- buffers and places (lowering.cc)
  int AddConstantFloats(const std::vector<float>& values);
  size_t Bytes(Value value, const Layout& layout) const;
  // Where a value is by nature.
  absl::StatusOr<Place> Find(Value value);
  // Where it is in the given layout; converts it when needed.
  absl::StatusOr<Place> FindAs(Value value, const Layout& layout);
  absl::StatusOr<Place> FindRowMajor(Value value);
  // Makes room for a result.
  Place Define(Value value, const Layout& layout);
  // The result lies in existing memory.
  void DefineAt(Value value, int buffer, const Layout& layout);
  bool IsExpendable(Value value) const;
  // The operand's memory can take the result of the current group: expendable, of that layout, and no other input of
  // the group lies there.
  bool CanOverwrite(Value operand, const Place& place, Value result, const Layout& layout) const;
  absl::StatusOr<KernelPtr> Converter(const Layout& from, const Layout& to, DType dtype);
  absl::Status Finish();

  // ---- groups
  absl::Status LowerGroup(const FusedGroup& group);
  absl::Status LowerConv(const FusedGroup& group);       // lower_anchor.cc
  absl::Status LowerMatmul(const FusedGroup& group);     // lower_anchor.cc
  absl::Status LowerPointwise(const FusedGroup& group);  // lower_pointwise.cc
  absl::StatusOr<Place> ComputeConstant(const PointwiseProgram& program);
  absl::Status LowerView(const FusedGroup& group);  // lower_move.cc
  absl::Status LowerCopy(NodeId id, int output);
  absl::Status LowerReshape(NodeId id);
  absl::Status LowerConcat(NodeId id);
  absl::Status LowerPad(NodeId id);
  absl::Status LowerDepthSpace(NodeId id);
  absl::Status LowerGather(NodeId id);
  absl::Status LowerPool(NodeId id);  // lower_other.cc
  absl::Status LowerLrn(NodeId id);
  absl::Status LowerReduce(NodeId id);
  absl::Status LowerSoftmax(NodeId id);
  absl::Status LowerLayerNorm(NodeId id);
  absl::Status LowerGeneric(NodeId id);

  // What the linear steps of an epilogue amount to, per channel: (result + bias) * scale + shift.
  struct LinearEpilogue {
    std::vector<float> bias, scale, shift;  // empty: none
  };
  absl::StatusOr<LinearEpilogue> LinearStepsOf(const FusedGroup& group, int64_t channels);
  absl::StatusOr<Layout> MatmulOperand(Value value, int64_t rank, Place* place);

  const std::shared_ptr<const DnnlContext> context_;
  const Graph& graph_;
  const LoweringOptions options_;
  const Group* current_ = nullptr;
  absl::flat_hash_map<Value, Tensor> folded_;
  absl::flat_hash_map<Value, std::vector<Place>> places_;  // the first is where the value is by nature
  absl::flat_hash_map<Value, int> readers_;                // groups still to read it, and graph outputs
  std::map<int, std::vector<Value>> tenants_;              // values by the buffer that they were placed in
  std::set<int> claimed_;                                  // buffers that lie in a concatenation
  std::set<Value> output_taken_;                           // graph outputs that have their buffer
};

// A convolution without what follows it.
ConvProblem ConvProblemOf(const Graph& graph, const Node& node);

// Whether a pad adds elements around its operand and does nothing else: no entry cuts off, nothing comes between.
bool OnlyAdds(const Node& pad);

}  // namespace rewright::cpu
