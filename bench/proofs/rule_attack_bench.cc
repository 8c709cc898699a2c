// Attacks what the records of rules say of rounding: hill climbing on the elements of leaves toward an overflow, a bit
// or an error that a class denies.
//
//   rule_attack_bench [--evaluations N] [--seed N] [--largest N] [--rule NAME] [--csv FILE] [FILE.rules ...]
//   rule_attack_bench --unranged [--seed N] [--rule NAME] [FILE.rules ...]
//
// Without files: substitutions/rules. Each rule is applied to graphs of its own left side, as matches are, at sizes
// that are drawn, up to --largest (4096) on one axis, in f64, f32, f16 and bf16 as far as its record has a class there.
// Both sides are computed by the reference interpreter. An evaluation is one element of one output, computed on both
// sides;
// --evaluations (10^6) are shared out evenly. Per class the record denies:
//
//   bits     (exact) an element has other bits, for any leaves; one NaN is as good as another
//   range    (all but risky; where the record has a class in 16 bits, with which new values are put down) leaves are
//            finite, all of the left side is, and a value that is not in `new=` is the first of the right side that is
//            not finite, or larger than its operands and all of the left side by more than kRoundingRoom, though errors
//            that `error` allows do not explain it; but for f16 an operator of several operations, or a sum, only
//            counts as `partial` where it is not finite: what it has inside may overflow in one order and not in
//            another
//   error    (all but exact and risky) the error of the right side is kRiskFactor (16 bits: kHalfRiskFactor) times what
//            is allowed: the largest of the left side's error, the rounding of its largest element, and what changes
//            of every leaf and of every value of the left side by a rounding do to it: the left side's error alone may
//            be small by luck, which a climb would find. The truth is the left side in f64, as exact as the right side
//            in f64 is equal to it; f64 itself has none
//   special  (exact, reassociating) leaves have a NaN or an infinity, other elements are of ordinary size, and one side
//            is finite where the other is not, in f64 as well: overflow of ordinary elements belongs to `range`
//
// Prints what was found and where; status 1 if anything was. --csv: a line for each rule and type, with the greatest
// ratio of errors and of ranges (the largest element of a value of the right side that is not new, over that of its
// operands and of all of the left side) that was climbed to.
//
// --unranged attacks nothing: it names the rules that a graph of f16 loses where nothing is known of its inputs and its
// weights are of ordinary size (0.5 to 2). Such a rule has a class there that is not used by default, or new values
// that its applications cannot show to fit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/proofs/attack_climb.h"
#include "bench/proofs/attacked_sides.h"
#include "core/base/status_macros.h"
#include "core/ir/index_value.h"
#include "substitutions/instance/instances.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/match/applier.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/refute/counterexample.h"

