// Rules as JSON: text for people, and nodes, equations and conditions for programs.
#include "core/tensor/dtype.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/stand_ins.h"
#include "tools/program/console.h"
#include "tools/verbs/rules/portable_rule.h"

namespace rewright {
namespace {

// A number, a name with its mark (?a, b..), or [operator, arguments..].
Json TreeOf(const ArgExpr& expr) {
  using Kind = ArgExpr::Kind;
  Json tree = Json::array();
  switch (expr.kind) {
    case Kind::kInt: return expr.integer;
    case Kind::kReal: return expr.real;
    case Kind::kDType:
    case Kind::kName:
    case Kind::kAttr: return PrintArg(expr);
    case Kind::kList: tree.push_back("list"); break;
    case Kind::kSplice: tree.push_back("splice"); break;
    case Kind::kOp: tree.push_back(ArgOpName(expr.op)); break;
    case Kind::kElement: tree.push_back("element"); break;
    case Kind::kCall: tree.push_back(ArgFnName(expr.fn)); break;
  }
  for (const ArgExpr& arg : expr.args) tree.push_back(TreeOf(arg));
  return tree;
}

Json ShapeOf(const RuleNode& leaf) {
  Json dims = Json::array();
  for (const ArgExpr& dim : leaf.shape.dims) dims.push_back(TreeOf(dim));
  return dims;
}

Json LeafOf(const RuleNode& node) {
  Json json = {{"name", node.name}};
  if (node.value) json["value"] = TreeOf(*node.value);
  if (!node.any_shape) json[node.shape.broadcasts ? "broadcasts_to" : "shape"] = ShapeOf(node);
  json["type"] = node.floating ? "floating" : node.dtype_attr >= 0 ? "any" : DTypeName(node.dtype);
  return json;
}

// A place where a value comes from: [node, output], or [node] for all outputs.
Json ValueOf(const RuleValue& value) {
  return value.whole || value.all ? Json::array({value.node}) : Json::array({value.node, value.output});
}

Json ValuesOf(const std::vector<RuleValue>& values) {
  Json list = Json::array();
  for (const RuleValue& value : values) list.push_back(ValueOf(value));
  return list;
}

Json NodeOf(const RuleNode& node) {
  if (node.op == nullptr) return LeafOf(node);
  Json attrs = Json::object();
  for (size_t k = 0; k < node.attrs.size(); ++k) attrs[node.op->attrs[k].name] = TreeOf(node.attrs[k]);
  return {{"operator", IsStandIn(node.op) ? "?f" : node.op->name},
          {"operands", ValuesOf(node.operands)},
          {"attributes", std::move(attrs)}};
}

Json RecordOf(const PortableRule& rule) {
  const ProofRecord& proof = *rule.rule.proof;
  Json json = {{"digest", RecordDigest(rule)},
               {"instances", proof.instances},
               {"max_rank", proof.domain.max_rank},
               {"max_perm_rank", proof.domain.max_perm_rank},
               {"max_broadcast_rank", proof.domain.max_broadcast_rank}};
  json["class"] = {{"f32", RuleClassName(proof.rule_class)}};
  if (proof.halves) json["class"]["f16"] = RuleClassName(*proof.halves);
  if (!proof.operators.empty()) json["operators"] = proof.operators;
  if (!proof.exact.empty()) json["exact_for"] = proof.exact;
  return json;
}

Json RuleOf(const PortableRule& rule) {
  const CompiledRule& compiled = *rule.compiled;
  Json nodes = Json::array(), conditions = Json::array(), trees = Json::array();
  for (const RuleNode& node : compiled.nodes()) nodes.push_back(NodeOf(node));
  for (const ArgExpr& condition : compiled.conditions()) {
    conditions.push_back(PrintArg(condition));
    trees.push_back(TreeOf(condition));
  }
  return {{"name", rule.name()},
          {"comment", rule.comment()},
          {"law", rule.law()},
          {"siblings", compiled.siblings() ? 2 : 0},
          {"nodes", std::move(nodes)},
          {"nodes_of_left_side", rule.num_lhs()},
          {"left", ValuesOf(compiled.lhs())},
          {"right", ValuesOf(compiled.rhs())},
          {"conditions", std::move(conditions)},
          {"condition_trees", std::move(trees)},
          {"proof", RecordOf(rule)}};
}

}  // namespace

RuleExport WriteRulesAsJson(const std::vector<PortableRule>& rules) {
  RuleExport result;
  Json list = Json::array();
  for (const PortableRule& rule : rules) list.push_back(RuleOf(rule));
  result.written = static_cast<int>(rules.size());
  result.text = Json{{"format", "rewright rules 1"}, {"rules", std::move(list)}}.dump(1) + "\n";
  return result;
}

}  // namespace rewright
