#include "tools/verbs/train/train_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "runtime/distributed/plan_text.h"
#include "runtime/distributed/simulate.h"
#include "tools/report/html_page.h"
#include "tools/report/plot.h"

namespace rewright {
namespace {

constexpr size_t kMostPoints = 2000;  // of a curve
constexpr char kLoss[] = "loss", kValidationLoss[] = "validation/loss";

// Means of runs of neighbours, at most kMostPoints of them.
Plot::Points Thinned(const Plot::Points& points) {
  const size_t run = (points.size() + kMostPoints - 1) / kMostPoints;
  if (run <= 1) return points;
  Plot::Points means;
  for (size_t first = 0; first < points.size(); first += run) {
    const size_t end = std::min(points.size(), first + run);
    double x = 0, y = 0;
    for (size_t i = first; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    means.emplace_back(x / static_cast<double>(end - first), y / static_cast<double>(end - first));
  }
  return means;
}

using Curve = std::pair<std::string, Plot::Points>;

// The colors of the curves of a plot, from the first one on.
int ColorOf(size_t curve) { return curve == 0 ? 1 : 0; }

std::string Legend(const std::vector<Curve>& curves) {
  std::string names;
  for (size_t i = 0; i < curves.size(); ++i) {
    absl::StrAppend(&names, "<span class=\"key c", ColorOf(i), "\">&#9632;</span> ", HtmlEscape(curves[i].first), " ");
  }
  return absl::StrCat("<p class=\"note\">", names, "</p>\n");
}

std::string CurvePlot(const std::string& title, const std::vector<Curve>& curves) {
  PlotAxis x{"step", HUGE_VAL, -HUGE_VAL}, y{title, HUGE_VAL, -HUGE_VAL};
  for (const auto& [name, points] : curves) {
    for (const auto& [step, value] : points) {
      x.low = std::min(x.low, step);
      x.high = std::max(x.high, step);
      y.low = std::min(y.low, value);
      y.high = std::max(y.high, value);
    }
  }
  Plot plot(absl::StrCat(title, " over the steps of training"), x, y);
  for (size_t i = 0; i < curves.size(); ++i) {
    const auto& [name, points] = curves[i];
    plot.Line(Thinned(points), ColorOf(i),
              absl::StrFormat("%s: %.4g to %.4g", name, points[0].second, points.back().second));
  }
  return plot.Take();
}

}  // namespace

std::vector<std::pair<std::string, double>> MetricsOf(const StepReport& report) {
  std::vector<std::pair<std::string, double>> values = {
      {kLoss, report.loss}, {"learning_rate", report.learning_rate}, {"seconds", report.seconds}};
  if (report.gradient_norm) values.emplace_back("gradient_norm", *report.gradient_norm);
  if (report.measurement) values.emplace_back(kValidationLoss, report.measurement->loss);
  if (report.measurement && report.measurement->accuracy) {
    values.emplace_back("validation/accuracy", *report.measurement->accuracy);
  }
  return values;
}

void TrainingCurves::Add(const StepReport& report) {
  for (const auto& [name, value] : MetricsOf(report)) {
    if (std::isfinite(value)) points_[name].emplace_back(static_cast<double>(report.step), value);
  }
}

std::string TrainingCurves::Markup() const {
  std::string markup;
  const auto add = [&](const std::string& title, const std::vector<std::string>& names) {
    std::vector<Curve> curves;
    for (const std::string& name : names) {
      const auto found = points_.find(name);
      if (found != points_.end() && found->second.size() > 1) curves.emplace_back(name, found->second);
    }
    if (curves.empty()) return;
    absl::StrAppend(&markup, "<h2>", HtmlEscape(title), "</h2>\n");
    if (curves.size() > 1) absl::StrAppend(&markup, Legend(curves));
    absl::StrAppend(&markup, CurvePlot(title, curves));
  };
  add(kLoss, {kLoss, kValidationLoss});
  for (const auto& [name, points] : points_) {
    if (name != kLoss && name != kValidationLoss) add(name, {name});
  }
  return markup;
}

absl::StatusOr<std::string> RankLanes(const distributed::Plan& plan) {
  distributed::Cluster cluster;
  cluster.name = "ranks without a way between them";
  cluster.levels = {{"ranks", plan.mesh.ranks(), 1e30, 0, 1, {}}};
  ASSIGN_OR_RETURN(const distributed::SimulatedStep step, distributed::Simulate(plan, cluster));
  Plot plot("Ranks over the time of a step: what each computes", {"ms", 0, step.seconds * 1e3},
            {"rank", 0, static_cast<double>(plan.mesh.ranks())});
  for (const distributed::Span& span : step.spans) {
    const distributed::Action& action = plan.lists[span.rank][span.action];
    if (IsCommunication(action.kind) || span.end <= span.begin) continue;
    plot.Box(span.begin * 1e3, span.rank + 0.1, span.end * 1e3, span.rank + 0.9,
             action.kind == distributed::Action::Kind::kRun ? 1 : 2,
             absl::StrFormat("%s: %.4g ms", distributed::PrintAction(plan, action), (span.end - span.begin) * 1e3));
  }
  return absl::StrCat(
      "<h2>Ranks</h2>\n<p class=\"note\">A step by its plan: computation as measured, messages as if "
      "they took no time; ",
      absl::StrFormat("%.1f %% of all ranks&#39; time is waiting for other ranks.", 100 * step.bubble()), "</p>\n",
      plot.Take());
}

std::string TrainingPage(const std::string& title, const std::string& note, const TrainingCurves& curves,
                         const std::string& lanes) {
  HtmlPage html;
  html.Begin(title, "");
  html.Note(note);
  html.Raw(curves.Markup());
  html.Raw(lanes);
  html.End();
  return html.Take();
}

}  // namespace rewright
