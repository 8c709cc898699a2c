// Plots of a page as SVG: lines, dots and boxes over two axes with ticks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rewright {

struct PlotAxis {
  std::string title;  // with its unit
  double low = 0, high = 1;
  bool logarithmic = false;  // both limits are positive then
};

class Plot {
 public:
  static constexpr int kColors = 8;  // of the page (page.css)

  // `label` tells in one sentence what is seen. A range without a length is widened.
  Plot(const std::string& label, PlotAxis x, PlotAxis y);

  using Points = std::vector<std::pair<double, double>>;
  // `color`: of the page's eight, from 0. `title` is shown where the mouse rests.
  void Line(const Points& points, int color, const std::string& title);
  void Dot(double x, double y, int color, const std::string& title);
  void Box(double x0, double y0, double x1, double y1, int color, const std::string& title);

  std::string Take();

 private:
  double X(double x) const;
  double Y(double y) const;
  void Frame();

  PlotAxis x_, y_;
  std::string svg_;
};

// Numbers at which an axis has ticks: 1, 2 or 5 times a power of ten, four to nine of them, or powers of ten alone.
std::vector<double> TicksOf(const PlotAxis& axis);

}  // namespace rewright
