#include "core/ir/rewrite.h"

#include <string>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/ir/op.h"
#include "core/ir/random_tensors.h"
#include "core/ops/ops.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;

const Index kX = Variable(0, "x"), kY = Variable(1, "y"), kK = Variable(2, "k");

Scalar Read(const std::vector<Index>& at) { return ReadOperand(0, at, DType::kFloat32); }

// sum k < extent: body
Scalar SumOver(const Index& k, const Index& extent, const Scalar& body) {
  return ReduceOver(ReduceKind::kSum, {{k.node()->variable(), k.node()->name(), extent.node()}}, Cond(true), body);
}

// (..((x + x) + (x + x)) + ..): 2^depth occurrences of x in depth + 1 nodes.
Index Doubled(int depth) {
  Index e = kX;
  for (int i = 0; i < depth; ++i) e = e + e;
  return e;
}

TEST(RewriteTest, VisitsDistinctNodesOnceAndArgumentsFirst) {
  const Index e = (kX + kY) * (kX + kY) - kX;
  std::vector<std::string> visited;
  Visit(e.node(), [&](const ExprPtr& node) { visited.push_back(PrintExpr(node, {})); });
  EXPECT_THAT(visited, ElementsAre("x", "y", "x + y", "(x + y) * (x + y)", "(x + y) * (x + y) - x"));
  int count = 0;
  Visit(Doubled(60).node(), [&](const ExprPtr&) { ++count; });
  EXPECT_EQ(count, 61);
}

TEST(RewriteTest, VisitsExtents) {
  bool seen = false;
  Visit(SumOver(kK, kY, Read({kK})).node(), [&](const ExprPtr& node) { seen |= node->IsVariable(1); });
  EXPECT_TRUE(seen);
}

TEST(RewriteTest, AnyOf) {
  const auto is_division = [](const ExprNode& node) { return node.IsCall(Fn::kDiv); };
  EXPECT_TRUE(AnyOf((Exp(Read({kX}) / 2.0)).node(), is_division));
  EXPECT_FALSE(AnyOf((Exp(Read({kX}) * 2.0)).node(), is_division));
  EXPECT_FALSE(AnyOf(Doubled(60).node(), is_division));
}

TEST(RewriteTest, FreeVariablesAreNotBound) {
  EXPECT_THAT(FreeVariables(SumOver(kK, kY, Read({kX, kK})).node()), ElementsAre(0, 1));
  // k also occurs free, beside the sum that binds it.
  EXPECT_THAT(FreeVariables((SumOver(kK, 3, Read({kK})) * Read({kK})).node()), ElementsAre(2));
  EXPECT_THAT(FreeVariables(Doubled(60).node()), ElementsAre(0));
}

TEST(RewriteTest, ReplacesFromTheLeavesUp) {
  const ExprPtr e = (Exp(Read({kX})) + Exp(Exp(Read({kX})))).node();
  const ExprPtr tanh = RewriteExpr(
      e, [](const ExprPtr& node) { return node->IsCall(Fn::kExp) ? Tanh(Scalar(node->arg(0))).node() : node; });
  EXPECT_EQ(PrintExpr(tanh, {"a"}), "tanh(a[x]) + tanh(tanh(a[x]))");
  int replaced = 0;
  RewriteExpr(Doubled(60).node(), [&](const ExprPtr& node) { return ++replaced, node; });
  EXPECT_EQ(replaced, 61);
  EXPECT_EQ(RewriteExpr(e, [](const ExprPtr& node) { return node; }), e);
}

TEST(RewriteTest, SubstitutesInTimeOfTheDistinctNodes) {
  const ExprPtr e = Substitute(Doubled(60).node(), {kY.node()}, {});
  EXPECT_THAT(FreeVariables(e), ElementsAre(1));
  EXPECT_EQ(Substitute(Doubled(40).node(), {Index(1).node()}, {}), Index(int64_t{1} << 40).node());
}

TEST(RewriteTest, SubstitutesWhatIsFreeAlone) {
  const ExprPtr e = (SumOver(kK, 3, Read({kX, kK})) * Read({kK, kK})).node();
  EXPECT_EQ(PrintExpr(Substitute(e, {nullptr, nullptr, kY.node()}, {}), {"a"}), "(sum k < 3: a[x, k]) * a[y, y]");
}

