#include "tests/backends/random_graph_util.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/ops.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

int64_t Pick(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// Grows a graph by random applications on the values that it has.
class Grower {
 public:
  explicit Grower(uint64_t seed) : rng_(seed), arena_(std::make_shared<Arena>()) {}

  Graph Images(int nodes) {
    const int64_t channels[] = {8, 16, 24, 5};
    Shape shape = {Pick(rng_, 0, 4) == 0 ? 2 : 1, channels[Pick(rng_, 0, 3)], Pick(rng_, 3, 6), Pick(rng_, 3, 6)};
    AddInput(shape);
    AddInput(shape);
    for (int i = 0; i < nodes; ++i) GrowImage();
    return Finish();
  }

  Graph Matrices(int nodes) {
    const int64_t sizes[] = {4, 7, 16, 33};
    Shape shape = {Pick(rng_, 1, 3), sizes[Pick(rng_, 0, 3)], sizes[Pick(rng_, 0, 3)]};
    AddInput(shape);
    AddInput(shape);
    for (int i = 0; i < nodes; ++i) GrowMatrix();
    return Finish();
  }

 private:
  void AddInput(const Shape& shape) {
    const Value value = *arena_->AddInput(absl::StrCat("x", inputs_.size()), {DType::kFloat32, shape});
    inputs_.push_back(value);
    values_.push_back(value);
  }
  Value Weight(const Shape& shape) {
    double scale = 1;
    for (size_t k = 1; k < shape.size(); ++k) scale *= static_cast<double>(shape[k]);
    const double bound = shape.size() > 1 ? 1.5 / std::sqrt(scale) : 1;
    return *arena_->AddState(absl::StrCat("w", arena_->size()),
                             RandomTensor({DType::kFloat32, shape}, 0.1 * bound, bound, rng_));
  }
  const Shape& ShapeOf(Value value) const { return arena_->type(value).shape; }

  // A recent value more often than an old one.
  Value Some() {
    const int64_t size = static_cast<int64_t>(values_.size());
    return values_[Pick(rng_, 0, 1) == 0 ? Pick(rng_, 0, size - 1)
                                         : Pick(rng_, std::max<int64_t>(0, size - 3), size - 1)];
  }
  // A value of the same shape, possibly the same one.
  Value Like(Value value) {
    for (int i = 0; i < 20; ++i) {
      const Value other = Some();
      if (ShapeOf(other) == ShapeOf(value)) return other;
    }
    return value;
  }
  void Add(const std::string& op, std::vector<Value> operands, Attrs attrs = {}) {
    const auto id = arena_->Add(op, std::move(operands), std::move(attrs));
    if (!id.ok()) return;
    for (int k = 0; k < static_cast<int>(arena_->node(*id).outputs.size()); ++k) {
      if (arena_->type(Value{*id, k}).num_elements() <= 4000) values_.push_back(Value{*id, k});
    }
  }
  void Unary(Value x) {
    switch (Pick(rng_, 0, 9)) {
      case 0: Add("relu", {x}); break;
      case 1: Add("sigmoid", {x}); break;
      case 2: Add("tanh", {x}); break;
      case 3: Add("clip", {x}, {{"min", 0.0}, {"max", 0.7}}); break;
      case 4: Add("gelu", {x}); break;
      case 5: Add("leaky_relu", {x}); break;
      case 6: Add("gelu_tanh", {x}); break;
      case 7: Add("swish", {x}); break;
      case 8: Add("hard_swish", {x}); break;
      default: Add("neg", {x});
    }
  }

  void GrowImage() {
    const Value x = Some();
    const Shape shape = ShapeOf(x);
    if (shape.size() != 4) return Unary(x);
    const int64_t c = shape[1];
    switch (Pick(rng_, 0, 13)) {
      case 0:
      case 1:
      case 2: {
        const int64_t out = Pick(rng_, 0, 2) > 0 ? c : 8 * Pick(rng_, 1, 3);
        const int64_t k = 2 * Pick(rng_, 0, 1) + 1;
        Add("conv2d", {x, Weight({out, c, k, k})}, {{"pads", std::vector<int64_t>(4, k / 2)}});
        break;
      }
      case 3: Add("add", {x, Like(x)}); break;
      case 4: Add(Pick(rng_, 0, 1) == 0 ? "mul" : "sub", {x, Like(x)}); break;
      case 5: Unary(x); break;
      case 6: Add("add", {x, Weight(Pick(rng_, 0, 1) == 0 ? Shape{1, c, 1, 1} : Shape{c, 1, 1})}); break;
      case 7: Add("batch_norm", {x, Weight({c}), Weight({c}), Weight({c}), Weight({c})}); break;
      case 8: Add("concat", {x, Like(x)}, {{"axis", Pick(rng_, 0, 4) == 0 ? Pick(rng_, 0, 3) : 1}}); break;
      case 9: {
        const int64_t first = Pick(rng_, 0, 2) > 0 && c > 8 ? 8 : Pick(rng_, 1, std::max<int64_t>(1, c - 1));
        if (first < c) Add("split", {x}, {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{first, c - first}}});
        break;
      }
      case 10:
        Add(Pick(rng_, 0, 1) == 0 ? "max_pool2d" : "avg_pool2d", {x},
            {{"kernel", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
        break;
      case 11: Add("transpose", {x}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}); break;
      case 12: Add("reduce_mean", {x}, {{"axes", std::vector<int64_t>{2, 3}}}); break;
      default: Add("conv2d", {x, Weight({c, 1, 3, 3})}, {{"pads", std::vector<int64_t>(4, 1)}, {"groups", c}});
    }
  }

  void GrowMatrix() {
    const Value x = Some();
    const Shape shape = ShapeOf(x);
    const int64_t n = shape.back();
    switch (Pick(rng_, 0, 11)) {
      case 0:
      case 1: Add("matmul", {x, Weight({n, Pick(rng_, 0, 1) == 0 ? n : Pick(rng_, 1, 40)})}); break;
      case 2: Add("matmul", {x, Some()}); break;
      case 3: Add("add", {x, Like(x)}); break;
      case 4: Add("mul", {x, Like(x)}); break;
      case 5: Unary(x); break;
      case 6: Add("add", {x, Weight({n})}); break;
      case 7: Add("mul", {x, Weight(Pick(rng_, 0, 1) == 0 ? Shape{n} : Shape{})}); break;
      case 8: {
        std::vector<int64_t> perm(shape.size());
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), rng_);
        Add("transpose", {x}, {{"perm", perm}});
        break;
      }
      case 9: Add("softmax", {x}, {{"axis", Pick(rng_, 0, static_cast<int64_t>(shape.size()) - 1)}}); break;
      case 10:
        if (Pick(rng_, 0, 1) == 0) {
          Add("reshape", {x}, {{"shape", std::vector<int64_t>{NumElements(shape) / n, n}}});
        } else {
          Add("concat", {x, Like(x)}, {{"axis", Pick(rng_, 0, static_cast<int64_t>(shape.size()) - 1)}});
        }
        break;
      default: Add("layer_norm", {x, Weight({n}), Weight({n})}, {{"axis", static_cast<int64_t>(shape.size()) - 1}});
    }
  }

  // The newest values and a few others are outputs.
  Graph Finish() {
    std::vector<Output> outputs;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (i + 1 == values_.size() || Pick(rng_, 0, 6) == 0) outputs.push_back({values_[i], absl::StrCat("y", i)});
    }
    return Graph(arena_, inputs_, outputs);
  }

  Rng rng_;
  std::shared_ptr<Arena> arena_;
  std::vector<Value> inputs_, values_;
};

}  // namespace

