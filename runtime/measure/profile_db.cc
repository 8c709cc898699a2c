#include "runtime/measure/profile_db.h"

#include <sqlite3.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace rewright {
namespace {

constexpr char kCreate[] =
    "CREATE TABLE IF NOT EXISTS profile (device TEXT NOT NULL, signature TEXT NOT NULL, fastest REAL NOT NULL,"
    " median REAL NOT NULL, spread REAL NOT NULL, count INTEGER NOT NULL,"
    " PRIMARY KEY (device, signature)) WITHOUT ROWID";
constexpr char kFind[] = "SELECT fastest, median, spread, count FROM profile WHERE device = ?1 AND signature = ?2";
constexpr char kPut[] =
    "INSERT OR REPLACE INTO profile (device, signature, fastest, median, spread, count)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
constexpr char kList[] =
    "SELECT device, signature, fastest, median, spread, count FROM profile ORDER BY device, signature";

constexpr char kCreateComparisons[] =
    "CREATE TABLE IF NOT EXISTS comparison (device TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL,"
    " first_seconds REAL NOT NULL, second_seconds REAL NOT NULL, ratio REAL NOT NULL, ratio_at_most REAL NOT NULL,"
    " wins INTEGER NOT NULL, losses INTEGER NOT NULL, PRIMARY KEY (device, first, second)) WITHOUT ROWID";
constexpr char kFindComparison[] =
    "SELECT first_seconds, second_seconds, ratio, ratio_at_most, wins, losses FROM comparison"
    " WHERE device = ?1 AND first = ?2 AND second = ?3";
constexpr char kPutComparison[] =
    "INSERT OR REPLACE INTO comparison"
    " (device, first, second, first_seconds, second_seconds, ratio, ratio_at_most, wins, losses)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

constexpr char kCreateLimits[] =
    "CREATE TABLE IF NOT EXISTS search_limit (device TEXT NOT NULL, graph TEXT NOT NULL, setting TEXT NOT NULL,"
    " seconds REAL NOT NULL, PRIMARY KEY (device, graph, setting)) WITHOUT ROWID";
constexpr char kFindLimit[] = "SELECT seconds FROM search_limit WHERE device = ?1 AND graph = ?2 AND setting = ?3";
constexpr char kPutLimit[] =
    "INSERT INTO search_limit (device, graph, setting, seconds) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT DO UPDATE SET seconds = max(seconds, excluded.seconds)";

// Any value as a text; nothing where it is null.
std::string TextAt(sqlite3_stmt* row, int column) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(row, column)));
}

// A value as an error names it.
std::string Found(sqlite3_stmt* row, int column) {
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_TEXT: return absl::StrCat("the text `", TextAt(row, column).substr(0, 40), "`");
    case SQLITE_BLOB: return "a blob";
    case SQLITE_NULL: return "nothing";
    default: return absl::StrCat(sqlite3_column_double(row, column));
  }
}

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

absl::StatusOr<std::unique_ptr<ProfileDb>> ProfileDb::Open(const std::string& path) {
  std::unique_ptr<ProfileDb> db(new ProfileDb(path));
  RETURN_IF_ERROR(db->Init());
  return db;
}

