#include "substitutions/taso/taso.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "tests/counts.h"
#include "tests/substitutions/taso/taso_file_util.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

using taso::Key;
using taso::OpType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::map<Key, int> kNone;
const std::map<Key, int> kPlain = {{Key::kActivation, 0}};

std::map<Key, int> Axis(int axis, int rank) { return {{Key::kAxis, axis}, {Key::kRank, rank}}; }
std::map<Key, int> Cut(int axis) { return {{Key::kAxis, axis}, {Key::kNumOutputs, 2}}; }

std::map<Key, int> Pool(int kernel, int stride, int padding) {
  return {{Key::kKernelHeight, kernel},
          {Key::kKernelWidth, kernel},
          {Key::kStrideHeight, stride},
          {Key::kStrideWidth, stride},
          {Key::kPadding, padding}};
}

TasoRule Convert(const TasoRuleText& text) {
  auto rules = ReadTasoRules(TasoFile({text}), "test.pb");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? rules->at(0) : TasoRule{"", absl::UnknownError("")};
}

RuleVerdict Judge(const Rule& rule) {
  RuleProofOptions options;
  options.use = RuleUse::kProof;
  return ProveRule(rule, options);
}

// A split of a concatenation, on either side of a product.
TasoRuleText MergedProducts() {
  return {{{OpType::kMatmul, {{-1, 0}, {-2, 0}}, kPlain}, {OpType::kMatmul, {{-1, 0}, {-3, 0}}, kPlain}},
          {{OpType::kConcat, {{-2, 0}, {-3, 0}}, Axis(1, 2)},
           {OpType::kMatmul, {{-1, 0}, {0, 0}}, kPlain},
           {OpType::kSplit, {{1, 0}}, Cut(1)}},
          {{{0, 0}, {2, 0}}, {{1, 0}, {2, 1}}}};
}

// Two convolutions of one image as one: the rule holds only for one group.
TasoRuleText MergedConvolutions(int stride, int padding, int activation) {
  const auto conv = ConvParameters(stride, padding, activation);
  return {{{OpType::kConv2d, {{-1, 0}, {-2, 0}}, conv},
           {OpType::kConv2d, {{-1, 0}, {-3, 0}}, conv},
           {OpType::kConcat, {{0, 0}, {1, 0}}, Axis(1, 4)}},
          {{OpType::kConcat, {{-2, 0}, {-3, 0}}, Axis(0, 4)}, {OpType::kConv2d, {{-1, 0}, {0, 0}}, conv}},
          {{{2, 0}, {1, 0}}}};
}

TEST(Taso, ShapesAreInferredAndSplitsCutWhereConcatJoined) {
  const TasoRule rule = Convert(MergedProducts());
  ASSERT_TRUE(rule.rule.ok()) << rule.rule.status();
  EXPECT_EQ(rule.name, "0");
  EXPECT_EQ(PrintLaw(*rule.rule),
            "rule taso-0\n"
            "  { matmul(x1[m, m2], x2[m2, n]), matmul(x1, x3[m2, n2]) }\n"
            "  => split(matmul(x1, concat(x2, x3, axis=1)), axis=1, sizes=[n, n2])\n");
  EXPECT_EQ(Judge(*rule.rule).verdict, Verdict::kProved);
  EXPECT_TRUE(ParseRules(PrintRule(*rule.rule), "printed").ok());
}

TEST(Taso, ConvolutionsHaveAsManyGroupsAsTheirChannelsSay) {
  TasoRule rule = Convert(MergedConvolutions(1, 0, 2));
  ASSERT_TRUE(rule.rule.ok()) << rule.rule.status();
  EXPECT_THAT(PrintLaw(*rule.rule), HasSubstr("groups=g"));
  EXPECT_THAT(PrintLaw(*rule.rule), HasSubstr("pads=[(r - 1) div 2, (s - 1) div 2, r div 2, s div 2]"));
  const RuleVerdict verdict = Judge(*rule.rule);
  EXPECT_EQ(verdict.verdict, Verdict::kRefuted);
  EXPECT_THAT(verdict.witness, HasSubstr("g=2"));
  const auto limited = ParseRules(PrintLaw(*rule.rule) + "  when g == 1\n", "limited");
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ(Judge(limited->at(0)).verdict, Verdict::kProved);
}

