#include "backends/cuda/codegen/kernel_source.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/common/node_access.h"
#include "backends/cuda/codegen/expression_writer.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "core/base/text_hash.h"
#include "core/index/compose.h"
#include "core/ir/index_value.h"

namespace rewright::cuda {
namespace {

constexpr int kFlatThreads = 256;
constexpr int64_t kMostRowThreads = 512;
constexpr int64_t kManyRows = 32768;  // from this number of reductions on threads need not share one
constexpr int64_t kLongReduction = 48;
// Neighbours for each thread: 16 bytes of the result where they have 4 or 2 bytes each.
constexpr int kFewLanes = 4, kManyLanes = 8;
// Neighbours whose reductions one block does, and what leaves no part of a GPU idle.
constexpr int64_t kManyColumns = 32, kFewColumns = 16, kBusyBlocks = 64;
constexpr int64_t kTermsOfThread = 6;        // of a reduction that threads share
constexpr int64_t kSmallestTiled = 1 << 14;  // elements
constexpr int64_t kLongestRow = 1 << 14;     // elements that one block maps over, while others may have nothing to do

// The number of pieces of this size that make up the whole.
int64_t Pieces(int64_t whole, int64_t size) { return (whole + size - 1) / size; }

class KernelWriter : private ExpressionWriter {
 public:
  KernelWriter(const Graph& graph, const KernelRequest& request) : ExpressionWriter(graph, request) {}

  absl::StatusOr<GeneratedKernel> Write() {
    const int64_t elements = NumElements(request_.out.dims);
    kernel_.threads = kFlatThreads;
    if (elements == 0) return std::move(kernel_);
    SurveyResult();
    if (std::vector<bool> in_rows; ChooseRows(&in_rows)) {
      if (const int axis = ChooseColumns(in_rows); axis >= 0) {
        WriteColumns(axis);
      } else {
        WriteRows(in_rows);
      }
    } else if (int a = -1, b = -1; ChooseTile(&a, &b)) {
      WriteTiles(a, b);
    } else {
      WriteFlat(AxesByStride(request_.out), elements);
    }
    if (!status_.ok()) return status_;
    Assemble();
    return std::move(kernel_);
  }

  bool ReducesOncePerRow() {
    SurveyResult();
    std::vector<bool> in_rows;
    if (!status_.ok() || survey_.repeated || !ChooseRows(&in_rows)) return false;
    for (const auto& [axes, terms] : survey_.reductions) {
      if (terms < kLongReduction || terms > kLongestRow) return false;
      if (std::count(in_rows.begin(), in_rows.end(), true) != static_cast<int64_t>(axes.size())) return false;
    }
    // All axes but the last tell rows apart, or have one element.
    const Shape& shape = request_.out.dims;
    for (size_t k = 0; k + 1 < shape.size(); ++k) {
      if (!in_rows[k] && shape[k] > 1) return false;
    }
    return !shape.empty() && !in_rows.back() && shape.back() <= kLongestRow;
  }

 private:
  // Walks over the expression once, with the position's axes as variables.
  void SurveyResult() {
    surveying_ = true;
    const Shape& shape = request_.out.dims;
    std::vector<Form> at;
    Push();
    for (size_t k = 0; k < shape.size(); ++k) {
      axis_names_.push_back(absl::StrCat("o", k));
      at.push_back(Variable(axis_names_.back(), 0, std::max<int64_t>(shape[k] - 1, 0), 0));
    }
    ResultAt(at);
    Pop();
    surveying_ = false;
    Reset();
  }

  // Returns whether blocks should reduce together, and which axes tell the rows apart.
  bool ChooseRows(std::vector<bool>* in_rows) const {
    if (survey_.reductions.empty() || survey_.under_condition) return false;
    const Shape& shape = request_.out.dims;
    in_rows->assign(shape.size(), false);
    int64_t terms = 0;
    for (const auto& [axes, count] : survey_.reductions) {
      for (int axis : axes) (*in_rows)[axis] = true;
      terms = std::max(terms, count);
    }
    int64_t rows = 1, row = 1;
    for (size_t k = 0; k < shape.size(); ++k) ((*in_rows)[k] ? rows : row) *= shape[k];
    if (row > 1) return terms > 1;
    return terms >= kLongReduction && rows < kManyRows;
  }

