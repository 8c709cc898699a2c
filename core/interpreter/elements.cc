// BlockRunner: nodes that are elements.
#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/interpreter/run.h"

namespace rewright::interp {
namespace {

template <typename T>
T* Shift(T* base, int64_t elements, size_t size) {
  return base + elements * static_cast<int64_t>(size);
}

const std::byte* AsBytes(const void* data) { return static_cast<const std::byte*>(data); }

}  // namespace

// Returns the elements of an evaluated node of any representation.
const void* BlockRunner::Data(int id) { return node(id).rep == Rep::kBool ? Bytes(id) : slot(id).data; }

// Gives the node the value of its evaluated argument `from`, which may have fewer lanes.
void BlockRunner::TakeOver(Slot& s, int from) {
  const Slot& arg = slot(from);
  if (node(from).rep == Rep::kBool) {
    s.truth = arg.truth;
    if (s.truth != Truth::kMixed) return;
  }
  if (arg.axes == s.axes) {
    s.data = arg.data;
    return;
  }
  Nest nest;
  BuildDense(nest, s.axes, {arg.axes});
  ForRows(nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    CopyStrided(s.size, Shift(s.buffer, lane, s.size), Shift(AsBytes(arg.data), at[0], s.size), inner.stride[0],
                inner.n);
  });
}

void BlockRunner::ComputeFromIndex(const Node& n, Slot& s) {
  FillForm(n, s, scratch_);
  s.unary(s.buffer, scratch_, s.lanes);
}

// ---------------------------------------------------------------- reads

void BlockRunner::ComputeRead(const Node& n, Slot& s) {
  Truth mask = Truth::kAll;
  if (n.mask >= 0) {
    Eval(n.mask);
    mask = slot(n.mask).truth;
  }
  const bool inside = mask == Truth::kNone || n.checks.empty() || CheckBounds(n, mask);
  if (mask == Truth::kNone || !inside) {
    CopyStrided(s.size, s.buffer, &s.fill, 0, s.lanes);
    if (n.rep == Rep::kBool) Summarize(s);
    return;
  }
  if (!s.prepared) PrepareForm(n, s);
  const std::byte* in = AsBytes((*operands_)[n.operand]);
  const bool masked = mask == Truth::kMixed;
  if (!s.form.varying.empty()) {
    GatherRead(n, s, in, masked);
  } else if (masked) {
    in = Shift(in, Base(n, s), s.size);
    const uint8_t* bytes = Bytes(n.mask);
    HeldLanes held;  // rows of other axes may share their mask
    ForRows(s.masked_nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
      CopyStridedMasked(s.size, Shift(s.buffer, lane, s.size), Shift(in, at[0], s.size), inner.stride[0], bytes + at[1],
                        inner.stride[1], &s.fill, inner.n, &held);
    });
  } else {
    const int64_t base = Base(n, s);
    if (s.ahead != nullptr && ReadAhead(s, in, base)) return;
    in = Shift(in, base, s.size);
    const Nest::Dim& inner = Inner(s.nest);
    if (s.nest.rank == 1 && (inner.n == 1 || inner.stride[0] == 1)) {
      s.data = in;  // the lanes are contiguous in the operand
    } else {
      ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim&) {
        CopyStrided(s.size, Shift(s.buffer, lane, s.size), Shift(in, at[0], s.size), inner.stride[0], inner.n);
      });
    }
  }
  if (n.rep == Rep::kBool) Summarize(s);
}

// Gives the read at `base` from those that were made with an earlier one, or makes the next ones with it where it goes
// on from the last. False: it does not.
bool BlockRunner::ReadAhead(Slot& s, const std::byte* in, int64_t base) {
  const bool made = s.ahead_count > 1 && base >= s.ahead_from && base < s.ahead_from + s.ahead_count;
  if (!made) {
    const int64_t left = stage_.bound_extents[s.ahead_bit - kFirstBound] - value_[s.ahead_bit];
    const bool goes_on = base == s.ahead_from + s.ahead_count;
    const int next = s.ahead_at + (s.ahead_count > 1 ? s.ahead_count : 0);
    s.ahead_from = base;
    s.ahead_count = goes_on ? static_cast<int>(std::min<int64_t>(left, kAhead)) : 1;
    if (s.ahead_count == 1) {
      s.ahead_at = next;
      return false;
    }
    s.ahead_at = next + s.ahead_count <= kAheadLists ? next : 0;
    std::byte* const first = Shift(s.ahead, s.ahead_at * s.lanes, s.size);
    ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
      CopyTransposed(s.size, Shift(first, lane, s.size), s.lanes, Shift(in, base + at[0], s.size), inner.stride[0],
                     inner.n, s.ahead_count);
    });
  }
  s.data = Shift(s.ahead, (s.ahead_at + base - s.ahead_from) * s.lanes, s.size);
  return true;
}

