#include "core/ir/attr_specs.h"

#include <utility>

namespace rewright {
namespace {

AttrSpec Spec(const std::string& name, AttrKind kind, bool structural, std::optional<Attr> fallback,
              const std::string& doc, int64_t min = INT64_MIN) {
  return AttrSpec{
      .name = name, .kind = kind, .structural = structural, .fallback = std::move(fallback), .doc = doc, .min = min};
}

}  // namespace

AttrSpec FlagAttr(const std::string& name, bool fallback, const std::string& doc) {
  return Spec(name, AttrKind::kFlag, true, Attr(int64_t{fallback}), doc);
}

AttrSpec AxisAttr(const std::string& name, std::optional<Attr> fallback, const std::string& doc) {
  return Spec(name, AttrKind::kAxis, true, std::move(fallback), doc);
}

AttrSpec AxesAttr(const std::string& name, const std::string& doc) {
  return Spec(name, AttrKind::kAxes, true, std::nullopt, doc);
}

AttrSpec DTypeAttr(const std::string& name, const std::string& doc) {
  return Spec(name, AttrKind::kDType, true, std::nullopt, doc);
}

AttrSpec StructuralInts(const std::string& name, const std::string& doc, std::optional<Attr> fallback, int64_t min) {
  return Spec(name, AttrKind::kInts, true, std::move(fallback), doc, min);
}

AttrSpec StructuralInt(const std::string& name, int64_t min, const std::string& doc) {
  return Spec(name, AttrKind::kInt, true, std::nullopt, doc, min);
}

AttrSpec SymbolicInts(const std::string& name, std::optional<Attr> fallback, int64_t min, const std::string& doc) {
  return Spec(name, AttrKind::kInts, false, std::move(fallback), doc, min);
}

AttrSpec SymbolicInt(const std::string& name, std::optional<Attr> fallback, int64_t min, const std::string& doc) {
  return Spec(name, AttrKind::kInt, false, std::move(fallback), doc, min);
}

AttrSpec RealAttr(const std::string& name, std::optional<double> fallback, const std::string& doc) {
  return Spec(name, AttrKind::kReal, false, fallback ? std::optional<Attr>(*fallback) : std::nullopt, doc);
}

std::optional<Attr> List(std::vector<int64_t> values) { return Attr(std::move(values)); }

}  // namespace rewright