  // An axis of the result along which neighbours read neighbours, where each of its elements is a reduction of its own;
  // -1: there is none.
  int ChooseColumns(const std::vector<bool>& in_rows) const {
    const Shape& shape = request_.out.dims;
    for (size_t k = 0; k < shape.size(); ++k) {
      if (!in_rows[k] && shape[k] > 1) return -1;
    }
    for (size_t k = 0; k < shape.size(); ++k) {
      if (shape[k] < kFewColumns) continue;
      const auto leads_on = [&](const Form& address) { return StepOf(address, axis_names_[k]) == 1; };
      if (std::any_of(survey_.addresses.begin(), survey_.addresses.end(), leads_on)) return static_cast<int>(k);
    }
    return -1;
  }

  // A block does the reductions of neighbours along `axis`, which some of its threads share.
  void WriteColumns(int axis) {
    kernel_.by_columns = true;
    Shape blocks = request_.out.dims;
    const int64_t size = blocks[axis];
    // Half as many neighbours, still all bytes that are fetched at a time, where there are few.
    const int64_t columns = NumElements(blocks) / kManyColumns >= kBusyBlocks ? kManyColumns : kFewColumns;
    blocks[axis] = Pieces(size, columns);
    kernel_.blocks = NumElements(blocks);
    int64_t terms = 1;
    for (const auto& [axes, count] : survey_.reductions) terms = std::max(terms, count);
    const int64_t parts = std::min(kMostRowThreads, Pieces(terms, kTermsOfThread) * columns) / columns;
    kernel_.threads = static_cast<int>(Pieces(parts * columns, 32) * 32);
    team_ = Team{absl::StrCat("threadIdx.x / ", columns), absl::StrCat("(kThreads / ", columns, ")"),
                 absl::StrCat("column_reduce<", columns, ", ")};
    Push();
    Line("const index_t tile = blockIdx.x;");
    std::vector<Form> at = Unflatten(Variable("tile", 0, kernel_.blocks - 1, 0), blocks);
    // All threads meet at barriers: those beyond the end do what the last one does.
    Line(absl::StrCat("const index_t own = ", Text(at[axis] * columns), " + threadIdx.x % ", columns, ";"));
    Line(absl::StrCat("const index_t column = own < ", size, " ? own : ", size - 1, ";"));
    at[axis] = Variable("column", 0, size - 1, 0);
    const std::string value = ResultAt(at);
    Line(absl::StrCat("if (threadIdx.x < ", columns, " && own < ", size, ") ", Store(AddressOf(at), value)));
    body_ = Pop();
  }

