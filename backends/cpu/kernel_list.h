// The kernels of the device in one ordered list, each of which judges for itself what it runs.
//
// A group goes to the first kernel that takes it; the reference interpreter is last and takes everything. To add a
// kernel: one file with its entry (in kernels/, or products/, folds/, winograd/, lower/), and a row in the list. A new
// kind of group also needs a FusedGroup::Kind and a place in FuseGraph (fuse/fusion.h). OneDNN's lists of
// implementations work like this.
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
  // Names of ways in which the kernel may compute the group that need no law. They are chosen like laws. Null: none.
  std::vector<std::string> (*ways)(const DnnlContext& context, const Graph& graph, const FusedGroup& group) = nullptr;
  // Raised when the kernel's speed changes, so that costs measured before are not used.
  int version = 1;

  bool Takes(const OpDef* op) const;
};

// A group that two kernels would take goes to the upper one.
// clang-format off
#define REWRIGHT_CPU_KERNELS(X) \
  X(FoldGroup)       /* folds/fold_group.cc: attention and other folds in one pass, before kernels of their parts */ \
  X(Bf16Product)     /* products/bf16_product.cc: products of bf16 by the processor's instructions, before Wide */ \
  X(Wide)            /* kernels/wide.cc: 16-bit floats, computed in f32 by the kernels below */ \
  X(QuantizedProduct)/* kernels/quantized_product.cc: products and convolutions of 8-bit integers */ \
  X(Winograd)        /* winograd/winograd.cc: conv2d by a law, where costs say that it pays */ \
  X(SplitConv)       /* products/split_conv.cc: conv2d of f32 with weights on tiles of bf16, before Conv */ \
  X(GroupedConv)     /* kernels/grouped_conv.cc: conv2d in groups of 2 or 4 channels, which oneDNN lacks */ \
  X(Conv)            /* kernels/conv.cc: conv2d with its epilogue, by oneDNN */ \
  X(Convolution)     /* kernels/convolution.cc: the operator `convolution` (gradients, transposed ones), by oneDNN */ \
  X(SplitProduct)    /* products/split_product.cc: products of f32 with a weight, on tiles of bf16, before Matmul */ \
  X(Matmul)          /* kernels/matmul.cc: products of f32 */ \
  X(DotGeneral)      /* kernels/dot_general.cc: sums of products over any axes */ \
  X(IntegerProduct)  /* kernels/integer_product.cc: products and convolutions of 32-bit integers */ \
  X(View)            /* kernels/view.cc: operators that only move elements */ \
  X(Pointwise)       /* lower/lower_pointwise.cc: groups of elementwise operators */ \
  X(Rows)            /* kernels/reduce.cc: groups of rows, such as norms: reductions and what is computed of them */ \
  X(FusedReduce)     /* kernels/reduce.cc: a reduction of what elementwise operators give */ \
  X(Pool)            /* kernels/pool.cc */ \
  X(PoolGrad)        /* kernels/pool_grad.cc */ \
  X(Lrn)             /* kernels/lrn.cc */ \
  X(Reduce)          /* kernels/reduce.cc: a reduction alone */ \
  X(Argmax)          /* kernels/along_axis.cc */ \
  X(Cumsum)          /* kernels/along_axis.cc */ \
  X(Softmax)         /* kernels/rows.cc */ \
  X(LayerNorm)       /* kernels/rows.cc */ \
  X(BatchNormTrain)  /* kernels/batch_norm.cc */ \
  X(Gather)          /* kernels/gather.cc */ \
  X(ScatterAdd)      /* kernels/gather.cc */ \
  X(Pad)             /* kernels/moves.cc */ \
  X(Concat)          /* kernels/concat.cc */ \
  X(DepthSpace)      /* kernels/moves.cc */ \
  X(Opaque)          /* kernels/opaque.cc: nodes of a file that are not known here, by onnxruntime */ \
  X(Fetch)           /* kernels/moves.cc: copies from the second tier of memory */ \
  X(Reference)       /* kernels/reference.cc: everything else, by the interpreter */
// clang-format on

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

// The allowed laws of all kernels, and the ways that need none.
std::vector<std::string> AllowedLaws(const DnnlContext& context, const Graph& graph, const FusedGroup& group);
std::vector<std::string> OtherWays(const DnnlContext& context, const Graph& graph, const FusedGroup& group);

// Plans the group by the first kernel that takes it.
absl::Status PlanGroup(Lowering& lowering, const FusedGroup& group);

}  // namespace rewright::cpu
