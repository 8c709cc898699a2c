// Markup of a page in the making. Names from models and rule files are untrusted: every text is escaped.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rewright {

// < > & " ' become references, control characters a replacement character.
std::string HtmlEscape(const std::string& text);

// Text is escaped; what is given to Raw() and MarkupRow() is ours.
class HtmlPage {
 public:
  // The head of a page that stands by itself. `script_source`: the one script that may run, as 'sha256-..'; empty:
  // none.
  void Begin(const std::string& title, const std::string& script_source);
  void End() { Raw("</main>\n</body>\n</html>\n"); }

  void Raw(const std::string& markup) { html_ += markup; }
  void Heading(const std::string& text) { absl::StrAppend(&html_, "<h2>", HtmlEscape(text), "</h2>\n"); }
  void Note(const std::string& text) { absl::StrAppend(&html_, "<p class=\"note\">", HtmlEscape(text), "</p>\n"); }

  // Columns whose title begins with # hold numbers.
  void BeginTable(std::initializer_list<const char*> titles);
  void Row(const std::vector<std::string>& texts);
  void MarkupRow(const std::vector<std::string>& cells);
  void EndTable() { Raw("</table></div>\n"); }
  std::string Take() { return std::move(html_); }

 private:
  void Cell(const char* tag, bool number, const std::string& markup);

  std::string html_;
  std::vector<bool> numeric_;
};

}  // namespace rewright
