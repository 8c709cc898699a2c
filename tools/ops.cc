// rewright ops [NAME]: the operators, from their declarations.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/op.h"
#include "tools/suggest.h"
#include "tools/verb.h"

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
  return {{"name", op.name},         {"summary", op.summary}, {"inputs", op.inputs},
          {"variadic", op.variadic}, {"attributes", attrs}};
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
    return absl::NotFoundError(absl::StrCat("no operator is called `", name, "`", DidYouMean(name, Names()),
                                            "; `rewright ops` lists them"));
  }
  std::string page = DescribeOp(*op);
  while (!page.empty() && page.back() == '\n') page.pop_back();
  session.console.Result(page);
  session.console.json() = JsonOf(*op);
  session.console.json()["page"] = page;
  return Answer::kYes;
}

}  // namespace

Action DeclareOps(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  app.add_option("name", *name, "An operator; all are listed without one");
  return [name](Session& session) { return name->empty() ? ListOps(session) : DescribeOne(*name, session); };
}

}  // namespace rewright
