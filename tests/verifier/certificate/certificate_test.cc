// Certificates come out the same again, and none that was altered is accepted.
#include "verifier/certificate/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "tests/counts.h"
#include "verifier/check/cvc5_query_solver.h"
#include "verifier/check/query_solver.h"
#include "verifier/derivation/certificate_check.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Rng = std::mt19937_64;

// Guards, a conversion of indices, a change of variables, a joint query, maxima and a finite law.
constexpr const char* kLaws[] = {
    "rule merge { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
    "  => split(matmul(x, concat(y, z, axis=1)), axis=len(b) + 1, sizes=[n1, n2])\n",
    "rule again reshape(reshape(x[m, n], shape=[m * n]), shape=[m, n]) => x\n",
    "rule factor matmul(mul(x[m, k], ?a), y[k, n]) => mul(matmul(x, y), ?a)\n",
    "rule twice relu(relu(x)) => relu(x)\n",
    "rule halves reduce_max(concat(x[m, k], y[m, l], axis=1), axes=[1])\n"
    "  => max(reduce_max(x, axes=[1]), reduce_max(y, axes=[1]))\n",
    "rule exponent exp(add(x[n], y[n])) => mul(exp(x), exp(y))\n",
    "rule sums add(matmul(x[m, k], y[k, n]), matmul(z[m, l], w[l, n]))\n"
    "  => matmul(concat(x, z, axis=1), concat(y, w, axis=0))\n",
};

// The text of the certificate of a law in a small domain.
std::string CertificateOf(const std::string& law) {
  const auto rules = ParseRules(law, "law");
  EXPECT_TRUE(rules.ok()) << rules.status();
  RuleProofOptions options;
  options.limits.max_rank = 3;
  options.limits.max_perm_rank = 3;
  options.limits.max_broadcast_rank = 2;
  options.certify = true;
  const RuleVerdict verdict = ProveRule(rules->front(), options);
  EXPECT_EQ(verdict.verdict, Verdict::kProved) << law << verdict.reason;
  return verdict.certificate;
}

const std::vector<std::string>& Certificates() {
  static const auto* const kAll = [] {
    auto* all = new std::vector<std::string>;
    for (const char* law : kLaws) all->push_back(CertificateOf(law));
    return all;
  }();
  return *kAll;
}

std::string Refusal(const std::string& text) {
  const auto checked = CheckCertificate(text, "a.cert");
  return checked.ok() ? "accepted" : std::string(checked.status().message());
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();
  return lines;
}

std::string Text(const std::vector<std::string>& lines) { return absl::StrJoin(lines, "\n") + "\n"; }

// The text with the seal that it ought to have.
std::string Resealed(std::vector<std::string> lines) {
  if (!lines.empty() && absl::StartsWith(lines.back(), "seal ")) lines.pop_back();
  const std::string body = Text(lines);
  return body + "seal " + SealOf(body) + "\n";
}

TEST(Certificate, ComesOutTheSameAgain) {
  int queries = 0;
  for (const std::string& text : Certificates()) {
    const auto checked = CheckCertificate(text, "a.cert");
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(PrintCertificate(checked->certificate), text);
    EXPECT_EQ(SealAtEnd(text), SealOf(text.substr(0, text.rfind("seal "))));
    const std::vector<std::string> lines = Lines(text);
    ASSERT_EQ(checked->queries.size(), checked->query_lines.size());
    for (size_t i = 0; i < checked->queries.size(); ++i) {
      ++queries;
      EXPECT_THAT(lines[static_cast<size_t>(checked->query_lines[i]) - 1],
                  StartsWith("query " + checked->queries[i].Name()));
    }
  }
  EXPECT_GT(queries, 5);
}

TEST(Certificate, RecordsWhatTheProofConsistsOf) {
  EXPECT_THAT(absl::StrJoin(Certificates(), ""),
              AllOf(HasSubstr("instance 1 strategy 0 laws real"), HasSubstr("  the right side is legal: "),
                    HasSubstr("  equal sizes of output 1: "), HasSubstr("  in bounds: "), HasSubstr("  left: "),
                    HasSubstr("  right: "), HasSubstr("  change of variables: "), HasSubstr("  its inverse: "),
                    HasSubstr(" purpose guards logic QF_LIA expected unsat lines "), HasSubstr("\n(check-sat)\n")));
  EXPECT_THAT(Certificates()[5], HasSubstr("laws finite"));
}

