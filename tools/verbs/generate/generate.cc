// rewright generate -o OUT.rules: a verified rule set found by machine, or combined from several.

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "runtime/comm/mpi.h"
#include "search/resources.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "substitutions/generate/enumerate/ranks.h"
#include "substitutions/generate/enumerate/walk.h"
#include "substitutions/generate/select/counterexamples.h"
#include "substitutions/generate/select/reverse_rules.h"
#include "substitutions/generate/select/select_rules.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/outputs.h"
#include "tools/program/progress.h"
#include "tools/program/verb.h"
#include "tools/verbs/generate/generate_flags.h"
#include "tools/verbs/generate/mined.h"
#include "tools/verbs/generate/without_search.h"
#include "tools/verbs/rules/rules.h"
#include "tools/verbs/train/ranks.h"

namespace rewright {
namespace {

// Leaves the first space that has all operators of --ops.
absl::Status KeepSpaceOf(const GenerateFlags& flags, std::vector<generate::Space>* spaces) {
  const int inputs = static_cast<int>(flags.inputs);
  const auto lacks = [&](generate::Space space) { return !generate::Restrict(flags.ops, inputs, &space).ok(); };
  const auto found = std::find_if_not(spaces->begin(), spaces->end(), lacks);
  if (found != spaces->end()) {
    *spaces = {*found};
    return absl::OkStatus();
  }
  std::string refusals;
  for (generate::Space& space : *spaces) {
    absl::StrAppend(&refusals, refusals.empty() ? "" : "; ", generate::Restrict(flags.ops, inputs, &space).message());
  }
  return absl::InvalidArgumentError(absl::StrCat("--ops: ", refusals));
}

// The spaces of the models or the preset; of that with --ops only the first that has them, with --max-ops alone the
// first.
absl::StatusOr<std::vector<generate::Space>> SpacesOf(const GenerateFlags& flags, Session& session) {
  const bool mined = !flags.models.empty();
  absl::StatusOr<std::vector<generate::Space>> spaces =
      mined ? SpacesOfModels(flags, session) : generate::Preset(flags.preset);
  if (!spaces.ok() && !mined) {
    return absl::InvalidArgumentError(absl::StrCat("--preset: ", std::string(spaces.status().message())));
  }
  RETURN_IF_ERROR(spaces.status());
  if (!flags.space.empty()) {
    std::vector<std::string> names;
    for (const generate::Space& space : *spaces) names.push_back(space.name);
    std::erase_if(*spaces, [&](const generate::Space& space) { return space.name != flags.space; });
    if (spaces->empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--space: found `", flags.space, "`, expected a space of ",
                                                     mined ? "the models" : flags.preset, ": ",
                                                     absl::StrJoin(names, ", ")));
    }
  }
  if (!mined && !flags.ops.empty()) RETURN_IF_ERROR(KeepSpaceOf(flags, &*spaces));
  if (!mined && flags.max_ops > 0) spaces->resize(1);
  for (generate::Space& space : *spaces) {
    if (absl::Status limited = generate::Restrict(flags.ops, static_cast<int>(flags.inputs), &space); !limited.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--ops: ", limited.message()));
    }
    if (!mined && flags.max_ops > 0) space.max_ops = static_cast<int>(flags.max_ops);
  }
  return spaces;
}

class Generation {
 public:
  // `given`: rules whose consequences are left out.
  Generation(const GenerateFlags& flags, std::vector<generate::Space> spaces,
             std::vector<std::shared_ptr<const Matcher>> given, Session& session)
      : flags_(flags),
        spaces_(std::move(spaces)),
        given_(std::move(given)),
        session_(session),
        start_(std::chrono::steady_clock::now()) {}

  absl::StatusOr<Answer> Run() {
    bool complete = true;
    for (const generate::Space& space : spaces_) {
      if (flags_.count_raw) {
        const uint64_t raw = generate::CountRawGraphs(space, space.max_ops);
        session_.console.Result(absl::StrFormat("raw:        %d graphs in every order and naming", raw));
        raw_ += raw;
      }
      const absl::StatusOr<bool> searched = SearchSpace(space);
      if (!searched.ok()) return searched.status();
      complete = *searched;
      if (!complete) break;
    }
    if (complete && !flags_.count_only) {
      const auto add = [this]() -> absl::StatusOr<std::vector<uint64_t>> {
        RETURN_IF_ERROR(AddReversed());
        return std::vector<uint64_t>{stop_ ? 0u : 1u};
      };
      ASSIGN_OR_RETURN(const std::vector<uint64_t> words, ranks_.FromZero("reversed rules", add));
      complete = words[0] != 0;
    }
    if (ranks_.rank() != 0) return complete ? Answer::kYes : Answer::kNo;
    if (!flags_.output.empty()) {
      std::vector<std::string> header = {CommandOf(flags_, session_)};
      if (!complete) header.push_back("Stopped before the end.");
      RETURN_IF_ERROR(WriteOutput(flags_.output, PrintRules(header, rules_)));
    }
    if (!complete) session_.console.Warning("stopped before the end");
    ReportTotal(complete);
    return complete ? Answer::kYes : Answer::kNo;
  }

