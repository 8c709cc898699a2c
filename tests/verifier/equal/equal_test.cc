// Pairs of graphs that are proved equal, different, or left open.
#include "verifier/equal/equal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "substitutions/rule_set.h"
#include "tests/support/parsed_graph.h"
#include "verifier/equal/equal_by_claims.h"
#include "verifier/equal/known_equal.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Elements from -1 to 1 that depend on the seed.
Tensor Elements(const Shape& shape, uint64_t seed, double low = -1) {
  Tensor tensor(TensorType{DType::kFloat32, shape});
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform(low, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, uniform(rng));
  return tensor;
}

Tensor As(DType dtype, const Tensor& tensor) {
  Tensor result(TensorType{dtype, tensor.shape()});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) result.Set(i, tensor.At(i));
  return result;
}

const std::vector<DirectedRule>& Rules() {
  static const auto* const rules = [] {
    LoadOptions options;
    options.allow_finite_only = true;
    const auto set = RuleSet::FromFiles({*FindRuleFile("core.rules"), *FindRuleFile("laws.rules")}, options);
    EXPECT_TRUE(set.ok()) << set.status();
    return new std::vector<DirectedRule>(RulesForEqual(set->matchers()));
  }();
  return *rules;
}

EqualResult Prove(const Graph& a, const Graph& b, bool with_rules = true) {
  EqualOptions options;
  if (with_rules) options.rules = Rules();
  const auto result = ProveEqual(a, b, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

constexpr char kDense[] = R"(
input x: f32[4,6]
state w: f32[6,8]
state v: f32[6,10]
%0 = matmul(x, w)
%1 = matmul(x, v)
%2 = relu(%0)
output y = %2
output z = %1
)";

constexpr char kReluTwice[] = R"(
input x: f32[4,6]
%0 = relu(x)
%1 = relu(%0)
output y = %1
)";
constexpr char kReluOnce[] = R"(
input x: f32[4,6]
%0 = relu(x)
output y = %0
)";

TEST(Equal, AnInterruptIsAnError) {
  const std::atomic<bool> stop{true};
  EqualOptions options;
  options.stop = &stop;
  const auto result = ProveEqual(GraphOf(kReluTwice), GraphOf(kReluOnce), options);
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
}

TEST(Equal, NothingIsProvedBehindTheTimeLimit) {
  EqualOptions options;
  options.time_limit_s = 0;
  const auto result = ProveEqual(GraphOf(kReluTwice), GraphOf(kReluOnce), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->equality, Equality::kOpen);
  EXPECT_TRUE(result->time_out);
  EXPECT_EQ(result->trials, 1);  // the run that comes before proofs
  EXPECT_TRUE(result->run);
  EXPECT_EQ(Prove(GraphOf(kReluTwice), GraphOf(kReluOnce)).equality, Equality::kProved);
}

TEST(Equal, TheSameGraphIsProvedByItsStructure) {
  const std::map<std::string, Tensor> states = {{"w", Elements({6, 8}, 1)}, {"v", Elements({6, 10}, 2)}};
  const EqualResult result = Prove(GraphOf(kDense, states), GraphOf(kDense, states));
  EXPECT_EQ(result.equality, Equality::kProved);
  EXPECT_EQ(result.shared, result.values);
  EXPECT_THAT(result.regions, IsEmpty());
}

// Weights count by their elements, whatever they are called.
TEST(Equal, NamesOfWeightsDoNotMatter) {
  const Graph a =
      GraphOf("input x: f32[4,6]\nstate w: f32[6,8]\n%0 = matmul(x, w)\noutput y = %0\n", {{"w", Elements({6, 8}, 1)}});
  const Graph b = GraphOf("input x: f32[4,6]\nstate other: f32[6,8]\n%0 = matmul(x, other)\noutput y = %0\n",
                          {{"other", Elements({6, 8}, 1)}});
  EXPECT_EQ(Prove(a, b).equality, Equality::kProved);
}

constexpr char kMerged[] = R"(
input x: f32[4,6]
state all: f32[6,18]
%0 = matmul(x, all)
%1.0, %1.1 = split(%0, axis=1, sizes=[8,10])
%2 = relu(%1.0)
output y = %2
output z = %1.1
)";

Tensor SideBySide(const Tensor& a, const Tensor& b) {
  Tensor both(TensorType{DType::kFloat32, {a.shape()[0], a.shape()[1] + b.shape()[1]}});
  const int64_t n = a.shape()[1], m = b.shape()[1];
  for (int64_t i = 0; i < a.shape()[0]; ++i) {
    for (int64_t k = 0; k < n; ++k) both.Set(i * (n + m) + k, a.At(i * n + k));
    for (int64_t k = 0; k < m; ++k) both.Set(i * (n + m) + n + k, b.At(i * m + k));
  }
  return both;
}

