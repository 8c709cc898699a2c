#include "runtime/training/stored_forms.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "runtime/comm/collectives.h"
#include "runtime/training/optimizer.h"
#include "runtime/training/step.h"
#include "runtime/training/term.h"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> SliceOf(Arena& arena, Value whole, int64_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> stops = arena.type(whole).shape, starts(stops.size(), 0);
  starts[axis] = begin;
  stops[axis] = end;
  return arena.Apply("slice", {whole}, {{"starts", std::move(starts)}, {"stops", std::move(stops)}});
}

absl::StatusOr<Tensor> JoinTensors(const std::string& name, const std::vector<const Tensor*>& parts, int64_t axis) {
  TensorType type = parts[0]->type();
  const auto at = static_cast<size_t>(axis);
  type.shape[at] = 0;
  for (const Tensor* part : parts) {
    TensorType same = part->type();
    if (same.rank() == type.rank()) same.shape[at] = type.shape[at];
    if (same != type) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": found a part ", part->type().ToString(), ", expected ",
                                                     parts[0]->type().ToString(), " but for axis ", axis));
    }
    type.shape[at] += part->type().shape[at];
  }
  // States may be declared without values.
  if (std::any_of(parts.begin(), parts.end(), [](const Tensor* part) { return part->data() == nullptr; })) {
    return Tensor(type);
  }
  Tensor joined(type);
  int64_t begin = 0;
  for (const Tensor* part : parts) {
    const int64_t count = part->type().shape[at];
    CopyPositions(*part, static_cast<int>(axis), 0, count, &joined, begin);
    begin += count;
  }
  return joined;
}

class Rebuilder {
 public:
  Rebuilder(const Graph& step, const std::vector<std::string>& trained)
      : step_(step), arena_(*step.arena()), outputs_(step.outputs()), trained_(trained) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].updates.node >= 0) next_[arena_.node(outputs_[i].updates.node).name] = i;
      if (outputs_[i].name == kMagnitudesResult) magnitudes_ = i;
    }
    done_.assign(outputs_.size(), false);
  }

  absl::Status Join(const StoredForm& form) {
    if (form.parts.size() < 2) return absl::InvalidArgumentError("a stored form of fewer than two parts");
    for (const char* suffix : kKeptSuffixes) {
      int kept = 0;
      for (const std::string& part : form.parts) kept += static_cast<int>(next_.contains(part + suffix));
      if (kept == 0 && *suffix != 0) continue;
      if (kept != static_cast<int>(form.parts.size())) {
        return absl::InvalidArgumentError(absl::StrCat("the stored form ", form.Name(suffix), ": found ", kept, " of ",
                                                       form.parts.size(), " parts with next values"));
      }
      RETURN_IF_ERROR(JoinStates(form, suffix));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> Finish(const std::vector<StoredForm>& forms) {
    RETURN_IF_ERROR(OrderMagnitudes(forms));
    std::vector<Output> outputs;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!done_[i]) outputs.push_back(outputs_[i]);
    }
    outputs.insert(outputs.end(), joined_.begin(), joined_.end());
    ASSIGN_OR_RETURN(const Graph graph,
                     ReplaceEverywhere(Graph(step_.arena(), step_.inputs(), std::move(outputs)), replaced_));
    return CopyGraph(graph);
  }

 private:
  absl::Status JoinStates(const StoredForm& form, const std::string& suffix) {
    std::vector<const Tensor*> values;
    std::vector<Value> states, next;
    const std::string name = form.Name(suffix);
    for (const std::string& part : form.parts) {
      const size_t at = next_.at(part + suffix);
      if (done_[at]) return absl::InvalidArgumentError(absl::StrCat(part, suffix, " is a part of two stored forms"));
      done_[at] = true;
      const Value state = outputs_[at].updates;
      if (form.axis < 0 || form.axis >= arena_.type(state).rank()) {
        return absl::InvalidArgumentError(absl::StrCat("the stored form ", name, ": found axis ", form.axis,
                                                       ", expected one of ", arena_.type(state).ToString()));
      }
      states.push_back(state);
      next.push_back(outputs_[at].value);
      values.push_back(arena_.Elements(state.node));
    }
    ASSIGN_OR_RETURN(const Tensor value, JoinTensors(name, values, form.axis));
    ASSIGN_OR_RETURN(const Value joined, arena_.AddState(name, value));
    int64_t begin = 0;
    for (Value state : states) {
      const int64_t end = begin + arena_.type(state).shape[form.axis];
      ASSIGN_OR_RETURN(replaced_[state], SliceOf(arena_, joined, form.axis, begin, end));
      begin = end;
    }
    ASSIGN_OR_RETURN(const Value next_value, ConcatTree(arena_, next, form.axis));
    joined_.push_back({next_value, name, joined});
    return absl::OkStatus();
  }

  // Orders magnitudes: those of one form stand side by side, then those of no form.
  absl::Status OrderMagnitudes(const std::vector<StoredForm>& forms) {
    if (!magnitudes_) return absl::OkStatus();
    const Node& node = arena_.node(outputs_[*magnitudes_].value.node);
    if (node.op != ops::Concat() || node.operands.size() != trained_.size() + 1) return absl::OkStatus();
    std::vector<Value> operands = node.operands;
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < trained_.size(); ++i) places[trained_[i]] = i + 1;
    std::vector<bool> taken(operands.size(), false);
    std::vector<std::vector<size_t>> groups;
    for (const StoredForm& form : forms) {
      std::vector<size_t>& group = groups.emplace_back();
      for (const std::string& part : form.parts) {
        const auto found = places.find(part);
        if (found == places.end()) return absl::InvalidArgumentError(absl::StrCat(part, " is no weight of the step"));
        group.push_back(found->second);
        taken[found->second] = true;
      }
    }
    std::vector<size_t>& others = groups.emplace_back();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!taken[i]) others.push_back(i);
    }
    std::vector<size_t> order;
    std::vector<Value> all;
    for (const std::vector<size_t>& group : groups) {
      if (group.empty()) continue;
      std::vector<Value> values;
      for (size_t i : group) values.push_back(operands[i]);
      ASSIGN_OR_RETURN(all.emplace_back(), ConcatTree(arena_, values, 0));
      order.insert(order.end(), group.begin(), group.end());
    }
    ASSIGN_OR_RETURN(const Value joined, ConcatTree(arena_, all, 0));
    for (size_t at = 0; at < order.size(); ++at) {
      ASSIGN_OR_RETURN(operands[order[at]],
                       SliceOf(arena_, joined, 0, static_cast<int64_t>(at), static_cast<int64_t>(at) + 1));
    }
    ASSIGN_OR_RETURN(replaced_[outputs_[*magnitudes_].value],
                     arena_.Apply("concat", std::move(operands), {{"axis", int64_t{0}}}));
    return absl::OkStatus();
  }

  const Graph& step_;
  Arena& arena_;
  std::vector<Output> outputs_;
  const std::vector<std::string>& trained_;
  std::map<std::string, size_t> next_;  // by state: which output
  std::optional<size_t> magnitudes_;
  std::vector<bool> done_;
  std::vector<Output> joined_;
  ValueMap replaced_;  // states by the slices that are read, and the magnitudes
};

}  // namespace

