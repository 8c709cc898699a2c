#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "backends/cuda/plugin/context.h"
#include "core/base/text_hash.h"

namespace rewright::cuda {
namespace {

// The choice holds for this GPU and these libraries.
std::string ChoiceKey(const Context& context, const std::string& key) {
  return key + " on " + context.description.name + " " + context.description.versions;
}

std::string FileOf(const Context& context, const std::string& kind, const std::string& key) {
  return context.cache_folder + "/" + kind + "-" + TextHash::HexOf(key);
}

}  // namespace

// The key stands in front, so that two keys of one hash are told apart.
bool ReadCached(const Context& context, const std::string& kind, const std::string& key, std::string* content) {
  if (context.cache_folder.empty()) return false;
  std::ifstream file(FileOf(context, kind, key), std::ios::binary);
  if (!file) return false;
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  if (all.size() <= key.size() || all.compare(0, key.size(), key) != 0 || all[key.size()] != '\0') return false;
  *content = all.substr(key.size() + 1);
  return true;
}

void WriteCached(const Context& context, const std::string& kind, const std::string& key, const std::string& content) {
  if (context.cache_folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(context.cache_folder, ignored);
  const std::string path = FileOf(context, kind, key);
  const std::string temporary = path + "." + std::to_string(getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    file << key << '\0' << content;
    if (!file.flush()) {
      std::filesystem::remove(temporary, ignored);
      return;
    }
  }
  std::filesystem::rename(temporary, path, ignored);
}

bool RecallChoice(const Context& context, const std::string& key, int* choice) {
  std::string content;
  return ReadCached(context, "choice", ChoiceKey(context, key), &content) &&
         std::sscanf(content.c_str(), "%d", choice) == 1;
}

void KeepChoice(const Context& context, const std::string& key, int number, const std::vector<double>& seconds) {
  std::string content = std::to_string(number);
  for (double one : seconds) content += "\n" + std::to_string(one * 1e6) + " us";
  WriteCached(context, "choice", ChoiceKey(context, key), content);
}

}  // namespace rewright::cuda
