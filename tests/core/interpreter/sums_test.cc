// Sums whose positions are data or which conditions tie, compared with the oracle.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/oracle.h"
#include "core/ir/random_tensors.h"
#include "core/ops/ops.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/interpreter/interpreter_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

constexpr uint64_t kSumsSeed = 20240917;

using At = std::vector<Index>;

// A million terms at a million positions do not take a million times a million steps.
TEST(InterpreterSums, ScatteredSumsTakeTimeByTheNumberOfTerms) {
  constexpr int64_t kCount = 1000000;
  Tensor x(TensorType{DType::kInt64, {kCount}}), indices(x.type()), updates(x.type());
  std::vector<int64_t> expected(kCount);
  for (int64_t k = 0; k < kCount; ++k) {
    x.SetInt(k, k);
    indices.SetInt(k, k * k % kCount - (k % 2 == 0 ? kCount : 0));
    updates.SetInt(k, k % 1000);
    expected[k] += k;
    expected[k * k % kCount] += k % 1000;
  }
  const std::vector<TensorType> types(3, x.type());
  MeaningCache cache;
  const auto app = Apply(*FindOp("scatter_add"), types, {}, cache);
  ASSERT_TRUE(app.ok()) << app.status();
  const auto result =
      Interpret(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), app->outputs, {x, indices, updates});
  ASSERT_TRUE(result.ok()) << result.status();
  for (int64_t k = 0; k < kCount; ++k) ASSERT_EQ((*result)[0].AtInt(k), expected[k]) << k;
}