TEST(Equal, MergedWeightsAreTakenApart) {
  const Tensor w = Elements({6, 8}, 1), v = Elements({6, 10}, 2);
  const Graph a = GraphOf(kDense, {{"w", w}, {"v", v}});
  const Graph b = GraphOf(kMerged, {{"all", SideBySide(w, v)}});
  EXPECT_EQ(Prove(a, b).equality, Equality::kProved);
  EXPECT_EQ(Prove(b, a).equality, Equality::kProved);
  // Without any rule the prover takes the regions.
  const EqualResult alone = Prove(a, b, /*with_rules=*/false);
  EXPECT_EQ(alone.equality, Equality::kProved);
  EXPECT_THAT(alone.regions, Not(IsEmpty()));
}

// Parts are added to the arena that has the whole weight.
TEST(Equal, AWeightIsTakenIntoManyParts) {
  constexpr int kParts = 40;
  std::string apart = "input x: f32[4,6]\n", merged = "input x: f32[4,6]\n";
  std::map<std::string, Tensor> states;
  Tensor all(TensorType{DType::kFloat32, {6, 0}});
  std::string sizes, parts, outputs, of_merged;
  for (int k = 0; k < kParts; ++k) {
    const Tensor part = Elements({6, 2}, static_cast<uint64_t>(k) + 1);
    states[absl::StrCat("w", k)] = part;
    all = SideBySide(all, part);
    absl::StrAppend(&apart, "state w", k, ": f32[6,2]\n");
    absl::StrAppend(&parts, "%", k, " = matmul(x, w", k, ")\n");
    absl::StrAppend(&outputs, "output y", k, " = %", k, "\n");
    absl::StrAppend(&of_merged, k == 0 ? "" : ", ", "%1.", k);
    absl::StrAppend(&sizes, k == 0 ? "" : ",", 2);
  }
  const std::string type = all.type().ToString();
  absl::StrAppend(&merged, "state all: ", type, "\n%0 = matmul(x, all)\n", of_merged, " = split(%0, axis=1, sizes=[",
                  sizes, "])\n");
  for (int k = 0; k < kParts; ++k) absl::StrAppend(&merged, "output y", k, " = %1.", k, "\n");
  const EqualResult result =
      Prove(GraphOf(absl::StrCat(apart, parts, outputs), states), GraphOf(merged, {{"all", all}}));
  EXPECT_EQ(result.equality, Equality::kProved);
}

TEST(Equal, OneElementOfAMergedWeightIsFound) {
  const Tensor w = Elements({6, 8}, 1), v = Elements({6, 10}, 2);
  Tensor all = SideBySide(w, v);
  all.Set(20, all.At(20) + 1e-3);
  const EqualResult result = Prove(GraphOf(kDense, {{"w", w}, {"v", v}}), GraphOf(kMerged, {{"all", all}}));
  ASSERT_EQ(result.equality, Equality::kDifferent);
  EXPECT_EQ(result.difference->inputs.size(), 1u);
  EXPECT_GT(std::abs(result.difference->a - result.difference->b), result.difference->tolerance);
}

constexpr char kNormalized[] = R"(
input x: f32[1,3,6,6]
state w: f32[4,3,3,3]
state scale: f32[4]
state bias: f32[4]
state mean: f32[4]
state var: f32[4]
%0 = conv2d(x, w, pads=[1,1,1,1])
%1 = batch_norm(%0, scale, bias, mean, var)
%2 = relu(%1)
output y = %2
)";
constexpr char kFolded[] = R"(
input x: f32[1,3,6,6]
state w: f32[4,3,3,3]
state b: f32[1,4,1,1]
%0 = conv2d(x, w, pads=[1,1,1,1])
%1 = add(%0, b)
%2 = relu(%1)
output y = %2
)";

std::map<std::string, Tensor> Normalization() {
  return {{"w", Elements({4, 3, 3, 3}, 1)},
          {"scale", Elements({4}, 2)},
          {"bias", Elements({4}, 3)},
          {"mean", Elements({4}, 4)},
          {"var", Elements({4}, 5, 0.5)}};
}

// The weights as other programs fold them: in double precision, rounded once.
std::map<std::string, Tensor> Folded() {
  const std::map<std::string, Tensor> all = Normalization();
  Tensor w(TensorType{DType::kFloat32, {4, 3, 3, 3}}), b(TensorType{DType::kFloat32, {1, 4, 1, 1}});
  for (int64_t o = 0; o < 4; ++o) {
    const double factor = all.at("scale").At(o) / std::sqrt(all.at("var").At(o) + 1e-5);
    for (int64_t i = 0; i < 27; ++i) w.Set(o * 27 + i, factor * all.at("w").At(o * 27 + i));
    b.Set(o, all.at("bias").At(o) - all.at("mean").At(o) * factor);
  }
  return {{"w", w}, {"b", b}};
}

