#include "tools/verbs/equal/junit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/library/equal_models.h"
#include "tools/report/html_page.h"

namespace rewright {
namespace {

// XML has no characters below the space but for the tabulator and the ends of lines.
std::string XmlText(std::string text) {
  std::erase_if(text, [](unsigned char c) { return c < ' ' && c != '\t' && c != '\n' && c != '\r'; });
  return HtmlEscape(text);
}

std::string MessageOf(const EqualResult& result) {
  const std::string answer = EqualityName(result.equality);
  return result.difference ? absl::StrCat(answer, ": ", DifferenceText(*result.difference)) : answer;
}

std::string DetailsOf(const EqualResult& result) {
  std::string details;
  if (result.difference && !result.difference->first.empty()) {
    absl::StrAppend(&details, "first: ", result.difference->first, "\n");
  }
  for (const OpenRegion& open : result.open) {
    absl::StrAppend(&details, "left: ", open.a, " in A and ", open.b, " in B\n", open.text, "\n");
  }
  return details;
}

}  // namespace

std::string JUnitReport(const std::string& a, const std::string& b, const absl::StatusOr<EqualResult>& result,
                        const std::map<std::string, int64_t>& dims, double seconds) {
  const bool failed = result.ok() && result->equality != Equality::kProved;
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  absl::StrAppendFormat(&text,
                        "<testsuites>\n<testsuite name=\"rewright equal\" tests=\"1\" failures=\"%d\" errors=\"%d\">\n",
                        failed, !result.ok());
  absl::StrAppendFormat(&text, "<testcase classname=\"rewright.equal\" name=\"%s = %s\" time=\"%.3f\">\n", XmlText(a),
                        XmlText(b), seconds);
  if (!dims.empty()) {
    absl::StrAppend(&text, "<properties>");
    for (const auto& [name, size] : dims) {
      absl::StrAppendFormat(&text, "<property name=\"%s\" value=\"%d\"/>", XmlText(name), size);
    }
    absl::StrAppend(&text, "</properties>\n");
  }
  if (!result.ok()) {
    absl::StrAppendFormat(&text, "<error message=\"%s\"/>\n", XmlText(std::string(result.status().message())));
  } else if (failed) {
    absl::StrAppendFormat(&text, "<failure message=\"%s\">%s</failure>\n", XmlText(MessageOf(*result)),
                          XmlText(DetailsOf(*result)));
  }
  absl::StrAppend(&text, "</testcase>\n</testsuite>\n</testsuites>\n");
  return text;
}

}  // namespace rewright
