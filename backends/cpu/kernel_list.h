// The kernels of the device in one ordered list, each of which judges for itself what it runs.
//
// A group goes to the first kernel that takes it; the reference interpreter is last and takes everything. To add a
// kernel: one file with its entry in kernels/, and its name in the list. (oneDNN's lists of implementations work like
// this.)
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/fusion.h"
#include "backends/cpu/kernels/dnnl_util.h"
#include "backends/cpu/lowering.h"
#include "backends/layout.h"

namespace rewright::cpu {

// What the layout of a result depends on.
struct LayoutQuery {
  const DnnlContext& context;
  const Graph& graph;
  Value value;
  std::function<Layout(size_t)> of;  // the layout of an operand

  const Node& node() const { return graph.node(value.node); }
  const Shape& dims() const { return graph.type(value).shape; }
};

struct KernelEntry {
  // Operators of the first node of a group; empty: any.
  std::vector<const OpDef*> ops;
  // Plans the steps of the group. False, and nothing is planned, where the kernel does not run it.
  absl::StatusOr<bool> (*plan)(Lowering& lowering, const FusedGroup& group) = nullptr;
  // The layout in which the kernel gives this value of a group whose operands are laid out like that; none where it
  // does not run it. Null: row-major. `plan` obeys the same function, and costs are told apart by it.
  std::optional<Layout> (*layout)(const LayoutQuery& query) = nullptr;
  // Raised when the kernel's speed changes, so that costs measured before are not used.
  int version = 1;

  bool Takes(const OpDef* op) const;
};

#define REWRIGHT_CPU_KERNELS(X) \
  X(Conv)                       \
  X(Matmul)                     \
  X(View)                       \
  X(Pointwise)                  \
  X(Pool)                       \
  X(Lrn)                        \
  X(Reduce)                     \
  X(Argmax)                     \
  X(Softmax)                    \
  X(LayerNorm)                  \
  X(Gather)                     \
  X(Pad)                        \
  X(Concat)                     \
  X(DepthSpace)                 \
  X(Reference)

#define REWRIGHT_DECLARATION(Name) KernelEntry Name##Entry();
REWRIGHT_CPU_KERNELS(REWRIGHT_DECLARATION)
#undef REWRIGHT_DECLARATION

// All entries in that order.
const std::vector<KernelEntry>& KernelList();

// Another number after a kernel came or changed.
int KernelListVersion();

// Plans the group by the first kernel that takes it.
absl::Status PlanGroup(Lowering& lowering, const FusedGroup& group);

}  // namespace rewright::cpu
