#include "core/ops/common.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

std::string InputName(const OpBuilder& b, int input) {
  const std::vector<std::string>& names = b.op().inputs;
  return names[std::min<size_t>(static_cast<size_t>(input), names.size() - 1)];
}

bool Allows(Elements allowed, DType dtype) {
  switch (allowed) {
    case Elements::kAny: return true;
    case Elements::kNumbers: return dtype != DType::kBool;
    case Elements::kFloats: return IsFloating(dtype);
    case Elements::kIntegers: return IsInteger(dtype);
    case Elements::kBools: return dtype == DType::kBool;
  }
  return false;
}

const char* ElementsText(Elements allowed) {
  switch (allowed) {
    case Elements::kAny: return "of any type";
    case Elements::kNumbers: return "numbers";
    case Elements::kFloats: return "floating-point numbers";
    case Elements::kIntegers: return "integers";
    case Elements::kBools: return "truth values";
  }
  return "";
}

}  // namespace

// ---------------------------------------------------------------- checks

absl::Status CheckElements(const OpBuilder& b, int input, Elements allowed) {
  if (Allows(allowed, b.dtype(input))) return absl::OkStatus();
  return b.Error(absl::StrCat("the elements of ", InputName(b, input), " must be ", ElementsText(allowed), ", not ",
                              DTypeName(b.dtype(input))));
}

absl::Status CheckElements(const OpBuilder& b, Elements allowed) {
  for (int i = 0; i < b.num_inputs(); ++i) {
    if (b.dtype(i) != b.dtype(0)) {
      return b.Error(absl::StrCat("the inputs must have one element type, not ", DTypeName(b.dtype(0)), " and ",
                                  DTypeName(b.dtype(i))));
    }
  }
  return CheckElements(b, 0, allowed);
}

absl::Status CheckRank(const OpBuilder& b, int input, int rank) {
  if (b.rank(input) == rank) return absl::OkStatus();
  return b.Error(absl::StrCat(InputName(b, input), " must have rank ", rank, ", not ", b.rank(input)));
}

absl::Status CheckRankAtLeast(const OpBuilder& b, int input, int rank) {
  if (b.rank(input) >= rank) return absl::OkStatus();
  return b.Error(absl::StrCat(InputName(b, input), " must have rank ", rank, " or more, not ", b.rank(input)));
}

absl::Status CheckLength(const OpBuilder& b, const std::string& attr, int length) {
  if (b.Length(attr) == length) return absl::OkStatus();
  return b.Error(absl::StrCat("the length of ", attr, " must be ", length, ", not ", b.Length(attr)));
}

bool AreAxes(std::vector<int64_t> axes, int rank) {
  std::sort(axes.begin(), axes.end());
  const bool inside = axes.empty() || (axes.front() >= 0 && axes.back() < rank);
  return inside && std::adjacent_find(axes.begin(), axes.end()) == axes.end();
}

absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- shapes and positions

absl::Status OnlyOutput(OpBuilder& b, DType dtype, const std::vector<Index>& shape, const OpBuilder::Body& element,
                        const std::vector<std::string>& names) {
  b.Output(dtype, shape, element, names);
  return absl::OkStatus();
}

std::vector<Index> Symbols(const OpBuilder& b, const std::string& attr) {
  std::vector<Index> symbols;
  for (int k = 0; k < b.Length(attr); ++k) symbols.push_back(b.Sym(attr, k));
  return symbols;
}

Index Product(const std::vector<Index>& sizes) {
  Index product = 1;
  for (const Index& size : sizes) product = product * size;
  return product;
}

std::vector<Index> PrefixSums(const std::vector<Index>& sizes) {
  std::vector<Index> sums = {0};
  if (sizes.size() <= kPartsInARow) {
    for (const Index& size : sizes) sums.push_back(sums.back() + size);
    return sums;
  }
  std::vector<Index> pairs;
  for (size_t k = 0; k + 1 < sizes.size(); k += 2) pairs.push_back(sizes[k] + sizes[k + 1]);
  const std::vector<Index> of_pairs = PrefixSums(pairs);
  for (size_t k = 0; k < sizes.size(); ++k) {
    sums.push_back(k % 2 == 0 ? of_pairs[k / 2] + sizes[k] : of_pairs[k / 2 + 1]);
  }
  return sums;
}

std::vector<Index> With(std::vector<Index> position, int axis, const Index& index) {
  position[axis] = index;
  return position;
}

Broadcast::Broadcast(OpBuilder& b, std::vector<int> inputs, int trailing) : b_(b), trailing_(trailing) {
  int rank = 0;
  for (int input : inputs) rank = std::max(rank, b.rank(input) - trailing);
  for (int i = 0; i < rank; ++i) {
    Index common = 1;
    bool stretched = true;
    for (int input : inputs) {
      const int axis = i - (rank - (b.rank(input) - trailing));
      if (axis < 0 || b.is_unit(input, axis)) continue;
      const Index size = b.size(input, axis);
      if (stretched) {
        common = size;
      } else {
        b.Require(common == size, "sizes that broadcast must be equal or one");
      }
      stretched = false;
    }
    shape_.push_back(common);
  }
}

