#include "core/ir/op.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/index_value.h"

namespace rewright {

// ---------------------------------------------------------------- attributes as text

namespace {

// Returns the shortest decimal text that reads back as the same double, with a point so that it reads as a real.
std::string RealString(double value) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string result = text;
  if (std::isfinite(value) && result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

}  // namespace

std::string AttrString(const Attr& attr) {
  if (const auto* integer = std::get_if<int64_t>(&attr)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&attr)) return RealString(*real);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) return ShapeString(*list);
  return DTypeName(std::get<DType>(attr));
}

std::string AttrsString(const Attrs& attrs) {
  return absl::StrJoin(attrs, ", ", [](std::string* text, const auto& attr) {
    absl::StrAppend(text, attr.first, "=", AttrString(attr.second));
  });
}

// ---------------------------------------------------------------- builder

OpBuilder::OpBuilder(const OpDef& op, const StructuralKey& key) : op_(op), key_(key) {
  for (int input = 0; input < num_inputs(); ++input) {
    std::vector<int> vars;
    for (int axis = 0; axis < rank(input); ++axis) {
      vars.push_back(static_cast<int>(meaning_.variables.size()));
      Meaning::Variable var{absl::StrCat("|", op.InputName(input), "|", axis), Meaning::VarKind::kSize};
      var.input = input;
      var.axis = axis;
      meaning_.variables.push_back(std::move(var));
    }
    size_vars_.push_back(std::move(vars));
  }
  for (const AttrSpec& spec : op.attrs) {
    if (spec.kind == AttrKind::kReal) {
      params_[spec.name] = static_cast<int>(meaning_.params.size());
      meaning_.params.push_back(spec.name);
      continue;
    }
    const bool symbolic = !spec.structural && (spec.kind == AttrKind::kInt || spec.kind == AttrKind::kInts);
    if (!symbolic) continue;
    const bool list = spec.kind == AttrKind::kInts;
    const int count = list ? key.lengths.at(spec.name) : 1;
    for (int i = 0; i < count; ++i) {
      attr_vars_[spec.name].push_back(static_cast<int>(meaning_.variables.size()));
      Meaning::Variable var{list ? absl::StrCat(spec.name, i) : spec.name, Meaning::VarKind::kAttr};
      var.attr = spec.name;
      var.axis = i;
      var.min = spec.min;
      meaning_.variables.push_back(std::move(var));
    }
  }
}

Index OpBuilder::NewVar(const std::string& name, Meaning::VarKind kind) {
  const int id = static_cast<int>(meaning_.variables.size());
  meaning_.variables.push_back(Meaning::Variable{name, kind});
  return Variable(id, name);
}

namespace {

Index VarRef(const Meaning& meaning, int id) { return Variable(id, meaning.variables[id].name); }

}  // namespace

int64_t OpBuilder::Int(const std::string& attr) const {
  auto it = key_.attrs.find(attr);
  CHECK(it != key_.attrs.end()) << op_.name << ": " << attr << " is not structural";
  return std::get<int64_t>(it->second);
}

std::vector<int64_t> OpBuilder::Ints(const std::string& attr) const {
  auto it = key_.attrs.find(attr);
  CHECK(it != key_.attrs.end()) << op_.name << ": " << attr << " is not structural";
  return std::get<std::vector<int64_t>>(it->second);
}

DType OpBuilder::Type(const std::string& attr) const { return std::get<DType>(key_.attrs.at(attr)); }

int OpBuilder::Length(const std::string& attr) const {
  auto it = key_.lengths.find(attr);
  return it != key_.lengths.end() ? it->second : static_cast<int>(Ints(attr).size());
}

Index OpBuilder::size(int input, int axis) const {
  CHECK(input < num_inputs() && axis >= 0 && axis < rank(input)) << op_.name << ": no axis " << axis;
  if (op_.broadcasts && is_unit(input, axis)) return Index(1);
  return VarRef(meaning_, size_vars_[input][axis]);
}

std::vector<Index> OpBuilder::sizes(int input) const {
  std::vector<Index> result;
  for (int axis = 0; axis < rank(input); ++axis) result.push_back(size(input, axis));
  return result;
}

