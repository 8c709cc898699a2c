// Measures the cost of a proof: CPU time of every rule of the repository, the search for a counterexample included.
//
//   verifier_bench [--csv] [FILE.rules ...]
//
// Without files: substitutions/rules, tests/verifier and tests/cases/rules. Prints a table by verdict (median, 99th
// percentile, maximum), the slowest rules, and the machine and the build. `--csv` prints one line for every
// rule instead. A rule of the repository's own set is proved in its whole domain, one of a test at the ranks that its
// shapes need, and at 4.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct Timing {
  std::string rule;
  std::string file;
  std::string verdict;
  int instances = 0;
  double ms = 0;
};

double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

void PrintRow(const std::string& name, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  double total = 0;
  for (double x : ms) total += x;
  std::printf("%-10s %5zu rules  median %8.1f ms  p99 %8.1f ms  max %8.1f ms  total %7.1f s\n", name.c_str(), ms.size(),
              Quantile(ms, 0.5), Quantile(ms, 0.99), ms.back(), total / 1000);
}

std::vector<std::string> RuleFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"substitutions/rules", "tests/verifier", "tests/cases/rules"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".rules") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

int Main(int argc, char** argv) {
  std::vector<std::string> files;
  bool csv = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--csv") {
      csv = true;
    } else {
      files.push_back(arg);
    }
  }
  if (files.empty()) files = RuleFiles();
  std::vector<Timing> timings;
  for (const std::string& file : files) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    const auto rules = ParseRules(text.str(), file);
    if (!in.good() || !rules.ok()) {
      std::fprintf(stderr, "%s: %s\n", file.c_str(), rules.ok() ? "cannot be read" : rules.status().ToString().c_str());
      return 2;
    }
    for (const Rule& rule : *rules) {
      RuleProofOptions options;
      if (file.find("substitutions/rules") == std::string::npos) {
        const auto compiled = CompileRule(rule);
        if (compiled.ok()) options.limits = SmallLimits(**compiled);
      }
      const RuleVerdict verdict = ProveRule(rule, options);
      timings.push_back({rule.name, file, VerdictName(verdict.verdict), verdict.instances, verdict.cpu_ms});
      if (csv) {
        std::printf("%s,%s,%s,%d,%.2f\n", file.c_str(), rule.name.c_str(), timings.back().verdict.c_str(),
                    verdict.instances, verdict.cpu_ms);
        std::fflush(stdout);
      }
    }
  }
  if (csv) return 0;
  std::map<std::string, std::vector<double>> by_verdict;
  std::vector<double> all;
  for (const Timing& t : timings) {
    by_verdict[t.verdict].push_back(t.ms);
    all.push_back(t.ms);
  }
  std::printf("prover %016llx; CPU time of one thread\n", static_cast<unsigned long long>(ProverHash()));
  for (const auto& [verdict, ms] : by_verdict) PrintRow(verdict, ms);
  PrintRow("all", all);
  std::sort(timings.begin(), timings.end(), [](const Timing& a, const Timing& b) { return a.ms > b.ms; });
  std::printf("slowest:\n");
  for (size_t i = 0; i < std::min<size_t>(15, timings.size()); ++i) {
    const Timing& t = timings[i];
    std::printf("  %9.1f ms  %-9s %4d instances  %s (%s)\n", t.ms, t.verdict.c_str(), t.instances, t.rule.c_str(),
                t.file.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
