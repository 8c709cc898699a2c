// A library with OpenVINO's functions that refuses every model.
#include <string>

#include "backends/openvino/api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace {

using namespace rewright::openvino;

template <typename T>
T Answer(const std::string& name);
template <>
OvStatus Answer(const std::string& name) {
  return name == "get_openvino_version" || name == "core_create" ? 0 : -1;
}
template <>
const char* Answer(const std::string&) {
  return "Exception from a.cc:1:\n  the model\n  is refused\n";
}
template <>
void Answer(const std::string&) {}

}  // namespace

#define REWRIGHT_DEFINE(result, name, arguments) \
  extern "C" result ov_##name arguments { return Answer<result>(#name); }
REWRIGHT_OPENVINO_FUNCTIONS(REWRIGHT_DEFINE)
