// The public face: values of the caller in, errors out as exceptions.
#include "tools/library/rewright/rewright.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/data_file.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "core/onnx/model_file.h"
#include "core/onnx/onnx.h"
#include "substitutions/language/rule.h"
#include "substitutions/language/rule_parser.h"
#include "tools/library/border.h"
#include "tools/library/engine.h"
#include "tools/library/growing_model.h"
#include "tools/library/optimize_model.h"
#include "tools/library/settings.h"
#include "tools/library/sized_models.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

// Both count in the same order.
static_assert(static_cast<int>(ElementType::kUInt64) == static_cast<int>(DType::kUInt64));

DType DTypeOf(ElementType type) {
  const auto dtype = static_cast<DType>(type);
  if (std::find(std::begin(kAllDTypes), std::end(kAllDTypes), dtype) == std::end(kAllDTypes)) {
    Throw(absl::InvalidArgumentError(absl::StrCat("element type ", static_cast<int>(type), " is unknown")));
  }
  return dtype;
}

ElementType ElementTypeFrom(DType type) { return static_cast<ElementType>(type); }

// oneDNN and what else asks OpenMP take the number of threads from the calling thread.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    if (threads > 0) omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;

 private:
  const int before_;
};

template <typename View>
TensorType TypeOf(const View& view) {
  TensorType type{DTypeOf(view.type), view.shape};
  const absl::StatusOr<int64_t> elements = CheckedElements(view.shape);
  if (!elements.ok()) Throw(absl::InvalidArgumentError(absl::StrCat(view.name, ": ", elements.status().message())));
  return type;
}

// The caller's memory as a tensor; where it is not aligned to its elements, a copy.
Tensor TensorOf(const InputView& view) {
  TensorType type = TypeOf(view);
  if (type.num_bytes() == 0) return Tensor(type);
  if (view.data == nullptr) Throw(absl::InvalidArgumentError(absl::StrCat("input ", view.name, " has no data")));
  if (reinterpret_cast<uintptr_t>(view.data) % DTypeSize(type.dtype) == 0) {
    return Tensor(type, nullptr, const_cast<void*>(view.data));  // a run only reads it
  }
  Tensor copy(type);
  std::memcpy(copy.data(), view.data, static_cast<size_t>(copy.num_bytes()));
  return copy;
}

// Tells of phases, and of a search ten times a second.
OptimizeObserver ObserverOf(const std::function<void(const OptimizeProgress&)>& progress) {
  OptimizeObserver observer;
  if (!progress) return observer;
  const auto now = std::make_shared<OptimizeProgress>();
  const auto told = std::make_shared<absl::Time>();
  observer.phase = [=](const std::string& phase) {
    now->phase = phase;
    progress(*now);
  };
  observer.progress = [=](const SearchProgress& search) {
    now->graphs = search.steps;
    now->cost_before = search.first_cost;
    now->cost_best = search.best_cost;
    if (absl::Now() - *told < absl::Milliseconds(100)) return;
    *told = absl::Now();
    progress(*now);
  };
  return observer;
}

OptimizeSummary SummaryOf(const OptimizedModel& result) {
  const OptimizeReport& report = result.report;
  OptimizeSummary summary;
  summary.rewritten = report.rewritten;
  summary.verdict = report.verdict;
  summary.seconds_before = report.latency_before.value_or(0);
  summary.seconds_after = report.latency_after.value_or(0);
  summary.checked = report.check.done;
  summary.max_abs_diff = report.check.max_abs_diff;
  summary.max_rel_diff = report.check.max_rel_diff;
  if (result.proof) {
    summary.proved = result.proof->proved;
    summary.proof = result.proof->text;
  }
  for (const RewriteCount& rewrite : report.rewrites) summary.rewrites.emplace_back(rewrite.rule, rewrite.count);
  return summary;
}

