// From a graph to a schedule: every value gets a place in memory and a layout, every group its kernels.
//
// Layouts are assigned greedily in the order of execution. A convolution states the layouts that oneDNN wants for it;
// pooling, concatenation along channels and pointwise groups keep the layout of their (largest) operands; everything
// else is row-major. A value that is wanted in another layout than it has is converted by an extra step, once per
// layout. Greedy is close to the best here because convolutions, the only operators with a strong preference, nearly
// all want one and the same layout, and a conversion costs a few per cent of a convolution.
//
// Reshapes, transposes, slices, splits and expansions are views: other strides over the memory of their operand. A
// kernel that cannot read such a layout asks for another one. Matrix products read and write any strides, so the
// transposes around attention cost nothing. Operands of a concatenation are written straight into it where they lie in
// one piece.
//
// A kernel may overwrite an operand (sum into the residual, pointwise in place) only when `IsExpendable`: the operand
// has no reader left, and no other live value lies in its memory.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/common/schedule_builder.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/onednn/dnnl_util.h"
#include "core/device/device.h"

namespace rewright::cpu {

struct LoweringOptions {
  // Graph inputs with another layout than row-major (for measuring a group alone).
  std::map<Value, Layout> input_layouts;
  // Outputs stay in whatever layout they have.
  bool keep_output_layouts = false;
  // The one of AllowedLaws or OtherWays by which a group is computed; empty: the operators' own kernel. Null: no group
  // is by a law, and kernels judge for themselves of ways that need none.
  std::function<absl::StatusOr<std::string>(const FusedGroup&)> law_of = nullptr;
  // Set by Device::CompileSparing.
  bool sparing = false;
};

// A value in memory.
struct Place {
  int buffer = -1;
  Layout layout;
};

// Places and layouts of values, and the steps so far: what the kernels of kernel_list.h plan with.
class Lowering : private ScheduleBuilder {
 public:
  Lowering(std::shared_ptr<const DnnlContext> context, const Graph& graph, LoweringOptions options);
  absl::StatusOr<Schedule> Run();

  const std::shared_ptr<const DnnlContext>& context() const { return context_; }
  int threads() const { return context_->threads; }
  const Graph& graph() const { return graph_; }

  // ---- buffers and steps
  using ScheduleBuilder::AddConstant;
  using ScheduleBuilder::AddScratch;
  using ScheduleBuilder::AddView;
  using ScheduleBuilder::buffer;
  using ScheduleBuilder::Emit;
  using ScheduleBuilder::Read;
  using ScheduleBuilder::Scratch;
  using ScheduleBuilder::Update;
  using ScheduleBuilder::Write;
  template <typename T>
  int AddConstantNumbers(std::vector<T> values) {
    const auto held = std::make_shared<std::vector<T>>(std::move(values));
    return AddConstant(std::shared_ptr<void>(held, held->data()), held->size() * sizeof(T));
  }
  // Adds a step that writes a new buffer of `bytes` bytes from another one; returns the new buffer.
  int EmitToScratch(std::unique_ptr<Kernel> kernel, int from, size_t bytes, const std::string& label);
  // Scratch space as the next argument of a kernel, where it needs some.
  void UseScratch(size_t bytes, std::vector<BufferUse>* uses) {
    if (bytes > 0) uses->push_back(Scratch(AddScratch(bytes)));
  }
  // Adds a step that copies elements between two layouts of equal dims, which begin `from_offset` and `to_offset`
  // elements behind their places.
  void EmitCopy(const Place& from, const Place& to, DType dtype, const std::string& label, int64_t from_offset = 0,
                int64_t to_offset = 0);
  // Adds a step that brings elements from one layout into another one; an error where there is none that does.
  absl::Status EmitConversion(const Place& from, const Place& to, DType dtype);
  // A step of one node on all its operands, in order, and then its results, all of them row-major.
  absl::Status EmitRowMajor(NodeId id, std::unique_ptr<Kernel> kernel, const std::string& label);
  // Where a constant buffer is kept as a packed factor of products, by those sizes and strides; -1 until it is set. So
  // a weight that many products read (a recurrent cell's at every step) is packed once for all. `rows` of the products,
  // where the form depends on them.
  int& PackedFactorOf(int buffer, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride, int64_t rows = 0) {
    return packed_factors_.try_emplace({buffer, k, n, k_stride, n_stride, rows}, -1).first->second;
  }
  size_t Bytes(Value value, const Layout& layout) const;

