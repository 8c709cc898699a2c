#include "tools/library/growing_graph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// The way in which an application reads operands that grow.
class RowByRow {
 public:
  RowByRow(const Graph& graph, NodeId id, const Growth& growth) : graph_(graph), id_(id), growth_(growth) {}

  // Errors: an element depends on the size, or on other rows in another way than by a reduction.
  absl::Status Read() {
    const Node& node = graph_.node(id_);
    if (node.op == ops::Reshape()) return ReadReshape();
    if (node.meaning->IsOpaque()) return Fault("has no declaration");
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const OutputMeaning& output = node.meaning->outputs[k];
      const ExprPtr element = WithNumbers(output.element);
      const int axis = growth_.axis({id_, static_cast<int32_t>(k)});
      row_ = axis < 0 ? -1 : output.index_vars[axis];
      moves_ = moves_ && element->IsRead();
      RETURN_IF_ERROR(FindReductions(element));
      seen_.clear();
      RETURN_IF_ERROR(ReadPart(element));
    }
    return absl::OkStatus();
  }

  const std::set<int>& reduced() const { return reduced_; }  // operands of which sums or maxima are taken
  bool moves() const { return moves_; }                      // every element is one of an operand

 private:
  absl::Status Fault(const std::string& how) const {
    return Depends(Text(graph_, id_), absl::StrCat(how, ", where its operand grows with the past"));
  }

  absl::Status ReadReshape() {
    const Value x = graph_.node(id_).operands[0], out{id_, 0};
    const int from = growth_.axis(x), to = growth_.axis(out);
    const Shape &before = graph_.type(x).shape, &after = graph_.type(out).shape;
    const auto leading = [](const Shape& shape, int axis) {
      int64_t product = 1;
      for (int k = 0; k < axis; ++k) product *= shape[k];
      return product;
    };
    if (from < 0 && to < 0) return absl::OkStatus();
    if (from < 0 || to < 0 || leading(before, from) != leading(after, to)) return Fault("mixes rows");
    return absl::OkStatus();
  }

  // The element with the numbers of attributes that do not grow.
  ExprPtr WithNumbers(const ExprPtr& element) const {
    const Node& node = graph_.node(id_);
    return RewriteExpr(element, [&](const ExprPtr& part) -> ExprPtr {
      if (!part->IsVariable()) return part;
      const Meaning::Variable& variable = node.meaning->variables[part->variable()];
      if (variable.kind != Meaning::VarKind::kAttr) return part;
      const Attr& attr = node.attrs.at(variable.attr);
      const auto* list = std::get_if<std::vector<int64_t>>(&attr);
      const int64_t number = list != nullptr ? (*list)[variable.axis] : std::get<int64_t>(attr);
      return growth_.Grows(id_, variable.attr, number) ? part : Index(number).node();
    });
  }

  // True for variables that have the size of the past and the new rows.
  bool IsSize(const ExprNode& part) const {
    if (!part.IsVariable()) return false;
    const Node& node = graph_.node(id_);
    const Meaning::Variable& variable = node.meaning->variables[part.variable()];
    if (variable.kind == Meaning::VarKind::kAttr) return true;  // the others are numbers
    return variable.kind == Meaning::VarKind::kSize && growth_.axis(node.operands[variable.input]) == variable.axis;
  }

  absl::Status FindReductions(const ExprPtr& element) {
    absl::Status status;
    Visit(element, [&](const ExprPtr& part) {
      for (const BoundVar& bound : part->bound()) {
        if (IsSize(*bound.extent)) {
          over_rows_.insert(bound.id);
        } else if (AnyOf(bound.extent, [&](const ExprNode& inner) { return IsSize(inner); })) {
          status.Update(Fault("reduces over another number of rows"));
        }
      }
    });
    return status;
  }

  absl::Status ReadPart(const ExprPtr& part) {
    if (!seen_.insert(part.get()).second) return absl::OkStatus();
    if (IsSize(*part)) return Fault("depends on the number of rows");
    if (part->IsVariable() && over_rows_.contains(part->variable())) return Fault("counts rows");
    int grown = -1;
    if (part->IsRead()) {
      const int operand = part->operand();
      grown = growth_.axis(graph_.node(id_).operands[operand]);
      if (grown >= 0 && !IsRow(*part->arg(grown), operand)) return Fault("reads other rows");
    }
    for (int k = 0; k < static_cast<int>(part->args().size()); ++k) {
      if (k != grown) RETURN_IF_ERROR(ReadPart(part->arg(k)));
    }
    return absl::OkStatus();
  }

  // True for the row of the result, and for each in turn of a reduction.
  bool IsRow(const ExprNode& index, int operand) {
    if (!index.IsVariable()) return false;
    if (over_rows_.contains(index.variable())) {
      reduced_.insert(operand);
      return true;
    }
    return index.IsVariable(row_);
  }

  const Graph& graph_;
  const NodeId id_;
  const Growth& growth_;
  int row_ = -1;
  bool moves_ = true;
  std::set<int> over_rows_;  // bound variables
  std::set<int> reduced_;
  std::set<const ExprNode*> seen_;
};