Index OpBuilder::Sym(const std::string& attr, int element) const {
  return VarRef(meaning_, attr_vars_.at(attr).at(element));
}

Scalar OpBuilder::Real(const std::string& attr, DType dtype) const { return Parameter(params_.at(attr), attr, dtype); }

Scalar OpBuilder::Read(int input, std::vector<Index> at) const {
  CHECK(static_cast<int>(at.size()) == rank(input))
      << op_.name << ": read of input " << input << " at " << at.size() << " indices, its rank is " << rank(input);
  return ReadOperand(input, at, dtype(input));
}

Scalar OpBuilder::Reduce(ReduceKind kind, const Ranges& ranges, const Body& body, const Guard& guard) {
  std::vector<Index> vars;
  std::vector<BoundVar> bound;
  for (const auto& [name, extent] : ranges) {
    vars.push_back(NewVar(name, Meaning::VarKind::kBound));
    bound.push_back(BoundVar{vars.back().node()->variable(), name, extent.node()});
  }
  const Cond condition = guard ? guard(vars) : Cond(true);
  return ReduceOver(kind, std::move(bound), condition, body(vars));
}

Scalar OpBuilder::Shift(const Scalar& value) {
  meaning_.shifts.push_back(value.node());
  return value;
}

void OpBuilder::Require(const Cond& condition, std::string message) {
  if (condition.node()->IsTrue()) return;
  meaning_.requirements.push_back(Requirement{condition.node(), std::move(message)});
}

void OpBuilder::Output(DType dtype, const std::vector<Index>& shape, const Body& element,
                       const std::vector<std::string>& names) {
  OutputMeaning output;
  output.dtype = dtype;
  std::vector<Index> position;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    output.shape.push_back(shape[axis].node());
    position.push_back(
        NewVar(axis < names.size() ? names[axis] : absl::StrCat("i", axis), Meaning::VarKind::kOutputIndex));
    output.index_vars.push_back(position.back().node()->variable());
  }
  const Scalar value = element(position);
  CHECK(value.dtype() == dtype) << op_.name << ": element of type " << DTypeName(value.dtype()) << " in an output of "
                                << DTypeName(dtype);
  output.element = value.node();
  meaning_.outputs.push_back(std::move(output));
}

void OpBuilder::Opaque(const std::vector<std::pair<DType, std::vector<Index>>>& outputs, Meaning::Reference reference,
                       const Index& work) {
  CHECK(meaning_.outputs.empty()) << op_.name;
  std::vector<ExprPtr> attributes;  // symbolic ones
  for (const AttrSpec& spec : op_.attrs) {
    if (const auto vars = attr_vars_.find(spec.name); vars != attr_vars_.end()) {
      for (int id : vars->second) attributes.push_back(VarRef(meaning_, id).node());
    }
    if (params_.contains(spec.name)) attributes.push_back(Real(spec.name, DType::kFloat64).node());
  }
  const std::string name = key_.attrs.empty() ? op_.name : absl::StrCat(op_.name, "{", AttrsString(key_.attrs), "}");
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto& [dtype, shape] = outputs[k];
    Output(dtype, shape, [&, dtype = dtype](const std::vector<Index>& position) {
      std::vector<ExprPtr> args;
      for (const Index& index : position) args.push_back(index.node());
      args.insert(args.end(), attributes.begin(), attributes.end());
      return OpaqueElement(name, static_cast<int>(k), std::move(args), dtype);
    });
  }
  meaning_.reference = std::move(reference);
  meaning_.work = work.node();
}

absl::Status OpBuilder::Error(const std::string& message) const { return InvalidArgument(op_.name, ": ", message); }

// ---------------------------------------------------------------- applications

const AttrSpec* OpDef::FindAttr(const std::string& attr_name) const {
  for (const AttrSpec& spec : attrs) {
    if (spec.name == attr_name) return &spec;
  }
  return nullptr;
}