// Reads the rows of the last axis by one list of offsets, if no term of the form varies both along them and across
// them. False if one does, or rows are few or short: nothing is read then.
bool BlockRunner::GatherRows(const Node& n, Slot& s, const std::byte* in, bool masked) {
  constexpr int64_t kLeastWidth = 4;
  int last = kFirstBound - 1;
  while (last > 0 && (((s.axes >> last) & 1) == 0 || size_[last] == 1)) --last;
  const uint32_t along = 1u << last, across = s.axes & ~along;
  const int64_t width = size_[last], rows = s.lanes / width;
  if (width < kLeastWidth || rows < 2) return false;
  const auto varies = [&](int id, uint32_t among) { return Lanes(slot(id).axes & among) > 1; };
  for (const auto& term : s.form.varying) {
    if (varies(term.first, along) && varies(term.first, across)) return false;
  }
  for (const auto& term : s.form.varying) Eval(term.first);  // before the scratch is written
  const int64_t base = Base(n, s);
  int64_t* const of_place = scratch_;
  int64_t* const of_row = scratch_ + width;
  for (int64_t i = 0; i < width; ++i) of_place[i] = i * s.form.axis[last];
  Nest nest;
  Build(nest, across, 1, [&](int, int axis) { return s.form.axis[axis]; });
  ForRows(nest, [&](int64_t row, const int64_t* at, const Nest::Dim& inner) {
    for (int64_t i = 0; i < inner.n; ++i) of_row[row + i] = base + at[0] + i * inner.stride[0];
  });
  for (const auto& [id, factor] : s.form.varying) {
    const int64_t* const atom = static_cast<const int64_t*>(slot(id).data);
    if (varies(id, along)) {
      for (int64_t i = 0; i < width; ++i) of_place[i] += factor * atom[i];
      continue;
    }
    BuildDense(nest, across, {slot(id).axes});
    ForRows(nest, [&, factor = factor](int64_t row, const int64_t* at, const Nest::Dim& inner) {
      for (int64_t i = 0; i < inner.n; ++i) of_row[row + i] += factor * atom[at[0] + i * inner.stride[0]];
    });
  }
  if (!masked) {
    for (int64_t row = 0; row < rows; ++row) {
      Gather(s.size, Shift(s.buffer, row * width, s.size), Shift(in, of_row[row], s.size), of_place, width);
    }
    return true;
  }
  const uint8_t* const bytes = Bytes(n.mask);
  const uint32_t mask_axes = slot(n.mask).axes;
  const int64_t step = DenseStride(mask_axes, last);
  BuildDense(nest, across, {mask_axes});
  ForRows(nest, [&](int64_t first, const int64_t* at, const Nest::Dim& inner) {
    for (int64_t i = 0; i < inner.n; ++i) {
      const int64_t row = first + i;
      GatherMasked(s.size, Shift(s.buffer, row * width, s.size), Shift(in, of_row[row], s.size), of_place,
                   bytes + at[0] + i * inner.stride[0], step, &s.fill, width);
    }
  });
  return true;
}

void BlockRunner::GatherRead(const Node& n, Slot& s, const std::byte* in, bool masked) {
  if (GatherRows(n, s, in, masked)) return;
  FillForm(n, s, scratch_);
  if (!masked) {
    Gather(s.size, s.buffer, in, scratch_, s.lanes);
    return;
  }
  const uint8_t* bytes = Bytes(n.mask);
  Nest nest;
  BuildDense(nest, s.axes, {slot(n.mask).axes});
  ForRows(nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    GatherMasked(s.size, Shift(s.buffer, lane, s.size), in, scratch_ + lane, bytes + at[0], inner.stride[0], &s.fill,
                 inner.n);
  });
}

