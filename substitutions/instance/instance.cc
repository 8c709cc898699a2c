#include "substitutions/instance/instance.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// out[i..] = value. No operator of graphs, where such a tensor is a constant.
const OpDef& FillOp() {
  static const OpDef* const op = [] {
    auto* fill = new OpDef;
    fill->name = "fill";
    fill->summary = "A tensor whose elements are all equal.";
    fill->attrs = {AttrSpec{"shape", AttrKind::kInts, false, std::nullopt, "the shape of the result", 1},
                   AttrSpec{"dtype", AttrKind::kDType, true, std::nullopt, "the type of the elements"},
                   AttrSpec{"value", AttrKind::kReal, false, std::nullopt, "the value of the elements"}};
    fill->meaning = [](OpBuilder& b) {
      std::vector<Index> shape;
      for (int k = 0; k < b.Length("shape"); ++k) shape.push_back(b.Sym("shape", k));
      const DType dtype = b.Type("dtype");
      b.Output(dtype, shape, [&](const std::vector<Index>&) { return b.Real("value", dtype); });
      return absl::OkStatus();
    };
    return fill;
  }();
  return *op;
}

}  // namespace

bool IsStructural(const AttrSpec& spec) {
  return spec.structural || spec.kind == AttrKind::kFlag || spec.kind == AttrKind::kAxis ||
         spec.kind == AttrKind::kAxes || spec.kind == AttrKind::kDType;
}

bool IsFill(const SymbolicNode& node) { return node.op == &FillOp(); }

absl::Status BindMeaning(const std::vector<SymbolicNode>& nodes, const StructuralKey& key,
                         const std::vector<std::vector<ExprPtr>>& attr_values, MeaningCache& meanings,
                         SymbolicNode* node) {
  const OpDef& op = *node->op;
  auto meaning = meanings.Get(op, key);
  if (!meaning.ok()) return meaning.status();
  node->meaning = *meaning;
  const auto attr_index = [&](const std::string& name) {
    return static_cast<size_t>(op.FindAttr(name) - op.attrs.data());
  };
  for (const Meaning::Variable& variable : node->meaning->variables) {
    ExprPtr& index = node->indices.emplace_back();
    if (variable.kind == Meaning::VarKind::kSize) {
      const SymbolicValue& input = node->inputs[variable.input];
      index = nodes[input.node].shapes[input.output][variable.axis];
    } else if (variable.kind == Meaning::VarKind::kAttr) {
      index = attr_values[attr_index(variable.attr)][variable.axis];
    }
  }
  for (const std::string& name : node->meaning->params) node->params.push_back(attr_values[attr_index(name)][0]);
  for (const Requirement& requirement : node->meaning->requirements) {
    if (Substitute(requirement.condition, node->indices, node->params)->IsFalse()) {
      return absl::InvalidArgumentError(absl::StrCat(op.name, ": ", requirement.message));
    }
  }
  for (const OutputMeaning& output : node->meaning->outputs) {
    node->dtypes.push_back(output.dtype);
    std::vector<ExprPtr>& shape = node->shapes.emplace_back();
    for (const ExprPtr& size : output.shape) shape.push_back(Substitute(size, node->indices, node->params));
  }
  return absl::OkStatus();
}

absl::Status SetNumber(const Number& number, bool floating, SymbolicNode* leaf) {
  const DType type = leaf->dtypes[0];
  if (!HasNumber(type, number)) {
    return absl::InvalidArgumentError(absl::StrCat(DTypeName(type), " has no number ", NumberString(number)));
  }
  leaf->splat = IsFloating(type) ? Number(RoundedTo(floating ? DType::kFloat64 : type, number)) : number;
  return absl::OkStatus();
}

absl::Status SetFill(const ExprPtr& value, MeaningCache& meanings, SymbolicNode* leaf) {
  const std::vector<std::vector<ExprPtr>> values = {leaf->shapes[0], {}, {value}};
  StructuralKey key;
  key.attrs["dtype"] = leaf->dtypes[0];
  key.lengths["shape"] = static_cast<int>(values[0].size());
  leaf->op = &FillOp();
  leaf->dtypes.clear();
  leaf->shapes.clear();
  return BindMeaning({}, key, values, meanings, leaf);
}

absl::StatusOr<Attr> StructuralAttr(const AttrSpec& spec, const std::vector<Index>& integers, int rank) {
  const auto wrong = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(spec.name, ": ", why));
  };
  const bool axes = spec.kind == AttrKind::kAxis || spec.kind == AttrKind::kAxes;
  std::vector<int64_t> elements;
  for (const Index& element : integers) {
    int64_t integer;
    if (!element.IsInt(&integer)) return wrong("depends on a size or symbolic attribute, expected a fixed value");
    if (axes && (integer < -rank || integer >= rank)) return wrong(absl::StrCat("axis ", integer, " of ", rank));
    if (axes && integer < 0) integer += rank;
    if (spec.kind == AttrKind::kFlag && integer != 0 && integer != 1) return wrong("expected 0 or 1");
    if (!axes && integer < spec.min) return wrong("is below its minimum");
    elements.push_back(integer);
  }
  if (spec.kind == AttrKind::kAxes) {
    std::sort(elements.begin(), elements.end());
    if (std::adjacent_find(elements.begin(), elements.end()) != elements.end()) return wrong("an axis is repeated");
  }
  const bool list = spec.kind == AttrKind::kInts || spec.kind == AttrKind::kAxes;
  return list ? Attr(elements) : Attr(elements.at(0));
}

}  // namespace rewright
