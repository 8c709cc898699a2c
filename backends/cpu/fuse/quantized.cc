#include "backends/cpu/fuse/quantized.h"

#include <algorithm>
#include <cmath>

#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "core/ops/ops.h"

namespace rewright::cpu {

std::optional<int64_t> KnownInteger(const Graph& graph, Value value) {
  const Node* node = &graph.node(value.node);
  while (node->op == ops::Cast() || node->op == ops::Reshape() || node->op == ops::Expand()) {
    value = node->operands[0];
    node = &graph.node(value.node);
  }
  const Tensor* const elements = graph.arena()->KnownElements(value.node);
  if (elements == nullptr || !IsInteger(elements->dtype()) || elements->num_elements() == 0) return std::nullopt;
  const int64_t first = elements->AtInt(0);
  for (int64_t i = 1; i < elements->num_elements(); ++i) {
    if (elements->AtInt(i) != first) return std::nullopt;
  }
  return first;
}

namespace {

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

bool IsWithin(int64_t number, DType byte) {
  const int64_t low = byte == DType::kInt8 ? -128 : 0;
  return number >= low && number <= low + 255;
}

// The node that alone reads a value, which does not escape; none where there is no such node.
std::optional<NodeId> OnlyReader(const Graph& graph, Value value) {
  const std::vector<int>& users = graph.users(graph.index(value.node));
  if (users.size() != 1 || graph.is_output(value)) return std::nullopt;
  return graph.nodes()[users[0]];
}

// Returns whether the value can only be a number in the range of `byte`.
bool IsZeroPoint(const Graph& graph, Value value, DType byte) {
  if (graph.type(value).num_elements() != 1) return false;
  if (graph.IsKnown(value)) {
    const std::optional<int64_t> number = KnownInteger(graph, value);
    return number && IsWithin(*number, byte);
  }
  const Node& node = graph.node(value.node);
  return node.op == ops::Cast() && graph.type(node.operands[0]).dtype == byte;
}

// Matches x - zero by the nodes alone, without their readers; `value` is x.
std::optional<CentredFactor> PatternOf(const Graph& graph, Value value) {
  CentredFactor factor;
  const Node* node = &graph.node(value.node);
  factor.nodes = {value.node};
  if (node->op == ops::Sub()) {
    factor.zero = node->operands[1];
    const Value wide = node->operands[0];
    if (graph.type(wide) != graph.type(value)) return std::nullopt;
    factor.nodes.insert(factor.nodes.begin(), wide.node);
    node = &graph.node(wide.node);
  }
  if (node->op != ops::Cast() || !IsByte(graph.type(node->operands[0]).dtype)) return std::nullopt;
  factor.value = node->operands[0];
  factor.dtype = graph.type(factor.value).dtype;
  if (factor.zero.node >= 0 && !IsZeroPoint(graph, factor.zero, factor.dtype)) return std::nullopt;
  return factor;
}

// Returns whether a known value of i32 is made of 8 bits and numbers that move all of them alike, as far as the graph
// tells. A leaf counts as such, since the graph tells nothing of its elements.
bool MayHaveByteRange(const Graph& graph, Value value) {
  while (true) {
    const Node& node = graph.node(value.node);
    if (node.op == nullptr || IsByte(graph.type(value).dtype)) return true;
    if (node.op == ops::Sub()) {
      if (!KnownInteger(graph, node.operands[1])) return false;
    } else if (node.op != ops::Cast() && node.op != ops::Reshape() && node.op != ops::Transpose()) {
      return false;
    }
    value = node.operands[0];
  }
}

// Returns whether the node is a product whose factors are of 8 bits; their other readers do not matter.
bool IsProductOfBytes(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool conv = node.op == ops::Conv2d();
  if (!graph.IsRun(node) || (!conv && node.op != ops::Matmul()) || node.outputs[0].dtype != DType::kInt32 ||
      node.outputs[0].num_elements() == 0 || (conv && Int(node, "groups") != 1)) {
    return false;
  }
  const Value left = node.operands[0], right = node.operands[1];
  if (graph.IsKnown(left) || left == right || !PatternOf(graph, left)) return false;
  if (!graph.IsKnown(right)) return !conv && PatternOf(graph, right);
  const Shape& dims = graph.type(right).shape;
  const bool one_matrix = conv || NumElements(dims) == dims[dims.size() - 2] * dims.back();
  return one_matrix && MayHaveByteRange(graph, right);
}

// The operand of a product of bytes. The product subtracts the zero point itself if all readers of the difference do.
std::optional<CentredFactor> CentredFactorOf(const Graph& graph, Value value) {
  CentredFactor factor = *PatternOf(graph, value);
  const std::vector<int>& readers = graph.users(graph.index(value.node));
  const bool alone = factor.nodes.size() == 1 || OnlyReader(graph, Value{factor.nodes[0], 0});
  if (alone && !graph.is_output(value) && std::all_of(readers.begin(), readers.end(), [&](int reader) {
        return IsProductOfBytes(graph, graph.nodes()[reader]);
      })) {
    return factor;
  }
  if (factor.zero.node >= 0 && !graph.IsKnown(factor.zero)) return std::nullopt;  // it may lie nowhere
  factor.value = value;
  factor.is_difference = true;
  factor.nodes.clear();
  return factor;
}

// The walk along what follows the product.
class Tail {
 public:
  Tail(const Graph& graph, QuantizedProduct* product)
      : graph_(graph),
        product_(product),
        last_{product->product, 0},
        conv_(graph.node(last_.node).op == ops::Conv2d()) {}