 private:
  // Adds the rules of a space. Begins again with counterexamples where refuted candidates leave some; what counts is
  // the last time. False: stopped.
  absl::StatusOr<bool> SearchSpace(generate::Space space) {
    enumerate_s_ = prove_s_ = 0;
    for (int restart = 0;; ++restart) {
      absl::StatusOr<generate::FoundPairs> found = Find(space, FolderOf(space, restart));
      if (!found.ok()) return found.status();
      generate::Selection selection;
      std::vector<generate::Counterexample> counterexamples;
      bool complete = found->complete;
      if (complete && !flags_.count_only) {
        const auto select = [&]() -> absl::StatusOr<std::vector<uint64_t>> {
          const double before = ProcessCpuSeconds();
          ASSIGN_OR_RETURN(selection, Select(space, found->pairs, FolderOf(space, restart)));
          std::vector<generate::Counterexample> examples;
          if (selection.complete && restart < generate::kMaxRestarts) {
            examples = generate::FindCounterexamples(space, selection.refuted,
                                                     session_.flags.seed + static_cast<uint64_t>(restart));
          }
          prove_s_ += ProcessCpuSeconds() - before;
          std::vector<uint64_t> words = generate::ToWords(examples);
          words.push_back(selection.complete ? 1 : 0);
          return words;
        };
        ASSIGN_OR_RETURN(std::vector<uint64_t> words, ranks_.FromZero("the proofs", select));
        complete = words.back() != 0;
        words.pop_back();
        counterexamples = generate::FromWords(space, words);
      }
      if (complete && !counterexamples.empty()) {
        space.counterexamples.insert(space.counterexamples.end(), counterexamples.begin(), counterexamples.end());
        if (ranks_.rank() == 0) ReportRestart(space, selection, counterexamples.size());
        continue;
      }
      if (ranks_.rank() == 0) {
        for (Rule& rule : selection.rules) rules_.push_back(std::move(rule));
        Report(space, *found, selection);
      }
      return complete;
    }
  }

  // Adds what gains when it is read from right to left.
  absl::Status AddReversed() {
    generate::ReverseOptions options;
    options.threads = Threads();
    options.seed = session_.flags.seed;
    options.rule_limit_s = flags_.rule_limit;
    options.prefix = Prefix();
    options.stop = &stop_;
    options.progress = [this] { CheckTime(); };
    const double before = ProcessCpuSeconds();
    absl::StatusOr<std::vector<Rule>> reversed = generate::ReverseRules(rules_, options);
    if (!reversed.ok()) return reversed.status();
    const double cpu_s = ProcessCpuSeconds() - before;
    reversed_ = reversed->size();
    prove_total_s_ += cpu_s;
    session_.console.Result(absl::StrFormat("reversed:   %s that gain from right to left; %.2f s of CPU time",
                                            Counted(reversed_, "rule"), cpu_s));
    for (Rule& rule : *reversed) rules_.push_back(std::move(rule));
    return absl::OkStatus();
  }

  // Begins the rules' names, so that files may be loaded together.
  std::string Prefix() const { return flags_.models.empty() ? flags_.preset + "-" : "mined-"; }
  double Elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  int Threads() const { return NumThreads(session_.flags.threads); }
  // The folder in which a space's progress is kept; empty without --resume.
  std::string FolderOf(const generate::Space& space, int restart) const {
    if (flags_.resume.empty()) return "";
    const std::string folder = spaces_.size() == 1 ? flags_.resume : absl::StrCat(flags_.resume, "/", space.name);
    return restart == 0 ? folder : absl::StrCat(folder, "/again", restart);
  }
  // An interrupt, or the time limit.
  void CheckTime() {
    if (InterruptGuard::flag() || (flags_.time_limit > 0 && Elapsed() > flags_.time_limit)) stop_ = true;
  }

