// A value that may have been in a second tier of memory: a copy, as it lies. Where there is such a tier,
// runtime/offload puts copies there and back in the place of this one.
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// All bytes between the first element and the last are the tensor's, or padding.
bool FillsItsSpan(const Layout& layout) {
  if (!layout.IsPadded()) return layout.IsDense();
  Shape whole = layout.dims;
  whole[1] = (whole[1] + layout.block - 1) / layout.block * layout.block;
  return layout.Span() == NumElements(whole);
}

Layout FetchedLayout(const Layout& from) { return FillsItsSpan(from) ? from : Layout::RowMajor(from.dims); }

std::optional<Layout> ResultLayoutOf(const LayoutQuery& query) { return FetchedLayout(query.operand(0)); }

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Value x = lowering.graph().node(id).operands[0];
  ASSIGN_OR_RETURN(const Place found, lowering.Find(x));
  ASSIGN_OR_RETURN(const Place from, lowering.FindAs(x, FetchedLayout(found.layout)));
  const Place to = lowering.Define({id, 0}, from.layout);
  // Its readers get the layout that x has, so their kernels are those that read x itself.
  const Layout line = Layout::RowMajor({from.layout.Span()});
  lowering.Emit(MakeCopyKernel(line, 0, line, 0, DTypeSize(lowering.graph().type(x).dtype), lowering.threads()),
                {Lowering::Read(from.buffer), Lowering::Write(to.buffer)}, "fetch");
  return true;
}

}  // namespace

KernelEntry FetchEntry() { return {.ops = {ops::Fetch()}, .plan = Plan, .layout = ResultLayoutOf}; }

}  // namespace rewright::cpu
