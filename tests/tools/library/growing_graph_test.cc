// Graphs with a past that grows: the law by which rows are appended in place, and what is refused.
#include "tools/library/growing_graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rewright/rewright.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A buffer begins with the past p. Behind an update at its end it has the past, the new rows and what it had there.
std::string AppendLaw(const std::string& start) {
  return absl::StrCat(
      "rule append ",
      "concat(p: ?t[a, l, d], y: ?t[a, n, d], slice(z: ?t[a, m, d], starts=[0, n, 0], stops=[a, m, d]),",
      " axis=1) => dynamic_update_slice(concat(p, z, axis=1), y, 0: i64[], scalar(", start,
      "): i64[], 0: i64[]) when n < m");
}

TEST(GrowingGraph, AnAppendInPlaceIsProvedToBeTheConcatenation) {
  EXPECT_EQ(VerifyRules(AppendLaw("l"))[0].verdict, "proved");
  EXPECT_EQ(VerifyRules(AppendLaw("l + 1"))[0].verdict, "refuted");
}

Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
  return *graph;
}

// The error of a model that has `use` of its cache of `past + 1` rows; $P and $T stand for these numbers.
std::string ErrorOf(const std::string& use) {
  std::vector<Graph> samples;
  for (int past : {79, 29, 37}) {
    samples.push_back(Parsed(
        absl::StrReplaceAll(absl::StrCat("input k: f32[2,$P,4]\ninput x: f32[2,1,4]\n%1 = concat(k, x, axis=1)\n", use,
                                         "\noutput next = %1\noutput y = %9\n"),
                            {{"$P", absl::StrCat(past)}, {"$T", absl::StrCat(past + 1)}})));
  }
  const auto made = MakeGrowing(samples, {{"k", "next"}});
  return made.ok() ? PrintGraph(made->graph) : std::string(made.status().message());
}

TEST(GrowingGraph, ReductionsReadNothingBehindTheEnd) {
  const std::string most = ErrorOf("%9 = reduce_max(%1, axes=[1], keepdims=0)");
  EXPECT_THAT(most, HasSubstr("where("));
  EXPECT_THAT(most, HasSubstr("-inf"));
  // Zeros lie behind the end of a cache, also when it is moved, and not behind the end of its exponential.
  EXPECT_THAT(ErrorOf("%2 = transpose(%1, perm=[0,2,1])\n%9 = reduce_sum(%2, axes=[2], keepdims=0)"),
              Not(HasSubstr("where(")));
  EXPECT_THAT(ErrorOf("%2 = exp(%1)\n%9 = reduce_sum(%2, axes=[1], keepdims=0)"), HasSubstr("where("));
}

TEST(GrowingGraph, WhatDependsOnTheLengthOtherwiseIsRefused) {
  EXPECT_THAT(ErrorOf("%9 = reduce_mean(%1, axes=[1], keepdims=0)"), HasSubstr("depends on the number of rows"));
  EXPECT_THAT(ErrorOf("%2 = reverse(%1, axes=[1])\n%9 = reduce_sum(%2, axes=[1], keepdims=0)"),
              HasSubstr("reads other rows"));
  EXPECT_THAT(ErrorOf("%9 = slice(%1, starts=[0,$P,0], stops=[2,$T,4])"), HasSubstr("another starts"));
  EXPECT_THAT(ErrorOf("%9 = slice(%1, starts=[0,1,0], stops=[2,2,4])"), HasSubstr("reads other rows"));
  EXPECT_THAT(ErrorOf("%9 = cumsum(%1, axis=1)"), HasSubstr("cumsum"));
  EXPECT_THAT(ErrorOf("%9 = reduce_sum(k, axes=[1], keepdims=0)"), HasSubstr("reads the past before new rows"));
  EXPECT_THAT(ErrorOf("%9 = exp(%1)"), HasSubstr("is the next value of no state"));
  EXPECT_THAT(ErrorOf("%2 = reshape(%1, shape=[8,$T])\n%9 = reduce_sum(%2, axes=[1], keepdims=0)"),
              HasSubstr("mixes rows"));
  EXPECT_THAT(ErrorOf("const %2: f32[] = [$T.5]\n%3 = div(x, %2)\n%9 = neg(%3)"),
              HasSubstr("depends on the length of the past"));
}

TEST(GrowingGraph, PositionsAreTheLengthAndSomething) {
  const std::string made = ErrorOf("const %2: i64[1] = [$P]\n%3 = cast(%2, to=f32)\n%4 = add(x, %3)\n%9 = neg(%4)");
  EXPECT_THAT(made, HasSubstr("length of the past"));
  EXPECT_THAT(made, HasSubstr("sub("));
  EXPECT_THAT(ErrorOf("const %2: f32[] = [$T]\n%3 = div(x, %2)\n%9 = neg(%3)"), HasSubstr("length of the past"));
}

TEST(GrowingGraph, MasksEndBehindTheNewRows) {
  std::vector<Graph> samples;
  for (int past : {79, 29, 37}) {
    std::string mask;
    for (int k = 0; k <= past; ++k) absl::StrAppend(&mask, k == 0 ? "" : ", ", k == past - 2 ? 1 : 0);
    samples.push_back(
        Parsed(absl::StrCat("input k: f32[", past, "]\ninput x: f32[1]\n%1 = concat(k, x, axis=0)\n", "const %2: f32[",
                            past + 1, "] = [", mask, "]\n%3 = mul(%1, %2)\n",
                            "%9 = reduce_sum(%3, axes=[0], keepdims=0)\noutput next = %1\noutput y = %9\n")));
  }
  const auto made = MakeGrowing(samples, {{"k", "next"}});
  ASSERT_TRUE(made.ok()) << made.status();
  Tensor held({DType::kFloat32, {80}});
  for (int k = 0; k < 10; ++k) held.Set(k, k);
  const auto found = InterpretGraph(made->graph, {{"k", held},
                                                  {"x", Tensor::FromVector(DType::kFloat32, {1}, std::vector{10})},
                                                  {"length of the past", Tensor::Scalar(DType::kInt64, 10)}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[1].At(0), 8);
}

}  // namespace
}  // namespace rewright
