#include "core/interpreter/run.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/check.h"
#include "core/base/integer.h"

namespace rewright::interp {
namespace {

// Conditions are cached for at most kMaxMemo values of bound variables, in at most kMaxMemoBytes bytes.
constexpr int64_t kMaxMemo = 64;
constexpr int64_t kMaxMemoBytes = 1 << 16;

constexpr size_t kMaxKeptBytes = 1 << 16;   // of a runner between runs
constexpr size_t kMaxAheadBytes = 1 << 19;  // of a read ahead

// True if the node keeps an extremum besides its position.
bool NeedsBest(const Node& n) {
  return n.kind == NodeKind::kReduce && (n.reduce == ReduceKind::kArgMax || n.reduce == ReduceKind::kArgMin);
}

}  // namespace

BlockRunner::BlockRunner(const Stage& stage)
    : stage_(stage), slots_(stage.nodes.size()), dependents_(stage.bound_extents.size()) {
  CHECK(stage.box.size() == stage.extents.size()) << stage.box.size();
  std::copy(stage.box.begin(), stage.box.end(), size_);
  // Every node gets a buffer for the whole box.
  const auto padded = [](size_t bytes) { return (bytes + 63) / 64 * 64 + 64; };
  size_t total = 64;
  int64_t most_lanes = 1;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Node& n = stage.nodes[i];
    Slot& s = slots_[i];
    s.axes = static_cast<uint32_t>(n.deps) & kAxisMask;
    s.size = RepSize(n.rep);
    s.lanes = Lanes(s.axes);
    most_lanes = std::max(most_lanes, s.lanes);
    total += padded(static_cast<size_t>(s.lanes) * s.size);
    if (const int guarded = GuardedFactorOf(n); guarded >= 0) {
      s.factors = FactorsOf(stage, node(n.args[1]));
      for (int factor : s.factors.ids) slot(factor).ring_stride = 1;
      s.guarded_factor = guarded;
      if (node(n.args[0]).kind != NodeKind::kConst) {
        const auto axes = static_cast<uint32_t>(node(s.factors.ids[guarded]).deps);
        s.guarded_stride = padded(static_cast<size_t>(Lanes(axes & kAxisMask)) * s.size);
        total += padded(s.guarded_stride * MulAddPanel::kSteps);
      }
    }
    s.ahead_bit = AheadBit(n, s);
    if (s.ahead_bit >= 0) total += padded(kAheadLists * static_cast<size_t>(s.lanes) * s.size);
    PlanMemo(n, s);
    total += padded(s.memo_stride * s.memo_known.size());
    if (NeedsBest(n)) total += padded(static_cast<size_t>(s.lanes) * sizeof(int64_t));
    for (uint64_t rest = n.deps >> kFirstBound << kFirstBound; rest != 0; rest &= rest - 1) {
      dependents_[std::countr_zero(rest) - kFirstBound].push_back(static_cast<int>(i));
    }
  }
  for (Slot& s : slots_) {
    if (s.ring_stride == 0) continue;
    s.ring_stride = padded(static_cast<size_t>(s.lanes) * s.size);
    total += padded(s.ring_stride * (MulAddPanel::kSteps + 1));
  }
  total += padded(static_cast<size_t>(most_lanes) * sizeof(int64_t));
  memory_.reset(new std::byte[total]);
  bytes_ = total + slots_.size() * sizeof(Slot);
  std::byte* next = memory_.get() + (64 - reinterpret_cast<uintptr_t>(memory_.get()) % 64) % 64;
  const auto take = [&](size_t bytes) {
    std::byte* taken = next;
    next += padded(bytes);
    return taken;
  };
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& s = slots_[i];
    s.buffer = take(static_cast<size_t>(s.lanes) * s.size);
    if (!s.memo_bits.empty()) s.memo = take(s.memo_stride * s.memo_known.size());
    if (s.ahead_bit >= 0) s.ahead = take(kAheadLists * static_cast<size_t>(s.lanes) * s.size);
    if (s.ring_stride != 0) s.ring = take(s.ring_stride * (MulAddPanel::kSteps + 1));
    if (s.guarded_stride != 0) s.guarded = take(s.guarded_stride * MulAddPanel::kSteps);
    if (NeedsBest(stage.nodes[i])) s.best = take(static_cast<size_t>(s.lanes) * sizeof(int64_t));
    InitSlot(static_cast<int>(i));
  }
  scratch_ = reinterpret_cast<int64_t*>(take(static_cast<size_t>(most_lanes) * sizeof(int64_t)));
}