// The target's demands on its operands become conditions of the rule.
TEST(Taso, WhatTheTargetDemandsNarrowsTheRule) {
  // concat(a + b) + concat(c + d) with the parts exchanged: all parts must have equal sizes, pair by pair.
  const TasoRule exchanged = Convert({{{OpType::kConcat, {{-1, 0}, {-2, 0}}, Axis(0, 1)},
                                       {OpType::kConcat, {{-3, 0}, {-4, 0}}, Axis(0, 1)},
                                       {OpType::kAdd, {{0, 0}, {1, 0}}, kNone}},
                                      {{OpType::kConcat, {{-3, 0}, {-2, 0}}, Axis(0, 1)},
                                       {OpType::kConcat, {{-1, 0}, {-4, 0}}, Axis(0, 1)},
                                       {OpType::kAdd, {{0, 0}, {1, 0}}, kNone}},
                                      {{{2, 0}, {2, 0}}}});
  ASSERT_TRUE(exchanged.rule.ok()) << exchanged.rule.status();
  EXPECT_EQ(PrintLaw(*exchanged.rule),
            "rule taso-0\n"
            "  add(concat(x1[d], x2[d2], axis=0), concat(x3[d], x4[d2], axis=0))\n"
            "  => add(concat(x3, x2, axis=0), concat(x1, x4, axis=0))\n");
  EXPECT_EQ(Judge(*exchanged.rule).verdict, Verdict::kProved);

  // (x * w) + (z * v) as one convolution: the channels of both must divide as those of the whole do.
  const auto conv = ConvParameters(1, 0, 0);
  const TasoRule summed = Convert({{{OpType::kConv2d, {{-1, 0}, {-2, 0}}, conv},
                                    {OpType::kConv2d, {{-3, 0}, {-4, 0}}, conv},
                                    {OpType::kAdd, {{0, 0}, {1, 0}}, kNone}},
                                   {{OpType::kConcat, {{-1, 0}, {-3, 0}}, Axis(1, 4)},
                                    {OpType::kConcat, {{-2, 0}, {-4, 0}}, Axis(1, 4)},
                                    {OpType::kConv2d, {{0, 0}, {1, 0}}, conv}},
                                   {{{2, 0}, {2, 0}}}});
  ASSERT_TRUE(summed.rule.ok()) << summed.rule.status();
  EXPECT_THAT(PrintLaw(*summed.rule), HasSubstr("mod (c + c2) == 0"));
  EXPECT_EQ(Judge(*summed.rule).verdict, Verdict::kRefuted);
}

struct VerdictCase {
  const char* name;
  TasoRuleText rule;
  Verdict verdict;
};

class TasoVerdict : public ::testing::TestWithParam<VerdictCase> {};

TEST_P(TasoVerdict, IsAsExpected) {
  const TasoRule rule = Convert(GetParam().rule);
  ASSERT_TRUE(rule.rule.ok()) << rule.rule.status();
  const RuleVerdict verdict = Judge(*rule.rule);
  EXPECT_STREQ(VerdictName(verdict.verdict), VerdictName(GetParam().verdict)) << PrintLaw(*rule.rule) << verdict.reason;
}

