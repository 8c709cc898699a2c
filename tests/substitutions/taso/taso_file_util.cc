#include "tests/substitutions/taso/taso_file_util.h"

#include "substitutions/taso/rules.pb.h"

namespace rewright {
namespace {

void Add(const TasoOperator& op, taso::OperatorProto* proto) {
  proto->set_type(static_cast<int>(op.type));
  for (const auto& [id, output] : op.inputs) {
    taso::TensorProto* input = proto->add_input();
    input->set_operator_id(id);
    input->set_output(output);
  }
  for (const auto& [key, value] : op.parameters) {
    taso::ParameterProto* parameter = proto->add_parameter();
    parameter->set_key(static_cast<int>(key));
    parameter->set_value(value);
  }
}

}  // namespace

std::string TasoFile(const std::vector<TasoRuleText>& rules) {
  taso::RuleFileProto file;
  for (const TasoRuleText& rule : rules) {
    taso::RuleProto* proto = file.add_rule();
    for (const TasoOperator& op : rule.source) Add(op, proto->add_source());
    for (const TasoOperator& op : rule.target) Add(op, proto->add_target());
    for (const auto& [source, target] : rule.outputs) {
      taso::OutputProto* output = proto->add_output();
      output->set_source_operator(source.first);
      output->set_source_output(source.second);
      output->set_target_operator(target.first);
      output->set_target_output(target.second);
    }
  }
  return file.SerializeAsString();
}

std::map<taso::Key, int> ConvParameters(int stride, int padding, int activation) {
  using taso::Key;
  return {{Key::kStrideHeight, stride},
          {Key::kStrideWidth, stride},
          {Key::kPadding, padding},
          {Key::kActivation, activation}};
}

}  // namespace rewright
