#include "verifier/prove/merged_axes.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/ir/rewrite.h"

namespace rewright::verifier {
namespace {

void CollectVars(const ExprPtr& e, std::set<int>* out) {
  Visit(e, [out](const ExprPtr& node) {
    if (node->IsVariable()) out->insert(node->variable());
  });
}

class AxisMerger {
 public:
  explicit AxisMerger(const RuleInstance& instance) : instance_(instance) {
    for (const SymbolicNode& n : instance.nodes) {
      merged_.emplace_back();
      for (const auto& shape : n.shapes) merged_.back().emplace_back(shape.empty() ? 0 : shape.size() - 1, true);
    }
    do {
      changed_ = false;
      for (size_t n = 0; n < instance.nodes.size(); ++n) {
        if (instance.nodes[n].meaning == nullptr) {
          CheckLeaf(n);
        } else {
          CheckElements(n);
          CheckSizes(n);
        }
      }
      CheckOutputs();
      CheckSymbols();
    } while (changed_);
  }

  void Forbid() {
    for (auto& node : merged_) {
      for (auto& output : node) std::fill(output.begin(), output.end(), false);
    }
  }

  size_t LongestRun() const {
    size_t longest = 0;
    for (const auto& node : merged_) {
      for (const auto& output : node) {
        size_t run = 0;
        for (bool pair : output) longest = std::max(longest, run = pair ? run + 1 : 0);
      }
    }
    return longest;
  }

  // The axis number `keep` of each run (or its last) stands for the run.
  std::string Text(size_t keep);

 private:
  using Value = SymbolicValue;
  const SymbolicNode& Node(size_t n) const { return instance_.nodes[n]; }
  Value Operand(size_t n, int64_t input) const { return Node(n).inputs[input]; }
  size_t Rank(Value v) const { return Node(static_cast<size_t>(v.node)).shapes[v.output].size(); }
  // True if axes k and k + 1 are merged.
  bool Merged(Value v, size_t k) const {
    const auto& pairs = merged_[v.node][v.output];
    return k < pairs.size() && pairs[k];
  }
  void Part(Value v, size_t k) {
    if (!Merged(v, k)) return;
    merged_[v.node][v.output][k] = false;
    changed_ = true;
  }
  void PartAround(Value v, size_t k) {
    Part(v, k);
    if (k > 0) Part(v, k - 1);
  }

  // The output and axis whose position a variable of the meaning is; false for other variables.
  bool PositionOf(size_t n, const ExprPtr& e, int* output, size_t* axis) const {
    if (!e->IsVariable()) return false;
    const auto& outputs = Node(n).meaning->outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      const auto& vars = outputs[o].index_vars;
      const auto it = std::find(vars.begin(), vars.end(), e->variable());
      if (it == vars.end()) continue;
      *output = static_cast<int>(o);
      *axis = static_cast<size_t>(it - vars.begin());
      return true;
    }
    return false;
  }

  void CheckElements(size_t n) {
    for (const OutputMeaning& output : Node(n).meaning->outputs) VisitElement(n, output.element);
    for (const Requirement& r : Node(n).meaning->requirements) VisitElement(n, r.condition);
  }

  void VisitElement(size_t n, const ExprPtr& e) {
    int output;
    size_t axis;
    if (e->IsRead()) {
      VisitRead(n, e);
      return;
    }
    if (e->kind() == ExprKind::kOpaque && Node(n).meaning->IsOpaque()) {  // its operands' axes may be used in any way
      for (Value operand : Node(n).inputs) {
        for (size_t k = 0; k < Rank(operand); ++k) PartAround(operand, k);
      }
    }
    // A position that is not simply read at.
    if (PositionOf(n, e, &output, &axis)) PartAround({static_cast<int>(n), output}, axis);
    for (const ExprPtr& arg : e->args()) VisitElement(n, arg);
    for (const BoundVar& b : e->bound()) VisitElement(n, b.extent);
  }

