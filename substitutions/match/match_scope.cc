#include "substitutions/match/match_scope.h"

#include <cmath>

namespace rewright {

bool MatchScope::Get(ArgExpr::Ref ref, int id, Value* value) const {
  const size_t at = id;
  switch (ref) {
    case ArgExpr::Ref::kSize:
      value->kind = Value::Kind::kInt;
      value->integer = bindings_.sizes[at];
      return true;
    case ArgExpr::Ref::kPack:
      value->kind = Value::Kind::kList;
      value->list = bindings_.packs[at];
      return true;
    case ArgExpr::Ref::kAttr:
      FromAttr(bindings_.attrs[at], value);
      if (rule_.attrs()[at].kind == RuleAttr::Class::kReal && value->kind == Value::Kind::kInt) {
        value->kind = Value::Kind::kElement;
        value->element = Concrete::ToElement(value->integer);
      }
      return true;
    default: return false;
  }
}

bool MatchScope::TensorShape(int node, std::vector<int64_t>* shape) const {
  const size_t at = node;
  if (at >= nodes_.size() || nodes_[at].node < 0) return false;
  if (arena_.node(nodes_[at].node).outputs.size() != 1 && arena_.node(nodes_[at].node).op == nullptr) return false;
  *shape = arena_.type(nodes_[at]).shape;
  return true;
}

bool MatchScope::Predicate(ArgFn fn, const ArgExpr& arg, bool, bool* truth) const {
  if (arg.ref == ArgExpr::Ref::kAttr) {
    const Attr& attr = bindings_.attrs[arg.id];
    const double* real = std::get_if<double>(&attr);
    const int64_t* integer = std::get_if<int64_t>(&attr);
    *truth = fn == ArgFn::kPositive && ((real != nullptr && *real > 0) || (integer != nullptr && *integer > 0));
    return true;
  }
  const size_t at = arg.id;
  if (at >= nodes_.size() || nodes_[at].node < 0) return false;
  if (fn == ArgFn::kWeight) {
    *truth = arena_.IsKnown(nodes_[at]);
    return true;
  }
  const Tensor* tensor = arena_.KnownElements(nodes_[at].node);
  *truth = tensor != nullptr;
  if (fn == ArgFn::kConstant || tensor == nullptr) return true;
  const int64_t count = tensor->num_elements();
  *truth = count <= kMaxLookedAt;
  for (int64_t i = 0; i < count && *truth; ++i) {
    const double element = tensor->At(i);
    *truth = std::isfinite(element) && (fn == ArgFn::kFinite || element > 0);
  }
  return true;
}

bool ToAttr(const ArgValue<Concrete>& value, AttrKind kind, Attr* attr) {
  using Kind = ArgValue<Concrete>::Kind;
  switch (value.kind) {
    case Kind::kInt:
      if (kind == AttrKind::kReal) {
        *attr = static_cast<double>(value.integer);
      } else {
        *attr = value.integer;
      }
      return kind != AttrKind::kAxes && kind != AttrKind::kInts && kind != AttrKind::kDType;
    case Kind::kList: *attr = value.list; return kind == AttrKind::kAxes || kind == AttrKind::kInts;
    case Kind::kReal: *attr = value.real; return kind == AttrKind::kReal;
    case Kind::kDType: *attr = value.dtype; return kind == AttrKind::kDType;
    case Kind::kElement:
    case Kind::kBool: return false;
  }
  return false;
}

bool ToNumber(const ArgValue<Concrete>& value, DType type, Number* number) {
  using Kind = ArgValue<Concrete>::Kind;
  switch (value.kind) {
    case Kind::kInt: *number = value.integer; return IsFloating(type) || HasNumber(type, *number);
    case Kind::kReal: *number = value.real; return IsFloating(type);
    case Kind::kElement:
      *number = static_cast<int64_t>(value.element);
      return IsInteger(type) || (type == DType::kBool && HasNumber(type, *number));
    default: return false;
  }
}

void FromAttr(const Attr& attr, ArgValue<Concrete>* value) {
  using Kind = ArgValue<Concrete>::Kind;
  if (const auto* integer = std::get_if<int64_t>(&attr)) {
    value->kind = Kind::kInt;
    value->integer = *integer;
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
    value->kind = Kind::kList;
    value->list = *list;
  } else if (const auto* real = std::get_if<double>(&attr)) {
    value->kind = Kind::kReal;
    value->real = *real;
  } else {
    value->kind = Kind::kDType;
    value->dtype = std::get<DType>(attr);
  }
}

}  // namespace rewright
