#include "verifier/integer/variables.h"

#include <algorithm>

namespace rewright::verifier {
namespace {

bool Holds(const std::vector<Var>& vars, Var v) { return std::find(vars.begin(), vars.end(), v) != vars.end(); }

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
    if (Holds(vars, v)) return true;
  }
  return false;
}

bool Variables::Mentions(const Guard& g, const std::vector<Var>& vars) const {
  if (vars.empty()) return false;
  for (Var v : BaseVars(g)) {
    if (Holds(vars, v)) return true;
  }
  return false;
}

bool Variables::HasDefinition(const Poly& p) const {
  for (Var v : p.Vars()) {
    if (IsDefinition(v)) return true;
  }
  return false;
}

}  // namespace rewright::verifier
