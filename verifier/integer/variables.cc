#include "verifier/integer/variables.h"

#include <algorithm>

#include "core/base/work.h"

namespace rewright::verifier {
namespace {

std::vector<Var> Sorted(std::vector<Var> vars) {
  std::sort(vars.begin(), vars.end());
  vars.erase(std::unique(vars.begin(), vars.end()), vars.end());
  return vars;
}

}  // namespace

std::vector<Var> Variables::BaseVars(const Poly& p) const {
  CountSteps(1 + static_cast<int64_t>(p.items().size()));
  std::vector<Var> out;
  for (const Poly::Item& item : p.items()) {
    for (Var v : item.vars) {
      if (IsDefinition(v)) {
        out.insert(out.end(), vars_[v].inner.begin(), vars_[v].inner.end());
      } else {
        out.push_back(v);
      }
    }
  }
  return Sorted(std::move(out));
}

std::vector<Var> Variables::BaseVars(const Guard& g) const {
  std::vector<Poly> polys;
  CollectPolys(g, &polys);
  std::vector<Var> out;
  for (const Poly& p : polys) {
    for (Var v : BaseVars(p)) out.push_back(v);
  }
  return Sorted(std::move(out));
}

bool Variables::Mentions(const Poly& p, const std::vector<Var>& vars) const {
  if (vars.empty()) return false;
  for (Var v : BaseVars(p)) {
    if (Has(vars, v)) return true;
  }
  return false;
}

bool Variables::Mentions(const Guard& g, const std::vector<Var>& vars) const {
  if (vars.empty()) return false;
  for (Var v : BaseVars(g)) {
    if (Has(vars, v)) return true;
  }
  return false;
}

bool Variables::HasDefinition(const Poly& p) const {
  for (Var v : p.Vars()) {
    if (IsDefinition(v)) return true;
  }
  return false;
}

// ---------------------------------------------------------------- printed forms, which are also canonical keys

std::string Variables::Print(Var v, const Names& names) const {
  if (const auto it = names.find(v); it != names.end()) return it->second;
  const VarInfo& info = vars_[v];
  switch (info.kind) {
    case VarInfo::Kind::kParam: return info.name;
    case VarInfo::Kind::kLocal: return info.name + "#" + std::to_string(v);
    case VarInfo::Kind::kDiv: return "(" + Print(info.a, names) + ")/(" + Print(info.b, names) + ")";
    case VarInfo::Kind::kMin: return "min(" + Print(info.a, names) + "," + Print(info.b, names) + ")";
    case VarInfo::Kind::kValue: return "value(" + info.value->Print(*this, names) + ")";
  }
  return "?";
}

std::string Variables::Print(const Poly::Item& item, const Names& names) const {
  std::string text = item.coef != 1 || item.vars.empty() ? std::to_string(item.coef) : std::string();
  const auto append = [&](const std::string& factor) {
    if (!text.empty()) text += '*';
    text += factor;
  };
  if (item.vars.size() == 1) {
    append(Print(item.vars[0], names));
    return text;
  }
  std::vector<std::string> factors;
  for (Var v : item.vars) factors.push_back(Print(v, names));
  std::sort(factors.begin(), factors.end());
  for (const std::string& factor : factors) append(factor);
  return text;
}

std::string Variables::Print(const Poly& p, const Names& names) const {
  CountSteps(1 + static_cast<int64_t>(p.items().size()));
  if (p.items().empty()) return "0";
  if (p.items().size() == 1) return Print(p.items()[0], names);
  std::vector<std::string> parts;
  parts.reserve(p.items().size());
  for (const Poly::Item& item : p.items()) parts.push_back(Print(item, names));
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty() && part[0] != '-') out += '+';
    out += part;
  }
  return out;
}

std::string Variables::Print(const Guard& g, const Names& names) const {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return "true";
    case Guard::Kind::kFalse: return "false";
    case Guard::Kind::kGe: return Print(g.poly(), names) + ">=0";
    case Guard::Kind::kEq: {
      // The sign of an equation depends on the numbering of its variables; its text must not.
      std::string a = Print(g.poly(), names), b = Print(-g.poly(), names);
      return std::min(a, b) + "==0";
    }
    case Guard::Kind::kNot: return "not(" + Print(g.args()[0], names) + ")";
    case Guard::Kind::kAnd: break;
  }
  std::vector<std::string> parts;
  for (const Guard& part : g.args()) parts.push_back(Print(part, names));
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += " & ";
    out += part;
  }
  return out;
}

}  // namespace rewright::verifier
