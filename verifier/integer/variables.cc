#include "verifier/integer/variables.h"

#include <algorithm>

namespace rewright::verifier {
namespace {


std::vector<Var> Sorted(std::vector<Var> vars) {
  std::sort(vars.begin(), vars.end());
  vars.erase(std::unique(vars.begin(), vars.end()), vars.end());
  return vars;
}

}  // namespace

std::vector<Var> Variables::BaseVars(const Poly& p) const {
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

std::string Variables::Print(const Poly& p, const Names& names) const {
  std::vector<std::string> parts;
  for (const Poly::Item& item : p.items()) {
    std::vector<std::string> factors;
    for (Var v : item.vars) {
      const VarInfo& info = vars_[v];
      auto it = names.find(v);
      if (it != names.end()) {
        factors.push_back(it->second);
      } else if (info.kind == VarInfo::Kind::kDiv) {
        factors.push_back("(" + Print(info.a, names) + ")/(" + Print(info.b, names) + ")");
      } else if (info.kind == VarInfo::Kind::kMin) {
        factors.push_back("min(" + Print(info.a, names) + "," + Print(info.b, names) + ")");
      } else if (info.kind == VarInfo::Kind::kValue) {
        factors.push_back("value(" + info.value->Print(*this, names) + ")");
      } else {
        factors.push_back(info.kind == VarInfo::Kind::kParam ? info.name : info.name + "#" + std::to_string(v));
      }
    }
    std::sort(factors.begin(), factors.end());
    std::string text;
    if (item.coef != 1 || factors.empty()) text = std::to_string(item.coef);
    for (const std::string& factor : factors) text += (text.empty() ? "" : "*") + factor;
    parts.push_back(std::move(text));
  }
  if (parts.empty()) return "0";
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) out += (out.empty() || part[0] == '-' ? "" : "+") + part;
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
  for (const std::string& part : parts) out += (out.empty() ? "" : " & ") + part;
  return out;
}

}  // namespace rewright::verifier
