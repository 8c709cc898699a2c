// Builds the nodes of a RuleInstance one after another. Internal to instances.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "substitutions/instance/arg_eval.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"

namespace rewright {

class SymbolicBuilder {
 public:
  // Reads `structure` whenever it builds: entries may be filled in meanwhile. Lists of unknown length (an empty entry)
  // take no symbols until they are known, so the numbers of symbols are final only when all are.
  SymbolicBuilder(const CompiledRule& rule, const StructuralAssignment& structure, const DomainLimits& limits,
                  MeaningCache& meanings);

  // Builds node `next()`. False: it cannot be built, see why().
  bool BuildNext();
  // Undoes the last BuildNext.
  void DropLast() { nodes_.pop_back(); }
  int next() const { return static_cast<int>(nodes_.size()); }
  const std::string& why() const { return why_; }

  const std::vector<SymbolicNode>& nodes() const { return nodes_; }
  std::vector<SymbolicNode> TakeNodes() { return std::move(nodes_); }

  // The shape that a variable [~ ..] broadcasts to.
  bool BroadcastTarget(const RuleNode& leaf, std::vector<Index>* target);
  // The conditions that are not settled by structure; false when one fails.
  bool Conditions(std::vector<ExprPtr>* conditions);
  // The outputs that a side's terms stand for.
  bool Outputs(const std::vector<RuleValue>& terms, std::vector<SymbolicValue>* outputs);

  std::vector<Symbol> Symbols() const;
  std::vector<RealSymbol> Reals() const;

  // ---- the scope of ArgEvaluator
  using Value = ArgValue<Symbolic>;
  bool Get(ArgExpr::Ref ref, int id, Value* value) const;
  bool TensorShape(int node, std::vector<Index>* shape) const;
  bool Predicate(ArgFn fn, const ArgExpr& arg, bool positive_place, Cond* truth) const;

 private:
  using Evaluator = ArgEvaluator<Symbolic, SymbolicBuilder>;

  bool Fail(const std::string& why);
  bool FailEval(const Evaluator& evaluator);
  bool Ok(const absl::Status& status);
  bool BuildLeaf(const RuleNode& leaf, SymbolicNode* node);
  bool LeafShape(const RuleNode& leaf, std::vector<ExprPtr>* shape);
  bool LeafValue(const RuleNode& leaf, SymbolicNode* node);
  bool BuildApplication(const RuleNode& application, SymbolicNode* node);
  bool NoteUnits(const OpDef& op, const std::vector<ExprPtr>& shape, StructuralKey* key);
  bool Operands(const std::vector<RuleValue>& operands, std::vector<SymbolicValue>* inputs);
  // The attribute's part of the key, and its symbolic values.
  bool Attribute(const OpDef& op, const AttrSpec& spec, const ArgExpr& expr, StructuralKey* key,
                 std::vector<ExprPtr>* values);
  bool FixedAttribute(const AttrSpec& spec, const Value& value, int rank, Attr* attr);
  bool Bind(const StructuralKey& key, const std::vector<std::vector<ExprPtr>>& attr_values, SymbolicNode* node);

  Index SymbolVar(int id, const std::string& name) const;
  int AttrSymbols(size_t attr) const;

  const CompiledRule& rule_;
  const StructuralAssignment& structure_;
  const DomainLimits& limits_;
  MeaningCache& meanings_;
  std::vector<SymbolicNode> nodes_;
  std::string why_;
};

}  // namespace rewright
