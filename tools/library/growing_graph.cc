#include "tools/library/growing_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

absl::Status Depends(const std::string& what, const std::string& how) {
  return absl::FailedPreconditionError(absl::StrCat("states: ", what, " ", how));
}

std::string Text(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string& name = node.op == nullptr ? node.name : graph.arena()->name({id, 0});
  return absl::StrCat(node.op == nullptr ? "the leaf" : node.op->name, " \"", name, "\"");
}

// True if `kept` is a part of `whole`: along each axis the first elements, or the last ones.
bool IsPart(const Tensor& whole, const Tensor& kept, bool last) {
  const Shape &shape = kept.shape(), &all = whole.shape();
  const size_t size = DTypeSize(kept.dtype());
  for (int64_t i = 0; i < kept.num_elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int axis = kept.type().rank() - 1; axis >= 0; --axis) {
      at += (rest % shape[axis] + (last ? all[axis] - shape[axis] : 0)) * stride;
      rest /= shape[axis];
      stride *= all[axis];
    }
    if (std::memcmp(whole.as<char>() + at * static_cast<int64_t>(size),
                    kept.as<char>() + i * static_cast<int64_t>(size), size) != 0) {
      return false;
    }
  }
  return true;
}

// Every integer of `whole` exceeds that of `other` by `by`.
bool Exceeds(const Tensor& whole, const Tensor& other, int64_t by) {
  if ((whole.dtype() != DType::kInt64 && whole.dtype() != DType::kInt32) || whole.type() != other.type()) return false;
  for (int64_t i = 0; i < whole.num_elements(); ++i) {
    if (whole.AtInt(i) - other.AtInt(i) != by) return false;
  }
  return true;
}

absl::Status OtherConstant(const TensorType& type) {
  return Depends(absl::StrCat("a constant ", type.ToString()),
                 "depends on the length of the past in a way that is not known here");
}

// The axis of each value that grows with the past, and the constants that do, out of the model at several lengths.
class Growth {
 public:
  struct Folded {
    Value value;
    Tensor elements;
  };

  Growth(const Graph& whole, const std::map<std::string, Append>& appends)
      : whole_(whole), capacity_(appends.begin()->second.rows) {
    const Append& first = appends.begin()->second;
    capacity_ = whole.type(first.present).shape[first.axis];
    for (const auto& [name, append] : appends) pasts_.insert(append.past);
    for (NodeId id : whole.nodes()) {
      const Node& node = whole.node(id);
      const auto reads = [&](Value operand) { return reads_inputs_.contains(operand.node); };
      if (node.leaf == LeafKind::kInput || absl::c_any_of(node.operands, reads)) reads_inputs_.insert(id);
    }
  }

  // `shorter`: the model at a past that has `by` rows less. `folded`, where it is given, gets values that are constants
  // there, since the importer folds few elements, and are computed out of constants here.
  absl::Status Compare(const Graph& shorter, int64_t by, std::vector<Folded>* folded = nullptr) {
    if (shorter.inputs().size() != whole_.inputs().size() || shorter.outputs().size() != whole_.outputs().size()) {
      return OtherNodes();
    }
    // Constants that are alike at one length are one node there, so nodes are matched by what reads them.
    absl::flat_hash_map<NodeId, NodeId> others;
    const auto match = [&](Value here, Value there) {
      return here.output == there.output && others.emplace(here.node, there.node).first->second == there.node;
    };
    bool alike = true;
    for (size_t k = 0; k < whole_.inputs().size(); ++k) alike &= match(whole_.inputs()[k], shorter.inputs()[k]);
    for (size_t k = 0; k < whole_.outputs().size(); ++k) {
      alike &= match(whole_.outputs()[k].value, shorter.outputs()[k].value);
    }
    for (auto id = whole_.nodes().rbegin(); alike && id != whole_.nodes().rend(); ++id) {
      const auto matched = others.find(*id);
      if (matched == others.end()) continue;
      const NodeId other = matched->second;
      const Node &a = whole_.node(*id), &b = shorter.node(other);
      if (folded != nullptr && a.op != nullptr && b.leaf == LeafKind::kConstant && !reads_inputs_.contains(*id)) {
        folded->push_back({{*id, 0}, *shorter.arena()->Elements(other)});
        continue;
      }
      alike = a.op == b.op && a.leaf == b.leaf && a.name == b.name && a.outputs.size() == b.outputs.size() &&
              a.operands.size() == b.operands.size();
      for (size_t k = 0; alike && k < a.operands.size(); ++k) alike = match(a.operands[k], b.operands[k]);
      if (alike) RETURN_IF_ERROR(CompareNode(*id, b, shorter.arena()->Elements(other), by));
    }
    return alike ? absl::OkStatus() : OtherNodes();
  }

