// Long runs of `rewright verify`: certificates and their check, interruption and resumption, verdicts as data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/counts.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kLaws[] = R"(
rule relu-twice
  relu(relu(x)) => relu(x)

rule matmul-merge
  { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }
  => split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])

rule sub-exchange
  sub(x[n], y[n]) => sub(y, x)
  expect refuted
)";

// Certificates of kLaws, made once.
class Certificates : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = new TemporaryFolder;
    WriteContents(*made_ / "laws.rules", kLaws);
    const Outcome outcome = Rewright("verify " + (*made_ / "laws.rules") + " --certificates " + (*made_ / "certs") +
                                     " --json -o " + (*made_ / "proved.rules"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.Json()["rules"][1]["certificate"], "matmul-merge.cert");
  }
  static void TearDownTestSuite() {
    delete made_;
    made_ = nullptr;
  }

  // A copy that a test may alter.
  Certificates() { std::filesystem::copy(*made_ / "certs", folder_ / "certs"); }
  std::string Dir() const { return folder_ / "certs"; }
  std::string File(const std::string& name) const { return Dir() + "/" + name; }
  Outcome Check(const std::string& flags = "--solver z3") const { return Rewright("check " + Dir() + " " + flags); }

  static TemporaryFolder* made_;
  TemporaryFolder folder_;
};
TemporaryFolder* Certificates::made_ = nullptr;

TEST_F(Certificates, AreWrittenPerProvedRule) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Dir())) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("index", "matmul-merge.cert", "relu-twice.cert"));
  EXPECT_THAT(FileContents(*made_ / "proved.rules"), HasSubstr("certificate=\"certs/matmul-merge.cert\""));
}

TEST_F(Certificates, HoldWhenTheyAreCheckedAgain) {
  const Outcome outcome = Check("--json --rules " + (*made_ / "proved.rules"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["certificates"], 2);
  EXPECT_EQ(json["hold"], 2);
  EXPECT_THAT(json["refused"], IsEmpty());
  EXPECT_GT(json["queries"], 1);
  EXPECT_GT(json["instances"], 1);
}

TEST_F(Certificates, AreSettledByZ3AloneWhereThereIsNoCvc5) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  const Outcome both = Check("--solver both --json");
  const Outcome cvc5 = Check("--solver cvc5");
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(both.err, HasSubstr("cvc5 is not installed"));
  EXPECT_EQ(both.Json()["solvers"], nlohmann::json({"z3"}));
  EXPECT_EQ(cvc5.status, 2);
  EXPECT_THAT(cvc5.err, HasSubstr("cvc5: No such file"));
}

TEST_F(Certificates, ThatAreNotThereAreNoCheck) {
  WriteContents(folder_ / "no.rules", "rule no\n  relu(x[a..]) => x\n");
  Rewright("verify " + (folder_ / "no.rules") + " --certificates " + (folder_ / "none"));
  EXPECT_THAT(Rewright("check " + (folder_ / "none") + " --solver z3").err, HasSubstr("nothing was checked"));
}

TEST_F(Certificates, ThatAreLostAddedOrExchangedShow) {
  std::filesystem::remove(File("relu-twice.cert"));
  const Outcome lost = Check();
  EXPECT_EQ(lost.status, 1);
  EXPECT_THAT(lost.out, HasSubstr("index:4: found no file relu-twice.cert"));
  std::filesystem::copy(File("matmul-merge.cert"), File("relu-twice.cert"));
  const Outcome exchanged = Check();
  EXPECT_EQ(exchanged.status, 1);
  EXPECT_THAT(exchanged.out, AllOf(HasSubstr("relu-twice.cert:9: found rule matmul-merge"), HasSubstr("found seal ")));
  std::filesystem::remove(File("relu-twice.cert"));
  std::filesystem::copy(*made_ / "certs/relu-twice.cert", File("relu-twice.cert"));
  std::filesystem::copy(File("relu-twice.cert"), File("another.cert"));
  const Outcome added = Check();
  EXPECT_EQ(added.status, 1);
  EXPECT_THAT(added.out, HasSubstr("another.cert:1: found a certificate that the index does not name"));
}

