#include "tools/report/html_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "substitutions/language/rule_printer.h"
#include "tools/program/models.h"
#include "tools/report/cost_pictures.h"
#include "tools/report/graph_picture.h"
#include "tools/report/path_costs.h"
#include "tools/report/plot.h"

namespace rewright {
namespace {

constexpr size_t kMaxRows = 500;  // of the path
constexpr size_t kMaxGroups = 40;
constexpr size_t kDearest = 10;
constexpr size_t kShownPlaces = 40;                 // of one kind of change
constexpr absl::string_view kGainsNote = "Gains:";  // in a rule's comment: for which model its authors have it

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g ms", seconds * 1e3); }

std::string Change(double before, double after) {
  if (!(before > 0)) return "";
  return absl::StrFormat("%+.1f %%", (after / before - 1) * 100);
}

std::string CostWord(const ReportPage& page) {
  return page.measured() ? "measured" : absl::StrCat("as described by ", page.device, ", not measured");
}

// One sentence: the result, and for whom it is.
void Headline(const ReportPage& page, const OptimizeReport& report, HtmlPage& html) {
  std::string verdict = report.verdict;
  if (report.rewritten && !page.measured() && report.cost_after > 0) {
    verdict = absl::StrFormat("estimated %.4g times faster on %s (described, not measured)",
                              report.cost_before / report.cost_after, page.device);
  }
  html.Raw(absl::StrCat("<p>", HtmlEscape(verdict), report.baseline ? "; the baseline&#39;s graph" : "", "</p>\n"));
  if (!page.other_runtime.empty()) html.Note(page.other_runtime);
  html.Note(absl::StrCat(page.date, "; costs ", CostWord(page), page.measured() ? " on " : "",
                         page.measured() ? page.device : "", "; written: ", page.written));
}

void Summary(const ReportPage& page, const OptimizeReport& report, HtmlPage& html) {
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

  html.Heading("Check of the outputs");
  if (!page.checked) {
    html.Raw("<p class=\"bad\">not checked</p>\n");
  } else if (!report.check.done) {
    html.Note(report.rewritten ? absl::StrCat("not checked: ", report.check.text) : "the graph is the original");
  } else {
    html.Raw(report.check.equal ? "<p class=\"good\">equal within tolerance</p>\n"
                                : "<p class=\"bad\">they differ</p>\n");
    const std::string largest = report.check.max_abs_diff > 0
                                    ? absl::StrFormat("largest difference %.3g, ", report.check.max_abs_diff)
                                    : std::string();
    html.Note(
        absl::StrFormat("%s%.3g of the largest element; %s", largest, report.check.max_rel_diff, report.check.text));
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
    std::vector<std::string> lines = rule.comment;
    std::erase_if(lines, [](const std::string& line) { return absl::StartsWith(line, kGainsNote); });
    const std::string comment = absl::StrJoin(lines, "\n");
    return absl::StrCat(comment.empty() ? "" : absl::StrCat(HtmlEscape(comment), "<br>\n"), "<pre>",
                        HtmlEscape(PrintLaw(rule)), "</pre>");
  }
  *verdict = "";
  return "";
}

// Rules that are carried out together, with all places where they were.
struct RuleUse {
  std::string rules;  // with kRuleSeparator between them
  double gain = 0;    // seconds
  std::vector<size_t> steps;
};

// The gain of each step in seconds. A step whose graph has no cost counts with the next one that has: NaN.
std::vector<double> Gains(const ReportPage& page, const OptimizeReport& report) {
  std::vector<double> gains(report.path.size(), std::numeric_limits<double>::quiet_NaN());
  double before = report.cost_before;
  for (size_t i = 0; i < page.path_costs.size() && i < gains.size(); ++i) {
    if (std::isnan(page.path_costs[i])) continue;
    gains[i] = before - page.path_costs[i];
    before = page.path_costs[i];
  }
  return gains;
}

std::vector<RuleUse> UsesOfRules(const OptimizeReport& report, const std::vector<double>& gains) {
  std::map<std::string, RuleUse> uses;
  for (size_t i = 0; i < report.path.size(); ++i) {
    const std::string& rules = report.search.trace[report.path[i]].rule;
    RuleUse& use = uses[rules];
    use.rules = rules;
    use.gain += std::isnan(gains[i]) ? 0 : gains[i];
    use.steps.push_back(i);
  }
  std::vector<RuleUse> sorted;
  for (auto& [rules, use] : uses) sorted.push_back(std::move(use));
  std::stable_sort(sorted.begin(), sorted.end(), [](const RuleUse& a, const RuleUse& b) { return a.gain > b.gain; });
  return sorted;
}

// Where it happened: what shows it in the pictures, where they have it.
std::string Place(int region, const TraceStep& step) {
  if (region < 0) return HtmlEscape(step.place);
  return absl::StrCat("<button class=\"place c", region % Plot::kColors, "\" data-region=\"", region, "\" data-rule=\"",
                      HtmlEscape(step.rule), "\">", HtmlEscape(step.place), "</button>");
}

void Laws(const RuleUse& use, const RuleIndex& index, HtmlPage& html) {
  for (const absl::string_view rule : absl::StrSplit(use.rules, kRuleSeparator)) {
    std::string verdict;
    const std::string law = Law(index, std::string(rule), &verdict);
    html.Note(verdict);
    html.Raw(law);
  }
}

void Rewrites(const ReportPage& page, const OptimizeReport& report, const RuleIndex& rules,
              const std::vector<int>& regions, HtmlPage& html) {
  html.Heading("Rewrites");
  const std::vector<double> gains = Gains(page, report);
  const std::vector<RuleUse> uses = UsesOfRules(report, gains);
  if (uses.empty()) return html.Note("none");
  html.Note(
      absl::StrCat("By rule, the largest gain first. A gain is the cost without the rewrite minus the cost with "
                   "it, in the order of the steps",
                   report.baseline ? "; all are the baseline's." : "."));
  for (const RuleUse& use : uses) {
    html.Raw(absl::StrCat("<details class=\"rule\"><summary>", use.steps.size(), " &times; ", HtmlEscape(use.rules),
                          " <span class=\"note\">gains ", Milliseconds(use.gain), "</span></summary>\n"));
    Laws(use, rules, html);
    std::vector<size_t> steps = use.steps;
    std::stable_sort(steps.begin(), steps.end(), [&](size_t a, size_t b) {
      return (std::isnan(gains[a]) ? 0 : gains[a]) > (std::isnan(gains[b]) ? 0 : gains[b]);
    });
    html.BeginTable({"#step", "place", "#gain"});
    for (size_t k = 0; k < std::min(steps.size(), kMaxRows); ++k) {
      const size_t i = steps[k];
      html.MarkupRow({absl::StrCat(i + 1), Place(regions[i], report.search.trace[report.path[i]]),
                      std::isnan(gains[i]) ? "with the next" : Milliseconds(gains[i])});
    }
    html.EndTable();
    if (steps.size() > kMaxRows) html.Note(absl::StrCat("and ", steps.size() - kMaxRows, " more"));
    html.Raw("</details>\n");
  }
}

// "conv2d, 2 x relu": the operators of a change on one side.
std::string OperatorsOf(const Graph& graph, const ChangedSide& side, int region) {
  std::map<std::string, int> counts;
  for (size_t i = 0; i < side.nodes.size(); ++i) {
    const Node& node = graph.node(side.nodes[i]);
    if (side.region[i] == region) ++counts[node.op == nullptr ? "input" : node.op->name];
  }
  if (counts.empty()) return "nothing";
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& one) {
    absl::StrAppend(out, one.second > 1 ? absl::StrCat(one.second, " x ") : "", one.first);
  });
}

