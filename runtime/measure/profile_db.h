// Measurements, kept across runs in a SQLite file: costs by device and group signature, comparisons of whole graphs,
// and the searches that a time limit has ended. Also the costs as text.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rewright {

inline constexpr double kMaxProfileSeconds = 1e6;
inline constexpr int64_t kMaxProfilePairs = 1000000;

struct ProfileEntry {
  double fastest = 0;  // seconds; what others on the machine disturb least
  double median = 0;
  double spread = 0;  // between the quartiles
  int64_t count = 0;  // timed runs
};

struct ProfileRecord {
  std::string device;
  std::string signature;
  ProfileEntry entry;
};

// Two graphs that were run in turn.
struct ProfileComparison {
  double first = 0;  // seconds, medians
  double second = 0;
  double ratio = 1;          // median over the pairs of first / second
  double ratio_at_most = 1;  // upper end of its interval; may be infinite
  int64_t wins = 0;          // pairs in which the second was faster
  int64_t losses = 0;
};

// Every Put is one transaction, so a killed process leaves a sound file, and several processes may share one. Entries
// are checked when they are read. An entry that others made invalid (times that are no seconds from 0 to
// kMaxProfileSeconds, a fastest above the median, no runs) is an error that names the file, its key, the value found
// and the value expected. Not thread-safe.
class ProfileDb {
 public:
  // Opens or creates the file; an empty path keeps the entries in memory. Errors name the path: a file that cannot be
  // opened, is no database, or has another schema; for which there is no room on the disk (kResourceExhausted).
  static absl::StatusOr<std::unique_ptr<ProfileDb>> Open(const std::string& path);
  ~ProfileDb();
  ProfileDb(const ProfileDb&) = delete;
  ProfileDb& operator=(const ProfileDb&) = delete;

  // Empty where the entries are kept in memory.
  const std::string& path() const { return path_; }

  absl::StatusOr<std::optional<ProfileEntry>> Find(const std::string& device, const std::string& signature);
  // The devices that have entries, sorted.
  absl::StatusOr<std::vector<std::string>> Devices();
  // Replaces an entry of the same key.
  absl::Status Put(const std::string& device, const std::string& signature, const ProfileEntry& entry);
  // All of them or, after an error, none.
  absl::Status PutAll(const std::vector<ProfileRecord>& records);
  // The longest time limit, in seconds, that ended a search from the graph of that key with that setting; 0: none did.
  absl::StatusOr<double> FindLimit(const std::string& device, const std::string& graph, const std::string& setting);
  // Keeps the longer one.
  absl::Status PutLimit(const std::string& device, const std::string& graph, const std::string& setting,
                        double seconds);

  // If true, which is the default, costs that the profile does not have are measured (MeasuredCosts).
  void set_grows(bool grows) { grows_ = grows; }
  bool grows() const { return grows_; }

  // Takes the outcome of a Put whose entry one can do without: a disk that is full loses it, and the work goes on.
  void Tolerate(const absl::Status& put) { lost_.Update(put); }
  // The first that was tolerated.
  const absl::Status& lost() const { return lost_; }

  // All entries, by device and signature.
  absl::StatusOr<std::vector<ProfileRecord>> List();

  // The comparison of two graphs, which the keys stand for.
  absl::StatusOr<std::optional<ProfileComparison>> FindComparison(const std::string& device, const std::string& first,
                                                                  const std::string& second);
  absl::Status PutComparison(const std::string& device, const std::string& first, const std::string& second,
                             const ProfileComparison& comparison);

 private:
  explicit ProfileDb(std::string path) : path_(std::move(path)) {}
  absl::Status Init();
  absl::Status Error(const std::string& what) const;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;
  // A statement with its texts bound; an error where the database has another schema.
  absl::StatusOr<Statement> Prepared(const char* sql, const std::vector<std::string>& texts) const;
  // At the first row that it gives; null where there is none.
  absl::StatusOr<Statement> FirstRow(const char* sql, const std::vector<std::string>& texts) const;
  absl::Status ForRows(const char* sql, const std::function<absl::Status(sqlite3_stmt* row)>& read) const;
  absl::Status Run(const Statement& statement) const;
  absl::Status WrongEntry(const std::string& device, const std::string& signature, const std::string& what) const;
  // The four columns from `first` on of the row that the statement is at.
  absl::StatusOr<ProfileEntry> EntryAt(sqlite3_stmt* row, int first, const std::string& device,
                                       const std::string& signature) const;

  const std::string path_;
  absl::Status lost_;
  bool grows_ = true;
  sqlite3* db_ = nullptr;
};

// Costs of groups that are measured once: found in memory, else in the profile database, else measured and kept in
// both. Not thread-safe.
class MeasuredCosts {
 public:
  // `device` is the key of the database. `profile` null: costs are kept in memory alone.
  MeasuredCosts(std::string device, std::shared_ptr<ProfileDb> profile)
      : device_(std::move(device)), profile_(std::move(profile)) {}

  // Seconds, the fastest of the measured runs. Errors are those of reading the database and of `measure`; what cannot
  // be written there is lost (ProfileDb::lost). Where the profile does not grow, what it has not got is a NotFound
  // error, unless it is `needed` for more than an estimate.
  absl::StatusOr<double> Of(const std::string& signature, const std::function<absl::StatusOr<ProfileEntry>()>& measure,
                            bool needed = false);
  // The cost, if it is known without a measurement.
  absl::StatusOr<std::optional<double>> Find(const std::string& signature);

 private:
  const std::string device_;
  const std::shared_ptr<ProfileDb> profile_;
  absl::flat_hash_map<std::string, double> known_;
};

// Costs as text, to carry them from the machine that has the device to one that has not.
//
//   {"format": "rewright-profile", "version": 1, "entries": [
//     {"device": "..", "signature": "..", "fastest": 1e-5, "median": 1.1e-5, "spread": 2e-7, "count": 30}, ...]}
std::string PrintProfile(const std::vector<ProfileRecord>& records);
// The text is untrusted. Errors are `file: entry N: member: found .., expected ..`; a key that stands twice is one.
absl::StatusOr<std::vector<ProfileRecord>> ParseProfile(const std::string& text, const std::string& file);

}  // namespace rewright
