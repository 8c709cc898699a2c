#include "substitutions/taso/shapes.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright::taso {
namespace {

// Names of sizes that nothing else names.
const char* Hint(size_t rank, size_t axis, bool kernel) {
  constexpr const char* kKernel[] = {"o", "c", "r", "s"};
  constexpr const char* kImage[] = {"n", "c", "h", "w"};
  constexpr const char* kMatrix[] = {"m", "n"};
  return rank == 4 ? (kernel ? kKernel : kImage)[axis] : rank == 2 ? kMatrix[axis] : "d";
}

bool SameCut(const Sizes& sizes, const CutPtr& a, const CutPtr& b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && sizes.Resolve(a->left_size) == sizes.Resolve(b->left_size) &&
         SameCut(sizes, a->left, b->left) && SameCut(sizes, a->right, b->right);
}

// The cuts that two operands of one shape agree on.
std::vector<CutPtr> CommonCuts(const Sizes& sizes, const TensorShape& a, const TensorShape& b) {
  std::vector<CutPtr> cuts(std::min(a.cuts.size(), b.cuts.size()));
  for (size_t k = 1; k <= cuts.size(); ++k) {
    const CutPtr& cut = a.cuts[a.cuts.size() - k];
    if (SameCut(sizes, cut, b.cuts[b.cuts.size() - k])) cuts[cuts.size() - k] = cut;
  }
  return cuts;
}

}  // namespace

CutPtr CutOf(const TensorShape& shape, size_t axis) {
  const size_t unknown = shape.dims.size() - std::min(shape.dims.size(), shape.cuts.size());
  return axis < unknown ? nullptr : shape.cuts[axis - unknown];
}

int Shapes::NewPack() {
  packs_.emplace_back();
  return static_cast<int>(packs_.size()) - 1;
}

TensorShape Shapes::Resolve(TensorShape shape) const {
  while (shape.pack >= 0 && packs_[shape.pack]) {
    const TensorShape& leading = *packs_[shape.pack];
    shape.pack = leading.pack;
    shape.dims.insert(shape.dims.begin(), leading.dims.begin(), leading.dims.end());
  }
  for (Size& dim : shape.dims) dim = sizes_.Resolve(dim);
  return shape;
}

bool Shapes::NeedAxes(TensorShape* shape, size_t rank, bool exactly, bool kernel) {
  *shape = Resolve(*shape);
  const size_t known = shape->dims.size();
  if (shape->pack < 0) return exactly ? known == rank : known >= rank;
  if (known > rank) return !exactly;
  if (known < rank || exactly) {
    TensorShape leading;
    for (size_t axis = 0; axis < rank - known; ++axis) leading.dims.push_back(sizes_.New(Hint(rank, axis, kernel)));
    if (!exactly) leading.pack = NewPack();
    packs_[shape->pack] = leading;
  }
  *shape = Resolve(*shape);
  return true;
}

bool Shapes::Unify(const TensorShape& a, const TensorShape& b) {
  TensorShape p = Resolve(a), q = Resolve(b);
  if (p.dims.size() < q.dims.size()) std::swap(p, q);
  const size_t extra = p.dims.size() - q.dims.size();
  for (size_t k = 0; k < q.dims.size(); ++k) {
    if (!sizes_.Equate(p.dims[extra + k], q.dims[k])) return false;
  }
  if (p.pack == q.pack) return extra == 0;
  if (q.pack < 0) {
    if (extra > 0) return false;
    packs_[p.pack] = TensorShape();
    return true;
  }
  TensorShape leading;
  leading.pack = p.pack;
  leading.dims.assign(p.dims.begin(), p.dims.begin() + static_cast<std::ptrdiff_t>(extra));
  packs_[q.pack] = leading;
  return true;
}

bool Shapes::Matmul(const TensorShape& a, const TensorShape& b, TensorShape* out) {
  TensorShape left = a, right = b;
  if (!NeedAxes(&left, 2, false) || !NeedAxes(&right, 2, false)) return false;
  const Size inner = left.dims.back(), columns = right.dims.back();
  if (!sizes_.Equate(inner, right.dims[right.dims.size() - 2])) return false;
  const Size rows = left.dims[left.dims.size() - 2];
  TensorShape batch = left, other = right;
  batch.dims.resize(left.dims.size() - 2);
  other.dims.resize(right.dims.size() - 2);
  if (!Unify(batch, other)) return false;
  const CutPtr row_cut = CutOf(left, left.dims.size() - 2), column_cut = CutOf(right, right.dims.size() - 1);
  *out = Resolve(batch);
  out->dims.push_back(rows);
  out->dims.push_back(columns);
  out->cuts = {row_cut, column_cut};
  return true;
}

