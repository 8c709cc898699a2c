#include "core/fold/run_block_program.h"

#include <algorithm>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/oracle.h"
#include "core/ir/index_value.h"

namespace rewright {
namespace {

class BlockRunner {
 public:
  BlockRunner(const Meaning& meaning, int output, const Bindings& bindings, const BlockProgram& program,
              const std::vector<Tensor>& inputs)
      : output_(meaning.outputs[static_cast<size_t>(output)]),
        program_(program),
        inputs_(inputs),
        at_(bindings.variables),
        values_(program.values.size()) {
    int most = program.loop;
    for (const BlockProgram::Value& value : program.values) {
      if (value.expr != nullptr) most = std::max(most, value.expr->greatest_variable());
      most = std::max(most, value.inner);
    }
    at_.resize(std::max(at_.size(), static_cast<size_t>(most) + 1));
  }

  absl::StatusOr<Tensor> Run(int64_t row_block, int64_t loop_block) {
    TensorType type{output_.dtype, {}};
    for (const ExprPtr& size : output_.shape) type.shape.push_back(SizeAt(size));
    const auto size_of = [&](int variable) {
      const auto axis = std::find(output_.index_vars.begin(), output_.index_vars.end(), variable);
      return axis == output_.index_vars.end() ? 1 : type.shape[static_cast<size_t>(axis - output_.index_vars.begin())];
    };
    Tensor result(type);
    const int64_t rows = size_of(program_.row), length = SizeAt(program_.extent);
    columns_ = size_of(program_.column);
    int64_t points = 1;
    for (const int v : program_.parallel) points *= size_of(v);
    for (int64_t point = 0; point < points; ++point) {
      int64_t rest = point;
      for (auto v = program_.parallel.rbegin(); v != program_.parallel.rend(); ++v) {
        at_[static_cast<size_t>(*v)] = rest % size_of(*v);
        rest /= size_of(*v);
      }
      for (first_row_ = 0; first_row_ < rows; first_row_ += row_block) {
        rows_ = std::min(row_block, rows - first_row_);
        old_.assign(program_.steps.size(), {});
        new_.assign(program_.steps.size(), {});
        for (first_ = 0; first_ < length; first_ += loop_block) {
          count_ = std::min(loop_block, length - first_);
          for (size_t k = 0; k < program_.steps.size(); ++k) RETURN_IF_ERROR(RunStep(k));
          old_ = new_;
        }
        for (const int v : program_.element_values) RETURN_IF_ERROR(Compute(v));
        const unsigned axes = BlockProgram::kRow | BlockProgram::kColumn;
        ForEach(axes, [&](const Point& p) {
          int64_t place = 0;
          for (size_t axis = 0; axis < type.shape.size(); ++axis) {
            place = place * type.shape[axis] + VariableAt(output_.index_vars[axis], p);
          }
          result.Set(place, ValueAt(program_.element, p));
        });
      }
    }
    return result;
  }

 private:
  struct Point {
    int64_t row = 0, loop = 0, column = 0;
  };

  int64_t SizeAt(const ExprPtr& index) const { return EvalIndex(index, at_).value_or(0); }
  void ForEach(unsigned axes, absl::FunctionRef<void(const Point&)> f) const {
    for (int64_t r = 0; r < (axes & BlockProgram::kRow ? rows_ : 1); ++r) {
      for (int64_t t = 0; t < (axes & BlockProgram::kLoop ? count_ : 1); ++t) {
        for (int64_t c = 0; c < (axes & BlockProgram::kColumn ? columns_ : 1); ++c) f({r, t, c});
      }
    }
  }
  size_t PlaceOf(unsigned axes, const Point& p) const {
    int64_t place = axes & BlockProgram::kRow ? p.row : 0;
    if (axes & BlockProgram::kLoop) place = place * count_ + p.loop;
    if (axes & BlockProgram::kColumn) place = place * columns_ + p.column;
    return static_cast<size_t>(place);
  }
  int64_t VariableAt(int variable, const Point& p) const {
    if (variable == program_.row) return first_row_ + p.row;
    if (variable == program_.loop) return first_ + p.loop;
    return variable == program_.column ? p.column : at_[static_cast<size_t>(variable)];
  }

  double ReadAt(const BlockProgram::Value& read, const Point& p) {
    for (const int v : {program_.row, program_.loop, program_.column}) {
      if (v >= 0) at_[static_cast<size_t>(v)] = VariableAt(v, p);
    }
    const Tensor& tensor = inputs_[static_cast<size_t>(read.expr->operand())];
    int64_t place = 0;
    for (size_t axis = 0; axis < tensor.shape().size(); ++axis) {
      place = place * tensor.shape()[axis] + SizeAt(read.expr->arg(axis));
    }
    return tensor.dtype() == DType::kBool ? static_cast<double>(tensor.AtInt(place)) : tensor.At(place);
  }

