#include "backends/common/node_access.h"

#include <algorithm>

#include "core/index/compose.h"
#include "core/index/form.h"
#include "core/ir/index_value.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

using index::Form;

// Indices of an application over the axes of a result; what sizes and attributes decide are numbers.
class IndexForms {
 public:
  // `positions` are the variables of the axes. The caller keeps all alive.
  IndexForms(const std::vector<int64_t>& numbers, const std::vector<int>& positions,
             const std::vector<const index::Atom*>& axes)
      : numbers_(numbers), positions_(positions), axes_(axes) {}

  // Unknown where elements are read.
  Form Of(const ExprNode& expr) const {
    if (expr.kind() == ExprKind::kFromValue) return Form::Unknown();
    if (expr.kind() == ExprKind::kVar) {
      const size_t axis = AxisOf(expr.variable());
      return axis < axes_.size() ? Form::OfAtom(axes_[axis]) : Form(numbers_[static_cast<size_t>(expr.variable())]);
    }
    // The place of a part is a sum of many sizes, which is no work for forms.
    if (int64_t number; Number(expr, &number)) return number;
    return index::Apply(expr.kind(), Of(*expr.arg(0)), Of(*expr.arg(1)));
  }

 private:
  size_t AxisOf(int variable) const {
    return static_cast<size_t>(std::find(positions_.begin(), positions_.end(), variable) - positions_.begin());
  }

  // Returns true and sets `number` where no axis occurs.
  bool Number(const ExprNode& expr, int64_t* number) const {
    if (expr.kind() == ExprKind::kFromValue) return false;
    if (expr.kind() == ExprKind::kInt || expr.kind() == ExprKind::kVar) {
      if (expr.IsVariable() && AxisOf(expr.variable()) < axes_.size()) return false;
      *number = expr.IsVariable() ? numbers_[static_cast<size_t>(expr.variable())] : expr.value();
      return true;
    }
    int64_t a, b;
    return Number(*expr.arg(1), &b) && Number(*expr.arg(0), &a) && EvalIndex(expr.kind(), a, b, number);
  }

  const std::vector<int64_t>& numbers_;
  const std::vector<int>& positions_;
  const std::vector<const index::Atom*>& axes_;
};

// Nothing where the form is not linear in the axes.
std::optional<LinearIndex> Linear(const Form& form, const std::vector<const index::Atom*>& axes) {
  const std::optional<index::Affine> affine = AffineIn(form, axes);
  if (!affine || !affine->constant.IsConstant()) return std::nullopt;
  LinearIndex index{affine->constant.constant(), {}};
  for (const Form& factor : affine->factors) {
    if (!factor.IsConstant()) return std::nullopt;
    index.coefficients.push_back(factor.constant());
  }
  return index;
}

}  // namespace

Bindings BindingsOf(const Graph& graph, const Node& node) {
  return rewright::BindingsOf(*node.meaning, graph.types(node.operands), node.attrs);
}

std::optional<CopyAccess> CopyAccessOf(const Graph& graph, const Node& node, int output) {
  const OutputMeaning& meaning = node.meaning->outputs[output];
  if (!meaning.element->IsRead()) return std::nullopt;
  const Bindings bindings = BindingsOf(graph, node);
  index::Space space;
  std::vector<const index::Atom*> axes;
  for (size_t k = 0; k < meaning.index_vars.size(); ++k) {
    // An axis of size one has a coefficient, too: what it is matters where layouts are compared.
    const index::Interval range = {0, std::max<int64_t>(node.outputs[output].shape[k], 2) - 1};
    axes.push_back(space.Variable("", range, static_cast<int>(k)).AsAtom());
  }
  const IndexForms forms(bindings.variables, meaning.index_vars, axes);
  CopyAccess access{static_cast<int>(meaning.element->operand()), {}};
  for (const ExprPtr& index : meaning.element->args()) {
    std::optional<LinearIndex> linear = Linear(forms.Of(*index), axes);
    if (!linear) return std::nullopt;
    access.indices.push_back(*std::move(linear));
  }
  return access;
}

bool OnlyMoves(const Graph& graph, const Node& node) {
  if (node.op == ops::Reshape()) return true;
  for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) {
    if (!CopyAccessOf(graph, node, output)) return false;
  }
  return true;
}

bool IsPerChannel(const TensorType& operand, const TensorType& accumulated, int channel_axis) {
  if (operand.rank() > accumulated.rank()) return false;
  const int skipped = accumulated.rank() - operand.rank();
  for (int d = 0; d < operand.rank(); ++d) {
    const int64_t size = operand.shape[d];
    if (size != 1 && (d + skipped != channel_axis || size != accumulated.shape[channel_axis])) {
      return false;
    }
  }
  return true;
}

Layout LayoutForReader(const Graph& graph, Value value, bool turned) {
  const Shape& dims = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(dims);
  if (graph.is_output(value)) return row_major;
  const std::vector<int>& users = graph.users(graph.index(value.node));
  if (users.size() != 1 || dims.empty()) return row_major;
  const Node& user = graph.node(graph.nodes()[users[0]]);
  if (user.op != ops::Transpose()) return row_major;
  const std::vector<int64_t>& perm = Ints(user, "perm");
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  const bool exchanges = last > 0 && perm[last] == last - 1 && perm[last - 1] == last;
  if (perm.back() != last && !(turned && exchanges)) return row_major;
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
      // Whole blocks of channels, in order, or all channels; other axes must not reach into the channels.
      for (size_t k = 0; k < dims.size(); ++k) {
        if (index.coefficients[k] != (k == 1 ? 1 : 0)) return false;
      }
      const bool whole = index.constant % from.block == 0 && dims[1] % from.block == 0 && !from.IsPadded();
      if (!whole && dims[1] != from.dims[1]) return false;
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

std::optional<MovedView> MovedViewOf(const Graph& graph, Value value, const std::function<Layout(size_t)>& of) {
  const Node& node = graph.node(value.node);
  const Shape& dims = graph.type(value).shape;
  MovedView moved;
  if (node.op == ops::Reshape()) {
    moved.is_view = ReshapeLayout(of(0), dims, &moved.layout);
    return moved;
  }
  const std::optional<CopyAccess> access = CopyAccessOf(graph, node, value.output);
  if (!access) return std::nullopt;
  moved.input = access->input;
  moved.is_view = ViewOf(of(static_cast<size_t>(access->input)), *access, dims, &moved.layout, &moved.offset);
  return moved;
}

}  // namespace rewright
