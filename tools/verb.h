// What a verb of the program is: flags, and the work to do with them. One file per verb; tools/program.cc lists them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "tools/console.h"

namespace rewright {

// The exit status of a verb that worked: 0, or 1 where what was asked turned out negative (outputs differ, a rule is
// refuted). Errors are a Status: bad input ends with 2, faults of the program with 3.
enum class Answer { kYes = 0, kNo = 1 };

// What an action works with.
struct Session {
  CommonFlags flags;
  Console console;
};

using Action = std::function<absl::StatusOr<Answer>(Session&)>;

struct Verb {
  std::string name;
  std::string summary;
  // Adds the verb's own flags and gives what to do once they are parsed.
  std::function<Action(CLI::App&)> declare;
};

Action DeclareOptimize(CLI::App& app);
Action DeclareRun(CLI::App& app);
Action DeclareTrain(CLI::App& app);
Action DeclareDiff(CLI::App& app);
Action DeclareEqual(CLI::App& app);
Action DeclareBlame(CLI::App& app);
Action DeclareCompare(CLI::App& app);
Action DeclareProfile(CLI::App& app);
Action DeclareGenerate(CLI::App& app);
Action DeclareVerify(CLI::App& app);
Action DeclareCheck(CLI::App& app);
Action DeclareDerive(CLI::App& app);
Action DeclareZoo(CLI::App& app);
Action DeclareOps(CLI::App& app);
Action DeclareInspect(CLI::App& app);
Action DeclareGrad(CLI::App& app);
Action DeclareShard(CLI::App& app);

// In the order of the help page.
std::vector<Verb> AllVerbs();

// The program: parses `arguments` (without the program's name), runs the verb, gives the exit status.
int RunProgram(const std::vector<std::string>& arguments);

}  // namespace rewright