// Numbers that change nothing where an operator reads them behind the end of the past; none: it is not known here.
std::optional<double> NeutralOf(const OpDef* op, DType dtype) {
  if (op == ops::Matmul() || op == ops::DotGeneral() || op == ops::ReduceSum()) return 0;
  if (op == ops::ReduceAnd() || op == ops::ReduceProd()) return 1;
  if (op == ops::ReduceOr()) return 0;
  if (!IsFloating(dtype)) return std::nullopt;
  if (op == ops::Softmax() || op == ops::LogSoftmax() || op == ops::ReduceMax()) return -HUGE_VAL;
  if (op == ops::ReduceMin()) return HUGE_VAL;
  return std::nullopt;
}

class Builder {
 public:
  Builder(const Graph& whole, const std::map<std::string, Append>& appends, const Growth& growth)
      : whole_(whole), appends_(appends), growth_(growth) {
    for (const auto& [name, append] : appends_) appended_[append.present] = &append;
  }

  absl::StatusOr<GrowingGraph> Build() {
    RETURN_IF_ERROR(AddLength());
    std::vector<Value> inputs;
    GrowingGraph result;
    for (Value input : whole_.inputs()) {
      ASSIGN_OR_RETURN(inputs.emplace_back(), AddInput(input));
      result.growing.push_back(growth_.axis(input));
    }
    for (NodeId id : whole_.nodes()) RETURN_IF_ERROR(AddNode(id));
    std::vector<Output> outputs;
    for (const Output& output : whole_.outputs()) {
      outputs.push_back({values_.at(output.value), output.name});
      const auto append = appended_.find(output.value);
      const bool next = append != appended_.end() && append->second->next == output.name;
      if (next) outputs.back().updates = values_.at(append->second->past);
      if (!next && growth_.axis(output.value) >= 0) {
        return Depends(absl::StrCat("the output ", output.name),
                       "grows with the past, and is the next value of no state");
      }
    }
    inputs.push_back(length_);
    result.graph = Graph(arena_, std::move(inputs), std::move(outputs));
    return result;
  }

  const ValueMap& values() const { return values_; }  // by value of the model

 private:
  // The length of the past, and which rows hold it or new ones.
  absl::Status AddLength() {
    std::string name = "length of the past";
    const auto taken = [&](Value input) { return whole_.node(input.node).name == name; };
    while (std::any_of(whole_.inputs().begin(), whole_.inputs().end(), taken)) name += "'";
    ASSIGN_OR_RETURN(length_, arena_->AddInput(name, {DType::kInt64, {}}));
    const Value rows = arena_->AddConstant(Tensor::Scalar(DType::kInt64, static_cast<double>(Rows())));
    ASSIGN_OR_RETURN(const Value end, arena_->Apply("add", {length_, rows}));
    ASSIGN_OR_RETURN(const Value row, arena_->Apply("iota", {},
                                                    {{"shape", std::vector<int64_t>{growth_.capacity()}},
                                                     {"axis", int64_t{0}},
                                                     {"dtype", DType::kInt64}}));
    ASSIGN_OR_RETURN(held_, arena_->Apply("less", {row, end}));
    return absl::OkStatus();
  }

