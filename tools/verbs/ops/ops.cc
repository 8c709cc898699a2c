// rewright ops [NAME]: the operators, from their declarations; with --onnx, the operators of ONNX that can be read.

#include "core/ops/ops.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/suggest.h"
#include "core/ir/op.h"
#include "core/onnx/onnx.h"
#include "tools/program/flags.h"
#include "tools/program/verb.h"
#include "tools/verbs/ops/ops_sharding.h"

namespace rewright {
namespace {

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const OpDef* op : AllOps()) names.push_back(op->name);
  return names;
}

Json JsonOf(const OpDef& op) {
  Json attrs = Json::array();
  for (const AttrSpec& spec : op.attrs) {
    Json attr = {{"name", spec.name}, {"structural", spec.structural}, {"doc", spec.doc}};
    if (spec.fallback.has_value()) attr["default"] = AttrString(*spec.fallback);
    attrs.push_back(std::move(attr));
  }
  return {{"name", op.name},
          {"summary", op.summary},
          {"inputs", op.inputs},
          {"variadic", op.variadic},
          {"attributes", attrs}};
}

absl::StatusOr<Answer> ListOps(Session& session) {
  size_t width = 0;
  for (const std::string& name : Names()) width = std::max(width, name.size());
  Json list = Json::array();
  for (const OpDef* op : AllOps()) {
    session.console.Result(absl::StrFormat("%-*s  %s", static_cast<int>(width), op->name, op->summary));
    list.push_back(JsonOf(*op));
  }
  session.console.json()["ops"] = std::move(list);
  return Answer::kYes;
}

absl::StatusOr<Answer> DescribeOne(const std::string& name, Session& session) {
  const OpDef* op = FindOp(name);
  if (op == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no operator is called `", name, "`", DidYouMean(name, Names()), "; `rewright ops` lists them"));
  }
  std::string page = DescribeOp(*op);
  while (!page.empty() && page.back() == '\n') page.pop_back();
  session.console.Result(page);
  session.console.json() = JsonOf(*op);
  session.console.json()["page"] = page;
  return Answer::kYes;
}

absl::StatusOr<Answer> ListOnnx(Session& session) {
  Json list = Json::array();
  session.console.Result(
      absl::StrFormat("opsets %d to %d of ONNX; operator, first opset, newest definition", kOldestOpset, kNewestOpset));
  for (const OnnxOperatorVersions& op : OnnxOperators()) {
    session.console.Result(absl::StrFormat("  %-24s %3d %3d", op.name, op.first_opset, op.newest_version));
    list.push_back({{"name", op.name}, {"first_opset", op.first_opset}, {"newest_version", op.newest_version}});
  }
  session.console.json()["onnx"] = std::move(list);
  return Answer::kYes;
}

}  // namespace

Action DeclareOps(CommandLine& line) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto onnx = std::make_shared<bool>(false), sharding = std::make_shared<bool>(false);
  auto flags = std::make_shared<ShardingFlags>();
  const Flag option = line.Add("name", names.get(), "An operator (with --sharding several); all are listed without");
  line.AddSwitch("--onnx", onnx.get(), "The operators of ONNX that can be read").Excludes(option);
  const Flag laws = line.AddSwitch("--sharding", sharding.get(),
                                   "How each axis may be cut over devices, derived from the declaration and proved");
  line.AddInt("--structures", &flags->structures, 1, 1000, "Of how many structures of an operator (default 2)")
      .Needs(laws);
  line.AddOutputPath("-o,--output", &flags->output, "Write the laws as rules with the records of their proofs")
      .Type("LAWS.rules")
      .Needs(laws);
  line.AddOutputPath("--certificates", &flags->certificates,
                     "Write the certificate of every law into this folder, for `rewright check`")
      .Type("DIR")
      .Needs(laws);
  return [names, onnx, sharding, flags](Session& session) -> absl::StatusOr<Answer> {
    if (*onnx) return ListOnnx(session);
    if (*sharding) {
      flags->operators = *names;
      return ShardingTable(*flags, session);
    }
    if (names->size() > 1) return absl::InvalidArgumentError("found several operators, expected one");
    return names->empty() ? ListOps(session) : DescribeOne(names->front(), session);
  };
}

}  // namespace rewright
