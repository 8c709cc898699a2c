// Fuses nodes into groups that the GPU runs as one.
//
// Groups are made in this order:
//   0. Where values are stored in 16 bits, attention is one call of a library: softmax over the last axis of a
//      product, scaled by a constant and shifted by a mask (each optional, in this order), multiplied with a third
//      matrix.
//   1. An anchor (conv2d, matmul on f32) is a call of a library. It takes the nodes that the libraries' epilogues
//      compute, as long as each value in between has no other reader: a weight-only shift per output channel, one
//      addition of a value of the same shape, one relu (behind a convolution also with an upper limit) or, behind a
//      product, GELU, in this order. In front of the addition or activation behind a product there may be a reshape
//      that keeps the last axis.
//   2. A concatenation with parts that such calls can write in place (context_layout.h) is alone.
//   3. Everything else becomes generated kernels. A producer joins the group of its readers when they are all in one
//      group and computing its element anew at each of them costs little, or where it reduces the rows that the
//      group's kernel has a block for (an RMS norm written out is one kernel). Since a kernel is one expression
//      (kernel_source.h), it does not matter whether a producer is pointwise or moves elements.
//   4. A node that only moves elements and stands alone is a view where the layout allows.
//   5. Anchors that read the same value, and beside it weights alone, are siblings and become one group: they run
//      side by side (lanes.h), so that only their time together tells the gain of merging them.
// Every group but that of siblings has one node whose outputs escape, the last.
#pragma once

#include <limits>
#include <vector>

#include "backends/cuda/gpu.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright::cuda {

struct FusedGroup {
  enum class Kind : uint8_t { kConv, kMatmul, kAttention, kConcat, kKernel, kView, kSiblings };
  Kind kind = Kind::kKernel;
  Group group;
  // kConv, kMatmul; a node of -1: none.
  Value bias, residual;
  Activation activation = Activation::kNone;
  double most = std::numeric_limits<double>::infinity();  // of the relu behind a convolution
  // kAttention; the nodes are a product, what scales and shifts it, the softmax, the second product.
  double scale = 1;
  Value mask;
  std::vector<FusedGroup> parts;  // kSiblings
};

// The part of an epilogue that anchors take.
enum class Epilogue : uint8_t { kNone, kBias, kWhole };

struct FusionOptions {
  bool attention = false;
  bool channels_last = false;  // of convolutions
  int element_bytes = 4;       // as values are stored between kernels
  Epilogue epilogue = Epilogue::kWhole;
};

// All groups, operands before users. Nodes that depend on weights alone belong to none.
std::vector<FusedGroup> FuseGraph(const Graph& graph, const FusionOptions& options);
// The groups of these nodes alone, without attention: what a group that no library computes falls apart into.
std::vector<FusedGroup> FuseNodes(const Graph& graph, const std::vector<NodeId>& nodes,
                                  Epilogue epilogue = Epilogue::kWhole);

}  // namespace rewright::cuda