// A line for each kind of change, with a link to each change of it.
void Changes(const Graph& before, const Graph& after, const GraphChanges& changes, HtmlPage& html) {
  if (changes.regions == 0) return;
  std::map<int, std::vector<int>> kinds;  // by the first change of each
  for (int r = 0; r < changes.regions; ++r) kinds[changes.kind[r]].push_back(r);
  html.Heading("Changes");
  html.BeginTable({"#times", "before", "after", "changes"});
  for (const auto& [first, regions] : kinds) {
    std::string links;
    for (size_t k = 0; k < regions.size(); ++k) {
      if (k == kShownPlaces) links += "<details><summary>more</summary>";
      absl::StrAppend(&links, "<a id=\"change-", regions[k] + 1, "\" href=\"#change-", regions[k] + 1, "\">",
                      regions[k] + 1, "</a> ");
    }
    if (regions.size() > kShownPlaces) links += "</details>";
    html.MarkupRow({absl::StrCat(regions.size()), HtmlEscape(OperatorsOf(before, changes.before, first)),
                    HtmlEscape(OperatorsOf(after, changes.after, first)), links});
  }
  html.EndTable();
}

// The groups that cost most, of the graph that came out, equal ones in one row, with buttons that show the first of
// them in its picture.
void Dearest(const ReportPage& page, const ChangedSide& side, int number, HtmlPage& html) {
  std::map<std::pair<std::string, std::string>, NodeId> firsts;
  double total = 0;
  for (const auto& [nodes, line] : page.costs_after) {
    total += line.seconds;
    firsts.emplace(std::pair(line.operators, line.types), nodes.back());
  }
  std::vector<GroupLine> lines = Merged(page.costs_after);
  if (lines.empty()) return;
  lines.resize(std::min(lines.size(), kDearest));
  html.Heading(absl::StrCat("The ", lines.size(), " most expensive"));
  html.Note(absl::StrCat("Groups of operators that run as one; costs are ", CostWord(page), "."));
  html.BeginTable({"#cost", "#of all", "#times", "operators", "result", "#M FLOP each", "#MB each"});
  for (const GroupLine& line : lines) {
    const auto at = side.position.find(firsts.at({line.operators, line.types}));
    const std::string name = HtmlEscape(line.operators);
    const double seconds = line.seconds * line.count;
    html.MarkupRow({Milliseconds(seconds), absl::StrFormat("%.1f %%", 100 * seconds / total), absl::StrCat(line.count),
                    at == side.position.end() ? name
                                              : absl::StrCat("<button class=\"jump\" data-side=\"", number,
                                                             "\" data-node=\"", at->second, "\">", name, "</button>"),
                    HtmlEscape(line.types), absl::StrFormat("%.4g", line.flops / 1e6),
                    absl::StrFormat("%.4g", line.bytes / 1e6)});
  }
  html.EndTable();
}