TEST_F(Certificates, OfOtherRulesAreRefused) {
  WriteContents(folder_ / "other.rules", "rule relu-twice\n  relu(relu(x[n])) => relu(x)\n");
  const Outcome outcome = Check("--rules " + (folder_ / "other.rules"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("relu-twice.cert:9: found another law than"),
                                 HasSubstr("matmul-merge.cert:9: found rule matmul-merge, expected a rule of")));
  std::string proved = FileContents(*made_ / "proved.rules");
  proved.replace(proved.find("max_rank=6"), 10, "max_rank=5");
  WriteContents(folder_ / "smaller.rules", proved);
  EXPECT_THAT(Check("--rules " + (folder_ / "smaller.rules")).out, HasSubstr(":4: found another domain"));
  std::string risky = FileContents(*made_ / "proved.rules");
  risky.replace(risky.find("proved exact"), 12, "proved reassociating");
  WriteContents(folder_ / "risky.rules", risky);
  EXPECT_THAT(Check("--rules " + (folder_ / "risky.rules")).out,
              HasSubstr(":5: found class exact, expected reassociating, as in the record at"));
  WriteContents(folder_ / "more.rules",
                proved + "\nrule relu-thrice\n  relu(relu(relu(x))) => relu(x)\n  proved exact\n");
  EXPECT_THAT(Check("--rules " + (folder_ / "more.rules")).out,
              HasSubstr("found no certificate of the proved rule relu-thrice"));
}

// The whole way: an edit anywhere in the folder is refused with its place.
TEST_F(Certificates, NoEditInTheFolderIsAccepted) {
  constexpr uint64_t kSeed = 11;
  std::mt19937_64 rng(kSeed);
  const char* const kFiles[] = {"index", "matmul-merge.cert", "relu-twice.cert"};
  for (int k = 0; k < Cases(100); ++k) {
    const std::string file = kFiles[rng() % 3];
    const std::string whole = FileContents(File(file));
    std::string altered = whole;
    const size_t at = rng() % whole.size();
    switch (rng() % 3) {
      case 0: altered[at] = static_cast<char>(altered[at] ^ (1 << rng() % 7)); break;
      case 1: altered.erase(at, 1 + rng() % 30); break;
      default: altered.insert(at, whole.substr(rng() % whole.size(), 1 + rng() % 30));
    }
    if (altered == whole) continue;
    WriteContents(File(file), altered);
    const Outcome outcome = Check();
    EXPECT_EQ(outcome.status, 1) << "seed " << kSeed << ", case " << k << ", " << file << " at byte " << at << "\n"
                                 << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("refused  "), HasSubstr("found "), HasSubstr("expected ")));
    WriteContents(File(file), whole);
  }
  EXPECT_EQ(Check().status, 0);
}

TEST_F(Certificates, AFolderWithoutAnIndexIsBadInput) {
  std::filesystem::remove(File("index"));
  const Outcome outcome = Check();
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("index"));
  EXPECT_EQ(Rewright("check /nonexistent").status, 2);
}

// ---------------------------------------------------------------- interruption and resumption

// `count` rules that are told apart by a condition.
std::string ManyRules(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    text += "rule merge-" + number +
            " { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }\n  => split(matmul(x, concat(y, z, axis=1)), "
            "axis=len(b) + 1, sizes=[n1, n2])\n  when n1 != " +
            number + "\n";
  }
  return text;
}

// Proved by cases, 7^7 of them: a run that ends with it is not over before the interrupt comes, however late.
constexpr char kLong[] =
    "rule long\n"
    "  add(add(add(add(add(add(x, y), z), w), v), u), t) => add(x, add(y, add(z, add(w, add(v, add(u, t))))))\n";

TEST(Resumption, AnInterruptedRunGoesOnWhereItWas) {
  const TemporaryFolder folder;
  constexpr int kRules = 20;
  WriteContents(folder / "many.rules", ManyRules(kRules) + kLong);
  const std::string verify = "verify --json --threads 1 " + (folder / "many.rules") + " --resume " +
                             (folder / "journal") + " --certificates " + (folder / "certs") + " -o " +
                             (folder / "proved.rules");
  const Outcome first = RewrightInterrupted(verify, "merge-2: proved");
  EXPECT_EQ(first.status, 130) << first.err;
  auto before = first.Json();
  const int done = before["proved"];
  EXPECT_GE(done, 3);
  ASSERT_LE(done, kRules);
  EXPECT_EQ(before["interrupted"], kRules + 1 - done);
  EXPECT_EQ(before["unknown"], kRules + 1 - done);
  // Finished verdicts are kept: in the journal, in the rules that were written, and as certificates that hold.
  const Outcome check = Rewright("check --json --solver z3 " + (folder / "certs"));
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_EQ(check.Json()["hold"], done);

  WriteContents(folder / "many.rules", ManyRules(kRules));
  const Outcome second = Rewright(verify);
  EXPECT_EQ(second.status, 0) << second.err;
  auto after = second.Json();
  EXPECT_EQ(after["proved"], kRules);
  EXPECT_EQ(after["reused"], done);
  EXPECT_FALSE(after.contains("interrupted"));
  EXPECT_EQ(Rewright("check --json --solver z3 " + (folder / "certs")).Json()["hold"], kRules);
  // A third run proves nothing.
  EXPECT_EQ(Rewright(verify).Json()["reused"], kRules);
  // As if it had never been interrupted.
  const Outcome whole = Rewright("verify --json " + (folder / "many.rules") + " --certificates " + (folder / "certs2") +
                                 " -o " + (folder / "proved.rules"));
  EXPECT_EQ(whole.status, 0);
  for (int i : {0, 2, 3, kRules - 1}) {
    const std::string name = "/merge-" + std::to_string(i) + ".cert";
    EXPECT_EQ(FileContents(folder / "certs" + name), FileContents(folder / "certs2" + name));
  }
}