  int64_t Rows() const { return appends_.begin()->second.rows; }

  absl::StatusOr<Value> AddInput(Value input) {
    TensorType type = whole_.type(input);
    if (growth_.IsPast(input)) type.shape[growth_.axis(input)] = growth_.capacity();
    ASSIGN_OR_RETURN(values_[input], arena_->AddInput(whole_.node(input.node).name, type));
    if (growth_.IsPast(input)) zero_behind_.insert(input);
    return values_[input];
  }

  absl::Status AddNode(NodeId id) {
    const Node& node = whole_.node(id);
    if (node.leaf == LeafKind::kInput) return absl::OkStatus();
    if (node.op == nullptr) {
      RETURN_IF_ERROR(CopyNode(*whole_.arena(), id, *arena_, &values_));
      return AddConstant(id);
    }
    if (const auto append = appended_.find({id, 0}); append != appended_.end()) return AddAppend(*append->second);
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      if (growth_.IsPast(operand)) return Depends(Text(whole_, id), "reads the past before new rows are joined to it");
      operands.push_back(values_.at(operand));
    }
    RETURN_IF_ERROR(FillBehind(id, &operands));
    const NodeId made = arena_->AddLike(node, std::move(operands));
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) values_[{id, k}] = {made, k};
    return absl::OkStatus();
  }

  // A constant, behind a past of another length.
  absl::Status AddConstant(NodeId id) {
    const Growth::Kind kind = growth_.KindOf(id);
    if (kind == Growth::kFirst) return absl::OkStatus();
    const Value constant = values_.at({id, 0});
    const DType dtype = kind == Growth::kLast ? DType::kInt64 : whole_.type({id, 0}).dtype;
    const Value past = arena_->AddConstant(Tensor::Scalar(dtype, static_cast<double>(growth_.capacity() - Rows())));
    ASSIGN_OR_RETURN(const Value length, arena_->Apply("cast", {length_}, {{"to", dtype}}));
    ASSIGN_OR_RETURN(const Value less, arena_->Apply("sub", {past, length}));
    if (kind == Growth::kNumber) {
      ASSIGN_OR_RETURN(const Value shifted, arena_->Apply("sub", {constant, less}));
      values_[{id, 0}] = shifted;
      return absl::OkStatus();
    }
    // Its last elements, and whatever behind these.
    const int axis = growth_.axis({id, 0});
    const Attrs along = {{"axis", int64_t{axis}}};
    ASSIGN_OR_RETURN(const Value longer, arena_->Apply("concat", {constant, constant}, along));
    std::vector<Value> operands = {longer};
    const Value zero = arena_->AddConstant(Tensor::Scalar(DType::kInt64, 0));
    for (int k = 0; k < whole_.type({id, 0}).rank(); ++k) operands.push_back(k == axis ? less : zero);
    const Attrs sizes = {{"sizes", whole_.type({id, 0}).shape}};
    ASSIGN_OR_RETURN(const Value last, arena_->Apply("dynamic_slice", std::move(operands), sizes));
    values_[{id, 0}] = last;
    return absl::OkStatus();
  }

  absl::Status AddAppend(const Append& append) {
    const Node& node = whole_.node(append.present.node);
    std::vector<Value> operands = {values_.at(append.past), values_.at(node.operands[1])};
    const Value zero = arena_->AddConstant(Tensor::Scalar(DType::kInt64, 0));
    for (int axis = 0; axis < node.outputs[0].rank(); ++axis) operands.push_back(axis == append.axis ? length_ : zero);
    ASSIGN_OR_RETURN(values_[append.present], arena_->Apply("dynamic_update_slice", std::move(operands)));
    zero_behind_.insert(append.present);
    return absl::OkStatus();
  }

  // Elements that a reduction reads behind the end of the past become neutral.
  absl::Status FillBehind(NodeId id, std::vector<Value>* operands) {
    const Node& node = whole_.node(id);
    RowByRow rows(whole_, id, growth_);
    RETURN_IF_ERROR(rows.Read());
    for (int operand : rows.reduced()) {
      const Value read = node.operands[operand];
      const std::optional<double> neutral = NeutralOf(node.op, whole_.type(read).dtype);
      if (!neutral) return Depends(Text(whole_, id), "reduces over the past in a way that is not known here");
      if (*neutral == 0 && zero_behind_.contains(read)) continue;
      ASSIGN_OR_RETURN((*operands)[operand], Filled((*operands)[operand], growth_.axis(read), *neutral));
    }
    const bool moved = rows.moves() && zero_behind_.contains(node.operands.empty() ? Value{} : node.operands[0]);
    if (moved || (node.op == ops::Softmax() && !rows.reduced().empty())) zero_behind_.insert({id, 0});
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Filled(Value x, int axis, double neutral) {
    const TensorType& type = arena_->type(x);
    Shape shape(static_cast<size_t>(type.rank() - axis), 1);
    shape[0] = growth_.capacity();
    ASSIGN_OR_RETURN(const Value held, arena_->Apply("reshape", {held_}, {{"shape", shape}}));
    const Value fill = arena_->AddConstant(Tensor::Scalar(type.dtype, neutral));
    return arena_->Apply("where", {held, x, fill});
  }

  const Graph& whole_;
  const std::map<std::string, Append>& appends_;
  const Growth& growth_;
  std::map<Value, const Append*> appended_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  ValueMap values_;
  Value length_, held_;
  std::set<Value> zero_behind_;  // zeros lie behind the end of the past
};

}  // namespace

