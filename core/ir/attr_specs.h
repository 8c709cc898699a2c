// Helpers for declaring the attributes of operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/op.h"

namespace rewright {

AttrSpec FlagAttr(const std::string& name, bool fallback, const std::string& doc);
AttrSpec AxisAttr(const std::string& name, std::optional<Attr> fallback, const std::string& doc);
AttrSpec AxesAttr(const std::string& name, const std::string& doc);
AttrSpec DTypeAttr(const std::string& name, const std::string& doc);
// Integers and lists of them: fixed by the expression, or symbols of at least `min`.
AttrSpec StructuralInts(const std::string& name, const std::string& doc, std::optional<Attr> fallback = std::nullopt,
                        int64_t min = INT64_MIN);
AttrSpec SymbolicInts(const std::string& name, std::optional<Attr> fallback, int64_t min, const std::string& doc);
AttrSpec StructuralInt(const std::string& name, int64_t min, const std::string& doc);
AttrSpec SymbolicInt(const std::string& name, std::optional<Attr> fallback, int64_t min, const std::string& doc);
AttrSpec RealAttr(const std::string& name, std::optional<double> fallback, const std::string& doc);

// A fallback: the list `values`.
std::optional<Attr> List(std::vector<int64_t> values);

}  // namespace rewright
