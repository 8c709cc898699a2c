#include "verifier/ranks/claim_sizes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "substitutions/language/rule_terms.h"

namespace rewright {

TensorType ClaimSizes::PartsOf(const TensorType& of_rank, const MeshPlacement& placement) const {
  TensorType parts{of_rank.dtype, {}};
  for (int axis : axes_) {
    if (placement[axis] != kWhole) parts.shape.push_back(plan_.mesh[axis].size);
  }
  parts.shape.insert(parts.shape.end(), of_rank.shape.begin(), of_rank.shape.end());
  return parts;
}

void ClaimSizes::Add(NodeId leaf, const Shape& of_rank, const MeshPlacement& placement) {
  parts_.push_back({leaf, of_rank, placement});
}

void ClaimSizes::AddSizeOfWhole(NodeId node, const Shape& of_rank, const MeshPlacement& placement, int axis) {
  sizes_of_wholes_[node] = {{node, of_rank, placement}, axis};
}

std::set<int> ClaimSizes::AxesThatCut(const Part& part, size_t axis) const {
  std::set<int> cut;
  for (int mesh_axis : axes_) {
    if (part.placement[mesh_axis] == static_cast<int>(axis)) cut.insert(mesh_axis);
  }
  return cut;
}

int64_t ClaimSizes::WholeOf(const Part& part, size_t axis) const {
  int64_t size = part.of_rank[axis];
  for (int mesh_axis : AxesThatCut(part, axis)) size *= plan_.mesh[mesh_axis].size;
  return size;
}

ClaimSizes::Product ClaimSizes::Factors(int64_t size, Naming naming) const {
  for (const Part& part : parts_) {
    for (size_t axis = 0; naming.cut && axis < part.of_rank.size(); ++axis) {
      if (part.of_rank[axis] != size) continue;
      const std::set<int> cut = AxesThatCut(part, axis);
      for (const Part& other : parts_) {
        for (size_t k = 0; k < other.of_rank.size(); ++k) {
          const std::set<int> further = AxesThatCut(other, k);
          if (WholeOf(other, k) != WholeOf(part, axis) || further.size() <= cut.size() || other.of_rank[k] <= 1 ||
              !std::includes(further.begin(), further.end(), cut.begin(), cut.end())) {
            continue;
          }
          Product product = Factors(other.of_rank[k], naming);
          for (int mesh_axis : further) {
            if (!cut.contains(mesh_axis)) product.axes.insert(mesh_axis);
          }
          return product;
        }
      }
    }
  }
  if (naming.merged) {
    for (const Part& part : parts_) {
      for (size_t begin = 0; begin < part.of_rank.size(); ++begin) {
        int64_t merged = part.of_rank[begin];
        for (size_t end = begin + 1; end < part.of_rank.size() && merged < size; ++end) {
          merged *= part.of_rank[end];
          const bool proper = std::all_of(part.of_rank.begin() + static_cast<int64_t>(begin),
                                          part.of_rank.begin() + static_cast<int64_t>(end) + 1,
                                          [&](int64_t one) { return one > 0 && one < size; });
          if (merged != size || !proper) continue;
          Product product;
          for (size_t k = begin; k <= end; ++k) {
            if (part.of_rank[k] == 1) continue;
            const Product factor = Factors(part.of_rank[k], naming);
            product.axes.insert(factor.axes.begin(), factor.axes.end());
            product.sizes.insert(factor.sizes.begin(), factor.sizes.end());
          }
          return product;
        }
      }
    }
  }
  return {{}, {size}};
}

ArgExpr ClaimSizes::NameOf(const Product& product) {
  std::optional<ArgExpr> name;
  const auto times = [&](ArgExpr factor) {
    name = name ? ArgExpr::Binary(ArgOp::kMul, *std::move(name), std::move(factor)) : std::move(factor);
  };
  for (int axis : product.axes) times(NameArg(absl::StrCat("d", axis)));
  for (int64_t size : product.sizes) times(size <= 1 ? ArgExpr::Int(size) : NameArg(absl::StrCat("n", size)));
  return *name;
}

ArgExpr ClaimSizes::NameOf(const Part& part, size_t axis, bool of_whole, Naming naming) const {
  Product product = Factors(part.of_rank[axis], naming);
  if (of_whole) {
    for (int mesh_axis : AxesThatCut(part, axis)) product.axes.insert(mesh_axis);
  }
  return NameOf(product);
}

SizeNames ClaimSizes::Names(Naming naming, bool of_whole) const {
  return [this, naming, of_whole](NodeId node, const std::string& attribute, const std::vector<int64_t>& sizes) {
    std::vector<ArgExpr> names;
    for (int64_t size : sizes) names.push_back(ArgExpr::Int(size));
    for (const DeviceTerms* terms : terms_) {
      const int axis = terms->AxisOf(node);
      if (axis >= 0 && !attribute.empty()) return std::vector<ArgExpr>(sizes.size(), NameOf(Product{{axis}, {}}));
    }
    if (const auto found = sizes_of_wholes_.find(node); found != sizes_of_wholes_.end()) {
      const auto& [part, axis] = found->second;
      return std::vector<ArgExpr>(sizes.size(), NameOf(part, static_cast<size_t>(axis), /*of_whole=*/true, naming));
    }
    for (const Part& part : parts_) {
      if (part.leaf == node && attribute.empty()) {
        names.clear();
        for (int axis : axes_) {
          if (part.placement[axis] != kWhole) names.push_back(NameOf(Product{{axis}, {}}));
        }
        for (size_t k = 0; k < part.of_rank.size(); ++k) names.push_back(NameOf(part, k, /*of_whole=*/false, naming));
        return names;
      }
    }
    // The shape of a tensor of the claim as a list, else each size by itself.
    const auto shape_of = [&](const Part& part) {
      std::vector<int64_t> shape;
      for (size_t k = 0; k < part.of_rank.size(); ++k) shape.push_back(of_whole ? WholeOf(part, k) : part.of_rank[k]);
      return shape;
    };
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      if (shape_of(*part) != sizes) continue;
      for (size_t k = 0; k < sizes.size(); ++k) names[k] = NameOf(*part, k, of_whole, naming);
      return names;
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      bool found = sizes[i] <= 1;
      for (auto part = parts_.rbegin(); part != parts_.rend() && !found; ++part) {
        const std::vector<int64_t> shape = shape_of(*part);
        const auto at = std::find(shape.begin(), shape.end(), sizes[i]);
        found = at != shape.end();
        if (found) names[i] = NameOf(*part, static_cast<size_t>(at - shape.begin()), of_whole, naming);
      }
      if (!found) names[i] = NameOf(Factors(sizes[i], naming));
    }
    return names;
  };
}

}  // namespace rewright