void BlockRunner::PlanMemo(const Node& n, Slot& s) {
  const uint64_t bits = n.deps >> kFirstBound << kFirstBound;
  if (n.rep != Rep::kBool || n.kind == NodeKind::kRead || s.axes == 0 || bits == 0) return;
  int64_t count = 1;
  for (uint64_t rest = bits; rest != 0 && count <= kMaxMemo; rest &= rest - 1) {
    count *= std::max<int64_t>(stage_.bound_extents[std::countr_zero(rest) - kFirstBound], 1);
  }
  if (count > kMaxMemo || count * s.lanes > kMaxMemoBytes) return;
  int stride = 1;
  for (uint64_t rest = bits; rest != 0; rest &= rest - 1) {
    const int bit = std::countr_zero(rest);
    s.memo_bits.push_back({bit, stride});
    stride *= static_cast<int>(stage_.bound_extents[bit - kFirstBound]);
  }
  s.memo_truth.resize(count);
  s.memo_known.resize(count);
  s.memo_stride = static_cast<size_t>(s.lanes + 63) / 64 * 64;
}

// Returns the bound variable of which the read's next steps are known: the read lies inside at all of them, and its
// lanes apart. -1: there is none, or it would take too much memory.
int BlockRunner::AheadBit(const Node& n, const Slot& s) const {
  const bool known = n.kind == NodeKind::kRead && n.rep != Rep::kBool && n.mask < 0 && n.checks.empty();
  if (!known || s.lanes == 1) return -1;
  if (kAheadLists * static_cast<size_t>(s.lanes) * s.size > kMaxAheadBytes) return -1;
  int bit = -1;
  for (const auto& [id, factor] : n.linear.terms) {
    if (node(id).kind != NodeKind::kVar) return -1;
    if (factor != 1) continue;
    if (node(id).imm < kFirstBound && size_[node(id).imm] > 1) return -1;
    if (node(id).imm >= kFirstBound) bit = static_cast<int>(node(id).imm);
  }
  return bit;
}

// Computes a condition, or returns its cached result for the same values of the bound variables.
void BlockRunner::Recall(int id, Slot& s) {
  size_t number = 0;
  for (const auto& [bit, stride] : s.memo_bits) number += static_cast<size_t>(value_[bit] * stride);
  s.buffer = s.memo + number * s.memo_stride;
  if (s.memo_known[number]) {
    s.truth = s.memo_truth[number];
    s.data = s.buffer;
    return;
  }
  Compute(id, s);
  if (s.truth == Truth::kMixed && s.data != s.buffer) {  // the data belongs to another node
    std::memcpy(s.buffer, s.data, static_cast<size_t>(s.lanes));
    s.data = s.buffer;
  }
  s.memo_truth[number] = s.truth;
  s.memo_known[number] = true;
}

void BlockRunner::InitSlot(int id) {
  const Node& n = node(id);
  Slot& s = slot(id);
  switch (n.kind) {
    case NodeKind::kConst: StoreConst(n.rep, n.real, n.imm, &s.fill); break;
    case NodeKind::kAndThen: s.binary = KernelsOf(Rep::kBool, Fn::kAnd).binary; break;
    case NodeKind::kFromIndex: s.unary = FindCast(Rep::kInt64, n.rep); break;
    case NodeKind::kFromValue:
    case NodeKind::kCast: s.unary = FindCast(node(n.args[0]).rep, n.rep); break;
    case NodeKind::kRead:
      if (n.fill >= 0) StoreConst(n.rep, node(n.fill).real, node(n.fill).imm, &s.fill);
      break;
    case NodeKind::kCall: {
      const FnKernels kernels = KernelsOf(node(n.args[0]).rep, n.fn);
      s.unary = kernels.unary;
      s.binary = kernels.binary;
      s.partial = kernels.partial;
      break;
    }
    case NodeKind::kReduce: {
      const Node& body = node(n.args[1]);
      StoreIdentity(body.rep, n.reduce, &s.fill);
      s.accumulate = FindAccumulate(body.rep, n.reduce);
      s.arg = FindArg(body.rep, n.reduce);
      const bool product = body.kind == NodeKind::kCall && body.fn == Fn::kMul;
      if (n.reduce == ReduceKind::kSum && product) s.mul_add = FindMulAdd(body.rep);
      if (GuardedFactorOf(n) >= 0) s.panel = FindPanel(body.rep, s.factors.squares);
      break;
    }
    default: break;
  }
}

