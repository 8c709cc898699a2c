#include "runtime/training/files/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <boost/crc.hpp>
#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

// Numbers of fields in tensorflow/core/util/event.proto and core/framework/summary.proto.
enum EventField : int { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2, kSessionStatus = 1, kSessionStart = 1;

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

template <typename Unsigned>
std::string LittleEndian(Unsigned bits) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(bits); ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xff);
  return bytes;
}

// Fields as Protocol Buffers encode them.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Field(int number, int64_t value) {
  return Varint(static_cast<uint64_t>(number) << 3) + Varint(static_cast<uint64_t>(value));
}
std::string Field(int number, double value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 1) + LittleEndian(std::bit_cast<uint64_t>(value));
}
std::string Field(int number, float value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 5) + LittleEndian(std::bit_cast<uint32_t>(value));
}
std::string Field(int number, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(bytes.size()) + bytes;
}

std::string Checksum(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return LittleEndian(std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + uint32_t{0xA282EAD8});
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Create(const std::string& folder, std::optional<int64_t> resumed_behind) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::FailedPreconditionError(absl::StrCat(folder, ": cannot make the folder: ", error.message()));
  const std::string name = absl::StrFormat("events.out.tfevents.%010d.%d", static_cast<int64_t>(Now()), getpid());
  ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open((std::filesystem::path(folder) / name).string()));
  EventFile events(std::move(file));
  RETURN_IF_ERROR(events.WriteEvent(Field(kFileVersion, std::string("brain.Event:2"))));
  if (resumed_behind) {
    RETURN_IF_ERROR(events.WriteEvent(Field(kStep, *resumed_behind + 1) +
                                      Field(kSessionLog, Field(kSessionStatus, int64_t{kSessionStart}))));
  }
  return events;
}

absl::Status EventFile::Write(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    summary += Field(kSummaryValue, Field(kTag, name) + Field(kSimpleValue, static_cast<float>(value)));
  }
  return WriteEvent(Field(kStep, step) + Field(kSummary, summary));
}

absl::Status EventFile::WriteEvent(const std::string& event) {
  const std::string message = Field(kWallTime, Now()) + event;
  const std::string length = LittleEndian(static_cast<uint64_t>(message.size()));
  return file_.Write(length + Checksum(length) + message + Checksum(message));
}

}  // namespace rewright