TEST(Certificate, AProofRunTwiceGivesTheSameText) { EXPECT_EQ(CertificateOf(kLaws[0]), Certificates()[0]); }

// ---------------------------------------------------------------- settling queries

TEST(Certificate, EveryQueryIsUnsatisfiableForBothSolvers) {
  for (const std::string& text : Certificates()) {
    const auto checked = CheckCertificate(text, "a.cert");
    ASSERT_TRUE(checked.ok()) << checked.status();
    for (const SmtQuery& query : checked->queries) {
      const auto answer = AskZ3(query);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(*answer, SmtAnswer::kUnsat) << query.text;
    }
    const auto answers = AskCvc5(checked->queries, 20);
    if (absl::IsNotFound(answers.status())) continue;  // not installed
    ASSERT_TRUE(answers.ok()) << answers.status();
    EXPECT_THAT(*answers, ::testing::Each(SmtAnswer::kUnsat));
    EXPECT_THAT(*answers, SizeIs(checked->queries.size()));
  }
}

SmtQuery Asking(const std::string& assertion) {
  return {"guards", "QF_LIA", "(set-logic QF_LIA)\n(declare-fun x () Int)\n" + assertion + "\n(check-sat)\n"};
}

TEST(QuerySolver, AnswersOfBothSolvers) {
  const std::vector<SmtQuery> queries = {Asking("(assert (> x x))"), Asking("(assert (> x 2))"),
                                         Asking("(assert (and (> x 2) (< x 3)))")};
  const std::vector<SmtAnswer> expected = {SmtAnswer::kUnsat, SmtAnswer::kSat, SmtAnswer::kUnsat};
  for (size_t i = 0; i < queries.size(); ++i) {
    const auto answer = AskZ3(queries[i]);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, expected[i]);
  }
  const auto answers = AskCvc5(queries, 20);
  if (absl::IsNotFound(answers.status())) GTEST_SKIP() << "cvc5 is not installed";
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(*answers, expected);
}

std::atomic<int> interrupts{0};

// Z3 has by default a handler of its own during a check, which swallows the signal and ends the check.
TEST(QuerySolver, LeavesInterruptsToTheProgram) {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { ++interrupts; };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGINT, &action, &before), 0);
  std::atomic<bool> done{false};
  int sent = 0;
  std::thread sender([&] {
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      kill(getpid(), SIGINT);
      ++sent;
      while (interrupts < sent && !done) std::this_thread::yield();
    }
  });
  // Sums of three cubes: Z3 finds no answer, and counts no units meanwhile.
  const SmtQuery cubes = {"guards", "QF_NIA",
                          "(set-logic QF_NIA)\n(declare-fun x () Int)\n(declare-fun y () Int)\n(declare-fun z () Int)\n"
                          "(assert (and (> x 1) (> y x) (< z 0) (= (+ (* x x x) (* y y y) (* z z z)) 42)))\n"
                          "(check-sat)\n"};
  const auto answer = AskZ3(cubes, /*limit=*/50000000, /*hang_s=*/0.3);
  done = true;
  sender.join();
  // The last signal may still be on its way; one that was swallowed never comes.
  for (int wait = 0; interrupts < sent && wait < 100; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  sigaction(SIGINT, &before, nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, SmtAnswer::kUnknown);
  EXPECT_GT(sent, 0);
  EXPECT_EQ(interrupts, sent);
}

TEST(QuerySolver, TextThatIsNoQuestion) {
  const SmtQuery bad = Asking("(assert (> y x))");
  EXPECT_THAT(std::string(AskZ3(bad).status().message()), HasSubstr("z3: "));
  const auto answers = AskCvc5({Asking("(assert (> x x))"), bad}, 20);
  if (absl::IsNotFound(answers.status())) GTEST_SKIP() << "cvc5 is not installed";
  EXPECT_THAT(std::string(answers.status().message()), HasSubstr("cvc5 answered 1 of 2 queries"));
}

// ---------------------------------------------------------------- certificates that were altered