TEST(Equal, FoldedWeightsAreRecomputedAndTheRoundingIsSaid) {
  const EqualResult result = Prove(GraphOf(kNormalized, Normalization()), GraphOf(kFolded, Folded()));
  ASSERT_EQ(result.equality, Equality::kProved);
  ASSERT_THAT(result.foldings, Not(IsEmpty()));
  double worst = 0;
  for (const Folding& folding : result.foldings) worst = std::max(worst, folding.error);
  EXPECT_GT(worst, 0);
  EXPECT_LT(worst, 1e-6);
}

// The model that has the weight in parts is A, or B where the models are exchanged.
TEST(Equal, FoldedWeightsAreNamedForTheModelThatHasThem) {
  for (bool exchanged : {false, true}) {
    const Graph parts = GraphOf(kNormalized, Normalization()), folded = GraphOf(kFolded, Folded());
    const EqualResult result = exchanged ? Prove(folded, parts) : Prove(parts, folded);
    ASSERT_EQ(result.equality, Equality::kProved);
    ASSERT_THAT(result.foldings, Not(IsEmpty()));
    for (const Folding& folding : result.foldings) {
      const std::string& whole = exchanged ? folding.a : folding.b;
      const std::string& computed = exchanged ? folding.b : folding.a;
      EXPECT_THAT(whole, ::testing::AnyOf("w", "w'", "b")) << computed;
      EXPECT_THAT(computed, Not(::testing::AnyOf("w", "w'", "b"))) << whole;
    }
  }
}

// Zeros cannot be drawn here, since they divide.
TEST(Equal, QuotientsOfIntegersByAnInput) {
  const char kQuotient[] = "input x: i64[4]\ninput y: i64[4]\n%0 = div(x, y)\n%1 = add(%0, x)\noutput z = %1\n";
  const char kOther[] = "input x: i64[4]\ninput y: i64[4]\n%0 = div(x, y)\n%1 = add(x, %0)\noutput z = %1\n";
  EXPECT_EQ(Prove(GraphOf(kQuotient, {}), GraphOf(kQuotient, {})).equality, Equality::kProved);
  EXPECT_EQ(Prove(GraphOf(kQuotient, {}), GraphOf(kOther, {})).equality, Equality::kProved);
}

// 1e30 and 1e-30 in f32, and 300 and 1/300 in f16, have products that are not quite 1.
TEST(Equal, NumbersAreNotToldApartByTheirRounding) {
  const auto scaled = [](const char* type, const char* first, const char* second) {
    return GraphOf(absl::StrCat("input x: ", type, "[5]\nconst %0: ", type, "[] = [", first, "]\nconst %1: ", type,
                                "[] = [", second, "]\n%2 = mul(x, %0)\n%3 = mul(%2, %1)\noutput y = %3\n"));
  };
  const auto as_it_is = [](const char* type) {
    return GraphOf(absl::StrCat("input x: ", type, "[5]\n%0 = identity(x)\noutput y = %0\n"));
  };
  EXPECT_NE(Prove(scaled("f32", "1e30", "1e-30"), as_it_is("f32")).equality, Equality::kDifferent);
  EXPECT_NE(Prove(scaled("f16", "300", "0.003334"), as_it_is("f16")).equality, Equality::kDifferent);
  EXPECT_EQ(Prove(scaled("f32", "1e30", "1.0001e-30"), as_it_is("f32")).equality, Equality::kDifferent);
}

TEST(Equal, AFoldedWeightThatIsOffIsFound) {
  for (double by : {1e-4, 0.5}) {
    std::map<std::string, Tensor> folded = Folded();
    folded["w"].Set(17, folded["w"].At(17) + by);
    const EqualResult result = Prove(GraphOf(kNormalized, Normalization()), GraphOf(kFolded, folded));
    EXPECT_EQ(result.equality, Equality::kDifferent) << by;
  }
}

// A cast of a weight is a folding that rounds as the narrower type does.
TEST(Equal, AWeightThroughANarrowTypeIsTheRoundedWeight) {
  const Tensor w = Elements({6, 8}, 1);
  for (const DType narrow : {DType::kFloat16, DType::kBFloat16}) {
    const Graph cast = GraphOf(absl::StrCat("input x: f32[4,6]\nstate w: f32[6,8]\n%0 = cast(w, to=", DTypeName(narrow),
                                            ")\n%1 = cast(%0, to=f32)\n%2 = matmul(x, %1)\n", "output y = %2\n"),
                               {{"w", w}});
    const Graph rounded = GraphOf("input x: f32[4,6]\nstate w: f32[6,8]\n%0 = matmul(x, w)\noutput y = %0\n",
                                  {{"w", As(DType::kFloat32, As(narrow, w))}});
    EXPECT_EQ(Prove(cast, rounded).equality, Equality::kProved) << DTypeName(narrow);
    EXPECT_EQ(Prove(rounded, cast).equality, Equality::kProved) << DTypeName(narrow);
    // The weight that was not rounded is no other weight in a type whose rounding hides the difference.
    Tensor other = As(DType::kFloat32, As(narrow, w));
    other.Set(5, other.At(5) + 0.2);
    const Graph changed =
        GraphOf("input x: f32[4,6]\nstate w: f32[6,8]\n%0 = matmul(x, w)\noutput y = %0\n", {{"w", other}});
    EXPECT_EQ(Prove(cast, changed).equality, Equality::kDifferent) << DTypeName(narrow);
  }
}