std::string OpDef::InputName(int input) const {
  const int fixed = static_cast<int>(inputs.size()) - variadic;
  return input < fixed ? inputs[input] : absl::StrCat(inputs.back(), input - fixed);
}

namespace {

const char* AttrKindName(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return "an integer";
    case AttrKind::kFlag: return "0 or 1";
    case AttrKind::kAxis: return "an axis";
    case AttrKind::kAxes: return "a list of axes";
    case AttrKind::kInts: return "a list of integers";
    case AttrKind::kReal: return "a real number";
    case AttrKind::kDType: return "an element type";
  }
  return "";
}

absl::Status AttrError(const OpDef& op, const AttrSpec& spec, const std::string& message) {
  return InvalidArgument(op.name, ": attribute ", spec.name, ": ", message);
}

absl::StatusOr<int64_t> CanonicalAxis(const OpDef& op, const AttrSpec& spec, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return AttrError(op, spec, absl::StrCat("axis ", axis, " of a tensor with ", rank, " axes"));
  }
  return axis < 0 ? axis + rank : axis;
}

absl::Status CheckMinimum(const OpDef& op, const AttrSpec& spec, int64_t value) {
  if (value >= spec.min) return absl::OkStatus();
  return AttrError(op, spec, absl::StrCat("found ", value, ", expected at least ", spec.min));
}