bool Shapes::Conv2d(const Operator& op, int number, bool source, const TensorShape& x, const TensorShape& w,
                    TensorShape* out) {
  TensorShape image = x, kernel = w;
  if (!NeedAxes(&image, 4, true) || !NeedAxes(&kernel, 4, true, true)) return false;
  if (source) {
    // The channels determine the groups in the target.
    Size groups(1);
    if (!(image.dims[1] == kernel.dims[1])) {
      groups = sizes_.New("g");
      const Size group_outputs = sizes_.New("p");
      if (!sizes_.Equate(image.dims[1], groups * kernel.dims[1])) return false;
      if (!sizes_.Equate(kernel.dims[0], groups * group_outputs)) return false;
    }
    groups_[number] = groups;
  }
  const auto windows = [&](size_t axis, Key stride_key) {
    const int stride = op.Get(stride_key);
    if (op.Get(Key::kPadding) == 0) {
      return stride == 1 ? image.dims[axis] : sizes_.Quotient(image.dims[axis] + Size(stride - 1), stride);
    }
    const Size last = image.dims[axis] - kernel.dims[axis];
    return (stride == 1 ? last : sizes_.Quotient(last, stride)) + Size(1);
  };
  out->dims = {image.dims[0], kernel.dims[0], windows(2, Key::kStrideHeight), windows(3, Key::kStrideWidth)};
  out->cuts = {CutOf(image, 0), CutOf(kernel, 0), nullptr, nullptr};
  return true;
}

bool Shapes::Pool2d(const Operator& op, const TensorShape& x, TensorShape* out) {
  TensorShape image = x;
  if (!NeedAxes(&image, 4, true)) return false;
  const auto windows = [&](size_t axis, Key stride_key, Key kernel_key) {
    const int stride = op.Get(stride_key);
    const bool same = op.Get(Key::kPadding) == 0;
    const Size last = image.dims[axis] - Size(same ? 1 : op.Get(kernel_key));
    return (stride == 1 ? last : sizes_.Quotient(last, stride)) + Size(1);
  };
  out->dims = {image.dims[0], image.dims[1], windows(2, Key::kStrideHeight, Key::kKernelHeight),
               windows(3, Key::kStrideWidth, Key::kKernelWidth)};
  out->cuts = {CutOf(image, 0), CutOf(image, 1), nullptr, nullptr};
  return true;
}

bool Shapes::Concat(const Operator& op, const std::vector<TensorShape>& inputs, TensorShape* out) {
  const size_t rank = static_cast<size_t>(op.Get(Key::kRank)), axis = static_cast<size_t>(op.Get(Key::kAxis));
  for (size_t k = 0; k < inputs.size(); ++k) {
    TensorShape input = inputs[k];
    if (!NeedAxes(&input, rank, true)) return false;
    input.cuts.insert(input.cuts.begin(), rank - std::min(rank, input.cuts.size()), nullptr);
    if (k == 0) {
      *out = input;
      continue;
    }
    auto cut = std::make_shared<Cut>();
    *cut = {out->cuts[axis], input.cuts[axis], out->dims[axis]};
    for (size_t other = 0; other < rank; ++other) {
      if (other != axis && !sizes_.Equate(out->dims[other], input.dims[other])) return false;
    }
    out->dims[axis] = out->dims[axis] + input.dims[axis];
    out->cuts = CommonCuts(sizes_, *out, input);
    out->cuts[axis] = cut;
  }
  return true;
}

bool Shapes::Split(const Operator& op, const TensorShape& x, Outputs* outputs) {
  const TensorShape whole = Resolve(x);
  const size_t axis = op.Get(Key::kAxis);
  if (whole.pack >= 0 || axis >= whole.dims.size()) return false;
  TensorShape part = whole;
  part.cuts.insert(part.cuts.begin(), part.dims.size() - std::min(part.dims.size(), part.cuts.size()), nullptr);
  outputs->assign(static_cast<size_t>(op.num_outputs()), part);
  CutPtr cut = part.cuts[axis];
  Size size = whole.dims[axis];
  for (size_t k = outputs->size(); k-- > 1;) {
    if (cut == nullptr) return false;
    (*outputs)[k].dims[axis] = size - cut->left_size;
    (*outputs)[k].cuts[axis] = cut->right;
    size = cut->left_size;
    cut = cut->left;
  }
  (*outputs)[0].dims[axis] = size;
  (*outputs)[0].cuts[axis] = cut;
  return true;
}