// Weights that are folded in 16 bits are compared by the unit of their type.
TEST(Equal, FoldedWeightsOfNarrowTypes) {
  const auto typed = [](std::string text) {
    for (size_t at; (at = text.find("f32")) != std::string::npos;) text.replace(at, 3, "bf16");
    return text;
  };
  const auto narrow = [](std::map<std::string, Tensor> states) {
    for (auto& [name, tensor] : states) tensor = As(DType::kBFloat16, tensor);
    return states;
  };
  const EqualResult result =
      Prove(GraphOf(typed(kNormalized), narrow(Normalization())), GraphOf(typed(kFolded), narrow(Folded())));
  EXPECT_EQ(result.equality, Equality::kProved);
  ASSERT_TRUE(result.run.has_value());
  EXPECT_EQ(result.run->dtype, DType::kBFloat16);
  ASSERT_TRUE(result.run->rounding.has_value());
  EXPECT_LE(result.run->difference, result.run->rounding->first);
  EXPECT_GT(result.run->rounding->second, 0);
}

// Products in bf16 are off by up to 0.4 % each; sums are exact where they cancel.
TEST(Equal, WhatBothRoundIsNoDifference) {
  const auto made = [](const std::string& op, int number) {
    return GraphOf(absl::StrCat("input x: bf16[40]\nconst %0: bf16[] = [", number, "]\n%1 = ", op,
                                "(x, %0)\noutput y = %1\n"));
  };
  const EqualResult near = Prove(made("mul", 200), made("mul", 201));
  EXPECT_EQ(near.equality, Equality::kUpToConstants);
  ASSERT_TRUE(near.within_rounding.has_value());
  const ModelDifference& within = *near.within_rounding;
  EXPECT_NEAR(within.b / within.a, 1.005, 1e-9);
  EXPECT_GT(within.tolerance, std::abs(within.a - within.b));
  const EqualResult far = Prove(made("mul", 200), made("mul", 204));
  ASSERT_EQ(far.equality, Equality::kDifferent);
  EXPECT_LT(far.difference->tolerance, std::abs(far.difference->a - far.difference->b));
  EXPECT_EQ(Prove(made("add", 200), made("add", 201)).equality, Equality::kDifferent);
}

// Proved over the real numbers; f16 has no number for 60000 * 256.
TEST(Equal, InfinitiesOfOneModelAreSaid) {
  const Graph detour = GraphOf(
      "input x: f16[5]\nconst %0: f16[] = [256]\nconst %1: f16[] = [0.00390625]\n%2 = mul(x, %0)\n%3 = mul(%2, %1)\n"
      "output y = %3\n");
  const Graph straight = GraphOf("input x: f16[5]\n%0 = identity(x)\noutput y = %0\n");
  for (const bool exchanged : {false, true}) {
    const EqualResult result = exchanged ? Prove(straight, detour) : Prove(detour, straight);
    EXPECT_EQ(result.equality, Equality::kProved);
    ASSERT_THAT(result.infinite, SizeIs(1));
    const InfiniteDifference& infinite = result.infinite[0];
    EXPECT_EQ(infinite.output, "y");
    EXPECT_TRUE(std::isinf(exchanged ? infinite.b : infinite.a));
    EXPECT_TRUE(std::isfinite(exchanged ? infinite.a : infinite.b));
    EXPECT_EQ(infinite.kind, "inputs around 256");
    ASSERT_THAT(infinite.inputs, SizeIs(1));
    EXPECT_EQ(infinite.inputs[0].first, "x");
  }
}

