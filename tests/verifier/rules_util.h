// Rules of text files, for the verifier's tests.
#pragma once

#include <string>
#include <vector>

#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"
#include "verifier/prove_rule.h"

namespace rewright {

struct RuleCase {
  std::string name;
  std::string expect;  // proved, refuted, unknown
  std::vector<RuleInstance> instances;
};

// The rules of tests/verifier/<file>, instantiated at small ranks. A rule that does not compile fails the test.
std::vector<RuleCase> LoadRules(const std::string& file);

// Joins kernels of two extents, of which the second is padded more on every side: true with the condition ?l2 >= ?l1,
// which is missing.
inline constexpr char kJoinedKernels[] =
    "rule r  { conv2d(x[n, c, h, w], y[o1, c, r1, s1], strides=?s, pads=[?t1, ?l1, ?b1, ?r1]),"
    " conv2d(x, z[o2, c, r2, s2], strides=?s, pads=[?t2, ?l2, ?b2, ?r2]) }"
    " => split(conv2d(x, concat(pad(y, before=[0, 0, ?t2 - ?t1, ?l2 - ?l1], after=[0, 0, ?b2 - ?b1, ?r2 - ?r1]), z,"
    " axis=0), strides=?s, pads=[?t2, ?l2, ?b2, ?r2]), axis=1, sizes=[o1, o2])"
    " when ?t2 >= ?t1 and ?b2 >= ?b1 and ?r2 >= ?r1 and r2 - r1 == ?t2 - ?t1 + ?b2 - ?b1"
    " and s2 - s1 == ?l2 - ?l1 + ?r2 - ?r1 and r2 + s2 > r1 + s1";

// The first rule of a text; a text that does not parse fails the test.
Rule RuleOf(const std::string& text);

// The verdict alone, without the rule's class.
RuleVerdict ProveUnclassified(const Rule& rule);

// core.rules and laws.rules.
std::vector<Rule> HandWrittenRules();

// The rule files that people wrote and that come with the program, in order of their paths.
std::vector<std::string> ShippedRuleFiles();

// The name of the file at `path` as googletest takes it.
std::string TestNameOf(const std::string& path);

}  // namespace rewright
