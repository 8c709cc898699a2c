// Finds how ranks hold a value of the model on one device, by elements alone. A find is worth a proof.
#pragma once

#include <map>
#include <vector>

#include "core/tensor/tensor.h"
#include "verifier/ranks/rank_plan.h"

namespace rewright {

// A tensor of all ranks as a tensor of the whole.
struct PlacedTensor {
  MeshPlacement placement;
  Tensor whole;
};

// The tensors that placements of a tensor on the whole mesh stand for: those without shares first.
std::vector<PlacedTensor> WholesOf(const Tensor& on_mesh, const std::vector<MeshAxis>& mesh);
// The same for one placement. Where ranks that hold all of it disagree, *disagree is set to an axis of the mesh.
Tensor WholeOf(const Tensor& on_mesh, const std::vector<MeshAxis>& mesh, const MeshPlacement& placement, int* disagree);

// True if the elements are the same but for rounding in f64; then the first are `factor` times the second.
bool SameElements(const Tensor& a, const Tensor& b);
// The number by which all elements of the first are multiples of the second; 0: there is none, or the second is 0.
double FactorOf(const Tensor& a, const Tensor& b);

}  // namespace rewright