std::vector<const OpDef*> OpsOfGpus() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : AllOps()) {
    Rng rng(1);
    OpSample sample;
    const Graph graph = RandomApplication(*op, rng, &sample);
    if (!graph.node(graph.nodes().back()).meaning->IsOpaque()) ops.push_back(op);
  }
  CHECK(!ops.empty() && ops.size() < AllOps().size()) << "some are opaque";
  return ops;
}

bool IsOfGpus(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) {
    return std::all_of(graph.node(id).outputs.begin(), graph.node(id).outputs.end(), [](const TensorType& type) {
      return std::count(std::begin(kPlainDTypes), std::end(kPlainDTypes), type.dtype) > 0;
    });
  });
}

Graph RandomApplication(const OpDef& op, Rng& rng, OpSample* sample) {
  *sample = op.sample(rng);
  auto arena = std::make_shared<Arena>();
  std::vector<Value> operands;
  for (size_t k = 0; k < sample->inputs.size(); ++k) {
    operands.push_back(*arena->AddInput(absl::StrCat("x", k), sample->inputs[k]));
  }
  const auto node = arena->Add(op, operands, sample->attrs);
  CHECK(node.ok()) << op.name << ": " << node.status().ToString();
  std::vector<Output> outputs;
  for (int k = 0; k < static_cast<int>(arena->node(*node).outputs.size()); ++k) {
    outputs.push_back({Value{*node, k}, absl::StrCat("y", k)});
  }
  return Graph(arena, operands, outputs);
}

Graph RandomImageGraph(uint64_t seed, int nodes) { return Grower(seed).Images(nodes); }
Graph RandomMatrixGraph(uint64_t seed, int nodes) { return Grower(seed).Matrices(nodes); }

}  // namespace rewright
