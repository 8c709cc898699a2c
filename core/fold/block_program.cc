#include "core/fold/block_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/ir/index_value.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

using BlockValue = BlockProgram::Value;
using Kind = BlockValue::Kind;

bool DependsOn(const ExprPtr& expr, int variable) {
  const std::vector<int> free = FreeVariables(expr);
  return std::binary_search(free.begin(), free.end(), variable);
}

void MultipliedIn(const ExprPtr& expr, std::vector<ExprPtr>* factors) {
  if (!expr->IsCall(Fn::kMul)) {
    factors->push_back(expr);
    return;
  }
  for (const ExprPtr& arg : expr->args()) MultipliedIn(arg, factors);
}

ExprPtr MultipliedTogether(const std::vector<ExprPtr>& factors, DType dtype) {
  if (factors.empty()) return Constant(1, dtype).node();
  Scalar product(factors[0]);
  for (size_t k = 1; k < factors.size(); ++k) product = product * Scalar(factors[k]);
  return product.node();
}

class BlockProgramBuilder {
 public:
  BlockProgramBuilder(const Meaning& meaning, int output, const Bindings& bindings, const Fold& fold)
      : output_(meaning.outputs[static_cast<size_t>(output)]), bindings_(bindings), fold_(fold) {
    for (const int v : output_.index_vars) program_.names[v] = meaning.variables[static_cast<size_t>(v)].name;
    program_.names[fold.variable] = "t";
    program_.loop = fold.variable;
    program_.extent = fold.extent;
    program_.num_operands = fold.num_operands;
  }

  absl::StatusOr<BlockProgram> Run() {
    ChooseColumn();
    ChooseRow();
    for (const int v : output_.index_vars) {
      if (v != program_.row && v != program_.column) program_.parallel.push_back(v);
    }
    std::set<int> in_block;  // values that the block has computed
    for (size_t k = 0; k < fold_.carried.size() && status_.ok(); ++k) AddStep(static_cast<int>(k), &in_block);
    program_.element = ValueOf(fold_.Renewed(fold_.element));
    RETURN_IF_ERROR(status_);
    if (AxesOf(program_.element) & BlockProgram::kLoop) return absl::NotFoundError("the element varies along the loop");
    std::set<int> behind;
    Need(program_.element, &behind, &program_.element_values);
    return std::move(program_);
  }

 private:
  int Fail(const std::string& reason) {
    if (status_.ok()) status_ = absl::NotFoundError(reason);
    return 0;
  }

  bool IsPosition(int v) const {
    return std::find(output_.index_vars.begin(), output_.index_vars.end(), v) != output_.index_vars.end();
  }
  // Positions of the result that an expression depends on.
  std::set<int> PositionsOf(const ExprPtr& expr) const {
    std::set<int> positions;
    for (const int v : FreeVariables(expr)) {
      if (IsPosition(v)) positions.insert(v);
    }
    return positions;
  }
  // A read along the loop, and the positions that nothing else in the product depends on.
  struct Factor {
    ExprPtr read, rest;
    std::set<int> own;
  };
  std::vector<Factor> FactorsOfSum(const Carried& carried) const {
    std::vector<Factor> found;
    if (carried.kind != ReduceKind::kSum) return found;
    std::vector<ExprPtr> factors;
    MultipliedIn(carried.body, &factors);
    for (size_t k = 0; k < factors.size(); ++k) {
      const ExprPtr& read = factors[k];
      if (!read->IsRead() || read->operand() >= fold_.num_operands || !DependsOn(read, fold_.variable)) continue;
      std::vector<ExprPtr> others = factors;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
      Factor factor{read, MultipliedTogether(others, carried.body->dtype()), PositionsOf(read)};
      for (const int v : PositionsOf(factor.rest)) factor.own.erase(v);
      if (!factor.own.empty() && !others.empty()) found.push_back(std::move(factor));
    }
    return found;
  }

  void ChooseColumn() {
    for (const Carried& carried : fold_.carried) {
      for (const Factor& factor : FactorsOfSum(carried)) {
        if (factor.own.size() == 1) program_.column = std::max(program_.column, *factor.own.begin());
      }
    }
    if (program_.column >= 0) return;
    for (const int v : output_.index_vars) {
      if (!fold_.IsPosition(v)) program_.column = v;
    }
  }

