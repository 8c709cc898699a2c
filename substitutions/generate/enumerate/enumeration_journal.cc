#include "substitutions/generate/enumerate/enumeration_journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "substitutions/generate/enumerate/field.h"

namespace rewright::generate {
namespace {

constexpr uint64_t kMagic = 0x3165657274627573;  // subtree1
constexpr size_t kBufferWords = size_t{1} << 17;
constexpr std::chrono::seconds kBetweenWrites{1}, kBetweenSyncs{20};
constexpr char kPrefix[] = "enumeration.", kSuffix[] = ".journal";

// A block: these words, three for every record, and a hash of all that.
enum Word : size_t {
  kMagicWord,
  kSize,
  kPart,
  kParts,
  kNumber,
  kGraphs,
  kReducible,
  kRepeated,
  kUndefined,
  kRecords,
  kHeadWords
};

uint64_t HashOf(const uint64_t* words, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; ++i) hash = KeyedHash(hash, words[i]);
  return hash;
}

// False at the end, or where a block is not whole.
bool ReadBlock(std::istream& in, std::vector<uint64_t>* block) {
  block->resize(kHeadWords);
  if (!in.read(reinterpret_cast<char*>(block->data()), kHeadWords * sizeof(uint64_t))) return false;
  const uint64_t records = (*block)[kRecords];
  if ((*block)[kMagicWord] != kMagic || records > uint64_t{1} << 32) return false;
  const size_t rest = static_cast<size_t>(records) * 3 + 1;
  block->resize(kHeadWords + rest);
  if (!in.read(reinterpret_cast<char*>(block->data() + kHeadWords),
               static_cast<std::streamsize>(rest * sizeof(uint64_t)))) {
    return false;
  }
  return HashOf(block->data(), block->size() - 1) == block->back();
}

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::UnknownError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

EnumerationJournal::~EnumerationJournal() { (void)Flush(); }

absl::Status EnumerationJournal::Open(const std::string& folder, int rank, const std::string& header) {
  const std::string path = absl::StrCat(folder, "/", kPrefix, rank, kSuffix);
  const std::string first_line = absl::StrCat("rewright enumeration 1: ", header, "\n");
  files_ = {{.path = path, .begin = first_line.size(), .end = first_line.size()}};
  uint64_t own_end = 0;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  for (const std::string& name : names) {
    if (name.rfind(kPrefix, 0) != 0 || !name.ends_with(kSuffix)) continue;
    File file{.path = absl::StrCat(folder, "/", name)};
    RETURN_IF_ERROR(OutputTarget(file.path).status());  // reading a pipe of that name would never end
    std::ifstream in(file.path, std::ios::binary);
    if (!in) return Failed("read", file.path);
    std::string line(first_line.size(), '\0');
    in.read(line.data(), static_cast<std::streamsize>(line.size()));
    line.resize(in.gcount());
    // One that was ended before its first line was written is empty.
    if (first_line.rfind(line, 0) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(file.path, " is of another run: ", line.substr(0, line.find('\n'))));
    }
    if (line.size() < first_line.size()) continue;
    file.begin = file.end = first_line.size();
    std::vector<uint64_t> block;
    while (ReadBlock(in, &block)) file.end += block.size() * sizeof(uint64_t);
    if (file.path == path) {
      own_end = files_[0].end = file.end;
    } else {
      files_.push_back(file);
    }
  }
  ASSIGN_OR_RETURN(AppendFile own, AppendFile::Open(path));
  RETURN_IF_ERROR(own.CutTo(static_cast<int64_t>(own_end)));
  if (own_end == 0) RETURN_IF_ERROR(own.Write(first_line));
  file_.emplace(std::move(own));
  written_ = synced_ = Clock::now();
  return absl::OkStatus();
}

absl::Status EnumerationJournal::Replay(const Level& level,
                                        const std::function<void(const FinishedSubtree&)>& visit) const {
  for (const File& file : files_) {
    std::ifstream in(file.path, std::ios::binary);
    if (!in.seekg(static_cast<std::streamoff>(file.begin))) return Failed("read", file.path);
    std::vector<uint64_t> block;
    for (uint64_t at = file.begin; at < file.end; at += block.size() * sizeof(uint64_t)) {
      if (!ReadBlock(in, &block)) return absl::DataLossError(absl::StrCat(file.path, " has changed"));
      if (block[kSize] != static_cast<uint64_t>(level.size) || block[kPart] != level.part ||
          block[kParts] != level.parts) {
        continue;
      }
      FinishedSubtree subtree{.number = block[kNumber],
                              .counts = {.graphs = block[kGraphs],
                                         .reducible = block[kReducible],
                                         .repeated = block[kRepeated],
                                         .undefined = block[kUndefined]}};
      for (size_t i = 0; i < block[kRecords]; ++i) {
        const uint64_t* words = &block[kHeadWords + 3 * i];
        subtree.records.push_back({words[0], {words[1], words[2]}});
      }
      visit(subtree);
    }
  }
  return absl::OkStatus();
}

absl::Status EnumerationJournal::Add(const Level& level, const FinishedSubtree& subtree) {
  if (!file_) return absl::OkStatus();
  const size_t begin = buffer_.size();
  const MatchCounts& counts = subtree.counts;
  buffer_.insert(buffer_.end(),
                 {kMagic, static_cast<uint64_t>(level.size), level.part, level.parts, subtree.number, counts.graphs,
                  counts.reducible, counts.repeated, counts.undefined, subtree.records.size()});
  for (const Record& record : subtree.records) {
    buffer_.insert(buffer_.end(), {record.fingerprint, record.graph.high, record.graph.low});
  }
  buffer_.push_back(HashOf(buffer_.data() + begin, buffer_.size() - begin));
  if (buffer_.size() < kBufferWords && Clock::now() - written_ < kBetweenWrites) return absl::OkStatus();
  return Flush();
}

absl::Status EnumerationJournal::Flush() {
  if (!file_) return absl::OkStatus();
  RETURN_IF_ERROR(file_->Write(buffer_.data(), static_cast<int64_t>(buffer_.size() * sizeof(uint64_t))));
  files_[0].end += buffer_.size() * sizeof(uint64_t);
  buffer_.clear();
  written_ = Clock::now();
  if (written_ - synced_ > kBetweenSyncs) {
    RETURN_IF_ERROR(file_->Sync());
    synced_ = written_;
  }
  return absl::OkStatus();
}

}  // namespace rewright::generate