// Knowledge of the model at other lengths.
struct CheckedLengths {
  CheckedLengths(const Graph& model, const StateNames& of, const std::map<std::string, Append>& at)
      : whole(model), states(of), appends(at), longest(Past(whole, appends)), growth(whole, appends) {}

  static int64_t Past(const Graph& graph, const std::map<std::string, Append>& appends) {
    const Append& first = appends.begin()->second;
    return graph.type(first.past).shape[first.axis];
  }

  absl::StatusOr<int64_t> LengthOf(const Graph& model) const {
    ASSIGN_OR_RETURN(const auto at, FindAppends(model, states));
    return Past(model, at);
  }

  void FindChanging(std::shared_ptr<const OnnxSource> source) {
    changing = ChangingNodes::Find(std::move(source), whole, [&](Value value) -> std::optional<int> {
      const bool known = whole.contains(value.node) || whole.node(value.node).leaf == LeafKind::kInput;
      return known ? std::optional(growth.axis(value)) : std::nullopt;
    });
  }

  // True if inputs have the shapes that follow at a past of `by` rows less.
  bool FollowFrom(const std::vector<Shape>& inputs, int64_t by) const {
    for (size_t k = 0; k < inputs.size(); ++k) {
      Shape shape = whole.type(whole.inputs()[k]).shape;
      if (const int axis = growth.axis(whole.inputs()[k]); axis >= 0) shape[axis] -= by;
      if (shape != inputs[k]) return false;
    }
    return true;
  }

  // Error: behind a past of `length` rows the first elements of a value, which depends on no other input, are not
  // those that it was folded to.
  absl::Status CheckFolded(const absl::StatusOr<std::vector<Growth::Folded>>& folded, int64_t length) const {
    RETURN_IF_ERROR(folded.status());
    const Value input = made.inputs().back();
    const Tensor rows = Tensor::Scalar(DType::kInt64, static_cast<double>(length));
    for (const Growth::Folded& constant : *folded) {
      const Graph part(made.arena(), {input}, {{values.at(constant.value), "constant"}});
      ASSIGN_OR_RETURN(const std::vector<Tensor> found, InterpretGraph(part, {{made.node(input.node).name, rows}}));
      if (!IsPart(found[0], constant.elements, /*last=*/false)) return OtherConstant(constant.elements.type());
    }
    return absl::OkStatus();
  }