namespace rewright {
namespace {

using attack::Goal;
using attack::Rng;

constexpr int kDrawnStructures = 6;  // of a rule in one type, before structures repeat

struct Flags {
  double evaluations = 1e6;
  uint64_t seed = 1;
  int64_t largest = 4096;
  std::string rule;
  std::string csv;
  bool unranged = false;
  std::vector<std::string> files;
};

// A record without a class in 16 bits names no new values.
std::vector<Goal> GoalsOf(RuleClass rule_class, const ProofRecord& proof) {
  std::vector<Goal> goals;
  switch (rule_class) {
    case RuleClass::kExact: goals = {Goal::kBits}; break;
    case RuleClass::kReassociating: goals = {Goal::kRange, Goal::kError, Goal::kSpecial}; break;
    case RuleClass::kFiniteOnly: goals = {Goal::kRange, Goal::kError}; break;
    case RuleClass::kNumericallyRisky: break;
  }
  if (!proof.halves) goals.erase(std::remove(goals.begin(), goals.end(), Goal::kRange), goals.end());
  return goals;
}

// Sizes at which the rule may be applied: small ones, of which one axis is made large as often as not.
std::optional<std::vector<int64_t>> DrawSymbols(const RuleInstance& instance, int64_t largest, Rng& rng) {
  verifier::CounterexampleSearch search(instance, rng());
  std::vector<std::vector<int64_t>> drawn = search.Draw(6);
  if (drawn.empty()) return std::nullopt;
  std::vector<int64_t> symbols = drawn[rng() % drawn.size()];
  if (symbols.empty() || rng() % 2 == 0) return symbols;
  std::vector<int64_t> large = symbols;
  const size_t at = rng() % symbols.size();
  if (!instance.symbols[at].is_size) return symbols;
  large[at] = std::max<int64_t>(
      1, static_cast<int64_t>(std::exp2(std::uniform_real_distribution<double>(2, std::log2(largest))(rng))));
  const bool legal = std::all_of(instance.conditions.begin(), instance.conditions.end(),
                                 [&](const ExprPtr& condition) { return EvalCond(condition, large).value_or(false); });
  return legal ? large : symbols;
}

struct Line {
  std::string file, rule, type, rule_class;
  int64_t evaluations = 0;
  int graphs = 0;
  double error = 0, range = 0;
  bool partial = false;
  std::string found;
};

class Program {
 public:
  explicit Program(Flags flags) : flags_(std::move(flags)) {}

  int Run() {
    if (const absl::Status read = ReadRules(); !read.ok()) {
      std::fprintf(stderr, "%s\n", std::string(read.message()).c_str());
      return 2;
    }
    if (flags_.unranged) return ReportUnranged();
    int64_t tasks = 0;
    for (const auto& [file, rule] : rules_) tasks += static_cast<int64_t>(TypesOf(*rule).size());
    const double share = flags_.evaluations / std::max<double>(1, static_cast<double>(tasks));
    for (const auto& [file, rule] : rules_) {
      for (const auto& [name, type] : TypesOf(*rule)) lines_.push_back(AttackRule(file, *rule, name, type, share));
    }
    return Report();
  }

 private:
  using Types = std::vector<std::pair<std::string, std::optional<DType>>>;

