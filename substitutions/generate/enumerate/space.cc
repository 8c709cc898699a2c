#include "substitutions/generate/enumerate/space.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {

int Space::num_inputs() const {
  int count = 0;
  for (const InputGroup& group : inputs) count += group.count;
  return count;
}

namespace {

struct NamedPreset {
  const char* name;
  std::vector<Space> (*spaces)();
};

constexpr NamedPreset kPresets[] = {
    {"taso", [] { return std::vector<Space>{TasoSpace()}; }},
    {"linear", LinearSpaces},
    {"conv", ConvSpaces},
    {"reduce-softmax", ReduceSoftmaxSpaces},
    {"elementwise", ElementwiseSpaces},
    {"shape", ShapeSpaces},
};

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const NamedPreset& preset : kPresets) names.push_back(preset.name);
  names.push_back(kDefinitionsPreset);
  return names;
}

absl::StatusOr<std::vector<Space>> Preset(const std::string& name) {
  for (const NamedPreset& preset : kPresets) {
    if (name == preset.name) return preset.spaces();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("found `", name, "`, expected a preset: ", absl::StrJoin(PresetNames(), ", ")));
}

absl::Status Restrict(const std::vector<std::string>& ops, int inputs, Space* space) {
  const auto is = [](const OperatorChoice& choice, const std::string& name) {
    return choice.name == name || choice.op == name;
  };
  std::vector<OperatorChoice> chosen;
  for (const OperatorChoice& choice : space->operators) {
    if (std::any_of(ops.begin(), ops.end(), [&](const std::string& name) { return is(choice, name); })) {
      chosen.push_back(choice);
    }
  }
  for (const std::string& name : ops) {
    if (std::any_of(chosen.begin(), chosen.end(), [&](const OperatorChoice& choice) { return is(choice, name); })) {
      continue;
    }
    std::vector<std::string> known;
    for (const OperatorChoice& choice : space->operators) known.push_back(choice.name);
    return absl::InvalidArgumentError(
        absl::StrCat("found `", name, "`, expected operators of ", space->name, ": ", absl::StrJoin(known, ", ")));
  }
  if (!ops.empty()) space->operators = std::move(chosen);
  for (InputGroup& group : space->inputs) {
    if (inputs > 0) group.count = std::min(group.count, inputs);
  }
  return absl::OkStatus();
}

}  // namespace rewright::generate
