#include "tools/report/html_report.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "substitutions/language/rule_printer.h"
#include "tools/program/models.h"
#include "tools/report/graph_picture.h"

namespace rewright {
namespace {

constexpr size_t kMaxRows = 500;  // of the path
constexpr size_t kMaxGroups = 40;
constexpr int kColors = 8;  // of changes, in page.css

// A page in the making. Text() escapes; what is given to Raw() is ours.
class Page {
 public:
  void Raw(const std::string& markup) { html_ += markup; }
  void Heading(const std::string& text) { absl::StrAppend(&html_, "<h2>", HtmlEscape(text), "</h2>\n"); }
  void Note(const std::string& text) { absl::StrAppend(&html_, "<p class=\"note\">", HtmlEscape(text), "</p>\n"); }

  // Columns whose title begins with # hold numbers.
  void BeginTable(std::initializer_list<const char*> titles) {
    Raw("<div class=\"wide\"><table>\n<tr>");
    numeric_.clear();
    for (const std::string title : titles) {
      numeric_.push_back(title.rfind('#', 0) == 0);
      Cell("th", numeric_.back(), HtmlEscape(title.substr(numeric_.back() ? 1 : 0)));
    }
    Raw("</tr>\n");
  }
  void Row(const std::vector<std::string>& texts) {
    std::vector<std::string> cells;
    for (const std::string& text : texts) cells.push_back(HtmlEscape(text));
    MarkupRow(cells);
  }
  void MarkupRow(const std::vector<std::string>& cells) {
    Raw("<tr>");
    for (size_t i = 0; i < cells.size(); ++i) Cell("td", i < numeric_.size() && numeric_[i], cells[i]);
    Raw("</tr>\n");
  }
  void EndTable() { Raw("</table></div>\n"); }
  std::string Take() { return std::move(html_); }

 private:
  void Cell(const char* tag, bool number, const std::string& markup) {
    absl::StrAppend(&html_, "<", tag, number ? " class=\"n\">" : ">", markup, "</", tag, ">");
  }

