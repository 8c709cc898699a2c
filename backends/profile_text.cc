#include "backends/profile_text.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "rewright-profile";
constexpr int kVersion = 1;
constexpr size_t kMaxText = 1 << 20;  // of a signature

// A member of an entry; false with `error` filled in where it does not fit.
bool Text(const Json& entry, const char* member, std::string* value, std::string* error) {
  const auto it = entry.find(member);
  if (it != entry.end() && it->is_string()) {
    *value = it->get<std::string>();
    if (!value->empty() && value->size() <= kMaxText && value->find('\0') == std::string::npos) return true;
  }
  *error = absl::StrCat(member, ": expected a text of 1 to ", kMaxText, " bytes");
  return false;
}

bool Seconds(const Json& entry, const char* member, double* value, std::string* error) {
  const auto it = entry.find(member);
  const bool number = it != entry.end() && it->is_number();
  if (number) *value = it->get<double>();
  if (number && *value >= 0 && *value <= kMaxProfileSeconds) return true;
  *error = absl::StrCat(member, ": found ", it == entry.end() ? "nothing" : it->dump().substr(0, 40),
                        ", expected seconds from 0 to ", kMaxProfileSeconds);
  return false;
}

bool ParseEntry(const Json& json, ProfileRecord* record, std::string* error) {
  if (!json.is_object()) {
    *error = "expected an object";
    return false;
  }
  ProfileEntry& entry = record->entry;
  if (!Text(json, "device", &record->device, error) || !Text(json, "signature", &record->signature, error) ||
      !Seconds(json, "fastest", &entry.fastest, error) || !Seconds(json, "median", &entry.median, error) ||
      !Seconds(json, "spread", &entry.spread, error)) {
    return false;
  }
  const auto count = json.find("count");
  if (count == json.end() || !count->is_number_integer() || count->get<int64_t>() < 1) {
    *error = "count: expected an integer of at least 1";
    return false;
  }
  entry.count = count->get<int64_t>();
  if (entry.fastest <= entry.median) return true;
  *error = absl::StrCat("fastest: found ", entry.fastest, ", expected at most the median, ", entry.median);
  return false;
}

}  // namespace

std::string PrintProfile(const std::vector<ProfileRecord>& records) {
  // One entry a line.
  std::string text = absl::StrCat("{\"format\": \"", kFormat, "\", \"version\": ", kVersion, ", \"entries\": [");
  for (size_t i = 0; i < records.size(); ++i) {
    const ProfileRecord& record = records[i];
    const Json entry = {{"device", record.device},         {"signature", record.signature},
                        {"fastest", record.entry.fastest}, {"median", record.entry.median},
                        {"spread", record.entry.spread},   {"count", record.entry.count}};
    absl::StrAppend(&text, i == 0 ? "\n" : ",\n", entry.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return text + "\n]}\n";
}

absl::StatusOr<std::vector<ProfileRecord>> ParseProfile(const std::string& text, const std::string& file) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", what));
  };
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat)) return error("no exported profile");
  if (json.value("version", Json()) != Json(kVersion)) {
    return error(absl::StrCat("version: found ", json.value("version", Json()).dump().substr(0, 40), ", expected ",
                              kVersion));
  }
  const auto entries = json.find("entries");
  if (entries == json.end() || !entries->is_array()) return error("entries: expected a list");
  std::vector<ProfileRecord> records;
  std::set<std::pair<std::string, std::string>> keys;
  for (const Json& item : *entries) {
    ProfileRecord record;
    std::string what;
    const std::string where = absl::StrCat("entry ", records.size() + 1, ": ");
    if (!ParseEntry(item, &record, &what)) return error(where + what);
    if (!keys.insert({record.device, record.signature}).second) return error(where + "the same key stood before");
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace rewright
