#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "backends/cuda/plugin/context.h"
#include "core/base/text_hash.h"

namespace rewright::cuda {
namespace {

constexpr size_t kHashDigits = 16;  // TextHash::Hex

// The choice holds for this GPU and these libraries.
std::string ChoiceKey(const Context& context, const std::string& key) {
  return key + " on " + context.description.name + " " + context.description.versions;
}

std::string FileOf(const Context& context, const std::string& kind, const std::string& key) {
  return context.cache_folder + "/" + kind + "-" + TextHash::HexOf(key);
}

}  // namespace

// In front stands the key, so that two keys of one hash are told apart, and the hash of what follows, so that a file
// that is not whole counts as none.
bool ReadCached(const Context& context, const std::string& kind, const std::string& key, std::string* content) {
  if (context.cache_folder.empty()) return false;
  std::ifstream file(FileOf(context, kind, key), std::ios::binary);
  if (!file) return false;
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  const size_t at = key.size() + 1 + kHashDigits;
  if (all.size() < at || all.compare(0, key.size(), key) != 0 || all[key.size()] != '\0') return false;
  const std::string found = all.substr(at);
  if (all.compare(key.size() + 1, kHashDigits, TextHash::HexOf(found)) != 0) return false;
  *content = found;
  return true;
}

void WriteCached(const Context& context, const std::string& kind, const std::string& key, const std::string& content) {
  if (context.cache_folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(context.cache_folder, ignored);
  const std::string path = FileOf(context, kind, key);
  // The name cannot be foretold, and no file has it yet: files that lie in the folder are never written through.
  std::string temporary = path + ".XXXXXX";
  const int fd = mkstemp(temporary.data());
  if (fd < 0) return;
  const std::string all = key + '\0' + TextHash::HexOf(content) + content;
  bool written = true;
  for (size_t done = 0; written && done < all.size();) {
    const ssize_t count = write(fd, all.data() + done, all.size() - done);
    written = count > 0 || (count < 0 && errno == EINTR);
    done += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  written = written && fsync(fd) == 0;
  written = close(fd) == 0 && written;
  if (written) std::filesystem::rename(temporary, path, ignored);
  if (!written || ignored) std::filesystem::remove(temporary, ignored);
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
