#include "tools/flags.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/suggest.h"

namespace rewright {
namespace {

// The long name among "-o,--output".
std::string LongName(const std::string& names) {
  const size_t at = names.find("--");
  return at == std::string::npos ? names : names.substr(at, names.find(',', at) - at);
}

[[noreturn]] void Refuse(const std::string& flag, const std::string& found, const std::string& expected) {
  throw CLI::ValidationError(flag, absl::StrCat("found `", found, "`, expected ", expected));
}

template <typename T>
std::string RangeText(const char* kind, T min, T max, T unlimited) {
  if (max == unlimited) return absl::StrCat(kind, " of at least ", min);
  return absl::StrCat(kind, " from ", min, " to ", max);
}

std::pair<std::string, std::string> SplitPair(const std::string& flag, const std::string& text,
                                              const std::string& expected) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) Refuse(flag, text, expected);
  return {text.substr(0, at), text.substr(at + 1)};
}

template <typename T>
void InsertOnce(const std::string& flag, std::map<std::string, T>* values, const std::string& name, const T& value) {
  if (!values->emplace(name, value).second) {
    throw CLI::ValidationError(flag, absl::StrCat("`", name, "` is given twice"));
  }
}

}  // namespace

bool ParseBytes(const std::string& text, int64_t* bytes) {
  if (text.empty()) return false;
  static constexpr char kUnits[] = "KMGT";
  std::string number = text;
  double scale = 1;
  for (int unit = 0; kUnits[unit] != 0; ++unit) {
    if (absl::ascii_toupper(static_cast<unsigned char>(text.back())) != kUnits[unit]) continue;
    scale = std::pow(1024.0, unit + 1);
    number.pop_back();
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !(value > 0) || value * scale > 9e18) return false;
  *bytes = static_cast<int64_t>(value * scale);
  return true;
}

CLI::Option* AddInt(CLI::App& app, const std::string& names, int64_t* value, int64_t min, int64_t max,
                    const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < min || number > max) {
      Refuse(LongName(names), text, RangeText<int64_t>("an integer", min, max, INT64_MAX));
    }
    *value = number;
  };
  return app.add_option_function<std::string>(names, parse, doc)->type_name("N");
}

CLI::Option* AddReal(CLI::App& app, const std::string& names, double* value, double min, double max,
                     const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !(number >= min && number <= max)) {
      Refuse(LongName(names), text, RangeText<double>("a number", min, max, HUGE_VAL));
    }
    *value = number;
  };
  return app.add_option_function<std::string>(names, parse, doc)->type_name("X");
}

CLI::Option* AddOutputPath(CLI::App& app, const std::string& names, std::string* path, const std::string& doc) {
  return app.add_option(names, *path, doc)
      ->check([](const std::string& given) { return given.empty() ? "found nothing, expected a path" : ""; }, "");
}

CLI::Option* AddBytes(CLI::App& app, const std::string& names, int64_t* value, const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    if (!ParseBytes(text, value)) Refuse(LongName(names), text, "a number of bytes such as 800M or 4G");
  };
  return app.add_option_function<std::string>(names, parse, doc)->type_name("BYTES");
}

CLI::Option* AddChoice(CLI::App& app, const std::string& names, std::string* value,
                       const std::vector<std::string>& choices, const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    for (const std::string& choice : choices) {
      if (choice == text) {
        *value = text;
        return;
      }
    }
    Refuse(LongName(names), text, absl::StrCat("one of ", absl::StrJoin(choices, ", "), DidYouMean(text, choices)));
  };
  return app.add_option_function<std::string>(names, parse, doc)->type_name(absl::StrJoin(choices, "|"));
}

CLI::Option* AddPairs(CLI::App& app, const std::string& names, std::map<std::string, std::string>* values,
                      const std::string& doc) {
  const auto parse = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto pair = SplitPair(LongName(names), text, "NAME=FILE");
      InsertOnce(LongName(names), values, pair.first, pair.second);
    }
  };
  return app.add_option_function<std::vector<std::string>>(names, parse, doc)
      ->type_name("NAME=FILE")
      ->type_size(1)
      ->allow_extra_args(false);
}

CLI::Option* AddSizes(CLI::App& app, const std::string& names, std::map<std::string, int64_t>* values,
                      const std::string& doc) {
  const auto parse = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::string expected = "NAME=N with an integer N of at least 1";
      const auto pair = SplitPair(LongName(names), text, expected);
      int64_t number = 0;
      if (!absl::SimpleAtoi(pair.second, &number) || number < 1) Refuse(LongName(names), text, expected);
      InsertOnce(LongName(names), values, pair.first, number);
    }
  };
  return app.add_option_function<std::vector<std::string>>(names, parse, doc)
      ->type_name("NAME=N")
      ->type_size(1)
      ->allow_extra_args(false);
}

}  // namespace rewright