  std::string html_;
  std::vector<bool> numeric_;
};

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g ms", seconds * 1e3); }

std::string Change(double before, double after) {
  if (!(before > 0)) return "";
  return absl::StrFormat("%+.1f %%", (after / before - 1) * 100);
}

void Summary(const ReportPage& page, const OptimizeReport& report, Page& html) {
  html.Heading("Result");
  html.BeginTable({"", "#before", "#after", "#change"});
  html.Row({"applications that run", absl::StrCat(report.nodes_before), absl::StrCat(report.nodes_after), ""});
  html.Row({"cost, the sum of the groups", Milliseconds(report.cost_before), Milliseconds(report.cost_after),
            Change(report.cost_before, report.cost_after)});
  if (report.latency_before && report.latency_after) {
    html.Row({"latency, whole graph", Milliseconds(*report.latency_before), Milliseconds(*report.latency_after),
              Change(*report.latency_before, *report.latency_after)});
  }
  html.EndTable();
  if (report.measured) {
    const Measurement& m = *report.measured;
    html.Note(
        absl::StrFormat("Interleaved pairs of runs: %d of %d faster, median of the ratios %.4g, sign test p = %.2g.",
                        m.wins, m.wins + m.losses, m.ratio, m.p_value));
  }
  if (!page.other_runtime.empty()) html.Note(page.other_runtime);

  html.Heading("Check of the outputs");
  if (!page.checked) {
    html.Raw("<p class=\"bad\">not checked</p>\n");
  } else if (!report.check.done) {
    html.Note(report.rewritten ? absl::StrCat("not checked: ", report.check.text) : "the graph is the original");
  } else {
    html.Raw(report.check.equal ? "<p class=\"good\">equal within tolerance</p>\n"
                                : "<p class=\"bad\">they differ</p>\n");
    html.Note(absl::StrFormat("largest difference %.3g, %.3g of the largest element; %s", report.check.max_abs_diff,
                              report.check.max_rel_diff, report.check.text));
  }

  if (!page.proof.empty()) {
    html.Heading("Proof");
    html.Note(page.proof);
  }

  html.Heading("Search");
  html.BeginTable({"", ""});
  const SearchResult& search = report.search;
  html.Row({"strategy", absl::StrFormat("%s, alpha %g, budget %d", page.setting.settings.search,
                                        page.setting.settings.alpha, page.setting.settings.budget)});
  html.Row({"graphs built", absl::StrCat(search.steps)});
  html.Row({"rewrites judged", absl::StrCat(report.graphs_explored)});
  html.Row({"CPU time", absl::StrFormat("%.2f s", report.search_cpu_seconds)});
  html.Row({"end", SearchEndName(search.end)});
  html.Row({"memory of the process", BytesText(static_cast<double>(report.peak_rss_bytes)) + " at most"});
  html.EndTable();
}

// The text of a rule, and the grounds on which it is believed.
std::string Law(const RuleIndex& rules, const std::string& name, std::string* verdict) {
  for (const auto& matcher : rules.matchers()) {
    const Rule& rule = matcher->rule().rule();
    if (rule.name != name) continue;
    *verdict = rule.proof ? absl::StrCat("proved, ", RuleClassName(rule.proof->rule_class)) : "not proved";
    std::vector<std::string> lines;  // without where the rule is known to gain: a note for its authors
    for (const std::string& line : rule.comment) {
      if (!absl::StartsWith(line, "Gains: ")) lines.push_back(line);
    }
    const std::string comment = absl::StrJoin(lines, "\n");
    return absl::StrCat(comment.empty() ? "" : absl::StrCat(HtmlEscape(comment), "<br>\n"), "<pre>",
                        HtmlEscape(PrintLaw(rule)), "</pre>");
  }
  *verdict = "";
  return "";
}

std::string RuleAnchor(const std::string& rule) { return HtmlEscape(absl::StrCat("rule-", rule)); }

void Rewrites(const OptimizeReport& report, const RuleIndex& rules, Page& html) {
  html.Heading("Rewrites");
  if (report.rewrites.empty()) return html.Note("none");
  html.BeginTable({"#count", "rule", "verdict", "law"});
  for (const RewriteCount& rewrite : report.rewrites) {
    std::string verdict;
    const std::string law = Law(rules, rewrite.rule, &verdict);
    html.MarkupRow({absl::StrCat(rewrite.count),
                    absl::StrCat("<span id=\"", RuleAnchor(rewrite.rule), "\">", HtmlEscape(rewrite.rule), "</span>"),
                    HtmlEscape(verdict), law});
  }
  html.EndTable();
}

// The cost after every step of the path, as a line.
void Curve(const std::vector<double>& costs, Page& html) {
  constexpr double kWidth = 900, kHeight = 220, kMargin = 60;
  const auto [low, high] = std::minmax_element(costs.begin(), costs.end());
  const double range = *high > *low ? *high - *low : 1;
  std::string points;
  for (size_t i = 0; i < costs.size(); ++i) {
    const double x = kMargin + (kWidth - 2 * kMargin) * static_cast<double>(i) / static_cast<double>(costs.size() - 1);
    const double y = kHeight - 30 - (kHeight - 60) * (costs[i] - *low) / range;
    absl::StrAppendFormat(&points, "%.1f,%.1f ", x, y);
  }
  html.Raw(absl::StrFormat(
      "<svg class=\"curve\" viewBox=\"0 0 %g %g\" width=\"%g\" role=\"img\" aria-label=\"cost after each rewrite\">\n",
      kWidth, kHeight, kWidth));
  html.Raw(absl::StrFormat("<text x=\"4\" y=\"34\" font-size=\"12\">%s</text>\n", Milliseconds(*high)));
  html.Raw(absl::StrFormat("<text x=\"4\" y=\"%g\" font-size=\"12\">%s</text>\n", kHeight - 26, Milliseconds(*low)));
  html.Raw(absl::StrFormat("<text x=\"%g\" y=\"%g\" font-size=\"12\">%d rewrites</text>\n", kWidth - 110, kHeight - 8,
                           costs.size() - 1));
  html.Raw(absl::StrCat("<polyline fill=\"none\" stroke-width=\"2\" points=\"", points, "\"></polyline>\n</svg>\n"));
}

// A rewrite's rules, each with a link to its law.
std::string RuleLinks(const std::string& rules) {
  std::vector<std::string> links;
  for (const absl::string_view rule : absl::StrSplit(rules, kRuleSeparator)) {
    links.push_back(
        absl::StrCat("<a href=\"#", RuleAnchor(std::string(rule)), "\">", HtmlEscape(std::string(rule)), "</a>"));
  }
  return absl::StrJoin(links, HtmlEscape(kRuleSeparator));
}

// The classes of a rewrite's rules.
std::string Classes(const RuleIndex& index, const std::string& rules) {
  std::vector<std::string> verdicts;
  for (const absl::string_view rule : absl::StrSplit(rules, kRuleSeparator)) {
    std::string verdict;
    Law(index, std::string(rule), &verdict);
    if (!verdict.empty() && std::find(verdicts.begin(), verdicts.end(), verdict) == verdicts.end()) {
      verdicts.push_back(verdict);
    }
  }
  return HtmlEscape(absl::StrJoin(verdicts, "; "));
}

// Where it happened: what shows it in the pictures, where they have it.
std::string Place(const ReportPage& page, const GraphChanges& changes, const TraceStep& step) {
  int region = -1;
  for (const auto& [from, to] : step.replacement) {
    if (page.original == nullptr || region >= 0) break;
    region = changes.RegionOf(*page.original->arena(), from);
    if (region < 0) region = changes.RegionOf(*page.original->arena(), to);
  }
  if (region < 0) return HtmlEscape(step.place);
  return absl::StrCat("<button class=\"place c", region % kColors, "\" data-region=\"", region, "\" data-rule=\"",
                      HtmlEscape(step.rule), "\">", HtmlEscape(step.place), "</button>");
}

void Path(const ReportPage& page, const OptimizeReport& report, const RuleIndex& rules, const GraphChanges& changes,
          Page& html) {
  if (report.path.empty()) return;
  html.Heading("Path");
  std::vector<double> costs = {report.search.trace[report.path[0]].cost_before};
  for (int at : report.path) costs.push_back(report.search.trace[at].cost_after);
  Curve(costs, html);
  html.Note("Costs within a round of rewrites that are taken together are estimates. A rewrite without a gain of its "
            "own makes way for others, or is one of the baseline's, whose gain shows at their end.");
  html.BeginTable({"#step", "rule", "class", "place", "#before", "#after", "#gain"});
  for (size_t i = 0; i < std::min(report.path.size(), kMaxRows); ++i) {
    const TraceStep& step = report.search.trace[report.path[i]];
    html.MarkupRow({absl::StrCat(i + 1), RuleLinks(step.rule), Classes(rules, step.rule), Place(page, changes, step),
                    Milliseconds(step.cost_before), Milliseconds(step.cost_after),
                    step.cost_before == step.cost_after ? "" : Milliseconds(step.cost_before - step.cost_after)});
  }
  html.EndTable();
  if (report.path.size() > kMaxRows) html.Note(absl::StrCat("and ", report.path.size() - kMaxRows, " more"));
}

void Groups(const ReportPage& page, Page& html) {
  struct Both {
    int count[2] = {0, 0};
    double seconds[2] = {0, 0};
    double saved() const { return seconds[0] - seconds[1]; }
  };
  std::map<std::pair<std::string, std::string>, Both> all;
  const std::vector<GroupLine>* sides[2] = {&page.groups_before, &page.groups_after};
  for (int side = 0; side < 2; ++side) {
    for (const GroupLine& line : *sides[side]) {
      Both& both = all[{line.operators, line.types}];
      both.count[side] += line.count;
      both.seconds[side] += line.seconds * line.count;
    }
  }
  std::vector<std::pair<std::pair<std::string, std::string>, Both>> rows(all.begin(), all.end());
  rows.erase(
      std::remove_if(rows.begin(), rows.end(), [](const auto& row) { return std::abs(row.second.saved()) < 1e-12; }),
      rows.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second.saved()) > std::abs(b.second.saved());
  });
  html.Heading("Groups that the device runs as one, where something changed");
  if (rows.empty()) return html.Note("none");
  html.BeginTable({"operators", "result", "#before", "#cost", "#after", "#cost", "#saved"});
  for (size_t i = 0; i < std::min(rows.size(), kMaxGroups); ++i) {
    const auto& [key, both] = rows[i];
    html.Row({key.first, key.second, absl::StrCat(both.count[0]), Milliseconds(both.seconds[0]),
              absl::StrCat(both.count[1]), Milliseconds(both.seconds[1]), Milliseconds(both.saved())});
  }
  html.EndTable();
  if (rows.size() > kMaxGroups) html.Note(absl::StrCat("and ", rows.size() - kMaxGroups, " more"));
}

