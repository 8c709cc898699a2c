// Traces in the format of chrome://tracing and Perfetto: spans of time in lanes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rewright {

struct TraceSpan {
  std::string name;
  int process = 0, lane = 0;
  double begin = 0, seconds = 0;
  std::vector<std::pair<std::string, double>> numbers;     // of what happens in it: "flops"
  std::vector<std::pair<std::string, std::string>> texts;  // "operators"
};

struct TraceLane {
  int process = 0, lane = 0;
  std::string name;
};

// A JSON object. Bytes that are no UTF-8 become replacement characters.
std::string ChromeTraceText(const std::vector<TraceSpan>& spans, const std::vector<TraceLane>& lanes = {});

}  // namespace rewright