  void Run() {
    if (const std::optional<Value> bias = Step(ops::Add(), /*per_column=*/true)) {
      product_->bias = *bias;
      product_->nodes = nodes_;
    }
    if (Requantized made; Requantize(&made)) {
      product_->requantized = made;
      product_->nodes = nodes_;
    }
  }

 private:
  using Requantized = QuantizedProduct::Requantized;

  bool Requantize(Requantized* made) {
    if (!Take(ops::Cast()) || TypeOfLast() != DType::kFloat32) return false;
    const std::optional<Value> factor = Step(ops::Mul(), /*per_column=*/true);
    if (!factor || !Take(ops::Round())) return false;
    made->factor = *factor;
    if (const std::optional<Value> point = Step(ops::Add(), /*per_column=*/false)) {
      const double number = SingleConstant(graph_, *point)->At(0);
      if (std::abs(number) > 255 || number != std::floor(number)) return false;
      made->point = static_cast<int>(number);
    }
    if (!Take(ops::Clip())) return false;
    const double low = Real(graph_.node(last_.node), "min"), high = Real(graph_.node(last_.node), "max");
    if (!Take(ops::Cast()) || !IsByte(TypeOfLast())) return false;
    made->to = TypeOfLast();
    const auto whole = [&](double x) {
      return x == std::floor(x) && std::abs(x) < 256 && IsWithin(static_cast<int64_t>(x), made->to);
    };
    if (!whole(low) || !whole(high) || low > high) return false;
    made->low = static_cast<int>(low);
    made->high = static_cast<int>(high);
    return true;
  }

  DType TypeOfLast() const { return graph_.type(last_).dtype; }

  // Goes on to the only reader of the last value where it is an application of `op`.
  bool Take(const OpDef* op) {
    const std::optional<NodeId> reader = OnlyReader(graph_, last_);
    if (!reader || graph_.node(*reader).op != op) return false;
    last_ = {*reader, 0};
    nodes_.push_back(*reader);
    return true;
  }

  // The other operand of a sum or product with the last value: known, of one element, or of one for each column.
  std::optional<Value> Step(const OpDef* op, bool per_column) {
    const std::optional<NodeId> reader = OnlyReader(graph_, last_);
    if (!reader || graph_.node(*reader).op != op) return std::nullopt;
    const Node& node = graph_.node(*reader);
    const Value other = node.operands[node.operands[0] == last_ ? 1 : 0];
    const TensorType& type = graph_.type(last_);
    if (other == last_ || node.outputs[0] != type || !graph_.IsKnown(other)) return std::nullopt;
    if (per_column ? !IsPerChannel(graph_.type(other), type, conv_ ? 1 : type.rank() - 1)
                   : SingleConstant(graph_, other) == nullptr) {
      return std::nullopt;
    }
    Take(op);
    return other;
  }

  const Graph& graph_;
  QuantizedProduct* const product_;
  Value last_;
  const bool conv_;
  std::vector<NodeId> nodes_ = product_->nodes;
};

}  // namespace

std::optional<QuantizedProduct> QuantizedProductAt(const Graph& graph, NodeId id) {
  if (!IsProductOfBytes(graph, id)) return std::nullopt;
  const Node& node = graph.node(id);
  const std::optional<CentredFactor> left = CentredFactorOf(graph, node.operands[0]);
  if (!left) return std::nullopt;
  QuantizedProduct product{.product = id, .left = *left, .nodes = left->nodes};
  if (!graph.IsKnown(node.operands[1])) {
    product.right = CentredFactorOf(graph, node.operands[1]);
    if (!product.right) return std::nullopt;
    product.nodes.insert(product.nodes.end(), product.right->nodes.begin(), product.right->nodes.end());
  }
  product.nodes.push_back(id);
  Tail(graph, &product).Run();
  return product;
}

}  // namespace rewright::cpu
