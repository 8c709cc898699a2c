#include "runtime/training/files/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Computes CRC-32C bit by bit, as in RFC 3720; Masked gives the form that record files store.
uint32_t Crc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}
uint32_t Masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8; }

// Returns the messages of a record file; checks its frames.
std::vector<std::string> Messages(const std::string& file) {
  std::vector<std::string> messages;
  for (size_t at = 0; at < file.size();) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, file.data() + at, 8);
    std::memcpy(&crc, file.data() + at + 8, 4);
    EXPECT_EQ(crc, Masked(Crc32c(file.substr(at, 8)))) << at;
    messages.push_back(file.substr(at + 12, length));
    EXPECT_EQ(messages.back().size(), length);
    std::memcpy(&crc, file.data() + at + 12 + length, 4);
    EXPECT_EQ(crc, Masked(Crc32c(messages.back()))) << at;
    at += 16 + length;
  }
  return messages;
}

std::string OnlyFile(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  EXPECT_EQ(files.size(), 1u);
  return files.at(0);
}

// Drops the wall time: field 1, eight bytes.
std::string Behind(const std::string& message) {
  EXPECT_EQ(message[0], 1 << 3 | 1);
  return message.substr(9);
}

TEST(EventFileTest, HasFramesAndMessages) {
  ASSERT_EQ(Crc32c("123456789"), 0xE3069283u) << "the check value that the literature gives";
  const TemporaryFolder folder;
  const std::string events = folder / "a/b";
  {
    auto file = EventFile::Create(events, std::nullopt);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write(300, {{"loss", 0.5}, {"validation/accuracy", 1}}).ok());
  }
  const std::string path = OnlyFile(events);
  EXPECT_THAT(path, HasSubstr("/events.out.tfevents."));
  const std::vector<std::string> messages = Messages(FileContents(path));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(Behind(messages[0]),
            "\x1a\x0d"
            "brain.Event:2");
  // Step 300 as a varint; a summary of two values, each a name and a float.
  const std::string loss = std::string("\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 13);
  const std::string accuracy = std::string("\x0a\x1a\x0a\x13validation/accuracy\x15\0\0\x80\x3f", 28);
  EXPECT_EQ(Behind(messages[1]), "\x10\xac\x02\x2a" + std::string(1, static_cast<char>(41)) + loss + accuracy);
}

TEST(EventFileTest, ARunThatGoesOnSaysBehindWhichStep) {
  const TemporaryFolder folder;
  ASSERT_TRUE(EventFile::Create(folder.path(), 7).ok());
  const std::vector<std::string> messages = Messages(FileContents(OnlyFile(folder.path())));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(Behind(messages[1]), "\x10\x08\x3a\x02\x08\x01");
}

TEST(EventFileTest, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  WriteContents(folder / "file", "");
  EXPECT_THAT(std::string(EventFile::Create(folder / "file", std::nullopt).status().message()), HasSubstr("/file: "));
}

}  // namespace
}  // namespace rewright