  void WriteRows(const std::vector<bool>& in_rows) {
    kernel_.by_rows = true;
    team_ = Team{"threadIdx.x", "kThreads", "block_reduce<"};
    const Shape& shape = request_.out.dims;
    // Within a row in the order of memory.
    std::vector<size_t> outer_axes, inner_axes;
    for (size_t axis : AxesByStride(request_.out)) (in_rows[axis] ? outer_axes : inner_axes).push_back(axis);
    const std::vector<int64_t> outer = SizesOf(outer_axes), inner = SizesOf(inner_axes);
    const int64_t rows = NumElements(outer), row = NumElements(inner);
    int64_t longest = row;
    for (const auto& [axes, terms] : survey_.reductions) longest = std::max(longest, terms);
    // The number of neighbours for each thread is such that a warp stays busy.
    const int64_t busy = std::min<int64_t>(32, request_.min_vectorized / kFewLanes);
    lanes_ = OutBytes() == 2 ? kManyLanes : kFewLanes;
    if (longest < lanes_ * busy) lanes_ = kFewLanes;
    if (longest < lanes_ * busy) lanes_ = 1;
    // All threads have the same number of rounds to do, as near as whole warps allow.
    const int64_t chunks = std::max<int64_t>(1, Pieces(longest, std::max(lanes_, kFewLanes)));
    kernel_.threads = static_cast<int>(Pieces(Pieces(chunks, Pieces(chunks, kMostRowThreads)), 32) * 32);
    kernel_.blocks = rows;
    Push();
    Line("const index_t row = blockIdx.x;");
    const std::vector<Form> outer_at = Unflatten(Variable("row", 0, rows - 1, 0), outer);
    const Places places = [&](const Form& place) {
      const std::vector<Form> inner_at = Unflatten(place, inner);
      std::vector<Form> at(shape.size());
      for (size_t k = 0; k < outer_axes.size(); ++k) at[outer_axes[k]] = outer_at[k];
      for (size_t k = 0; k < inner_axes.size(); ++k) at[inner_axes[k]] = inner_at[k];
      return at;
    };
    const int64_t whole = lanes_ > 1 ? row / lanes_ : 0;
    if (whole > 0) {
      const std::string body =
          NeighbourScope(/*conditional=*/false, [&] { StoreNeighbours(Variable("e", 0, whole - 1, 1), places); });
      Line(absl::StrCat("for (index_t e = threadIdx.x; e < ", whole, "; e += kThreads) {\n", body, "}"));
    }
    if (const int64_t first = whole * lanes_; first < row) {
      Push();
      StoreAt(places(Variable("e", first, row - 1, 1)));
      const std::string body = Pop();
      Line(absl::StrCat("for (index_t e = ", first, " + threadIdx.x; e < ", row, "; e += kThreads) {\n", body, "}"));
    }
    body_ = Pop();
  }

  int OutBytes() const { return StorageBytes(graph_.type(request_.result).dtype, request_.out_storage); }
  std::vector<int64_t> SizesOf(const std::vector<size_t>& axes) const {
    std::vector<int64_t> sizes;
    for (size_t axis : axes) sizes.push_back(request_.out.dims[axis]);
    return sizes;
  }

  // Maps the number of an element of the result, in some order, to its position.
  using Places = std::function<std::vector<Form>(const Form& number)>;

  Form AddressOf(const std::vector<Form>& at) const {
    Form address;
    for (size_t k = 0; k < at.size(); ++k) address = address + at[k] * request_.out.strides[k];
    return address;
  }
  std::string Store(const Form& address, const std::string& value) {
    return absl::StrCat("store(out + ", Text(address), ", ", value, ");");
  }
  void StoreAt(const std::vector<Form>& at) {
    const std::string value = ResultAt(at);
    Line(Store(AddressOf(at), value));
  }

  // The elements of one thread, number chunk * lanes_ and those behind it: as few accesses as their addresses allow.
  void StoreNeighbours(const Form& chunk, const Places& places) {
    std::vector<std::string> values;
    std::vector<Form> addresses;
    for (int lane = 0; lane < lanes_; ++lane) {
      const std::vector<Form> at = places(chunk * lanes_ + Form(lane));
      values.push_back(ResultAt(at));
      addresses.push_back(AddressOf(at));
    }
    const DType dtype = graph_.type(request_.result).dtype;
    const size_t width = std::min(lanes_, kVectorBytes / OutBytes());
    for (size_t i = 0; i < values.size(); i += width) {
      bool together = width > 1 && request_.out_aligned && addresses[i].Divisor() % static_cast<int64_t>(width) == 0;
      for (size_t k = 1; k < width && together; ++k) {
        const Form distance = addresses[i + k] - addresses[i];
        together = distance.IsConstant() && distance.constant() == static_cast<int64_t>(k);
      }
      const std::string vector = VectorName(dtype, request_.out_storage, static_cast<int>(width)), name = NewName("q");
      if (together) Line(absl::StrCat(vector, " ", name, ";"));
      const bool pairs = together && request_.out_storage != Storage::kNative;
      for (size_t k = 0; pairs && k < width; k += 2) {
        Line(absl::StrCat("store_pair(", name, ".at + ", k, ", ", values[i + k], ", ", values[i + k + 1], ");"));
      }
      for (size_t k = 0; !pairs && k < width; ++k) {
        Line(together ? absl::StrCat("store(&", name, ".at[", k, "], ", values[i + k], ");")
                      : Store(addresses[i + k], values[i + k]));
      }
      if (together) Line(absl::StrCat("*(", vector, "*)(out + ", Text(addresses[i]), ") = ", name, ";"));
    }
  }

