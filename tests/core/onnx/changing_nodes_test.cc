// Nodes that a size changes: imported alone they give what the whole model has at that size, each layer once.
#include "core/onnx/changing_nodes.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/onnx/part.h"
#include "gtest/gtest.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

// Each layer joins rows to its past, takes those from the number of past rows on, and weighs them by this number.
TestModel Layers(int count) {
  TestModel model;
  model.Ints("first", {0}).Ints("end", {1 << 30}).Initializer("turn", Iota({4, 4})).SymbolicInput("x", {"n", "width"});
  for (int k = 0; k < count; ++k) {
    const auto named = [&](const char* name) { return absl::StrCat(name, k); };
    model.SymbolicInput(named("past"), {"rows", "width"})
        .Node("Concat", {named("past"), "x"}, {named("all")}, {{"axis", int64_t{0}}})
        .Node("Shape", {named("past")}, {named("sizes")})
        .Node("Gather", {named("sizes"), "first"}, {named("length")})
        .Node("Cast", {named("length")}, {named("number")}, {{"to", int64_t{onnx::TensorProto::FLOAT}}})
        .Node("Exp", {named("all")}, {named("powers")})
        .Node("Slice", {named("powers"), named("length"), "end", "first"}, {named("late")})
        .Node("MatMul", {named("late"), "turn"}, {named("turned")})
        .Node("Mul", {named("turned"), named("number")}, {named("y")})
        .Output(named("y"));
  }
  return model;
}

ImportedModel At(const TestModel& model, int64_t rows) {
  auto imported = model.Import({.dims = {{"rows", rows}, {"n", 2}, {"width", 4}}, .keep_source = true});
  EXPECT_TRUE(imported.ok()) << imported.status();
  return *std::move(imported);
}

// The values of another import, by those of this one.
std::map<Value, Value> Counterparts(const ImportedModel& here, const ImportedModel& there) {
  std::map<Value, Value> values;
  for (const FileNode& node : FileNodes(*here.source)) {
    for (const auto* names : {&node.reads, &node.outputs}) {
      for (const std::string& name : *names) {
        values[*FileValue(*here.source, name)] = *FileValue(*there.source, name);
      }
    }
  }
  return values;
}

std::optional<ChangingNodes> ChangingBetween(const ImportedModel& here, const ImportedModel& there) {
  return ChangingNodes::Find(here.source, here.graph, [&](Value value) -> std::optional<int> {
    if (!here.graph.contains(value.node)) return std::nullopt;
    const Shape& shape = there.graph.type(Counterparts(here, there).at(value)).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] != here.graph.type(value).shape[axis]) return static_cast<int>(axis);
    }
    return -1;
  });
}

TEST(ChangingNodes, GiveWhatTheWholeModelHasAtThatSize) {
  const TestModel model = Layers(3);
  const ImportedModel here = At(model, 20), there = At(model, 12);
  const auto nodes = ChangingBetween(here, there);
  ASSERT_TRUE(nodes.has_value());
  const auto changed = nodes->ImportAt(8);
  ASSERT_TRUE(changed.status.ok()) << changed.status;
  const std::map<Value, Value> values = Counterparts(here, there);
  EXPECT_EQ(changed.results.size(), 5);  // all, powers, late, number, y; the others are in no graph, or do not change
  for (const auto& [value, found] : changed.results) {
    const Node &made = changed.arena->node(found.node), &truth = there.graph.node(values.at(value).node);
    EXPECT_EQ(made.op, truth.op);
    EXPECT_EQ(made.attrs, truth.attrs);
    EXPECT_EQ(made.outputs, truth.outputs);
    EXPECT_EQ(made.leaf, truth.leaf);
    EXPECT_TRUE(truth.op != nullptr || made.data.At(0) == 12);
  }
}

TEST(ChangingNodes, LayersThatRepeatAreOne) {
  const auto count = [](int layers) {
    const TestModel model = Layers(layers);
    return ChangingBetween(At(model, 20), At(model, 12))->num_nodes();
  };
  EXPECT_EQ(count(1), 7);  // all but the product
  EXPECT_EQ(count(5), 7);
}

TEST(ChangingNodes, BranchesAreNotFollowedButTheirConditionsAre) {
  TestModel model = Layers(1);
  onnx::GraphProto then;
  then.set_name("then");
  onnx::NodeProto* node = then.add_node();
  node->set_op_type("Neg");
  node->add_input("all0");
  node->add_output("inner");
  then.add_output()->set_name("inner");
  model.Ints("twelve", {12}).Node("Equal", {"length0", "twelve"}, {"is_twelve"});
  model.Node("If", {"is_twelve"}, {"branch"}).Node("Exp", {"branch"}, {"z"}).Output("z");
  onnx::NodeProto* branching = model.proto().mutable_graph()->mutable_node(model.proto().graph().node_size() - 2);
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* attribute = branching->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    *attribute->mutable_g() = then;
  }
  const ImportedModel here = At(model, 20), there = At(model, 12);
  const auto nodes = ChangingBetween(here, there);
  ASSERT_TRUE(nodes.has_value());
  EXPECT_FALSE(nodes->complete());
  const ChangedValues changed = nodes->ImportAt(8);
  ASSERT_TRUE(changed.status.ok()) << changed.status;
  const Value condition = *FileValue(*here.source, "is_twelve");
  EXPECT_EQ(std::count_if(changed.results.begin(), changed.results.end(), [&](const auto& result) {
    return result.first == condition && changed.arena->Elements(result.second.node)->At(0) == 1;
  }), 1);
}

}  // namespace
}  // namespace rewright
