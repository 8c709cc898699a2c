// Rules as TASO's protobuf. Its rules have no shapes and no conditions: a rule stands there at fixed ranks, axes and
// strides, and only where what TASO reads (substitutions/taso) is proved.
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/language/stand_ins.h"
#include "substitutions/taso/encode.h"
#include "substitutions/taso/taso.h"
#include "tools/verbs/rules/portable_rule.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

using taso::Key;
using taso::OpType;

// Numbers that TASO's form of a rule fixes.
struct Choice {
  int pack_axes = 0;  // axes of each pack
  int rank = 2;       // of tensors without a shape
  int axis = 0;       // what ?a is
  int stride = 1;     // of convolutions
  int padding = 0;    // of convolutions: 0 "same", 1 "valid"
  std::string op;     // what ?f is
};

const std::map<std::string, OpType>& Operators() {
  static const auto* const operators = new std::map<std::string, OpType>{
      {"relu", OpType::kRelu},     {"sigmoid", OpType::kSigmoid}, {"tanh", OpType::kTanh},
      {"add", OpType::kAdd},       {"mul", OpType::kMul},         {"matmul", OpType::kMatmul},
      {"concat", OpType::kConcat}, {"split", OpType::kSplit},     {"conv2d", OpType::kConv2d}};
  return *operators;
}

// Writes a rule at one choice.
class GraphWriter {
 public:
  GraphWriter(const PortableRule& rule, const Choice& choice) : rule_(rule), choice_(choice) {}

  absl::StatusOr<taso::RuleGraph> Run() {
    taso::RuleGraph graph;
    const int count = static_cast<int>(rule_.compiled->nodes().size());
    for (int id = 0; id < count; ++id) {
      taso::Side& side = rule_.on_left(id) ? graph.source : graph.target;
      RETURN_IF_ERROR(Add(id, side));
    }
    ASSIGN_OR_RETURN(const std::vector<RuleValue> left, Outputs(rule_, rule_.compiled->lhs()));
    ASSIGN_OR_RETURN(const std::vector<RuleValue> right, Outputs(rule_, rule_.compiled->rhs()));
    if (left.size() != right.size()) return absl::UnimplementedError("its numbers of outputs are open");
    for (size_t k = 0; k < left.size(); ++k) {
      if (rule_.on_left(right[k].node)) return absl::UnimplementedError("its right side has a value of the left one");
      graph.outputs.push_back({Ref(left[k]), Ref(right[k])});
    }
    return graph;
  }

 private:
  const RuleNode& node(int id) const { return rule_.node(static_cast<size_t>(id)); }

