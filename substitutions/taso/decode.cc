#include "substitutions/taso/decode.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/taso/rules.pb.h"

namespace rewright::taso {
namespace {

constexpr size_t kMaxBytes = 64u << 20;
constexpr int kMaxRules = 100000;
constexpr int kMaxOperators = 16;   // of one side
constexpr int kMaxParameters = 32;  // of one operator
constexpr int kMaxOutputs = 16;
constexpr int kMaxInputNumber = 1000000;

class RuleReader {
 public:
  explicit RuleReader(std::string where) : where_(std::move(where)) {}

  absl::StatusOr<RuleGraph> Read(const RuleProto& proto) {
    RuleGraph rule;
    RETURN_IF_ERROR(ReadSide(proto.source(), "source", &rule.source));
    for (const Operator& op : rule.source) {
      for (const TensorRef& input : op.inputs) {
        if (input.op < 0) known_inputs_.insert(input.input);
      }
    }
    is_target_ = true;
    RETURN_IF_ERROR(ReadSide(proto.target(), "target", &rule.target));
    if (proto.output_size() < 1 || proto.output_size() > kMaxOutputs) {
      return Error(absl::StrCat(proto.output_size(), " outputs, expected 1 to ", kMaxOutputs));
    }
    std::set<std::pair<int, int>> seen;
    for (int k = 0; k < proto.output_size(); ++k) {
      const OutputProto& output = proto.output(k);
      const std::string name = absl::StrCat("output ", k);
      OutputPair pair;
      RETURN_IF_ERROR(ReadOutput(name, "source", rule.source, output.source_operator(), output.source_output(),
                                 output.has_source_operator(), &pair.source));
      RETURN_IF_ERROR(ReadOutput(name, "target", rule.target, output.target_operator(), output.target_output(),
                                 output.has_target_operator(), &pair.target));
      if (!seen.insert({pair.source.op, pair.source.output}).second) {
        return Error(absl::StrCat(name, ": an earlier output is the same tensor of the source"));
      }
      rule.outputs.push_back(pair);
    }
    return rule;
  }