  double ValueAt(int v, const Point& p) const {
    using Kind = BlockProgram::Value::Kind;
    const BlockProgram::Value& value = program_.values[static_cast<size_t>(v)];
    if (value.kind == Kind::kNumber) {
      return value.expr->kind() == ExprKind::kConst ? value.expr->real()
                                                    : static_cast<double>(SizeAt(value.expr->arg(0)));
    }
    const bool carried = value.kind == Kind::kOld || value.kind == Kind::kNew;
    const std::vector<std::vector<double>>& from = !carried ? values_ : value.kind == Kind::kOld ? old_ : new_;
    return from[static_cast<size_t>(carried ? value.carried : v)][PlaceOf(value.axes, p)];
  }

  absl::Status Compute(int v) {
    using Kind = BlockProgram::Value::Kind;
    const BlockProgram::Value& value = program_.values[static_cast<size_t>(v)];
    std::vector<double>& to = values_[static_cast<size_t>(v)];
    to.clear();
    bool exists = true;
    if (value.kind == Kind::kNumber) return absl::OkStatus();
    ForEach(value.axes, [&](const Point& p) {
      double result = 0;
      switch (value.kind) {
        case Kind::kRead: result = ReadAt(value, p); break;
        case Kind::kSelect: result = ValueAt(value.args[ValueAt(value.args[0], p) != 0 ? 1 : 2], p); break;
        case Kind::kCall: {
          const auto element = [&](size_t k) {
            return OracleElement{DType::kFloat64, k < value.args.size() ? ValueAt(value.args[k], p) : 0, 0};
          };
          OracleElement called;
          exists = exists && OracleArithmetic().Call(value.fn, element(0), element(1), &called);
          result = called.dtype == DType::kBool ? static_cast<double>(called.integer) : called.real;
          break;
        }
        default: {
          int64_t& inner = at_[static_cast<size_t>(value.inner)];
          const int64_t depth = SizeAt(value.extent);
          for (int64_t r = 0; r < depth; ++r) {
            inner = r;
            result += ReadAt(program_.values[static_cast<size_t>(value.args[0])], p) *
                      ReadAt(program_.values[static_cast<size_t>(value.args[1])], p);
          }
        }
      }
      to.push_back(result);
    });
    return exists ? absl::OkStatus() : absl::OutOfRangeError(absl::StrCat(FnName(value.fn), " has no value"));
  }

  absl::Status RunStep(size_t k) {
    const BlockProgram::Step& step = program_.steps[k];
    for (const int v : step.values) RETURN_IF_ERROR(Compute(v));
    const bool repairs = first_ > 0 && step.repair >= 0;
    if (repairs) {
      for (const int v : step.repair_values) RETURN_IF_ERROR(Compute(v));
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto joined = [&](double a, double b) {
      if (step.kind == ReduceKind::kSum) return a + b;
      if (a != a) return a;
      if (step.kind == ReduceKind::kMax) return a > b ? a : b;
      return a < b ? a : b;
    };
    std::vector<double> numbers;
    ForEach(step.axes, [&](const Point& p) {
      double number = step.kind == ReduceKind::kSum ? 0 : step.kind == ReduceKind::kMax ? -kInfinity : kInfinity;
      for (int64_t t = 0; t < count_; ++t) {
        const Point there{p.row, t, p.column};
        double term = ValueAt(step.body, there);
        if (step.factor >= 0) term *= ReadAt(program_.values[static_cast<size_t>(step.factor)], there);
        number = joined(term, number);
      }
      if (first_ > 0) number = joined(repairs ? ValueAt(step.repair, p) : old_[k][PlaceOf(step.axes, p)], number);
      numbers.push_back(number);
    });
    new_[k] = std::move(numbers);
    return absl::OkStatus();
  }

  const OutputMeaning& output_;
  const BlockProgram& program_;
  const std::vector<Tensor>& inputs_;
  std::vector<int64_t> at_;                         // by variable
  std::vector<std::vector<double>> values_;         // by value, over its axes
  std::vector<std::vector<double>> old_, new_;      // by carried number
  int64_t first_row_ = 0, rows_ = 0, columns_ = 1;  // of the block
  int64_t first_ = 0, count_ = 0;                   // of the loop
};

}  // namespace

absl::StatusOr<Tensor> RunBlockProgram(const Meaning& meaning, int output, const Bindings& bindings,
                                       const BlockProgram& program, const std::vector<Tensor>& inputs,
                                       int64_t row_block, int64_t loop_block) {
  return BlockRunner(meaning, output, bindings, program, inputs).Run(row_block, loop_block);
}

}  // namespace rewright
