#include "tools/report/plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/html_page.h"

namespace rewright {
namespace {

constexpr double kWidth = 720, kHeight = 300;
constexpr double kLeft = 78, kRight = 18, kTop = 14, kBottom = 46;

PlotAxis Widened(PlotAxis axis) {
  if (axis.high > axis.low) return axis;
  const double by = axis.low == 0 ? 1 : std::abs(axis.low) / 2;
  axis.low = axis.logarithmic ? axis.low / 2 : axis.low - by;
  axis.high = axis.logarithmic ? axis.high * 2 : axis.high + by;
  return axis;
}

// The part of the way from the low end to the high one, within both.
double Share(const PlotAxis& axis, double value) {
  const double share = axis.logarithmic ? std::log(value / axis.low) / std::log(axis.high / axis.low)
                                        : (value - axis.low) / (axis.high - axis.low);
  return std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
}

std::string Titled(const std::string& shape, const std::string& title) {
  return absl::StrCat("<", shape, "><title>", HtmlEscape(title), "</title></", shape.substr(0, shape.find(' ')), ">\n");
}

}  // namespace

std::vector<double> TicksOf(const PlotAxis& axis) {
  std::vector<double> ticks;
  if (axis.logarithmic) {
    for (double at = std::pow(10, std::ceil(std::log10(axis.low) - 1e-9)); at <= axis.high * (1 + 1e-9); at *= 10) {
      ticks.push_back(at);
    }
    return ticks;
  }
  const double range = axis.high - axis.low;
  double step = std::pow(10, std::floor(std::log10(range / 4)));
  for (const double times : {5.0, 2.0}) {
    if (range / (step * times) >= 4) {
      step *= times;
      break;
    }
  }
  for (double k = std::ceil(axis.low / step - 1e-9); k * step <= axis.high + 1e-9 * range; ++k)
    ticks.push_back(k * step + 0.0);
  return ticks;
}

Plot::Plot(const std::string& label, PlotAxis x, PlotAxis y) : x_(Widened(std::move(x))), y_(Widened(std::move(y))) {
  svg_ = absl::StrFormat("<svg class=\"plot\" viewBox=\"0 0 %g %g\" width=\"%g\" role=\"img\" aria-label=\"%s\">\n",
                         kWidth, kHeight, kWidth, HtmlEscape(label));
  Frame();
}

double Plot::X(double x) const { return kLeft + (kWidth - kLeft - kRight) * Share(x_, x); }
double Plot::Y(double y) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * Share(y_, y); }

void Plot::Frame() {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (const double tick : TicksOf(x_)) {
    absl::StrAppendFormat(&svg_, "<path class=\"grid\" d=\"M%.1f %gV%g\"></path>", X(tick), kTop, bottom);
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%g\" class=\"x\">%g</text>\n", X(tick), bottom + 16, tick);
  }
  for (const double tick : TicksOf(y_)) {
    absl::StrAppendFormat(&svg_, "<path class=\"grid\" d=\"M%g %.1fH%g\"></path>", kLeft, Y(tick), right);
    absl::StrAppendFormat(&svg_, "<text x=\"%g\" y=\"%.1f\" class=\"y\">%g</text>\n", kLeft - 6, Y(tick) + 4, tick);
  }
  absl::StrAppendFormat(&svg_, "<text x=\"%g\" y=\"%g\" class=\"x\">%s</text>\n", (kLeft + right) / 2, kHeight - 8,
                        HtmlEscape(x_.title));
  absl::StrAppendFormat(&svg_, "<text transform=\"translate(14 %g) rotate(-90)\" class=\"x\">%s</text>\n",
                        (kTop + bottom) / 2, HtmlEscape(y_.title));
}

void Plot::Line(const Points& points, int color, const std::string& title) {
  std::string d;
  for (const auto& [x, y] : points) absl::StrAppendFormat(&d, "%c%.1f %.1f", d.empty() ? 'M' : 'L', X(x), Y(y));
  svg_ += Titled(absl::StrCat("path class=\"line c", color, "\" d=\"", d, "\""), title);
}

void Plot::Dot(double x, double y, int color, const std::string& title) {
  svg_ += Titled(absl::StrFormat("circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", color, X(x), Y(y)), title);
}

void Plot::Box(double x0, double y0, double x1, double y1, int color, const std::string& title) {
  svg_ += Titled(absl::StrFormat("rect class=\"c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", color,
                                 X(x0), Y(y1), std::max(X(x1) - X(x0), 0.5), std::max(Y(y0) - Y(y1), 0.5)),
                 title);
}

std::string Plot::Take() { return absl::StrCat(svg_, "</svg>\n"); }

}  // namespace rewright