// A choice that rounding turns makes no difference; one that falls otherwise on most inputs does.
TEST(Equal, ChoicesThatRoundingTurns) {
  const Tensor w = Elements({6, 8}, 1);
  const auto quantized = [](const char* scale, const Tensor& weight) {
    return GraphOf(absl::StrCat("input x: f32[64,6]\nstate w: f32[6,8]\nconst %0: f32[] = [", scale,
                                "]\n%1 = matmul(x, w)\n%2 = mul(%1, %0)\n%3 = round(%2)\noutput y = %3\n"),
                   {{"w", weight}});
  };
  Tensor scaled = As(DType::kFloat32, w);
  for (int64_t i = 0; i < w.num_elements(); ++i) scaled.Set(i, 0.3 * w.At(i));
  const Graph folded = GraphOf(
      "input x: f32[64,6]\nstate w: f32[6,8]\n%0 = matmul(x, w)\n"
      "%1 = round(%0)\noutput y = %1\n",
      {{"w", scaled}});
  EXPECT_NE(Prove(quantized("0.3", w), folded).equality, Equality::kDifferent);
  EXPECT_EQ(Prove(quantized("0.5", w), folded).equality, Equality::kDifferent);
}

// The applications that differ, with the operator where they part.
TEST(Equal, TellsWhereModelsPart) {
  const char* a = "input x: f32[3,3]\ninput z: f32[3,3]\n%0 = exp(x)\n%1 = sub(%0, z)\n%2 = relu(%1)\noutput y = %2\n";
  const char* b = "input x: f32[3,3]\ninput z: f32[3,3]\n%0 = exp(x)\n%1 = sub(z, %0)\n%2 = relu(%1)\noutput y = %2\n";
  const EqualResult result = Prove(GraphOf(a), GraphOf(b));
  ASSERT_EQ(result.equality, Equality::kDifferent);
  EXPECT_EQ(result.difference->output, "y");
  EXPECT_THAT(result.difference->first, HasSubstr("sub"));
  EXPECT_THAT(result.difference->inputs, SizeIs(2));
}

// A weight that differs is named at its first reader, however little it differs and whatever comes behind it.
TEST(Equal, TheFirstReaderOfAWeightThatDiffersIsNamed) {
  const Tensor u = Elements({64, 64}, 1), v = Elements({64, 64}, 2);
  const auto layers = [](const Tensor& first, const Tensor& second) {
    return GraphOf(R"(
input x: f32[4,64]
state u: f32[64,64]
state v: f32[64,64]
%0 = matmul(x, u)
%1 = relu(%0)
%2 = matmul(%1, v)
%3 = transpose(%2, perm=[1,0])
output y = %3
)",
                   {{"u", first}, {"v", second}});
  };
  const auto changed = [](const Tensor& w, double by) {
    Tensor other = As(w.dtype(), w);
    other.Set(70, w.At(70) + by);
    return other;
  };
  const auto first = [&](const Tensor& of_u, const Tensor& of_v) {
    const EqualResult result = Prove(layers(u, v), layers(of_u, of_v), /*with_rules=*/false);
    EXPECT_EQ(result.equality, Equality::kDifferent);
    return result.difference ? result.difference->first : "";
  };
  EXPECT_THAT(first(changed(u, 1e-3), v), StartsWith("matmul(x, u"));
  EXPECT_THAT(first(changed(u, 1e-3), v), HasSubstr(",6] "));  // element 70 is in column 6
  EXPECT_THAT(first(changed(u, 1e-3), changed(v, 0.5)), StartsWith("matmul(x, u"));
  EXPECT_THAT(first(Elements({64, 64}, 3), Elements({64, 64}, 4)), StartsWith("matmul(x, u"));
  EXPECT_THAT(first(u, changed(v, 1e-3)), StartsWith("matmul(f32[4,64], v"));
}

// Equal for inputs that are drawn as usual, and not for large ones.
TEST(Equal, AttacksWhatIsOpenWithSpecialInputs) {
  const char* a = "input x: f32[5]\nconst %0: f32[] = [40]\n%1 = min(x, %0)\noutput y = %1\n";
  const EqualResult result = Prove(GraphOf(a), GraphOf("input x: f32[5]\n%0 = identity(x)\noutput y = %0\n"));
  EXPECT_EQ(result.equality, Equality::kDifferent);
}

// They part only behind a number that one of them holds: at a bound, at a choice, at a tie.
TEST(Equal, AttacksAroundTheNumbersOfTheModels) {
  const auto where = [](const std::string& type, const std::string& number, const std::string& compare) {
    return "input x: " + type + "[9]\nconst %0: " + type + "[] = [" + number + "]\nconst %1: " + type +
           "[] = [0]\n%2 = " + compare + "(x, %0)\n%3 = where(%2, %1, x)\noutput y = %3\n";
  };
  const std::string same = "input x: f32[9]\n%0 = identity(x)\noutput y = %0\n";
  const std::pair<std::string, std::string> pairs[] = {
      {"input x: f32[9]\nconst %0: f32[] = [1e7]\n%1 = min(x, %0)\noutput y = %1\n", same},
      {"input x: f32[9]\n%1 = clip(x, min=-30000, max=1e9)\noutput y = %1\n", same},
      {where("f32", "250000", "greater"), same},
      {where("f32", "250000", "less"), where("f32", "250000", "less_equal")},
      {where("i64", "3000000000", "less"), where("i64", "3000000000", "less_equal")},
  };
  for (const auto& [a, b] : pairs) {
    const EqualResult result = Prove(GraphOf(a.c_str()), GraphOf(b.c_str()));
    EXPECT_EQ(result.equality, Equality::kDifferent) << a << b;
  }
}

