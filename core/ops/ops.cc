#include "core/ops/ops.h"

#include <map>

#include "core/adjoint/free_shift.h"
#include "core/adjoint/operators.h"
#include "core/base/check.h"
#include "core/lift/lift.h"
#include "core/ops/foreign.h"

namespace rewright {
namespace {

// The position of each operator in the registry.
enum Position : uint8_t {
#define REWRIGHT_POSITION(Name) k##Name,
  REWRIGHT_OPERATORS(REWRIGHT_POSITION)
#undef REWRIGHT_POSITION
};

struct OpRegistry {
  std::vector<const OpDef*> ops;
  std::map<std::string, const OpDef*> by_name;

  size_t real_functions = 0;  // which come first

  OpRegistry() {
    for (OpDef& op : RealFunctionOps()) Add(new OpDef(std::move(op)));
    real_functions = ops.size();
#define REWRIGHT_ADD(Name) Add(new OpDef(Name##Op()));
    REWRIGHT_OPERATORS(REWRIGHT_ADD)
#undef REWRIGHT_ADD
  }

  void Add(const OpDef* op) {
    ops.push_back(op);
    CHECK(by_name.emplace(op->name, op).second) << "two operators are named " << op->name;
  }
};

// Never destroyed: graphs may outlive it otherwise.
const OpRegistry& TheRegistry() {
  static const OpRegistry* const registry = new OpRegistry;
  return *registry;
}

}  // namespace

namespace ops {

#define REWRIGHT_HANDLE(Name) \
  const OpDef* Name() { return TheRegistry().ops[TheRegistry().real_functions + k##Name]; }
REWRIGHT_OPERATORS(REWRIGHT_HANDLE)
#undef REWRIGHT_HANDLE
#define REWRIGHT_REAL(Id, name, ...)             \
  const OpDef* Id() {                            \
    static const OpDef* const op = FindOp(name); \
    return op;                                   \
  }
#define REWRIGHT_UNARY(...)
#define REWRIGHT_BINARY(...)
#include "core/ir/functions.def"

}  // namespace ops

const std::vector<const OpDef*>& AllOps() { return TheRegistry().ops; }

const OpDef* FindOp(const std::string& name) {
  const auto& by_name = TheRegistry().by_name;
  const auto found = by_name.find(name);
  if (found != by_name.end()) return found->second;
  for (const auto find_made : {FindLiftedOp, FindDerivedOp, FindFreeShiftOp, FindForeignOp}) {
    if (const OpDef* made = find_made(name, FindOp); made != nullptr) return made;
  }
  return nullptr;
}

}  // namespace rewright
