#include "substitutions/generate/enumerate/tape.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/ir/index_value.h"
#include "substitutions/generate/enumerate/field.h"

namespace rewright::generate {
namespace {

constexpr size_t kMaxInstructions = 200000;
constexpr int kMaxProducts = 32;  // of elements below 2^61, whose sum stays below 2^128

bool Store(uint64_t value, uint64_t* to) { return *to = value, true; }
bool Store(const Partial<uint64_t>& value, uint64_t* to) { return *to = value.value, value.exists; }

}  // namespace

// Registers are numbered from the end while compiling, as the number of constants is not known yet: a constant is
// -1 - its number, anything else is its final number less the constants.
class TapeCompiler {
 public:
  TapeCompiler(const Meaning& meaning, const Bindings& bindings, const std::vector<TensorType>& inputs)
      : meaning_(meaning), inputs_(inputs), variables_(bindings.variables), params_(bindings.params) {
    for (const TensorType& input : inputs) {
      begins_.push_back(tape_.num_inputs_);
      tape_.num_inputs_ += static_cast<int32_t>(input.num_elements());
      tape_.input_sizes_.push_back(static_cast<int32_t>(input.num_elements()));
    }
  }

  absl::StatusOr<Tape> Run(const std::vector<TensorType>& outputs) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      const OutputMeaning& output = meaning_.outputs[k];
      const int64_t count = outputs[k].num_elements();
      std::vector<int32_t>& results = tape_.results_.emplace_back();
      read_.assign(static_cast<size_t>(tape_.num_inputs_), false);
      for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i;
        for (size_t axis = output.index_vars.size(); axis-- > 0;) {
          variables_[output.index_vars[axis]] = rest % outputs[k].shape[axis];
          rest /= outputs[k].shape[axis];
        }
        results.push_back(Emit(output.element));
        if (!error_.ok()) return error_;
      }
      if (std::find(read_.begin(), read_.end(), false) != read_.end()) tape_.drops_ = true;
    }
    const auto number = [&](int32_t r) {
      return r < 0                   ? tape_.num_inputs_ - 1 - r
             : r < tape_.num_inputs_ ? r
                                     : r + static_cast<int32_t>(tape_.constants_.size());
    };
    for (Tape::Instruction& instruction : tape_.code_) {
      if (instruction.code == Tape::kDot) continue;
      if (instruction.code != Tape::kSelect) instruction.a = number(instruction.a);
      instruction.b = number(instruction.b);
    }
    for (auto& [a, b] : tape_.pairs_) a = number(a), b = number(b);
    for (std::vector<int32_t>& results : tape_.results_) {
      for (int32_t& result : results) result = number(result);
    }
    return std::move(tape_);
  }

 private:
  int32_t Constant(uint64_t value) {
    const auto [at, fresh] = constants_.emplace(value, static_cast<int32_t>(tape_.constants_.size()));
    if (fresh) tape_.constants_.push_back(value);
    return -1 - at->second;
  }
  bool Is(int32_t reg, uint64_t value) const { return reg < 0 && tape_.constants_[-1 - reg] == value; }

  int32_t Add(Fn fn, int32_t a, int32_t b) {
    const auto code = static_cast<uint8_t>(fn);
    const auto key = std::tuple(code, a, b);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = Push(code, a, b);
  }
  int32_t Push(uint8_t code, int32_t a, int32_t b) {
    if (tape_.code_.size() >= kMaxInstructions) Fail("the application is too large");
    tape_.code_.push_back({code, a, b});
    return tape_.num_inputs_ + static_cast<int32_t>(tape_.code_.size()) - 1;
  }

  int32_t Fail(const char* message) {
    if (error_.ok()) error_ = absl::UnimplementedError(message);
    return Constant(0);
  }

  int64_t IndexAt(const ExprPtr& e) {
    int64_t value;
    if (EvalIndex(*e, variables_, &value)) return value;
    Fail("an index without a value");
    return 0;
  }
  bool CondAt(const ExprPtr& e) {
    const std::optional<bool> value = EvalCond(e, variables_);
    if (!value) Fail("a condition without a value");
    return value.value_or(false);
  }

  int32_t Emit(const ExprPtr& e) {
    if (!error_.ok()) return Constant(0);
    switch (e->kind()) {
      case ExprKind::kConst: return Constant(FieldFromReal(e->real()));
      case ExprKind::kParam: return Constant(FieldFromReal(params_[e->param()]));
      case ExprKind::kFromIndex: return Constant(FieldFromInteger(IndexAt(e->arg(0))));
      case ExprKind::kRead: return Read(e);
      case ExprKind::kCall: return Call(e);
      case ExprKind::kSelect: return Select(e);
      case ExprKind::kReduce: return Reduce(e);
      case ExprKind::kCast:
        // Truth values are 0 and 1 in every type of numbers.
        if (e->arg(0)->dtype() == DType::kBool || e->arg(0)->dtype() == e->dtype()) return Emit(e->arg(0));
        return Fail("a conversion of element types");
      case ExprKind::kOpaque: return Fail("an opaque operator");
      default: return Fail("an expression that is no element");
    }
  }

  int32_t Read(const ExprPtr& e) {
    const size_t input = e->operand();
    const Shape& shape = inputs_[input].shape;
    int64_t at = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (e->arg(axis)->ReadsData()) return Fail("an index that is data");
      const int64_t index = IndexAt(e->arg(axis));
      if (!error_.ok()) return 0;
      CHECK(index >= 0 && index < shape[axis]) << "a read outside its operand";
      at = at * shape[axis] + index;
    }
    const int32_t reg = begins_[input] + static_cast<int32_t>(at);
    read_[reg] = true;
    return reg;
  }

  int32_t Select(const ExprPtr& e) {
    const ExprPtr& cond = e->condition();
    if (!cond->ReadsData()) return Emit(CondAt(cond) ? e->arg(1) : e->arg(2));
    if (cond->kind() != ExprKind::kHolds) return Fail("a condition on several elements");
    const int32_t data = Emit(cond->arg(0));
    const int32_t yes = Emit(e->arg(1)), no = Emit(e->arg(2));
    tape_.pairs_.emplace_back(data, yes);
    return Push(Tape::kSelect, static_cast<int32_t>(tape_.pairs_.size()) - 1, no);
  }

  int32_t Call(const ExprPtr& e) {
    const int32_t a = Emit(e->arg(0));
    const int32_t b = e->args().size() > 1 ? Emit(e->arg(1)) : a;
    const Fn fn = e->fn();
    if (fn == Fn::kAdd && (Is(a, 0) || Is(b, 0))) return Is(a, 0) ? b : a;
    if (fn == Fn::kSub && Is(b, 0)) return a;
    if (fn == Fn::kMul && (Is(a, 0) || Is(b, 0))) return Constant(0);
    if (fn == Fn::kMul && (Is(a, 1) || Is(b, 1))) return Is(a, 1) ? b : a;
    if (fn == Fn::kDiv && b < 0 && !Is(b, 0)) return Add(Fn::kMul, a, Constant(FieldInverse(tape_.constants_[-1 - b])));
    return FnHas(fn, FnTrait::kCommutes) ? Add(fn, std::min(a, b), std::max(a, b)) : Add(fn, a, b);
  }

  // Calls `visit` at every point of the reduction where the guard holds.
  template <typename Visit>
  void ForEachPoint(const ExprPtr& e, size_t level, const Visit& visit) {
    if (level == e->bound().size()) {
      if (CondAt(e->arg(0))) visit();
      return;
    }
    const int64_t extent = IndexAt(e->bound()[level].extent);
    for (int64_t i = 0; i < extent && error_.ok(); ++i) {
      variables_[e->bound()[level].id] = i;
      ForEachPoint(e, level + 1, visit);
    }
  }

  int32_t Reduce(const ExprPtr& e) {
    const ExprPtr& body = e->body();
    if (e->guard()->ReadsData()) return Fail("a guard that is data");
    if (e->reduction() == ReduceKind::kSum) return Sum(e, body);
    std::vector<int32_t> terms;
    ForEachPoint(e, 0, [&] { terms.push_back(Emit(body)); });
    switch (e->reduction()) {
      case ReduceKind::kProd: return Chain(Fn::kMul, terms, 1);
      case ReduceKind::kMax: return Chain(Fn::kMax, terms, kFieldPrime / 2 + 1);
      case ReduceKind::kMin: return Chain(Fn::kMin, terms, kFieldPrime / 2);
      default: return Fail("a position of a maximum");
    }
  }

  int32_t Chain(Fn fn, const std::vector<int32_t>& terms, uint64_t empty) {
    if (terms.empty()) return Constant(empty);
    int32_t result = terms[0];
    for (size_t k = 1; k < terms.size(); ++k) result = Add(fn, result, terms[k]);
    return result;
  }

  int32_t Sum(const ExprPtr& e, const ExprPtr& body) {
    std::vector<std::pair<int32_t, int32_t>> products;
    const bool product = body->IsCall(Fn::kMul);
    ForEachPoint(e, 0, [&] {
      const int32_t a = Emit(product ? body->arg(0) : body);
      const int32_t b = product ? Emit(body->arg(1)) : Constant(1);
      if (!Is(a, 0) && !Is(b, 0)) products.emplace_back(std::min(a, b), std::max(a, b));
    });
    if (products.empty()) return Constant(0);
    const auto found = dots_.find(products);
    if (found != dots_.end()) return found->second;
    const int32_t begin = static_cast<int32_t>(tape_.pairs_.size());
    tape_.pairs_.insert(tape_.pairs_.end(), products.begin(), products.end());
    const int32_t dot = Push(Tape::kDot, begin, static_cast<int32_t>(tape_.pairs_.size()));
    dots_.emplace(std::move(products), dot);
    return dot;
  }

  const Meaning& meaning_;
  const std::vector<TensorType>& inputs_;
  std::vector<int64_t> variables_;
  const std::vector<double>& params_;
  Tape tape_;
  std::vector<int32_t> begins_;
  std::vector<bool> read_;
  absl::flat_hash_map<uint64_t, int32_t> constants_;
  std::map<std::tuple<uint8_t, int32_t, int32_t>, int32_t> known_;
  std::map<std::vector<std::pair<int32_t, int32_t>>, int32_t> dots_;
  absl::Status error_;
};