RuleJudgement Judged(const Rule& rule, double time_limit_seconds, StopFlag stop) {
  RuleProofOptions options;
  options.stop = stop;
  options.work_limit_s = time_limit_seconds;
  options.use = RuleUse::kProof;
  const RuleVerdict verdict = ProveRule(rule, options);
  RuleJudgement judgement{rule.name, VerdictName(verdict.verdict), "", verdict.domain};
  if (verdict.verdict == Verdict::kProved) judgement.rule_class = RuleClassName(verdict.rule_class);
  if (verdict.verdict == Verdict::kUnknown) judgement.explanation = verdict.reason;
  if (verdict.verdict == Verdict::kRefuted) judgement.explanation = verdict.witness;
  return judgement;
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
Error::~Error() = default;

struct StopWhen::Impl {
  explicit Impl(std::function<bool()> asked) : stopped(std::move(asked)), scope(stopped) {}
  const std::function<bool()> stopped;
  const StopScope scope;
};

StopWhen::StopWhen(std::function<bool()> stopped) : impl_(std::make_unique<Impl>(std::move(stopped))) {}
StopWhen::~StopWhen() = default;

size_t OutputArray::size() const { return static_cast<size_t>(NumElements(shape)); }

void OutputArray::CheckType(ElementType wanted) const {
  if (wanted == type) return;
  throw Error(ErrorCode::kInvalidInput,
              absl::StrCat("output ", name, ": found elements of type ", DTypeName(DTypeOf(type)), ", asked for ",
                           DTypeName(DTypeOf(wanted))));
}

void SetDataFolder(const std::string& folder) {
  Call([&] { UseDataFolder(folder); });
}

struct Model::Impl {
  ModelOptions options;
  Engine engine;
  std::unique_ptr<SizedModels> models;
  OptimizedModel optimized;                   // by the last optimization
  std::map<std::string, InputView> defaults;  // their elements are the original's

  const ImportedModel& original() const { return models->original(); }
  const Graph& graph() const { return original().graph; }

  static std::unique_ptr<Impl> Make(ModelFile file, OnnxModel contents, const ModelOptions& options) {
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    const ImportOptions reading = OptionsToRead(options.dims, options.device, options.fold_defaults);
    SourceModel source = Take(ReadSource(std::move(file), std::move(contents), reading));
    impl->engine = Take(Engine::Open(options.device, options.threads, options.profile, options.precision,
                                     options.disabled_kernel_rules));
    impl->models = std::make_unique<SizedModels>(std::move(source), impl->engine, options.cached_sizes);
    for (const auto& [name, tensor] : impl->original().metadata.defaults) {
      impl->defaults[name] = {name, ElementTypeFrom(tensor.dtype()), tensor.shape(), tensor.data()};
    }
    return impl;
  }

  // Views in the order of the model's inputs; null for those that `kept` says are not given by the caller.
  std::vector<const InputView*> InOrder(const std::vector<InputView>& views,
                                        const std::function<bool(size_t)>& kept = nullptr) const {
    std::vector<const InputView*> ordered(graph().inputs().size(), nullptr);
    for (const InputView& view : views) {
      const auto at = std::find_if(graph().inputs().begin(), graph().inputs().end(),
                                   [&](Value input) { return graph().node(input.node).name == view.name; });
      if (at == graph().inputs().end()) {
        Throw(absl::InvalidArgumentError(absl::StrCat("the model has no input `", view.name, "`")));
      }
      const InputView*& place = ordered[at - graph().inputs().begin()];
      if (place != nullptr) Throw(absl::InvalidArgumentError(absl::StrCat("input ", view.name, " is given twice")));
      place = &view;
    }
    for (size_t i = 0; i < ordered.size(); ++i) {
      const bool is_kept = kept && kept(i);
      const std::string& name = graph().node(graph().inputs()[i].node).name;
      if (is_kept && ordered[i] != nullptr) {
        Throw(absl::InvalidArgumentError(absl::StrCat("input ", name, " is a state of the session, and is not given")));
      }
      if (is_kept || ordered[i] != nullptr) continue;
      const auto given = defaults.find(name);
      if (given == defaults.end()) Throw(absl::InvalidArgumentError(absl::StrCat("input ", name, " is not given")));
      ordered[i] = &given->second;
    }
    return ordered;
  }

  std::shared_ptr<const SizedModel> At(const std::vector<const InputView*>& views) const {
    std::vector<TensorType> types;
    for (const InputView* view : views) types.push_back(TypeOf(*view));
    return Take(models->At(Take(models->SizesOf(types))));
  }

  std::vector<Tensor> Run(const std::vector<InputView>& views, const std::vector<OutputView>& wanted) const {
    const std::vector<const InputView*> ordered = InOrder(views);
    std::vector<Tensor> inputs;
    for (const InputView* view : ordered) inputs.push_back(TensorOf(*view));
    const std::shared_ptr<const SizedModel> model = At(ordered);
    std::vector<Tensor> outputs(graph().outputs().size());
    std::vector<std::pair<size_t, const OutputView*>> places;
    for (const OutputView& view : wanted) {
      const size_t i = PlaceOf(view, *model, &outputs);
      places.emplace_back(i, &view);
    }
    Take(model->executable->Run(inputs, &outputs));
    // An output that shares memory with an input or a weight is elsewhere.
    for (const auto& [i, view] : places) {
      if (outputs[i].data() != view->data && outputs[i].num_bytes() > 0) {
        std::memcpy(view->data, outputs[i].data(), static_cast<size_t>(outputs[i].num_bytes()));
      }
    }
    return outputs;
  }

  // The number of the output; the caller's memory for it goes into `outputs`.
  size_t PlaceOf(const OutputView& view, const SizedModel& model, std::vector<Tensor>* outputs) const {
    const std::vector<Output>& all = model.graph.outputs();
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const Output& output) { return output.name == view.name; });
    if (at == all.end()) Throw(absl::InvalidArgumentError(absl::StrCat("the model has no output `", view.name, "`")));
    const TensorType& expected = model.graph.type(at->value);
    const TensorType type = TypeOf(view);
    if (type != expected) {
      Throw(absl::InvalidArgumentError(
          absl::StrCat("output ", view.name, ": found ", type.ToString(), ", expected ", expected.ToString())));
    }
    if (view.data == nullptr && type.num_bytes() > 0) {
      Throw(absl::InvalidArgumentError(absl::StrCat("output ", view.name, " has no memory")));
    }
    const size_t i = at - all.begin();
    if (reinterpret_cast<uintptr_t>(view.data) % DTypeSize(type.dtype) == 0) {
      (*outputs)[i] = Tensor(type, nullptr, view.data);
    }
    return i;
  }

  OptimizeSummary Optimize(const OptimizeSettings& settings) {
    CheckSettings(settings);
    const TimeLimit limit(settings.time_limit_seconds > 0 ? settings.time_limit_seconds : HUGE_VAL);
    const OptimizerRules rules = Take(LoadOptimizerRules(settings));
    OptimizedModel result =
        Take(OptimizeModel(models->source(), rules, engine, settings, limit, ObserverOf(settings.progress)));
    const OptimizeReport& report = result.report;
    std::vector<ReplayStep> steps;
    if (report.rewritten) steps = Take(MakeReplay(graph(), report.search.trace, report.path, rules.all));
    Take(models->SetPath(report.graph, std::move(steps), rules.all));
    result.report.search = SearchResult();  // graphs that nobody asks for any more
    result.written.read.reset();
    optimized = std::move(result);
    return SummaryOf(optimized);
  }
};