  // Reads that are right factors of products of matrices do not depend on rows.
  void ChooseRow() {
    std::set<int> taken = {program_.column};
    for (const Carried& carried : fold_.carried) {
      for (const Factor& factor : FactorsOfSum(carried)) {
        if (factor.own.contains(program_.column)) taken.merge(PositionsOf(factor.read));
      }
      Visit(carried.body, [&](const ExprPtr& node) {
        if (node->kind() != ExprKind::kReduce) return;
        Visit(node->body(), [&](const ExprPtr& read) {
          if (read->IsRead() && DependsOn(read, fold_.variable)) taken.merge(PositionsOf(read));
        });
      });
    }
    int64_t longest = 0;
    for (size_t axis = 0; axis < output_.index_vars.size(); ++axis) {
      const int v = output_.index_vars[axis];
      const int64_t size = EvalIndex(output_.shape[axis], bindings_.variables).value_or(0);
      if (taken.contains(v) || size < longest) continue;
      longest = size;
      program_.row = v;
    }
  }

  unsigned AxesOf(int value) const { return program_.values[static_cast<size_t>(value)].axes; }
  unsigned AxisOf(int variable) const {
    if (variable == fold_.variable) return BlockProgram::kLoop;
    if (variable == program_.row) return BlockProgram::kRow;
    return variable == program_.column ? BlockProgram::kColumn : 0;
  }

  void AddStep(int number, std::set<int>* in_block) {
    const Carried& carried = fold_.carried[static_cast<size_t>(number)];
    BlockProgram::Step step;
    step.kind = carried.kind;
    if (!carried.guard->IsTrue()) Fail("a reduction leaves out positions");
    if (carried.kind == ReduceKind::kProd) Fail("a product is carried");
    if (carried.body->dtype() != DType::kFloat32) Fail("a carried number is not of f32");
    for (const int v : carried.positions) step.axes |= AxisOf(v);
    ExprPtr body = carried.body;
    if (step.axes & BlockProgram::kColumn) {
      const std::vector<Factor> factors = FactorsOfSum(carried);
      const auto factor = std::find_if(factors.begin(), factors.end(),
                                       [&](const Factor& one) { return one.own == std::set<int>{program_.column}; });
      if (factor == factors.end()) {
        Fail("a number that is carried by columns is no product of matrices");
        return;
      }
      step.factor = ValueOf(factor->read);
      body = factor->rest;
    }
    step.axes |= BlockProgram::kRow;
    step.body = ValueOf(fold_.Renewed(body));
    if (!status_.ok()) return;
    if (step.factor >= 0 && AxesOf(step.body) != (BlockProgram::kRow | BlockProgram::kLoop)) {
      Fail("a factor of a product of matrices does not lie along rows and loop");
      return;
    }
    Need(step.body, in_block, &step.values);
    std::set<int> none;
    Need(step.body, &none, &step.all_values);
    order_.insert(order_.end(), step.values.begin(), step.values.end());
    std::sort(step.all_values.begin(), step.all_values.end(), [&](int a, int b) { return PlaceOf(a) < PlaceOf(b); });
    if (carried.repair != nullptr) {
      step.repair = ValueOf(carried.repair);
      if (!status_.ok()) return;
      Need(step.repair, in_block, &step.repair_values);
      order_.insert(order_.end(), step.repair_values.begin(), step.repair_values.end());
      if (AxesOf(step.repair) & ~step.axes) Fail("a repair varies more than the number");
      for (const int v : step.repair_values) {
        const BlockValue& value = program_.values[static_cast<size_t>(v)];
        for (const int arg : value.args) {
          const BlockValue& read = program_.values[static_cast<size_t>(arg)];
          if (read.kind == Kind::kOld && (read.axes & BlockProgram::kColumn) != 0 && read.carried != number) {
            Fail("a repair reads another number that is carried by columns");
          }
        }
      }
    }
    program_.steps.push_back(std::move(step));
  }

  // Appends what the value is computed from, and the value, as far as that is not in `done`.
  void Need(int value, std::set<int>* done, std::vector<int>* order) {
    if (!done->insert(value).second) return;
    const BlockValue& at = program_.values[static_cast<size_t>(value)];
    if (at.kind != Kind::kProduct) {
      for (const int arg : at.args) Need(arg, done, order);
    }
    if (at.kind != Kind::kOld && at.kind != Kind::kNew) order->push_back(value);
  }

  std::ptrdiff_t PlaceOf(int value) const { return std::find(order_.begin(), order_.end(), value) - order_.begin(); }

  int Add(const ExprPtr& expr, BlockValue value) {
    value.dtype = expr->dtype();
    program_.values.push_back(std::move(value));
    return numbers_[expr] = static_cast<int>(program_.values.size()) - 1;
  }