TEST(RewriteTest, SubstitutionDoesNotCapture) {
  // x := k in  sum k < y: a[x, k]  is not  sum k: a[k, k].
  const ExprPtr e = SumOver(kK, kY, Read({kX, kK})).node();
  const ExprPtr moved = Substitute(e, {kK.node()}, {});
  EXPECT_THAT(FreeVariables(moved), ElementsAre(1, 2));
  const BoundVar& bound = moved->bound()[0];
  EXPECT_EQ(bound.id, 3);
  EXPECT_TRUE(moved->body()->arg(0)->IsVariable(2));
  EXPECT_TRUE(moved->body()->arg(1)->IsVariable(3));
  // The caller may choose the numbers of fresh variables.
  const ExprPtr numbered = Substitute(e, {kK.node()}, {}, [](const std::string& name) {
    EXPECT_EQ(name, "k");
    return 17;
  });
  EXPECT_EQ(numbered->bound()[0].id, 17);
  // An expression that replaces a parameter is not captured either.
  const Scalar p = Parameter(0, "p", DType::kFloat32);
  const ExprPtr scaled = Substitute(SumOver(kK, kY, p * Read({kK})).node(), {}, {Read({kK}).node()});
  EXPECT_THAT(FreeVariables(scaled), ElementsAre(1, 2));
}

TEST(RewriteTest, NestedReductionsOfOneVariableStayApart) {
  // sum k < 2: (a[x, k] + sum k < 3: a[x, k]) with x := k
  const Scalar inner = SumOver(kK, 3, Read({kX, kK}));
  const ExprPtr e = SumOver(kK, 2, Read({kX, kK}) + inner).node();
  const ExprPtr moved = Substitute(e, {kK.node()}, {});
  EXPECT_THAT(FreeVariables(moved), ElementsAre(2));
  const int outer = moved->bound()[0].id;
  const ExprPtr& read = moved->body()->arg(0);
  EXPECT_TRUE(read->arg(0)->IsVariable(2) && read->arg(1)->IsVariable(outer));
  const ExprPtr& sum = moved->body()->arg(1);
  EXPECT_TRUE(sum->body()->arg(0)->IsVariable(2) && sum->body()->arg(1)->IsVariable(sum->bound()[0].id));
}

// ---------------------------------------------------------------- composition

struct Applied {
  Application app;
  std::vector<TensorType> inputs;
};

Applied ApplyTo(const std::string& op, const std::vector<TensorType>& inputs, const Attrs& attrs, MeaningCache& cache) {
  auto app = Apply(*FindOp(op), inputs, attrs, cache);
  EXPECT_TRUE(app.ok()) << op << ": " << app.status();
  return {*std::move(app), inputs};
}