  const Graph whole;
  const StateNames states;
  const std::map<std::string, Append> appends;
  const int64_t longest;
  Growth growth;
  Graph made;       // out of `whole`
  ValueMap values;  // of it, by value of `whole`
  std::optional<ChangingNodes> changing;
};

absl::StatusOr<std::map<std::string, Append>> FindAppends(const Graph& graph, const StateNames& states) {
  std::map<std::string, Append> appends;
  for (const auto& [past, present] : states) {
    const auto input = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [&, &past = past](Value value) { return graph.node(value.node).name == past; });
    const auto output = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                     [&, &present = present](const Output& one) { return one.name == present; });
    if (input == graph.inputs().end()) {
      return absl::InvalidArgumentError(absl::StrCat("states: the model has no input `", past, "`"));
    }
    if (output == graph.outputs().end()) {
      return absl::InvalidArgumentError(absl::StrCat("states: the model has no output `", present, "`"));
    }
    const Node& node = graph.node(output->value.node);
    if (node.op != ops::Concat() || node.operands.size() != 2 || node.operands[0] != *input) {
      return Depends(absl::StrCat("the output ", present), absl::StrCat("is not ", past, " with new rows behind it"));
    }
    const int axis = static_cast<int>(std::get<int64_t>(node.attrs.at("axis")));
    const int64_t rows = graph.type(node.operands[1]).shape[axis];
    if (!appends.empty() && appends.begin()->second.rows != rows) {
      return Depends(absl::StrCat("the output ", present),
                     absl::StrCat("gets ", rows, " rows, others ", appends.begin()->second.rows));
    }
    appends[past] = {*input, output->value, axis, rows, present};
  }
  if (appends.empty()) return absl::InvalidArgumentError("states: found none, expected an input and its output");
  return appends;
}

absl::StatusOr<GrowingGraph> MakeGrowing(const std::vector<Graph>& samples, const StateNames& states,
                                         std::shared_ptr<const OnnxSource> source) {
  ASSIGN_OR_RETURN(const auto appends, FindAppends(samples[0], states));
  auto lengths = std::make_shared<CheckedLengths>(samples[0], states, appends);
  for (size_t k = 1; k < samples.size(); ++k) {
    ASSIGN_OR_RETURN(const int64_t length, lengths->LengthOf(samples[k]));
    RETURN_IF_ERROR(lengths->growth.Learn(samples[k], lengths->longest - length));
  }
  Builder builder(lengths->whole, lengths->appends, lengths->growth);
  ASSIGN_OR_RETURN(GrowingGraph made, builder.Build());
  lengths->made = made.graph;
  lengths->values = builder.values();
  if (source != nullptr) lengths->FindChanging(std::move(source));
  made.lengths = std::move(lengths);
  return made;
}

absl::Status GrowingGraph::Check(const Graph& model) const {
  ASSIGN_OR_RETURN(const int64_t length, lengths->LengthOf(model));
  const int64_t by = lengths->longest - length;
  return lengths->CheckFolded(lengths->growth.Check(model, by), length);
}

bool GrowingGraph::CheckChanges(int64_t length, const std::vector<Shape>& inputs) const {
  const int64_t by = lengths->longest - length;
  if (!lengths->changing || !lengths->changing->complete() || !lengths->FollowFrom(inputs, by)) return false;
  const ChangedValues changed = lengths->changing->ImportAt(by);
  return changed.status.ok() && lengths->CheckFolded(lengths->growth.Check(changed, by), length).ok();
}

absl::Status GrowingGraph::CheckEmpty() const {
  if (!lengths->changing) return absl::OkStatus();
  ChangedValues changed = lengths->changing->ImportAt(lengths->longest);
  std::erase_if(changed.results, [&](const auto& result) {
    return !lengths->whole.arena()->IsKnown(result.first) || !changed.arena->IsKnown(result.second);
  });
  return lengths->CheckFolded(lengths->growth.Check(changed, lengths->longest), 0);
}

}  // namespace rewright