  absl::Status Add(int id, taso::Side& side) {
    const RuleNode& found = node(id);
    if (found.op == nullptr) {
      if (found.value) return absl::UnimplementedError("it has constants");
      if (!found.floating || found.shape.broadcasts)
        return absl::UnimplementedError("an operand has a shape of its own");
      inputs_[id] = static_cast<int>(inputs_.size()) + 1;
      return absl::OkStatus();
    }
    const std::string& name = IsStandIn(found.op) ? choice_.op : found.op->name;
    const auto type = Operators().find(name);
    if (type == Operators().end()) return absl::UnimplementedError(absl::StrCat("TASO has no operator ", name));
    taso::Operator op;
    op.type = type->second;
    RETURN_IF_ERROR(Parameters(found, op));
    for (const RuleValue& operand : found.operands) {
      if (operand.all) return absl::UnimplementedError("it splices the parts of a split");
      if (rule_.on_left(operand.node) != rule_.on_left(id) && node(operand.node).op != nullptr) {
        return absl::UnimplementedError("its right side has a value of the left one");
      }
      op.inputs.push_back(Ref(operand));
    }
    places_[id] = static_cast<int>(side.size());
    side.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status Parameters(const RuleNode& found, taso::Operator& op) const {
    if (op.type == OpType::kMatmul) op.parameters[Key::kActivation] = 0;
    if (op.type == OpType::kConv2d) {
      op.parameters = {{Key::kStrideHeight, choice_.stride},
                       {Key::kStrideWidth, choice_.stride},
                       {Key::kPadding, choice_.padding},
                       {Key::kActivation, 0}};
    }
    if (op.type != OpType::kConcat && op.type != OpType::kSplit) return absl::OkStatus();
    const std::optional<int64_t> axis = Value(found.attrs[0]);
    if (!axis) return absl::UnimplementedError("an axis is not a number");
    op.parameters[Key::kAxis] = static_cast<int>(*axis);
    if (op.type == OpType::kConcat) {
      op.parameters[Key::kRank] = Rank(found.operands[0].node);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(op.parameters[Key::kNumOutputs], NumOutputs(found));
    return absl::OkStatus();
  }

  int Rank(int id) const {
    const RuleNode& found = node(id);
    if (found.op != nullptr) return Rank(found.operands[0].node);
    int rank = 0;
    for (const ArgExpr& dim : found.shape.dims) rank += dim.kind == ArgExpr::Kind::kSplice ? Axes(dim) : 1;
    return rank;
  }

  int Axes(const ArgExpr& splice) const {
    return splice.args[0].ref == ArgExpr::Ref::kPack ? choice_.pack_axes : choice_.rank;
  }

  std::optional<int64_t> Value(const ArgExpr& expr) const {
    if (expr.kind == ArgExpr::Kind::kInt) return expr.integer;
    if (expr.kind == ArgExpr::Kind::kAttr) return choice_.axis;
    if (expr.kind == ArgExpr::Kind::kCall && expr.fn == ArgFn::kLen) return choice_.pack_axes;
    if (expr.kind != ArgExpr::Kind::kOp || expr.op != ArgOp::kAdd) return std::nullopt;
    const std::optional<int64_t> a = Value(expr.args[0]), b = Value(expr.args[1]);
    if (!a || !b) return std::nullopt;
    return *a + *b;
  }

  taso::TensorRef Ref(const RuleValue& value) const {
    const auto input = inputs_.find(value.node);
    if (input != inputs_.end()) return {-1, 0, input->second};
    return {places_.at(value.node), value.output, 0};
  }

  const PortableRule& rule_;
  const Choice& choice_;
  std::map<int, int> inputs_, places_;
};

std::vector<Choice> Choices(const PortableRule& rule) {
  std::vector<std::string> ops = {""};
  if (!rule.operators().empty()) ops.clear();
  for (const std::string& name : rule.operators()) {
    if (Operators().count(name)) ops.push_back(name);
  }
  std::vector<Choice> choices;
  for (const std::string& op : ops) {
    for (const int padding : {0, 1}) {
      for (const int stride : {1, 2}) {
        for (const int rank : {2, 3, 4}) {
          for (int axis = 0; axis < rank; ++axis) choices.push_back({rank - 2, rank, axis, stride, padding, op});
        }
      }
    }
  }
  return choices;
}

// Proved as TASO reads it. Error: why not.
absl::Status Proved(const taso::RuleGraph& graph) {
  ASSIGN_OR_RETURN(const std::vector<TasoRule> read, ReadTasoRules(taso::Encode({graph}), "the rule"));
  RETURN_IF_ERROR(read[0].rule.status());
  RuleProofOptions options;
  options.use = RuleUse::kProof;
  options.classify = false;
  options.work_limit_s = 5;
  const RuleVerdict verdict = ProveRule(*read[0].rule, options);
  if (verdict.verdict == Verdict::kProved) return absl::OkStatus();
  return absl::UnimplementedError("without its conditions it is not proved");
}

}  // namespace

RuleExport WriteRulesForTaso(const std::vector<PortableRule>& rules) {
  RuleExport result;
  std::vector<taso::RuleGraph> graphs;
  for (const PortableRule& rule : rules) {
    std::set<std::string> seen;
    absl::Status fault = absl::UnimplementedError("TASO has none of its operators");
    const size_t before = graphs.size();
    for (const Choice& choice : Choices(rule)) {
      const absl::StatusOr<taso::RuleGraph> graph = GraphWriter(rule, choice).Run();
      if (graph.ok() && !seen.insert(taso::Encode({*graph})).second) continue;
      const absl::Status proved = graph.ok() ? Proved(*graph) : graph.status();
      if (proved.ok()) graphs.push_back(*graph);
      if (!proved.ok()) fault = proved;
    }
    if (graphs.size() == before) result.left_out[rule.name()] = std::string(fault.message());
    if (graphs.size() > before) ++result.written;
  }
  result.text = taso::Encode(graphs);
  return result;
}

}  // namespace rewright
