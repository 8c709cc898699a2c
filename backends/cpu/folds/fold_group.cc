// Block programs of folds (core/fold/block_program.h): an iteration is a strip of rows and a block of the loop, whose
// values lie in the first level of cache. Right factors of products are packed into panels once, for all rows, and as
// long as the loop is; nothing else grows with it.
//
// Threads share the parallel positions and blocks of rows. A block of the loop serves all strips of a block of rows.
//
// Where a result or a number that was carried is not finite, the strip is computed anew, one pass for each carried
// number with the final values of those before it: as the operators say, without repairs. So rows that begin with
// -infinity throughout a block are exact.
//
// Where the processor has tiles of bf16, products run there, of numbers split in three parts (simd/split.h). Magnitudes
// are looked at wherever numbers are split. Where those of a read are beyond what parts are exact for, the whole fold
// is computed anew by products of f32; where those of a body are, its strip.
#include <omp.h>

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/folds/fold_packing.h"
#include "backends/cpu/folds/fold_plan.h"
#include "backends/cpu/folds/fold_worker.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/split.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

class FoldKernel : public Kernel {
 public:
  // `plain`: a plan that splits nothing, for where `plan` does and numbers are beyond that.
  FoldKernel(FoldPlan plan, std::optional<FoldPlan> plain) : plan_(std::move(plan)), plain_(std::move(plain)) {}

  // Buffers: the operands, scratch space, the result.
  absl::Status Run(void* const* buffers, RunContext&) const override {
    if (!RunPlan(plan_, buffers)) RunPlan(*plain_, buffers);
    return absl::OkStatus();
  }

 private:
  // False if numbers are beyond what the plan computes exactly.
  static bool RunPlan(const FoldPlan& plan, void* const* buffers) {
    float* const scratch = static_cast<float*>(buffers[plan.num_operands]);
    std::atomic<bool> is_exact = true;
    const auto run = [&](int64_t me, int64_t all) {
      const int64_t blocks = plan.blocks();
      for (const PackedFold& factor : plan.packed) {
        const int64_t units = static_cast<int64_t>(factor.starts.size()) * blocks;
        for (int64_t unit = units * me / all; unit < units * (me + 1) / all; ++unit) {
          if (!PackFactor(plan, factor, buffers, scratch, unit / blocks, unit % blocks)) is_exact = false;
        }
      }
      for (const RangedRead& read : plan.ranged) {
        const int64_t units = static_cast<int64_t>(read.starts.size()) * plan.strips();
        for (int64_t unit = units * me / all; unit < units * (me + 1) / all; ++unit) {
          FindRanges(plan, read, buffers, scratch, unit);
        }
      }
      if (all > 1) {
#pragma omp barrier
      }
      FoldWorker worker(plan, buffers, scratch, static_cast<int>(me));
      for (int64_t task = plan.tasks() * me / all; task < plan.tasks() * (me + 1) / all && is_exact; ++task) {
        if (!worker.RunTask(task / plan.row_blocks(), task % plan.row_blocks() * plan.row_block)) is_exact = false;
      }
    };
    if (plan.threads <= 1) {
      run(0, 1);
    } else {
#pragma omp parallel num_threads(plan.threads)
      run(omp_get_thread_num(), omp_get_num_threads());
    }
    return is_exact;
  }

  const FoldPlan plan_;
  const std::optional<FoldPlan> plain_;
};

std::vector<std::string> FoldLaws(const DnnlContext& context, const Graph&, const FusedGroup& group) {
  if (context.allowed_rewrites == nullptr || group.kind != FusedGroup::Kind::kFold) return {};
  return {kFoldLaw};
}

// It lies as that of its last part does.
std::optional<Layout> FoldLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kFold) return std::nullopt;
  return ProductLayout(query.graph, query.group.parts.back(), query.value);
}

absl::StatusOr<bool> PlanFoldGroup(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kFold) return false;
  const Graph& graph = lowering.graph();
  const Value out = group.group.outputs[0];
  std::vector<Layout> layouts;
  std::vector<BufferUse> buffers;
  for (const int input : group.fold->inputs) {
    ASSIGN_OR_RETURN(const Place place, lowering.FindPlain(group.group.inputs[static_cast<size_t>(input)]));
    layouts.push_back(place.layout);
    buffers.push_back(Lowering::Read(place.buffer));
  }
  const Layout layout = lowering.LayoutOf(group, out);
  const auto plan_of = [&](bool splits) { return PlanFold(*group.fold, layouts, layout, lowering.threads(), splits); };
  FoldPlan plan = plan_of(SplitProducts() != nullptr && lowering.context()->tiles);
  std::optional<FoldPlan> plain;
  if (plan.splits) plain = plan_of(false);
  const int64_t floats = std::max(plan.scratch_floats(), plain ? plain->scratch_floats() : 0);
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(static_cast<size_t>(floats) * sizeof(float))));
  buffers.push_back(Lowering::Write(lowering.Define(out, layout).buffer));
  lowering.Emit(std::make_unique<FoldKernel>(std::move(plan), std::move(plain)), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (by ", kFoldLaw, ")"));
  return true;
}

}  // namespace

KernelEntry FoldGroupEntry() { return {.ops = {}, .plan = PlanFoldGroup, .layout = FoldLayout, .laws = FoldLaws}; }

}  // namespace rewright::cpu
