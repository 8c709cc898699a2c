#include "core/onnx/size_relations.h"

#include <gtest/gtest.h>

#include "core/index/print.h"

namespace rewright {
namespace {

TEST(SizeRelationTest, NamesThatAreSumsAreRead) {
  const auto text = [](const std::string& name) {
    const std::optional<SizeRelation> relation = RelationOf(name);
    return relation ? relation->ToString() : "none";
  };
  EXPECT_EQ(text("past_length + 1"), "past_length + 1 = past_length + 1");
  EXPECT_EQ(text("2*s0 - s1"), "2*s0 - s1 = 2*s0 - s1");
  EXPECT_EQ(text("s0 + s1 + 3"), "s0 + s1 + 3 = s0 + s1 + 3");
  for (const char* none :
       {"past", "", "1", "x:0", "s0/2", "a b + 1", "a + ", "a * b", "99999999999 * 99999999999 + a"}) {
    EXPECT_EQ(text(none), "none") << none;
  }
}

TEST(SizeRelationTest, SamplesAndNamesFollowIt) {
  const SizeRelation total{"total", {{"past", 1}, {"sequence", 1}}, 1};
  const std::vector<std::string> names = {"past", "sequence"};
  const std::vector<index::NamedSizes> sizes = RelatedSamples(names, {{"total", 8}}, {total});
  RelatedFit fit(names, sizes, {total});
  std::vector<int64_t> values, twice;
  for (const index::NamedSizes& sample : sizes) {
    EXPECT_EQ(sample.at("total"), sample.at("past") + sample.at("sequence") + 1);
    values.push_back(sample.at("total"));
    twice.push_back(2 * sample.at("total"));
  }
  EXPECT_EQ(fit.NameOfSize(*fit.Fit(values)), "total");
  EXPECT_EQ(index::Text(*fit.Fit(values)), "past + sequence + 1");
  EXPECT_EQ(fit.NameOfSize(*fit.Fit(twice)), "");
  index::NamedSizes small = {{"past", 1}, {"sequence", 1}, {"total", 1}};
  Complete({total}, &small);
  EXPECT_EQ(small.at("total"), 3);
  EXPECT_FALSE((SizeRelation{"a", {{"b", -1}}, 0}.At({{"b", 3}})));
}

}  // namespace
}  // namespace rewright