  // ---- places
  // The value's primary location, before any conversion of its layout.
  absl::StatusOr<Place> Find(Value value);
  // The place of the value in the given layout; converts it when needed.
  absl::StatusOr<Place> FindAs(Value value, const Layout& layout);
  absl::StatusOr<Place> FindRowMajor(Value value);
  // The use of a value in that layout by a kernel that reads it.
  absl::StatusOr<BufferUse> ReadAs(Value value, const Layout& layout);
  absl::StatusOr<BufferUse> ReadRowMajor(Value value);
  // The primary location where that is not blocked, else row-major.
  absl::StatusOr<Place> FindPlain(Value value);
  // The layout that an output of the group has to have (kernel_list.h).
  Layout LayoutOf(const FusedGroup& group, Value value) const;
  // The law that the group's kernel goes by; empty: none.
  absl::StatusOr<std::string> LawOf(const FusedGroup& group) const {
    return options_.law_of == nullptr ? std::string() : options_.law_of(group);
  }
  // Returns whether it also says where kernels run whose ways need no law.
  bool ChoosesWays() const { return options_.law_of != nullptr; }
  // Makes room for a result.
  Place Define(Value value, const Layout& layout);
  // The use of that room where the result is row-major.
  BufferUse WriteRowMajor(Value value) {
    return Write(Define(value, Layout::RowMajor(graph_.type(value).shape)).buffer);
  }
  // The result lies in existing memory.
  void DefineAt(Value value, int buffer, const Layout& layout);
  // In that buffer, or in room of its own where it is none (-1). Gives the buffer.
  int DefineOver(Value value, const Layout& layout, int buffer) {
    if (buffer < 0) return Define(value, layout).buffer;
    DefineAt(value, buffer, layout);
    return buffer;
  }
  // The operand's memory can take the result of the current group: expendable, of that layout, and no other input of
  // the group lies there.
  bool CanOverwrite(Value operand, const Place& place, Value result, const Layout& layout) const;
  // The state whose next value it is, where the value can be written over the old one: row-major, of no other use, and
  // nothing but the current group still reads the state.
  std::optional<Value> NextValueOf(Value value, const Layout& layout) const;
  int StateBuffer(Value state) const { return places_.at(state).front().buffer; }
  // Makes the buffer the part of `whole` that begins `offset` bytes in, where nothing has claimed it yet and `bytes`
  // are all it has; false otherwise.
  bool ClaimPart(int buffer, size_t bytes, int whole, size_t offset);

  // ---- constants
  bool IsConstant(Value value) const { return graph_.IsKnown(value); }
  // The tensor of a constant value.
  absl::StatusOr<Tensor> ConstantTensor(Value value);
  // True if factors of products are packed now, rather than by each run.
  bool PacksFactors() const { return !options_.sparing; }
  // The memory of a constant buffer that is the graph's own weight, or a view of it; null: it is not.
  std::shared_ptr<void> WeightIn(int constant) const {
    return weights_.contains(constant) ? buffer(constant).data : nullptr;
  }

 private:
  absl::StatusOr<std::vector<FusedGroup>> OrderedGroups() const;
  // Computes what is small; of the rest notes the parts that are computed when something reads them.
  absl::Status FoldConstants();
  absl::Status Compute(const std::vector<Value>& values);
  // Frees what no group reads any more: elements that were computed, buffers that no step reads, pages of files.
  void ForgetConstant(Value value);
  // A constant as a view of a leaf's memory: what reshapes, transposes and slices of weights are. False for others.
  bool ConstantView(Value value, Tensor* base, Layout* layout, int64_t* offset) const;
  bool IsExpendable(Value value) const;
  // Returns whether nothing lies in its memory but `value` and views of it that are not read any more.
  bool IsAlone(Value value) const;
  absl::StatusOr<KernelPtr> Converter(const Layout& from, const Layout& to, DType dtype);
  // Returns whether the caller gets the value where it is in that layout.
  bool IsReturnedIn(Value value, const Layout& layout) const;
  // A buffer for the value in that layout: the one that the caller gets, where it has none yet.
  int AddResult(Value value, const Layout& layout);
  absl::Status Finish();
  // The next values of states, behind all other steps.
  absl::Status CommitStates();
  // The value in memory that no commit overwrites.
  absl::StatusOr<Place> FindBeside(Value value, Buffer::Kind kind);

  const std::shared_ptr<const DnnlContext> context_;
  const Graph& graph_;
  const LoweringOptions options_;
  const Group* current_ = nullptr;
  absl::flat_hash_map<Value, Tensor> folded_;
  std::vector<std::vector<Value>> parts_;                  // that are computed when they are read
  absl::flat_hash_map<Value, size_t> part_of_;             // by value
  std::set<int> weights_;                                  // see WeightIn
  absl::flat_hash_map<Value, std::vector<Place>> places_;  // the first is the primary one
  absl::flat_hash_map<Value, int> readers_;                // groups still to read it, and graph outputs
  std::map<int, std::vector<Value>> values_in_memory_;     // values by the root of the buffer they were placed in
  std::map<std::array<int64_t, 6>, int> packed_factors_;   // see PackedFactorOf
  std::set<int> concat_parts_;                             // buffers that lie in a concatenation
  std::set<Value> results_;                                // what the caller gets
  absl::flat_hash_map<Value, Value> states_of_;            // by next value, the first state that takes it
  std::set<Value> output_taken_;                           // those that have their buffer
};

}  // namespace rewright::cpu
