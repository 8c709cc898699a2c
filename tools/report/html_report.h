// The report of an optimization as one page of HTML that stands by itself: nothing is loaded from elsewhere, and the
// one script is that of the pictures (graph_picture.h), without which all but them is there. Names from models and rule
// files are untrusted: every text is escaped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/measure/machine_rates.h"
#include "search/optimize/optimize.h"
#include "substitutions/match/matcher.h"
#include "tools/report/html_page.h"
#include "tools/verbs/compare/groups.h"
#include "tools/verbs/optimize/trace_file.h"

namespace rewright {

struct ReportPage {
  TraceSetting setting;
  std::string device;  // its full name
  std::string date;
  std::string written;              // what is in the file of -o
  const Graph* original = nullptr;  // for the pictures; null: none
  std::string other_runtime;        // how the file does there; empty: it was not timed
  bool checked = true;              // asked to compare outputs
  std::string proof;                // of the result as a whole: what became of it; empty: none was asked for
  std::vector<CostedGroup> costs_before;
  std::vector<CostedGroup> costs_after;
  std::vector<double> path_costs;  // seconds behind each step of the report's path, see CostsAlong
  std::optional<Rates> rates;      // of the device, for the roofline
  std::vector<SearchProgress> progress;
  std::string memory;  // markup of MemoryPlot; empty: none

  bool measured() const { return setting.settings.cost == "measured"; }
};

std::string HtmlReport(const ReportPage& page, const OptimizeReport& report, const RuleIndex& rules);

}  // namespace rewright