// Makes one edit somewhere, and describes it, for messages.
std::string Edit(std::vector<std::string>* lines, Rng& rng) {
  const size_t i = rng() % lines->size();
  std::string& line = (*lines)[i];
  const std::string at = " at line " + std::to_string(i + 1) + ": " + line;
  switch (rng() % 9) {
    case 0: {
      if (line.empty()) break;
      line[rng() % line.size()] ^= static_cast<char>(1 << rng() % 7);
      return "a flipped bit" + at;
    }
    case 1: line.insert(rng() % (line.size() + 1), 1, "019 -+ax()"[rng() % 10]); return "a new character" + at;
    case 2:
      if (line.empty()) break;
      line.erase(rng() % line.size(), 1);
      return "a lost character" + at;
    case 3: lines->erase(lines->begin() + static_cast<int64_t>(i)); return "a lost line" + at;
    case 4: lines->insert(lines->begin() + static_cast<int64_t>(rng() % lines->size()), line); return "a copy" + at;
    case 5: std::swap(line, (*lines)[rng() % lines->size()]); return "a swap" + at;
    case 6: {  // a number
      const size_t digit = line.find_first_of("0123456789");
      if (digit == std::string::npos) break;
      line[digit] = static_cast<char>('0' + (line[digit] - '0' + 1 + static_cast<int>(rng() % 9)) % 10);
      return "another number" + at;
    }
    case 7: {  // an inequality turned around
      const size_t sign = line.find(">=");
      if (sign == std::string::npos) break;
      line.replace(sign, 2, "<=");
      return "another relation" + at;
    }
    default: lines->resize(i); return "the rest lost" + at;
  }
  return "";
}

// Refusals name a place, the text found and the text expected.
constexpr char kRefusal[] = "a\\.cert:[0-9]+:(.|\n)*found (.|\n)*expected (.|\n)*";

TEST(Certificate, NoEditIsAccepted) {
  constexpr uint64_t kSeed = 20260705;
  Rng rng(kSeed);
  int edits = 0;
  for (int k = 0; edits < 100; ++k) {
    const std::string& whole = Certificates()[rng() % Certificates().size()];
    std::vector<std::string> lines = Lines(whole);
    const std::string what = Edit(&lines, rng);
    const std::string altered = lines.empty() ? "" : Text(lines);
    if (what.empty() || altered == whole) continue;
    ++edits;
    EXPECT_THAT(Refusal(altered), MatchesRegex(kRefusal)) << "seed " << kSeed << ": " << what;
  }
}

// An attacker who alters a certificate can compute its seal too. An accepted certificate must still be a proof of the
// law that it states. Here all edits leave the law and its domain alone, so that only the certificate itself could be
// accepted.
TEST(Certificate, NoEditIsAcceptedUnderAFreshSeal) {
  constexpr uint64_t kSeed = 20260706;
  Rng rng(kSeed);
  int edits = 0;
  for (int k = 0; edits < Cases(400); ++k) {
    const std::string& whole = Certificates()[rng() % Certificates().size()];
    std::vector<std::string> lines = Lines(whole);
    const std::string what = Edit(&lines, rng);
    const std::string altered = Resealed(lines);
    if (what.empty() || altered == whole) continue;
    ++edits;
    const auto checked = CheckCertificate(altered, "a.cert");
    if (checked.ok()) {
      // Another strategy may prove the instance too, another law may be true.
      EXPECT_EQ(PrintCertificate(checked->certificate), altered) << what;
      EXPECT_THAT(what, AnyOf(HasSubstr(": instance "), HasSubstr(":   "), HasSubstr(": domain "))) << what;
      for (const SmtQuery& query : checked->queries) EXPECT_EQ(AskZ3(query).value(), SmtAnswer::kUnsat);
    } else {
      EXPECT_THAT(std::string(checked.status().message()), MatchesRegex(kRefusal)) << what;
    }
  }
}

// The parts of a certificate: the text before the instances, the instances, the queries, the steps of the instances.
struct Parts {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> instances, queries, steps;

  explicit Parts(const std::string& text) {
    std::vector<std::string>* part = &head;
    for (const std::string& line : Lines(text)) {
      if (absl::StartsWith(line, "instance ")) part = &instances.emplace_back();
      if (absl::StartsWith(line, "query ")) part = &queries.emplace_back();
      if (absl::StartsWith(line, "steps ")) part = &steps.emplace_back();
      if (!absl::StartsWith(line, "seal ")) part->push_back(line);
    }
  }
  std::string Join() const {
    std::vector<std::string> lines = head;
    for (const auto* parts : {&instances, &queries, &steps}) {
      for (const auto& part : *parts) lines.insert(lines.end(), part.begin(), part.end());
    }
    return Resealed(lines);
  }
};

