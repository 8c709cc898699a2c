// Used by the build: hash_sources ROOT LIST OUT.cc writes a function that gives one number for the tokens of all
// sources that LIST names, a line each, by their paths from ROOT.
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "core/base/source_text.h"
#include "core/base/text_hash.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "found " << argc - 1 << " arguments, expected ROOT LIST OUT.cc\n";
    return 2;
  }
  std::ifstream list(argv[2]);
  rewright::TextHash hash;
  for (std::string name; std::getline(list, name);) {
    std::ifstream file(std::string(argv[1]) + "/" + name, std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
      std::cerr << argv[2] << ": " << name << ": cannot be read, or is empty\n";
      return 2;
    }
    hash.Add(name);
    hash.Add(rewright::SourceTokens(text.str()));
  }
  std::ofstream out(argv[3]);
  out << "#include \"substitutions/prover_hash.h\"\n\nnamespace rewright {\n\nuint64_t ProverHash() { return 0x"
      << hash.Hex() << "; }\n\n}  // namespace rewright\n";
  return out.flush() ? 0 : 2;
}
