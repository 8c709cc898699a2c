#include <string>
#include <vector>

#include "tools/verb.h"

int main(int argc, char** argv) { return rewright::RunProgram(std::vector<std::string>(argv + 1, argv + argc)); }
