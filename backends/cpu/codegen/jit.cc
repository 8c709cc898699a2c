#include "backends/cpu/codegen/jit.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/data_file.h"

namespace rewright::cpu {
namespace {

// Empty where there is none, or it is not wanted.
std::string CompilerFile() {
  // For comparisons and tests: everything by tiles.
  if (const char* off = std::getenv("REWRIGHT_JIT"); off != nullptr && std::string(off) == "0") return {};
  const std::string code = CodeFolder();
  return FindInFolders("librewright_jit.so", {code, absl::StrCat(code, "/../bin"), absl::StrCat(code, "/..")})
      .value_or(std::string());
}

CompileLoopFunction OpenCompiler() {
  const std::string file = CompilerFile();
  void* library = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<CompileLoopFunction>(dlsym(library, kCompileLoop));
}

}  // namespace

bool HasLoopCompiler() {
  static const bool has = !CompilerFile().empty();
  return has;
}

TileLoop CompileLoop(const std::string& name, const std::string& text, std::string* error) {
  static std::mutex mutex;
  struct Compiled {
    TileLoop loop = nullptr;
    std::string error;  // where there is none
  };
  static auto* const loops = new absl::flat_hash_map<std::string, Compiled>;  // by the text
  const std::lock_guard<std::mutex> lock(mutex);
  static const CompileLoopFunction compile = OpenCompiler();
  if (compile == nullptr) {
    if (error != nullptr) *error = "there is no plugin librewright_jit.so";
    return nullptr;
  }
  const auto [compiled, first] = loops->try_emplace(text);
  if (first) {
    char reason[1024] = "";
    compiled->second.loop = reinterpret_cast<TileLoop>(compile(name.c_str(), text.c_str(), reason, sizeof reason));
    if (compiled->second.loop == nullptr) compiled->second.error = reason;
  }
  if (compiled->second.loop == nullptr && error != nullptr) *error = compiled->second.error;
  return compiled->second.loop;
}

}  // namespace rewright::cpu