bool Shapes::Enlarge(const Operator& op, const std::vector<TensorShape>& inputs, TensorShape* out) {
  TensorShape kernel = inputs[0];
  if (!NeedAxes(&kernel, 4, true, true)) return false;
  *out = kernel;
  out->cuts = {CutOf(kernel, 0), CutOf(kernel, 1), nullptr, nullptr};
  if (inputs.size() == 2) {
    TensorShape like = inputs[1];
    if (!NeedAxes(&like, 4, true)) return false;
    out->dims = {out->dims[0], out->dims[1], like.dims[2], like.dims[3]};
    return true;
  }
  if (!op.parameters.count(Key::kKernelHeight) || !op.parameters.count(Key::kKernelWidth)) return false;
  out->dims = {out->dims[0], out->dims[1], Size(op.Get(Key::kKernelHeight)), Size(op.Get(Key::kKernelWidth))};
  return true;
}

bool Shapes::InferOperator(const Operator& op, int number, bool source, Outputs* outputs) {
  std::vector<TensorShape> inputs;
  for (const TensorRef& input : op.inputs) inputs.push_back(Of(input, source));
  outputs->resize(1);
  TensorShape& out = outputs->front();
  switch (op.type) {
    case OpType::kConv2d: return Conv2d(op, number, source, inputs[0], inputs[1], &out);
    case OpType::kMaxPool2d:
    case OpType::kAvgPool2d: return Pool2d(op, inputs[0], &out);
    case OpType::kMatmul: return Matmul(inputs[0], inputs[1], &out);
    case OpType::kConcat: return Concat(op, inputs, &out);
    case OpType::kSplit: return Split(op, inputs[0], outputs);
    case OpType::kEnlarge: return Enlarge(op, inputs, &out);
    case OpType::kRelu:
    case OpType::kSigmoid:
    case OpType::kTanh: out = inputs[0]; return true;
    case OpType::kAdd:
    case OpType::kMul:
      if (!Unify(inputs[0], inputs[1])) return false;
      out = Resolve(inputs[0]);
      out.cuts = CommonCuts(sizes_, inputs[0], inputs[1]);
      return true;
    case OpType::kScale: out = inputs[0]; return NeedAxes(&inputs[1], 0, true);
    case OpType::kTranspose: {
      const std::vector<int> perm = op.Permutation();
      if (!NeedAxes(&inputs[0], perm.size(), true)) return false;
      for (int axis : perm) {
        out.dims.push_back(inputs[0].dims[axis]);
        out.cuts.push_back(CutOf(inputs[0], static_cast<size_t>(axis)));
      }
      return true;
    }
    case OpType::kConstOne: out.pack = NewPack(); return true;
    case OpType::kConstPool:
      free_.push_back(sizes_.New("c"));
      out.dims = {free_.back(), Size(1), Size(op.Get(Key::kKernelHeight)), Size(op.Get(Key::kKernelWidth))};
      return true;
    default: return false;
  }
}

absl::Status Shapes::InferSide(const Side& side, bool source) {
  std::vector<Outputs>& values = source ? source_ : target_;
  for (size_t k = 0; k < side.size(); ++k) {
    for (const TensorRef& input : side[k].inputs) {
      if (input.op >= 0 || inputs_.count(input.input)) continue;
      inputs_[input.input].pack = NewPack();
    }
    const OpInfo& info = *FindOperator(static_cast<int64_t>(side[k].type));
    const std::string where = absl::StrCat(source ? "source" : "target", " operator ", k, " (", info.name, ")");
    if (!info.convertible) return absl::UnimplementedError(absl::StrCat(where, " has no counterpart here"));
    Outputs outputs;
    if (!InferOperator(side[k], static_cast<int>(k), source, &outputs)) {
      return absl::UnimplementedError(absl::StrCat(where, ": no shapes of its operands fit"));
    }
    values.push_back(std::move(outputs));
  }
  return absl::OkStatus();
}

absl::Status Shapes::Infer() {
  RETURN_IF_ERROR(InferSide(rule_.source, true));
  sizes_.ForgetRest();
  RETURN_IF_ERROR(InferSide(rule_.target, false));
  for (const OutputPair& pair : rule_.outputs) {
    // Outputs of another rank are left for the prover to reject; a constant learns its shape here.
    const TensorShape target = Of(pair.target, false), source = Of(pair.source, true);
    bool fits = target.pack < 0 || Unify(target, source);
    for (size_t k = 0; k < target.dims.size() && target.dims.size() == source.dims.size(); ++k) {
      const bool free = std::find(free_.begin(), free_.end(), target.dims[k]) != free_.end();
      fits = fits && (!free || sizes_.Equate(target.dims[k], source.dims[k]));
    }
    if (!fits) return absl::UnimplementedError("an output of the target has another shape than that of the source");
  }
  return absl::OkStatus();
}

TensorShape Shapes::Of(const TensorRef& ref, bool source) const {
  if (ref.op < 0) return Resolve(inputs_.at(ref.input));
  return Resolve((source ? source_ : target_)[ref.op][ref.output]);
}

}  // namespace rewright::taso