// Reads whose lanes lie apart and whose steps are neighbours: rows of w, squared and as they are, at lengths around the
// number of steps that are read at once.
TEST(InterpreterSums, ColumnsThatAreReadAheadAgreeWithTheOracle) {
  const auto declare = [](bool squared) {
    return [=](OpBuilder& b) {
      b.Output(DType::kFloat32, {b.size(1, 0)}, [&](const At& i) {
        return b.Reduce(ReduceKind::kSum, {{"r", b.size(1, 1)}, {"k", b.size(1, 2)}}, [&](const At& k) {
          const Scalar w = b.Read(1, {i[0], k[0], k[1]});
          return b.Read(0, {k[0], k[1]}) * (squared ? w * w : w);
        });
      });
      return absl::OkStatus();
    };
  };
  Rng rng(kSumsSeed);
  for (const int64_t length : {1, 2, 15, 16, 17, 33, 67}) {
    for (const bool squared : {false, true}) {
      const OpDef op{.name = "rows", .inputs = {"v", "w"}, .meaning = declare(squared)};
      MeaningCache cache;
      const std::vector<TensorType> types = {{DType::kFloat32, {3, length}}, {DType::kFloat32, {10, 3, length}}};
      const InterpreterCase c = MakeCase(op, types, {}, -2, 2, rng, cache);
      const auto oracle = RunOracle(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
      ASSERT_TRUE(oracle.ok()) << oracle.status();
      for (const int64_t lanes : {4, 4096}) {
        const auto result = RunTuned(c, {.max_lanes = lanes}, 1);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << length << ": " << Compare((*result)[0], (*oracle)[0]).text;
      }
    }
  }
}

// Windows that reach beyond their image, of elements as they are and squared, also where a square alone is infinite.
TEST(InterpreterSums, PaddedWindowsAgreeWithTheOracle) {
  const auto declare = [](bool squared, int64_t stride) {
    return [=](OpBuilder& b) {
      b.Output(DType::kFloat32, {b.size(1, 0), FloorDiv(b.size(0, 0) - 1, stride) + 1}, [&](const At& i) {
        const auto place = [&](const At& k) { return i[1] * stride + k[0] - 2; };
        return b.Reduce(
            ReduceKind::kSum, {{"k", b.size(1, 1)}},
            [&](const At& k) {
              const Scalar x = b.Read(0, {place(k)}), w = b.Read(1, {i[0], k[0]});
              return squared ? (x * x) * (w * w) : x * w;
            },
            [&](const At& k) { return place(k) >= 0 && place(k) < b.size(0, 0); });
      });
      return absl::OkStatus();
    };
  };
  Rng rng(kSumsSeed);
  for (const int64_t stride : {1, 2, 3}) {
    for (const bool squared : {false, true}) {
      for (const double largest : {2.0, 1e25, std::numeric_limits<double>::infinity()}) {
        const OpDef op{.name = "windows", .inputs = {"x", "w"}, .meaning = declare(squared, stride)};
        MeaningCache cache;
        const std::vector<TensorType> types = {{DType::kFloat32, {37}}, {DType::kFloat32, {3, 5}}};
        InterpreterCase c = MakeCase(op, types, {}, -2, 2, rng, cache);
        c.inputs[1].Set(5, largest);
        const auto oracle = RunOracle(*c.app.meaning, c.bindings, c.app.outputs, c.inputs);
        ASSERT_TRUE(oracle.ok()) << oracle.status();
        for (const int64_t lanes : {4, 4096}) {
          const auto result = RunTuned(c, {.max_lanes = lanes}, 1);
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << stride << squared << largest;
        }
      }
    }
  }
}

// Compares guards of every kind with the oracle, whole and with every possible reduction scattered.
TEST(InterpreterSums, SumsWhosePositionsAreDataAgreeWithTheOracle) {
  const auto index = [](OpBuilder& b, const Index& k) { return ToIndex(b.Read(1, {k})); };
  const auto declare = [](ReduceKind kind, const std::function<Cond(OpBuilder&, const At&, const Index&)>& guard,
                          const std::function<Scalar(OpBuilder&, const At&, const Index&)>& body, bool flat = true) {
    return [=](OpBuilder& b) {
      const std::vector<Index> shape = flat ? At{6} : At{2, 3};
      b.Output(DType::kFloat32, shape, [&](const At& i) {
        return b.Reduce(
            kind, {{"k", b.size(0, 0)}}, [&](const At& k) { return body(b, i, k[0]); },
            [&](const At& k) { return guard(b, i, k[0]); });
      });
    };
  };
  const auto update = [](OpBuilder& b, const At&, const Index& k) { return b.Read(0, {k}); };
  const std::pair<const char*, Declare> cases[] = {
      {"an index outside is no position",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; }, update)},
      {"a maximum",
       declare(
           ReduceKind::kMax, [&](OpBuilder& b, const At& i, const Index& k) { return i[0] == index(b, k); }, update)},
      {"a product of a position's own",
       declare(
           ReduceKind::kProd, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; },
           [&](OpBuilder& b, const At& i, const Index& k) {
             return b.Read(0, {k}) * FromIndex(i[0] + 1, DType::kFloat32) + b.Read(0, {i[0]});
           })},
      {"a multiple",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0] * 2 + 1; },
           update)},
      {"digits of two axes",
       declare(
           ReduceKind::kSum,
           [&](OpBuilder& b, const At& i, const Index& k) { return Mod(index(b, k), 6) == i[0] * 3 + i[1]; }, update,
           /*flat=*/false)},
      {"one axis of two",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; },
           [&](OpBuilder& b, const At& i, const Index& k) { return b.Read(0, {k}) + b.Read(0, {i[1]}); },
           /*flat=*/false)},
      {"other conditions", declare(
                               ReduceKind::kSum,
                               [&](OpBuilder& b, const At& i, const Index& k) {
                                 return Mod(k, 3) < 2 && Mod(index(b, k), 6) == i[0] && i[0] < k && index(b, k) < 5;
                               },
                               update)},
      {"a position that data picks on both sides",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == index(b, i[0]); },
           update)},
      {"not determined",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == Mod(i[0], 4); },
           update)},
      {"a reduction inside",
       declare(
           ReduceKind::kSum, [&](OpBuilder& b, const At& i, const Index& k) { return index(b, k) == i[0]; },
           [&](OpBuilder& b, const At& i, const Index& k) {
             return b.Read(0, {k}) * b.Sum({{"s", b.size(0, 0)}}, [&](const At& s) {
               return b.Read(0, {Mod(s[0] + i[0] + k, b.size(0, 0))});
             });
           })},
  };
  std::vector<double> values;
  std::vector<int> places;
  for (int k = 0; k < 40; ++k) {
    values.push_back(1 + k % 7 * 0.25);
    places.push_back((k * k + 3 * k) % 17 - 4);
  }
  const std::vector<Tensor> inputs = {Float32s({40}, values), Tensor::FromVector(DType::kInt64, {40}, places)};
  for (const auto& [what, declared] : cases) {
    OpDef op{.name = "test", .inputs = {"x", "i"}};
    op.meaning = [&, &declared = declared](OpBuilder& b) {
      declared(b);
      return absl::OkStatus();
    };
    const std::vector<TensorType> types = {inputs[0].type(), inputs[1].type()};
    MeaningCache cache;
    const auto app = Apply(op, types, {}, cache);
    ASSERT_TRUE(app.ok()) << app.status();
    const Bindings bindings = BindingsOf(*app->meaning, types, {});
    const auto oracle = RunOracle(*app->meaning, bindings, app->outputs, inputs);
    ASSERT_TRUE(oracle.ok()) << what << ": " << oracle.status();
    for (double min_hoisted : {1.0, 1e9}) {
      const auto compiled = CompiledMeaning::Compile(*app->meaning, bindings, types, app->outputs, Precision::kNative,
                                                     {.max_lanes = 7, .min_hoisted = min_hoisted, .min_parallel = 0});
      ASSERT_TRUE(compiled.ok()) << what << ": " << compiled.status();
      const auto result = compiled->Run(inputs, 2);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << what << ": " << Compare((*result)[0], (*oracle)[0]).text;
    }
  }
}