std::vector<VerdictCase> VerdictCases() {
  const auto same = ConvParameters(1, 0, 0);
  const std::map<Key, int> transposed = {{Key::kRank, 2}, {Key::kPermutation, 2}, {Key::kShuffle, 1}};
  const auto pools = [](OpType type, int kernel, int stride, int padding) {
    return TasoRuleText{
        {{type, {{-1, 0}}, Pool(kernel, stride, padding)},
         {type, {{-2, 0}}, Pool(kernel, stride, padding)},
         {OpType::kConcat, {{0, 0}, {1, 0}}, Axis(1, 4)}},
        {{OpType::kConcat, {{-1, 0}, {-2, 0}}, Axis(1, 4)}, {type, {{0, 0}}, Pool(kernel, stride, padding)}},
        {{{2, 0}, {1, 0}}}};
  };
  const auto unary_of_concat = [](OpType type) {
    return TasoRuleText{
        {{OpType::kConcat, {{-1, 0}, {-2, 0}}, Axis(0, 3)}, {type, {{0, 0}}, kNone}},
        {{type, {{-1, 0}}, kNone}, {type, {{-2, 0}}, kNone}, {OpType::kConcat, {{0, 0}, {1, 0}}, Axis(0, 3)}},
        {{{1, 0}, {2, 0}}}};
  };
  return {
      {"MaxPoolsOfChannels", pools(OpType::kMaxPool2d, 3, 1, 0), Verdict::kProved},
      {"StridedMaxPoolsOfChannels", pools(OpType::kMaxPool2d, 3, 2, 0), Verdict::kProved},
      {"AveragePoolsOfChannels", pools(OpType::kAvgPool2d, 2, 2, 1), Verdict::kProved},
      {"SigmoidOfConcat", unary_of_concat(OpType::kSigmoid), Verdict::kProved},
      {"TanhOfConcat", unary_of_concat(OpType::kTanh), Verdict::kProved},
      {"TransposeOfProduct",
       {{{OpType::kMatmul, {{-1, 0}, {-2, 0}}, kPlain}, {OpType::kTranspose, {{0, 0}}, transposed}},
        {{OpType::kTranspose, {{-1, 0}}, transposed},
         {OpType::kTranspose, {{-2, 0}}, transposed},
         {OpType::kMatmul, {{1, 0}, {0, 0}}, kPlain}},
        {{{1, 0}, {2, 0}}}},
       Verdict::kProved},
      {"ProductsDoNotCommute",
       {{{OpType::kMatmul, {{-1, 0}, {-2, 0}}, kPlain}},
        {{OpType::kMatmul, {{-2, 0}, {-1, 0}}, kPlain}},
        {{{0, 0}, {0, 0}}}},
       Verdict::kRefuted},
      {"ScaleOfProduct",
       {{{OpType::kMatmul, {{-1, 0}, {-2, 0}}, kPlain}, {OpType::kScale, {{0, 0}, {-3, 0}}, kNone}},
        {{OpType::kScale, {{-2, 0}, {-3, 0}}, kNone}, {OpType::kMatmul, {{-1, 0}, {0, 0}}, kPlain}},
        {{{1, 0}, {1, 0}}}},
       Verdict::kProved},
      {"TimesOne",
       {{{OpType::kRelu, {{-1, 0}}, kNone}},
        {{OpType::kRelu, {{-1, 0}}, kNone}, {OpType::kConstOne, {}, kNone}, {OpType::kMul, {{0, 0}, {1, 0}}, kNone}},
        {{{0, 0}, {2, 0}}}},
       Verdict::kProved},
      {"AverageAsConvolution",
       {{{OpType::kAvgPool2d, {{-1, 0}}, Pool(3, 1, 1)}},
        {{OpType::kConstPool, {}, {{Key::kKernelHeight, 3}, {Key::kKernelWidth, 3}}},
         {OpType::kConv2d, {{-1, 0}, {0, 0}}, ConvParameters(1, 1, 0)}},
        {{{0, 0}, {1, 0}}}},
       Verdict::kProved},
      {"ConvolutionsOfBatches",
       {{{OpType::kConv2d, {{-1, 0}, {-3, 0}}, ConvParameters(2, 0, 1)},
         {OpType::kConv2d, {{-2, 0}, {-3, 0}}, ConvParameters(2, 0, 1)},
         {OpType::kConcat, {{0, 0}, {1, 0}}, Axis(0, 4)}},
        {{OpType::kConcat, {{-1, 0}, {-2, 0}}, Axis(0, 4)},
         {OpType::kConv2d, {{0, 0}, {-3, 0}}, ConvParameters(2, 0, 1)}},
        {{{2, 0}, {1, 0}}}},
       Verdict::kProved},
      {"EnlargedToItsOwnExtent",
       {{{OpType::kConv2d, {{-1, 0}, {-2, 0}}, same}},
        {{OpType::kEnlarge, {{-2, 0}, {-2, 0}}, kNone}, {OpType::kConv2d, {{-1, 0}, {0, 0}}, same}},
        {{{0, 0}, {1, 0}}}},
       Verdict::kProved},
      // An even kernel is not centred.
      {"EnlargedKernel",
       {{{OpType::kConv2d, {{-1, 0}, {-2, 0}}, same}, {OpType::kConv2d, {{-1, 0}, {-3, 0}}, same}},
        {{OpType::kEnlarge, {{-2, 0}, {-3, 0}}, kNone},
         {OpType::kConcat, {{0, 0}, {-3, 0}}, Axis(0, 4)},
         {OpType::kConv2d, {{-1, 0}, {1, 0}}, same},
         {OpType::kSplit, {{2, 0}}, Cut(1)}},
        {{{0, 0}, {3, 0}}, {{1, 0}, {3, 1}}}},
       Verdict::kRefuted},
  };
}