// Checks kind and minimum of one attribute and makes it canonical.
absl::Status CanonicalizeAttr(const OpDef& op, const AttrSpec& spec, int rank, Attr& attr) {
  const bool wants_list = spec.kind == AttrKind::kInts || spec.kind == AttrKind::kAxes;
  if (spec.kind == AttrKind::kReal && std::holds_alternative<int64_t>(attr)) {
    attr = static_cast<double>(std::get<int64_t>(attr));
  }
  const bool matches = spec.kind == AttrKind::kReal    ? std::holds_alternative<double>(attr)
                       : spec.kind == AttrKind::kDType ? std::holds_alternative<DType>(attr)
                       : wants_list                    ? std::holds_alternative<std::vector<int64_t>>(attr)
                                                       : std::holds_alternative<int64_t>(attr);
  if (!matches) {
    return AttrError(op, spec, absl::StrCat("found ", AttrString(attr), ", expected ", AttrKindName(spec.kind)));
  }
  if (spec.kind == AttrKind::kAxis) {
    ASSIGN_OR_RETURN(attr, CanonicalAxis(op, spec, std::get<int64_t>(attr), rank));
  } else if (spec.kind == AttrKind::kAxes) {
    std::vector<int64_t> axes;
    for (int64_t item : std::get<std::vector<int64_t>>(attr)) {
      ASSIGN_OR_RETURN(axes.emplace_back(), CanonicalAxis(op, spec, item, rank));
    }
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return AttrError(op, spec, "an axis is repeated");
    attr = std::move(axes);
  } else if (spec.kind == AttrKind::kReal) {
    // A NaN equals nothing, itself included: equal nodes could not be recognized.
    if (std::isnan(std::get<double>(attr))) return AttrError(op, spec, "found nan, expected a number");
  } else if (spec.kind == AttrKind::kFlag) {
    const int64_t flag = std::get<int64_t>(attr);
    if (flag != 0 && flag != 1) return AttrError(op, spec, absl::StrCat("found ", flag, ", expected 0 or 1"));
  } else if (spec.kind == AttrKind::kInt) {
    return CheckMinimum(op, spec, std::get<int64_t>(attr));
  } else if (spec.kind == AttrKind::kInts) {
    for (int64_t item : std::get<std::vector<int64_t>>(attr)) RETURN_IF_ERROR(CheckMinimum(op, spec, item));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Attrs> CanonicalAttrs(const OpDef& op, const std::vector<TensorType>& inputs, Attrs attrs) {
  for (const auto& [name, attr] : attrs) {
    if (op.FindAttr(name) == nullptr) return InvalidArgument(op.name, ": no attribute ", name);
  }
  const int rank = inputs.empty() ? 0 : inputs[0].rank();
  for (const AttrSpec& spec : op.attrs) {
    auto it = attrs.find(spec.name);
    if (it == attrs.end()) {
      if (!spec.fallback) return InvalidArgument(op.name, ": attribute ", spec.name, " is missing");
      it = attrs.emplace(spec.name, *spec.fallback).first;
    }
    RETURN_IF_ERROR(CanonicalizeAttr(op, spec, rank, it->second));
  }
  return attrs;
}

StructuralKey StructuralKeyOf(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs) {
  StructuralKey key;
  const auto note_units = [&](const Shape& shape) {
    if (!op.broadcasts) return;
    uint32_t mask = 0;
    // Building the meaning rejects tensors with more axes.
    for (int axis = 0; axis < std::min(static_cast<int>(shape.size()), kMaxRank); ++axis) {
      if (shape[axis] == 1) mask |= 1u << axis;
    }
    key.units.push_back(mask);
  };
  for (const TensorType& type : inputs) {
    key.ranks.push_back(type.rank());
    key.dtypes.push_back(type.dtype);
    note_units(type.shape);
  }
  for (const AttrSpec& spec : op.attrs) {
    if (spec.is_shape) note_units(std::get<std::vector<int64_t>>(attrs.at(spec.name)));
  }
  for (const AttrSpec& spec : op.attrs) {
    const bool always = spec.kind == AttrKind::kFlag || spec.kind == AttrKind::kAxis || spec.kind == AttrKind::kAxes ||
                        spec.kind == AttrKind::kDType;
    const Attr& attr = attrs.at(spec.name);
    if (spec.structural || always) {
      key.attrs[spec.name] = attr;
    } else if (spec.kind == AttrKind::kInts) {
      key.lengths[spec.name] = static_cast<int>(std::get<std::vector<int64_t>>(attr).size());
    }
  }
  return key;
}

// Checks that the axes in a key are canonical. A key that is not made from an application may have wrong ones: a
// derived operator takes axes from its caller, of an input that it need not have.
static absl::Status CheckAxes(const OpDef& op, const StructuralKey& key) {
  for (const AttrSpec& spec : op.attrs) {
    if (spec.kind != AttrKind::kAxis && spec.kind != AttrKind::kAxes) continue;
    const Attr& given = key.attrs.at(spec.name);
    Attr canonical = given;
    RETURN_IF_ERROR(CanonicalizeAttr(op, spec, key.ranks.empty() ? 0 : key.ranks[0], canonical));
    if (canonical != given) {
      return AttrError(op, spec, absl::StrCat("found ", AttrString(given), ", expected ", AttrString(canonical)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Meaning>> MeaningCache::Get(const OpDef& op, const StructuralKey& key) {
  if (const auto found = cache_.find({&op, key}); found != cache_.end()) return found->second;
  const int count = static_cast<int>(key.ranks.size());
  const int declared = static_cast<int>(op.inputs.size());
  if (op.variadic ? count < declared : count != declared) {
    return InvalidArgument(op.name, ": ", count, " inputs, expected ", declared, op.variadic ? " or more" : "");
  }
  for (int rank : key.ranks) {
    if (rank > kMaxRank) {
      return InvalidArgument(op.name, ": a tensor with ", rank, " axes; at most ", kMaxRank);
    }
  }
  RETURN_IF_ERROR(CheckAxes(op, key));
  OpBuilder builder(op, key);
  RETURN_IF_ERROR(op.meaning(builder));
  return cache_[{&op, key}] = std::make_shared<const Meaning>(builder.Take());
}

Bindings BindingsOf(const Meaning& meaning, const std::vector<TensorType>& inputs, const Attrs& attrs) {
  Bindings bindings;
  bindings.variables.resize(meaning.variables.size());
  auto attr = attrs.end();  // that of the variable before: a list has many
  for (size_t i = 0; i < meaning.variables.size(); ++i) {
    const Meaning::Variable& var = meaning.variables[i];
    if (var.kind == Meaning::VarKind::kSize) {
      bindings.variables[i] = inputs[var.input].shape[var.axis];
    } else if (var.kind == Meaning::VarKind::kAttr) {
      if (attr == attrs.end() || attr->first != var.attr) attr = attrs.find(var.attr);
      CHECK(attr != attrs.end()) << var.attr;
      const auto* integer = std::get_if<int64_t>(&attr->second);
      bindings.variables[i] = integer ? *integer : std::get<std::vector<int64_t>>(attr->second)[var.axis];
    }
  }
  for (const std::string& name : meaning.params) bindings.params.push_back(std::get<double>(attrs.at(name)));
  return bindings;
}

namespace {

// Returns text such as "conv2d: shapes [1,3,8,8] and [4,3,3,3]".
std::string ShapesText(const OpDef& op, const std::vector<TensorType>& inputs) {
  return absl::StrCat(op.name, ": shape", inputs.size() > 1 ? "s " : " ",
                      absl::StrJoin(inputs, " and ", [](std::string* text, const TensorType& input) {
                        absl::StrAppend(text, ShapeString(input.shape));
                      }));
}

// Returns the condition with its numbers, "4 = 5", if it is a comparison.
std::string ComparedValues(const ExprPtr& condition, const std::vector<int64_t>& variables) {
  const char* sign = condition->kind() == ExprKind::kEqual       ? " = "
                     : condition->kind() == ExprKind::kLess      ? " < "
                     : condition->kind() == ExprKind::kLessEqual ? " <= "
                                                                 : nullptr;
  if (sign == nullptr) return PrintExpr(condition, {});
  const auto a = EvalIndex(condition->arg(0), variables), b = EvalIndex(condition->arg(1), variables);
  return a && b ? absl::StrCat(*a, sign, *b) : "a number that does not fit 64 bits or a divisor that is not positive";
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferTypes(const OpDef& op, const Meaning& meaning,
                                                   const std::vector<TensorType>& inputs, const Attrs& attrs) {
  const Bindings bindings = BindingsOf(meaning, inputs, attrs);
  // A requirement that is false says more than one without a value, for instance one with a division by a size that may
  // be 0.
  const Requirement* broken = nullptr;
  for (const Requirement& requirement : meaning.requirements) {
    const std::optional<bool> holds = EvalCond(requirement.condition, bindings.variables);
    if (holds.value_or(false)) continue;
    if (broken == nullptr || holds) broken = &requirement;
    if (holds) break;
  }
  if (broken != nullptr) {
    return InvalidArgument(ShapesText(op, inputs), ": ", broken->message, " (found ",
                           ComparedValues(broken->condition, bindings.variables), ")");
  }
  std::vector<TensorType> types;
  for (const OutputMeaning& output : meaning.outputs) {
    TensorType type{output.dtype, {}};
    for (const ExprPtr& size : output.shape) {
      const std::optional<int64_t> value = EvalIndex(size, bindings.variables);
      if (!value || *value < 0) {
        return InvalidArgument(ShapesText(op, inputs), ": the output would have size ",
                               value ? absl::StrCat(*value) : PrintExpr(size, {}));
      }
      type.shape.push_back(*value);
    }
    if (!CheckedElements(type.shape).ok()) return InvalidArgument(ShapesText(op, inputs), ": the output is too large");
    types.push_back(std::move(type));
  }
  return types;
}

absl::StatusOr<Application> Apply(const OpDef& op, const std::vector<TensorType>& inputs, Attrs attrs,
                                  MeaningCache& cache) {
  Application result;
  ASSIGN_OR_RETURN(result.attrs, CanonicalAttrs(op, inputs, std::move(attrs)));
  ASSIGN_OR_RETURN(result.meaning, cache.Get(op, StructuralKeyOf(op, inputs, result.attrs)));
  ASSIGN_OR_RETURN(result.outputs, InferTypes(op, *result.meaning, inputs, result.attrs));
  return result;
}

// ---------------------------------------------------------------- documentation

namespace {

// A formula is easiest to read for matrices.
constexpr int kTypicalRank = 2;

bool IsCopy(const OutputMeaning& output) {
  const ExprNode& element = *output.element;
  return element.kind() == ExprKind::kRead &&
         std::equal(element.args().begin(), element.args().end(), output.index_vars.begin(), output.index_vars.end(),
                    [](const ExprPtr& index, int variable) { return index->IsVariable(variable); });
}

// Ranks samples for documentation; those whose formula shows little come last: exact copies of an operand; axes of size
// one, which print as reads at index 0; operands that are no matrices; a variadic operator with a number of operands
// other than two; results that are no matrices.
std::array<int64_t, 5> SampleRank(const OpDef& op, const OpSample& sample, const Meaning& meaning) {
  int64_t units = 0, distance = 0;
  for (const TensorType& type : sample.inputs) {
    units += std::count(type.shape.begin(), type.shape.end(), 1);
    distance += std::abs(type.rank() - kTypicalRank);
  }
  const int64_t operands = static_cast<int64_t>(sample.inputs.size());
  const bool copies = std::all_of(meaning.outputs.begin(), meaning.outputs.end(), IsCopy);
  int64_t results = 0;
  for (const OutputMeaning& output : meaning.outputs) {
    results += std::abs(static_cast<int64_t>(output.shape.size()) - kTypicalRank);
  }
  return {copies, units, op.variadic ? std::abs(operands - 2) : 0, distance, results};
}

// Returns the first sample of the least rank.
OpSample TypicalSample(const OpDef& op) {
  constexpr uint64_t kSamples = 200;
  OpSample best;
  std::array<int64_t, 5> least;
  MeaningCache cache;
  for (uint64_t seed = 0; seed < kSamples; ++seed) {
    Rng rng(seed);
    OpSample sample = op.sample(rng);
    auto application = Apply(op, sample.inputs, sample.attrs, cache);
    CHECK(application.ok()) << application.status().ToString();
    const std::array<int64_t, 5> rank = SampleRank(op, sample, *application->meaning);
    if (seed > 0 && rank >= least) continue;
    least = rank;
    best = std::move(sample);
  }
  return best;
}

}  // namespace

std::string DescribeOp(const OpDef& op) {
  std::string text = absl::StrCat(op.name, "(", absl::StrJoin(op.inputs, ", "), op.variadic ? "..." : "");
  text += ")\n    " + op.summary + "\n";
  if (!op.attrs.empty()) text += "\nattributes\n";
  for (const AttrSpec& spec : op.attrs) {
    text += "    " + spec.name + ": " + AttrKindName(spec.kind);
    if (spec.min != INT64_MIN) text += absl::StrCat(", at least ", spec.min);
    if (spec.fallback) text += ", default " + AttrString(*spec.fallback);
    text += "  " + spec.doc + "\n";
  }
  const OpSample sample = TypicalSample(op);
  MeaningCache cache;
  auto application = Apply(op, sample.inputs, sample.attrs, cache);
  CHECK(application.ok()) << application.status().ToString();
  const Meaning& meaning = *application->meaning;
  std::vector<std::string> names;
  for (size_t i = 0; i < sample.inputs.size(); ++i) names.push_back(op.InputName(static_cast<int>(i)));
  text += "\nmeaning, for inputs of ranks";
  for (const TensorType& type : sample.inputs) text += absl::StrCat(" ", type.rank());
  text += " (|x|0 is the size of axis 0 of x)\n";
  for (size_t i = 0; i < meaning.outputs.size(); ++i) {
    const OutputMeaning& output = meaning.outputs[i];
    text += meaning.outputs.size() > 1 ? absl::StrCat("    out", i, "[") : "    out[";
    std::string shape;
    for (size_t axis = 0; axis < output.shape.size(); ++axis) {
      text += (axis > 0 ? ", " : "") + meaning.variables[output.index_vars[axis]].name;
      shape += (axis > 0 ? ", " : "") + PrintExpr(output.shape[axis], names);
    }
    text += "] = " + PrintExpr(output.element, names) + "\n    of shape [" + shape + "]\n";
  }
  if (meaning.IsOpaque()) text += "    by a reference function of whole operands\n";
  for (const Requirement& requirement : meaning.requirements) {
    text += "    where " + PrintExpr(requirement.condition, names) + ": " + requirement.message + "\n";
  }
  return text;
}

}  // namespace rewright