  absl::Status ReadRules() {
    if (flags_.files.empty()) {
      for (const auto& entry : std::filesystem::directory_iterator("substitutions/rules")) {
        if (entry.path().extension() == ".rules") flags_.files.push_back(entry.path().string());
      }
      std::sort(flags_.files.begin(), flags_.files.end());
    }
    std::set<std::string> names;
    for (const std::string& file : flags_.files) {
      std::ifstream in(file);
      if (!in.good()) return absl::NotFoundError(absl::StrCat(file, ": cannot be read"));
      std::stringstream text;
      text << in.rdbuf();
      ASSIGN_OR_RETURN(const std::vector<Rule> rules, ParseRules(text.str(), file));
      for (const Rule& rule : rules) {
        // The same rule stands in several files.
        if (!rule.proof || !names.insert(absl::StrCat(rule.name, " ", rule.proof->spec_hash)).second) continue;
        if (!flags_.rule.empty() && rule.name != flags_.rule) continue;
        for (const Rule& own : OperatorRules(rule)) {
          auto compiled = CompileRule(own);
          if (compiled.ok()) {
            rules_.emplace_back(file, *std::move(compiled));
          } else {
            ++skipped_;
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Types as which the rule's floats are run, by name; `own`: in those that it names itself.
  static Types TypesOf(const CompiledRule& rule) {
    Types types;
    const ProofRecord& proof = *rule.rule().proof;
    if (!GoalsOf(proof.rule_class, proof).empty()) types = {{"f32", std::nullopt}, {"f64", DType::kFloat64}};
    if (proof.halves && !GoalsOf(*proof.halves, proof).empty()) {
      types.emplace_back("f16", DType::kFloat16);
      types.emplace_back("bf16", DType::kBFloat16);
    }
    return types;
  }

  Line AttackRule(const std::string& file, const CompiledRule& rule, const std::string& name, std::optional<DType> type,
                  double share) {
    const ProofRecord& proof = *rule.rule().proof;
    const RuleClass rule_class = type && IsHalf(*type) ? *proof.halves : proof.rule_class;
    Line line{file, rule.name(), name, RuleClassName(rule_class), 0, 0, 0, 0, false, ""};
    Rng rng(flags_.seed * 1000003 + std::hash<std::string>()(rule.name() + name));
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances = InstancesOf(rule, rng);
    if (instances.empty()) return line;
    const std::vector<Goal> goals = GoalsOf(rule_class, proof);
    for (int tries = 0;
         tries < 4 * kDrawnStructures || (line.graphs > 0 && static_cast<double>(line.evaluations) < share); ++tries) {
      if (static_cast<double>(line.evaluations) >= share || !line.found.empty()) break;
      const auto& [structure, instance] = instances[static_cast<size_t>(tries) % instances.size()];
      const std::optional<std::vector<int64_t>> symbols = DrawSymbols(instance, flags_.largest, rng);
      if (!symbols) continue;
      const std::optional<RandomApplication> application = ApplicationAt(rule, structure, instance, *symbols);
      if (!application) continue;
      const std::optional<attack::Sides> sides = attack::MakeSides(rule, instance, *application, type);
      if (!sides) continue;
      ++line.graphs;
      for (int climb = 0; climb < 4 && line.found.empty(); ++climb) {
        for (Goal goal : goals) {
          const auto [best, evaluations, partial] = attack::ClimbToward(goal, *sides, rng);
          line.evaluations += evaluations;
          line.partial |= partial;
          if (goal == Goal::kError) line.error = std::max(line.error, best.score);
          if (goal == Goal::kRange) line.range = std::max(line.range, best.score);
          if (best.denied && line.found.empty()) {
            const char* const denied = attack::kGoalNames[static_cast<int>(goal)];
            line.found = absl::StrCat(denied, ": ", best.what, "; ", sides->description);
          }
        }
      }
    }
    return line;
  }

  // Names the rules that f16 loses without known ranges; status 0.
  int ReportUnranged() const {
    std::map<std::string, std::map<std::string, std::string>> reasons;  // by file and rule; of any of its operators
    for (const auto& [file, rule] : rules_) {
      const std::string family = rule->name().substr(0, rule->name().find(':'));
      std::string& why = reasons[file][family];
      if (why.empty()) why = WhyLostInF16(*rule);
    }
    for (const auto& [file, rules] : reasons) {
      int lost = 0;
      for (const auto& [name, why] : rules) {
        if (why.empty()) continue;
        ++lost;
        std::printf("%s: %s: %s\n", file.c_str(), name.c_str(), why.c_str());
      }
      std::printf("%s: %d of %d rules are lost in f16 where no range is known (%.0f %%)\n", file.c_str(), lost,
                  static_cast<int>(rules.size()), 100.0 * lost / static_cast<double>(rules.size()));
    }
    return 0;
  }

  // Empty if the rule is used in all of some applications in f16.
  std::string WhyLostInF16(const CompiledRule& rule) const {
    const ProofRecord& proof = *rule.rule().proof;
    const RuleClass rule_class = proof.halves.value_or(
        proof.rule_class == RuleClass::kExact ? RuleClass::kReassociating : RuleClass::kNumericallyRisky);
    if (rule_class == RuleClass::kNumericallyRisky || rule_class == RuleClass::kFiniteOnly) {
      return proof.halves ? absl::StrCat("is ", RuleClassName(rule_class)) : "has no class there";
    }
    if (proof.new_values.empty()) return "";
    Rng rng(flags_.seed);
    for (const auto& [structure, instance] : InstancesOf(rule, rng)) {
      const std::optional<std::vector<int64_t>> symbols = DrawSymbols(instance, /*largest=*/16, rng);
      if (!symbols) continue;
      const std::optional<RandomApplication> application = ApplicationAt(rule, structure, instance, *symbols);
      if (!application) continue;
      const std::optional<attack::TypedMatch> given = attack::MatchInType(*application, DType::kFloat16);
      if (!given) continue;
      Numerics numerics;
      const absl::Status made = BuildReplacement(given->left, given->match, &numerics).status();
      if (absl::IsOutOfRange(made)) return std::string(made.message());
    }
    return "";
  }

  // Some of the rule's instances, drawn.
  static std::vector<std::pair<StructuralAssignment, RuleInstance>> InstancesOf(const CompiledRule& rule, Rng& rng) {
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances;
    int64_t met = 0;
    DomainLimits limits = SmallLimits(rule);
    const absl::Status status =
        ForEachStructuralAssignment(rule, limits, [&](const StructuralAssignment& structure, RuleInstance instance) {
          ++met;
          if (instances.size() < kDrawnStructures) {
            instances.emplace_back(structure, std::move(instance));
          } else if (const uint64_t at = rng() % static_cast<uint64_t>(met); at < kDrawnStructures) {
            instances[at] = {structure, std::move(instance)};
          }
          return absl::OkStatus();
        });
    if (!status.ok()) instances.clear();
    return instances;
  }

  int Report() const {
    int64_t evaluations = 0;
    int found = 0, attacked = 0;
    for (const Line& line : lines_) {
      evaluations += line.evaluations;
      attacked += line.graphs > 0 ? 1 : 0;
      if (line.found.empty()) continue;
      ++found;
      std::printf("%s: %s in %s, %s: %s\n", line.file.c_str(), line.rule.c_str(), line.type.c_str(),
                  line.rule_class.c_str(), line.found.c_str());
    }
    std::printf(
        "%d rules (%d not compiled), %d of %d pairs of a rule and a type attacked, %lld evaluations: %d denied by "
        "their class\n",
        static_cast<int>(rules_.size()), skipped_, attacked, static_cast<int>(lines_.size()),
        static_cast<long long>(evaluations), found);
    if (!flags_.csv.empty()) {
      std::ofstream out(flags_.csv);
      out << "file,rule,type,class,graphs,evaluations,error,range,partial,found\n";
      for (const Line& line : lines_) {
        std::string found_text = line.found;
        std::replace(found_text.begin(), found_text.end(), ',', ' ');
        out << line.file << ',' << line.rule << ',' << line.type << ',' << line.rule_class << ',' << line.graphs << ','
            << line.evaluations << absl::StrFormat(",%.3g,%.6g,", line.error, line.range) << (line.partial ? "yes" : "")
            << ',' << found_text << '\n';
      }
    }
    return found > 0 ? 1 : 0;
  }

  Flags flags_;
  std::vector<std::pair<std::string, std::shared_ptr<const CompiledRule>>> rules_;
  std::vector<Line> lines_;
  int skipped_ = 0;
};

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    bool good = true;
    if (arg == "--evaluations") {
      good = absl::SimpleAtod(value, &flags.evaluations);
    } else if (arg == "--seed") {
      good = absl::SimpleAtoi(value, &flags.seed);
    } else if (arg == "--largest") {
      good = absl::SimpleAtoi(value, &flags.largest) && flags.largest >= 8;
    } else if (arg == "--rule") {
      flags.rule = value;
    } else if (arg == "--csv") {
      flags.csv = value;
    } else if (arg == "--unranged") {
      flags.unranged = true;
      continue;
    } else {
      flags.files.push_back(arg);
      continue;
    }
    if (!good || i + 1 >= argc) {
      std::fprintf(stderr, "rule_attack_bench: %s: found `%s`, expected a value\n", arg.c_str(), value.c_str());
      return 2;
    }
    ++i;
  }
  return Program(flags).Run();
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
