#include "verifier/ranks/placement_search.h"

#include <algorithm>
#include <cmath>

namespace rewright {
namespace {

constexpr double kNoise = 1e-9;  // of the largest magnitude: rounding of f64

double LargestOf(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (std::isfinite(tensor.At(i))) largest = std::max(largest, std::abs(tensor.At(i)));
  }
  return largest;
}

bool Near(double a, double b, double noise) { return a == b || std::abs(a - b) <= noise || (a != a && b != b); }

// The axis of a mesh that is the last of `count` first axes, struck out: [outer, size, inner].
struct LastAxis {
  int64_t outer = 1, size = 1, inner = 1;
  Shape rest;

  LastAxis(const Shape& shape, size_t count) {
    for (size_t k = 0; k < shape.size(); ++k) {
      (k + 1 < count ? outer : k + 1 == count ? size : inner) *= shape[k];
      if (k + 1 != count) rest.push_back(shape[k]);
    }
  }
};

bool AllSame(const Tensor& tensor, const LastAxis& axis) {
  const double noise = kNoise * LargestOf(tensor);
  for (int64_t o = 0; o < axis.outer; ++o) {
    for (int64_t p = 1; p < axis.size; ++p) {
      for (int64_t i = 0; i < axis.inner; ++i) {
        const int64_t at = o * axis.size * axis.inner + i;
        if (!Near(tensor.At(at), tensor.At(at + p * axis.inner), noise)) return false;
      }
    }
  }
  return true;
}

// Strikes out the last of `count` first axes as a placement along it says.
Tensor Without(const Tensor& tensor, const LastAxis& axis, size_t count, int place) {
  Shape shape = axis.rest;
  int64_t before = 1, block = axis.inner;  // of the tensor's axis that is cut, within a rank's part
  if (place >= 0) {
    for (int k = 0; k < place; ++k) before *= shape[count - 1 + k];
    block = axis.inner / before;
    shape[count - 1 + place] *= axis.size;
  }
  Tensor result(TensorType{tensor.dtype(), shape});
  for (int64_t o = 0; o < axis.outer; ++o) {
    for (int64_t p = 0; p < axis.size; ++p) {
      for (int64_t i = 0; i < axis.inner; ++i) {
        const double x = tensor.At((o * axis.size + p) * axis.inner + i);
        if (place >= 0) {
          result.Set(((o * before + i / block) * axis.size + p) * block + i % block, x);
        } else if (IsShare(place)) {
          const int64_t at = o * axis.inner + i;
          const double share = place == kMean ? x / static_cast<double>(axis.size) : x;
          result.Set(at, p == 0 ? share : result.At(at) + share);
        } else if (p == 0) {
          result.Set(o * axis.inner + i, x);
        }
      }
    }
  }
  return result;
}

void AddWholes(const Tensor& tensor, size_t count, MeshPlacement placement, std::vector<PlacedTensor>* found) {
  if (count == 0) {
    found->push_back({std::move(placement), tensor});
    return;
  }
  const LastAxis axis(tensor.shape(), count);
  std::vector<int> places;
  if (axis.size == 1 || AllSame(tensor, axis)) {
    places = {kWhole};  // of which the mean is the same
  } else {
    if (IsFloating(tensor.dtype())) places.push_back(kMean);
    for (int k = 0; k < static_cast<int>(tensor.shape().size() - count); ++k) places.push_back(k);
  }
  if (axis.size > 1 && IsFloating(tensor.dtype())) places.push_back(kSummand);
  for (int place : places) {
    placement[count - 1] = place;
    AddWholes(Without(tensor, axis, count, place), count - 1, placement, found);
  }
}

}  // namespace

std::vector<PlacedTensor> WholesOf(const Tensor& on_mesh, const std::vector<MeshAxis>& mesh) {
  std::vector<PlacedTensor> found;
  AddWholes(on_mesh, mesh.size(), MeshPlacement(mesh.size(), kWhole), &found);
  const auto shares = [](const PlacedTensor& one) {
    return std::count_if(one.placement.begin(), one.placement.end(), IsShare);
  };
  std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return shares(a) < shares(b); });
  return found;
}

Tensor WholeOf(const Tensor& on_mesh, const std::vector<MeshAxis>& mesh, const MeshPlacement& placement,
               int* disagree) {
  Tensor whole = on_mesh;
  for (size_t count = mesh.size(); count > 0; --count) {
    const LastAxis axis(whole.shape(), count);
    if (placement[count - 1] == kWhole && !AllSame(whole, axis)) *disagree = static_cast<int>(count) - 1;
    whole = Without(whole, axis, count, placement[count - 1]);
  }
  return whole;
}

bool SameElements(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const double noise = IsFloating(a.dtype()) ? kNoise * std::max(LargestOf(a), LargestOf(b)) : 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (!Near(a.At(i), b.At(i), noise)) return false;
  }
  return true;
}

double FactorOf(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || !IsFloating(a.dtype())) return 0;
  int64_t most = 0;
  for (int64_t i = 0; i < b.num_elements(); ++i) most = std::abs(b.At(i)) > std::abs(b.At(most)) ? i : most;
  if (b.num_elements() == 0 || b.At(most) == 0) return 0;
  const double factor = a.At(most) / b.At(most);
  const double noise = kNoise * LargestOf(a);
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (!Near(a.At(i), factor * b.At(i), noise)) return 0;
  }
  return std::isfinite(factor) ? factor : 0;
}

}  // namespace rewright
