#include "core/fold/run_fold.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "core/interpreter/oracle.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

class Runner {
 public:
  Runner(const Meaning& meaning, int output, const Bindings& bindings, const Fold& fold,
         const std::vector<Tensor>& inputs)
      : meaning_(meaning),
        output_(meaning.outputs[static_cast<size_t>(output)]),
        bindings_(bindings),
        fold_(fold),
        operands_(inputs) {
    // Behind the operands: what was carried before the block, then what is carried behind it.
    operands_.resize(inputs.size() + 2 * fold.carried.size());
  }

  absl::StatusOr<Tensor> Run(int64_t block) {
    const int64_t length = SizeAt(fold_.extent);
    const size_t count = fold_.carried.size(), before = static_cast<size_t>(fold_.num_operands);
    for (int64_t begin = 0; begin < length; begin += block) {
      for (size_t k = 0; k < count; ++k) {
        ASSIGN_OR_RETURN(operands_[before + count + k],
                         Evaluate(Step(k, begin, std::min(block, length - begin)), fold_.carried[k].positions));
      }
      std::copy_n(operands_.begin() + static_cast<std::ptrdiff_t>(before + count), count,
                  operands_.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return Evaluate(fold_.element, output_.index_vars);
  }

 private:
  int64_t SizeAt(const ExprPtr& index) const { return EvalIndex(index, bindings_.variables).value_or(0); }

  // The number carried behind the block: expressions read new values, but for the repair.
  ExprPtr Step(size_t k, int64_t begin, int64_t size) const {
    const Carried& carried = fold_.carried[k];
    const int own =
        std::max({fold_.variable, carried.body->greatest_variable(), carried.guard->greatest_variable()}) + 1;
    std::vector<ExprPtr> at(static_cast<size_t>(fold_.variable) + 1);
    at[static_cast<size_t>(fold_.variable)] = (Index(begin) + Variable(own, "t")).node();
    const auto in_block = [&](const ExprPtr& expr) { return Substitute(fold_.Renewed(expr), at, {}); };
    const Scalar of_block = ReduceOver(carried.kind, {{own, "t", Index(size).node()}}, Cond(in_block(carried.guard)),
                                       Scalar(in_block(carried.body)));
    if (begin == 0) return of_block.node();
    std::vector<Index> position;
    for (const int v : carried.positions) position.push_back(Variable(v, "i"));
    const Scalar before = carried.repair == nullptr
                              ? ReadOperand(fold_.num_operands + static_cast<int>(k), position, carried.body->dtype())
                              : Scalar(carried.repair);
    return Fold::Joined(carried.kind, before, of_block).node();
  }

  absl::StatusOr<Tensor> Evaluate(const ExprPtr& element, const std::vector<int>& positions) {
    Meaning meaning;
    meaning.variables = meaning_.variables;
    meaning.params = meaning_.params;
    OutputMeaning output;
    output.dtype = element->dtype();
    output.index_vars = positions;
    output.element = element;
    TensorType type{element->dtype(), {}};
    for (const int v : positions) {
      const auto axis = std::find(output_.index_vars.begin(), output_.index_vars.end(), v);
      output.shape.push_back(output_.shape[static_cast<size_t>(axis - output_.index_vars.begin())]);
      type.shape.push_back(SizeAt(output.shape.back()));
    }
    meaning.outputs = {std::move(output)};
    Bindings bindings = bindings_;
    bindings.variables.resize(
        std::max<size_t>(bindings.variables.size(), static_cast<size_t>(element->greatest_variable()) + 1));
    ASSIGN_OR_RETURN(std::vector<Tensor> results, RunOracle(meaning, bindings, {type}, operands_));
    return std::move(results[0]);
  }

  const Meaning& meaning_;
  const OutputMeaning& output_;
  const Bindings& bindings_;
  const Fold& fold_;
  std::vector<Tensor> operands_;
};

}  // namespace

absl::StatusOr<Tensor> RunFold(const Meaning& meaning, int output, const Bindings& bindings, const Fold& fold,
                               const std::vector<Tensor>& inputs, int64_t block) {
  return Runner(meaning, output, bindings, fold, inputs).Run(block);
}

}  // namespace rewright