  int ValueOf(const ExprPtr& expr) {
    if (!status_.ok()) return 0;
    if (const auto found = numbers_.find(expr); found != numbers_.end()) return found->second;
    switch (expr->kind()) {
      case ExprKind::kConst: return Add(expr, {.kind = Kind::kNumber, .expr = expr});
      case ExprKind::kFromIndex:
        if (!EvalIndex(expr->arg(0), bindings_.variables) || !IsFixed(expr->arg(0))) {
          return Fail("an index is an element");
        }
        return Add(expr, {.kind = Kind::kNumber, .expr = expr});
      case ExprKind::kRead: return expr->operand() < fold_.num_operands ? ReadOf(expr, -1) : CarriedOf(expr);
      case ExprKind::kCall: return CallOf(expr, Kind::kCall, expr->args());
      case ExprKind::kSelect:
        if (expr->condition()->kind() != ExprKind::kHolds) return Fail("a condition is on indices");
        return CallOf(expr, Kind::kSelect, {expr->condition()->arg(0), expr->yes(), expr->no()});
      case ExprKind::kReduce: return ProductOfMatrices(expr);
      default: return Fail("an element is computed in an unknown way");
    }
  }

  // Depends on no position and no axis of a block.
  bool IsFixed(const ExprPtr& index) const {
    const std::vector<int> free = FreeVariables(index);
    return std::none_of(free.begin(), free.end(), [&](int v) { return AxisOf(v) != 0 || IsPosition(v); });
  }

  int ReadOf(const ExprPtr& expr, int inner) {
    BlockValue read{.kind = Kind::kRead, .expr = expr, .inner = inner};
    for (const ExprPtr& index : expr->args()) {
      if (index->ReadsData()) return Fail("an index is an element");
      const std::vector<int> free = FreeVariables(index);
      const bool varies = std::any_of(free.begin(), free.end(), [&](int v) { return v == inner || AxisOf(v) != 0; });
      if (!varies) continue;
      if (!index->IsVariable()) return Fail("an index is no axis");
      read.axes |= AxisOf(index->variable());
    }
    return Add(expr, std::move(read));
  }

  int CarriedOf(const ExprPtr& expr) {
    const int count = static_cast<int>(fold_.carried.size()), number = expr->operand() - fold_.num_operands;
    BlockValue value{.kind = number < count ? Kind::kOld : Kind::kNew, .carried = number % count};
    for (const int v : fold_.carried[static_cast<size_t>(value.carried)].positions) value.axes |= AxisOf(v);
    value.axes |= BlockProgram::kRow;
    return Add(expr, std::move(value));
  }

  int CallOf(const ExprPtr& expr, Kind kind, const std::vector<ExprPtr>& args) {
    BlockValue value{.kind = kind};
    if (kind == Kind::kCall) value.fn = expr->fn();
    for (const ExprPtr& arg : args) {
      value.args.push_back(ValueOf(arg));
      if (!status_.ok()) return 0;
      value.axes |= AxesOf(value.args.back());
    }
    return Add(expr, std::move(value));
  }

  int ProductOfMatrices(const ExprPtr& expr) {
    if (expr->reduction() != ReduceKind::kSum || expr->bound().size() != 1 || !expr->guard()->IsTrue()) {
      return Fail("a reduction along another axis is no product of matrices");
    }
    const int inner = expr->bound()[0].id;
    std::vector<ExprPtr> factors, along, outside;
    MultipliedIn(expr->body(), &factors);
    for (const ExprPtr& factor : factors) (DependsOn(factor, inner) ? along : outside).push_back(factor);
    if (along.size() != 2 || !along[0]->IsRead() || !along[1]->IsRead()) {
      return Fail("a sum along another axis is no product of matrices");
    }
    if (DependsOn(along[0], fold_.variable)) std::swap(along[0], along[1]);
    if (!outside.empty()) {
      const Scalar product =
          ReduceOver(ReduceKind::kSum, expr->bound(), Cond(true), Scalar(MultipliedTogether(along, expr->dtype())));
      return ValueOf((product * Scalar(MultipliedTogether(outside, expr->dtype()))).node());
    }
    BlockValue value{.kind = Kind::kProduct, .inner = inner, .extent = expr->bound()[0].extent};
    value.name = expr->bound()[0].name;
    for (const ExprPtr& read : along) {
      if (read->operand() >= fold_.num_operands) return Fail("a carried number is a factor of a sum");
      value.args.push_back(ReadOf(read, inner));
      if (!status_.ok()) return 0;
    }
    if (AxesOf(value.args[0]) & ~BlockProgram::kRow || AxesOf(value.args[1]) != BlockProgram::kLoop) {
      return Fail("factors of a sum do not lie along rows and loop");
    }
    value.axes = BlockProgram::kRow | BlockProgram::kLoop;
    return Add(expr, std::move(value));
  }