namespace {

OutputArray ArrayOf(const std::string& name, const Tensor& tensor) {
  const auto shared = std::make_shared<const Tensor>(tensor);
  return {name, ElementTypeFrom(tensor.dtype()), tensor.shape(), std::shared_ptr<const void>(shared, shared->data())};
}

}  // namespace

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::Load(const std::string& path, const ModelOptions& options) {
  return Call([&] {
    CheckSettings(options);
    const ThreadCount threads(options.threads);
    ModelFile file = Take(ModelFile::Open(path));
    return Model(Impl::Make(std::move(file), Take(OnnxModel::Open(path)), options));
  });
}

Model Model::FromBytes(const void* data, size_t size, const ModelOptions& options) {
  return Call([&] {
    CheckSettings(options);
    const ThreadCount threads(options.threads);
    std::string bytes(static_cast<const char*>(data), size);
    OnnxModel contents = Take(OnnxModel::FromBytes(bytes, "model", ""));
    return Model(Impl::Make(ModelFile::OfBytes(std::move(bytes)), std::move(contents), options));
  });
}

std::vector<TensorInfo> Model::inputs() const {
  return Call([&] {
    std::vector<TensorInfo> infos;
    for (Value input : impl_->graph().inputs()) {
      const TensorType& type = impl_->graph().type(input);
      infos.push_back({impl_->graph().node(input.node).name, ElementTypeFrom(type.dtype), type.shape,
                       impl_->original().dim_names[infos.size()]});
    }
    return infos;
  });
}

std::vector<TensorInfo> Model::outputs() const {
  return Call([&] {
    std::vector<TensorInfo> infos;
    for (const Output& output : impl_->graph().outputs()) {
      const TensorType& type = impl_->graph().type(output.value);
      infos.push_back({output.name, ElementTypeFrom(type.dtype), type.shape, {}});
    }
    return infos;
  });
}