  void VisitRead(size_t n, const ExprPtr& e) {
    const Value operand = Operand(n, e->operand());
    for (size_t p = 0; p < e->args().size(); ++p) {
      int output, next_output;
      size_t axis, next_axis;
      const bool here = PositionOf(n, e->arg(p), &output, &axis);
      if (!here) VisitElement(n, e->arg(p));
      if (p + 1 < e->args().size()) {
        const bool next = PositionOf(n, e->arg(p + 1), &next_output, &next_axis);
        const bool together = here && next && output == next_output && next_axis == axis + 1;
        if (together) {
          const Value whole{static_cast<int>(n), output};
          if (!Merged(whole, axis)) Part(operand, p);
          if (!Merged(operand, p)) Part(whole, axis);
        } else if (!(e->arg(p)->IsInt(0) && e->arg(p + 1)->IsInt(0))) {
          Part(operand, p);
        }
        if (here && !together) Part({static_cast<int>(n), output}, axis);
        if (next && !together && next_axis > 0) Part({static_cast<int>(n), next_output}, next_axis - 1);
      } else if (here) {
        Part({static_cast<int>(n), output}, axis);
      }
      if (p == 0 && here && axis > 0) Part({static_cast<int>(n), output}, axis - 1);
    }
  }

  // The axis of an operand whose size a variable is.
  bool SizeOf(size_t n, const ExprPtr& e, Value* operand, size_t* axis) const {
    if (!e->IsVariable()) return false;
    const Meaning::Variable& v = Node(n).meaning->variables[e->variable()];
    if (v.kind != Meaning::VarKind::kSize) return false;
    *operand = Operand(n, v.input);
    *axis = static_cast<size_t>(v.axis);
    return true;
  }

  // A size occurs where it should not.
  void PartSizes(size_t n, const ExprPtr& e) {
    Value operand;
    size_t axis;
    if (SizeOf(n, e, &operand, &axis)) PartAround(operand, axis);
    for (const ExprPtr& arg : e->args()) PartSizes(n, arg);
    for (const BoundVar& b : e->bound()) PartSizes(n, b.extent);
  }

  void CheckSizes(size_t n) {
    const Meaning& meaning = *Node(n).meaning;
    for (const Requirement& r : meaning.requirements) {
      const ExprPtr& c = r.condition;
      if (!c->IsEquation() || !c->arg(0)->IsVariable() || !c->arg(1)->IsVariable()) PartSizes(n, c);
    }
    for (size_t o = 0; o < meaning.outputs.size(); ++o) {
      const OutputMeaning& output = meaning.outputs[o];
      const Value whole{static_cast<int>(n), static_cast<int>(o)};
      PartSizes(n, output.element);
      for (size_t k = 0; k < output.shape.size(); ++k) {
        Value here, next;
        size_t axis, next_axis;
        if (!SizeOf(n, output.shape[k], &here, &axis)) {
          PartSizes(n, output.shape[k]);
          PartAround(whole, k);
          continue;
        }
        const bool together = k + 1 < output.shape.size() && SizeOf(n, output.shape[k + 1], &next, &next_axis) &&
                              here == next && next_axis == axis + 1;
        if (!together) {
          Part(whole, k);
          Part(here, axis);
        } else {
          if (!Merged(here, axis)) Part(whole, k);
          if (!Merged(whole, k)) Part(here, axis);
        }
        // The size of the second of two merged axes follows that of the first.
        Value before;
        size_t before_axis;
        if (axis > 0 && Merged(here, axis - 1) &&
            !(k > 0 && SizeOf(n, output.shape[k - 1], &before, &before_axis) && before == here &&
              before_axis + 1 == axis)) {
          Part(here, axis - 1);
        }
      }
    }
  }

  void CheckLeaf(size_t n) {
    for (size_t o = 0; o < Node(n).shapes.size(); ++o) {
      const auto& shape = Node(n).shapes[o];
      for (size_t k = 0; k + 1 < shape.size(); ++k) {
        const bool symbols = shape[k]->IsVariable() && shape[k + 1]->IsVariable() && shape[k] != shape[k + 1];
        const bool units = shape[k]->IsInt(1) && shape[k + 1]->IsInt(1);
        if (!symbols && !units) Part({static_cast<int>(n), static_cast<int>(o)}, k);
      }
    }
  }

