#include "core/index/fit.h"

#include <functional>

#include "core/index/compose.h"
#include "core/index/print.h"
#include "core/index/range.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright::index {
namespace {

using Names = std::vector<std::string>;

class SizeFitTest : public testing::TestWithParam<Names> {
 protected:
  SizeFitTest() : sizes_(SampleSizes(GetParam(), {{"fixed", 4}})), fit_(GetParam(), sizes_) {}

  std::optional<Form> Fit(const std::function<int64_t(const NamedSizes&)>& value) {
    std::vector<int64_t> values;
    for (const NamedSizes& sizes : sizes_) values.push_back(value(sizes));
    return fit_.Fit(values);
  }

  std::vector<NamedSizes> sizes_;
  SizeFit fit_;
};

TEST_P(SizeFitTest, SamplesAreDistinctPrimesAndKeepWhatIsFixed) {
  std::map<int64_t, std::string> taken;
  for (const NamedSizes& sizes : sizes_) {
    EXPECT_EQ(sizes.at("fixed"), 4);
    for (const std::string& name : GetParam()) {
      EXPECT_GE(sizes.at(name), 5);
      EXPECT_EQ(taken.emplace(sizes.at(name), name).first->second, name);
    }
  }
}

TEST_P(SizeFitTest, FindsNumbersNamesAndProducts) {
  EXPECT_TRUE(Fit([](const NamedSizes&) { return -3; })->Is(-3));
  const std::string first = GetParam()[0], last = GetParam().back();
  const std::optional<Form> name = Fit([&](const NamedSizes& n) { return n.at(last); });
  ASSERT_TRUE(name && name->AsAtom() != nullptr);
  EXPECT_EQ(fit_.NameOf(name->AsAtom()), last);
  const std::optional<Form> line = Fit([&](const NamedSizes& n) { return 12 * n.at(first) - 7; });
  ASSERT_TRUE(line);
  EXPECT_EQ(Text(*line), "12*" + first + " - 7");
  if (first == last) return;
  const std::optional<Form> product =
      Fit([&](const NamedSizes& n) { return 2 * n.at(first) * n.at(last) + n.at(last) + 1; });
  ASSERT_TRUE(product);
  Substitution sizes;
  for (const Atom* leaf : LeavesOf(*product)) sizes[leaf] = {leaf->name == first ? 100 : 1000};
  EXPECT_TRUE(Compose(*product, sizes).Is(201001)) << Text(*product);
}

TEST_P(SizeFitTest, TellsWhatIsNone) {
  const std::string name = GetParam()[0];
  EXPECT_FALSE(Fit([&](const NamedSizes& n) { return n.at(name) / 2; }));
  EXPECT_FALSE(Fit([&](const NamedSizes& n) { return n.at(name) * n.at(name); }));
  EXPECT_FALSE(Fit([&](const NamedSizes& n) { return std::min<int64_t>(n.at(name), 6); }));
  EXPECT_FALSE(Fit([&](const NamedSizes& n) { return n.at(name) == sizes_.back().at(name); }));
}

INSTANTIATE_TEST_SUITE_P(All, SizeFitTest,
                         testing::Values(Names{"n"}, Names{"batch", "sequence"}, Names{"a", "b", "c"}));

}  // namespace
}  // namespace rewright::index
