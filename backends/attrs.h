// Attributes of a node by name, as the types that its operator declares.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace rewright {

inline const std::vector<int64_t>& Ints(const Node& node, const char* name) {
  return std::get<std::vector<int64_t>>(node.attrs.at(name));
}
inline int64_t Int(const Node& node, const char* name) { return std::get<int64_t>(node.attrs.at(name)); }
inline double Real(const Node& node, const char* name) { return std::get<double>(node.attrs.at(name)); }

}  // namespace rewright