  // Both sides have the same axes merged.
  void CheckOutputs() {
    for (size_t o = 0; o < instance_.lhs.size() && o < instance_.rhs.size(); ++o) {
      for (size_t k = 0; k + 1 < Rank(instance_.lhs[o]); ++k) {
        if (!Merged(instance_.lhs[o], k)) Part(instance_.rhs[o], k);
        if (!Merged(instance_.rhs[o], k)) Part(instance_.lhs[o], k);
      }
    }
  }

  // Symbols of merged axes occur as sizes of merged axes alone.
  void CheckSymbols() {
    std::set<int> elsewhere;
    for (const ExprPtr& condition : instance_.conditions) CollectVars(condition, &elsewhere);
    auto in_run = [&](Value v, size_t k) { return Merged(v, k) || (k > 0 && Merged(v, k - 1)); };
    for (size_t n = 0; n < instance_.nodes.size(); ++n) {
      const SymbolicNode& node = Node(n);
      for (size_t o = 0; o < node.shapes.size(); ++o) {
        for (size_t k = 0; k < node.shapes[o].size(); ++k) {
          if (!in_run({static_cast<int>(n), static_cast<int>(o)}, k)) CollectVars(node.shapes[o][k], &elsewhere);
        }
      }
      for (size_t v = 0; v < node.indices.size(); ++v) {
        if (node.indices[v] == nullptr) continue;
        const Meaning::Variable& variable = node.meaning->variables[v];
        const bool size = variable.kind == Meaning::VarKind::kSize;
        if (!size || !in_run(Operand(n, variable.input), static_cast<size_t>(variable.axis))) {
          CollectVars(node.indices[v], &elsewhere);
        }
      }
    }
    for (size_t n = 0; n < instance_.nodes.size(); ++n) {
      for (size_t o = 0; o < Node(n).shapes.size(); ++o) {
        const auto& shape = Node(n).shapes[o];
        for (size_t k = 0; k < shape.size(); ++k) {
          const bool symbol = shape[k]->IsVariable() && !elsewhere.contains(shape[k]->variable());
          if (!symbol && !shape[k]->IsInt(1)) PartAround({static_cast<int>(n), static_cast<int>(o)}, k);
        }
      }
    }
  }

  // ---- texts
  bool Dropped(Value v, size_t k) const {
    size_t first = k, last = k;
    while (first > 0 && Merged(v, first - 1)) --first;
    while (Merged(v, last)) ++last;
    return k != std::min(first + keep_, last);
  }
  std::string Symbols(const ExprPtr& e) {
    return Print(
        e, [this](int id) { return absl::StrCat("s", symbols_.emplace(id, symbols_.size()).first->second); }, nullptr);
  }
  // In prefix form. `reads` gives the value that a read is of, so that positions of dropped axes are left out.
  template <typename Name, typename Reads>
  std::string Print(const ExprPtr& e, const Name& name, const Reads& reads) {
    std::string out;
    Append(e, name, reads, &out);
    return out;
  }
  template <typename Name, typename Reads>
  void Append(const ExprPtr& e, const Name& name, const Reads& reads, std::string* out) {
    if (e->IsVariable()) {
      out->append(name(e->variable()));
      return;
    }
    absl::StrAppend(out, e->Label(), "(");
    for (const BoundVar& b : e->bound()) {
      absl::StrAppend(out, name(b.id), "<");
      Append(b.extent, name, reads, out);
      out->push_back(';');
    }
    for (size_t i = 0; i < e->args().size(); ++i) {
      if constexpr (!std::is_same_v<Reads, std::nullptr_t>) {
        if (e->IsRead() && Dropped(reads(e->operand()), i)) continue;
      }
      Append(e->arg(i), name, reads, out);
      out->push_back(',');
    }
    out->push_back(')');
  }
  std::string NodeText(size_t n);

