#include "runtime/chrome_trace.h"

#include "nlohmann/json.hpp"

namespace rewright {

std::string ChromeTraceText(const std::vector<TraceSpan>& spans, const std::vector<TraceLane>& lanes) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  for (const TraceLane& lane : lanes) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", lane.process},
                      {"tid", lane.lane},
                      {"args", {{"name", lane.name}}}});
  }
  for (const TraceSpan& span : spans) {
    Json event = {{"name", span.name},      {"ph", "X"},
                  {"pid", span.process},    {"tid", span.lane},
                  {"ts", span.begin * 1e6}, {"dur", span.seconds * 1e6}};
    for (const auto& [name, number] : span.numbers) event["args"][name] = number;
    for (const auto& [name, text] : span.texts) event["args"][name] = text;
    events.push_back(std::move(event));
  }
  return Json({{"traceEvents", std::move(events)}}).dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rewright