TEST(Equal, WhatIsLeftIsPrintedAsARule) {
  // tan x = sin x / cos x is no law that the prover has.
  const char* a = "input x: f32[5]\n%0 = relu(x)\n%1 = tan(%0)\noutput y = %1\n";
  const char* b = "input x: f32[5]\n%0 = relu(x)\n%1 = sin(%0)\n%2 = cos(%0)\n%3 = div(%1, %2)\noutput y = %3\n";
  const EqualResult result = Prove(GraphOf(a), GraphOf(b));
  ASSERT_EQ(result.equality, Equality::kOpen);
  ASSERT_THAT(result.open, SizeIs(1));
  EXPECT_THAT(result.open[0].text, HasSubstr("tan("));
  EXPECT_THAT(result.open[0].text, Not(HasSubstr("relu")));  // the shared part is cut
}

// No rule can say what a weight of B is that A has not: only rules about its making help.
TEST(Equal, AWeightOfOneModelIsNamedWhereAPairIsLeft) {
  const Graph a = GraphOf("input x: f32[3]\n%0 = tan(x)\noutput y = %0\n");
  const Graph b = GraphOf(R"(
input x: f32[3]
state s: f32[3]
%0 = sin(x)
%1 = cos(x)
%2 = div(%0, %1)
%3 = add(%2, s)
%4 = sub(%3, s)
output y = %4
)",
                          {{"s", Elements({3}, 1)}});
  const EqualResult result = Prove(a, b, /*with_rules=*/false);
  EXPECT_EQ(result.equality, Equality::kOpen);
  ASSERT_THAT(result.open, SizeIs(2));  // the quotient is the smaller one
  EXPECT_THAT(result.open[1].text, StartsWith("# B has the weight s here, which A has not; rules"));
}

TEST(Equal, SignaturesThatDifferAreNamed) {
  const Graph a = GraphOf("input x: f32[5]\n%0 = relu(x)\noutput y = %0\n");
  const Graph b = GraphOf("input x: f32[6]\n%0 = relu(x)\noutput z = %0\n");
  EqualOptions options;
  const auto result = ProveEqual(a, b, options);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("input x: f32[5] in A, f32[6] in B"));
  EXPECT_THAT(result.status().message(), HasSubstr("output y: f32[5] in A, missing in B"));
  EXPECT_THAT(result.status().message(), HasSubstr("output z: missing in A, f32[6] in B"));
}

Tensor Numbers(const Shape& shape, const std::vector<double>& numbers, DType dtype = DType::kFloat32) {
  Tensor tensor(TensorType{dtype, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, numbers[static_cast<size_t>(i)]);
  return tensor;
}

// The tensor with one element moved by units in the last place.
Tensor Moved(const Tensor& tensor, int64_t element, int units) {
  Tensor moved = As(tensor.dtype(), tensor);
  const double x = tensor.At(element);
  moved.Set(element, x + units * 2 * RoundingOf(tensor.dtype()) * std::exp2(std::ilogb(x)));
  return moved;
}

Graph WithConstant(const std::string& how, const Tensor& constant) {
  const std::string type = DTypeName(constant.dtype());
  return GraphOf(
      absl::StrCat("input x: ", type, "[4,6]\nstate w: ", constant.type().ToString(), "\n", how, "\noutput y = %0\n"),
      {{"w", constant}});
}

// No model computes what the other has: numbers are what they are.
TEST(Equal, ConstantsThatDifferInTheLastPlaceAreNoWeightsComputedBeforehand) {
  const auto plus = [](int number) {
    return GraphOf(absl::StrCat("input x: f32[5]\nconst %0: f32[] = [", number, "]\n%1 = add(x, %0)\noutput y = %1\n"));
  };
  const EqualResult near = Prove(plus(16777216), plus(16777219));
  EXPECT_EQ(near.equality, Equality::kUpToConstants);
  ASSERT_THAT(near.constants, SizeIs(1));
  EXPECT_GT(near.constants[0].error, 1e-7);
  EXPECT_THAT(near.foldings, IsEmpty());
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const Tensor scale = As(dtype, Numbers({1}, {0.3})), row = As(dtype, Elements({6}, 3));
    const Tensor weight = As(dtype, Elements({6, 8}, 1));
    for (const auto& [how, constant] :
         {std::pair("%0 = mul(x, w)", scale), {"%0 = add(x, w)", row}, {"%0 = matmul(x, w)", weight}}) {
      for (const int units : {-1, 1}) {
        const EqualResult result =
            Prove(WithConstant(how, constant), WithConstant(how, Moved(constant, constant.num_elements() / 2, units)));
        EXPECT_EQ(result.equality, Equality::kUpToConstants) << how << " " << DTypeName(dtype) << " " << units;
        EXPECT_THAT(result.constants, Not(IsEmpty()));
      }
      EXPECT_EQ(Prove(WithConstant(how, constant), WithConstant(how, As(dtype, constant))).equality, Equality::kProved);
    }
  }
  const auto whole = [](int number) {
    return GraphOf(absl::StrCat("input x: i32[5]\nconst %0: i32[] = [", number, "]\n%1 = mul(x, %0)\noutput y = %1\n"));
  };
  EXPECT_EQ(Prove(whole(5), whole(6)).equality, Equality::kDifferent);
}

