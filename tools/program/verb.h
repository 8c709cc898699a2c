// A verb of the program: flags, and the work to do with them. One folder per verb (tools/verbs/);
// tools/program/verb_list.cc lists them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/program/console.h"
#include "tools/program/flags.h"

namespace rewright {

// The exit status of a verb that worked: 0, 1 where what was asked turned out negative (outputs differ, a rule is
// refuted), or 2 where a part of the input is ill-formed. Other errors are a Status: bad input ends with 2, faults of
// the program with 3. After an interrupt the program ends with 130, whatever the verb had to say.
enum class Answer { kYes = 0, kNo = 1, kIllFormed = 2 };

// The flags and the console of an action.
struct Session {
  CommonFlags flags;
  Console console;
};

using Action = std::function<absl::StatusOr<Answer>(Session&)>;

// A command of the help page: what follows `rewright`, and what that does.
struct Example {
  std::string command;
  std::string meaning;
};

struct Verb {
  std::string name;
  std::string group;  // what it is for: a heading of the help page
  std::string summary;
  // Adds the verb's own flags and gives what to do once they are parsed.
  std::function<Action(CommandLine&)> declare;
  std::vector<Example> examples;
};

Action DeclareOptimize(CommandLine& line);
Action DeclareRun(CommandLine& line);
Action DeclareTrain(CommandLine& line);
Action DeclareDiff(CommandLine& line);
Action DeclareEqual(CommandLine& line);
Action DeclareReduce(CommandLine& line);
Action DeclareError(CommandLine& line);
Action DeclareExplain(CommandLine& line);
Action DeclareBlame(CommandLine& line);
Action DeclareCompare(CommandLine& line);
Action DeclareProfile(CommandLine& line);
Action DeclareGenerate(CommandLine& line);
Action DeclareVerify(CommandLine& line);
Action DeclareCheck(CommandLine& line);
Action DeclareDerive(CommandLine& line);
Action DeclareZoo(CommandLine& line);
Action DeclareRules(CommandLine& line);
Action DeclareOps(CommandLine& line);
Action DeclareInspect(CommandLine& line);
Action DeclareGrad(CommandLine& line);
Action DeclareShard(CommandLine& line);
Action DeclareSimulate(CommandLine& line);

}  // namespace rewright
