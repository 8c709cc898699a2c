// Names for the sizes of a claim, so that it speaks of any number of ranks along each axis of the mesh.
//
// An axis of the mesh is d0, d1, .. A size of the ranks' tensors is n with its number: equal sizes have one name, which
// makes the claim more special and keeps it true of these tensors. A size of the whole is a product of both, and so is
// a size that another tensor of the claim has cut further, or in several axes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verifier/equal/region.h"
#include "verifier/ranks/device_terms.h"

namespace rewright {

// Guesses of what a size is a product of. Each makes a claim; a wrong one has no proof.
struct Naming {
  bool merged = false;  // sizes of neighbouring axes of another tensor
  bool cut = false;     // axes of the mesh that cut the same size of the whole in another tensor
};
inline constexpr Naming kNamings[] = {{false, false}, {true, false}, {false, true}, {true, true}};

class ClaimSizes {
 public:
  // `axes` are those of the mesh that the claim has.
  ClaimSizes(const RankPlan& plan, const std::vector<int>& axes) : plan_(plan), axes_(axes) {}

  // The type of a tensor of all ranks without the axes of the mesh along which it is whole.
  TensorType PartsOf(const TensorType& of_rank, const MeshPlacement& placement) const;
  // A tensor of the claim; its leaf, of the type PartsOf, or -1.
  void Add(NodeId leaf, const Shape& of_rank, const MeshPlacement& placement);
  // The size of the whole of such a tensor along an axis is the attribute of this node, on both sides.
  void AddSizeOfWhole(NodeId node, const Shape& of_rank, const MeshPlacement& placement, int axis);
  // Terms that have axes of the mesh as attributes; they outlive the names.
  void AddTerms(const DeviceTerms* terms) { terms_.push_back(terms); }

  // Names on the side of the model, or on that of the ranks. They live as long as this.
  SizeNames Names(Naming naming, bool of_whole) const;

 private:
  struct Part {
    NodeId leaf;
    Shape of_rank;
    MeshPlacement placement;
  };
  // A size as a product of axes of the mesh and sizes.
  struct Product {
    std::multiset<int> axes;
    std::multiset<int64_t> sizes;
  };

  std::set<int> AxesThatCut(const Part& part, size_t axis) const;
  int64_t WholeOf(const Part& part, size_t axis) const;
  // A size of ranks' tensors, as a product.
  Product Factors(int64_t size, Naming naming) const;
  static ArgExpr NameOf(const Product& product);
  ArgExpr NameOf(const Part& part, size_t axis, bool of_whole, Naming naming) const;

  const RankPlan& plan_;
  const std::vector<int>& axes_;
  std::vector<const DeviceTerms*> terms_;
  std::vector<Part> parts_;
  std::map<NodeId, std::pair<Part, int>> sizes_of_wholes_;
};

}  // namespace rewright
