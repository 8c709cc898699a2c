#include "tools/report/html_page.h"

#include "tools/report/graph_picture.h"

namespace rewright {

std::string HtmlEscape(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t') {
          escaped += "&#xFFFD;";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

void HtmlPage::Begin(const std::string& title, const std::string& script_source) {
  Raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  // Says to a browser what holds anyway: nothing is loaded, and no script runs but that of the pictures.
  Raw(absl::StrCat("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ",
                   "'unsafe-inline'", script_source.empty() ? "" : "; script-src ", script_source, "\">\n"));
  Raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  Raw(absl::StrCat("<title>", HtmlEscape(title), "</title>\n<style>", PageStyle(),
                   "</style>\n</head>\n<body>\n<main>\n"));
  Raw(absl::StrCat("<h1>", HtmlEscape(title), "</h1>\n"));
}

void HtmlPage::BeginTable(std::initializer_list<const char*> titles) {
  Raw("<div class=\"wide\" tabindex=\"0\"><table>\n<tr>");
  numeric_.clear();
  for (const std::string title : titles) {
    numeric_.push_back(title.rfind('#', 0) == 0);
    Cell(title.empty() ? "td" : "th", numeric_.back(), HtmlEscape(title.substr(numeric_.back() ? 1 : 0)));
  }
  Raw("</tr>\n");
}

void HtmlPage::Row(const std::vector<std::string>& texts) {
  std::vector<std::string> cells;
  for (const std::string& text : texts) cells.push_back(HtmlEscape(text));
  MarkupRow(cells);
}

void HtmlPage::MarkupRow(const std::vector<std::string>& cells) {
  Raw("<tr>");
  for (size_t i = 0; i < cells.size(); ++i) Cell("td", i < numeric_.size() && numeric_[i], cells[i]);
  Raw("</tr>\n");
}

void HtmlPage::Cell(const char* tag, bool number, const std::string& markup) {
  absl::StrAppend(&html_, "<", tag, number ? " class=\"n\">" : ">", markup, "</", tag, ">");
}

}  // namespace rewright
