#include "core/ops/ops.h"

#include <map>
#include <utility>

#include "core/base/check.h"

namespace rewright {
namespace {

using Maker = OpDef (*)();

// Every operator besides the real functions; the order is that of listings.
constexpr Maker kMakers[] = {
    // Elementwise, of one operand.
    IdentityOp,
    NegOp,
    AbsOp,
    SignOp,
    ReciprocalOp,
    RsqrtOp,
    ReluOp,
    LeakyReluOp,
    ClipOp,
    GeluOp,
    LogicalNotOp,
    CastOp,
    // Elementwise, of several operands that broadcast.
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    RemOp,
    ModOp,
    PowOp,
    MinOp,
    MaxOp,
    EqualOp,
    NotEqualOp,
    LessOp,
    LessEqualOp,
    GreaterOp,
    GreaterEqualOp,
    LogicalAndOp,
    LogicalOrOp,
    LogicalXorOp,
    WhereOp,
    ClampOp,
    // Contractions and windows.
    MatmulOp,
    DotGeneralOp,
    Conv2dOp,
    ConvolutionOp,
    MaxPool2dOp,
    AvgPool2dOp,
    // Normalization.
    BatchNormOp,
    LayerNormOp,
    LrnOp,
    SoftmaxOp,
    LogSoftmaxOp,
    // Reductions.
    ReduceSumOp,
    ReduceMeanOp,
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceAndOp,
    ReduceOrOp,
    ArgmaxOp,
    // Movement of elements.
    ConcatOp,
    SplitOp,
    SliceOp,
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    ReverseOp,
    PadOp,
    TransposeOp,
    ReshapeOp,
    ExpandOp,
    BroadcastInDimOp,
    IotaOp,
    GatherOp,
    DepthToSpaceOp,
    SpaceToDepthOp,
};

struct Registry {
  std::vector<const OpDef*> ops;
  std::map<std::string, const OpDef*> by_name;

  Registry() {
    for (OpDef& op : RealFunctionOps()) Add(std::move(op));
    for (Maker maker : kMakers) Add(maker());
  }

  void Add(OpDef op) {
    ops.push_back(new OpDef(std::move(op)));
    CHECK(by_name.emplace(ops.back()->name, ops.back()).second) << "two operators are named " << ops.back()->name;
  }
};

// Never destroyed: graphs may outlive it otherwise.
const Registry& TheRegistry() {
  static const Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

const std::vector<const OpDef*>& AllOps() { return TheRegistry().ops; }

const OpDef* FindOp(const std::string& name) {
  const auto& by_name = TheRegistry().by_name;
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace rewright