  // Returns whether a load that is always needed runs along another axis `a` than the result does, which runs along
  // `b`.
  bool ChooseTile(int* a, int* b) const {
    const Shape& shape = request_.out.dims;
    if (shape.size() < 2 || !survey_.reductions.empty()) return false;
    // Smaller tensors are in the cache, and tiles need rows worth their name.
    const int64_t enough = std::min<int64_t>(kSmallestTiled, request_.min_vectorized);
    const int64_t side = std::min<int64_t>(kTile / 2, request_.min_vectorized / 4);
    if (NumElements(shape) < enough) return false;
    *b = static_cast<int>(AxesByStride(request_.out).back());
    if (shape[*b] < side) return false;
    for (const Form& address : survey_.addresses) {
      if (std::abs(StepOf(address, axis_names_[*b])) <= 1) continue;
      for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
        if (k == *b || StepOf(address, axis_names_[k]) != 1) continue;
        if (shape[k] < side) continue;
        *a = k;
        return true;
      }
    }
    return false;
  }

  // Blocks of threads exchange tiles through shared memory: neighbours read along `a` and write along `b`.
  void WriteTiles(int a, int b) {
    const Shape& shape = request_.out.dims;
    const int64_t size_a = shape[a], size_b = shape[b];
    std::vector<int64_t> sizes;
    for (size_t k = 0; k < shape.size(); ++k) {
      const bool tiled = static_cast<int>(k) == a || static_cast<int>(k) == b;
      sizes.push_back(tiled ? (shape[k] + kTile - 1) / kTile : shape[k]);
    }
    kernel_.tiled = true;
    kernel_.blocks = NumElements(sizes);
    Push();
    Line("const index_t tile = blockIdx.x;");
    std::vector<Form> at = Unflatten(Variable("tile", 0, kernel_.blocks - 1, 0), sizes);
    Line(absl::StrCat("const index_t a0 = ", Text(at[a] * kTile), ", b0 = ", Text(at[b] * kTile), ";"));
    at[a] = Variable("a", 0, size_a - 1, 1);
    at[b] = Variable("b", 0, size_b - 1, 1);
    Push(/*conditional=*/true);
    tile_scope_ = top();
    StoreAt(at);
    const std::string element = Pop();
    std::string fill;
    for (const StagedLoad& load : staged_) {
      const Value value_read = arguments_[load.argument];
      const char* type = StorageName(graph_.type(value_read).dtype, request_.storage_of(value_read));
      // One more column, so that neighbours along `b` meet different banks.
      Line(absl::StrCat("__shared__ ", type, " ", load.name, "[", kTile, "][", kTile + 1, "];"));
      absl::StrAppend(&fill, load.name, "[j][threadIdx.x % ", kTile, "] = p", load.argument, "[", load.address, "];\n");
    }
    const std::string each =
        absl::StrCat("for (int j = threadIdx.x / ", kTile, "; j < ", kTile, "; j += kThreads / ", kTile, ") {\n");
    const std::string inside = absl::StrCat("if (a < ", size_a, " && b < ", size_b, ") {\n");
    Line(absl::StrCat(each, "const index_t a = a0 + threadIdx.x % ", kTile, ", b = b0 + j;\n", inside, fill, "}\n}"));
    Line("__syncthreads();");
    Line(
        absl::StrCat(each, "const index_t a = a0 + j, b = b0 + threadIdx.x % ", kTile, ";\n", inside, element, "}\n}"));
    body_ = Pop();
  }

