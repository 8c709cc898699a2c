// A plan from elsewhere: a graph for each rank of a mesh, with collectives between them, and how ranks hold the inputs
// and outputs of the model on one device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/graph.h"

namespace rewright {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

// How ranks along each axis of the mesh hold a tensor: cut along an axis of it (a number from 0 on), each all of it, or
// in shares, whose sum or mean it is. Where two axes of the mesh cut one axis, the first makes the outer blocks.
using MeshPlacement = std::vector<int>;
inline constexpr int kWhole = -1;
inline constexpr int kSummand = -2;
inline constexpr int kMean = -3;
inline bool IsShare(int place) { return place == kSummand || place == kMean; }

enum class CollectiveKind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

struct RankCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string reduction = "sum";  // sum, max, min, product, avg
  int axis = 0;                   // of the tensor, for a gather or a scatter
  std::vector<int64_t> group;     // ranks
};

struct RankModel {
  Graph graph;                                     // collectives are foreign nodes (core/ops/foreign.h)
  std::map<int64_t, RankCollective> collectives;   // by the attribute `node`
};

struct RankPlan {
  std::vector<MeshAxis> mesh;
  std::vector<RankModel> ranks;  // row by row of the mesh
  std::map<std::string, MeshPlacement> inputs;
  std::vector<std::pair<std::string, MeshPlacement>> outputs;

  // "ranks 0 and 1 (tp)" for the axis of the mesh on which the first rank lies.
  std::string GroupText(const std::vector<int>& axes) const;
  int64_t num_ranks() const;
};

}  // namespace rewright
