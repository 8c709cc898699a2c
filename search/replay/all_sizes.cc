#include "search/replay/all_sizes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/index/divide.h"
#include "core/index/range.h"
#include "substitutions/match/match_scope.h"

namespace rewright {
namespace {

using index::Form;

// True, false, or not known.
class Verdict {
 public:
  Verdict(bool value = false) : Verdict(value, !value) {}  // NOLINT: a truth value is a verdict
  static Verdict Open() { return Verdict(false, false); }
  bool IsTrue() const { return true_; }
  bool IsFalse() const { return false_; }

  friend Verdict operator!(const Verdict& a) { return Verdict(a.false_, a.true_); }
  friend Verdict operator&&(const Verdict& a, const Verdict& b) {
    return Verdict(a.true_ && b.true_, a.false_ || b.false_);
  }
  friend Verdict operator||(const Verdict& a, const Verdict& b) { return !(!a && !b); }

 private:
  Verdict(bool is_true, bool is_false) : true_(is_true), false_(is_false) {}
  bool true_, false_;
};

// A number for all sizes.
struct Size {
  Form form;

  Size(int64_t value = 0) : form(value) {}  // NOLINT: as a form
  explicit Size(Form of) : form(std::move(of)) {}

  friend Verdict operator<(const Size& a, const Size& b) {
    if (index::IsPositive(b.form - a.form)) return true;
    return index::IsNonNegative(a.form - b.form) ? Verdict(false) : Verdict::Open();
  }
  friend Verdict operator<=(const Size& a, const Size& b) { return !(b < a); }
  friend Verdict operator==(const Size& a, const Size& b) {
    if (a.form == b.form) return true;
    return (a < b).IsTrue() || (b < a).IsTrue() ? Verdict(false) : Verdict::Open();
  }
  friend Size Min(const Size& a, const Size& b) { return Size(index::Min(a.form, b.form)); }
  friend Size Max(const Size& a, const Size& b) { return Size(index::Max(a.form, b.form)); }
};

// Arithmetic of ArgEvaluator on numbers for all sizes. Elements and reals do not depend on sizes, or are not known.
struct AllSizes {
  using Int = Size;
  using Real = double;
  using Element = uint64_t;
  using Bool = Verdict;

  static bool Literal(const Size& a, int64_t* value) {
    *value = a.form.constant();
    return a.form.IsConstant();
  }
  static bool Add(const Size& a, const Size& b, Size* out) { return Set(a.form + b.form, out); }
  static bool Sub(const Size& a, const Size& b, Size* out) { return Set(a.form - b.form, out); }
  static bool Mul(const Size& a, const Size& b, Size* out) { return Set(a.form * b.form, out); }
  static bool Div(const Size& a, const Size& b, Size* out) {
    return index::IsPositive(b.form) && Set(index::FloorDiv(a.form, b.form), out);
  }
  static bool Mod(const Size& a, const Size& b, Size* out) {
    return index::IsPositive(b.form) && Set(index::Mod(a.form, b.form), out);
  }
  static double ToReal(const Size& a) {
    return a.form.IsConstant() ? static_cast<double>(a.form.constant()) : std::numeric_limits<double>::quiet_NaN();
  }
  static double FromDouble(double a) { return a; }
  static uint64_t ToElement(const Size& a) { return static_cast<uint64_t>(a.form.constant()); }

 private:
  static bool Set(Form form, Size* out) {
    out->form = std::move(form);
    return out->form.IsKnown();
  }
};

// The names of a rule at one step, over all samples.
class SizedScope {
 public:
  using Value = ArgValue<AllSizes>;

  SizedScope(const std::vector<Resized>& samples, size_t step, index::SizeFit& fit)
      : samples_(samples), step_(step), fit_(fit) {}

  bool Get(ArgExpr::Ref ref, int id, Value* value) const {
    std::vector<ArgValue<Concrete>> values(samples_.size());
    for (size_t k = 0; k < samples_.size(); ++k) {
      if (!At(k).Get(ref, id, &values[k]) || values[k].kind != values[0].kind) return false;
    }
    const auto same = [&](auto member) {
      return std::all_of(values.begin(), values.end(), [&](const auto& v) { return v.*member == values[0].*member; });
    };
    using From = ArgValue<Concrete>;
    switch (values[0].kind) {
      case From::Kind::kInt:
        value->kind = Value::Kind::kInt;
        return Fit([&](size_t k) { return values[k].integer; }, &value->integer);
      case From::Kind::kList: {
        std::vector<std::vector<int64_t>> lists;
        for (const From& one : values) lists.push_back(one.list);
        value->kind = Value::Kind::kList;
        return FitLists(lists, &value->list);
      }
      case From::Kind::kReal:
        value->kind = Value::Kind::kReal;
        value->real = values[0].real;
        return same(&From::real);
      case From::Kind::kElement:
        value->kind = Value::Kind::kElement;
        value->element = values[0].element;
        return same(&From::element);
      case From::Kind::kDType:
        value->kind = Value::Kind::kDType;
        value->dtype = values[0].dtype;
        return same(&From::dtype);
      case From::Kind::kBool: return false;
    }
    return false;
  }