// Returns consumer(.., producer(..), ..) as one Meaning; the producer's operands follow the consumer's.
Tensor RunInlined(const Applied& producer, const Applied& consumer, int operand, const std::vector<Tensor>& inputs) {
  Meaning composed = *consumer.app.meaning;
  const Meaning& inner = *producer.app.meaning;
  const Bindings bound = BindingsOf(inner, producer.inputs, producer.app.attrs);
  ElementFunction function{.element = inner.outputs[0].element, .position = inner.outputs[0].index_vars};
  for (int64_t value : bound.variables) function.variables.push_back(Index(value).node());
  for (double value : bound.params) function.params.push_back(Constant(value, DType::kFloat32).node());
  for (size_t k = 0; k < producer.inputs.size(); ++k) {
    function.operands.push_back(static_cast<int>(consumer.inputs.size() + k));
  }
  composed.outputs[0].element = Inline(composed.outputs[0].element, operand, function, [&](const std::string& name) {
    composed.variables.push_back({name, Meaning::VarKind::kBound});
    return static_cast<int>(composed.variables.size()) - 1;
  });
  Bindings bindings = BindingsOf(*consumer.app.meaning, consumer.inputs, consumer.app.attrs);
  bindings.variables.resize(composed.variables.size());
  EXPECT_FALSE(AnyOf(composed.outputs[0].element, [&](const ExprNode& node) {
    return node.kind() == ExprKind::kRead && node.operand() == operand;
  }));
  const auto result = Interpret(composed, bindings, consumer.app.outputs, inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  return (*result)[0];
}

struct Composition {
  std::string producer, consumer;
  Attrs producer_attrs, consumer_attrs;
  std::vector<TensorType> producer_inputs;
  std::vector<TensorType> others;  // operands of the consumer behind the first, which the producer gives
};

TEST(RewriteTest, InliningIsComposition) {
  const TensorType matrix{DType::kFloat32, {3, 4}}, other{DType::kFloat32, {4, 5}};
  const std::vector<Composition> cases = {
      {"matmul", "softmax", {}, {{"axis", int64_t{1}}}, {matrix, other}, {}},
      {"softmax", "matmul", {{"axis", int64_t{0}}}, {}, {matrix}, {other}},
      {"leaky_relu", "reduce_max", {{"alpha", 0.25}}, {{"axes", std::vector<int64_t>{0}}}, {matrix}, {}},
      // The consumer reads outside of its operand only under a guard, which must stay around the reduction.
      {"reduce_sum",
       "pad",
       {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}},
       {{"before", std::vector<int64_t>{2}}, {"after", std::vector<int64_t>{1}}, {"interior", std::vector<int64_t>{1}}},
       {matrix},
       {}},
      {"transpose", "argmax", {{"perm", std::vector<int64_t>{1, 0}}}, {{"axis", int64_t{0}}}, {matrix}, {}},
  };
  Rng rng(3);
  for (const Composition& c : cases) {
    SCOPED_TRACE(c.consumer + " of " + c.producer);
    MeaningCache cache;
    const Applied producer = ApplyTo(c.producer, c.producer_inputs, c.producer_attrs, cache);
    std::vector<TensorType> consumed = {producer.app.outputs[0]};
    consumed.insert(consumed.end(), c.others.begin(), c.others.end());
    const Applied consumer = ApplyTo(c.consumer, consumed, c.consumer_attrs, cache);
    std::vector<Tensor> inputs, producer_inputs;
    for (const TensorType& type : consumed) inputs.push_back(RandomTensor(type, rng, -2, 2));
    for (const TensorType& type : c.producer_inputs) producer_inputs.push_back(RandomTensor(type, rng, -2, 2));
    const auto between =
        Interpret(*producer.app.meaning, BindingsOf(*producer.app.meaning, producer.inputs, producer.app.attrs),
                  producer.app.outputs, producer_inputs);
    ASSERT_TRUE(between.ok()) << between.status();
    std::vector<Tensor> steps = inputs;
    steps[0] = (*between)[0];
    const auto expected =
        Interpret(*consumer.app.meaning, BindingsOf(*consumer.app.meaning, consumer.inputs, consumer.app.attrs),
                  consumer.app.outputs, steps);
    ASSERT_TRUE(expected.ok()) << expected.status();
    inputs.insert(inputs.end(), producer_inputs.begin(), producer_inputs.end());
    const Comparison comparison = Compare(RunInlined(producer, consumer, 0, inputs), (*expected)[0]);
    EXPECT_TRUE(comparison.close) << comparison.text;
  }
}

// A read whose index is a read of the same operand: both are replaced.
TEST(RewriteTest, InlinesReadsInsideIndices) {
  const auto read = [](const Index& at) { return ReadOperand(0, {at}, DType::kInt64); };
  const ExprPtr e = read(ToIndex(read(kX))).node();
  ElementFunction twice;
  const Index k = Variable(1, "k"), i = Variable(0, "i");
  twice.element =
      ReduceOver(ReduceKind::kSum, {{1, "k", Index(2).node()}}, Cond(true), ReadOperand(0, {i + k}, DType::kInt64))
          .node();
  twice.position = {0};
  twice.operands = {5};
  int next = 7;
  const ExprPtr inlined = Inline(e, 0, twice, [&](const std::string&) { return next++; });
  EXPECT_EQ(next, 8) << "one number for the one variable";
  EXPECT_THAT(FreeVariables(inlined), ElementsAre(0));
  EXPECT_EQ(PrintExpr(inlined, {}), "sum k < 2: $5[sum k < 2: $5[x + k] + k]");
}

}  // namespace
}  // namespace rewright