  void WriteFlat(const std::vector<size_t>& order, int64_t elements) {
    const bool many = elements >= request_.min_vectorized && survey_.reductions.empty();
    lanes_ = !many ? 1 : OutBytes() == 2 ? kManyLanes : kFewLanes;
    const int64_t whole = many ? elements / lanes_ : 0;
    const int64_t single = elements - whole * lanes_;
    const int64_t threads = whole + single;
    kernel_.blocks = (threads + kFlatThreads - 1) / kFlatThreads;
    // In the order of memory.
    const Places places = [&](const Form& flat) {
      const std::vector<Form> sorted = Unflatten(flat, SizesOf(order));
      std::vector<Form> at(order.size());
      for (size_t k = 0; k < order.size(); ++k) at[order[k]] = sorted[k];
      return at;
    };
    Push();
    Line("const index_t t = (index_t)blockIdx.x * kThreads + threadIdx.x;");
    std::string together, one;
    if (whole > 0) {
      together = NeighbourScope(/*conditional=*/true, [&] { StoreNeighbours(Variable("t", 0, whole - 1, 0), places); });
    }
    if (single > 0) {
      Push(/*conditional=*/true);
      StoreAt(places(Variable("t", whole, threads - 1, 0) + Form(whole * (lanes_ - 1))));
      one = Pop();
    }
    large_ = large_ || threads + kFlatThreads > kLargeIndex;
    if (whole > 0) Line(absl::StrCat("if (t < ", whole, ") {\n", together, "return;\n}"));
    if (single > 0) Line(absl::StrCat("if (t < ", threads, ") {\n", one, "}"));
    body_ = Pop();
  }

  void Assemble() {
    std::vector<std::string> parameters;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      parameters.push_back(
          absl::StrCat("const ", StorageName(graph_.type(arguments_[i]).dtype, request_.storage_of(arguments_[i])),
                       "* __restrict__ p", i));
    }
    parameters.push_back(
        absl::StrCat(StorageName(graph_.type(request_.result).dtype, request_.out_storage), "* __restrict__ out"));
    kernel_.arguments = arguments_;
    kernel_.vectorized = vectorized_;
    const std::string rest =
        absl::StrCat("(", absl::StrJoin(parameters, ", "), ") {\n", "typedef ", large_ ? "long long" : "int",
                     " index_t;\n", "constexpr int kThreads = ", kernel_.threads, ";\n(void)kThreads;\n", body_, "}\n");
    kernel_.name = "rewright_" + TextHash::HexOf(rest);
    kernel_.source =
        absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", kernel_.threads, ") ", kernel_.name, rest);
  }

  GeneratedKernel kernel_;
  std::string body_;
};

double WorkOf(const ExprNode& expr, const Bindings& bindings) {
  double work = expr.IsRead() || expr.IsCall() ? 1 : 0;
  for (const ExprPtr& arg : expr.args()) work += WorkOf(*arg, bindings);
  for (const BoundVar& bound : expr.bound()) {
    work *= std::max<double>(1, static_cast<double>(EvalIndex(bound.extent, bindings.variables).value_or(0)));
  }
  return work;
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateKernel(const Graph& graph, const KernelRequest& request) {
  return KernelWriter(graph, request).Write();
}

bool ReducesOncePerRow(const Graph& graph, const std::vector<NodeId>& nodes, Value result) {
  KernelRequest request;
  request.nodes = nodes;
  request.result = result;
  request.out = Layout::RowMajor(graph.type(result).shape);
  request.layout_of = [&](Value value) { return Layout::RowMajor(graph.type(value).shape); };
  return KernelWriter(graph, request).ReducesOncePerRow();
}

double ElementWork(const Graph& graph, NodeId id, int output) {
  const Node& node = graph.node(id);
  return WorkOf(*node.meaning->outputs[output].element, BindingsOf(graph, node));
}

}  // namespace rewright::cuda