std::map<std::string, int64_t> Model::dims() const {
  return Call([&] { return impl_->original().dims; });
}

std::vector<std::string> Model::notes() const {
  return Call([&] { return impl_->original().notes; });
}

OptimizeSummary Model::Optimize(const OptimizeSettings& settings) {
  return Call([&] {
    const ThreadCount threads(impl_->options.threads);
    return impl_->Optimize(settings);
  });
}

std::vector<OutputArray> Model::Run(const std::vector<InputView>& inputs) const {
  return Call([&] {
    const ThreadCount threads(impl_->options.threads);
    std::vector<OutputArray> arrays;
    for (const Tensor& tensor : impl_->Run(inputs, {})) {
      arrays.push_back(ArrayOf(impl_->graph().outputs()[arrays.size()].name, tensor));
    }
    return arrays;
  });
}

void Model::Run(const std::vector<InputView>& inputs, const std::vector<OutputView>& outputs) const {
  Call([&] {
    const ThreadCount threads(impl_->options.threads);
    impl_->Run(inputs, outputs);
  });
}

SizeSummary Model::Prepare(const std::vector<InputView>& inputs) const {
  return Call([&] {
    const ThreadCount threads(impl_->options.threads);
    const std::shared_ptr<const SizedModel> model = impl_->At(impl_->InOrder(inputs));
    return SizeSummary{model->dims, model->graph.num_runtime_nodes(), model->left_out};
  });
}

struct GrowingSession::Impl {
  const Model::Impl* model = nullptr;
  std::unique_ptr<GrowingModel> growing;
};

GrowingSession::GrowingSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrowingSession::GrowingSession(GrowingSession&&) noexcept = default;
GrowingSession& GrowingSession::operator=(GrowingSession&&) noexcept = default;
GrowingSession::~GrowingSession() = default;

GrowingSession Model::MakeSession(const std::map<std::string, std::string>& states, int64_t capacity) const {
  CheckSetting("capacity", static_cast<double>(capacity), kCapacityRange);
  return Call([&] {
    auto impl = std::make_unique<GrowingSession::Impl>();
    impl->model = impl_.get();
    impl->growing = Take(GrowingModel::Make(*impl_->models, impl_->engine, states, capacity));
    return GrowingSession(std::move(impl));
  });
}

std::vector<OutputArray> GrowingSession::Run(const std::vector<InputView>& inputs) {
  return Call([&] {
    const ThreadCount threads(impl_->model->options.threads);
    GrowingModel& growing = *impl_->growing;
    std::vector<Tensor> tensors;
    for (const InputView* view : impl_->model->InOrder(inputs, [&](size_t input) { return growing.IsState(input); })) {
      tensors.push_back(view == nullptr ? Tensor() : TensorOf(*view));
    }
    std::vector<OutputArray> arrays;
    for (const auto& [number, tensor] : Take(growing.Run(tensors))) {
      arrays.push_back(ArrayOf(impl_->model->graph().outputs()[number].name, tensor));
    }
    return arrays;
  });
}

int64_t GrowingSession::length() const {
  return Call([&] { return impl_->growing->length(); });
}

OutputArray GrowingSession::State(const std::string& input) const {
  return Call([&] { return ArrayOf(input, Take(impl_->growing->Read(input))); });
}

void GrowingSession::Clear() {
  Call([&] { impl_->growing->Clear(); });
}

void Model::Save(const std::string& path) const {
  Call([&] {
    const ThreadCount threads(impl_->options.threads);
    Take(WriteOptimized(impl_->models->source(), impl_->optimized, path));
  });
}

std::vector<RuleJudgement> VerifyRules(const std::string& text, double time_limit_seconds, StopFlag stop) {
  return Call([&] {
    CheckSetting("time_limit_seconds", time_limit_seconds, kProofSecondsRange);
    const std::vector<ParsedRule> parsed = ParseEachRule(text, "text");
    // Where it does not begin with a rule, the reader of whole texts says what is wrong.
    if (parsed.empty()) Take(ParseRules(text, "text").status());
    std::vector<RuleJudgement> judgements;
    for (const ParsedRule& one : parsed) {
      ThrowIfStopped(stop);
      if (one.rule.ok()) {
        judgements.push_back(Judged(*one.rule, time_limit_seconds, stop));
      } else {
        judgements.push_back({one.name, "error", "", std::string(one.rule.status().message())});
      }
    }
    ThrowIfStopped(stop);
    return judgements;
  });
}

}  // namespace rewright