  // `folder`: of its journals, or empty.
  absl::StatusOr<generate::FoundPairs> Find(const generate::Space& space, const std::string& folder) {
    Progress progress(session_.console, "enumerate");
    generate::FindOptions options;
    options.seed = session_.flags.seed;
    options.memory_limit = flags_.memory_limit;
    options.stop = &stop_;
    options.threads = ranks_.size() > 1 ? 1 : Threads();
    options.ranks = &ranks_;
    options.sample = static_cast<uint64_t>(std::max<int64_t>(flags_.sample, 1));
    if (!folder.empty()) {
      RETURN_IF_ERROR(MakeFolder(folder));
      options.journal = folder;
    }
    const double began = Elapsed();
    double size_began = began;
    int size = 0;
    options.progress = [&](const generate::FindProgress& now) {
      CheckTime();
      if (ranks_.rank() != 0) return;
      if (size != now.size) size_began = Elapsed();
      size = now.size;
      // There is no telling how many larger graphs there are, so the time left is that of the largest ones.
      const bool largest = now.size == space.max_ops;
      const double left = (Elapsed() - size_began) * (1 / std::max(now.fraction, 1e-6) - 1);
      const generate::MatchCounts& counts = now.counts;
      progress.Update(largest ? now.fraction : -1,
                      absl::StrFormat("size %d of %d  %d graphs (%.0f/s)  %d distinct  %d matches  %.0f MB%s", now.size,
                                      space.max_ops, counts.graphs,
                                      static_cast<double>(counts.graphs) / std::max(Elapsed() - began, 1e-3),
                                      counts.distinct, counts.matches, static_cast<double>(now.bytes) / 1e6,
                                      largest ? absl::StrFormat("  %.0f s left", left) : ""));
    };
    const double before = ProcessCpuSeconds();
    absl::StatusOr<generate::FoundPairs> found = generate::FindPairs(space, options);
    enumerate_s_ += ProcessCpuSeconds() - before;
    enumerate_peak_ = PeakResidentBytes();
    return found;
  }

  absl::StatusOr<generate::Selection> Select(const generate::Space& space, const std::vector<generate::Pair>& pairs,
                                             const std::string& folder) {
    Progress progress(session_.console, "prove");
    generate::SelectOptions options;
    options.threads = Threads();
    options.seed = session_.flags.seed;
    options.rule_limit_s = flags_.rule_limit;
    options.stop = &stop_;
    if (!folder.empty()) options.journal = absl::StrCat(folder, "/selection.journal");
    options.prefix = Prefix();
    options.known = rules_;
    options.given = given_;
    const double began = Elapsed();
    options.progress = [&](const generate::SelectCounts& counts) {
      CheckTime();
      const double fraction =
          counts.candidates == 0 ? 1 : static_cast<double>(counts.done) / static_cast<double>(counts.candidates);
      const double left = (Elapsed() - began) * (1 / std::max(fraction, 1e-6) - 1);
      progress.Update(fraction,
                      absl::StrFormat("%d of %d candidates  %d kept  %d derivable  %d refuted  %d unknown  "
                                      "%.0f MB  %.0f s left",
                                      counts.done, counts.candidates, counts.kept, counts.derivable, counts.refuted,
                                      counts.unknown, static_cast<double>(ResidentBytes()) / 1e6, left));
    };
    return generate::SelectRules(space, pairs, options);
  }

  void ReportRestart(const generate::Space& space, const generate::Selection& selection, size_t counterexamples) {
    counterexamples_ += counterexamples;
    session_.console.Result(absl::StrFormat("again:      %s, refuted candidates: %d, counterexamples of theirs: %d",
                                            space.name, selection.counts.refuted, counterexamples));
    if (!flags_.explain) return;
    for (const std::string& line : selection.explanations) {
      if (absl::StartsWith(line, "refuted")) session_.console.Result(line);
    }
  }

