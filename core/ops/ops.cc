#include "core/ops/ops.h"

#include <map>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/adjoint/free_shift.h"
#include "core/adjoint/operators.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/graph.h"
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

namespace {

// Limits on names, which come from unchecked files; an operator made for a name lives as long as the process. They
// bound the length of a name, the depth to which operators are made of one another, and the number of operators made by
// name.
constexpr size_t kLongestName = 256;
constexpr int kMostLifts = 4, kMostDerivatives = 4;  // a sixth gradient of a convolution takes seconds to make
constexpr size_t kMostMade = 16384;

int CountOf(std::initializer_list<const char*> marks, absl::string_view name) {
  int count = 0;
  for (const char* mark : marks) {
    for (size_t at = name.find(mark); at != absl::string_view::npos; at = name.find(mark, at + 1)) ++count;
  }
  return count;
}

bool IsBounded(absl::string_view name) {
  return name.size() <= kLongestName && CountOf({"each_", "block_"}, name) <= kMostLifts &&
         CountOf({"_grad_", "_scatter_", "_tangent", "_free_shift"}, name) <= kMostDerivatives;
}

// Finds the operator of that name, made of the one whose name lacks the outermost mark. A lift is always the outermost;
// of two derivatives the later one in the name is. An operator therefore has one derivation, and one search shows that
// there is none.
const OpDef* MadeOp(const std::string& name) {
  if (absl::StartsWith(name, "foreign.")) return FindForeignOp(name, FindOp);
  if (absl::StartsWith(name, "each_") || absl::StartsWith(name, "block_")) return FindLiftedOp(name, FindOp);
  if (absl::EndsWith(name, "_free_shift")) return FindFreeShiftOp(name, FindOp);
  return FindDerivedOp(name, FindOp);
}

}  // namespace

const std::vector<const OpDef*>& AllOps() { return TheRegistry().ops; }

const OpDef* FindOp(const std::string& name) {
  const auto& by_name = TheRegistry().by_name;
  const auto found = by_name.find(name);
  if (found != by_name.end()) return found->second;
  if (!IsBounded(name)) return nullptr;
  static auto* const made = new std::map<std::string, const OpDef*>;
  static auto* const mutex = new std::mutex;  // of `made`
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    if (const auto before = made->find(name); before != made->end()) return before->second;
    if (made->size() >= kMostMade) return nullptr;
  }
  const OpDef* const op = MadeOp(name);
  if (op == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(*mutex);
  made->emplace(name, op);
  return op;
}

absl::StatusOr<NodeId> Arena::Add(const std::string& op, std::vector<Value> operands, Attrs attrs) {
  const OpDef* def = FindOp(op);
  if (def == nullptr) return InvalidArgument("no operator ", op);
  return Add(*def, std::move(operands), std::move(attrs));
}

absl::StatusOr<Value> Arena::Apply(const std::string& op, std::vector<Value> operands, Attrs attrs) {
  ASSIGN_OR_RETURN(const NodeId id, Add(op, std::move(operands), std::move(attrs)));
  return Value{id, 0};
}

}  // namespace rewright