INSTANTIATE_TEST_SUITE_P(Rules, TasoVerdict, ::testing::ValuesIn(VerdictCases()),
                         [](const auto& info) { return info.param.name; });

TEST(Taso, OperatorsWithoutCounterpartAreNamed) {
  const TasoRule rule =
      Convert({{{OpType::kReshape, {{-1, 0}}, kNone}}, {{OpType::kRelu, {{-1, 0}}, kNone}}, {{{0, 0}, {0, 0}}}});
  ASSERT_FALSE(rule.rule.ok());
  EXPECT_THAT(rule.rule.status().message(), HasSubstr("source operator 0 (reshape) has no counterpart here"));
}

TEST(Taso, OperandsThatNeverFitAreSaid) {
  const TasoRule rule = Convert({{{OpType::kConcat, {{-1, 0}, {-1, 0}}, Axis(0, 3)},
                                  {OpType::kConv2d, {{0, 0}, {-1, 0}}, ConvParameters(1, 0, 0)}},
                                 {{OpType::kRelu, {{-1, 0}}, kNone}},
                                 {{{1, 0}, {0, 0}}}});
  ASSERT_FALSE(rule.rule.ok());
  EXPECT_THAT(rule.rule.status().message(), HasSubstr("source operator 1 (conv2d): no shapes of its operands fit"));
}

struct ErrorCase {
  TasoRuleText rule;
  const char* message;
};

TEST(Taso, FilesOutOfRangeAreErrors) {
  const TasoOperator relu = {OpType::kRelu, {{-1, 0}}, kNone};
  const auto conv = [](std::map<Key, int> parameters) {
    return TasoOperator{OpType::kConv2d, {{-1, 0}, {-2, 0}}, std::move(parameters)};
  };
  std::map<Key, int> no_stride = ConvParameters(1, 0, 0), far = ConvParameters(1, 0, 0);
  no_stride.erase(Key::kStrideWidth);
  far[Key::kActivation] = 4;
  std::map<Key, int> unknown = ConvParameters(1, 0, 0);
  unknown[static_cast<Key>(15)] = 1;
  const std::vector<ErrorCase> cases = {
      {{{}, {relu}, {{{0, 0}, {0, 0}}}}, "0 source operators, expected 1 to 16"},
      {{std::vector<TasoOperator>(17, relu), {relu}, {{{0, 0}, {0, 0}}}}, "17 source operators, expected 1 to 16"},
      {{{{static_cast<OpType>(26), {{-1, 0}}, kNone}}, {relu}, {}}, "source operator 0: there is no operator type 26"},
      {{{{OpType::kRelu, {}, kNone}}, {relu}, {}}, "source operator 0 (relu): 0 inputs, expected 1"},
      {{{{OpType::kConcat, {}, kNone}}, {relu}, {}}, "source operator 0 (concat): 0 inputs, expected 1 to 6"},
      {{{{OpType::kRelu, {{0, 0}}, kNone}}, {relu}, {}},
       "source operator 0 (relu): input 0: operator 0 does not come before its user"},
      {{{relu, {OpType::kRelu, {{0, 1}}, kNone}}, {relu}, {}},
       "source operator 1 (relu): input 0: output 1 of operator 0, which has 1"},
      {{{{OpType::kRelu, {{-1, 2}}, kNone}}, {relu}, {}}, "input 0: output 2 of an input of the rule"},
      {{{{OpType::kRelu, {{-2000000, 0}}, kNone}}, {relu}, {}}, "the rule's input -2000000 is out of range"},
      {{{relu}, {{OpType::kRelu, {{-7, 0}}, kNone}}, {}},
       "target operator 0 (relu): input 0: the source has no input -7"},
      {{{conv(no_stride)}, {relu}, {}}, "source operator 0 (conv2d): parameter stride_w is missing"},
      {{{conv(far)}, {relu}, {}}, "source operator 0 (conv2d): parameter acti is 4, expected 0 to 3"},
      {{{conv(ConvParameters(0, 0, 0))}, {relu}, {}}, "parameter stride_h is 0, expected 1 to 1024"},
      {{{conv(unknown)}, {relu}, {}}, "there is no parameter key 15"},
      {{{{OpType::kConcat, {{-1, 0}}, Axis(2, 2)}}, {relu}, {}}, "source operator 0 (concat): axis 2 of 2"},
      {{{{OpType::kTranspose, {{-1, 0}}, {{Key::kRank, 2}, {Key::kPermutation, 3}}}}, {relu}, {}},
       "parameter perm is 3, no permutation of 2 axes"},
      {{{relu}, {relu}, {}}, "0 outputs, expected 1 to 16"},
      {{{relu}, {relu}, {{{1, 0}, {0, 0}}}}, "output 0: there is no source operator 1"},
      {{{relu}, {relu}, {{{0, 0}, {-1, 0}}}}, "output 0: there is no target operator -1"},
      {{{relu}, {relu}, {{{0, 0}, {0, 3}}}}, "output 0: output 3 of target operator 0, which has 1"},
      {{{relu}, {relu}, {{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}}},
       "output 1: an earlier output is the same tensor of the source"},
  };
  for (const ErrorCase& c : cases) {
    const auto rules = ReadTasoRules(TasoFile({MergedProducts(), c.rule}), "bad.pb");
    ASSERT_FALSE(rules.ok()) << c.message;
    EXPECT_THAT(rules.status().message(), HasSubstr("bad.pb: rule 1: "));
    EXPECT_THAT(rules.status().message(), HasSubstr(c.message));
  }
  EXPECT_THAT(ReadTasoRules("", "e.pb").status().message(), HasSubstr("e.pb: it holds 0 rules"));
  EXPECT_THAT(ReadTasoRules("no protobuf", "e.pb").status().message(), HasSubstr("protobuf cannot read it"));
}