  int axis(Value value) const {
    const auto found = axes_.find(value);
    return found == axes_.end() ? -1 : found->second;
  }
  int64_t capacity() const { return capacity_; }
  bool IsPast(Value value) const { return pasts_.contains(value); }
  // How the elements of a constant follow from the length of the past.
  enum Kind : unsigned {
    kFirst = 1,   // they do not: a shorter past sees the first of them
    kLast = 2,    // a shorter past sees the last of them
    kNumber = 4,  // each is the length plus something
  };
  Kind KindOf(NodeId constant) const {
    const auto found = kinds_.find(constant);
    const unsigned kinds = found == kinds_.end() ? kFirst : found->second;
    return (kinds & kFirst) != 0 ? kFirst : (kinds & kLast) != 0 ? kLast : kNumber;
  }
  // Error: at a past of `by` rows less, `other` is not what follows from the lengths that were compared. Gives the
  // values that are constants there alone.
  absl::StatusOr<std::vector<Folded>> Check(const Graph& other, int64_t by) const {
    Growth with = *this;
    std::vector<Folded> folded;
    RETURN_IF_ERROR(with.Compare(other, by, &folded));
    for (const auto& [constant, kinds] : with.kinds_) {
      if ((kinds & KindOf(constant)) == 0) return AnotherWay(constant);
    }
    if (with.axes_ == axes_ && with.sized_ == sized_) return folded;
    return Depends("the model", "has other sizes at other lengths");
  }

  // Numbers of attributes that are the capacity.
  bool Grows(NodeId id, const std::string& attr, int64_t number) const {
    return number == capacity_ && sized_.contains({id, attr});
  }

 private:
  static absl::Status OtherNodes() { return Depends("the model", "has other nodes at other lengths"); }

  absl::Status CompareNode(NodeId id, const Node& other, const Tensor* elements, int64_t by) {
    for (size_t k = 0; k < other.outputs.size(); ++k) {
      RETURN_IF_ERROR(CompareTypes({id, static_cast<int32_t>(k)}, other.outputs[k], by));
    }
    return other.op == nullptr ? CompareElements(id, elements, by) : CompareAttrs(id, other.attrs, by);
  }

  absl::Status CompareTypes(Value value, const TensorType& other, int64_t by) {
    const TensorType& type = whole_.type(value);
    if (type.rank() != other.rank() || type.dtype != other.dtype) return Depends(Text(whole_, value.node), "changes");
    for (int axis = 0; axis < type.rank(); ++axis) {
      const int64_t grown = type.shape[axis] - other.shape[axis];
      const auto known = axes_.find(value);
      if (grown == 0 && (known == axes_.end() || known->second != axis)) continue;
      const bool first = known == axes_.end() || known->second == axis;
      if (!first || grown != by || (!IsPast(value) && type.shape[axis] != capacity_)) {
        return Depends(Text(whole_, value.node),
                       absl::StrCat("has the shape ", type.ToString(), ", which is not that of past and new rows"));
      }
      axes_[value] = axis;
    }
    return absl::OkStatus();
  }

