#include <algorithm>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// The axes of an operand that are neither batch axes nor contracted, in order.
std::vector<int64_t> FreeAxes(int rank, const std::vector<int64_t>& batch, const std::vector<int64_t>& contracting) {
  std::vector<int64_t> free;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool taken = std::find(batch.begin(), batch.end(), axis) != batch.end() ||
                       std::find(contracting.begin(), contracting.end(), axis) != contracting.end();
    if (!taken) free.push_back(axis);
  }
  return free;
}

// The axes of one operand by their part.
struct Operand {
  Operand(const OpBuilder& b, int input, const std::string& side)
      : input(input),
        batch(b.Ints(side + "_batch")),
        contracting(b.Ints(side + "_contracting")),
        free(FreeAxes(b.rank(input), batch, contracting)) {}

  // True if the lists name distinct axes.
  bool IsLegal(int rank) const {
    std::vector<int64_t> named = batch;
    named.insert(named.end(), contracting.begin(), contracting.end());
    return AreAxes(named, rank);
  }

  Scalar Read(const OpBuilder& b, const std::vector<Index>& at_batch, const std::vector<Index>& at_free,
              const std::vector<Index>& at_contracting) const {
    std::vector<Index> at(static_cast<size_t>(b.rank(input)));
    for (size_t k = 0; k < batch.size(); ++k) at[batch[k]] = at_batch[k];
    for (size_t k = 0; k < free.size(); ++k) at[free[k]] = at_free[k];
    for (size_t k = 0; k < contracting.size(); ++k) at[contracting[k]] = at_contracting[k];
    return b.Read(input, at);
  }

  int input;
  std::vector<int64_t> batch, contracting, free;
};

}  // namespace

// out[b.., m.., n..] = sum k..: lhs[b.., m.., k..] * rhs[b.., n.., k..], the axes of each operand in the order that its
// lists give: b.. batch axes, k.. contracted axes, m.. and n.. the others
static absl::Status DotGeneralMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, Elements::kNumbers));
  const Operand lhs(b, 0, "lhs"), rhs(b, 1, "rhs");
  if (!lhs.IsLegal(b.rank(0)) || !rhs.IsLegal(b.rank(1))) {
    return b.Error("batch and contracting axes must be distinct axes of their operand");
  }
  if (lhs.batch.size() != rhs.batch.size()) return b.Error("both operands must have as many batch axes");
  if (lhs.contracting.size() != rhs.contracting.size()) {
    return b.Error("both operands must have as many contracting axes");
  }
  std::vector<Index> shape;
  OpBuilder::Ranges ranges;
  const auto size = [&](int input, int64_t axis) { return b.size(input, static_cast<int>(axis)); };
  for (size_t k = 0; k < lhs.batch.size(); ++k) {
    b.Require(size(0, lhs.batch[k]) == size(1, rhs.batch[k]), "sizes of batch axes must be equal");
    shape.push_back(size(0, lhs.batch[k]));
  }
  for (size_t k = 0; k < lhs.contracting.size(); ++k) {
    b.Require(size(0, lhs.contracting[k]) == size(1, rhs.contracting[k]), "sizes of contracting axes must be equal");
    ranges.emplace_back("k" + std::to_string(k), size(0, lhs.contracting[k]));
  }
  for (int64_t axis : lhs.free) shape.push_back(size(0, axis));
  for (int64_t axis : rhs.free) shape.push_back(size(1, axis));

  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    const auto free = i.begin() + static_cast<int64_t>(lhs.batch.size());
    const auto last = free + static_cast<int64_t>(lhs.free.size());
    const auto product = [&](const std::vector<Index>& k) {
      return lhs.Read(b, i, {free, last}, k) * rhs.Read(b, i, {last, i.end()}, k);
    };
    return ranges.empty() ? product({}) : b.Sum(ranges, product);
  });
}

// Random roles for the axes of two operands.
static OpSample DotGeneralSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kNumbers);
  const Shape batch = RandomShape(rng, 0, 2), contracting = RandomShape(rng, 0, 2);
  OpSample sample;
  for (const std::string side : {"lhs", "rhs"}) {
    Shape sizes = batch;  // batch, contracting, free, then shuffled
    sizes.insert(sizes.end(), contracting.begin(), contracting.end());
    const Shape free = RandomInts(rng, static_cast<int>(RandomInt(rng, 0, 2)), 1, 4);
    sizes.insert(sizes.end(), free.begin(), free.end());
    std::vector<int64_t> places(sizes.size());
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), rng);
    TensorType type{dtype, Shape(sizes.size())};
    for (size_t k = 0; k < sizes.size(); ++k) type.shape[places[k]] = sizes[k];
    sample.inputs.push_back(type);
    const auto end = places.begin() + static_cast<int64_t>(batch.size());
    sample.attrs[side + "_batch"] = std::vector<int64_t>(places.begin(), end);
    sample.attrs[side + "_contracting"] = std::vector<int64_t>(end, end + static_cast<int64_t>(contracting.size()));
  }
  return sample;
}

OpDef DotGeneralOp() {
  return OpDef{.name = "dot_general",
               .summary = "The sum of products over pairs of axes, one for each index of pairs of batch axes.",
               .inputs = {"lhs", "rhs"},
               .attrs = {StructuralInts("lhs_batch", "batch axes of lhs; they come first in the result", List({})),
                         StructuralInts("rhs_batch", "the axes of rhs that they belong to", List({})),
                         StructuralInts("lhs_contracting", "axes of lhs that are summed over", List({})),
                         StructuralInts("rhs_contracting", "the axes of rhs that they belong to", List({}))},
               .meaning = DotGeneralMeaning,
               .sample = DotGeneralSample};
}

}  // namespace rewright
