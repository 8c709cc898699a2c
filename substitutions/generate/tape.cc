#include "substitutions/generate/tape.h"

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
#include "core/interpreter/evaluate_field.h"
#include "core/ir/index_value.h"

namespace rewright::generate {
namespace {

constexpr size_t kMaxInstructions = 200000;
constexpr int kMaxProducts = 32;  // of elements below 2^61, whose sum stays below 2^128

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
      if (instruction.code == Tape::Code::kDot) continue;
      if (instruction.code != Tape::Code::kSelect) instruction.a = number(instruction.a);
      instruction.b = number(instruction.b);
    }
    for (auto& [a, b] : tape_.pairs_) a = number(a), b = number(b);
    for (std::vector<int32_t>& results : tape_.results_) {
      for (int32_t& result : results) result = number(result);
    }
    return std::move(tape_);
  }

 private:
  using Code = Tape::Code;

  int32_t Constant(uint64_t value) {
    const auto [at, fresh] = constants_.emplace(value, static_cast<int32_t>(tape_.constants_.size()));
    if (fresh) tape_.constants_.push_back(value);
    return -1 - at->second;
  }
  bool Is(int32_t reg, uint64_t value) const { return reg < 0 && tape_.constants_[-1 - reg] == value; }

  int32_t Add(Code code, int32_t a, int32_t b) {
    const auto key = std::tuple(code, a, b);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = Push(code, a, b);
  }
  int32_t Push(Code code, int32_t a, int32_t b) {
    if (tape_.code_.size() >= kMaxInstructions) Fail("the application is too large");
    tape_.code_.push_back({code, a, b});
    return tape_.num_inputs_ + static_cast<int32_t>(tape_.code_.size()) - 1;
  }

  int32_t Fail(const char* message) {
    if (error_.ok()) error_ = absl::UnimplementedError(message);
    return Constant(0);
  }

  // Whether an index or condition depends on elements.
  bool ReadsData(const ExprPtr& e) {
    if (e->kind == ExprKind::kHolds || e->kind == ExprKind::kFromValue) return true;
    if (e->args.empty()) return false;
    // Asked once for every element.
    const auto found = reads_data_.find(e.get());
    if (found != reads_data_.end()) return found->second;
    const bool reads =
        std::any_of(e->args.begin(), e->args.end(), [this](const ExprPtr& arg) { return ReadsData(arg); });
    return reads_data_[e.get()] = reads;
  }

  int64_t IndexAt(const ExprPtr& e) {
    const std::optional<int64_t> value = EvalIndex(e, variables_);
    if (!value) Fail("an index without a value");
    return value.value_or(0);
  }
  bool CondAt(const ExprPtr& e) {
    const std::optional<bool> value = EvalCond(e, variables_);
    if (!value) Fail("a condition without a value");
    return value.value_or(false);
  }

  int32_t Emit(const ExprPtr& e) {
    if (!error_.ok()) return Constant(0);
    switch (e->kind) {
      case ExprKind::kConst: return Constant(FieldFromReal(e->real));
      case ExprKind::kParam: return Constant(FieldFromReal(params_[e->integer]));
      case ExprKind::kFromIndex: return Constant(FieldFromInteger(IndexAt(e->args[0])));
      case ExprKind::kRead: return Read(e);
      case ExprKind::kCall: return Call(e);
      case ExprKind::kSelect: return Select(e);
      case ExprKind::kReduce: return Reduce(e);
      case ExprKind::kCast:
        // Truth values are 0 and 1 in every type of numbers.
        if (e->args[0]->dtype == DType::kBool || e->args[0]->dtype == e->dtype) return Emit(e->args[0]);
        return Fail("a conversion of element types");
      default: return Fail("an expression that is no element");
    }
  }

  int32_t Read(const ExprPtr& e) {
    const size_t input = e->integer;
    const Shape& shape = inputs_[input].shape;
    int64_t at = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (ReadsData(e->args[axis])) return Fail("an index that is data");
      const int64_t index = IndexAt(e->args[axis]);
      if (!error_.ok()) return 0;
      CHECK(index >= 0 && index < shape[axis]) << "a read outside its operand";
      at = at * shape[axis] + index;
    }
    const int32_t reg = begins_[input] + static_cast<int32_t>(at);
    read_[reg] = true;
    return reg;
  }

  int32_t Select(const ExprPtr& e) {
    const ExprPtr& cond = e->args[0];
    if (!ReadsData(cond)) return Emit(CondAt(cond) ? e->args[1] : e->args[2]);
    if (cond->kind != ExprKind::kHolds) return Fail("a condition on several elements");
    const int32_t data = Emit(cond->args[0]);
    const int32_t yes = Emit(e->args[1]), no = Emit(e->args[2]);
    tape_.pairs_.emplace_back(data, yes);
    return Push(Code::kSelect, static_cast<int32_t>(tape_.pairs_.size()) - 1, no);
  }

  int32_t Call(const ExprPtr& e) {
    const int32_t a = Emit(e->args[0]);
    const int32_t b = e->args.size() > 1 ? Emit(e->args[1]) : a;
    switch (e->fn) {
      case Fn::kAdd: return Is(a, 0) ? b : Is(b, 0) ? a : Add(Code::kAdd, std::min(a, b), std::max(a, b));
      case Fn::kSub: return Is(b, 0) ? a : Add(Code::kSub, a, b);
      case Fn::kMul:
        if (Is(a, 0) || Is(b, 0)) return Constant(0);
        return Is(a, 1) ? b : Is(b, 1) ? a : Add(Code::kMul, std::min(a, b), std::max(a, b));
      case Fn::kDiv:
        if (b < 0 && !Is(b, 0)) {
          return Add(Code::kMul, a, Constant(FieldInverse(tape_.constants_[-1 - b])));
        }
        return Add(Code::kDiv, a, b);
      case Fn::kNeg: return Add(Code::kNeg, a, a);
      case Fn::kMax: return Add(Code::kMax, std::min(a, b), std::max(a, b));
      case Fn::kMin: return Add(Code::kMin, std::min(a, b), std::max(a, b));
      case Fn::kPow: return Add(Code::kPow, a, b);
      case Fn::kExp: return Add(Code::kExp, a, a);
      case Fn::kLog: return Add(Code::kLog, a, a);
      case Fn::kSqrt: return Add(Code::kSqrt, a, a);
      case Fn::kErf: return Add(Code::kErf, a, a);
      case Fn::kTanh: return Add(Code::kTanh, a, a);
      case Fn::kSigmoid: return Add(Code::kSigmoid, a, a);
      case Fn::kAbs: return Add(Code::kAbs, a, a);
      case Fn::kFloor: return Add(Code::kFloor, a, a);
      case Fn::kCeil: return Add(Code::kCeil, a, a);
      case Fn::kLess: return Add(Code::kLess, a, b);
      case Fn::kLessEqual: return Add(Code::kLessEqual, a, b);
      case Fn::kEqual: return Add(Code::kEqual, std::min(a, b), std::max(a, b));
      case Fn::kAnd: return Add(Code::kAnd, std::min(a, b), std::max(a, b));
      case Fn::kOr: return Add(Code::kOr, std::min(a, b), std::max(a, b));
      case Fn::kNot: return Add(Code::kNot, a, a);
    }
    return Fail("a function without a stand-in");
  }

  // Calls `visit` at every point of the reduction where the guard holds.
  template <typename Visit>
  void ForEachPoint(const ExprPtr& e, size_t level, const Visit& visit) {
    if (level == e->bound.size()) {
      if (CondAt(e->args[0])) visit();
      return;
    }
    const int64_t extent = IndexAt(e->bound[level].extent);
    for (int64_t i = 0; i < extent && error_.ok(); ++i) {
      variables_[e->bound[level].id] = i;
      ForEachPoint(e, level + 1, visit);
    }
  }

  int32_t Reduce(const ExprPtr& e) {
    const ExprPtr& body = e->args[1];
    if (ReadsData(e->args[0])) return Fail("a guard that is data");
    if (e->reduce == ReduceKind::kSum) return Sum(e, body);
    std::vector<int32_t> terms;
    ForEachPoint(e, 0, [&] { terms.push_back(Emit(body)); });
    switch (e->reduce) {
      case ReduceKind::kProd: return Chain(Code::kMul, terms, 1);
      case ReduceKind::kMax: return Chain(Code::kMax, terms, kFieldPrime / 2 + 1);
      case ReduceKind::kMin: return Chain(Code::kMin, terms, kFieldPrime / 2);
      default: return Fail("a position of a maximum");
    }
  }

  int32_t Chain(Code code, const std::vector<int32_t>& terms, uint64_t empty) {
    if (terms.empty()) return Constant(empty);
    int32_t result = terms[0];
    for (size_t k = 1; k < terms.size(); ++k) result = Add(code, result, terms[k]);
    return result;
  }

  int32_t Sum(const ExprPtr& e, const ExprPtr& body) {
    std::vector<std::pair<int32_t, int32_t>> products;
    const bool product = body->kind == ExprKind::kCall && body->fn == Fn::kMul;
    ForEachPoint(e, 0, [&] {
      const int32_t a = Emit(product ? body->args[0] : body);
      const int32_t b = product ? Emit(body->args[1]) : Constant(1);
      if (!Is(a, 0) && !Is(b, 0)) products.emplace_back(std::min(a, b), std::max(a, b));
    });
    if (products.empty()) return Constant(0);
    const auto found = dots_.find(products);
    if (found != dots_.end()) return found->second;
    const int32_t begin = static_cast<int32_t>(tape_.pairs_.size());
    tape_.pairs_.insert(tape_.pairs_.end(), products.begin(), products.end());
    const int32_t dot = Push(Code::kDot, begin, static_cast<int32_t>(tape_.pairs_.size()));
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
  absl::flat_hash_map<const ExprNode*, bool> reads_data_;
  std::map<std::tuple<Code, int32_t, int32_t>, int32_t> known_;
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
    const auto less = [&](uint64_t a, uint64_t b) { return FieldCentered(a) < FieldCentered(b); };
    switch (i.code) {
      case Code::kAdd: *next = FieldAdd(r[i.a], r[i.b]); break;
      case Code::kSub: *next = FieldSubtract(r[i.a], r[i.b]); break;
      case Code::kMul: *next = FieldMultiply(r[i.a], r[i.b]); break;
      case Code::kDiv:
        if (r[i.b] == 0) return false;
        *next = FieldMultiply(r[i.a], FieldInverse(r[i.b]));
        break;
      case Code::kNeg: *next = FieldNegate(r[i.a]); break;
      case Code::kMax: *next = less(r[i.a], r[i.b]) ? r[i.b] : r[i.a]; break;
      case Code::kMin: *next = less(r[i.a], r[i.b]) ? r[i.a] : r[i.b]; break;
      case Code::kPow:
        if (!FieldPow(r[i.a], r[i.b], next)) return false;
        break;
      case Code::kExp: *next = FieldExp(r[i.a]); break;
      case Code::kLog: *next = FieldLog(r[i.a]); break;
      case Code::kSqrt: *next = FieldSqrt(r[i.a]); break;
      case Code::kErf: *next = FieldErf(r[i.a]); break;
      case Code::kTanh: *next = FieldTanh(r[i.a]); break;
      case Code::kSigmoid: *next = FieldSigmoid(r[i.a]); break;
      case Code::kAbs: *next = FieldCentered(r[i.a]) < 0 ? FieldNegate(r[i.a]) : r[i.a]; break;
      case Code::kFloor: *next = FieldFloor(r[i.a]); break;
      case Code::kCeil: *next = FieldCeil(r[i.a]); break;
      case Code::kLess: *next = less(r[i.a], r[i.b]); break;
      case Code::kLessEqual: *next = !less(r[i.b], r[i.a]); break;
      case Code::kEqual: *next = r[i.a] == r[i.b]; break;
      case Code::kAnd: *next = r[i.a] & r[i.b]; break;
      case Code::kOr: *next = r[i.a] | r[i.b]; break;
      case Code::kNot: *next = r[i.a] == 0; break;
      case Code::kSelect: {
        const auto& [cond, yes] = pairs_[i.a];
        *next = r[cond] != 0 ? r[yes] : r[i.b];
        break;
      }
      case Code::kDot: {
        unsigned __int128 sum = 0;
        int count = 0;
        for (int32_t p = i.a; p < i.b; ++p) {
          const auto& [a, b] = pairs_[p];
          sum += static_cast<unsigned __int128>(r[a]) * r[b];
          if (++count == kMaxProducts) {
            sum = (sum & kFieldPrime) + (sum >> 61);
            count = 0;
          }
        }
        // Folded once more: FieldReduce is exact below 2^122 only.
        *next = FieldReduce((sum & kFieldPrime) + (sum >> 61));
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
    if (i.code == Code::kDot) {
      for (int32_t p = i.a; p < i.b; ++p) {
        const auto& [a, b] = pairs_[p];
        *next |= r[a] | r[b];
      }
    } else if (i.code == Code::kSelect) {
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