  bool TensorShape(int node, std::vector<Size>* shape) const {
    std::vector<std::vector<int64_t>> shapes(samples_.size());
    for (size_t k = 0; k < samples_.size(); ++k) {
      if (!At(k).TensorShape(node, &shapes[k])) return false;
    }
    return FitLists(shapes, shape);
  }

  // The truth of a predicate on elements is known if it is the same at all samples.
  bool Predicate(ArgFn fn, const ArgExpr& arg, bool positive_place, Verdict* truth) const {
    bool first = false, same = true;
    for (size_t k = 0; k < samples_.size(); ++k) {
      bool here = false;
      if (!At(k).Predicate(fn, arg, positive_place, &here)) return false;
      if (k == 0) first = here;
      same = same && here == first;
      if (fn == ArgFn::kPositive || fn == ArgFn::kFinite) same = same && HasElementsOfFirst(arg, k);
    }
    *truth = same ? Verdict(first) : Verdict::Open();
    return true;
  }

  // True if all sizes that the rule names are at least 1.
  bool SizesArePositive() const {
    const CompiledRule& rule = *samples_[0].matches[step_].rule;
    const auto is_positive = [](const Size& size) { return index::IsPositive(size.form); };
    for (size_t i = 0; i < rule.sizes().size(); ++i) {
      Value value;
      if (!Get(ArgExpr::Ref::kSize, static_cast<int>(i), &value) || !is_positive(value.integer)) return false;
    }
    for (size_t i = 0; i < rule.packs().size(); ++i) {
      Value value;
      if (!Get(ArgExpr::Ref::kPack, static_cast<int>(i), &value)) return false;
      if (!std::all_of(value.list.begin(), value.list.end(), is_positive)) return false;
    }
    return true;
  }

 private:
  const Arena& ArenaAt(size_t k) const { return *samples_[k].graph.arena(); }
  MatchScope At(size_t k) const {
    const Match& match = samples_[k].matches[step_];
    return MatchScope(*match.rule, ArenaAt(k), match.nodes, match.bindings);
  }

  template <typename ValueAt>
  bool Fit(const ValueAt& value_at, Size* size) const {
    std::vector<int64_t> values;
    for (size_t k = 0; k < samples_.size(); ++k) values.push_back(value_at(k));
    const std::optional<Form> form = fit_.Fit(values);
    if (form) size->form = *form;
    return form.has_value();
  }

  bool FitLists(const std::vector<std::vector<int64_t>>& lists, std::vector<Size>* sizes) const {
    for (const auto& list : lists) {
      if (list.size() != lists[0].size()) return false;
    }
    sizes->assign(lists[0].size(), Size());
    for (size_t i = 0; i < sizes->size(); ++i) {
      if (!Fit([&](size_t k) { return lists[k][i]; }, &(*sizes)[i])) return false;
    }
    return true;
  }

  bool HasElementsOfFirst(const ArgExpr& arg, size_t k) const {
    const Match &first = samples_[0].matches[step_], &match = samples_[k].matches[step_];
    if (arg.ref == ArgExpr::Ref::kAttr) return match.bindings.attrs[arg.id] == first.bindings.attrs[arg.id];
    const Tensor* a = ArenaAt(0).KnownElements(first.nodes[arg.id].node);
    const Tensor* b = ArenaAt(k).KnownElements(match.nodes[arg.id].node);
    if (a == nullptr || b == nullptr) return a == b;
    return a->type() == b->type() && (a->data() == b->data() || a->BitEqual(*b));
  }

  const std::vector<Resized>& samples_;
  const size_t step_;
  index::SizeFit& fit_;
};

}  // namespace

absl::Status AppliesAtAllSizes(const std::vector<Resized>& samples, index::SizeFit& fit, int* failed) {
  for (size_t step = 0; step < samples[0].matches.size(); ++step) {
    if (failed != nullptr) *failed = static_cast<int>(step);
    const CompiledRule& rule = *samples[0].matches[step].rule;
    const SizedScope scope(samples, step, fit);
    if (!scope.SizesArePositive()) {
      return absl::FailedPreconditionError(absl::StrCat("rule ", rule.name(), " needs sizes that are at least 1"));
    }
    for (const ArgExpr& condition : rule.conditions()) {
      Verdict truth;
      ArgEvaluator<AllSizes, SizedScope> evaluator(scope);
      if (evaluator.Condition(condition, &truth) && truth.IsTrue()) continue;
      return absl::FailedPreconditionError(absl::StrCat("a condition of rule ", rule.name(), " reads the size"));
    }
  }
  return absl::OkStatus();
}

}  // namespace rewright
