#include "tests/substitutions/taso/taso_file_util.h"

#include "substitutions/taso/encode.h"

namespace rewright {
namespace {

taso::TensorRef RefOf(const std::pair<int, int>& tensor) {
  const auto [op, output] = tensor;
  return op < 0 ? taso::TensorRef{-1, output, -op} : taso::TensorRef{op, output};
}

taso::Side SideOf(const std::vector<TasoOperator>& ops) {
  taso::Side side;
  for (const TasoOperator& op : ops) {
    side.push_back({op.type, {}, op.parameters});
    for (const auto& input : op.inputs) side.back().inputs.push_back(RefOf(input));
  }
  return side;
}

}  // namespace

std::string TasoFile(const std::vector<TasoRuleText>& rules) {
  std::vector<taso::RuleGraph> graphs;
  for (const TasoRuleText& rule : rules) {
    graphs.push_back({SideOf(rule.source), SideOf(rule.target), {}});
    for (const auto& [source, target] : rule.outputs) {
      graphs.back().outputs.push_back({{source.first, source.second}, {target.first, target.second}});
    }
  }
  return taso::Encode(graphs);
}

std::map<taso::Key, int> ConvParameters(int stride, int padding, int activation) {
  using taso::Key;
  return {{Key::kStrideHeight, stride},
          {Key::kStrideWidth, stride},
          {Key::kPadding, padding},
          {Key::kActivation, activation}};
}

}  // namespace rewright