// Returns false, with an error, if a lane that the mask selects lies outside.
bool BlockRunner::CheckBounds(const Node& n, Truth mask) {
  for (const BoundsCheck& check : n.checks) {
    Eval(check.index);
    const Slot& index = slot(check.index);
    const int64_t* values = static_cast<const int64_t*>(index.data);
    const auto outside = [&](int64_t value) {
      return static_cast<uint64_t>(value) >= static_cast<uint64_t>(check.size);
    };
    if (std::none_of(values, values + index.lanes, outside)) continue;
    int64_t found = *std::find_if(values, values + index.lanes, outside);
    bool fails = mask == Truth::kAll;
    if (!fails) {
      const Slot& condition = slot(n.mask);
      const uint8_t* bytes = Bytes(n.mask);
      Nest nest;
      BuildDense(nest, index.axes | condition.axes, {index.axes, condition.axes});
      ForRows(nest, [&](int64_t, const int64_t* at, const Nest::Dim& inner) {
        for (int64_t i = 0; i < inner.n; ++i) {
          const int64_t value = values[at[0] + i * inner.stride[0]];
          if (!bytes[at[1] + i * inner.stride[1]] || !outside(value)) continue;
          fails = true;
          found = value;
        }
      });
    }
    if (!fails) continue;
    const std::string message =
        absl::StrCat("operand ", n.operand, ": index ", found, " on axis ", check.axis, " of size ", check.size);
    Fail(check.from_data ? absl::InvalidArgumentError(message) : absl::InternalError(message));
    return false;
  }
  return true;
}

// ---------------------------------------------------------------- functions

void BlockRunner::ComputeCall(const Node& n, Slot& s) {
  if (n.fn == Fn::kOr && n.rep == Rep::kBool) return ComputeOr(n, s);
  if (n.fn == Fn::kAnd) return ComputeAndThen(n, s);
  if (n.fn == Fn::kNot) return ComputeNot(n, s);
  if (n.mask >= 0) Eval(n.mask);
  for (int arg : n.args) Eval(arg);
  const std::byte* a = AsBytes(Data(n.args[0]));
  if (s.unary != nullptr) {
    s.unary(s.buffer, a, s.lanes);
    return;
  }
  const std::byte* b = AsBytes(Data(n.args[1]));
  const size_t arg_size = slot(n.args[0]).size;
  if (!s.prepared) {
    BuildDense(s.nest, s.axes, {slot(n.args[0]).axes, slot(n.args[1]).axes, n.mask < 0 ? 0 : slot(n.mask).axes});
    s.prepared = true;
  }
  if (s.partial != nullptr) {
    const uint8_t* mask = n.mask < 0 ? nullptr : Bytes(n.mask);
    bool ok = true;
    ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
      ok &= s.partial(Shift(s.buffer, lane, s.size), Shift(a, at[0], arg_size), inner.stride[0],
                      Shift(b, at[1], arg_size), inner.stride[1], mask == nullptr ? nullptr : mask + at[2],
                      inner.stride[2], inner.n);
    });
    // (The kernel has written -1.)
    if (!ok && undefined_ == Undefined::kError)
      Fail(absl::OutOfRangeError(absl::StrCat("an application of ", FnName(n.fn), " has no value")));
  } else {
    ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
      s.binary(Shift(s.buffer, lane, s.size), Shift(a, at[0], arg_size), inner.stride[0], Shift(b, at[1], arg_size),
               inner.stride[1], inner.n);
    });
  }
  if (n.rep == Rep::kBool) Summarize(s);
}

