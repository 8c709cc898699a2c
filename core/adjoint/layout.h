// Internals of derived operators, for the sources of core/adjoint: the correspondence of their operands and attributes
// with those of the base operator.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/made_op.h"
#include "core/ir/op.h"

namespace rewright {

enum class DerivedKind : uint8_t { kGradient, kScattered, kTangent };
// The correspondence of a derived operator's operands and attributes with those of its base.
struct DerivedLayout {
  const OpDef* base = nullptr;
  DerivedKind kind = DerivedKind::kGradient;
  int input = -1;  // of a gradient

  int num_fixed = 0;             // inputs of the base, without the variadic one
  std::vector<int> kept;         // fixed inputs that are operands
  bool keeps_group = false;      // so are those of the variadic one
  std::set<int> typed;           // fixed inputs whose element type is an attribute; num_fixed is the variadic one
  bool directions_vary = false;  // there are as many as outputs, or members of the group
  std::vector<int> directions;   // else: the outputs, or fixed inputs
  std::shared_ptr<SharedMeanings> meanings = std::make_shared<SharedMeanings>();

  bool Keeps(int fixed) const { return std::find(kept.begin(), kept.end(), fixed) != kept.end(); }
  const std::string& NameOf(int fixed) const { return base->inputs[std::min<size_t>(fixed, base->inputs.size() - 1)]; }
  std::string Shape(int fixed) const { return NameOf(fixed) + "_shape"; }
  std::string Ranks() const { return base->inputs.back() + "_ranks"; }
  std::string Type(int fixed) const { return NameOf(fixed) + "_dtype"; }
  // True if a fixed input has a tangent, which then gives its shape.
  bool HasTangent(int fixed) const {
    return kind == DerivedKind::kTangent && std::find(directions.begin(), directions.end(), fixed) != directions.end();
  }
  bool GroupHasTangents() const { return kind == DerivedKind::kTangent && directions_vary; }
  bool GroupIsAbsent() const { return base->variadic && !keeps_group && !GroupHasTangents(); }
};

// Returns the layout of a derivative of the operator, from its samples. Errors are those of GradientOp and TangentOp.
absl::StatusOr<DerivedLayout> LayoutOf(const OpDef& base, DerivedKind kind, int input);
// Return the names of the derived operator's operands, and its attributes.
std::vector<std::string> OperandNames(const DerivedLayout& layout, bool* variadic);
std::vector<AttrSpec> AttrSpecsOf(const DerivedLayout& layout);
// Returns the outputs of floating types.
std::vector<int> FloatingOutputs(const Application& application);

// The application of the base that an application of the derived operator belongs to.
struct OriginalApplication {
  StructuralKey key;
  int num_inputs = 0;
  int first_direction = 0;  // operand
  int num_directions = 0;
  std::vector<int> operands;       // by original input; -1: it is none
  std::vector<int> group_offsets;  // in the list of the absent group's shapes, by member
};
OriginalApplication OriginalOf(const DerivedLayout& layout, const StructuralKey& key);

}  // namespace rewright