TEST(Taso, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20240611;
  std::mt19937_64 rng(kSeed);
  const std::string good = TasoFile({MergedProducts(), MergedConvolutions(2, 0, 1), VerdictCases().back().rule});
  int read = 0;
  for (int k = 0; k < Cases(20000); ++k) {
    std::string bytes = good;
    for (uint64_t flips = 1 + rng() % 3; flips > 0; --flips) bytes[rng() % bytes.size()] = static_cast<char>(rng());
    if (rng() % 4 == 0) bytes.resize(rng() % bytes.size());
    const auto rules = ReadTasoRules(bytes, "damaged.pb");
    if (!rules.ok()) continue;
    ++read;
    for (const TasoRule& rule : *rules) {
      if (!rule.rule.ok()) continue;
      EXPECT_TRUE(ParseRules(PrintRule(*rule.rule), "printed").ok()) << PrintRule(*rule.rule);
    }
  }
  EXPECT_GT(read, 10) << "seed " << kSeed;
}

// Tests the rules that TASO publishes, if they are at hand.
TEST(Taso, PublishedRules) {
  const char* path = std::getenv("REWRIGHT_TASO_RULES");
  const std::string file = path != nullptr ? path : REWRIGHT_TASO_RULES;
  if (file.empty()) GTEST_SKIP() << "REWRIGHT_TASO_RULES does not say where TASO's graph_subst.pb is";
  std::ifstream in(file, std::ios::binary);
  ASSERT_TRUE(in.good()) << file;
  std::stringstream data;
  data << in.rdbuf();
  const auto rules = ReadTasoRules(data.str(), "graph_subst.pb");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->size(), 133u);
  std::vector<std::string> refuted;
  for (const TasoRule& rule : *rules) {
    ASSERT_TRUE(rule.rule.ok()) << rule.name << ": " << rule.rule.status();
    const RuleVerdict verdict = Judge(*rule.rule);
    EXPECT_NE(verdict.verdict, Verdict::kUnknown) << rule.name << ": " << verdict.reason;
    if (verdict.verdict == Verdict::kRefuted) refuted.push_back(rule.name);
  }
  EXPECT_THAT(refuted, ElementsAre("98", "99", "100", "105", "125", "126", "127", "128", "129", "130", "131"));
}

}  // namespace
}  // namespace rewright
