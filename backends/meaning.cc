#include "backends/meaning.h"

#include <algorithm>

#include "backends/attrs.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Axis of the output that variable `id` stands for, or -1.
int OutputAxis(const OutputMeaning& output, int64_t id) {
  for (size_t k = 0; k < output.index_vars.size(); ++k) {
    if (output.index_vars[k] == id) return static_cast<int>(k);
  }
  return -1;
}

class Linearizer {
 public:
  Linearizer(const Meaning& meaning, const OutputMeaning& output, const Bindings& bindings)
      : meaning_(meaning), output_(output), bindings_(bindings) {}

  std::optional<LinearIndex> Of(const ExprNode& expr) const {
    switch (expr.kind()) {
      case ExprKind::kInt: return Constant(expr.value());
      case ExprKind::kVar: return OfVariable(expr.variable());
      case ExprKind::kIndexAdd:
      case ExprKind::kIndexSub:
      case ExprKind::kIndexMul:
      case ExprKind::kFloorDiv:
      case ExprKind::kMod:
      case ExprKind::kIndexMin:
      case ExprKind::kIndexMax: {
        const std::optional<LinearIndex> a = Of(*expr.arg(0));
        const std::optional<LinearIndex> b = Of(*expr.arg(1));
        if (!a || !b) return std::nullopt;
        return Combine(expr.kind(), *a, *b);
      }
      default: return std::nullopt;
    }
  }

 private:
  LinearIndex Constant(int64_t value) const { return {value, std::vector<int64_t>(output_.index_vars.size(), 0)}; }
  static bool IsConstant(const LinearIndex& index) {
    return std::all_of(index.coefficients.begin(), index.coefficients.end(), [](int64_t c) { return c == 0; });
  }

  std::optional<LinearIndex> OfVariable(int64_t id) const {
    using VarKind = Meaning::VarKind;
    const VarKind kind = meaning_.variables[id].kind;
    if (kind == VarKind::kSize || kind == VarKind::kAttr) {
      return Constant(bindings_.variables[id]);
    }
    const int axis = OutputAxis(output_, id);
    if (axis < 0) return std::nullopt;
    LinearIndex index = Constant(0);
    index.coefficients[axis] = 1;
    return index;
  }

  static std::optional<LinearIndex> Combine(ExprKind kind, LinearIndex a, const LinearIndex& b) {
    if (kind == ExprKind::kIndexAdd || kind == ExprKind::kIndexSub) {
      const int64_t sign = kind == ExprKind::kIndexAdd ? 1 : -1;
      a.constant += sign * b.constant;
      for (size_t k = 0; k < a.coefficients.size(); ++k) a.coefficients[k] += sign * b.coefficients[k];
      return a;
    }
    if (kind == ExprKind::kIndexMul) {
      const bool a_constant = IsConstant(a);
      if (!a_constant && !IsConstant(b)) return std::nullopt;
      const int64_t factor = a_constant ? a.constant : b.constant;
      LinearIndex product = a_constant ? b : a;
      product.constant *= factor;
      for (int64_t& c : product.coefficients) c *= factor;
      return product;
    }
    if (!IsConstant(a) || !IsConstant(b)) {
      if (kind == ExprKind::kFloorDiv && IsConstant(b) && b.constant == 1) return a;
      return std::nullopt;
    }
    switch (kind) {
      case ExprKind::kFloorDiv:
      case ExprKind::kMod: {
        if (b.constant <= 0) return std::nullopt;
        int64_t quotient = a.constant / b.constant;
        if (a.constant % b.constant < 0) --quotient;
        a.constant = kind == ExprKind::kFloorDiv ? quotient : a.constant - quotient * b.constant;
        return a;
      }
      case ExprKind::kIndexMin: a.constant = std::min(a.constant, b.constant); return a;
      case ExprKind::kIndexMax: a.constant = std::max(a.constant, b.constant); return a;
      default: return std::nullopt;
    }
  }

  const Meaning& meaning_;
  const OutputMeaning& output_;
  const Bindings& bindings_;
};

// Whether the expression is made of calls, selects, casts and constants over reads at the position itself.
bool PointwiseExpr(const Meaning& meaning, const ExprNode& expr) {
  switch (expr.kind()) {
    case ExprKind::kBool:
    case ExprKind::kConst:
    case ExprKind::kParam: return true;
    case ExprKind::kRead: {
      std::vector<bool> seen(meaning.outputs[0].index_vars.size());
      for (const ExprPtr& index : expr.args()) {
        if (index->IsInt(0)) continue;
        if (!index->IsVariable()) return false;
        const int axis = OutputAxis(meaning.outputs[0], index->variable());
        if (axis < 0 || seen[axis]) return false;
        seen[axis] = true;
      }
      return true;
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
    case ExprKind::kHolds:
    case ExprKind::kCall:
    case ExprKind::kSelect:
    case ExprKind::kCast:
      return std::all_of(expr.args().begin(), expr.args().end(),
                         [&](const ExprPtr& arg) { return PointwiseExpr(meaning, *arg); });
    default: return false;
  }
}

}  // namespace

