#include "backends/cuda/kernel_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/expression_writer.h"
#include "backends/cuda/kernel_text.h"
#include "core/text_hash.h"

namespace rewright::cuda {
namespace {

constexpr int kFlatThreads = 256;
constexpr int64_t kManyRows = 32768;  // reductions so many that threads need not share one
constexpr int64_t kLongReduction = 48;

class KernelWriter : private ExpressionWriter {
 public:
  KernelWriter(const Graph& graph, const KernelRequest& request) : ExpressionWriter(graph, request) {}

  absl::StatusOr<GeneratedKernel> Write() {
    const int64_t elements = graph_.type(request_.result).num_elements();
    kernel_.threads = kFlatThreads;
    if (elements == 0) return std::move(kernel_);
    SurveyResult();
    if (std::vector<bool> in_rows; ChooseRows(&in_rows)) {
      WriteRows(in_rows);
    } else {
      WriteFlat(AxesByStride(request_.out), elements);
    }
    if (!status_.ok()) return status_;
    Assemble();
    return std::move(kernel_);
  }

 private:
  // Walks over the expression once, with the position's axes as variables.
  void SurveyResult() {
    surveying_ = true;
    const Shape& shape = graph_.type(request_.result).shape;
    std::vector<IndexForm> at;
    Push();
    for (size_t k = 0; k < shape.size(); ++k) {
      axis_names_.push_back(absl::StrCat("o", k));
      at.push_back(IndexForm::Variable(axis_names_.back(), 0, std::max<int64_t>(shape[k] - 1, 0), 0));
    }
    Element(request_.result, at);
    Pop();
    surveying_ = false;
    Reset();
  }

  // Whether blocks should reduce together, and which axes tell the rows apart.
  bool ChooseRows(std::vector<bool>* in_rows) const {
    if (survey_.reductions.empty() || survey_.under_condition) return false;
    const Shape& shape = graph_.type(request_.result).shape;
    in_rows->assign(shape.size(), false);
    int64_t terms = 0;
    for (const auto& [axes, count] : survey_.reductions) {
      for (int axis : axes) (*in_rows)[static_cast<size_t>(axis)] = true;
      terms = std::max(terms, count);
    }
    int64_t rows = 1, row = 1;
    for (size_t k = 0; k < shape.size(); ++k) ((*in_rows)[k] ? rows : row) *= shape[k];
    if (row > 1) return terms > 1;
    return terms >= kLongReduction && rows < kManyRows;
  }

  void WriteRows(const std::vector<bool>& in_rows) {
    by_rows_ = kernel_.by_rows = true;
    const Shape& shape = graph_.type(request_.result).shape;
    std::vector<int64_t> outer, inner;
    for (size_t k = 0; k < shape.size(); ++k) (in_rows[k] ? outer : inner).push_back(shape[k]);
    const int64_t rows = NumElements(outer), row = NumElements(inner);
    int64_t longest = row;
    for (const auto& [axes, terms] : survey_.reductions) longest = std::max(longest, terms);
    kernel_.threads = 32;
    while (kernel_.threads < 512 && kernel_.threads * 4 < longest) kernel_.threads *= 2;
    kernel_.blocks = rows;
    Push();
    const IndexForm block = IndexForm::Variable("row", 0, rows - 1, 0);
    Line("const index_t row = blockIdx.x;");
    const std::vector<IndexForm> outer_at = Unflatten(block, outer);
    Push();
    const IndexForm place = IndexForm::Variable("e", 0, row - 1, 1);
    const std::vector<IndexForm> inner_at = Unflatten(place, inner);
    std::vector<IndexForm> at;
    size_t next_outer = 0, next_inner = 0;
    IndexForm address;
    for (size_t k = 0; k < shape.size(); ++k) {
      at.push_back(in_rows[k] ? outer_at[next_outer++] : inner_at[next_inner++]);
      address = address + at.back() * request_.out.strides[k];
    }
    const std::string value = Element(request_.result, at);
    Line(absl::StrCat("store(out + ", Text(address), ", ", value, ");"));
    const std::string body = Pop();
    Line(absl::StrCat("for (index_t e = threadIdx.x; e < ", row, "; e += kThreads) {\n", body, "}"));
    body_ = Pop();
  }

  // The code for the element that `flat` numbers in the order of memory.
  std::string FlatElement(const IndexForm& flat, const std::vector<size_t>& order) {
    const Shape& shape = graph_.type(request_.result).shape;
    std::vector<int64_t> sizes;
    for (size_t axis : order) sizes.push_back(shape[axis]);
    const std::vector<IndexForm> sorted = Unflatten(flat, sizes);
    std::vector<IndexForm> at(shape.size());
    for (size_t k = 0; k < order.size(); ++k) at[order[k]] = sorted[k];
    return Element(request_.result, at);
  }