void Plots(const ReportPage& page, HtmlPage& html) {
  const std::string roofline = page.rates ? RooflinePlot(Merged(page.costs_after), *page.rates) : std::string();
  if (!roofline.empty()) {
    html.Heading("Roofline");
    html.Note(
        absl::StrFormat("%.4g GFLOP/s and %.4g GB/s at most, %s; a dot is a group, a green one computed by a law with "
                        "other operators than it has.",
                        page.rates->flops_per_second / 1e9, page.rates->bytes_per_second() / 1e9, CostWord(page)));
    html.Raw(roofline);
  }
  if (const std::string search = SearchPlot(page.progress); !search.empty()) {
    html.Heading("Search over time");
    html.Raw(search);
  }
  if (!page.memory.empty()) {
    html.Heading("Memory plan");
    html.Note("A box is a buffer: the steps that it lives, and its place in the memory for activations.");
    html.Raw(page.memory);
  }
}

void Groups(const ReportPage& page, HtmlPage& html) {
  struct Both {
    int count[2] = {0, 0};
    double seconds[2] = {0, 0};
    double saved() const { return seconds[0] - seconds[1]; }
  };
  std::map<std::pair<std::string, std::string>, Both> all;
  const std::vector<CostedGroup>* sides[2] = {&page.costs_before, &page.costs_after};
  for (int side = 0; side < 2; ++side) {
    for (const auto& [nodes, line] : *sides[side]) {
      if (line.seconds <= 0) continue;
      Both& both = all[{line.operators, line.types}];
      ++both.count[side];
      both.seconds[side] += line.seconds;
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

void Dropped(const OptimizeReport& report, HtmlPage& html) {
  if (report.dropped.empty()) return;
  html.Heading("Candidates that were dropped");
  html.BeginTable({"#cost", "why"});
  for (const DroppedCandidate& candidate : report.dropped) html.Row({Milliseconds(candidate.cost), candidate.text});
  html.EndTable();
}

}  // namespace

std::string HtmlReport(const ReportPage& page, const OptimizeReport& report, const RuleIndex& rules) {
  HtmlPage html;
  html.Begin(page.setting.model, PictureScriptSource());
  Headline(page, report, html);
  GraphChanges changes;
  std::vector<int> regions(report.path.size(), -1);
  const Graph* const after = report.rewritten ? &report.graph : nullptr;
  if (page.original != nullptr) {
    changes = ChangesBetween(*page.original, after != nullptr ? *after : *page.original);
    regions = RegionsAlong(*page.original->arena(), changes, report.search.trace, report.path);
    const PicturedGraph before_picture = {*page.original, changes.before, page.costs_before};
    std::optional<PicturedGraph> after_picture;
    if (after != nullptr) after_picture.emplace(PicturedGraph{*after, changes.after, page.costs_after});
    html.Raw(PictureMarkup(before_picture, after_picture ? &*after_picture : nullptr, changes, CostWord(page)));
  }
  Summary(page, report, html);
  if (page.original != nullptr)
    Dearest(page, after != nullptr ? changes.after : changes.before, after != nullptr, html);
  if (page.original != nullptr && after != nullptr) Changes(*page.original, *after, changes, html);
  Rewrites(page, report, rules, regions, html);
  Plots(page, html);
  Groups(page, html);
  Dropped(report, html);
  if (page.original != nullptr) html.Raw(PictureScript());
  html.End();
  return html.Take();
}

}  // namespace rewright