std::optional<CopyAccess> CopyAccessOf(const Graph& graph, const Node& node, int output) {
  const OutputMeaning& meaning = node.meaning->outputs[output];
  if (!meaning.element->IsRead()) return std::nullopt;
  std::vector<TensorType> inputs;
  for (Value operand : node.operands) inputs.push_back(graph.type(operand));
  const Bindings bindings = BindingsOf(*node.meaning, inputs, node.attrs);
  const Linearizer linearizer(*node.meaning, meaning, bindings);
  CopyAccess access{meaning.element->operand(), {}};
  for (const ExprPtr& index : meaning.element->args()) {
    std::optional<LinearIndex> linear = linearizer.Of(*index);
    if (!linear) return std::nullopt;
    access.indices.push_back(*std::move(linear));
  }
  return access;
}

bool OnlyMoves(const Graph& graph, const Node& node) {
  if (node.op->name == "reshape") return true;
  for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) {
    if (!CopyAccessOf(graph, node, output)) return false;
  }
  return true;
}

bool IsPointwise(const Meaning& meaning) {
  return meaning.outputs.size() == 1 && !meaning.outputs[0].element->IsRead() &&
         PointwiseExpr(meaning, *meaning.outputs[0].element);
}

PointwiseRead PointwiseReadOf(const Meaning& meaning, const ExprNode& read) {
  PointwiseRead result{read.operand(), {}};
  for (const ExprPtr& index : read.args()) {
    result.axes.push_back(index->IsVariable() ? OutputAxis(meaning.outputs[0], index->variable()) : -1);
  }
  return result;
}

std::vector<PointwiseRead> PointwiseReads(const Meaning& meaning) {
  std::vector<PointwiseRead> reads;
  Visit(meaning.outputs[0].element, [&](const ExprPtr& expr) {
    if (!expr->IsRead()) return;
    PointwiseRead read = PointwiseReadOf(meaning, *expr);
    if (std::find(reads.begin(), reads.end(), read) == reads.end()) reads.push_back(std::move(read));
  });
  return reads;
}

bool IsIdentityRead(const PointwiseRead& read, const TensorType& operand, const TensorType& output) {
  if (operand.shape != output.shape) return false;
  for (size_t d = 0; d < read.axes.size(); ++d) {
    if (read.axes[d] != static_cast<int>(d) && operand.shape[d] != 1) return false;
  }
  return true;
}

bool IsPerChannel(const TensorType& operand, const TensorType& accumulated, int channel_axis) {
  if (operand.dtype != DType::kFloat32 || operand.rank() > accumulated.rank()) return false;
  const int skipped = accumulated.rank() - operand.rank();
  for (int d = 0; d < operand.rank(); ++d) {
    const int64_t size = operand.shape[d];
    if (size != 1 && (d + skipped != channel_axis || size != accumulated.shape[channel_axis])) {
      return false;
    }
  }
  return true;
}

Layout LayoutForReader(const Graph& graph, Value value) {
  const Shape& dims = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(dims);
  if (graph.is_output(value)) return row_major;
  const std::vector<int>& users = graph.users(graph.index(value.node));
  if (users.size() != 1 || dims.empty()) return row_major;
  const Node& user = graph.node(graph.nodes()[users[0]]);
  if (user.op->name != "transpose") return row_major;
  const std::vector<int64_t>& perm = Ints(user, "perm");
  if (perm.back() != static_cast<int64_t>(dims.size()) - 1) return row_major;
  const Layout after = Layout::RowMajor(user.outputs[0].shape);
  Layout layout = row_major;
  for (size_t k = 0; k < perm.size(); ++k) layout.strides[perm[k]] = after.strides[k];
  return layout;
}

bool ViewOf(const Layout& from, const CopyAccess& access, const Shape& dims, Layout* to, int64_t* offset) {
  *to = Layout{dims, std::vector<int64_t>(dims.size(), 0), from.block};
  *offset = 0;
  for (size_t d = 0; d < access.indices.size(); ++d) {
    LinearIndex index = access.indices[d];
    if (from.block != 0 && d == 1) {
      // Whole blocks of channels, in order; other axes must not reach into the channels.
      for (size_t k = 0; k < dims.size(); ++k) {
        if (index.coefficients[k] != (k == 1 ? 1 : 0)) return false;
      }
      if (index.constant % from.block != 0 || dims[1] % from.block != 0 || from.IsPadded()) return false;
      to->strides[1] = from.strides[1];
      *offset += index.constant / from.block * from.strides[1];
      continue;
    }
    *offset += index.constant * from.strides[d];
    for (size_t k = 0; k < dims.size(); ++k) {
      if (index.coefficients[k] == 0 || dims[k] == 1) continue;
      if (from.block != 0 && k == 1) return false;
      to->strides[k] += index.coefficients[k] * from.strides[d];
    }
  }
  return std::all_of(to->strides.begin(), to->strides.end(), [](int64_t stride) { return stride >= 0; });
}

}  // namespace rewright