// Each of a million positions has a million possible terms, of which at most one exists: no loop runs over the others.
TEST(InterpreterSums, GuardedSumsTakeTimeByTheTermsThatExist) {
  constexpr int64_t kCount = 1000000;
  std::vector<double> values(kCount);
  for (int64_t k = 0; k < kCount; ++k) values[k] = static_cast<double>(k % 1000);
  const auto result = RunDeclared(
      [](OpBuilder& b) {
        b.Output(DType::kFloat32, {b.size(0, 0)}, [&](const At& i) {
          return b.Reduce(
              ReduceKind::kSum, {{"k", b.size(0, 0)}}, [&](const At& k) { return b.Read(0, {k[0]}); },
              [&](const At& k) { return k[0] * 3 + 1 == i[0]; });
        });
      },
      {Float32s({kCount}, values)});
  ASSERT_TRUE(result.ok()) << result.status();
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ((*result)[0].At(i), i % 3 == 1 ? static_cast<double>(i / 3 % 1000) : 0) << i;
  }
}

// Equations between indices, compared bit by bit: terms come in the declared order.
TEST(InterpreterSums, SumsUnderEquationsAgreeWithTheOracle) {
  using Equation = std::function<Cond(const Index& i, const Index& r, const Index& s)>;
  const std::pair<const char*, Equation> cases[] = {
      {"taps of a stride", [](auto& i, auto& r, auto&) { return Mod(i - r, 3) == Index(1); }},
      {"of two strides",
       [](auto& i, auto& r, auto& s) { return Mod(i + r, 2) == Index(0) && Mod(i - s, 3) == Index(2); }},
      {"of a difference", [](auto& i, auto& r, auto& s) { return Mod(i + r * 2 - s, 3) == Index(1); }},
      {"the last by the first", [](auto& i, auto& r, auto& s) { return r + s == i; }},
      {"the first by the last", [](auto& i, auto& r, auto& s) { return r + s * 3 == i; }},
      {"a point", [](auto& i, auto& r, auto& s) { return r * 7 + s == i * 2; }},
      {"no term", [](auto& i, auto& r, auto&) { return r * 2 + 1 == i * 4; }},
      {"beside bounds", [](auto& i, auto& r, auto& s) { return r < s && Mod(r + i, 2) == Index(1) && i < r + s; }},
      {"a quotient", [](auto& i, auto& r, auto& s) { return FloorDiv(r + i, 3) == s; }},
      {"nothing bound", [](auto& i, auto&, auto&) { return Mod(i, 2) == Index(1); }},
  };
  std::vector<double> values;
  for (int k = 0; k < 77; ++k) values.push_back(std::sin(k) * 1000 + 1);
  const std::vector<Tensor> inputs = {Float32s({77}, values)};
  for (const ReduceKind kind : {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kProd}) {
    for (const auto& [what, equation] : cases) {
      OpDef op{.name = "test", .inputs = {"x"}};
      op.meaning = [&, &equation = equation](OpBuilder& b) {
        b.Output(DType::kFloat32, {Index(11)}, [&](const At& i) {
          return b.Reduce(
              kind, {{"r", Index(11)}, {"s", Index(7)}}, [&](const At& k) { return b.Read(0, {k[0] * 7 + k[1]}); },
              [&](const At& k) { return equation(i[0], k[0], k[1]); });
        });
        return absl::OkStatus();
      };
      const std::vector<TensorType> types = {inputs[0].type()};
      MeaningCache cache;
      const auto app = Apply(op, types, {}, cache);
      ASSERT_TRUE(app.ok()) << app.status();
      const Bindings bindings = BindingsOf(*app->meaning, types, {});
      const auto oracle = RunOracle(*app->meaning, bindings, app->outputs, inputs);
      ASSERT_TRUE(oracle.ok()) << what << ": " << oracle.status();
      const auto result = Interpret(*app->meaning, bindings, app->outputs, inputs);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << what << ": " << Compare((*result)[0], (*oracle)[0]).text;
    }
  }
}

