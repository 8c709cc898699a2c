#include "substitutions/language/stand_ins.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"
#include "substitutions/instance/instance.h"

namespace rewright {
namespace {

// Names of functions hold no point: those that do are functions of integers to the prover.
struct Property {
  const char* name;
  const char* function;
};
constexpr Property kProperties[] = {{"", "any_function"},
                                    {"increasing", "any_increasing"},
                                    {"odd", "any_odd"},
                                    {"keeps_zero", "any_keeping_zero"},
                                    // Another one; the first of a property stands for operators.
                                    {"odd", "any_odd_stored"}};

OpDef MakeStandIn(const char* function, int operands) {
  OpDef op;
  op.name = function;
  op.summary = "Any elementwise operator of a family.";
  op.inputs = {"a"};
  if (operands == 2) op.inputs.emplace_back("b");
  op.broadcasts = operands == 2;
  op.meaning = [function, operands](OpBuilder& b) -> absl::Status {
    RETURN_IF_ERROR(CheckElements(b, Elements::kFloats));
    if (operands == 1) {
      b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
        return OpaqueElement(function, 0, {b.Read(0, i).node()}, b.dtype(0));
      });
      return absl::OkStatus();
    }
    const Broadcast common(b, {0, 1});
    b.Output(b.dtype(0), common.shape(), [&](const std::vector<Index>& i) {
      return OpaqueElement(function, 0, {b.Read(0, common.At(0, i)).node(), b.Read(1, common.At(1, i)).node()},
                           b.dtype(0));
    });
    return absl::OkStatus();
  };
  return op;
}

}  // namespace

const OpDef* StandIn(const std::string& property, int operands) {
  static const auto* const kStandIns = [] {
    auto* const all = new std::vector<std::array<OpDef, 2>>();
    for (const Property& p : kProperties) all->push_back({MakeStandIn(p.function, 1), MakeStandIn(p.function, 2)});
    return all;
  }();
  for (size_t i = 0; i < std::size(kProperties) && operands >= 1 && operands <= 2; ++i) {
    if (kProperties[i].name == property) return &(*kStandIns)[i][static_cast<size_t>(operands - 1)];
  }
  return nullptr;
}

// ---------------------------------------------------------------- elementwise operators