TEST(Certificate, QueriesAreExactlyThoseThatAreNeeded) {
  const Parts whole(Certificates()[0]);
  ASSERT_GT(whole.queries.size(), 3u);
  ASSERT_EQ(whole.Join(), Certificates()[0]);
  for (size_t q = 0; q < whole.queries.size(); ++q) {
    Parts dropped = whole;
    dropped.queries.erase(dropped.queries.begin() + static_cast<int64_t>(q));
    EXPECT_THAT(Refusal(dropped.Join()), HasSubstr("expected that query among those of the certificate"));
  }
  Parts swapped = whole;
  std::swap(swapped.queries[0], swapped.queries[1]);
  EXPECT_THAT(Refusal(swapped.Join()), MatchesRegex(kRefusal));
  // A query that nothing needs, taken from another certificate.
  Parts added = whole;
  added.queries.push_back(Parts(Certificates()[4]).queries.at(0));
  EXPECT_THAT(Refusal(added.Join()), MatchesRegex(kRefusal));
}

// Puts a query that is weaker than the needed one in its place, under its own name, and named by the step.
TEST(Certificate, AnEasierQueryDoesNotTakeThePlaceOfTheOneNeeded) {
  Parts parts(Certificates()[0]);
  std::vector<std::string>& query = parts.queries[0];
  query.insert(query.end() - 1, "(assert false)");
  const std::vector<std::string> words = absl::StrSplit(query[0], ' ');
  const std::string name = TextHash::HexOf(Text({query.begin() + 1, query.end()}));
  query[0] = absl::StrCat("query ", name, " purpose guards logic QF_LIA expected unsat lines ", query.size() - 1);
  for (auto& instance : parts.instances) {
    for (std::string& line : instance) {
      if (line == absl::StrCat("  query ", words[1], ": guards")) line = absl::StrCat("  query ", name, ": guards");
    }
  }
  EXPECT_THAT(Refusal(parts.Join()), HasSubstr("does not follow from the queries of the certificate"));
}

TEST(Certificate, InstancesAreExactlyThoseOfTheDomain) {
  const Parts whole(Certificates()[0]);
  ASSERT_GT(whole.instances.size(), 1u);
  Parts dropped = whole;
  dropped.instances.pop_back();
  EXPECT_THAT(Refusal(dropped.Join()), HasSubstr("found 1 instances, expected more: the domain holds b..=1 too"));
  Parts swapped = whole;
  std::swap(swapped.instances[0], swapped.instances[1]);
  EXPECT_THAT(Refusal(swapped.Join()), MatchesRegex(kRefusal));
  Parts added = whole;
  added.instances.push_back(whole.instances[0]);
  EXPECT_THAT(Refusal(added.Join()), MatchesRegex(kRefusal));
  Parts strategy = whole;
  strategy.instances[0][0] = "instance 1 strategy 99 laws real";
  EXPECT_THAT(Refusal(strategy.Join()), HasSubstr("found strategy 99, expected one from 0 to"));
}

// The certificate of a true law does not do for a false one.
TEST(Certificate, AnotherLawIsRefused) {
  std::string text = Certificates()[0];
  const size_t at = text.find("sizes=[n1, n2]");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 14, "sizes=[n2, n1]");
  EXPECT_THAT(Refusal(Resealed(Lines(text))), HasSubstr("does not follow from the queries"));
  std::string broken = Certificates()[0];
  broken.replace(broken.find("matmul(x"), 8, "matmul((");
  EXPECT_THAT(Refusal(broken), HasSubstr("a.cert:10:12: found `(`, expected a tensor"));
}

TEST(Certificate, AnotherClassIsRefused) {
  std::string text = Certificates()[0];
  const size_t at = text.find("class exact\n");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "class reassociating");
  EXPECT_THAT(Refusal(Resealed(Lines(text))),
              HasSubstr("a.cert:5: found `class reassociating`, expected `class exact`"));
}

TEST(Certificate, TextThatIsNoCertificate) {
  EXPECT_EQ(Refusal(""), "a.cert:1: found the end, expected `rewright certificate 3`");
  EXPECT_EQ(Refusal("rewright certificate 1\n"),
            "a.cert:1: found `rewright certificate 1`, expected `rewright certificate 3`");
  EXPECT_THAT(Refusal(std::string("rewright certificate 3\nprover 1\n\0\n", 35)), HasSubstr("a.cert:3: found `?`"));
  EXPECT_THAT(Refusal(Certificates()[0] + "x"), HasSubstr("found `"));
  EXPECT_THAT(Refusal(Certificates()[0].substr(0, Certificates()[0].size() - 1)), MatchesRegex(kRefusal));
}

}  // namespace
}  // namespace rewright