// Gradients of convolutions: guards of padding, strides and dilations over sums of products, compared bit by bit. Terms
// that do not exist count for nothing, also where the other factor is infinite or NaN.
TEST(InterpreterSums, GuardedSumsOfProductsAgreeWithTheOracle) {
  SCOPED_TRACE(absl::StrCat("seed ", kSumsSeed));
  Rng rng(kSumsSeed);
  MeaningCache cache;
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  const auto extent = [](int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pads) {
    return (out - 1) * stride + (kernel - 1) * dilation + 1 - pads;
  };
  for (int i = 0; i < Cases(200); ++i) {
    const int64_t groups = pick(1, 2), o = groups * pick(1, 5), c = groups * pick(1, 9), n = pick(1, 2);
    const int64_t r = pick(1, 3), s = pick(1, 3), y = pick(1, 6), z = pick(1, 6);
    const std::vector<int64_t> strides = {pick(1, 3), pick(1, 2)}, dilations = {pick(1, 2), pick(1, 3)};
    std::vector<int64_t> pads = {pick(0, r - 1), pick(0, s - 1), pick(0, r - 1), pick(0, s - 1)};
    const int64_t h = extent(y, r, strides[0], dilations[0], pads[0] + pads[2]);
    const int64_t w = extent(z, s, strides[1], dilations[1], pads[1] + pads[3]);
    if (h < 1 || w < 1) continue;
    const Attrs attrs = {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"groups", groups}};
    Attrs of_image = attrs;
    of_image["x_shape"] = Shape{n, c, h, w};
    InterpreterCase backward = MakeCase(*FindOp("conv2d_grad_x"), {f32({o, c / groups, r, s}), f32({n, o, y, z})},
                                        of_image, -2, 2, rng, cache);
    InterpreterCase forward =
        MakeCase(*FindOp("conv2d"), {f32({n, c, h, w}), f32({o, c / groups, r, s})}, attrs, -2, 2, rng, cache);
    ASSERT_FALSE(HasFailure());
    for (InterpreterCase* made : {&backward, &forward}) {
      for (Tensor& input : made->inputs) {
        if (rng() % 2 == 0) continue;
        const double odd[] = {HUGE_VAL, -HUGE_VAL, NAN, -0.0};
        for (int k = 0; k < 3; ++k) input.Set(pick(0, input.num_elements() - 1), odd[rng() % 4]);
      }
      const auto oracle = RunOracle(*made->app.meaning, made->bindings, made->app.outputs, made->inputs);
      ASSERT_TRUE(oracle.ok()) << oracle.status();
      for (const int64_t lanes : {4096, 7}) {
        const auto result = RunTuned(*made, {.max_lanes = lanes}, 1);
        ASSERT_TRUE(result.ok()) << result.status();
        for (int64_t at = 0; at < (*oracle)[0].num_elements(); ++at) {
          const double expected = (*oracle)[0].At(at), found = (*result)[0].At(at);
          if (std::isnan(expected) && std::isnan(found)) continue;
          ASSERT_TRUE(expected == found && std::signbit(expected) == std::signbit(found))
              << made->text << ": " << found << " and not " << expected << " at " << at;
        }
      }
    }
  }
}