  void Report(const generate::Space& space, const generate::FoundPairs& found, const generate::Selection& selection) {
    Console& console = session_.console;
    if (spaces_.size() > 1) console.Result(absl::StrCat("space:      ", space.name));
    const generate::MatchCounts& counts = found.counts;
    const generate::SelectCounts& selected = selection.counts;
    console.Result(absl::StrFormat(
        "enumerated: %d graphs of up to %d operators, %d reducible; of the others %d distinct, %d equal to another; "
        "%.2f s of CPU time, %.0f MB",
        counts.graphs, space.max_ops, counts.reducible, counts.distinct, counts.matches, enumerate_s_,
        static_cast<double>(enumerate_peak_) / 1e6));
    console.Result(absl::StrFormat(
        "pairs:      %d (%d congruent, %d separate, %d instances, %d without inputs; %d collisions; %d passes)",
        found.pairs.size(), counts.congruent, counts.separate, counts.instances, counts.constant, found.collisions,
        found.passes));
    if (!flags_.count_only) {
      console.Result(absl::StrFormat("candidates: %d (%d pairs of no use as rules, %d stated by others)",
                                     selected.candidates, selected.unstated, selected.repeated));
      console.Result(absl::StrFormat(
          "rules:      %d kept; %d derivable, %d special, %d refuted, %d unknown; %.2f s of CPU time", selected.kept,
          selected.derivable, selected.special, selected.refuted, selected.unknown, prove_s_));
    }
    if (flags_.explain) {
      for (const std::string& line : selection.explanations) console.Result(line);
    }
    counts_ += counts;
    selected_ += selected;
    collisions_ += found.collisions;
    pairs_ += found.pairs.size();
    enumerate_total_s_ += enumerate_s_;
    prove_total_s_ += prove_s_;
  }

  void ReportTotal(bool complete) {
    Console& console = session_.console;
    if (spaces_.size() > 1) {
      console.Result(absl::StrFormat("all:        %d graphs, %d candidates, %d rules; %.2f s of CPU time",
                                     counts_.graphs, selected_.candidates, rules_.size(),
                                     enumerate_total_s_ + prove_total_s_));
    }
    Json& json = console.json();
    json["graphs"] = counts_.graphs;
    if (flags_.count_raw) json["raw_graphs"] = raw_;
    json["reducible"] = counts_.reducible;
    json["distinct"] = counts_.distinct;
    json["matches"] = counts_.matches;
    json["collisions"] = collisions_;
    json["pairs"] = pairs_;
    json["candidates"] = selected_.candidates;
    json["counterexamples"] = counterexamples_;
    json["refuted"] = selected_.refuted;
    json["unknown"] = selected_.unknown;
    json["special"] = selected_.special;
    json["derivable"] = selected_.derivable;
    json["kept"] = selected_.kept;
    json["reversed"] = reversed_;
    json["complete"] = complete;
    json["enumerate_cpu_seconds"] = enumerate_total_s_;
    json["prove_cpu_seconds"] = prove_total_s_;
    json["statements_cpu_seconds"] = selected_.state_s;
    json["derivability_cpu_seconds"] = selected_.derive_s;
    json["proofs_cpu_seconds"] = selected_.prove_s;
    json["classes_cpu_seconds"] = selected_.classify_s;
    json["enumerate_peak_rss_bytes"] = enumerate_peak_;
    json["peak_rss_bytes"] = PeakResidentBytes();
  }

  const GenerateFlags& flags_;
  const std::vector<generate::Space> spaces_;
  const std::vector<std::shared_ptr<const Matcher>> given_;
  Session& session_;
  generate::Ranks& ranks_ = generate::Ranks::World();
  const std::chrono::steady_clock::time_point start_;
  std::atomic<bool> stop_{false};
  uint64_t raw_ = 0;
  size_t reversed_ = 0;
  std::vector<Rule> rules_;
  double enumerate_s_ = 0, prove_s_ = 0;  // of the space at hand; all others are totals
  generate::MatchCounts counts_;
  generate::SelectCounts selected_;
  uint64_t collisions_ = 0, pairs_ = 0, counterexamples_ = 0;
  double enumerate_total_s_ = 0, prove_total_s_ = 0;
  int64_t enumerate_peak_ = 0;
};

