#include "tools/program/program.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/suggest.h"
#include "core/tensor/memory.h"
#include "tools/program/flags.h"
#include "tools/program/help/completion.h"
#include "tools/program/help/help.h"
#include "tools/program/help/manual.h"
#include "tools/program/interrupt.h"
#include "tools/program/terminal.h"
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

// A command line, read: a page of text to print, or a verb's action.
class ParsedCommand {
 public:
  explicit ParsedCommand(std::vector<std::string> arguments) {
    app_.set_version_flag("--version", Version());
    app_.add_flag("--man")->description("Print the manual page, for `man -l -`");
    app_.require_subcommand(1);
    for (Verb& verb : verbs_) {
      CommandLine line(app_.add_subcommand(verb.name, verb.summary));
      actions_[verb.name] = verb.declare(line);
      AddCommonFlags(line, &session_.flags);
      former_[verb.name] = line.former_names();
    }
    if (!arguments.empty() && arguments.front() == "help") {
      arguments.erase(arguments.begin());
      arguments.push_back("--help");
    }
    if (!arguments.empty() && actions_.count(arguments.front()) > 0) verb_ = arguments.front();
    if (MakesPage(arguments)) return;
    ReplaceFormerNames(arguments);
    wrong_ = FindMistyped(app_, arguments);
    if (wrong_.empty()) Parse(arguments);
  }

  const std::string& verb() const { return verb_; }
  // The fault of the command line; empty if there is none.
  const std::string& wrong() const { return wrong_; }
  // Text that was asked for: help, the version.
  const std::string& page() const { return page_; }
  const Action& action() const { return actions_.at(verb_); }
  Session& session() { return session_; }
  // Flags that were given by a name of the past: "`--old` is called `--new` now".
  const std::vector<std::string>& renamed() const { return renamed_; }

 private:
  // Makes a page about all verbs, and returns whether one is asked for.
  bool MakesPage(const std::vector<std::string>& arguments) {
    if (arguments == std::vector<std::string>{"--man"}) {
      page_ = ManualPage(app_, verbs_);
      return true;
    }
    if (arguments.empty() || arguments.front() != "completion") return false;
    if (arguments.size() == 2 && std::count(kShells.begin(), kShells.end(), arguments[1]) > 0) {
      page_ = CompletionScript(app_, verbs_, arguments[1]);
    } else {
      wrong_ = absl::StrCat("completion: expected one of ", absl::StrJoin(kShells, ", "));
    }
    return true;
  }

  void ReplaceFormerNames(std::vector<std::string>& arguments) {
    if (verb_.empty()) return;
    const std::map<std::string, std::string>& former = former_[verb_];
    for (std::string& argument : arguments) {
      if (argument == "--") return;
      const size_t end = std::min(argument.find('='), argument.size());
      const auto found = former.find(argument.substr(0, end));
      if (found == former.end()) continue;
      renamed_.push_back(absl::StrCat("`", found->first, "` is called `", found->second, "` now"));
      argument = found->second + argument.substr(end);
    }
  }

  void Parse(const std::vector<std::string>& arguments) {
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      page_ = HelpPage();
    } catch (const CLI::CallForVersion& version) {
      page_ = absl::StrCat(version.what(), "\n");
    } catch (const CLI::ParseError& error) {
      wrong_ = arguments.empty() ? "a verb is expected" : error.what();
    }
    if (page_.empty() && wrong_.empty() && verb_.empty()) wrong_ = "a verb is expected";
  }

  std::string HelpPage() const {
    constexpr int kNarrowest = 40, kWidest = 120;
    const int columns = TerminalWidth(STDOUT_FILENO);
    const int width = columns == 0 ? kWidest : std::clamp(columns, kNarrowest, kWidest);
    for (const Verb& verb : verbs_) {
      if (verb.name == verb_) return VerbHelp(*app_.get_subcommand(verb_), verb, width);
    }
    return ProgramHelp(app_, verbs_, width);
  }

  CLI::App app_{"Rewright makes tensor graphs faster by rewriting them, and proves every rewrite.", "rewright"};
  Session session_;
  std::vector<Verb> verbs_ = AllVerbs();
  std::map<std::string, Action> actions_;
  std::map<std::string, std::map<std::string, std::string>> former_;
  std::string verb_, wrong_, page_;
  std::vector<std::string> renamed_;
};

// An error of the command line itself: what, and where to look it up.
int UsageError(const std::string& verb, const std::string& message) {
  const std::string command = verb.empty() ? "rewright" : "rewright " + verb;
  std::cerr << command << ": " << message << "\nSee `" << command << " --help`.\n";
  return kBadInput;
}

int RunAction(const std::string& verb, const Action& action, Session& session,
              const std::vector<std::string>& warnings) {
  Console& console = session.console;
  const std::string prefix = "rewright " + verb + ": ";
  absl::Status opened = console.Open(session.flags);
  if (!opened.ok()) {
    std::cerr << prefix << opened.message() << "\n";
    return kBadInput;
  }
  for (const std::string& warning : warnings) console.Warning(warning);
  if (session.flags.threads > 0) omp_set_num_threads(session.flags.threads);
  try {
    absl::StatusOr<Answer> answer = action(session);
    if (answer.ok()) {
      absl::Status finished = console.Finish();
      if (finished.ok()) return InterruptGuard::interrupted() ? kInterrupted : static_cast<int>(*answer);
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

int RunProgram(const std::vector<std::string>& arguments) {
  // A file that would grow beyond a limit (ulimit -f) is an error like a full disk, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  ReserveMemory(size_t{16} << 20, {"rewright: out of memory\n", kInternalFault});
  ParsedCommand command(arguments);
  if (!command.wrong().empty()) return UsageError(command.verb(), command.wrong());
  if (!command.page().empty()) {
    std::cout << command.page();
    const absl::Status printed = FlushStandardOutput();
    if (printed.ok()) return 0;
    std::cerr << "rewright: " << printed.message() << "\n";
    return kBadInput;
  }
  return RunAction(command.verb(), command.action(), command.session(), command.renamed());
}

std::string WrongArguments(const std::vector<std::string>& arguments) { return ParsedCommand(arguments).wrong(); }

}  // namespace rewright