namespace {

// The text of the element as a function of the elements that are read. Nothing if it depends on anything else, or if
// its shape, requirements or reads differ from the stand-in's.
std::optional<std::string> FunctionOfElements(const OpDef& op, const StructuralKey& key, MeaningCache& meanings) {
  const auto own = meanings.Get(op, key);
  const auto standard = meanings.Get(*StandIn("", static_cast<int>(op.inputs.size())), key);
  if (!own.ok() || !standard.ok()) return std::nullopt;
  const Meaning &m = **own, &s = **standard;
  if (m.IsOpaque() || m.outputs.size() != 1 || !m.params.empty() || m.variables.size() != s.variables.size()) {
    return std::nullopt;
  }
  // Operators call their operands, and so the sizes of these, as they like.
  std::vector<ExprPtr> numbered;
  for (size_t v = 0; v < s.variables.size(); ++v) {
    numbered.push_back(Variable(static_cast<int>(v), absl::StrCat("v", v)).node());
  }
  const std::vector<std::string> names = {"a", "b"};
  const auto text = [&](const ExprPtr& expr) { return PrintExpr(Substitute(expr, numbered, {}), names); };
  const OutputMeaning &output = m.outputs[0], &expected = s.outputs[0];
  bool same = output.dtype == expected.dtype && output.index_vars == expected.index_vars &&
              output.shape.size() == expected.shape.size() && m.requirements.size() == s.requirements.size();
  for (size_t i = 0; same && i < output.shape.size(); ++i) same = text(output.shape[i]) == text(expected.shape[i]);
  for (size_t i = 0; same && i < m.requirements.size(); ++i) {
    same = text(m.requirements[i].condition) == text(s.requirements[i].condition);
  }
  const ExprPtr element = RewriteExpr(output.element, [&](const ExprPtr& node) {
    if (!node->IsRead()) return node;
    const auto operand = static_cast<size_t>(node->operand());
    same = same && text(node) == text(expected.element->arg(operand));
    return Parameter(node->operand(), names[operand], node->dtype()).node();
  });
  const bool closed = FreeVariables(element).empty() && !element->Reduces() && !element->Contains(ExprKind::kOpaque) &&
                      !element->Contains(ExprKind::kFromIndex);
  if (!same || !closed) return std::nullopt;
  return text(element);
}

// True if the operator is the same function at all ranks, and at low ranks wherever axes of size one are stretched.
bool IsElementwise(const OpDef& op, int operands) {
  constexpr int kMostRank = DomainLimits{}.max_rank, kStretched = 2;
  if (op.variadic || !op.attrs.empty() || static_cast<int>(op.inputs.size()) != operands) return false;
  if (op.broadcasts != (operands == 2)) return false;
  MeaningCache meanings;
  std::optional<std::string> function;
  const auto agrees = [&](const std::vector<int>& ranks, const std::vector<uint32_t>& units) {
    StructuralKey key;
    key.ranks = ranks;
    key.dtypes.assign(ranks.size(), DType::kFloat32);
    if (op.broadcasts) key.units = units;
    const std::optional<std::string> here = FunctionOfElements(op, key, meanings);
    if (here && !function) function = here;
    return here && *here == *function;
  };
  if (operands == 1) {
    for (int rank = 0; rank <= kMostRank; ++rank) {
      if (!agrees({rank}, {})) return false;
    }
    return true;
  }
  for (int a = 0; a <= kMostRank; ++a) {
    for (int b = 0; b <= kMostRank; ++b) {
      const bool all = a <= kStretched && b <= kStretched;
      for (uint32_t first = 0; first < (all ? 1U << a : 1U); ++first) {
        for (uint32_t second = 0; second < (all ? 1U << b : 1U); ++second) {
          if (!agrees({a, b}, {first, second})) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

const std::vector<const OpDef*>& ElementwiseOps(int operands) {
  const auto find = [](int count) {
    auto* const ops = new std::vector<const OpDef*>();
    for (const OpDef* op : AllOps()) {
      if (IsElementwise(*op, count)) ops->push_back(op);
    }
    std::sort(ops->begin(), ops->end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
    return ops;
  };
  static const std::vector<const OpDef*>*const kUnary = find(1), *const kBinary = find(2);
  return operands == 1 ? *kUnary : *kBinary;
}

std::vector<std::string> PropertyLaws(const std::string& property, const OpDef& op) {
  const std::string& f = op.name;
  const std::string zero = absl::StrCat("rule ", f, "-keeps-zero\n  ", f, "(0[n]) => 0[n]\n");
  if (property == "increasing") {
    return {absl::StrCat("rule ", f, "-increases\n  ", f, "(max(x[n], y[n])) => max(", f, "(x), ", f, "(y))\n")};
  }
  if (property == "odd") return {zero, absl::StrCat("rule ", f, "-is-odd\n  ", f, "(neg(x[n])) => neg(", f, "(x))\n")};
  if (property == "keeps_zero") return {zero};
  return {};
}

bool IsStandIn(const OpDef* op) {
  return op != nullptr && std::any_of(std::begin(kProperties), std::end(kProperties),
                                      [&](const Property& p) { return op->name == p.function; });
}

std::string StandInProperty(const std::string& function) {
  for (const Property& p : kProperties) {
    if (function == p.function) return p.name;
  }
  return "";
}

double StandInValue(const std::string& function, const std::vector<double>& arguments) {
  const double a = arguments[0], b = arguments.size() > 1 ? arguments[1] : 1;
  const std::string property = StandInProperty(function);
  if (property == "increasing") return std::max(a, 0.5) + std::floor(a);  // level between some points, with jumps
  if (property == "odd") return a * a * a - 2 * a;
  if (property == "keeps_zero") return a * a - 3 * a;
  return std::cos(3 * a + 1) * (b + 0.5) + 0.25 * a * a + std::sin(2 * b);
}

}  // namespace rewright