// A sum over one place is its term, with the sign of a zero; other sums begin with 0. The size decides, and not how an
// operator is declared where it is known to be one (docs/decisions/127).
TEST(InterpreterSums, ASumOverOnePlaceIsItsTerm) {
  const Tensor zeros = Float32s({2, 1}, {-0.0, 3});
  const auto sum_of = [](const Tensor& x, const Cond& guard) {
    return RunDeclared(
        [&](OpBuilder& b) {
          b.Output(DType::kFloat32, {b.size(0, 0)}, [&](const At& i) {
            return b.Reduce(
                ReduceKind::kSum, {{"j", b.size(0, 1)}},
                [&](const At& j) {
                  return b.Read(0, {i[0], j[0]});
                },
                [&](const At&) { return guard; });
          });
        },
        {x});
  };
  const auto sign_of_first = [](const absl::StatusOr<std::vector<Tensor>>& result) {
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result)[0].At(0), 0);
    return std::signbit((*result)[0].At(0));
  };
  EXPECT_TRUE(sign_of_first(sum_of(zeros, Cond(true))));
  EXPECT_FALSE(sign_of_first(sum_of(zeros, Cond(false))));
  EXPECT_FALSE(sign_of_first(sum_of(Float32s({1, 2}, {-0.0, -0.0}), Cond(true))));

  Rng rng(kSumsSeed);
  MeaningCache cache;
  const auto f32 = [](Shape shape) { return TensorType{DType::kFloat32, std::move(shape)}; };
  InterpreterCase product = MakeCase(*FindOp("matmul"), {f32({2, 1}), f32({1, 3})}, {}, 0, 1, rng, cache);
  InterpreterCase gradient =
      MakeCase(*FindOp("matmul_grad_a"), {f32({3, 1}), f32({2, 1})}, {{"a_shape", Shape{2, 3}}}, 0, 1, rng, cache);
  product.inputs = {Float32s({2, 1}, {-2, 3}), Float32s({1, 3}, {0, 1, -0.0})};
  gradient.inputs = {product.inputs[1], product.inputs[0]};
  gradient.inputs[0] = Float32s({3, 1}, {0, 1, -0.0});
  const auto forward = RunTuned(product, {}, 1), backward = RunTuned(gradient, {}, 1);
  ASSERT_TRUE(forward.ok() && backward.ok()) << forward.status() << backward.status();
  EXPECT_TRUE((*forward)[0].BitEqual((*backward)[0]));
  EXPECT_TRUE(std::signbit((*forward)[0].At(0)));
  for (const InterpreterCase* c : {&product, &gradient}) {
    const auto oracle = RunOracle(*c->app.meaning, c->bindings, c->app.outputs, c->inputs);
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    EXPECT_TRUE((*oracle)[0].BitEqual((*forward)[0]));
  }
}

}  // namespace
}  // namespace rewright