absl::StatusOr<Tape> Tape::Compile(const Meaning& meaning, const Bindings& bindings,
                                   const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs) {
  return TapeCompiler(meaning, bindings, inputs).Run(outputs);
}

std::shared_ptr<const Tape> TapeCache::Get(const OpDef& op, const std::vector<TensorType>& inputs,
                                           const Application& application) {
  std::string key = absl::StrCat(op.name, "(", AttrsString(application.attrs), ")");
  for (const TensorType& input : inputs) absl::StrAppend(&key, ";", absl::StrJoin(input.shape, ","));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = tapes_.find(key);
    if (found != tapes_.end()) return found->second;
  }
  const Meaning& meaning = *application.meaning;
  absl::StatusOr<Tape> tape =
      Tape::Compile(meaning, BindingsOf(meaning, inputs, application.attrs), inputs, application.outputs);
  std::shared_ptr<const Tape> result = tape.ok() ? std::make_shared<const Tape>(*std::move(tape)) : nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  return tapes_.try_emplace(std::move(key), std::move(result)).first->second;
}

bool Tape::Run(const uint64_t* const* inputs, uint64_t* const* outputs, std::vector<uint64_t>* scratch) const {
  const size_t first = static_cast<size_t>(num_inputs_) + constants_.size();
  if (scratch->size() < first + code_.size()) scratch->resize(first + code_.size());
  uint64_t* const r = scratch->data();
  uint64_t* next = r;
  for (size_t k = 0; k < input_sizes_.size(); ++k) {
    std::memcpy(next, inputs[k], static_cast<size_t>(input_sizes_[k]) * sizeof(uint64_t));
    next += input_sizes_[k];
  }
  std::copy(constants_.begin(), constants_.end(), next);
  next = r + first;
  for (const Instruction& i : code_) {
    switch (i.code) {
#define REWRIGHT_CASE(Id)                                                      \
  case static_cast<uint8_t>(Fn::k##Id):                                        \
    if (!Store(FieldFn<Fn::k##Id>::Value(r[i.a], r[i.b]), next)) return false; \
    break;
#define REWRIGHT_REAL(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_UNARY(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_BINARY(Id, ...) REWRIGHT_CASE(Id)
#include "core/ir/functions.def"
#undef REWRIGHT_CASE
      case kSelect: {
        const auto& [cond, yes] = pairs_[i.a];
        *next = r[cond] != 0 ? r[yes] : r[i.b];
        break;
      }
      case kDot: {
        unsigned __int128 sum = 0;
        for (int32_t p = i.a; p < i.b;) {
          for (const int32_t end = std::min(i.b, p + kMaxProducts); p < end; ++p) {
            const auto& [a, b] = pairs_[p];
            sum += static_cast<unsigned __int128>(r[a]) * r[b];
          }
          sum = (sum & kFieldPrime) + (sum >> 61);
        }
        *next = FieldReduce(sum);
        break;
      }
    }
    ++next;
  }
  for (size_t k = 0; k < results_.size(); ++k) {
    for (size_t i = 0; i < results_[k].size(); ++i) outputs[k][i] = r[results_[k][i]];
  }
  return true;
}

void Tape::RunDependencies(const uint64_t* const* inputs, uint64_t* const* outputs,
                           std::vector<uint64_t>* scratch) const {
  const size_t first = static_cast<size_t>(num_inputs_) + constants_.size();
  scratch->assign(first + code_.size(), 0);
  uint64_t* const r = scratch->data();
  uint64_t* next = r;
  for (size_t k = 0; k < input_sizes_.size(); ++k) next = std::copy_n(inputs[k], input_sizes_[k], next);
  next = r + first;
  for (const Instruction& i : code_) {
    if (i.code == kDot) {
      for (int32_t p = i.a; p < i.b; ++p) {
        const auto& [a, b] = pairs_[p];
        *next |= r[a] | r[b];
      }
    } else if (i.code == kSelect) {
      const auto& [cond, yes] = pairs_[i.a];
      *next = r[cond] | r[yes] | r[i.b];
    } else {
      *next = r[i.a] | r[i.b];
    }
    ++next;
  }
  for (size_t k = 0; k < results_.size(); ++k) {
    for (size_t i = 0; i < results_[k].size(); ++i) outputs[k][i] = r[results_[k][i]];
  }
}

}  // namespace rewright::generate