absl::Status ProfileDb::Init() {
  const std::string name = path_.empty() ? ":memory:" : path_;
  if (sqlite3_open_v2(name.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) != SQLITE_OK) {
    return Error("cannot be opened");
  }
  sqlite3_busy_timeout(db_, 10000);
  sqlite3_exec(db_, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", nullptr, nullptr, nullptr);
  for (const char* create : {kCreate, kCreateComparisons, kCreateLimits}) {
    if (sqlite3_exec(db_, create, nullptr, nullptr, nullptr) != SQLITE_OK) return Error("is not usable");
  }
  RETURN_IF_ERROR(Prepared(kFind, {}).status());
  return Prepared(kPut, {}).status();
}

ProfileDb::~ProfileDb() { sqlite3_close(db_); }

absl::Status ProfileDb::Error(const std::string& what) const {
  const std::string text =
      absl::StrCat("profile database ", path_.empty() ? "in memory" : path_, " ", what, ": ", sqlite3_errmsg(db_));
  const int code = sqlite3_extended_errcode(db_);
  const bool no_room = code == SQLITE_FULL || code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE;
  return no_room ? absl::ResourceExhaustedError(text) : absl::FailedPreconditionError(text);
}

void ProfileDb::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::StatusOr<ProfileDb::Statement> ProfileDb::Prepared(const char* sql, const std::vector<std::string>& texts) const {
  sqlite3_stmt* made = nullptr;
  if (sqlite3_prepare_v2(db_, sql, -1, &made, nullptr) != SQLITE_OK) return Error("has another schema");
  int place = 0;
  for (const std::string& text : texts) {
    sqlite3_bind_text(made, ++place, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  return Statement(made);
}

absl::StatusOr<ProfileDb::Statement> ProfileDb::FirstRow(const char* sql, const std::vector<std::string>& texts) const {
  ASSIGN_OR_RETURN(Statement statement, Prepared(sql, texts));
  const int result = sqlite3_step(statement.get());
  if (result == SQLITE_DONE) return nullptr;
  if (result != SQLITE_ROW) return Error("cannot be read");
  return statement;
}

absl::Status ProfileDb::ForRows(const char* sql, const std::function<absl::Status(sqlite3_stmt*)>& read) const {
  ASSIGN_OR_RETURN(const Statement statement, FirstRow(sql, {}));
  int result = statement == nullptr ? SQLITE_DONE : SQLITE_ROW;
  for (; result == SQLITE_ROW; result = sqlite3_step(statement.get())) RETURN_IF_ERROR(read(statement.get()));
  return result == SQLITE_DONE ? absl::OkStatus() : Error("cannot be read");
}

absl::Status ProfileDb::Run(const Statement& statement) const {
  return sqlite3_step(statement.get()) == SQLITE_DONE ? absl::OkStatus() : Error("cannot be written");
}

absl::Status ProfileDb::WrongEntry(const std::string& device, const std::string& signature,
                                   const std::string& what) const {
  return absl::FailedPreconditionError(absl::StrCat("profile database ", path_.empty() ? "in memory" : path_,
                                                    ": device `", device, "`, signature `", signature, "`: ", what));
}

absl::StatusOr<ProfileEntry> ProfileDb::EntryAt(sqlite3_stmt* row, int first, const std::string& device,
                                                const std::string& signature) const {
  ProfileEntry entry;
  const std::pair<const char*, double*> times[] = {
      {"fastest", &entry.fastest}, {"median", &entry.median}, {"spread", &entry.spread}};
  for (int k = 0; k < 3; ++k) {
    const auto [name, seconds] = times[k];
    const bool number = sqlite3_column_type(row, first + k) == SQLITE_FLOAT;
    *seconds = sqlite3_column_double(row, first + k);
    if (number && *seconds >= 0 && *seconds <= kMaxProfileSeconds) continue;
    return WrongEntry(
        device, signature,
        absl::StrCat(name, ": found ", Found(row, first + k), ", expected seconds from 0 to ", kMaxProfileSeconds));
  }
  entry.count = sqlite3_column_int64(row, first + 3);
  if (sqlite3_column_type(row, first + 3) != SQLITE_INTEGER || entry.count < 1) {
    return WrongEntry(device, signature,
                      absl::StrCat("count: found ", Found(row, first + 3), ", expected an integer of at least 1"));
  }
  if (entry.fastest <= entry.median) return entry;
  return WrongEntry(device, signature,
                    absl::StrCat("fastest: found ", entry.fastest, ", expected at most the median, ", entry.median));
}

absl::StatusOr<std::optional<ProfileEntry>> ProfileDb::Find(const std::string& device, const std::string& signature) {
  ASSIGN_OR_RETURN(const Statement row, FirstRow(kFind, {device, signature}));
  if (row == nullptr) return std::nullopt;
  return EntryAt(row.get(), 0, device, signature);
}

absl::StatusOr<std::vector<std::string>> ProfileDb::Devices() {
  std::vector<std::string> devices;
  RETURN_IF_ERROR(ForRows("SELECT DISTINCT device FROM profile ORDER BY device", [&](sqlite3_stmt* row) {
    devices.push_back(TextAt(row, 0));
    return absl::OkStatus();
  }));
  return devices;
}

absl::Status ProfileDb::Put(const std::string& device, const std::string& signature, const ProfileEntry& entry) {
  ASSIGN_OR_RETURN(const Statement put, Prepared(kPut, {device, signature}));
  sqlite3_bind_double(put.get(), 3, entry.fastest);
  sqlite3_bind_double(put.get(), 4, entry.median);
  sqlite3_bind_double(put.get(), 5, entry.spread);
  sqlite3_bind_int64(put.get(), 6, entry.count);
  return Run(put);
}

absl::Status ProfileDb::PutAll(const std::vector<ProfileRecord>& records) {
  if (sqlite3_exec(db_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) return Error("cannot be written");
  for (const ProfileRecord& record : records) {
    if (absl::Status status = Put(record.device, record.signature, record.entry); !status.ok()) {
      sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
      return status;
    }
  }
  if (sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  absl::Status status = Error("cannot be written");
  sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

absl::StatusOr<std::optional<ProfileComparison>> ProfileDb::FindComparison(const std::string& device,
                                                                           const std::string& first,
                                                                           const std::string& second) {
  ASSIGN_OR_RETURN(const Statement statement, FirstRow(kFindComparison, {device, first, second}));
  if (statement == nullptr) return std::nullopt;
  sqlite3_stmt* const row = statement.get();
  ProfileComparison found{sqlite3_column_double(row, 0), sqlite3_column_double(row, 1), sqlite3_column_double(row, 2),
                          sqlite3_column_double(row, 3), sqlite3_column_int64(row, 4),  sqlite3_column_int64(row, 5)};
  const auto is_time = [](double seconds) { return seconds >= 0 && seconds <= kMaxProfileSeconds; };
  if (is_time(found.first) && is_time(found.second) && found.ratio > 0 && found.ratio_at_most > 0 && found.wins >= 0 &&
      found.losses >= 0 && found.wins + found.losses <= kMaxProfilePairs) {
    return found;
  }
  return WrongEntry(device, absl::StrCat(first, " against ", second),
                    absl::StrCat("found ", found.first, " s, ", found.second, " s, ratio ", found.ratio, ", ",
                                 found.wins, " wins and ", found.losses, " losses, expected seconds from 0 to ",
                                 kMaxProfileSeconds, ", a ratio above 0 and at most ", kMaxProfilePairs, " pairs"));
}

absl::Status ProfileDb::PutComparison(const std::string& device, const std::string& first, const std::string& second,
                                      const ProfileComparison& comparison) {
  ASSIGN_OR_RETURN(const Statement put, Prepared(kPutComparison, {device, first, second}));
  sqlite3_bind_double(put.get(), 4, comparison.first);
  sqlite3_bind_double(put.get(), 5, comparison.second);
  sqlite3_bind_double(put.get(), 6, comparison.ratio);
  sqlite3_bind_double(put.get(), 7, comparison.ratio_at_most);
  sqlite3_bind_int64(put.get(), 8, comparison.wins);
  sqlite3_bind_int64(put.get(), 9, comparison.losses);
  return Run(put);
}

absl::StatusOr<double> ProfileDb::FindLimit(const std::string& device, const std::string& graph,
                                            const std::string& setting) {
  ASSIGN_OR_RETURN(const Statement row, FirstRow(kFindLimit, {device, graph, setting}));
  return row == nullptr ? 0.0 : sqlite3_column_double(row.get(), 0);
}

absl::Status ProfileDb::PutLimit(const std::string& device, const std::string& graph, const std::string& setting,
                                 double seconds) {
  ASSIGN_OR_RETURN(const Statement put, Prepared(kPutLimit, {device, graph, setting}));
  sqlite3_bind_double(put.get(), 4, seconds);
  return Run(put);
}

absl::StatusOr<std::vector<ProfileRecord>> ProfileDb::List() {
  std::vector<ProfileRecord> records;
  RETURN_IF_ERROR(ForRows(kList, [&](sqlite3_stmt* row) -> absl::Status {
    ProfileRecord& record = records.emplace_back(ProfileRecord{TextAt(row, 0), TextAt(row, 1), {}});
    ASSIGN_OR_RETURN(record.entry, EntryAt(row, 2, record.device, record.signature));
    return absl::OkStatus();
  }));
  return records;
}

absl::StatusOr<std::optional<double>> MeasuredCosts::Find(const std::string& signature) {
  if (const auto found = known_.find(signature); found != known_.end()) return found->second;
  if (profile_ == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<ProfileEntry> stored, profile_->Find(device_, signature));
  if (!stored) return std::nullopt;
  return known_[signature] = stored->fastest;
}

absl::StatusOr<double> MeasuredCosts::Of(const std::string& signature,
                                         const std::function<absl::StatusOr<ProfileEntry>()>& measure, bool needed) {
  ASSIGN_OR_RETURN(const std::optional<double> found, Find(signature));
  if (found) return *found;
  if (profile_ != nullptr && !profile_->grows() && !needed) {
    return absl::NotFoundError(absl::StrCat("profile database ", profile_->path(), ": it was not measured before"));
  }
  ASSIGN_OR_RETURN(const ProfileEntry measured, measure());
  if (profile_ != nullptr) profile_->Tolerate(profile_->Put(device_, signature, measured));
  return known_[signature] = measured.fastest;
}

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
    return error(
        absl::StrCat("version: found ", json.value("version", Json()).dump().substr(0, 40), ", expected ", kVersion));
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
