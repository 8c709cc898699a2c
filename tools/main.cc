#include <string>
#include <vector>

#include "tools/program/program.h"
#include "tools/program/thread_wait.h"

int main(int argc, char** argv) {
  rewright::ShortenThreadWaiting(argv);
  return rewright::RunProgram(std::vector<std::string>(argv + 1, argv + argc));
}
