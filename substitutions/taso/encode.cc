#include "substitutions/taso/encode.h"

#include "substitutions/taso/rules.pb.h"

namespace rewright::taso {
namespace {

void Add(const Operator& op, OperatorProto* proto) {
  proto->set_type(static_cast<int>(op.type));
  for (const TensorRef& input : op.inputs) {
    TensorProto* tensor = proto->add_input();
    tensor->set_operator_id(input.op < 0 ? -input.input : input.op);
    tensor->set_output(input.output);
  }
  for (const auto& [key, value] : op.parameters) {
    ParameterProto* parameter = proto->add_parameter();
    parameter->set_key(static_cast<int>(key));
    parameter->set_value(value);
  }
}

}  // namespace

std::string Encode(const std::vector<RuleGraph>& rules) {
  RuleFileProto file;
  for (const RuleGraph& rule : rules) {
    RuleProto* proto = file.add_rule();
    for (const Operator& op : rule.source) Add(op, proto->add_source());
    for (const Operator& op : rule.target) Add(op, proto->add_target());
    for (const OutputPair& pair : rule.outputs) {
      OutputProto* output = proto->add_output();
      output->set_source_operator(pair.source.op);
      output->set_source_output(pair.source.output);
      output->set_target_operator(pair.target.op);
      output->set_target_output(pair.target.output);
    }
  }
  return file.SerializeAsString();
}

}  // namespace rewright::taso
