#include "core/base/suggest.h"

#include <gtest/gtest.h>

namespace rewright {
namespace {

TEST(Suggest, FindsWhatWasMeant) {
  const std::vector<std::string> verbs = {"optimize", "verify", "inspect", "run"};
  EXPECT_EQ(NearestWord("optimise", verbs), "optimize");
  EXPECT_EQ(NearestWord("verfiy", verbs), "verify");  // exchanged neighbours
  EXPECT_EQ(NearestWord("rn", verbs), "run");
  EXPECT_EQ(NearestWord("inspct", verbs), "inspect");
}

TEST(Suggest, SaysNothingRatherThanNonsense) {
  EXPECT_EQ(NearestWord("zebra", {"optimize", "run"}), "");
  EXPECT_EQ(NearestWord("", {"run"}), "");
  EXPECT_EQ(DidYouMean("zebra", {"optimize"}), "");
  EXPECT_EQ(DidYouMean("runn", {"run"}), "; did you mean `run`?");
}

}  // namespace
}  // namespace rewright
