#include "tools/program/flags.h"

#include <cmath>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/suggest.h"

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

Flag Flag::Required() const { return With(option_->required()); }
Flag Flag::Type(const std::string& name) const { return With(option_->type_name(name)); }
Flag Flag::OneAtATime() const { return With(option_->allow_extra_args(false)); }
Flag Flag::AnyNumber() const { return With(option_->expected(0, -1)); }
Flag Flag::SplitAt(char delimiter) const { return With(option_->delimiter(delimiter)); }
Flag Flag::Needs(Flag other) const { return With(option_->needs(other.option_)); }
Flag Flag::Needs(const std::string& other) const { return With(option_->needs(other)); }
Flag Flag::Excludes(Flag other) const { return With(option_->excludes(other.option_)); }
Flag Flag::Excludes(const std::string& other) const { return With(option_->excludes(other)); }
Flag Flag::Group(const std::string& name) const { return With(option_->group(name)); }

Flag Flag::Formerly(const std::string& name) const {
  former_names_->emplace(name, "--" + option_->get_lnames().front());
  return *this;
}

Flag Flag::Map(std::function<std::string(std::string)> change) const { return With(option_->transform(change)); }

Flag Flag::Check(std::function<std::string(const std::string&)> wrong, const std::string& expected) const {
  return With(option_->check(wrong, expected));
}

bool Flag::given() const { return option_->count() > 0; }

Flag CommandLine::Add(const std::string& names, std::string* value, const std::string& doc) {
  return Made(app_->add_option(names, *value, doc));
}

Flag CommandLine::Add(const std::string& names, std::vector<std::string>* values, const std::string& doc) {
  return Made(app_->add_option(names, *values, doc));
}

Flag CommandLine::AddSwitch(const std::string& names, bool* value, const std::string& doc) {
  return Made(app_->add_flag(names, *value, doc));
}

Flag CommandLine::AddSwitch(const std::string& names, std::function<void(bool)> set, const std::string& doc) {
  return Made(app_->add_flag_function(
      names, [set = std::move(set)](int64_t given) { set(given > 0); }, doc));
}

Flag CommandLine::AddParsed(const std::string& names, std::function<void(const std::string&)> parse,
                            const std::string& doc) {
  return Made(app_->add_option_function<std::string>(names, std::move(parse), doc));
}

Flag CommandLine::AddParsedList(const std::string& names, std::function<void(const std::vector<std::string>&)> parse,
                                const std::string& doc) {
  return Made(app_->add_option_function<std::vector<std::string>>(names, std::move(parse), doc)
                  ->type_size(1)
                  ->allow_extra_args(false));
}

bool CommandLine::Given(const std::string& name) const { return app_->count(name) > 0; }

Flag CommandLine::AddInt(const std::string& names, int64_t* value, int64_t min, int64_t max, const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < min || number > max) {
      Refuse(LongName(names), text, RangeText<int64_t>("an integer", min, max, INT64_MAX));
    }
    *value = number;
  };
  return AddParsed(names, parse, doc).Type("N");
}

Flag CommandLine::AddNatural(const std::string& names, uint64_t* value, const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    if (!absl::SimpleAtoi(text, value)) Refuse(LongName(names), text, "an integer of at least 0");
  };
  return AddParsed(names, parse, doc).Type("N");
}

Flag CommandLine::AddReal(const std::string& names, double* value, double min, double max, const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !(number >= min && number <= max)) {
      Refuse(LongName(names), text, RangeText<double>("a number", min, max, HUGE_VAL));
    }
    *value = number;
  };
  return AddParsed(names, parse, doc).Type("X");
}

Flag CommandLine::AddSeconds(const std::string& names, double* value, double min, const std::string& doc) {
  return AddReal(names, value, min, kMostSeconds, doc).Type("S");
}

Flag CommandLine::AddOutputPath(const std::string& names, std::string* path, const std::string& doc) {
  return Add(names, path, doc)
      .Check([](const std::string& given) { return given.empty() ? "found nothing, expected a path" : ""; }, "");
}

Flag CommandLine::AddBytes(const std::string& names, int64_t* value, const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    if (!ParseBytes(text, value)) Refuse(LongName(names), text, "a number of bytes such as 800M or 4G");
  };
  return AddParsed(names, parse, doc).Type("BYTES");
}

Flag CommandLine::AddChoice(const std::string& names, std::string* value, const std::vector<std::string>& choices,
                            const std::string& doc) {
  const auto parse = [=](const std::string& text) {
    for (const std::string& choice : choices) {
      if (choice == text) {
        *value = text;
        return;
      }
    }
    Refuse(LongName(names), text, absl::StrCat("one of ", absl::StrJoin(choices, ", "), DidYouMean(text, choices)));
  };
  return AddParsed(names, parse, doc).Type(absl::StrJoin(choices, "|"));
}

Flag CommandLine::AddPairs(const std::string& names, std::map<std::string, std::string>* values, const std::string& doc,
                           const std::string& type, bool second_is_key) {
  const auto parse = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto [first, second] = SplitPair(LongName(names), text, type);
      InsertOnce(LongName(names), values, second_is_key ? second : first, second_is_key ? first : second);
    }
  };
  return AddParsedList(names, parse, doc).Type(type);
}

Flag CommandLine::AddRanges(const std::string& names, std::map<std::string, Interval>* values, const std::string& doc) {
  const auto parse = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::string expected = "NAME=LO:HI with numbers LO <= HI";
      const auto [name, ends] = SplitPair(LongName(names), text, expected);
      const size_t colon = ends.find(':');
      Interval range;
      if (colon == std::string::npos || !absl::SimpleAtod(ends.substr(0, colon), &range.lo) ||
          !absl::SimpleAtod(ends.substr(colon + 1), &range.hi) || !range.IsBounded() || !(range.lo <= range.hi)) {
        Refuse(LongName(names), text, expected);
      }
      InsertOnce(LongName(names), values, name, range);
    }
  };
  return AddParsedList(names, parse, doc).Type("NAME=LO:HI");
}

Flag CommandLine::AddSizes(const std::string& names, std::map<std::string, int64_t>* values, const std::string& doc) {
  const auto parse = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::string expected = "NAME=N with an integer N of at least 1";
      const auto pair = SplitPair(LongName(names), text, expected);
      int64_t number = 0;
      if (!absl::SimpleAtoi(pair.second, &number) || number < 1) Refuse(LongName(names), text, expected);
      InsertOnce(LongName(names), values, pair.first, number);
    }
  };
  return AddParsedList(names, parse, doc).Type("NAME=N");
}

}  // namespace rewright