// A weight is what one side computes where it lies within the roundings of that computation.
TEST(Equal, AFoldedWeightLiesWithinTheRoundingsOfItsComputation) {
  struct Case {
    const char* computed;  // from p and q
    std::function<double(double, double)> folded;
    bool exact;
  };
  const std::vector<Case> cases = {
      {"%1 = add(p, q)", [](double p, double q) { return p + q; }, false},
      {"%1 = mul(p, q)", [](double p, double q) { return p * q; }, false},
      {"%2 = sqrt(p)\n%1 = div(q, %2)", [](double p, double q) { return q / std::sqrt(p); }, false},
      {"const %2: f32[] = [0.5]\n%1 = mul(p, %2)", [](double p, double) { return 0.5 * p; }, true}};
  const Tensor p = Elements({6}, 1, 0.25), q = Elements({6}, 2, 0.25);
  for (const Case& one : cases) {
    const Graph computed = GraphOf(absl::StrCat("input x: f32[4,6]\nstate p: f32[6]\nstate q: f32[6]\n", one.computed,
                                                "\n%0 = mul(x, %1)\noutput y = %0\n"),
                                   {{"p", p}, {"q", q}});
    Tensor folded(p.type());
    for (int64_t i = 0; i < 6; ++i) folded.Set(i, one.folded(p.At(i), q.At(i)));
    for (const int units : {0, 1, -1, 3}) {
      const Graph given = WithConstant("%0 = mul(x, w)", Moved(folded, 2, units));
      for (const bool exchanged : {false, true}) {
        const EqualResult result = exchanged ? Prove(given, computed) : Prove(computed, given);
        if (units == 0) {
          EXPECT_EQ(result.equality, Equality::kProved) << one.computed;
        } else if (std::abs(units) == 3 || one.exact) {
          EXPECT_EQ(result.equality, Equality::kUpToConstants) << one.computed << " " << units;
        } else {
          EXPECT_NE(result.equality, Equality::kDifferent) << one.computed << " " << units;
        }
      }
    }
  }
}

// A has a weight and, elsewhere, a computation that is near to it; B has another weight that is near to both.
TEST(Equal, TwoWeightsAreNotEqualByWayOfAComputation) {
  const Tensor p = Elements({6}, 1, 0.25), q = Elements({6}, 2, 0.25), r = Elements({6}, 3, 0.25);
  Tensor folded(p.type());
  for (int64_t i = 0; i < 6; ++i) folded.Set(i, p.At(i) * q.At(i) * r.At(i));
  const auto both = [&](const Tensor& weight) {
    return GraphOf(
        "input x: f32[4,6]\nstate p: f32[6]\nstate q: f32[6]\nstate r: f32[6]\nstate w: f32[6]\n%1 = mul(p, q)\n"
        "%2 = mul(%1, r)\n%3 = exp(x)\n%4 = mul(x, w)\n%5 = mul(%3, %2)\n%0 = add(%4, %5)\noutput y = %0\n",
        {{"p", p}, {"q", q}, {"r", r}, {"w", weight}});
  };
  const auto alone = [&](const Tensor& weight) {
    return WithConstant("%3 = exp(x)\n%4 = mul(x, w)\n%5 = mul(%3, w)\n%0 = add(%4, %5)", weight);
  };
  EXPECT_EQ(Prove(both(folded), alone(folded)).equality, Equality::kProved);
  for (const int first : {-1, 0, 1}) {
    for (const int second : {-1, 0, 1}) {
      if (first == second) continue;
      const Graph a = both(Moved(folded, 2, first)), b = alone(Moved(folded, 2, second));
      EXPECT_NE(Prove(a, b).equality, Equality::kProved) << first << " " << second;
      EXPECT_NE(Prove(b, a).equality, Equality::kProved) << first << " " << second;
    }
  }
}

