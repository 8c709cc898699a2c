#include "tools/library/growth.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

absl::Status OtherNodes() { return Depends("the model", "has other nodes at other lengths"); }

// Every element of `whole` is an integer that exceeds that of `other` by `by`, and sums of them are exact.
bool Exceeds(const Tensor& whole, const Tensor& other, int64_t by) {
  constexpr double kExact = 1 << 24;  // float32 has all integers up to it
  const DType dtype = whole.dtype();
  const bool floating = dtype == DType::kFloat32 || dtype == DType::kFloat64;
  if ((!floating && dtype != DType::kInt64 && dtype != DType::kInt32) || whole.type() != other.type()) return false;
  for (int64_t i = 0; i < whole.num_elements(); ++i) {
    if (floating) {
      const double a = whole.At(i), b = other.At(i);
      if (!(std::abs(a) <= kExact) || a != std::trunc(a) || a - b != static_cast<double>(by)) return false;
    } else if (whole.AtInt(i) - other.AtInt(i) != by) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status Depends(const std::string& what, const std::string& how) {
  return absl::FailedPreconditionError(absl::StrCat("states: ", what, " ", how));
}

absl::Status OtherConstant(const TensorType& type) {
  return Depends(absl::StrCat("a constant ", type.ToString()),
                 "depends on the length of the past in a way that is not known here");
}

std::string Text(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string& name = node.op == nullptr ? node.name : graph.arena()->name({id, 0});
  return absl::StrCat(node.op == nullptr ? "the leaf" : node.op->name, " \"", name, "\"");
}

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

Growth::Growth(const Graph& whole, const std::map<std::string, Append>& appends) : whole_(whole) {
  const Append& first = appends.begin()->second;
  capacity_ = whole.type(first.present).shape[first.axis];
  for (const auto& [name, append] : appends) pasts_.insert(append.past);
}

// ---------------------------------------------------------------- the nodes of another length

// Constants that are alike at one length are one node there, so nodes are matched by what reads them.
bool Growth::Matches::Add(Value here, Value there) {
  if (leaves != nullptr) {
    if (const auto leaf = leaves->find(there); leaf != leaves->end()) return leaf->second == here;
  }
  return here.output == there.output && nodes.emplace(here.node, there.node).first->second == there.node;
}

absl::StatusOr<Growth::Matches> Growth::Match(const Graph& other) const {
  bool alike = other.inputs().size() == whole_.inputs().size() && other.outputs().size() == whole_.outputs().size();
  Matches matches;
  for (size_t k = 0; alike && k < whole_.inputs().size(); ++k) {
    alike = matches.Add(whole_.inputs()[k], other.inputs()[k]);
  }
  for (size_t k = 0; alike && k < whole_.outputs().size(); ++k) {
    alike = matches.Add(whole_.outputs()[k].value, other.outputs()[k].value);
  }
  return alike ? absl::StatusOr<Matches>(std::move(matches)) : OtherNodes();
}

absl::Status Growth::Visit(Matches matches, const Arena& arena, Visitor visit) const {
  while (!matches.nodes.empty()) {
    const auto [id, other] = *matches.nodes.begin();
    matches.nodes.erase(matches.nodes.begin());
    const Node &a = whole_.node(id), &b = arena.node(other);
    const bool folded = a.op != nullptr && b.leaf == LeafKind::kConstant && !a.reads_input;
    if (!folded) {
      bool alike = a.op == b.op && a.leaf == b.leaf && a.name == b.name && a.outputs.size() == b.outputs.size() &&
                   a.operands.size() == b.operands.size();
      for (size_t k = 0; alike && k < a.operands.size(); ++k) alike = matches.Add(a.operands[k], b.operands[k]);
      if (!alike) return OtherNodes();
    }
    RETURN_IF_ERROR(visit(id, arena, other));
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- learning

absl::Status Growth::Learn(const Graph& shorter, int64_t by) {
  ASSIGN_OR_RETURN(Matches matches, Match(shorter));
  return Visit(std::move(matches), *shorter.arena(), [&](NodeId id, const Arena& arena, NodeId other) -> absl::Status {
    const Node& node = arena.node(other);
    if (node.op != whole_.node(id).op) return OtherNodes();  // a folded one
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      RETURN_IF_ERROR(LearnType({id, static_cast<int32_t>(k)}, node.outputs[k], by));
    }
    return node.op == nullptr ? LearnElements(id, arena.Elements(other), by) : LearnAttrs(id, node.attrs, by);
  });
}

absl::Status Growth::LearnType(Value value, const TensorType& other, int64_t by) {
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

absl::Status Growth::LearnElements(NodeId id, const Tensor* other, int64_t by) {
  const Tensor* elements = whole_.arena()->Elements(id);
  if (elements == nullptr || other == nullptr || elements->data() == other->data()) return absl::OkStatus();
  unsigned& kinds = kinds_.try_emplace(id, kFirst | kLast | kNumber).first->second;
  kinds &= KindsOf(id, *other, by);
  return kinds != 0 ? absl::OkStatus() : OtherConstant(whole_.type({id, 0}));
}

absl::Status Growth::LearnAttrs(NodeId id, const Attrs& others, int64_t by) {
  return CompareAttrs(id, others, by, [&](const std::string& attr) {
    if (axis({id, 0}) < 0) return false;
    sized_.insert({id, attr});
    return true;
  });
}

unsigned Growth::KindsOf(NodeId id, const Tensor& other, int64_t by) const {
  const Tensor& elements = *whole_.arena()->Elements(id);
  unsigned kinds = 0;
  if (IsPart(elements, other, /*last=*/false)) kinds |= kFirst;
  if (IsPart(elements, other, /*last=*/true)) kinds |= kLast;
  if (Exceeds(elements, other, by)) kinds |= kNumber;
  return kinds;
}

absl::Status Growth::CompareAttrs(NodeId id, const Attrs& others, int64_t by,
                                  absl::FunctionRef<bool(const std::string& attr)> grows) const {
  for (const auto& [name, attr] : whole_.node(id).attrs) {
    const Attr& other = others.at(name);
    if (attr == other) continue;
    const auto *list = std::get_if<std::vector<int64_t>>(&attr), *shorter = std::get_if<std::vector<int64_t>>(&other);
    bool sizes = list != nullptr && shorter != nullptr && shorter->size() == list->size() && grows(name);
    for (size_t k = 0; sizes && k < list->size(); ++k) {
      sizes = (*list)[k] == (*shorter)[k] || ((*list)[k] == capacity_ && capacity_ - (*shorter)[k] == by);
    }
    if (!sizes) return Depends(Text(whole_, id), absl::StrCat("has another ", name, " at another length"));
  }
  return absl::OkStatus();
}

Growth::Kind Growth::KindOf(NodeId constant) const {
  const auto found = kinds_.find(constant);
  const unsigned kinds = found == kinds_.end() ? kFirst : found->second;
  return (kinds & kFirst) != 0 ? kFirst : (kinds & kLast) != 0 ? kLast : kNumber;
}

// ---------------------------------------------------------------- checking

absl::StatusOr<std::vector<Growth::Folded>> Growth::Check(const Graph& other, int64_t by) const {
  ASSIGN_OR_RETURN(Matches matches, Match(other));
  return CheckAll(std::move(matches), *other.arena(), by);
}

absl::StatusOr<std::vector<Growth::Folded>> Growth::Check(const ChangedValues& other, int64_t by) const {
  Matches matches;
  matches.leaves = &other.leaves;
  for (const auto& [here, there] : other.results) {
    if (!matches.Add(here, there)) return OtherNodes();
  }
  return CheckAll(std::move(matches), *other.arena, by);
}

absl::StatusOr<std::vector<Growth::Folded>> Growth::CheckAll(Matches matches, const Arena& arena, int64_t by) const {
  std::vector<Folded> folded;
  const auto check = [&](NodeId id, const Arena& from, NodeId other) {
    const Node& node = from.node(other);
    if (node.op == whole_.node(id).op) return CheckNode(id, node, from.Elements(other), by);
    folded.push_back({{id, 0}, node.data});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(Visit(std::move(matches), arena, check));
  return folded;
}

absl::Status Growth::CheckNode(NodeId id, const Node& other, const Tensor* elements, int64_t by) const {
  for (size_t k = 0; k < other.outputs.size(); ++k) {
    const Value value{id, static_cast<int32_t>(k)};
    TensorType type = whole_.type(value);
    if (axis(value) >= 0) type.shape[axis(value)] -= by;
    if (type != other.outputs[k]) return Depends("the model", "has other sizes at other lengths");
  }
  if (other.op != nullptr) {
    return CompareAttrs(id, other.attrs, by, [&](const std::string& attr) { return sized_.contains({id, attr}); });
  }
  const Tensor* here = whole_.arena()->Elements(id);
  if (here == nullptr || elements == nullptr || here->data() == elements->data()) return absl::OkStatus();
  return (KindsOf(id, *elements, by) & KindOf(id)) != 0 ? absl::OkStatus() : OtherConstant(whole_.type({id, 0}));
}

}  // namespace rewright
