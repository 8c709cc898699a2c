#include "core/base/source_text.h"

#include <gtest/gtest.h>

namespace rewright {
namespace {

TEST(SourceTokensTest, CommentsAndLayoutDoNotCount) {
  const char* const kOne = "int a=b+1;// why\nif(x<0){return/* so */f(\"a // b\",'\"');}\n#define N 2\nint y;\n";
  const char* const kOther =
      "// The head.\nint   a =\n    b + 1;\n/* of\n several lines */ if (x < 0) {\n  return f(\"a // b\", '\"');\n}\n"
      "#define   N 2  // two\n  int y;";
  EXPECT_EQ(SourceTokens(kOne), SourceTokens(kOther));
}

TEST(SourceTokensTest, EveryTokenCounts) {
  const char* const kPairs[][2] = {{"a < b", "a <= b"},
                                   {"int a", "inta"},
                                   {"a + +b", "a ++b"},
                                   {"a = -1", "a =- 1"},
                                   {"\"a  b\"", "\"a b\""},
                                   {"\"// a\"", "\"// b\""},
                                   {"'//'+1", "'//'+2"},
                                   {"R\"x(// a)x\"", "R\"x(// b)x\""},
                                   {"R\"x(\" // a)x\"", "R\"x(\" // b)x\""},
                                   {"1'000 // a\n + 1", "1'000 // a\n + 2"},
                                   {"\"\\\" // a\" + 1", "\"\\\" // b\" + 1"},
                                   {"#define N 2\nint y;", "#define N 2 int y;"},
                                   {"f(x)", "f(y)"}};
  for (const auto& [one, other] : kPairs) EXPECT_NE(SourceTokens(one), SourceTokens(other)) << one << "  " << other;
}

TEST(SourceTokensTest, WhatDoesNotEndIsTakenToTheEnd) {
  for (const char* text : {"/* a", "\"a", "'a", "R\"x(a)\"", "// a", "/", "\"\\"}) SourceTokens(text);
  EXPECT_EQ(SourceTokens("a /* b"), "a");
}

}  // namespace
}  // namespace rewright