// A table of cosines that a graph computes, and that was computed in f64.
TEST(Equal, ATableIsFoldedThroughLargeArguments) {
  const Tensor position = Numbers({3, 1}, {100, 250, 511}), frequency = Numbers({1, 4}, {1, 0.31, 0.01, 0.003});
  Tensor table(TensorType{DType::kFloat32, {3, 4}});
  for (int64_t i = 0; i < 12; ++i) table.Set(i, std::cos(position.At(i / 4) * frequency.At(i % 4)));
  const Graph computed = GraphOf(
      "input x: f32[3,4]\nstate p: f32[3,1]\nstate f: f32[1,4]\n%1 = mul(p, f)\n%2 = cos(%1)\n%0 = mul(x, %2)\n"
      "output y = %0\n",
      {{"p", position}, {"f", frequency}});
  const auto given = [](const Tensor& elements) {
    return GraphOf("input x: f32[3,4]\nstate w: f32[3,4]\n%0 = mul(x, w)\noutput y = %0\n", {{"w", elements}});
  };
  const EqualResult result = Prove(computed, given(table));
  EXPECT_EQ(result.equality, Equality::kProved);
  ASSERT_THAT(result.foldings, SizeIs(1));
  EXPECT_LT(result.foldings[0].error, 1e-4);
  Tensor damaged = As(DType::kFloat32, table);
  damaged.Set(3, damaged.At(3) + 1e-4);  // near 1, of a small argument
  EXPECT_NE(Prove(computed, given(damaged)).equality, Equality::kProved);
}

// Weights that only move must agree in every bit: nothing rounds them.
TEST(KnownEqual, MovementsAreExact) {
  const auto arena = std::make_shared<Arena>();
  const Tensor w = Elements({4, 5}, 1);
  const Value state = *arena->AddState("w", w);
  const Value turned = *arena->Apply("transpose", {state}, {{"perm", std::vector<int64_t>{1, 0}}});
  Tensor copy = *ComputeKnown(arena, {turned})->begin();
  KnownValues known(arena, 1);
  const auto same = known.Relate(turned, *arena->AddState("same", copy));
  ASSERT_TRUE(same.ok() && same->has_value());
  EXPECT_EQ((*same)->relation, KnownRelation::kSame);
  const Value off = *arena->AddState("off", Moved(copy, 3, 1));
  EXPECT_FALSE(known.Relate(turned, off)->has_value());
  const auto near = known.Relate(turned, off, /*near=*/true);
  ASSERT_TRUE(near.ok() && near->has_value());
  EXPECT_EQ((*near)->relation, KnownRelation::kNear);
}

// The weight that a computation stands for is the first one; another that is as near is none.
TEST(KnownEqual, AComputationStandsForOneWeight) {
  const auto arena = std::make_shared<Arena>();
  const Value p = *arena->AddState("p", Elements({3}, 1, 0.25)), q = *arena->AddState("q", Elements({3}, 2, 0.25));
  const Value r = *arena->AddState("r", Elements({3}, 3, 0.25));
  const Value product = *arena->Apply("mul", {*arena->Apply("mul", {p, q}), r});
  const Value other = *arena->Apply("mul", {p, *arena->Apply("mul", {q, r})});  // the same real numbers
  const Tensor folded = *ComputeKnown(arena, {product})->begin();
  KnownValues known(arena, 1);
  EXPECT_EQ((*known.Relate(product, other))->relation, KnownRelation::kSame);
  const Value first = *arena->AddState("first", folded);
  EXPECT_EQ((*known.Relate(first, product))->relation, KnownRelation::kFolded);
  EXPECT_EQ((*known.Relate(first, other))->relation, KnownRelation::kFolded);
  for (const int64_t element : {0, 1, 2}) {
    for (const int units : {-1, 1}) {
      const Value second = *arena->AddState(absl::StrCat("second", element, units), Moved(folded, element, units));
      EXPECT_FALSE(known.Relate(product, second)->has_value());
      EXPECT_FALSE(known.Relate(other, second)->has_value());
    }
  }
}

// Equal operands far below equal operators, one by one: a call within a call for each would be more than a stack holds.
TEST(ProveByClaims, AGraphMayBeAsDeepAsItHasNodes) {
  constexpr int kDepth = 50000;
  const auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {2}}), y = *arena->AddInput("y", {DType::kFloat32, {2}});
  Value a = *arena->Apply("add", {x, y}), b = *arena->Apply("add", {y, x});
  for (int i = 0; i < kDepth; ++i) {
    a = *arena->Apply("neg", {a});
    b = *arena->Apply("neg", {b});
  }
  const auto result = ProveByClaims(Graph(arena, {x, y}, {{a, "z"}}), Graph(arena, {x, y}, {{b, "z"}}), {{{a, b}}}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->equality, Equality::kProved);
}

}  // namespace
}  // namespace rewright