  void WriteFlat(const std::vector<size_t>& order, int64_t elements) {
    const DType dtype = graph_.type(request_.result).dtype;
    const bool lanes = elements >= request_.min_vectorized && VectorName(dtype, request_.out_storage) != nullptr &&
                       survey_.reductions.empty();
    const int64_t whole = lanes ? elements / kLanes : 0;
    const int64_t single = elements - whole * kLanes;
    const int64_t threads = whole + single;
    kernel_.blocks = (threads + kFlatThreads - 1) / kFlatThreads;
    Push();
    Line("const index_t t = (index_t)blockIdx.x * kThreads + threadIdx.x;");
    std::string four, one;
    if (whole > 0) {
      // Once to see which addresses all lanes want, once to write.
      survey_.loads.clear();
      FourElements(order, whole);
      wanted_ = survey_.loads;
      Reset();
      four = FourElements(order, whole);
    }
    if (single > 0) {
      Push(/*conditional=*/true);
      const IndexForm flat = IndexForm::Variable("t", whole, threads - 1, 0) + IndexForm(whole * (kLanes - 1));
      const std::string value = FlatElement(flat, order);
      Line(absl::StrCat("store(out + ", Text(flat), ", ", value, ");"));
      one = Pop();
    }
    large_ = large_ || threads + kFlatThreads > kLargeIndex;
    if (whole > 0) Line(absl::StrCat("if (t < ", whole, ") {\n", four, "return;\n}"));
    if (single > 0) Line(absl::StrCat("if (t < ", threads, ") {\n", one, "}"));
    body_ = Pop();
  }

  std::string FourElements(const std::vector<size_t>& order, int64_t whole) {
    const DType dtype = graph_.type(request_.result).dtype;
    Push(/*conditional=*/true);
    vector_scope_ = top();
    const IndexForm thread = IndexForm::Variable("t", 0, whole - 1, 0);
    std::vector<std::string> values;
    for (int lane = 0; lane < kLanes; ++lane) values.push_back(FlatElement(thread * kLanes + IndexForm(lane), order));
    const IndexForm address = thread * kLanes;
    if (request_.aligned(request_.result)) {
      const char* vector = VectorName(dtype, request_.out_storage);
      const std::string name = NewName("q");
      Line(absl::StrCat(vector, " ", name, ";"));
      for (int lane = 0; lane < kLanes; ++lane) {
        Line(absl::StrCat("store(&", name, kParts[lane], ", ", values[static_cast<size_t>(lane)], ");"));
      }
      Line(absl::StrCat("*(", vector, "*)(out + ", Text(address), ") = ", name, ";"));
    } else {
      for (int lane = 0; lane < kLanes; ++lane) {
        Line(absl::StrCat("store(out + ", Text(address + IndexForm(lane)), ", ", values[static_cast<size_t>(lane)], ");"));
      }
    }
    vector_scope_ = -1;
    return Pop();
  }

  void Assemble() {
    std::vector<std::string> parameters;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      parameters.push_back(
          absl::StrCat("const ",
                       StorageName(graph_.type(arguments_[i]).dtype, request_.storage_of(arguments_[i])),
                       "* __restrict__ p", i));
    }
    parameters.push_back(absl::StrCat(StorageName(graph_.type(request_.result).dtype, request_.out_storage),
                                      "* __restrict__ out"));
    kernel_.arguments = arguments_;
    kernel_.vectorized = vectorized_;
    const std::string rest = absl::StrCat(
        "(", absl::StrJoin(parameters, ", "), ") {\n", "typedef ", large_ ? "long long" : "int", " index_t;\n",
        "constexpr int kThreads = ", kernel_.threads, ";\n(void)kThreads;\n", body_, "}\n");
    kernel_.name = "kernel_" + TextHash::HexOf(rest);
    kernel_.source = absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", kernel_.threads, ") ", kernel_.name,
                                  rest);
  }

  GeneratedKernel kernel_;
  std::string body_;
};

double WorkOf(const ExprNode& expr, const Bindings& bindings) {
  double work = expr.kind == ExprKind::kRead || expr.kind == ExprKind::kCall ? 1 : 0;
  for (const ExprPtr& arg : expr.args) work += WorkOf(*arg, bindings);
  for (const BoundVar& bound : expr.bound) {
    work *= std::max<double>(1, static_cast<double>(EvalIndex(bound.extent, bindings.variables)));
  }
  return work;
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateKernel(const Graph& graph, const KernelRequest& request) {
  return KernelWriter(graph, request).Write();
}

double ElementWork(const Graph& graph, NodeId id, int output) {
  const Node& node = graph.node(id);
  std::vector<TensorType> inputs;
  for (Value operand : node.operands) inputs.push_back(graph.type(operand));
  return WorkOf(*node.meaning->outputs[static_cast<size_t>(output)].element, BindingsOf(*node.meaning, inputs, node.attrs));
}

}  // namespace rewright::cuda