  const OutputMeaning& output_;
  const Bindings& bindings_;
  const Fold& fold_;
  BlockProgram program_;
  std::map<ExprPtr, int> numbers_;
  std::vector<int> order_;  // of values in a block
  absl::Status status_;
};

}  // namespace

absl::StatusOr<BlockProgram> MakeBlockProgram(const Meaning& meaning, int output, const Bindings& bindings,
                                              const Fold& fold) {
  return BlockProgramBuilder(meaning, output, bindings, fold).Run();
}

std::string BlockProgram::ToString(const std::vector<std::string>& operand_names) const {
  const auto name_of = [&](int v) { return names.at(v); };
  const auto value_name = [&](int v) {
    const Value& value = values[static_cast<size_t>(v)];
    switch (value.kind) {
      case Kind::kNumber:
      case Kind::kRead: return PrintExpr(value.expr, operand_names);
      case Kind::kOld: return absl::StrCat("c", value.carried);
      case Kind::kNew: return absl::StrCat("c", value.carried, "'");
      default: return absl::StrCat("v", v);
    }
  };
  const auto axes_of = [&](unsigned axes) {
    std::vector<std::string> names;
    if (axes & kRow) names.push_back(row < 0 ? "0" : name_of(row));
    if (axes & kLoop) names.push_back(name_of(loop));
    if (axes & kColumn) names.push_back(name_of(column));
    return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
  };
  std::string text;
  const auto line = [&](int depth, const std::string& what) {
    absl::StrAppend(&text, std::string(static_cast<size_t>(2 * depth), ' '), what, "\n");
  };
  const auto print = [&](int depth, const std::vector<int>& order) {
    for (const int v : order) {
      const Value& value = values[static_cast<size_t>(v)];
      std::vector<std::string> args;
      for (const int arg : value.args) args.push_back(value_name(arg));
      const std::string left = absl::StrCat(value_name(v), axes_of(value.axes), " = ");
      if (value.kind == Kind::kProduct) {
        line(depth, absl::StrCat(left, "sum ", value.name, ": ", absl::StrJoin(args, " * ")));
      } else if (value.kind == Kind::kCall) {
        const std::string fn = FnName(value.fn);
        const bool infix = args.size() == 2 && !absl::ascii_isalpha(static_cast<unsigned char>(fn[0]));
        line(depth, absl::StrCat(left, infix ? absl::StrJoin(args, absl::StrCat(" ", fn, " "))
                                             : absl::StrCat(fn, "(", absl::StrJoin(args, ", "), ")")));
      } else if (value.kind == Kind::kSelect) {
        line(depth, absl::StrCat(left, args[0], " ? ", args[1], " : ", args[2]));
      }
    }
  };
  if (!parallel.empty()) {
    std::vector<std::string> names;
    for (const int v : parallel) names.push_back(name_of(v));
    line(0, absl::StrCat("parallel ", absl::StrJoin(names, ", ")));
  }
  if (row >= 0) line(0, absl::StrCat("rows ", name_of(row)));
  if (column >= 0) line(0, absl::StrCat("columns ", name_of(column)));
  line(0, absl::StrCat("loop ", name_of(loop)));
  for (size_t k = 0; k < steps.size(); ++k) {
    const Step& step = steps[k];
    print(1, step.values);
    print(1, step.repair_values);
    std::string of_block = absl::StrCat(ReduceName(step.kind), " ", name_of(loop), ": ", value_name(step.body));
    if (step.factor >= 0) absl::StrAppend(&of_block, " * ", value_name(step.factor));
    const std::string before = step.repair < 0 ? absl::StrCat("c", k) : value_name(step.repair);
    const std::string joined = step.kind == ReduceKind::kSum
                                   ? absl::StrCat(before, " + ", of_block)
                                   : absl::StrCat(ReduceName(step.kind), "(", before, ", ", of_block, ")");
    line(1, absl::StrCat("c", k, "'", axes_of(step.axes), " = ", joined));
  }
  print(0, element_values);
  line(0, absl::StrCat("element = ", value_name(element)));
  return text;
}

}  // namespace rewright