  const RuleInstance& instance_;
  std::vector<std::vector<std::vector<bool>>> merged_;  // [node][output][k]: axes k and k + 1 are one
  bool changed_ = false;
  size_t keep_ = 0;
  std::map<int, size_t> symbols_;  // numbered by first occurrence
};

std::string AxisMerger::NodeText(size_t n) {
  const SymbolicNode& node = Node(n);
  std::string out;
  if (node.meaning == nullptr) {
    out = absl::StrCat("leaf ", static_cast<int>(node.dtypes[0]), node.positive ? " positive" : "",
                       node.splat.has_value() ? absl::StrCat(" ", NumberString(*node.splat)) : "", " [");
    for (size_t k = 0; k < node.shapes[0].size(); ++k) {
      if (!Dropped({static_cast<int>(n), 0}, k)) absl::StrAppend(&out, Symbols(node.shapes[0][k]), ",");
    }
    return out + "]";
  }
  const Meaning& meaning = *node.meaning;
  out = node.op->name + "(";
  for (const SymbolicValue& input : node.inputs) absl::StrAppend(&out, input.node, ".", input.output, ",");
  std::vector<int> order;
  auto name = [&](int id) {
    const auto it = std::find(order.begin(), order.end(), id);
    const size_t number = it - order.begin();
    if (it == order.end()) order.push_back(id);
    return absl::StrCat("v", number);
  };
  auto reads = [&](int64_t input) { return Operand(n, input); };
  for (size_t o = 0; o < meaning.outputs.size(); ++o) {
    const OutputMeaning& output = meaning.outputs[o];
    absl::StrAppend(&out, ") ", static_cast<int>(output.dtype), "[");
    for (size_t k = 0; k < output.shape.size(); ++k) {
      if (Dropped({static_cast<int>(n), static_cast<int>(o)}, k)) continue;
      absl::StrAppend(&out, name(output.index_vars[k]), "<", Print(output.shape[k], name, reads), ",");
    }
    absl::StrAppend(&out, "] ", Print(output.element, name, reads));
  }
  std::set<int> dropped;
  for (size_t v = 0; v < meaning.variables.size(); ++v) {
    const Meaning::Variable& variable = meaning.variables[v];
    if (variable.kind == Meaning::VarKind::kSize &&
        Dropped(Operand(n, variable.input), static_cast<size_t>(variable.axis))) {
      dropped.insert(static_cast<int>(v));
    }
  }
  for (const Requirement& r : meaning.requirements) {
    std::set<int> vars;
    CollectVars(r.condition, &vars);
    if (std::any_of(vars.begin(), vars.end(), [&](int v) { return dropped.contains(v); })) continue;
    absl::StrAppend(&out, " requires ", Print(r.condition, name, reads));
  }
  for (size_t v = 0; v < meaning.variables.size(); ++v) {
    if (meaning.variables[v].kind == Meaning::VarKind::kAttr) name(static_cast<int>(v));
  }
  for (const int v : std::vector<int>(order)) {
    const Meaning::Variable& variable = meaning.variables[v];
    if (static_cast<size_t>(v) >= node.indices.size() || node.indices[v] == nullptr) continue;
    absl::StrAppend(&out, " ", name(v), "=", Symbols(node.indices[v]), ">=", variable.min);
  }
  for (const ExprPtr& param : node.params) absl::StrAppend(&out, " ", Symbols(param));
  return out;
}

std::string AxisMerger::Text(size_t keep) {
  keep_ = keep;
  symbols_.clear();
  std::string out;
  for (size_t n = 0; n < instance_.nodes.size(); ++n) absl::StrAppend(&out, n, " ", NodeText(n), "\n");
  for (const auto* side : {&instance_.lhs, &instance_.rhs}) {
    for (const SymbolicValue& v : *side) absl::StrAppend(&out, v.node, ".", v.output, " ");
    out += "=\n";
  }
  for (const ExprPtr& condition : instance_.conditions) absl::StrAppend(&out, "when ", Symbols(condition), "\n");
  absl::StrAppend(&out, "left ", instance_.num_lhs_nodes);
  std::vector<int> order(symbols_.size());
  for (const auto& [id, number] : symbols_) order[number] = id;
  for (int id : order) absl::StrAppend(&out, " ", instance_.symbols[id].min);
  for (const RealSymbol& real : instance_.reals)
    absl::StrAppend(&out, real.positive ? " +" : " ?", DTypeName(real.dtype));
  return out;
}

}  // namespace

std::string MergedAxesKey(const RuleInstance& instance) {
  AxisMerger merger(instance);
  const std::string text = merger.Text(0);
  for (size_t keep = 1; keep <= merger.LongestRun(); ++keep) {
    if (merger.Text(keep) == text) continue;
    merger.Forbid();
    return merger.Text(0);
  }
  return text;
}

}  // namespace rewright::verifier