std::string StoredForm::Name(const std::string& suffix) const {
  return absl::StrCat("stored.", parts.empty() ? "" : parts[0], "+", parts.size() - 1, suffix);
}

absl::StatusOr<Graph> InStoredForms(const Graph& step, const std::vector<StoredForm>& forms,
                                    const std::vector<std::string>& trained) {
  const Graph copy = CopyGraph(step);
  Rebuilder rebuilder(copy, trained);
  for (const StoredForm& form : forms) RETURN_IF_ERROR(rebuilder.Join(form));
  return rebuilder.Finish(forms);
}

absl::StatusOr<std::map<std::string, Tensor>> JoinedStates(const std::map<std::string, Tensor>& states,
                                                           const std::vector<StoredForm>& forms) {
  std::map<std::string, Tensor> joined = states;
  for (const StoredForm& form : forms) {
    for (const char* suffix : kKeptSuffixes) {
      std::vector<const Tensor*> parts;
      for (const std::string& part : form.parts) {
        if (const auto found = states.find(part + suffix); found != states.end()) parts.push_back(&found->second);
        joined.erase(part + suffix);
      }
      if (parts.empty() && *suffix != 0) continue;
      if (parts.size() != form.parts.size()) {
        return absl::InvalidArgumentError(absl::StrCat("the stored form ", form.Name(suffix), ": found ", parts.size(),
                                                       " of ", form.parts.size(), " parts"));
      }
      if (form.axis < 0 || form.axis >= parts[0]->type().rank()) {
        return absl::InvalidArgumentError(absl::StrCat("the stored form ", form.Name(suffix), ": found axis ",
                                                       form.axis, " of ", parts[0]->type().ToString()));
      }
      ASSIGN_OR_RETURN(joined[form.Name(suffix)], JoinTensors(form.Name(suffix), parts, form.axis));
    }
  }
  return joined;
}

std::map<std::string, StoredPart> PartsOf(const Graph& step, const std::vector<StoredForm>& forms) {
  std::map<std::string, TensorType> types;
  for (Value state : step.states()) types[step.node(state.node).name] = step.type(state);
  std::map<std::string, StoredPart> parts;
  for (const StoredForm& form : forms) {
    for (const char* suffix : kKeptSuffixes) {
      int64_t begin = 0;
      for (const std::string& part : form.parts) {
        const auto type = types.find(part + suffix);
        if (type == types.end()) continue;
        parts[part + suffix] = {form.Name(suffix), form.axis, begin, type->second};
        begin += type->second.shape[form.axis];
      }
    }
  }
  return parts;
}

Tensor Part(const Tensor& whole, const StoredPart& part) {
  Tensor cut(part.type);
  const auto axis = static_cast<int>(part.axis);
  CopyPositions(whole, axis, part.begin, part.type.shape[axis], &cut, 0);
  return cut;
}

Json StoredFormsJson(const std::vector<StoredForm>& forms) {
  Json json = Json::array();
  for (const StoredForm& form : forms) json.push_back({{"axis", form.axis}, {"parts", form.parts}});
  return json;
}

absl::StatusOr<std::vector<StoredForm>> ParseStoredForms(const Json& json) {
  std::vector<StoredForm> forms;
  const auto wrong = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint's stored_forms: found ", json.dump().substr(0, 80),
                                                   ", expected a list of an axis and names of weights each"));
  };
  if (json.is_null()) return forms;  // checkpoints without any
  if (!json.is_array()) return wrong();
  for (const Json& one : json) {
    if (!one.is_object()) return wrong();
    const Json axis = one.value("axis", Json()), parts = one.value("parts", Json());
    if (!axis.is_number_integer() || !parts.is_array() || parts.size() < 2) return wrong();
    StoredForm& form = forms.emplace_back();
    form.axis = axis.get<int64_t>();
    for (const Json& part : parts) {
      if (!part.is_string()) return wrong();
      form.parts.push_back(part.get<std::string>());
    }
  }
  return forms;
}

}  // namespace rewright