// Returns the factor, 0 or 1, of a sum of products that tells where a guard holds: it varies along all axes along which
// the guard does. -1 if the node is none that panels sum: of products of reads, squares of reads, or constants.
int BlockRunner::GuardedFactorOf(const Node& n) const {
  if (n.kind != NodeKind::kReduce || n.reduce != ReduceKind::kSum) return -1;
  const Node& guard = node(n.args[0]);
  const Node& body = node(n.args[1]);
  if (body.kind != NodeKind::kCall || body.fn != Fn::kMul || FindPanel(body.rep, false) == nullptr) return -1;
  const auto is_simple = [&](int id) { return node(id).kind == NodeKind::kRead || node(id).kind == NodeKind::kConst; };
  const auto is_factor = [&](int id) {
    const Node& factor = node(id);
    const bool square = factor.kind == NodeKind::kCall && factor.fn == Fn::kMul && factor.args[0] == factor.args[1];
    return square ? is_simple(factor.args[0]) : is_simple(id);
  };
  if (!std::all_of(body.args.begin(), body.args.end(), is_factor)) return -1;
  for (int factor = 0; factor < 2; ++factor) {
    if ((guard.deps & ~node(body.args[static_cast<size_t>(factor)]).deps & kAxisMask) == 0) return factor;
  }
  return -1;
}

// ---------------------------------------------------------------- geometry

int64_t BlockRunner::Lanes(uint32_t axes) const {
  int64_t lanes = 1;
  for (; axes != 0; axes &= axes - 1) lanes *= size_[std::countr_zero(axes)];
  return lanes;
}

// Returns the stride between neighbours along `axis` in the lanes of a node on `axes`; 0 if it does not depend on the
// axis.
int64_t BlockRunner::DenseStride(uint32_t axes, int axis) const {
  if (!((axes >> axis) & 1)) return 0;
  return Lanes(axes & ~((2u << axis) - 1));
}

void BlockRunner::BuildDense(Nest& nest, uint32_t axes, std::initializer_list<uint32_t> args) const {
  Build(nest, axes, static_cast<int>(args.size()), [&](int k, int axis) { return DenseStride(args.begin()[k], axis); });
}

void BlockRunner::Run(const std::vector<int64_t>& start, const std::vector<int64_t>& size, void* out) {
  std::copy(start.begin(), start.end(), start_);
  const bool resized = !std::equal(size.begin(), size.end(), size_);
  std::copy(size.begin(), size.end(), size_);
  for (Slot& s : slots_) {
    s.valid = false;
    s.ahead_count = 0;
    s.ahead_from = -1;
    s.memo_known.assign(s.memo_known.size(), false);
    if (!resized) continue;
    s.prepared = false;
    s.lanes = Lanes(s.axes);
  }
  Eval(stage_.root);
  if (status_.ok()) Store(out);
}

void BlockRunner::Store(void* out) {
  const size_t size = slot(stage_.root).size;
  const std::byte* from = static_cast<const std::byte*>(Data(stage_.root));
  const uint32_t all = static_cast<uint32_t>((uint64_t{1} << stage_.extents.size()) - 1);
  int64_t strides[kFirstBound];
  int64_t stride = 1, offset = stage_.part ? stage_.part->offset : 0;
  for (size_t axis = stage_.extents.size(); axis-- > 0;) {
    strides[axis] = stage_.part ? stage_.part->strides[axis] : stride;
    offset += start_[axis] * strides[axis];
    stride *= stage_.extents[axis];
  }
  Nest nest;
  Build(nest, all, 2,
        [&](int k, int axis) { return k == 0 ? strides[axis] : DenseStride(slot(stage_.root).axes, axis); });
  std::byte* to = static_cast<std::byte*>(out) + static_cast<size_t>(offset) * size;
  ForRows(nest, [&](int64_t, const int64_t* at, const Nest::Dim& inner) {
    StoreStrided(size, to + at[0] * static_cast<int64_t>(size), inner.stride[0],
                 from + at[1] * static_cast<int64_t>(size), inner.stride[1], inner.n);
  });
}

