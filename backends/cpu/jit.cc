#include "backends/cpu/jit.h"

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
  static auto* const loops = new absl::flat_hash_map<std::string, TileLoop>;  // by the text
  const std::lock_guard<std::mutex> lock(mutex);
  static const CompileLoopFunction compile = OpenCompiler();
  if (compile == nullptr) {
    if (error != nullptr) *error = "there is no plugin librewright_jit.so";
    return nullptr;
  }
  if (const auto known = loops->find(text); known != loops->end()) return known->second;
  char reason[1024] = "";
  void* loop = compile(name.c_str(), text.c_str(), reason, sizeof reason);
  if (loop == nullptr && error != nullptr) *error = reason;
  return (*loops)[text] = reinterpret_cast<TileLoop>(loop);
}

}  // namespace rewright::cpu
