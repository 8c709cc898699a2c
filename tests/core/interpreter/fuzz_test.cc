// Compares the interpreter with the oracle on random meanings, whose expressions no operator has.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/oracle.h"
#include "core/ir/random_tensors.h"
#include "core/tensor/compare.h"
#include "gtest/gtest.h"
#include "tests/counts.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 77;
const int kMeanings = Cases(30000);

int64_t Pick(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// Grows random expressions. Every read is in bounds when it is evaluated: its indices are wrapped, or it is guarded.
class Grower {
 public:
  Grower(OpBuilder& b, Rng& rng) : b_(b), rng_(rng) {}

  Index RandomIndex(const std::vector<Index>& vars, int depth) {
    const int64_t choice = Pick(rng_, 0, depth <= 0 ? 2 : 11);
    if ((choice == 0 && Pick(rng_, 0, 2) == 0) || vars.empty()) return Index(Pick(rng_, -3, 6));
    if (choice <= 2) return vars[Pick(rng_, 0, static_cast<int64_t>(vars.size()) - 1)];
    const Index x = RandomIndex(vars, depth - 1);
    switch (choice) {
      case 3: return FloorDiv(x, Index(Pick(rng_, 1, 5)));
      case 4: return Mod(x, Index(Pick(rng_, 1, 5)));
      case 5: return x * Index(Pick(rng_, -3, 4));
      case 6: return x - RandomIndex(vars, depth - 1);
      case 7: return Min(x, RandomIndex(vars, depth - 1));
      case 8: return Max(x, RandomIndex(vars, depth - 1));
      case 9: return x * RandomIndex(vars, depth - 1);
      case 10: return ToIndex(Read(2, vars, depth - 1));
      default: return x + RandomIndex(vars, depth - 1);
    }
  }

  Cond RandomCond(const std::vector<Index>& vars, int depth) {
    switch (Pick(rng_, 0, depth <= 0 ? 2 : 7)) {
      case 0: return RandomIndex(vars, depth - 1) < RandomIndex(vars, depth - 1);
      case 1: return RandomIndex(vars, depth - 1) <= RandomIndex(vars, depth - 1);
      case 2: return RandomIndex(vars, depth - 1) == RandomIndex(vars, depth - 1);
      case 3: return RandomCond(vars, depth - 1) && RandomCond(vars, depth - 1);
      case 4: return RandomCond(vars, depth - 1) || RandomCond(vars, depth - 1);
      case 5: return !RandomCond(vars, depth - 1);
      case 6: return Holds(Call(Fn::kLess, {RandomScalar(vars, depth - 1), RandomScalar(vars, depth - 1)}));
      default: return InRange(RandomIndex(vars, depth - 1), 0, Index(Pick(rng_, 1, 4)));
    }
  }

  Scalar RandomScalar(const std::vector<Index>& vars, int depth) {
    if (depth <= 0) return Read(static_cast<int>(Pick(rng_, 0, 1)), vars, 1);
    switch (Pick(rng_, depth <= 2 ? 0 : 2, 11)) {
      case 0: return Constant(static_cast<double>(Pick(rng_, -4, 4)) / 4, DType::kFloat32);
      case 1: return FromIndex(RandomIndex(vars, depth - 1), DType::kFloat32);
      case 2: return Exp(Min(RandomScalar(vars, depth - 1), Constant(3, DType::kFloat32)));
      case 3: return Max(RandomScalar(vars, depth - 1), RandomScalar(vars, depth - 1));
      case 4: return RandomScalar(vars, depth - 1) * RandomScalar(vars, depth - 1);
      case 5: return RandomScalar(vars, depth - 1) - RandomScalar(vars, depth - 1);
      case 6: return Select(RandomCond(vars, depth - 1), RandomScalar(vars, depth - 1), RandomScalar(vars, depth - 1));
      case 7: return Guarded(vars, depth);
      case 8: return Quotient(vars, depth);
      default: return RandomReduce(vars, depth);
    }
  }

 private:
  Scalar Read(int input, const std::vector<Index>& vars, int depth) {
    std::vector<Index> at;
    for (int axis = 0; axis < b_.rank(input); ++axis) at.push_back(Mod(RandomIndex(vars, depth), b_.size(input, axis)));
    return b_.Read(input, at);
  }

  Scalar Guarded(const std::vector<Index>& vars, int depth) {
    const int input = static_cast<int>(Pick(rng_, 0, 1));
    std::vector<Index> at;
    Cond inside(true);
    for (int axis = 0; axis < b_.rank(input); ++axis) {
      at.push_back(RandomIndex(vars, depth - 1));
      inside = inside && InRange(at.back(), 0, b_.size(input, axis));
    }
    return Select(inside, b_.Read(input, at), Pick(rng_, 0, 1) == 0 ? 0.0 : -2.5);
  }

  // A quotient of integers, guarded against a zero divisor.
  Scalar Quotient(const std::vector<Index>& vars, int depth) {
    const Scalar divisor = Read(2, vars, depth - 1);
    const Cond exists = !Holds(Call(Fn::kEqual, {divisor, Constant(0, DType::kInt64)}));
    return Cast(Select(exists, Read(2, vars, depth - 1) / divisor, 7.0), DType::kFloat32);
  }

  Scalar RandomReduce(const std::vector<Index>& vars, int depth) {
    OpBuilder::Ranges ranges;
    const int64_t count = Pick(rng_, 1, 2);
    for (int64_t i = 0; i < count; ++i) {
      Index extent(Pick(rng_, 1, 4));
      if (Pick(rng_, 0, 3) == 0) extent = b_.size(0, 0);
      if (Pick(rng_, 0, 5) == 0 && !vars.empty()) extent = Mod(RandomIndex(vars, 1), 4);  // 0 to 3, by position
      ranges.push_back({absl::StrCat("k", i), extent});
    }
    const ReduceKind kinds[] = {ReduceKind::kSum,  ReduceKind::kSum,    ReduceKind::kMax,   ReduceKind::kMin,
                                ReduceKind::kProd, ReduceKind::kArgMax, ReduceKind::kArgMin};
    const ReduceKind kind = kinds[Pick(rng_, 0, 6)];
    const bool position = kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin;
    if (position) ranges.resize(1);
    const bool guarded = Pick(rng_, 0, 1) == 0;
    const auto with = [&](const std::vector<Index>& bound) {
      std::vector<Index> all = vars;
      all.insert(all.end(), bound.begin(), bound.end());
      return all;
    };
    const Scalar result = b_.Reduce(
        kind, ranges, [&](const std::vector<Index>& k) { return RandomScalar(with(k), depth - 1); },
        guarded ? OpBuilder::Guard([&](const std::vector<Index>& k) { return RandomCond(with(k), depth - 1); })
                : OpBuilder::Guard());
    return position ? Cast(result, DType::kFloat32) : result;
  }

  OpBuilder& b_;
  Rng& rng_;
};

TEST(InterpreterFuzzTest, RandomMeaningsAgreeWithTheOracle) {
  for (int round = 0; round < kMeanings; ++round) {
    const uint64_t seed = kSeed + static_cast<uint64_t>(round);
    Rng rng(seed);
    Shape shape;
    for (int64_t axis = Pick(rng, 1, 3); axis > 0; --axis) shape.push_back(Pick(rng, 1, 5));
    OpDef op{.name = "random", .inputs = {"a", "b", "c"}};
    op.meaning = [&](OpBuilder& b) {
      Grower grower(b, rng);
      std::vector<Index> out(shape.begin(), shape.end());
      b.Output(DType::kFloat32, out,
               [&](const std::vector<Index>& i) { return grower.RandomScalar(i, static_cast<int>(Pick(rng, 3, 6))); });
      return absl::OkStatus();
    };
    const std::vector<TensorType> types = {{DType::kFloat32, {Pick(rng, 1, 4), Pick(rng, 1, 6)}},
                                           {DType::kFloat32, {Pick(rng, 1, 9)}},
                                           {DType::kInt64, {Pick(rng, 1, 5)}}};
    MeaningCache cache;
    const auto app = Apply(op, types, {}, cache);
    ASSERT_TRUE(app.ok()) << "seed " << seed << ": " << app.status();
    const Bindings bindings = BindingsOf(*app->meaning, types, {});
    std::vector<Tensor> inputs;
    for (const TensorType& type : types) inputs.push_back(RandomTensor(type, rng, -3, 3));
    const std::string text = absl::StrCat("seed ", seed, ": ", PrintExpr(app->meaning->outputs[0].element, op.inputs));

    const auto oracle = RunOracle(*app->meaning, bindings, app->outputs, inputs);
    ASSERT_TRUE(oracle.ok()) << text << ": " << oracle.status();
    for (const InterpretTuning& tuning : {InterpretTuning{}, InterpretTuning{5, 1, 0}, InterpretTuning{1, 1e9, 0}}) {
      auto compiled =
          CompiledMeaning::Compile(*app->meaning, bindings, types, app->outputs, Precision::kNative, tuning);
      ASSERT_TRUE(compiled.ok()) << text << ": " << compiled.status();
      const auto result = compiled->Run(inputs, 2);
      ASSERT_TRUE(result.ok()) << text << ": " << result.status();
      const Comparison comparison = Compare((*result)[0], (*oracle)[0]);
      ASSERT_TRUE(comparison.close) << text << "\n" << comparison.text << " lanes " << tuning.max_lanes;
    }
  }
}

}  // namespace
}  // namespace rewright
