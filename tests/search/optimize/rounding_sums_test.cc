#include "search/optimize/rounding_sums.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace rewright {
namespace {

class RoundingSumsTest : public testing::Test {
 protected:
  Value Input(const std::string& name) {
    const Value value = *arena_->AddInput(name, {DType::kFloat32, {4}});
    inputs_.push_back(value);
    return value;
  }
  Value Constant(double number) {
    return arena_->AddConstant(Tensor::FromVector<double>(DType::kFloat32, {}, {number}));
  }
  Value Constants(const std::vector<double>& numbers) {
    return arena_->AddConstant(Tensor::FromVector<double>(DType::kFloat32, {4}, numbers));
  }
  Value Apply(const std::string& op, std::vector<Value> operands) { return *arena_->Apply(op, std::move(operands)); }

  std::set<NodeId> Found(const std::vector<Value>& outputs) {
    std::vector<Output> named;
    for (Value output : outputs) named.push_back({output, "y" + std::to_string(named.size())});
    Numerics numerics;
    const std::vector<NodeId> found = RoundingSums(Graph(arena_, inputs_, named), numerics);
    return {found.begin(), found.end()};
  }

  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::vector<Value> inputs_;
};

TEST_F(RoundingSumsTest, OfConstants) {
  const Value x = Input("x"), c = Constant(12582912);
  const Value there = Apply("add", {x, c}), back = Apply("sub", {there, c});
  const Value after = Apply("mul", {back, Constant(3)});
  EXPECT_EQ(Found({after}), std::set<NodeId>({back.node}));
}

// (x + b) + c - d: b and the remainder of c - d are small beside c.
TEST_F(RoundingSumsTest, OfConstantsThatLeaveASmallOne) {
  const Value x = Input("x"), b = Constants({0.5, -0.25, 1, 2});
  const Value there = Apply("add", {Apply("add", {x, b}), Constants({12582912, 25165824, 12582912, 25165824})});
  const Value back = Apply("add", {there, Constants({-12582913, -25165824, -12582912, -25165825})});
  const Value twice = Apply("sub", {Apply("add", {back, Constant(3e7)}), Constant(3e7)});
  EXPECT_EQ(Found({twice}), std::set<NodeId>({back.node, twice.node}));
}

TEST_F(RoundingSumsTest, OfPartsOfNumbers) {
  const Value x = Input("x"), y = Input("y");
  const Value t = Apply("mul", {x, Constant(4097)});
  const Value high = Apply("sub", {t, Apply("sub", {t, x})}), low = Apply("sub", {x, high});
  const Value product = Apply("mul", {high, y}), total = Apply("add", {product, low});
  const Value beyond = Apply("relu", {total}), other = Apply("mul", {beyond, y});
  EXPECT_EQ(Found({other}), std::set<NodeId>({high.node, low.node, product.node, total.node}));
}

TEST_F(RoundingSumsTest, OfErrorsOfSums) {
  const Value a = Input("a"), b = Input("b");
  const Value s = Apply("add", {a, b}), arrived = Apply("sub", {s, a});
  const Value lost = Apply("sub", {b, arrived});
  EXPECT_EQ(Found({s, lost}), std::set<NodeId>({arrived.node, lost.node}));
}

TEST_F(RoundingSumsTest, OrdinarySumsAreNone) {
  const Value x = Input("x"), y = Input("y");
  const Value shifted = Apply("sub", {Apply("add", {x, Constants({1, 2, 3, 4})}), Constants({1, 5, -3, 2})});
  const Value twice = Apply("add", {Apply("add", {x, y}), y});
  const Value centred = Apply("sub", {x, Apply("mul", {x, y})});
  EXPECT_EQ(Found({shifted, twice, centred}), std::set<NodeId>());
}

}  // namespace
}  // namespace rewright
