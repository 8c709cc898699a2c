#include "tools/verbs/optimize/trace_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"

namespace rewright {
namespace {

// Members of a JSON object from outside; the first one that does not fit is the error.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  std::string Text(const char* member) {
    const Json* value = Find(member, "a text", [](const Json& v) { return v.is_string(); });
    return value == nullptr ? "" : value->get<std::string>();
  }
  double Number(const char* member) {
    const Json* value = Find(member, "a number", [](const Json& v) { return v.is_number(); });
    return value == nullptr ? 0 : value->get<double>();
  }
  int64_t Integer(const char* member, int64_t min, int64_t max) {
    const Json* value = Find(member, absl::StrCat("an integer from ", min, " to ", max), [&](const Json& v) {
      if (v.is_number_unsigned() && v.get<uint64_t>() > INT64_MAX) return false;
      return v.is_number_integer() && v.get<int64_t>() >= min && v.get<int64_t>() <= max;
    });
    return value == nullptr ? min : value->get<int64_t>();
  }
  bool Truth(const char* member) {
    const Json* value = Find(member, "true or false", [](const Json& v) { return v.is_boolean(); });
    return value != nullptr && value->get<bool>();
  }
  const Json& List(const char* member) {
    static const Json empty = Json::array();
    const Json* value = Find(member, "a list", [](const Json& v) { return v.is_array(); });
    return value == nullptr ? empty : *value;
  }
  const Json& Object(const char* member) {
    static const Json empty = Json::object();
    const Json* value = Find(member, "an object", [](const Json& v) { return v.is_object(); });
    return value == nullptr ? empty : *value;
  }
  void Fail(const std::string& text) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", text));
  }
  const absl::Status& status() const { return status_; }

 private:
  template <typename Fits>
  const Json* Find(const char* member, const std::string& expected, const Fits& fits) {
    const auto it = json_.is_object() ? json_.find(member) : json_.end();
    if (!json_.is_object() || it == json_.end()) {
      Fail(absl::StrCat(member, ": not there, expected ", expected));
      return nullptr;
    }
    if (!fits(*it)) {
      Fail(absl::StrCat(member, ": found ", it->dump().substr(0, 40), ", expected ", expected));
      return nullptr;
    }
    return &*it;
  }

  const Json& json_;
  const std::string where_;
  absl::Status status_;
};

Json StepsJson(const std::vector<TraceStep>& trace) {
  Json steps = Json::array();
  for (const TraceStep& step : trace) {
    steps.push_back({{"parent", step.parent},
                     {"rule", step.rule},
                     {"place", step.place},
                     {"cost_before_ms", step.cost_before * 1e3},
                     {"cost_after_ms", step.cost_after * 1e3}});
  }
  return steps;
}

bool ParseHex(const std::string& text, uint64_t* value) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  *value = std::stoull(text, nullptr, 16);
  return true;
}

absl::Status ReadSetting(const Json& json, const std::string& where, TraceSetting* setting) {
  Reader reader(json, where);
  const Json& dims = reader.Object("dims");
  Reader sizes(dims, absl::StrCat(where, ": dims"));
  for (const auto& [name, size] : dims.items()) setting->reading.dims[name] = sizes.Integer(name.c_str(), 1, INT64_MAX);
  if (!sizes.status().ok()) return sizes.status();
  setting->reading.fold_defaults = json.contains("fold_defaults") && reader.Truth("fold_defaults");
  setting->settings.exact = reader.Truth("exact");
  setting->settings.assume_finite = reader.Truth("assume_finite");
  setting->settings.trust_unverified = reader.Truth("trust_unverified");
  setting->reading.device = reader.Text("device");
  setting->settings.cost = reader.Text("cost");
  setting->settings.search = reader.Text("search");
  setting->settings.alpha = reader.Number("alpha");
  setting->settings.budget = reader.Integer("budget", 0, INT64_MAX);
  setting->settings.seed = static_cast<uint64_t>(reader.Integer("seed", 0, INT64_MAX));
  return reader.status();
}