void BlockRunner::ComputeSelect(const Node& n, Slot& s) {
  Eval(n.args[0]);
  const Truth condition = slot(n.args[0]).truth;
  if (condition != Truth::kMixed) {
    const int chosen = n.args[condition == Truth::kAll ? 1 : 2];
    Eval(chosen);
    TakeOver(s, chosen);
    return;
  }
  Eval(n.args[1]);
  Eval(n.args[2]);
  if (!s.prepared) {
    BuildDense(s.nest, s.axes, {slot(n.args[0]).axes, slot(n.args[1]).axes, slot(n.args[2]).axes});
    s.prepared = true;
  }
  const uint8_t* mask = Bytes(n.args[0]);
  const std::byte* yes = AsBytes(Data(n.args[1]));
  const std::byte* no = AsBytes(Data(n.args[2]));
  ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    SelectLanes(s.size, Shift(s.buffer, lane, s.size), mask + at[0], inner.stride[0], Shift(yes, at[1], s.size),
                inner.stride[1], Shift(no, at[2], s.size), inner.stride[2], inner.n);
  });
  if (n.rep == Rep::kBool) Summarize(s);
}

// ---------------------------------------------------------------- reductions

void BlockRunner::ComputeReduce(const Node& n, Slot& s) {
  if (!s.prepared) {
    const uint32_t guard = slot(n.args[0]).axes;
    BuildDense(s.masked_nest, s.axes, {slot(n.args[1]).axes, guard});
    if (s.mul_add != nullptr) {
      const Node& product = node(n.args[1]);
      BuildDense(s.nest, s.axes, {slot(product.args[0]).axes, slot(product.args[1]).axes});
    }
    s.prepared = true;
  }
  const size_t size = slot(n.args[1]).size;
  CopyStrided(size, s.arg != nullptr ? s.best : s.buffer, &s.fill, 0, s.lanes);
  int64_t* positions = reinterpret_cast<int64_t*>(s.buffer);
  if (s.arg != nullptr) std::fill(positions, positions + s.lanes, -1);

  bool empty = false;
  for (int bit : n.bound) {
    empty |= stage_.bound_extents[bit - kFirstBound] == 0;
    SetVariable(bit, 0);
  }
  MulAddPanel panel;
  while (!empty && status_.ok()) {
    if (s.panel != nullptr) {
      PanelStep(n, s, panel);
    } else {
      ReduceStep(n, s);
    }
    size_t v = n.bound.size();
    while (v > 0) {
      const int bit = n.bound[v - 1];
      const bool more = value_[bit] + 1 < stage_.bound_extents[bit - kFirstBound];
      SetVariable(bit, more ? value_[bit] + 1 : 0);
      if (more) break;
      --v;
    }
    if (v == 0) break;
  }
  if (panel.steps > 0) FlushPanel(s, panel);
  if (s.arg != nullptr) std::replace(positions, positions + s.lanes, int64_t{-1}, int64_t{0});
  if (n.rep == Rep::kBool) Summarize(s);
}

// Returns the elements of a factor, kept until kSteps more have been computed.
const void* BlockRunner::Factor(int id) {
  Slot& s = slot(id);
  if (!s.valid) {
    s.buffer = s.ring + static_cast<size_t>(s.ring_next) * s.ring_stride;
    s.ring_next = (s.ring_next + 1) % (MulAddPanel::kSteps + 1);
    Eval(id);
  }
  return s.data;
}

// Returns the elements of a factor with 0 where the guard does not hold, kept until the panel is flushed.
const void* BlockRunner::GuardedFactor(int guard, const Slot& s, int factor, const void* elements, int step) {
  const Node& n = node(factor);
  if (n.kind == NodeKind::kRead && n.mask == guard && n.fill < 0) return elements;  // it has read zeros there
  std::byte* const to = s.guarded + static_cast<size_t>(step) * s.guarded_stride;
  const uint64_t zero = 0;
  const uint8_t* bytes = Bytes(guard);
  Nest nest;
  BuildDense(nest, slot(factor).axes, {slot(factor).axes, slot(guard).axes});
  ForRows(nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    SelectLanes(s.size, Shift(to, lane, s.size), bytes + at[1], inner.stride[1],
                Shift(AsBytes(elements), at[0], s.size), inner.stride[0], &zero, 0, inner.n);
  });
  return to;
}