void BlockRunner::SetVariable(int bit, int64_t value) {
  value_[bit] = value;
  for (int id : dependents_[bit - kFirstBound]) slots_[id].valid = false;
}

void BlockRunner::Compute(int id, Slot& s) {
  const Node& n = node(id);
  s.data = s.buffer;
  switch (n.kind) {
    case NodeKind::kVar: ComputeVar(n, s); break;
    case NodeKind::kLinear: FillForm(n, s, reinterpret_cast<int64_t*>(s.buffer)); break;
    case NodeKind::kFloorDiv:
    case NodeKind::kMod:
    case NodeKind::kIndexMin:
    case NodeKind::kIndexMax:
    case NodeKind::kIndexMul: ComputeIndexBinary(n, s); break;
    case NodeKind::kConst:
      s.data = &s.fill;
      if (n.rep == Rep::kBool) s.truth = n.imm ? Truth::kAll : Truth::kNone;
      break;
    case NodeKind::kNonNegative: ComputeNonNegative(n, s); break;
    case NodeKind::kIsZero: ComputeIsZero(n, s); break;
    case NodeKind::kAndThen: ComputeAndThen(n, s); break;
    case NodeKind::kFromIndex: ComputeFromIndex(n, s); break;
    case NodeKind::kRead: ComputeRead(n, s); break;
    case NodeKind::kCall: ComputeCall(n, s); break;
    case NodeKind::kSelect: ComputeSelect(n, s); break;
    case NodeKind::kReduce: ComputeReduce(n, s); break;
    case NodeKind::kFromValue:
    case NodeKind::kCast:
      Eval(n.args[0]);
      s.unary(s.buffer, Data(n.args[0]), s.lanes);
      if (n.rep == Rep::kBool) Summarize(s);
      break;
  }
}

// ---------------------------------------------------------------- index nodes

void BlockRunner::PrepareForm(const Node& n, Slot& s) {
  s.form = Form();
  for (const auto& [id, factor] : n.linear.terms) {
    const Node& atom = node(id);
    if (atom.kind == NodeKind::kVar) {
      if (atom.imm < kFirstBound) {
        s.form.axis[atom.imm] = factor;
      } else {
        s.form.bound.push_back({static_cast<int>(atom.imm), factor});
      }
    } else if (slot(id).lanes == 1) {
      s.form.uniform.push_back({id, factor});
    } else {
      s.form.varying.push_back({id, factor});
    }
  }
  const auto factor = [&](int k, int axis) {
    return k == 0 ? s.form.axis[axis] : DenseStride(slot(n.mask).axes, axis);
  };
  Build(s.nest, s.axes, 1, factor);
  if (n.mask >= 0) Build(s.masked_nest, s.axes, 2, factor);
  s.prepared = true;
}

// Returns the value of the form at the first lane, terms of `varying` left out.
int64_t BlockRunner::Base(const Node& n, Slot& s) {
  int64_t base = n.linear.imm;
  for (size_t axis = 0; axis < stage_.extents.size(); ++axis) base += s.form.axis[axis] * start_[axis];
  for (const auto& [bit, factor] : s.form.bound) base += factor * value_[bit];
  for (const auto& [id, factor] : s.form.uniform) {
    Eval(id);
    base += factor * *static_cast<const int64_t*>(slot(id).data);
  }
  return base;
}