std::vector<Index> Broadcast::At(int input, const std::vector<Index>& position) const {
  const int rank = b_.rank(input) - trailing_;
  const int skipped = static_cast<int>(shape_.size()) - rank;
  std::vector<Index> at;
  for (int axis = 0; axis < rank; ++axis) at.push_back(b_.is_unit(input, axis) ? Index(0) : position[skipped + axis]);
  return at;
}

Index Window::Count(bool ceil_mode) const {
  const Index room = size + before + after - Extent();
  if (!ceil_mode) return FloorDiv(room, stride) + 1;
  return Min(CeilDiv(room, stride) + 1, CeilDiv(size + before, stride));
}

std::pair<Window, Window> Windows2d(OpBuilder& b, const Index& kernel_height, const Index& kernel_width) {
  const bool dilated = b.op().FindAttr("dilations") != nullptr;
  auto window = [&](int i, const Index& kernel) {
    return Window{.size = b.size(0, 2 + i),
                  .kernel = kernel,
                  .stride = b.Sym("strides", i),
                  .before = b.Sym("pads", i),
                  .after = b.Sym("pads", 2 + i),
                  .dilation = dilated ? b.Sym("dilations", i) : Index(1)};
  };
  const Window rows = window(0, kernel_height);
  const Window columns = window(1, kernel_width);
  b.Require(rows.Extent() <= rows.size + rows.before + rows.after, "the kernel must fit the padded height");
  b.Require(columns.Extent() <= columns.size + columns.before + columns.after, "the kernel must fit the padded width");
  return {rows, columns};
}

// ---------------------------------------------------------------- samples

int64_t RandomInt(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

bool RandomFlag(Rng& rng) { return RandomInt(rng, 0, 1) == 1; }

std::vector<int64_t> RandomInts(Rng& rng, int length, int64_t low, int64_t high) {
  std::vector<int64_t> values;
  for (int i = 0; i < length; ++i) values.push_back(RandomInt(rng, low, high));
  return values;
}

DType RandomDType(Rng& rng, Elements allowed) {
  if (Allows(allowed, DType::kFloat32) && RandomInt(rng, 0, 3) > 0) return DType::kFloat32;
  std::vector<DType> plain, others;
  for (DType dtype : kAllDTypes) {
    const bool is_plain = std::find(std::begin(kPlainDTypes), std::end(kPlainDTypes), dtype) != std::end(kPlainDTypes);
    if (Allows(allowed, dtype)) (is_plain ? plain : others).push_back(dtype);
  }
  // One random number decides, as in all choices: half of its values give a plain type.
  const auto many = static_cast<int64_t>(plain.size()), more = static_cast<int64_t>(others.size());
  if (more == 0) return plain[RandomInt(rng, 0, many - 1)];
  const int64_t chosen = RandomInt(rng, 0, 2 * many * more - 1);
  return chosen < many * more ? plain[chosen / more] : others[chosen / many - more];
}

Shape RandomShape(Rng& rng, int min_rank, int max_rank) {
  const int rank = static_cast<int>(RandomInt(rng, min_rank, max_rank));
  return RandomInts(rng, rank, 1, rank <= 2 ? 7 : rank == 3 ? 5 : 4);
}

TensorType RandomTensor(Rng& rng, Elements allowed, int min_rank, int max_rank) {
  const DType dtype = RandomDType(rng, allowed);
  return TensorType{dtype, RandomShape(rng, min_rank, max_rank)};
}

std::vector<Shape> RandomBroadcast(Rng& rng, int count, int max_rank) {
  const Shape common = RandomShape(rng, 0, max_rank);
  std::vector<Shape> shapes;
  for (int i = 0; i < count; ++i) {
    // Half of the time the whole shape; otherwise some leading axes are left out and some others are one.
    const bool whole = RandomFlag(rng);
    const int64_t skipped = whole ? 0 : RandomInt(rng, 0, static_cast<int64_t>(common.size()));
    Shape shape(common.begin() + skipped, common.end());
    for (int64_t& size : shape) {
      if (!whole && RandomInt(rng, 0, 2) == 0) size = 1;
    }
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<int64_t> RandomAxes(Rng& rng, int rank) {
  std::vector<int64_t> axes;
  for (int axis = 0; axis < rank; ++axis) {
    if (RandomFlag(rng)) axes.push_back(axis);
  }
  if (axes.empty() && rank > 0) axes.push_back(RandomInt(rng, 0, rank - 1));
  return axes;
}

Shape RandomElements(Rng& rng, const Shape& whole, int64_t axis) {
  Shape shape = whole;
  for (int64_t& size : shape) size = RandomInt(rng, 1, size);
  shape[axis] = RandomInt(rng, 1, 7);
  return shape;
}

OpSample IndexSample(std::vector<TensorType> inputs, int64_t axis) {
  const double size = static_cast<double>(inputs[0].shape[axis]);
  return OpSample{.inputs = std::move(inputs), .attrs = {{"axis", axis}}, .low = -size, .high = size - 1};
}

}  // namespace rewright