void Dropped(const OptimizeReport& report, Page& html) {
  if (report.dropped.empty()) return;
  html.Heading("Candidates that were dropped");
  html.BeginTable({"#cost", "why"});
  for (const DroppedCandidate& candidate : report.dropped) html.Row({Milliseconds(candidate.cost), candidate.text});
  html.EndTable();
}

}  // namespace

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

std::string HtmlReport(const ReportPage& page, const OptimizeReport& report, const RuleIndex& rules) {
  Page html;
  const std::string model = HtmlEscape(page.setting.model);
  html.Raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  // Says to a browser what holds anyway: nothing is loaded, and no script runs but that of the pictures.
  html.Raw(
      absl::StrCat("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                   "'unsafe-inline'; script-src ",
                   PictureScriptSource(), "\">\n"));
  html.Raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  html.Raw(absl::StrCat("<title>", model, "</title>\n<style>", PageStyle(), "</style>\n</head>\n<body>\n"));
  html.Raw(absl::StrCat("<h1>", model, "</h1>\n<p>", HtmlEscape(report.verdict), "</p>\n"));
  html.Note(absl::StrCat(page.date, "; device ", page.device, "; cost ", page.setting.settings.cost,
                         "; written: ", page.written));
  GraphChanges changes;
  if (page.original != nullptr) {
    const Graph* const after = report.rewritten ? &report.graph : nullptr;
    changes = ChangesBetween(*page.original, after != nullptr ? *after : *page.original);
    html.Raw(PictureMarkup(*page.original, after, changes));
  }
  Summary(page, report, html);
  Path(page, report, rules, changes, html);
  Rewrites(report, rules, html);
  Groups(page, html);
  Dropped(report, html);
  if (page.original != nullptr) html.Raw(PictureScript());
  html.Raw("</body>\n</html>\n");
  return html.Take();
}

}  // namespace rewright
