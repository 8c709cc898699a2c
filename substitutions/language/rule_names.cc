#include "substitutions/language/rule_names.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_printer.h"

namespace rewright {
namespace {

int ArgCount(ArgFn fn) {
  switch (fn) {
    case ArgFn::kMin:
    case ArgFn::kMax:
    case ArgFn::kDim:
    case ArgFn::kCompose:
    case ArgFn::kRepeat:
    case ArgFn::kTake:
    case ArgFn::kDrop:
    case ArgFn::kContains:
    case ArgFn::kCountLess: return 2;
    case ArgFn::kReplace: return 3;
    default: return 1;
  }
}

bool TakesTensor(ArgFn fn) {
  return fn == ArgFn::kRank || fn == ArgFn::kShape || fn == ArgFn::kDim || fn == ArgFn::kPositive ||
         fn == ArgFn::kFinite || fn == ArgFn::kWeight || fn == ArgFn::kConstant;
}

bool IsList(const AttrSpec& spec) { return spec.kind == AttrKind::kInts || spec.kind == AttrKind::kAxes; }

}  // namespace

absl::Status RuleNames::Error(const ArgExpr& expr, const std::string& message) const {
  return RuleError(rule_.file, expr.line, expr.column, absl::StrCat("rule ", rule_.name, ": ", message));
}

std::pair<int, bool> RuleNames::Declare(const RuleAttr& attr) {
  const auto [place, fresh] = attr_ids_.emplace(attr.name, attrs_.size());
  if (fresh) attrs_.push_back(attr);
  return {place->second, fresh};
}

absl::Status RuleNames::Declare(const std::vector<RuleNode>& nodes) {
  for (const RuleNode& node : nodes) {
    for (const ArgExpr& dim : node.shape.dims) FindPacks(dim);
    for (const ArgExpr& attr : node.attrs) FindPacks(attr);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const RuleNode& node = nodes[i];
    for (const ArgExpr& dim : node.shape.dims) FindSizes(dim);
    for (size_t k = 0; k < node.attrs.size(); ++k) {
      FindSizes(node.attrs[k]);
      RETURN_IF_ERROR(DeclareAttr(static_cast<int>(i), node.op->attrs[k], node.attrs[k]));
    }
  }
  return absl::OkStatus();
}

void RuleNames::FindPacks(const ArgExpr& expr) {
  if (expr.kind == ArgExpr::Kind::kSplice && expr.args[0].kind == ArgExpr::Kind::kName) {
    const std::string& name = expr.args[0].name;
    if (pack_ids_.emplace(name, packs_.size()).second) packs_.push_back(name);
  }
  for (const ArgExpr& arg : expr.args) FindPacks(arg);
}

void RuleNames::FindSizes(const ArgExpr& expr) {
  if (expr.kind == ArgExpr::Kind::kName && !pack_ids_.count(expr.name)) {
    if (size_ids_.emplace(expr.name, sizes_.size()).second) sizes_.push_back(expr.name);
  }
  const bool tensor_first = expr.kind == ArgExpr::Kind::kCall && TakesTensor(expr.fn);
  for (size_t i = tensor_first ? 1 : 0; i < expr.args.size(); ++i) FindSizes(expr.args[i]);
}

// ?a as the whole attribute, or as an element of a list.
absl::Status RuleNames::DeclareAttr(int node, const AttrSpec& spec, const ArgExpr& expr) {
  if (expr.kind == ArgExpr::Kind::kAttr) return DeclareAttr(node, spec, expr, IsList(spec), /*whole=*/true);
  if (expr.kind != ArgExpr::Kind::kList || !IsList(spec)) return absl::OkStatus();
  for (const ArgExpr& item : expr.args) {
    const bool splice = item.kind == ArgExpr::Kind::kSplice;
    const ArgExpr& name = splice ? item.args[0] : item;
    if (name.kind != ArgExpr::Kind::kAttr) continue;
    RETURN_IF_ERROR(DeclareAttr(node, spec, name, splice, /*whole=*/false));
  }
  return absl::OkStatus();
}

absl::Status RuleNames::DeclareAttr(int node, const AttrSpec& spec, const ArgExpr& expr, bool list, bool whole) {
  using Class = RuleAttr::Class;
  const bool fixed = IsStructural(spec);
  RuleAttr attr;
  attr.name = expr.name;
  attr.kind = spec.kind == AttrKind::kReal    ? Class::kReal
              : spec.kind == AttrKind::kDType ? Class::kDType
              : list                          ? (fixed ? Class::kFixedList : Class::kList)
                                              : (fixed ? Class::kFixedInt : Class::kInt);
  attr.min = spec.min;
  attr.node = node;
  attr.spec_kind = spec.kind;
  if (attr.kind == Class::kList && spec.fallback && whole) {
    const size_t length = std::get<std::vector<int64_t>>(*spec.fallback).size();
    if (length > 0) attr.length = static_cast<int>(length);
  }
  const auto [id, fresh] = Declare(attr);
  if (fresh) return absl::OkStatus();
  RuleAttr& known = attrs_[id];
  known.min = std::max(known.min, attr.min);
  const bool becomes_fixed = (known.kind == Class::kInt && attr.kind == Class::kFixedInt) ||
                             (known.kind == Class::kList && attr.kind == Class::kFixedList);
  if (becomes_fixed) {
    known.kind = attr.kind;
    known.node = node;
    known.spec_kind = attr.spec_kind;
  } else if (known.kind != attr.kind && !(known.kind == Class::kFixedInt && attr.kind == Class::kInt) &&
             !(known.kind == Class::kFixedList && attr.kind == Class::kList)) {
    return Error(expr, absl::StrCat("?", expr.name, " stands for values of two kinds"));
  }
  return absl::OkStatus();
}

absl::Status RuleNames::Resolve(ArgExpr& expr) {
  if (expr.kind == ArgExpr::Kind::kName) return ResolveName(expr);
  if (expr.kind == ArgExpr::Kind::kAttr) {
    const auto found = attr_ids_.find(expr.name);
    if (found == attr_ids_.end()) {
      return Error(expr, absl::StrCat("found ?", expr.name, ", expected a name that the left side binds"));
    }
    expr.ref = ArgExpr::Ref::kAttr;
    expr.id = found->second;
    return absl::OkStatus();
  }
  size_t begin = 0;
  if (expr.kind == ArgExpr::Kind::kCall) {
    if (static_cast<int>(expr.args.size()) != ArgCount(expr.fn)) {
      return Error(expr, absl::StrCat("found ", expr.args.size(), " arguments of ", ArgFnName(expr.fn), ", expected ",
                                      ArgCount(expr.fn)));
    }
    const bool real = expr.fn == ArgFn::kPositive && expr.args[0].kind == ArgExpr::Kind::kAttr;
    if (TakesTensor(expr.fn) && !real) {
      errors_.Add(ResolveTensor(expr.args[0]));
      begin = 1;
    }
  }
  for (size_t i = begin; i < expr.args.size(); ++i) errors_.Add(Resolve(expr.args[i]));
  return absl::OkStatus();
}

absl::Status RuleNames::ResolveName(ArgExpr& expr) {
  const auto size = size_ids_.find(expr.name);
  const auto pack = pack_ids_.find(expr.name);
  if (size == size_ids_.end() && pack == pack_ids_.end()) {
    return Error(expr, absl::StrCat("found ", expr.name, ", expected a size of the left side"));
  }
  const bool is_pack = pack != pack_ids_.end();
  expr.ref = is_pack ? ArgExpr::Ref::kPack : ArgExpr::Ref::kSize;
  expr.id = is_pack ? pack->second : size->second;
  return absl::OkStatus();
}

absl::Status RuleNames::ResolveTensor(ArgExpr& expr) {
  const auto found = expr.kind == ArgExpr::Kind::kName ? tensors_.find(expr.name) : tensors_.end();
  if (found == tensors_.end()) {
    return Error(expr, absl::StrCat("found ", PrintArg(expr), ", expected a tensor"));
  }
  expr.ref = ArgExpr::Ref::kTensor;
  expr.id = found->second.node;
  return absl::OkStatus();
}

}  // namespace rewright
