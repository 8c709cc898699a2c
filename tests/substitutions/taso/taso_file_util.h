// TASO rule files that tests write.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/taso/operators.h"

namespace rewright {

struct TasoOperator {
  taso::OpType type;
  // (operator, output); a negative operator is an input of the rule.
  std::vector<std::pair<int, int>> inputs;
  std::map<taso::Key, int> parameters;
};

struct TasoRuleText {
  std::vector<TasoOperator> source, target;
  // (source operator, output), (target operator, output)
  std::vector<std::pair<std::pair<int, int>, std::pair<int, int>>> outputs;
};

std::string TasoFile(const std::vector<TasoRuleText>& rules);

// Parameters of a convolution.
std::map<taso::Key, int> ConvParameters(int stride, int padding, int activation);

}  // namespace rewright