absl::StatusOr<Answer> Generate(const GenerateFlags& flags, Session& session) {
  const InterruptGuard guard;
  if (!flags.combine.empty()) return Combine(flags, session);
  if (flags.models.empty() && flags.preset == generate::kDefinitionsPreset) return Definitions(flags, session);
  LoadOptions all;
  all.allow_risky = all.allow_finite_only = true;
  ASSIGN_OR_RETURN(const RuleSet given, RuleSet::FromFiles(flags.base, all));
  absl::StatusOr<std::vector<generate::Space>> spaces = SpacesOf(flags, session);
  if (!spaces.ok()) return spaces.status();
  if (flags.output.empty() && !flags.count_only) {
    return absl::InvalidArgumentError("-o: the file for the rules is missing (or --count-only)");
  }
  if (flags.count_only && !flags.output.empty()) {
    return absl::InvalidArgumentError("--count-only: proves nothing that -o could write");
  }
  RETURN_IF_ERROR(CheckRulesOutput(flags, session));
  ProcessRanks().set_timeout(flags.timeout);
  return OnProcessRanks("generate", ProcessRanks(), session.console,
                        [&] { return Generation(flags, *std::move(spaces), given.matchers(), session).Run(); });
}

}  // namespace

Action DeclareGenerate(CommandLine& line) {
  auto flags = std::make_shared<GenerateFlags>();
  line.AddOutputPath("-o,--output", &flags->output, "Write the proved rules to this file; - is standard output")
      .Type("OUT.rules");
  const Flag combine = line.Add("--combine", &flags->combine,
                                "No search: of these files of proved rules, in their order, those that a search has "
                                "use for; the first file's are given, or those of --base")
                           .Type("FILE...");
  line.Add("--base", &flags->base, "Files of proved rules that are given: what follows from them is left out")
      .Type("FILE...")
      .Map(PathOfRules);
  const Flag from = line.Add("--from", &flags->models,
                             "In place of a preset: the operators, attributes and inputs of subgraphs that are "
                             "frequent in these models")
                        .Type("MODEL.onnx...")
                        .Excludes(combine);
  AddReading(line, &flags->dims, &flags->fold_defaults).Needs(from);
  line.AddInt("--min-count", &flags->min_count, 1, 1'000'000'000,
              "For --from: how often a subgraph occurs at least (default 2)")
      .Needs(from);
  line.AddInt("--max-spaces", &flags->max_spaces, 1, 1'000'000,
              "For --from: spaces at most, of the most frequent subgraphs (default 24)")
      .Needs(from);
  line.Add("--preset", &flags->preset,
           absl::StrCat("The operators, attributes and inputs: ", absl::StrJoin(generate::PresetNames(), ", "),
                        " (default taso)"))
      .Type("NAME")
      .Excludes(from)
      .Excludes(combine);
  line.Add("--space", &flags->space, "Of the preset's spaces only this one").Type("NAME").Excludes(combine);
  line.Add("--ops", &flags->ops, "Of its operators only these, by the names of --count-only's list or of core")
      .SplitAt(',')
      .Type("LIST")
      .Excludes(combine);
  line.AddInt("--max-ops", &flags->max_ops, 1, generate::kMaxOps,
              absl::StrCat("Operators in a graph, 1 to ", generate::kMaxOps, " (default: the preset's; 3 with --from)"))
      .Excludes(combine);
  line.AddInt("--inputs", &flags->inputs, 1, generate::kMaxInputs,
              "Inputs of each kind at most (default: the preset's)")
      .Excludes(combine);
  line.AddOutputPath("--resume", &flags->resume, "Go on from this folder, and keep what is found there")
      .Type("DIR")
      .Excludes(combine);
  line.AddSeconds("--time-limit", &flags->time_limit, kLeastSeconds, "Stop after so many seconds, with what is found")
      .Excludes(combine);
  line.AddBytes("--memory-limit", &flags->memory_limit,
                "Memory for graphs and fingerprints, such as 4G; kept by going through the graphs several times")
      .Excludes(combine);
  line.AddSeconds("--rule-limit", &flags->rule_limit, kLeastSeconds,
                  "Seconds of work for the proof of a rule (default 1; see docs/verifier.md)")
      .Excludes(combine);
  line.AddSeconds("--timeout", &flags->timeout, 0.1,
                  "Seconds that a process waits for another one before all of them end (default 3600)");
  line.AddSwitch("--explain", &flags->explain, "Say of each candidate that is dropped which rules derive it, or why");
  line.AddSwitch("--count-raw", &flags->count_raw, "Also count the graphs in every order and naming, connected or not")
      .Excludes(combine);
  const Flag count =
      line.AddSwitch("--count-only", &flags->count_only, "Enumerate and match, prove nothing").Excludes(combine);
  line.AddInt("--sample", &flags->sample, 1, 1'000'000'000,
              "With --count-only: of the largest graphs only every Nth part, to estimate what all would take")
      .Needs(count);
  return [flags](Session& session) { return Generate(*flags, session); };
}

}  // namespace rewright
