// The page about an optimization: it stands by itself, and names from models stay text.
#include "tools/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nlohmann/json.hpp"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every element that is opened is closed, in order; gives the names of all.
std::multiset<std::string> Elements(const std::string& html) {
  std::multiset<std::string> all;
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    EXPECT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name[0] == '!' || name == "meta" || name == "br" || name == "input") continue;
    if (name[0] == '/') {
      EXPECT_FALSE(open.empty()) << tag;
      if (open.empty()) break;
      EXPECT_EQ(name.substr(1), open.back());
      open.pop_back();
      continue;
    }
    open.push_back(name);
    all.insert(name);
    if (name == "script" || name == "style") at = html.find("</" + name, end) - 1;  // what is in them is no markup
  }
  EXPECT_TRUE(open.empty());
  return all;
}

TEST(HtmlReportTest, EscapesWhatHtmlWouldRead) {
  EXPECT_EQ(HtmlEscape("a<b & \"c\" > 'd'"), "a&lt;b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(HtmlEscape(std::string("x\0y\x1b", 4)), "x&#xFFFD;y&#xFFFD;");
  EXPECT_EQ(HtmlEscape("two\nlines \xc3\xa9"), "two\nlines \xc3\xa9");
}

TEST(HtmlReportTest, NamesOfAModelAreNoMarkup) {
  const std::string evil = "</td><script>alert(1)</script><img src=x onerror='f()'>\"&";
  ReportPage page;
  page.setting.model = page.written = page.setting.settings.search = page.setting.settings.cost = page.device = evil;
  OptimizeReport report;
  report.verdict = evil;
  const auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("</script>" + evil, {DType::kFloat32, {2}});
  const Value y = *arena->Apply("relu", {x});
  const Graph original(arena, {x}, {{*arena->Apply("relu", {y}), evil}});
  page.original = &original;
  page.other_runtime = evil;
  page.costs_before = page.costs_after = {{{y.node}, {evil, evil, evil, 1, 3e-3, 1, 1}}};
  page.rates = Rates{1e9, {{0, 1e9}}};
  page.progress = {{1, 1, 1, 0.5, 2e-3, 1e-3}};
  report.graph = Graph(arena, {x}, {{y, evil}});
  report.rewritten = true;
  report.check.done = report.check.equal = true;
  report.check.text = evil;
  report.rewrites = {{evil, 1}};
  report.search.trace = {{-1, evil, evil, 2e-3, 1e-3, {}}};
  report.path = {0};
  report.dropped = {{DroppedCandidate::Why::kFailed, evil, 1e-3, {}}};
  const std::string html = HtmlReport(page, report, RuleIndex());
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)"));
  const auto elements = Elements(html);
  EXPECT_EQ(elements.count("script"), 2u);  // the data and what draws them
  EXPECT_EQ(elements.count("svg"), 6u);     // two panes with their maps, roofline, search
  EXPECT_EQ(elements.count("h1"), 1u);
}

// The page of a graph that a rewrite made cheaper by 1 ms of 2.
std::string PageOf(ReportPage page) {
  const auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {2}});
  const Value y = *arena->Apply("relu", {x});
  const Value z = *arena->Apply("relu", {y});
  const Graph original(arena, {x}, {{z, "z"}});
  page.original = &original;
  OptimizeReport report;
  report.graph = Graph(arena, {x}, {{y, "z"}});
  report.rewritten = report.baseline = true;
  report.verdict = "cost lower by 2 times";
  report.cost_before = 2e-3;
  report.cost_after = 1e-3;
  report.search.trace = {{-1, "relu-of-relu", "z", 2e-3, 2e-3, {{z, y}}}};
  report.path = {0};
  return HtmlReport(page, report, RuleIndex());
}

TEST(HtmlReportTest, TellsWhatARewriteOfTheBaselineGainsAndThatNothingWasMeasured) {
  ReportPage page;
  page.setting.settings.cost = "analytic:zen3";
  page.device = "zen3";
  page.path_costs = {1e-3};
  page.other_runtime = "in onnxruntime: 1.07 of the original's time";
  const std::string html = PageOf(page);
  EXPECT_THAT(html, HasSubstr("estimated 2 times faster on zen3 (described, not measured)"));
  EXPECT_THAT(html, HasSubstr("relu-of-relu <span class=\"note\">gains 1 ms</span>"));
  EXPECT_THAT(html, HasSubstr("data-region=\"0\""));
  EXPECT_THAT(html, HasSubstr("id=\"change-1\""));
  EXPECT_THAT(html, HasSubstr("in onnxruntime: 1.07 of the original"));
  page.setting.settings.cost = "measured";
  page.path_costs = {std::nan("")};
  const std::string measured = PageOf(page);
  EXPECT_THAT(measured, HasSubstr("<p>cost lower by 2 times"));
  EXPECT_THAT(measured, Not(HasSubstr("not measured")));
  EXPECT_THAT(measured, HasSubstr("with the next"));
}

TEST(HtmlReportTest, IsWrittenBesideTheModel) {
  const TemporaryFolder folder;
  const std::string model = folder / "a&b.onnx";
  ASSERT_EQ(Rewright("zoo taso_nasrnn --layers 1 -o '" + model + "'").status, 0);
  const std::string optimize = "optimize --cost analytic:v100 --budget 50 --threads 1 --quiet '" + model + "' -o " +
                               (folder / "out.onnx") + " --report " + (folder / "report.html");
  const Outcome outcome = Rewright(optimize + " --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(folder.Files(), ::testing::ElementsAre("a&b.onnx", "out.onnx", "report.html"));
  const std::string html = FileContents(folder / "report.html");
  const auto elements = Elements(html);
  EXPECT_EQ(elements.count("link") + elements.count("img"), 0u);
  EXPECT_EQ(elements.count("script"), 2u);
  EXPECT_EQ(elements.count("svg"), 6u);
  EXPECT_THAT(html, HasSubstr("a&amp;b.onnx"));
  EXPECT_THAT(html, HasSubstr("equal within tolerance"));
  for (const auto& rewrite : outcome.Json()["rewrites"]) {
    EXPECT_THAT(html, HasSubstr("<pre>rule " + rewrite["rule"].get<std::string>()));
  }
  EXPECT_THAT(html, HasSubstr("proved, "));
  EXPECT_THAT(html, Not(HasSubstr("Gains:")));
  // Each node has a group with its cost; the costs of a side are those of its graph.
  const size_t at = html.find("id=\"graphs\">") + 12;
  const auto data = nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
  for (int side = 0; side < 2; ++side) {
    double sum = 0;
    for (const auto& group : data["sides"][side]["groups"]) sum += group[0].get<double>();
    EXPECT_NEAR(sum, outcome.Json()[side == 0 ? "cost_before_ms" : "cost_after_ms"].get<double>(), 1e-6);
    for (const auto& node : data["sides"][side]["nodes"]) {
      EXPECT_EQ(node[8].get<int>() < 0, node[0] == "input");
      if (node[0] == "matmul") {
        EXPECT_GT(node[9].get<double>(), 0);
        EXPECT_GT(node[10].get<double>(), 0);
      }
    }
  }
  EXPECT_EQ(Rewright(optimize + " --report /nonexistent/r.html").status, 2);
}

}  // namespace
}  // namespace rewright