 private:
  absl::Status Error(const std::string& message) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": ", message));
  }

  template <typename Operators>
  absl::Status ReadSide(const Operators& operators, const char* name, Side* side) {
    if (operators.size() < 1 || operators.size() > kMaxOperators) {
      return Error(absl::StrCat(operators.size(), " ", name, " operators, expected 1 to ", kMaxOperators));
    }
    for (int k = 0; k < operators.size(); ++k) {
      const OperatorProto& proto = operators.Get(k);
      const OpInfo* info = proto.has_type() ? FindOperator(proto.type()) : nullptr;
      const std::string where = absl::StrCat(name, " operator ", k);
      if (!proto.has_type()) return Error(absl::StrCat(where, ": it has no type"));
      if (info == nullptr) return Error(absl::StrCat(where, ": there is no operator type ", proto.type()));
      RETURN_IF_ERROR(ReadOperator(proto, *info, absl::StrCat(where, " (", info->name, ")"), side));
    }
    return absl::OkStatus();
  }

  absl::Status ReadOperator(const OperatorProto& proto, const OpInfo& info, const std::string& where, Side* side) {
    Operator op;
    op.type = static_cast<OpType>(proto.type());
    const int inputs = proto.input_size();
    const bool fits = inputs >= info.min_inputs && inputs <= info.max_inputs;
    if (info.convertible && !fits) {
      const std::string most = info.max_inputs > info.min_inputs ? absl::StrCat(" to ", info.max_inputs) : "";
      return Error(absl::StrCat(where, ": ", inputs, " inputs, expected ", info.min_inputs, most));
    }
    RETURN_IF_ERROR(ReadParameters(proto, where, &op));
    if (info.convertible) {
      for (Key key : info.required) {
        if (op.parameters.count(key)) continue;
        return Error(absl::StrCat(where, ": parameter ", FindKey(static_cast<int64_t>(key))->name, " is missing"));
      }
      RETURN_IF_ERROR(CheckAxes(op, where));
    } else if (inputs > kMaxOperators) {
      return Error(absl::StrCat(where, ": ", inputs, " inputs, expected at most ", kMaxOperators));
    }
    for (int k = 0; k < inputs; ++k) {
      RETURN_IF_ERROR(ReadInput(proto.input(k), absl::StrCat(where, ": input ", k), *side, &op));
    }
    side->push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status ReadParameters(const OperatorProto& proto, const std::string& where, Operator* op) {
    if (proto.parameter_size() > kMaxParameters) {
      return Error(absl::StrCat(where, ": ", proto.parameter_size(), " parameters, expected at most ", kMaxParameters));
    }
    for (const ParameterProto& parameter : proto.parameter()) {
      if (!parameter.has_key() || !parameter.has_value()) {
        return Error(absl::StrCat(where, ": a parameter without key or value"));
      }
      const KeyInfo* key = FindKey(parameter.key());
      if (key == nullptr) return Error(absl::StrCat(where, ": there is no parameter key ", parameter.key()));
      const int value = parameter.value();
      if (value < key->min || value > key->max) {
        return Error(
            absl::StrCat(where, ": parameter ", key->name, " is ", value, ", expected ", key->min, " to ", key->max));
      }
      if (!op->parameters.emplace(static_cast<Key>(parameter.key()), value).second) {
        return Error(absl::StrCat(where, ": parameter ", key->name, " is given twice"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAxes(const Operator& op, const std::string& where) const {
    if (op.type == OpType::kConcat && op.Get(Key::kAxis) >= op.Get(Key::kRank)) {
      return Error(absl::StrCat(where, ": axis ", op.Get(Key::kAxis), " of ", op.Get(Key::kRank)));
    }
    if (op.type == OpType::kTranspose && op.Permutation().empty()) {
      return Error(absl::StrCat(where, ": parameter perm is ", op.Get(Key::kPermutation), ", no permutation of ",
                                op.Get(Key::kRank), " axes"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadInput(const TensorProto& proto, const std::string& where, const Side& side, Operator* op) {
    if (!proto.has_operator_id()) return Error(absl::StrCat(where, ": it names no operator"));
    const int id = proto.operator_id();
    TensorRef ref;
    if (id >= 0) {
      if (id >= static_cast<int>(side.size())) {
        return Error(absl::StrCat(where, ": operator ", id, " does not come before its user"));
      }
      ref = {id, proto.output(), 0};
      const int outputs = side[id].num_outputs();
      if (ref.output < 0 || ref.output >= outputs) {
        return Error(absl::StrCat(where, ": output ", ref.output, " of operator ", id, ", which has ", outputs));
      }
    } else {
      if (id < -kMaxInputNumber) return Error(absl::StrCat(where, ": the rule's input ", id, " is out of range"));
      ref = {-1, 0, -id};
      if (proto.output() != 0) {
        return Error(absl::StrCat(where, ": output ", proto.output(), " of an input of the rule"));
      }
      if (is_target_ && !known_inputs_.count(ref.input)) {
        return Error(absl::StrCat(where, ": the source has no input ", id));
      }
    }
    op->inputs.push_back(ref);
    return absl::OkStatus();
  }

  absl::Status ReadOutput(const std::string& where, const char* name, const Side& side, int id, int output, bool given,
                          TensorRef* ref) const {
    if (!given || id < 0 || id >= static_cast<int>(side.size())) {
      return Error(absl::StrCat(where, ": there is no ", name, " operator ", given ? absl::StrCat(id) : "given"));
    }
    const int outputs = side[id].num_outputs();
    if (output < 0 || output >= outputs) {
      return Error(absl::StrCat(where, ": output ", output, " of ", name, " operator ", id, ", which has ", outputs));
    }
    *ref = {id, output, 0};
    return absl::OkStatus();
  }

  std::string where_;
  std::set<int> known_inputs_;
  bool is_target_ = false;
};

}  // namespace

std::vector<int> Operator::Permutation() const {
  const int rank = Get(Key::kRank);
  std::vector<int> perm(static_cast<size_t>(rank));
  std::set<int> axes;
  int digits = Get(Key::kPermutation);
  for (size_t k = perm.size(); k-- > 0; digits /= rank) axes.insert(perm[k] = digits % rank);
  return digits == 0 && axes.size() == perm.size() ? perm : std::vector<int>();
}

absl::StatusOr<std::vector<RuleGraph>> Decode(const std::string& data, const std::string& file) {
  const auto error = [&](const std::string& message) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", message));
  };
  if (data.size() > kMaxBytes) {
    return error(absl::StrCat(data.size(), " bytes, expected at most ", kMaxBytes));
  }
  RuleFileProto proto;
  if (!proto.ParseFromString(data)) return error("not a rule file of TASO: protobuf cannot read it");
  if (proto.rule_size() < 1 || proto.rule_size() > kMaxRules) {
    return error(absl::StrCat("it holds ", proto.rule_size(), " rules, expected 1 to ", kMaxRules));
  }
  std::vector<RuleGraph> rules;
  for (int k = 0; k < proto.rule_size(); ++k) {
    absl::StatusOr<RuleGraph> rule = RuleReader(absl::StrCat(file, ": rule ", k)).Read(proto.rule(k));
    if (!rule.ok()) return rule.status();
    rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace rewright::taso
