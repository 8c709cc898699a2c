#include "backends/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "backends/cpu/codegen/jit.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/lower/context_layout.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/measure.h"
#include "backends/cpu/simd/split.h"
#include "core/base/status_macros.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// Raised when fusion changes, so that times measured before are not used; kernels have versions of their own.
constexpr int kFusionVersion = 10;
// A kernel's measurement ends early once it takes this many times as long as the best one: disturbances of a sample are
// smaller than that.
constexpr double kClearlySlower = 1.3;
// A few runs do not tell apart what differs by less.
constexpr double kAlike = 1.07;
// Operations of a group that is worth a choice between a fold and its parts.
constexpr double kLeastFoldOperations = 1 << 23;

class CpuDevice : public Device {
 public:
  CpuDevice(std::shared_ptr<const DnnlContext> context, std::shared_ptr<ProfileDb> profile)
      : context_(std::move(context)), layouts_(context_) {
    const dnnl_version_t* version = dnnl_version();
    name_ =
        absl::StrCat("cpu (", ProcessorName(), ", ", Simd().name, MultipliesBf16() ? " with bf16" : "", ", oneDNN ",
                     version->major, ".", version->minor, ".", version->patch, ", kernels ", kFusionVersion, ".",
                     KernelListVersion(), HasLoopCompiler() ? " with loops" : "", ", threads ", context_->threads,
                     SplitProducts() != nullptr && !context_->tiles ? ", no tiles)" : ")");
    costs_.emplace(name_, std::move(profile));
  }

  std::string name() const override { return name_; }

  std::vector<Group> Partition(const Graph& graph) const override { return layouts_.GroupsOf(graph); }

  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override {
    if (IsForeign(graph.node(group.nodes[0]))) return 0;  // whatever is done around it, it is run as it is
    const std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(const Choice choice, Choose(graph, group));
    return choice.seconds;
  }