TEST(Resumption, ChangedRulesAreProvedAgain) {
  const TemporaryFolder folder;
  const std::string verify = "verify --json " + (folder / "laws.rules") + " --resume " + (folder / "journal");
  WriteContents(folder / "laws.rules", kLaws);
  EXPECT_EQ(Rewright(verify).Json()["reused"], 0);
  auto again = Rewright(verify).Json();
  EXPECT_EQ(again["reused"], 3);
  EXPECT_EQ(again["proved"], 2);
  EXPECT_EQ(again["rules"][2]["verdict"], "refuted");
  EXPECT_EQ(again["rules"][2]["counterexample"]["obligation"], "elements differ");
  std::string changed = kLaws;
  changed.replace(changed.find("relu(x)\n"), 8, "relu(x) when rank(x) == 1\n");
  WriteContents(folder / "laws.rules", "# Comments change nothing.\n" + changed);
  EXPECT_EQ(Rewright(verify).Json()["reused"], 2);
  // Other limits are other questions.
  EXPECT_EQ(Rewright(verify + " --rule-limit 7").Json()["reused"], 0);
}

// Only what has no good record is proved; what is written is the file with good records.
TEST(Renewal, ProvesWhatIsStale) {
  const TemporaryFolder folder;
  WriteContents(folder / "laws.rules", kLaws);
  ASSERT_EQ(Rewright("verify " + (folder / "laws.rules") + " -o " + (folder / "proved.rules")).status, 0);
  const std::string proved = FileContents(folder / "proved.rules");
  std::string stale = proved;
  const size_t at = stale.find("prover=\"", stale.find("rule matmul-merge"));
  ASSERT_NE(at, std::string::npos) << stale;
  stale.replace(at + 8, 16, "0123456789abcdef");
  WriteContents(folder / "stale.rules", stale);
  const Outcome outcome =
      Rewright("verify " + (folder / "stale.rules") + " --renew --json -o " + (folder / "new.rules"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["kept"], 1);
  EXPECT_EQ(json["proved"], 2);
  EXPECT_EQ(json["rules"][0]["kept"], true);
  EXPECT_FALSE(json["rules"][1].contains("kept"));
  EXPECT_EQ(json["rules"][2]["verdict"], "refuted");
  EXPECT_EQ(FileContents(folder / "new.rules"), proved);
  EXPECT_EQ(Rewright("verify " + (folder / "stale.rules") + " --renew --certificates " + (folder / "c")).status, 2);
}

TEST(Resumption, AJournalMayEndInTheMiddleOfALine) {
  const TemporaryFolder folder;
  WriteContents(folder / "laws.rules", kLaws);
  const std::string verify =
      "verify --json --threads 1 " + (folder / "laws.rules") + " --resume " + (folder / "journal");
  Rewright(verify);
  const std::string journal = FileContents(folder / "journal");
  WriteContents(folder / "journal", journal.substr(0, journal.size() - 20));
  EXPECT_EQ(Rewright(verify).Json()["reused"], 2);
  EXPECT_EQ(Rewright(verify).Json()["reused"], 3);
}

TEST(Resumption, ALineThatWasAlteredIsNotBelieved) {
  const TemporaryFolder folder;
  WriteContents(folder / "laws.rules", kLaws);
  const std::string verify =
      "verify --json --threads 1 " + (folder / "laws.rules") + " --resume " + (folder / "journal");
  Rewright(verify);
  const std::string whole = FileContents(folder / "journal");
  for (const auto& [from, to] :
       {std::pair(R"("verdict":"refuted")", R"("verdict":"proved")"), std::pair(R"("max_rank":6)", R"("max_rank":99)"),
        std::pair(R"("key":")", R"("key":"0)")}) {
    std::string journal = whole;
    ASSERT_NE(journal.find(from), std::string::npos) << journal;
    WriteContents(folder / "journal", journal.replace(journal.find(from), std::string(from).size(), to));
    auto again = Rewright(verify).Json();
    EXPECT_EQ(again["reused"], 2) << to;
    EXPECT_EQ(again["proved"], 2) << to;
    EXPECT_EQ(again["rules"][2]["verdict"], "refuted") << to;
  }
}

TEST(Resumption, AnotherFileIsNotTakenForAJournal) {
  const TemporaryFolder folder;
  WriteContents(folder / "laws.rules", kLaws);
  WriteContents(folder / "other.rules", kLaws);
  const Outcome outcome = Rewright("verify " + (folder / "laws.rules") + " --resume " + (folder / "other.rules"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("other.rules:1: found another file, expected a journal"));
  EXPECT_EQ(FileContents(folder / "other.rules"), kLaws);
}

// ---------------------------------------------------------------- verdicts as data, errors of files

TEST(VerifyVerb, ARefutationTellsSidePlaceSizesAndValues) {
  const TemporaryFolder folder;
  WriteContents(folder / "false.rules",
                "rule exchange sub(x[n], y[n]) => sub(y, x)\n"
                "rule shape transpose(relu(x[m, n]), perm=[1, 0]) => relu(x)\n"
                "rule illegal relu(x[m, n]) => reshape(relu(x), shape=[m, m])\n");
  const Outcome outcome = Rewright("verify --json " + (folder / "false.rules"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["refuted"], 3);
  const auto exchange = json["rules"][0]["counterexample"];
  EXPECT_EQ(exchange["obligation"], "elements differ");
  EXPECT_EQ(exchange["output"], 0);
  ASSERT_EQ(exchange["inputs"].size(), 2u);
  const int64_t n = exchange["sizes"]["n"];
  const int64_t at = exchange["at"][0];
  EXPECT_LT(at, n);
  const double x = exchange["inputs"][0]["values"][at], y = exchange["inputs"][1]["values"][at];
  EXPECT_EQ(exchange["lhs"], x - y);
  EXPECT_EQ(exchange["rhs"], y - x);
  EXPECT_EQ(json["rules"][1]["counterexample"]["obligation"], "shapes differ");
  EXPECT_THAT(json["rules"][1]["counterexample"]["detail"].get<std::string>(), HasSubstr(" and "));
  EXPECT_EQ(json["rules"][2]["counterexample"]["obligation"], "the right side is not legal");
  EXPECT_THAT(json["rules"][2]["counterexample"]["detail"].get<std::string>(), HasSubstr("reshape"));
  const Outcome text = Rewright("verify " + (folder / "false.rules"));
  EXPECT_THAT(text.out, AllOf(HasSubstr("refuted  exchange"), HasSubstr("elements differ n="),
                              HasSubstr("on the left and"), HasSubstr("shapes differ"), HasSubstr("not legal")));
}

// An error in one rule leaves the others their verdicts.
TEST(VerifyVerb, AllErrorsOfAFileComeInOneRun) {
  const TemporaryFolder folder;
  WriteContents(folder / "bad.rules",
                "rule a relu(x) => rellu(x)\nrule b relu(x => x\nrule c add(x[n]) => y\nrule d relu(x) => x\n");
  const Outcome outcome = Rewright("verify " + (folder / "bad.rules"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("0 proved, 1 refuted, 0 unknown, 3 ill-formed; 1 not as expected"),
                    HasSubstr("error    a"), HasSubstr("bad.rules:1:19: found `rellu`, expected an operator"),
                    HasSubstr("bad.rules:2:15: found `=>`, expected `)`"),
                    HasSubstr("bad.rules:3:8: rule c: found 1 operands of add, expected 2"),
                    HasSubstr("bad.rules:3:21: rule c: found y, expected a variable"), HasSubstr("refuted  d"),
                    HasSubstr("\n           x f32[")));
  const Outcome written = Rewright("verify " + (folder / "bad.rules") + " -o " + (folder / "out.rules"));
  EXPECT_EQ(written.status, 2);
  EXPECT_THAT(written.err, HasSubstr("bad.rules:2:15: found `=>`, expected `)`"));
}

}  // namespace
}  // namespace rewright
