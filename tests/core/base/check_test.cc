#include "core/base/check.h"

#include <string>

#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Half(int n) {
  CHECK(n % 2 == 0) << n << " is odd";
  return absl::OkStatus();
}

TEST(Check, AFailureIsThrownWithPlaceConditionAndValues) {
  EXPECT_TRUE(Half(4).ok());
  try {
    Half(3).IgnoreError();
    FAIL() << "nothing was thrown";
  } catch (const InternalFault& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr("check_test.cc:"), HasSubstr("CHECK(n % 2 == 0) failed: 3 is odd")));
  }
}

TEST(Check, AGuardMakesAnErrorOfIt) {
  const absl::Status status = Guarded([] { return Half(5); });
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("5 is odd"));
}

TEST(Check, AFailureOnAnotherThreadReachesTheCaller) {
  EXPECT_THROW(ForEachIndex(100, 4, [](size_t i) { Half(i == 57 ? 57 : 0).IgnoreError(); }), InternalFault);
}

}  // namespace
}  // namespace rewright