  absl::Status CompareElements(NodeId id, const Tensor* other, int64_t by) {
    const Tensor* elements = whole_.arena()->Elements(id);
    if (elements == nullptr || other == nullptr || elements->data() == other->data()) return absl::OkStatus();
    unsigned& kinds = kinds_.try_emplace(id, kFirst | kLast | kNumber).first->second;
    if (!IsPart(*elements, *other, /*last=*/false)) kinds &= ~kFirst;
    if (!IsPart(*elements, *other, /*last=*/true)) kinds &= ~kLast;
    if (!Exceeds(*elements, *other, by)) kinds &= ~kNumber;
    return kinds != 0 ? absl::OkStatus() : AnotherWay(id);
  }

  absl::Status AnotherWay(NodeId constant) const { return OtherConstant(whole_.type({constant, 0})); }

  absl::Status CompareAttrs(NodeId id, const Attrs& others, int64_t by) {
    for (const auto& [name, attr] : whole_.node(id).attrs) {
      const Attr& other = others.at(name);
      if (attr == other) continue;
      const auto *list = std::get_if<std::vector<int64_t>>(&attr), *shorter = std::get_if<std::vector<int64_t>>(&other);
      bool sizes = list != nullptr && shorter->size() == list->size() && axis({id, 0}) >= 0;
      for (size_t k = 0; sizes && k < list->size(); ++k) {
        sizes = (*list)[k] == (*shorter)[k] || ((*list)[k] == capacity_ && capacity_ - (*shorter)[k] == by);
      }
      if (!sizes) return Depends(Text(whole_, id), absl::StrCat("has another ", name, " at another length"));
      sized_.insert({id, name});
    }
    return absl::OkStatus();
  }

  const Graph& whole_;
  int64_t capacity_;
  std::set<Value> pasts_;
  absl::flat_hash_set<NodeId> reads_inputs_;  // whose values depend on inputs
  absl::flat_hash_map<Value, int> axes_;
  std::map<NodeId, unsigned> kinds_;  // that are possible
  std::set<std::pair<NodeId, std::string>> sized_;
};

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

// Error: behind a past of `length` rows the first elements of `value`, which depends on no other input, are not these.
absl::Status CheckFolded(const Graph& graph, Value value, const Tensor& elements, int64_t length) {
  const Value input = graph.inputs().back();
  const Graph part(graph.arena(), {input}, {{value, "constant"}});
  ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                   InterpretGraph(part, {{graph.node(input.node).name,
                                          Tensor::Scalar(DType::kInt64, static_cast<double>(length))}}));
  return IsPart(found[0], elements, /*last=*/false) ? absl::OkStatus() : OtherConstant(elements.type());
}

}  // namespace

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

absl::StatusOr<GrowingGraph> MakeGrowing(const std::vector<Graph>& samples, const StateNames& states) {
  struct Known {
    Known(const Graph& model, const std::map<std::string, Append>& of)
        : whole(model), appends(of), growth(whole, appends) {}
    const Graph whole;
    const std::map<std::string, Append> appends;
    Growth growth;
  };
  const auto length = [](const Graph& graph, const std::map<std::string, Append>& appends) {
    const Append& first = appends.begin()->second;
    return graph.type(first.past).shape[first.axis];
  };
  ASSIGN_OR_RETURN(const auto appends, FindAppends(samples[0], states));
  const auto known = std::make_shared<Known>(samples[0], appends);
  const int64_t longest = length(known->whole, known->appends);
  for (size_t k = 1; k < samples.size(); ++k) {
    ASSIGN_OR_RETURN(const auto shorter, FindAppends(samples[k], states));
    RETURN_IF_ERROR(known->growth.Compare(samples[k], longest - length(samples[k], shorter)));
  }
  Builder builder(known->whole, known->appends, known->growth);
  ASSIGN_OR_RETURN(GrowingGraph made, builder.Build());
  made.check = [=, graph = made.graph, values = builder.values()](const Graph& model) -> absl::Status {
    ASSIGN_OR_RETURN(const auto at, FindAppends(model, states));
    const int64_t past = length(model, at);
    ASSIGN_OR_RETURN(const auto folded, known->growth.Check(model, longest - past));
    for (const Growth::Folded& constant : folded) {
      RETURN_IF_ERROR(CheckFolded(graph, values.at(constant.value), constant.elements, past));
    }
    return absl::OkStatus();
  };
  return made;
}

}  // namespace rewright