void BlockRunner::FillForm(const Node& n, Slot& s, int64_t* out) {
  if (!s.prepared) PrepareForm(n, s);
  for (const auto& term : s.form.varying) Eval(term.first);  // before `out`, which may be the scratch, is written
  const int64_t base = Base(n, s);
  ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    for (int64_t i = 0; i < inner.n; ++i) out[lane + i] = base + at[0] + i * inner.stride[0];
  });
  for (const auto& [id, factor] : s.form.varying) {
    Nest nest;
    BuildDense(nest, s.axes, {slot(id).axes});
    const int64_t* atom = static_cast<const int64_t*>(slot(id).data);
    ForRows(nest, [&, factor = factor](int64_t lane, const int64_t* at, const Nest::Dim& row) {
      for (int64_t i = 0; i < row.n; ++i) out[lane + i] += factor * atom[at[0] + i * row.stride[0]];
    });
  }
}

void BlockRunner::ComputeVar(const Node& n, Slot& s) {
  int64_t* out = reinterpret_cast<int64_t*>(s.buffer);
  if (n.imm >= kFirstBound) {
    *out = value_[n.imm];
    return;
  }
  for (int64_t i = 0; i < s.lanes; ++i) out[i] = start_[n.imm] + i;
}

void BlockRunner::ComputeIndexBinary(const Node& n, Slot& s) {
  Eval(n.args[0]);
  Eval(n.args[1]);
  if (!s.prepared) BuildDense(s.nest, s.axes, {slot(n.args[0]).axes, slot(n.args[1]).axes});
  s.prepared = true;
  const int64_t* a = static_cast<const int64_t*>(slot(n.args[0]).data);
  const int64_t* b = static_cast<const int64_t*>(slot(n.args[1]).data);
  int64_t* out = reinterpret_cast<int64_t*>(s.buffer);
  const auto each = [&](const auto& f) {
    ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
      for (int64_t i = 0; i < inner.n; ++i) {
        out[lane + i] = f(a[at[0] + i * inner.stride[0]], b[at[1] + i * inner.stride[1]]);
      }
    });
  };
  // A divisor that is not positive occurs only in lanes that a guard excludes; the result there does not matter.
  switch (n.kind) {
    case NodeKind::kFloorDiv: each([](int64_t x, int64_t y) { return y > 0 ? FloorDivide(x, y) : 0; }); break;
    case NodeKind::kMod: each([](int64_t x, int64_t y) { return y > 0 ? FloorRemainder(x, y) : 0; }); break;
    case NodeKind::kIndexMin: each([](int64_t x, int64_t y) { return std::min(x, y); }); break;
    case NodeKind::kIndexMax: each([](int64_t x, int64_t y) { return std::max(x, y); }); break;
    default: each([](int64_t x, int64_t y) { return x * y; }); break;
  }
}

// ---------------------------------------------------------------- conditions

// Returns the bytes of an evaluated condition.
const uint8_t* BlockRunner::Bytes(int id) {
  Slot& s = slot(id);
  if (s.truth != Truth::kMixed) {
    std::memset(s.buffer, s.truth == Truth::kAll ? 1 : 0, static_cast<size_t>(s.lanes));
    s.data = s.buffer;
  }
  return static_cast<const uint8_t*>(s.data);
}

void BlockRunner::Summarize(Slot& s) {
  const int64_t held = CountHeld(static_cast<const uint8_t*>(s.data), s.lanes);
  s.truth = held == 0 ? Truth::kNone : held == s.lanes ? Truth::kAll : Truth::kMixed;
}

void BlockRunner::ComputeNonNegative(const Node& n, Slot& s) {
  if (!s.prepared) PrepareForm(n, s);
  uint8_t* out = reinterpret_cast<uint8_t*>(s.buffer);
  if (!s.form.varying.empty()) {
    FillForm(n, s, scratch_);
    for (int64_t i = 0; i < s.lanes; ++i) out[i] = scratch_[i] >= 0;
    Summarize(s);
    return;
  }
  const int64_t base = Base(n, s);
  int64_t low = base, high = base;
  for (int d = 0; d < s.nest.rank; ++d) {
    const int64_t reach = s.nest.dims[d].stride[0] * (s.nest.dims[d].n - 1);
    (reach < 0 ? low : high) += reach;
  }
  s.truth = low >= 0 ? Truth::kAll : high < 0 ? Truth::kNone : Truth::kMixed;
  if (s.truth != Truth::kMixed) return;
  // The form is monotone along a row: it holds from some lane on, or up to some lane.
  const int64_t count = Inner(s.nest).n;
  const int64_t step = Inner(s.nest).stride[0];
  ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim&) {
    const int64_t first = base + at[0];
    uint8_t* row = out + lane;
    if (step > 0) {
      const int64_t begin = std::clamp<int64_t>(-FloorDivide(first, step), 0, count);
      std::memset(row, 0, static_cast<size_t>(begin));
      std::memset(row + begin, 1, static_cast<size_t>(count - begin));
    } else {
      const int64_t end =
          step == 0 ? (first >= 0 ? count : 0) : std::clamp<int64_t>(FloorDivide(first, -step) + 1, 0, count);
      std::memset(row, 1, static_cast<size_t>(end));
      std::memset(row + end, 0, static_cast<size_t>(count - end));
    }
  });
}

