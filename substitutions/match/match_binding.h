// Binds the names of a rule once its nodes are assigned to nodes of a graph. Internal to matcher.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "substitutions/match/match_scope.h"
#include "substitutions/match/matcher.h"

namespace rewright {

class MatchBinder {
 public:
  // `nodes`: as Match::nodes, complete.
  MatchBinder(const CompiledRule& rule, const Arena& arena, const std::vector<Value>& nodes);

  // Solves the equations of the left side and checks its conditions; false when they have no solution. `why`, where
  // given, is set to the one that has none.
  bool Run(std::string* why = nullptr);

  RuleBindings& bindings() { return bindings_; }
  StructuralAssignment TakeStructure();
  // Values of the instance's symbols; false when one is below its minimum, or beyond the domain in which the rule is
  // proved.
  bool Symbols(std::vector<int64_t>* symbols) const;

 private:
  bool BindTypes();
  bool BecomesAttribute(int attr) const;
  static bool SurvivesFloat(double value);
  bool BindEquation(const RuleEquation& equation);
  std::string NoSolution(const RuleEquation& equation) const;
  std::string Unmet(const ArgExpr& condition) const;
  bool BindShape(const RuleNode& leaf, int node);
  bool BindBroadcast(const RuleNode& leaf, int node, const std::vector<int64_t>& shape);
  bool BindAttr(const AttrSpec& spec, const ArgExpr& expr, const Attr& attr, int rank);
  bool BindList(const std::vector<ArgExpr>& items, const std::vector<int64_t>& values, const AttrSpec* spec, int rank);
  bool SpliceLength(const ArgExpr& name, int64_t* length) const;
  bool BindOpenSplice(const ArgExpr& name, std::vector<int64_t> values);
  bool BindInt(const ArgExpr& expr, int64_t value, const AttrSpec* spec, int rank);
  bool Solve(const ArgExpr& expr, int64_t value);
  bool SetName(const ArgExpr& name, int64_t value);

  bool Bound(ArgExpr::Ref ref, int id) const;

  const CompiledRule& rule_;
  const Arena& arena_;
  const std::vector<Value>& nodes_;
  RuleBindings bindings_;
  MatchScope scope_;
  std::vector<bool> pack_bound_, attr_bound_;
  std::vector<int64_t> pack_lengths_;  // -1: not known
  std::vector<uint32_t> broadcasts_;
};

}  // namespace rewright
