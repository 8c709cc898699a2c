#include "tools/program/program.h"

#include <omp.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "core/tensor/memory.h"
#include "tools/program/flags.h"
#include "tools/program/suggest.h"
#include "tools/program/version.h"

namespace rewright {
namespace {

constexpr int kBadInput = 2;
constexpr int kInternalFault = 3;
constexpr int kInterrupted = 130;  // as a shell reports SIGINT

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kCancelled: return kInterrupted;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted: return kInternalFault;
    default: return kBadInput;
  }
}

void AddCommonFlags(CommandLine& line, CommonFlags* flags) {
  line.AddSwitch("--json", &flags->json, "Print one JSON object on standard output, everything else on standard error")
      .Group("Common");
  line.AddSwitch("--quiet", &flags->quiet, "No progress and no notes").Group("Common");
  line.AddOutputPath("--log-file", &flags->log_file, "Append everything that is printed, and details, to this file")
      .Type("F")
      .Group("Common");
  line.AddNatural("--seed", &flags->seed, "Of everything random (default 1)").Group("Common");
  line.AddInt("--threads", &flags->threads, 1, 4096, "Threads to compute with (default: all of the machine)")
      .Group("Common");
}

std::vector<std::string> LongFlags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// A mistyped verb or flag, told before anything else that its absence makes wrong; empty when there is none.
std::string FindMistyped(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb->get_name());
  }
  const CLI::App* scope = &app;
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.rfind("--", 0) == 0) {
      const std::string flag = argument.substr(0, argument.find('='));
      const std::vector<std::string> known = LongFlags(*scope);
      if (std::find(known.begin(), known.end(), flag) == known.end()) {
        return absl::StrCat("unknown flag `", flag, "`", DidYouMean(flag, known));
      }
    } else if (scope == &app && argument.rfind("-", 0) != 0) {
      if (std::find(verbs.begin(), verbs.end(), argument) == verbs.end()) {
        return absl::StrCat("unknown verb `", argument, "`", DidYouMean(argument, verbs));
      }
      scope = app.get_subcommand(argument);
    }
  }
  return "";
}

// An error of the command line itself: what, and where to look it up.
int UsageError(const std::string& verb, const std::string& message) {
  const std::string command = verb.empty() ? "rewright" : "rewright " + verb;
  std::cerr << command << ": " << message << "\nSee `" << command << " --help`.\n";
  return kBadInput;
}

int RunAction(const std::string& verb, const Action& action, Session& session) {
  Console& console = session.console;
  const std::string prefix = "rewright " + verb + ": ";
  absl::Status opened = console.Open(session.flags);
  if (!opened.ok()) {
    std::cerr << prefix << opened.message() << "\n";
    return kBadInput;
  }
  if (session.flags.threads > 0) omp_set_num_threads(session.flags.threads);
  try {
    absl::StatusOr<Answer> answer = action(session);
    if (answer.ok()) {
      absl::Status finished = console.Finish();
      if (finished.ok()) return static_cast<int>(*answer);
      answer = finished;
    }
    const int exit_status = ExitStatus(answer.status());
    console.Error(absl::StrCat(prefix, exit_status == kInternalFault ? "internal error: " : "",
                               std::string(answer.status().message())));
    return exit_status;
  } catch (const std::bad_alloc&) {
    console.Error(prefix + "out of memory");
  } catch (const std::exception& error) {
    console.Error(prefix + "internal error: " + error.what());
  }
  return kInternalFault;
}

}  // namespace

std::vector<Verb> AllVerbs() {
  return {
      {"optimize", "Make a model faster by verified rewrites", DeclareOptimize},
      {"run", "Run a model and measure it", DeclareRun},
      {"train", "Train a model", DeclareTrain},
      {"diff", "Compare two models: structure and outputs", DeclareDiff},
      {"equal", "Prove that two models compute the same, or show where they do not", DeclareEqual},
      {"reduce", "Cut two models that differ down to the nodes that make the difference", DeclareReduce},
      {"error", "Estimate what rounding does to the outputs, and which nodes it comes from", DeclareError},
      {"blame", "Find the rewrite that changes the outputs or the time", DeclareBlame},
      {"compare", "Time the original, the baseline, the optimized graph and other programs", DeclareCompare},
      {"profile", "Measure what models are made of, into a database of costs", DeclareProfile},
      {"generate", "Find and prove a rule set", DeclareGenerate},
      {"verify", "Prove or refute the rules of a file", DeclareVerify},
      {"check", "Check certificates of proofs again", DeclareCheck},
      {"derive", "Which rules follow from a set of rules", DeclareDerive},
      {"zoo", "Write a known architecture with seeded random weights", DeclareZoo},
      {"ops", "The operators: formula, attributes, inputs", DeclareOps},
      {"inspect", "What a model consists of", DeclareInspect},
      {"grad", "The graph of a model's gradients", DeclareGrad},
      {"shard", "Cut a model over devices by proved laws", DeclareShard},
      {"simulate", "The time of a training step on a described cluster", DeclareSimulate},
  };
}

int RunProgram(const std::vector<std::string>& arguments) {
  CLI::App app("Rewright makes tensor graphs faster by rewriting them, and proves every rewrite.", "rewright");
  app.set_version_flag("--version", Version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit status: 0 done; 1 the answer is negative; 2 bad usage or input, or an output that cannot be written; 3 a "
      "fault of the program; 130 interrupted.");
  // A file that would grow beyond a limit (ulimit -f) is an error like a full disk, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  ReserveMemory(size_t{16} << 20, {"rewright: out of memory\n", kInternalFault});
  Session session;
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb& verb : AllVerbs()) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    CommandLine line(sub);
    Action action = verb.declare(line);
    AddCommonFlags(line, &session.flags);
    actions.emplace_back(sub, std::move(action));
  }

  std::string verb;
  for (const auto& [sub, action] : actions) {
    if (!arguments.empty() && arguments.front() == sub->get_name()) verb = arguments.front();
  }
  const std::string mistyped = FindMistyped(app, arguments);
  if (!mistyped.empty()) return UsageError(verb, mistyped);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& help) {  // --help and --version
    const int status = app.exit(help);
    const absl::Status printed = FlushStandardOutput();
    if (printed.ok()) return status;
    std::cerr << "rewright: " << printed.message() << "\n";
    return kBadInput;
  } catch (const CLI::ParseError& error) {
    return UsageError(verb, arguments.empty() ? "a verb is expected" : error.what());
  }
  for (const auto& [sub, action] : actions) {
    if (sub->parsed()) return RunAction(sub->get_name(), action, session);
  }
  return UsageError("", "a verb is expected");
}

}  // namespace rewright