// A term that the guard excludes counts as a product with 0, which leaves a sum as it is: sums begin with 0 and are
// never -0. The other factor must be finite for that.
void BlockRunner::PanelStep(const Node& n, Slot& s, MulAddPanel& panel) {
  const int guard = n.args[0];
  Eval(guard);
  const Truth truth = slot(guard).truth;
  if (truth == Truth::kNone) return;
  const int* const ids = s.factors.ids;
  const void* factors[] = {Factor(ids[0]), Factor(ids[1])};
  if (truth == Truth::kMixed) {
    const int other = ids[1 - s.guarded_factor];
    if (!AllFinite(node(other).rep, s.factors.squares, factors[1 - s.guarded_factor], slot(other).lanes)) {
      if (panel.steps > 0) FlushPanel(s, panel);
      ReduceStep(n, s);
      return;
    }
    const void*& factor = factors[s.guarded_factor];
    factor = GuardedFactor(guard, s, ids[s.guarded_factor], factor, panel.steps);
  }
  panel.a[panel.steps] = factors[0];
  panel.b[panel.steps] = factors[1];
  if (++panel.steps == MulAddPanel::kSteps) FlushPanel(s, panel);
}

void BlockRunner::FlushPanel(Slot& s, MulAddPanel& panel) {
  const Nest::Dim& inner = Inner(s.nest);
  panel.n = inner.n;
  panel.stride_a = inner.stride[0];
  panel.stride_b = inner.stride[1];
  Nest outer = s.nest;  // the positions other than rows and lanes
  --outer.rank;
  if (outer.rank > 0) {
    const Nest::Dim& rows = outer.dims[outer.rank - 1];
    panel.rows = rows.n;
    panel.row_a = rows.stride[0];
    panel.row_b = rows.stride[1];
    --outer.rank;
  }
  if (outer.rank == 0) outer.dims[outer.rank++] = Nest::Dim{1, {}};
  const int64_t tile = panel.rows * panel.n;
  MulAddPanel shifted = panel;
  int64_t at = 0;
  // Calls the kernel once for every position of the outer dimensions.
  ForRows(outer, [&](int64_t, const int64_t* offsets, const Nest::Dim& last) {
    for (int64_t i = 0; i < last.n; ++i, at += tile) {
      for (int k = 0; k < panel.steps; ++k) {
        shifted.a[k] = Shift(AsBytes(panel.a[k]), offsets[0] + i * last.stride[0], s.size);
        shifted.b[k] = Shift(AsBytes(panel.b[k]), offsets[1] + i * last.stride[1], s.size);
      }
      s.panel(Shift(s.buffer, at, s.size), shifted);
    }
  });
  panel.steps = 0;
}

// Accumulates the term at the current values of the bound variables.
void BlockRunner::ReduceStep(const Node& n, Slot& s) {
  const int guard = n.args[0];
  const int body = n.args[1];
  Eval(guard);
  const Truth truth = slot(guard).truth;
  if (truth == Truth::kNone) return;
  if (s.mul_add != nullptr && truth == Truth::kAll) {
    const Node& product = node(body);
    Eval(product.args[0]);
    Eval(product.args[1]);
    const std::byte* a = AsBytes(slot(product.args[0]).data);
    const std::byte* b = AsBytes(slot(product.args[1]).data);
    ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
      s.mul_add(Shift(s.buffer, lane, s.size), Shift(a, at[0], s.size), inner.stride[0], Shift(b, at[1], s.size),
                inner.stride[1], inner.n);
    });
    return;
  }
  Eval(body);
  const size_t size = slot(body).size;
  const std::byte* value = AsBytes(Data(body));
  const uint8_t* mask = truth == Truth::kAll ? nullptr : Bytes(guard);
  const int64_t position = n.bound.empty() ? 0 : value_[n.bound[0]];
  ForRows(s.masked_nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    const uint8_t* row_mask = mask == nullptr ? nullptr : mask + at[1];
    if (s.arg != nullptr) {
      s.arg(Shift(s.best, lane, size), reinterpret_cast<int64_t*>(s.buffer) + lane, Shift(value, at[0], size),
            inner.stride[0], row_mask, inner.stride[1], position, inner.n);
    } else {
      s.accumulate(Shift(s.buffer, lane, size), Shift(value, at[0], size), inner.stride[0], row_mask, inner.stride[1],
                   inner.n);
    }
  });
}

}  // namespace rewright::interp
