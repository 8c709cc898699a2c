// The kernels of the device in one ordered list, each of which judges for itself what it runs.
//
// A group goes to the first kernel that takes it; the reference interpreter is last and takes everything. To add a
// kernel: one file with its entry in kernels/, and its name in the list. (oneDNN's lists of implementations work like
// this.)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/onednn/dnnl_util.h"

namespace rewright::cpu {

// The facts on which the layout of a group's output depends.
struct LayoutQuery {
  const DnnlContext& context;
  const Graph& graph;
  const FusedGroup& group;
  Value value;
  bool returned = false;  // the caller gets it, row-major
  // The layout of an input of the group; none of constants, which are laid out as kernels like.
  std::function<std::optional<Layout>(Value)> of;

  const Node& node() const { return graph.node(value.node); }
  const Shape& dims() const { return graph.type(value).shape; }
  // The layout of an operand of node(); constants count as row-major.
  Layout operand(size_t k) const;
};

struct KernelEntry {
  // Operators of the first node of a group, derived ones by name: they are made when a graph has them. None: any.
  std::vector<const OpDef*> ops;
  std::vector<std::string> derived = {};
  // Plans the steps of the group. False, and nothing is planned, where the kernel does not run it.
  absl::StatusOr<bool> (*plan)(Lowering& lowering, const FusedGroup& group) = nullptr;
  // The layout in which the kernel gives the value; none where it does not run the group. Null: row-major. `plan`
  // must write this layout, and groups with different layouts have measured costs of their own.
  std::optional<Layout> (*layout)(const LayoutQuery& query) = nullptr;
  // Laws by which the kernel may compute the group through other operators, for example Winograd for conv2d. Only
  // allowed laws are returned; the kernel then runs where Lowering::LawOf names one of them. Null: the kernel uses no
  // laws.
  std::vector<std::string> (*laws)(const DnnlContext& context, const Graph& graph, const FusedGroup& group) = nullptr;
  // Raised when the kernel's speed changes, so that costs measured before are not used.
  int version = 1;

  bool Takes(const OpDef* op) const;
};

#define REWRIGHT_CPU_KERNELS(X) \
  X(FoldGroup)                  \
  X(Bf16Product)                \
  X(Wide)                       \
  X(QuantizedProduct)           \
  X(Winograd)                   \
  X(GroupedConv)                \
  X(Conv)                       \
  X(Convolution)                \
  X(Matmul)                     \
  X(DotGeneral)                 \
  X(IntegerProduct)             \
  X(View)                       \
  X(Pointwise)                  \
  X(Rows)                       \
  X(FusedReduce)                \
  X(Pool)                       \
  X(PoolGrad)                   \
  X(Lrn)                        \
  X(Reduce)                     \
  X(Argmax)                     \
  X(Cumsum)                     \
  X(Softmax)                    \
  X(LayerNorm)                  \
  X(BatchNormTrain)             \
  X(Gather)                     \
  X(ScatterAdd)                 \
  X(Pad)                        \
  X(Concat)                     \
  X(DepthSpace)                 \
  X(Opaque)                     \
  X(Fetch)                      \
  X(Reference)

#define REWRIGHT_DECLARATION(Name) KernelEntry Name##Entry();
REWRIGHT_CPU_KERNELS(REWRIGHT_DECLARATION)
#undef REWRIGHT_DECLARATION

// All entries in that order.
const std::vector<KernelEntry>& KernelList();

// Another text after a kernel came, went, changed or moved in the list; VersionOf gives that of names and versions.
std::string KernelListVersion();
std::string VersionOf(const std::vector<std::pair<std::string, int>>& kernels);

// The layout of the value by the first kernel that takes the group, without kernels that were planned: lowering obeys
// it.
Layout ResultLayout(const LayoutQuery& query);

// The layout of a product of matrices, which may lie as its reader wants it.
Layout ProductLayout(const Graph& graph, const FusedGroup& group, Value value);

// The allowed laws of all kernels.
std::vector<std::string> AllowedLaws(const DnnlContext& context, const Graph& graph, const FusedGroup& group);

// Plans the group by the first kernel that takes it.
absl::Status PlanGroup(Lowering& lowering, const FusedGroup& group);

}  // namespace rewright::cpu