void BlockRunner::ComputeIsZero(const Node& n, Slot& s) {
  FillForm(n, s, scratch_);
  uint8_t* out = reinterpret_cast<uint8_t*>(s.buffer);
  for (int64_t i = 0; i < s.lanes; ++i) out[i] = scratch_[i] == 0;
  Summarize(s);
}

void BlockRunner::ComputeAndThen(const Node& n, Slot& s) {
  Eval(n.args[0]);
  const Truth left = slot(n.args[0]).truth;
  s.truth = Truth::kNone;
  if (left == Truth::kNone) return;
  Eval(n.args[1]);
  const Truth right = slot(n.args[1]).truth;
  if (right == Truth::kNone) return;
  if (left == Truth::kAll) return TakeOver(s, n.args[1]);
  if (right == Truth::kAll) return TakeOver(s, n.args[0]);
  CombineBytes(n, s);
}

// Computes the bytes of a function of two conditions.
void BlockRunner::CombineBytes(const Node& n, Slot& s) {
  if (!s.prepared) BuildDense(s.nest, s.axes, {slot(n.args[0]).axes, slot(n.args[1]).axes});
  s.prepared = true;
  const uint8_t* a = Bytes(n.args[0]);
  const uint8_t* b = Bytes(n.args[1]);
  uint8_t* out = reinterpret_cast<uint8_t*>(s.buffer);
  ForRows(s.nest, [&](int64_t lane, const int64_t* at, const Nest::Dim& inner) {
    s.binary(out + lane, a + at[0], inner.stride[0], b + at[1], inner.stride[1], inner.n);
  });
  Summarize(s);
}

void BlockRunner::ComputeOr(const Node& n, Slot& s) {
  Eval(n.args[0]);
  s.truth = Truth::kAll;
  if (slot(n.args[0]).truth == Truth::kAll) return;
  Eval(n.args[1]);
  if (slot(n.args[1]).truth == Truth::kAll) return;
  CombineBytes(n, s);
}

void BlockRunner::ComputeNot(const Node& n, Slot& s) {
  Eval(n.args[0]);
  const Slot& arg = slot(n.args[0]);
  s.truth = arg.truth == Truth::kAll ? Truth::kNone : arg.truth == Truth::kNone ? Truth::kAll : Truth::kMixed;
  if (s.truth != Truth::kMixed) return;
  const uint8_t* a = static_cast<const uint8_t*>(arg.data);
  uint8_t* out = reinterpret_cast<uint8_t*>(s.buffer);
  for (int64_t i = 0; i < s.lanes; ++i) out[i] = a[i] ^ 1;
}

// ---------------------------------------------------------------- runners between runs

std::unique_ptr<BlockRunner> RunnerPool::Take(size_t number, const Stage& stage) {
  std::unique_ptr<BlockRunner> kept;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept = std::move(places_[number].runner);
  }
  return kept != nullptr ? std::move(kept) : std::make_unique<BlockRunner>(stage);
}

void RunnerPool::Return(size_t number, std::unique_ptr<BlockRunner> runner) {
  if (!runner->status().ok() || runner->bytes() > kMaxKeptBytes) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Place& place = places_[number];
  if (place.returned) place.runner = std::move(runner);
  place.returned = true;
}

}  // namespace rewright::interp