absl::Status ReadPath(Reader& top, const std::string& where, TraceFile* trace) {
  const Json& steps = top.List("steps");
  const Json& path = top.List("path");
  if (steps.empty() && !path.empty()) top.Fail("steps: found none, expected those that the path names");
  if (!top.status().ok()) return top.status();
  for (const Json& item : path) {
    Reader reader(item, absl::StrCat(where, ": path"));
    const int64_t at = reader.Integer("step", 0, static_cast<int64_t>(steps.size()) - 1);
    ReplayStep replay;
    replay.rule = reader.Text("rule");
    if (item.is_object() && item.contains("replacement")) {
      replay.replacement = reader.Text("replacement");
      if (replay.replacement.empty()) reader.Fail("replacement: found nothing, expected a graph");
    } else {
      replay.node = static_cast<int>(reader.Integer("node", 0, INT32_MAX));
      replay.match = static_cast<int>(reader.Integer("match", 0, INT32_MAX));
    }
    const std::string hash = reader.Text("graph");
    if (!ParseHex(hash, &replay.graph_hash)) reader.Fail(absl::StrCat("graph: found ", hash, ", expected a hash"));
    if (!reader.status().ok()) return reader.status();
    Reader made(steps[at], absl::StrCat(where, ": steps: ", at));
    TraceFile::Step step;
    step.rule = replay.rule;
    step.place = made.Text("place");
    step.cost_before_ms = made.Number("cost_before_ms");
    step.cost_after_ms = made.Number("cost_after_ms");
    if (!made.status().ok()) return made.status();
    trace->path.push_back(std::move(step));
    trace->replay.push_back(std::move(replay));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FileHash(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadText(path));
  return TextHash::HexOf(bytes);
}

absl::StatusOr<std::string> TraceText(const TraceSetting& setting, const Graph& original, const OptimizeReport& report,
                                      const OptimizerRules& rules, Console& console) {
  ASSIGN_OR_RETURN(const std::string model_hash, FileHash(setting.model));
  Json rule_files = Json::array();
  for (const std::string& file : rules.files) {
    ASSIGN_OR_RETURN(const std::string hash, FileHash(file));
    rule_files.push_back({{"file", file}, {"hash", hash}});
  }
  Json trace = {{"model", setting.model},
                {"model_hash", model_hash},
                {"graph_hash", TextHash::Hex(original.CanonicalHash())},
                {"output", setting.output},
                {"rules", std::move(rule_files)},
                {"options",
                 {{"dims", setting.reading.dims},
                  {"fold_defaults", setting.reading.fold_defaults},
                  {"exact", setting.settings.exact},
                  {"assume_finite", setting.settings.assume_finite},
                  {"trust_unverified", setting.settings.trust_unverified},
                  {"device", setting.reading.device},
                  {"cost", setting.settings.cost},
                  {"search", setting.settings.search},
                  {"alpha", setting.settings.alpha},
                  {"budget", setting.settings.budget},
                  {"seed", setting.settings.seed}}},
                {"cost_before_ms", report.cost_before * 1e3},
                {"cost_after_ms", report.cost_after * 1e3},
                {"steps", StepsJson(report.search.trace)}};
  absl::StatusOr<std::vector<ReplayStep>> replay = MakeReplay(original, report.search.trace, report.path, rules.all);
  if (replay.ok()) {
    Json path = Json::array();
    for (const ReplayStep& step : *replay) {
      Json& item = path.emplace_back(
          Json{{"step", report.path[step.made_by]}, {"rule", step.rule}, {"graph", TextHash::Hex(step.graph_hash)}});
      if (step.replacement.empty()) {
        item["node"] = step.node;
        item["match"] = step.match;
      } else {
        item["replacement"] = step.replacement;
      }
    }
    trace["path"] = std::move(path);
  } else {
    console.Warning(absl::StrCat("the trace cannot be replayed: ", replay.status().message()));
  }
  return trace.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<TraceFile> ReadTrace(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no trace, which is a JSON object"));
  }
  if (json.contains("steps") && !json.contains("path")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the path of this search cannot be replayed"));
  }
  Reader reader(json, path);
  TraceFile trace;
  trace.setting.model = reader.Text("model");
  trace.model_hash = reader.Text("model_hash");
  trace.graph_hash = reader.Text("graph_hash");
  for (const Json& item : reader.List("rules")) {
    Reader file(item, absl::StrCat(path, ": rules"));
    trace.rule_files.push_back({file.Text("file"), file.Text("hash")});
    if (!file.status().ok()) return file.status();
    trace.setting.settings.rules.push_back(trace.rule_files.back().path);
  }
  const absl::Status setting = ReadSetting(reader.Object("options"), absl::StrCat(path, ": options"), &trace.setting);
  RETURN_IF_ERROR(reader.status());
  RETURN_IF_ERROR(setting);
  RETURN_IF_ERROR(ReadPath(reader, path, &trace));
  return trace;
}

absl::StatusOr<Replay> ReplayTrace(const TraceFile& trace, const std::string& model_path, const Graph& original,
                                   const RuleIndex& rules, Console& console) {
  ASSIGN_OR_RETURN(const std::string model_hash, FileHash(model_path));
  if (model_hash != trace.model_hash || TextHash::Hex(original.CanonicalHash()) != trace.graph_hash) {
    return absl::FailedPreconditionError(absl::StrCat(model_path, ": not the model that was optimized: its hash is ",
                                                      model_hash, ", the trace has ", trace.model_hash));
  }
  for (const TraceFile::RuleFile& file : trace.rule_files) {
    const absl::StatusOr<std::string> hash = FileHash(file.path);
    if (!hash.ok() || *hash != file.hash) {
      console.Warning(absl::StrCat(file.path, ": not as it was when the model was optimized"));
    }
  }
  return Replay::Run(original, trace.replay, rules);
}

}  // namespace rewright