  absl::StatusOr<std::string> LawOf(const Graph& graph, const Group& group) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(std::string law, LawToRun(graph, group));
    return law == kTilesWay || law == kChannelsLastWay ? std::string() : law;
  }

  uint64_t CostContext(const Graph& graph, const Group& group) override { return layouts_.HashOf(graph, group); }

  double PeakFlops() const override { return MeasureMultiplyAdds(context_->threads); }
  double PeakBytesPerSecond(int64_t bytes) const override { return MeasureLoads(bytes, context_->threads); }

  absl::StatusOr<Schedule> Compile(const Graph& graph) override { return Lowered(graph, LoweringOptions()); }
  absl::StatusOr<Schedule> CompileSparing(const Graph& graph) override {
    LoweringOptions options;
    options.sparing = true;
    return Lowered(graph, std::move(options));
  }

 private:
  absl::StatusOr<Schedule> Lowered(const Graph& graph, LoweringOptions options) {
    const ThreadScope threads(context_->threads);
    if (context_->allowed_rewrites != nullptr) {
      options.law_of = [&](const FusedGroup& group) -> absl::StatusOr<std::string> {
        // For a few runs nothing is measured: a fold takes the least memory, and all else runs as its operators say.
        if (options.sparing) return std::string(group.kind == FusedGroup::Kind::kFold ? kFoldLaw : "");
        const std::lock_guard<std::mutex> lock(mutex_);
        if (WaysOf(graph, group).empty()) return std::string();
        return LawToRun(graph, group.group);
      };
    }
    return Guarded([&] { return Lowering(context_, graph, options).Run(); });
  }

  // The fastest way to compute a group.
  struct Choice {
    std::string law;  // or way; empty: as its operators say
    double seconds = 0;
  };

  // Requires the mutex.
  absl::StatusOr<Choice> Choose(const Graph& graph, const Group& group) {
    const std::string signature = layouts_.SignatureOf(graph, group);
    if (const auto found = choices_.find(signature); found != choices_.end()) return found->second;
    const std::vector<std::string> laws = Laws(graph, group);
    if (!laws.empty() && WeightsChange(graph, group)) {
      ASSIGN_OR_RETURN(const double seconds, Measured(graph, group, signature, {laws[0], /*cold=*/true}));
      return choices_[signature] = {laws[0], seconds};
    }
    Choice best;
    absl::Status too_large;
    ASSIGN_OR_RETURN(best.seconds, MeasuredIfItFits(graph, group, signature, {"", /*cold=*/!laws.empty()}, &too_large));
    for (const std::string& law : laws) {
      const MeasureOptions how{law, /*cold=*/true, /*enough=*/kClearlySlower * best.seconds};
      ASSIGN_OR_RETURN(const double seconds, MeasuredIfItFits(graph, group, signature, how, &too_large));
      if (seconds < best.seconds) best = {law, seconds};
    }
    if (std::isinf(best.seconds)) return too_large;
    return choices_[signature] = best;
  }

  // The law by which a group runs: by its costs where they are known, as when a profile of an optimization is given,
  // else by a few runs of each kernel. Requires the mutex.
  absl::StatusOr<std::string> LawToRun(const Graph& graph, const Group& group) {
    const std::vector<std::string> laws = Laws(graph, group);
    if (laws.empty()) return std::string();
    if (WeightsChange(graph, group)) return laws[0];
    const std::string signature = layouts_.SignatureOf(graph, group);
    if (const auto found = laws_to_run_.find(signature); found != laws_to_run_.end()) return found->second;
    std::vector<MeasureOptions> ways = {{"", /*cold=*/true}};
    for (const std::string& law : laws) ways.push_back({law, /*cold=*/true});
    bool known = true;
    for (const MeasureOptions& how : ways) {
      ASSIGN_OR_RETURN(const std::optional<double> seconds, costs_->Find(KeyOf(signature, how)));
      known = known && seconds.has_value();
    }
    std::vector<double> seconds;
    absl::Status too_large;
    for (MeasureOptions& how : ways) {
      how.brief = !known;
      ASSIGN_OR_RETURN(seconds.emplace_back(), MeasuredIfItFits(graph, group, signature, how, &too_large));
    }
    if (std::isinf(*std::min_element(seconds.begin(), seconds.end()))) return too_large;
    return laws_to_run_[signature] = ways[KernelToRun(seconds, known)].law;
  }

  std::vector<std::string> Laws(const Graph& graph, const Group& group) {
    if (context_->allowed_rewrites == nullptr) return {};
    const bool is_conv = graph.node(group.nodes[0]).op == ops::Conv2d();
    if (!is_conv && (context_->folds == nullptr || group.nodes.size() == 1)) return {};
    const std::optional<FusedGroup> fused = layouts_.FusedOf(graph, group);
    return fused ? WaysOf(graph, *fused) : std::vector<std::string>();
  }

  // Laws, and behind them ways that need none.
  std::vector<std::string> WaysOf(const Graph& graph, const FusedGroup& group) {
    std::vector<std::string> all = OtherWays(*context_, graph, group);
    for (std::string& law : AllowedLaws(*context_, graph, group)) all.push_back(std::move(law));
    return all;
  }

  // A convolution in training: what runs must not depend on what was measured, or a resumed run would round otherwise.
  static bool WeightsChange(const Graph& graph, const Group& group) {
    const Node& first = graph.node(group.nodes[0]);
    return first.op == ops::Conv2d() && !graph.IsKnown(first.operands[1]);
  }

  static std::string KeyOf(const std::string& signature, const MeasureOptions& how) {
    return absl::StrCat(signature, how.law.empty() ? "" : " by ", how.law, how.cold ? " cold" : "",
                        how.brief ? " briefly" : "");
  }

  // Infinity, and the error in `too_large`, where there is too little memory: another way may take less.
  absl::StatusOr<double> MeasuredIfItFits(const Graph& graph, const Group& group, const std::string& signature,
                                          const MeasureOptions& how, absl::Status* too_large) {
    absl::StatusOr<double> seconds = Measured(graph, group, signature, how);
    if (seconds.ok() || !absl::IsResourceExhausted(seconds.status())) return seconds;
    *too_large = seconds.status();
    return std::numeric_limits<double>::infinity();
  }

  absl::StatusOr<double> Measured(const Graph& graph, const Group& group, const std::string& signature,
                                  const MeasureOptions& how) {
    const auto measure = [&] {
      const ThreadScope threads(context_->threads);
      return Guarded([&] {
        if (!probe_) probe_.emplace(context_->threads);
        return MeasureGroup(context_, graph, group, layouts_, *probe_, how);
      });
    };
    return costs_->Of(KeyOf(signature, how), measure, /*needed=*/how.brief);
  }

  const std::shared_ptr<const DnnlContext> context_;
  std::string name_;
  mutable CpuLayouts layouts_;  // which remember what they said
  std::mutex mutex_;            // of what follows
  std::optional<MeasuredCosts> costs_;
  absl::flat_hash_map<std::string, Choice> choices_;           // by signature
  absl::flat_hash_map<std::string, std::string> laws_to_run_;  // likewise
  std::optional<NoiseProbe> probe_;
};

}  // namespace

size_t KernelToRun(const std::vector<double>& seconds, bool exact) {
  const auto fastest = std::min_element(seconds.begin(), seconds.end());
  if (exact) return static_cast<size_t>(fastest - seconds.begin());
  const auto first =
      std::find_if(seconds.begin(), seconds.end(), [&](double kernel) { return kernel <= kAlike * *fastest; });
  return static_cast<size_t>(first - seconds.begin());
}

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const DeviceOptions& options) {
  auto context = std::make_shared<DnnlContext>();
  const absl::StatusOr<bool> made = CatchDnnl("cpu", [&] {
    context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
    return true;
  });
  if (!made.ok()) return made.status();
  context->block = Simd().lanes < 16 ? 8 : 16;
  context->allowed_rewrites = options.allowed_rewrites;
  if (options.allowed_rewrites != nullptr) {
    context->folds = std::make_shared<const GroupFolds>(options.allowed_rewrites, kLeastFoldOperations);
  }
  context->opaque = options.opaque;
  context->tiles = options.tiles;
  context->threads = options.NumThreads();
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(std::move(context), options.profile));
}

}  // namespace rewright::cpu
