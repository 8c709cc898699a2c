#include "tools/library/sized_models.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "search/replay/resize.h"

namespace rewright {

SizedModels::SizedModels(OnnxModel source, ImportedModel original, const Engine& engine, int kept)
    : source_(std::move(source)),
      original_(std::move(original)),
      engine_(engine),
      kept_(static_cast<size_t>(std::max(1, kept))) {
  engine_.Use(original_);
}

absl::StatusOr<DimSizes> SizedModels::SizesOf(const std::vector<TensorType>& inputs) const {
  const Graph& graph = original_.graph;
  DimSizes dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& declared = graph.type(graph.inputs()[i]);
    const std::string where = absl::StrCat("input ", graph.node(graph.inputs()[i].node).name);
    if (inputs[i].dtype != declared.dtype || inputs[i].rank() != declared.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": found ", inputs[i].ToString(), ", expected ", declared.ToString()));
    }
    for (int axis = 0; axis < declared.rank(); ++axis) {
      const std::string& name = original_.dim_names[i][axis];
      const int64_t found = inputs[i].shape[axis];
      const int64_t expected = name.empty() ? declared.shape[axis] : dims.emplace(name, found).first->second;
      if (found != expected) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": axis ", axis, ": found size ", found, ", expected ",
                                                       expected, name.empty() ? "" : absl::StrCat(" for ", name)));
      }
      if (!name.empty() && found < 1) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": dimension ", name, " has size ", found));
      }
    }
  }
  return dims;
}

std::shared_ptr<const SizedModel> SizedModels::Find(const DimSizes& dims) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(models_.begin(), models_.end(), [&](const auto& model) { return model->dims == dims; });
  if (found == models_.end()) return nullptr;
  models_.splice(models_.begin(), models_, found);
  return models_.front();
}

absl::StatusOr<std::shared_ptr<const SizedModel>> SizedModels::At(const DimSizes& dims) {
  if (auto model = Find(dims)) return model;
  const std::lock_guard<std::mutex> making(making_);
  if (auto model = Find(dims)) return model;  // another thread has made it meanwhile
  ASSIGN_OR_RETURN(std::shared_ptr<const SizedModel> model, Make(dims));
  const std::lock_guard<std::mutex> lock(mutex_);
  models_.push_front(model);
  if (models_.size() > kept_) models_.pop_back();
  return model;
}

absl::StatusOr<std::shared_ptr<const SizedModel>> SizedModels::Make(const DimSizes& dims) {
  auto model = std::make_shared<SizedModel>();
  model->dims = dims;
  RETURN_IF_ERROR(FindGraph(model.get()));
  // Compiling may add nodes: to an arena that no other thread reads. The device onnxruntime adds none, and knows the
  // nodes of the file by the arena.
  const bool copied = engine_.onnxruntime() == nullptr;
  ASSIGN_OR_RETURN(model->executable, engine_.runner().Prepare(copied ? CopyGraph(model->graph) : model->graph));
  return model;
}

absl::Status SizedModels::FindGraph(SizedModel* model) {
  if (model->dims == original_.dims) {
    model->graph = path_ != nullptr ? path_->rewritten : original_.graph;
    return absl::OkStatus();
  }
  ImportOptions options;
  options.dims = model->dims;
  options.fold_defaults = original_.fold_defaults;
  options.keep_unknown = !original_.opaque.empty();
  options.keep_source = engine_.onnxruntime() != nullptr;
  ASSIGN_OR_RETURN(const ImportedModel resized, source_.Import(options));
  engine_.Use(resized);
  model->graph = resized.graph;
  model->source = resized.source;
  if (path_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Resized replayed, ReplayResized(path_->made, path_->steps, resized.graph, path_->rules));
  model->graph = replayed.graph;
  for (int step : replayed.left_out) model->left_out.push_back(path_->steps[step].rule);
  return absl::OkStatus();
}

absl::Status SizedModels::SetPath(const Graph& rewritten, std::vector<ReplayStep> steps, const RuleIndex& rules) {
  std::unique_ptr<const Path> path;
  if (!steps.empty()) {
    ASSIGN_OR_RETURN(Replay made, Replay::Run(original_.graph, steps, rules));
    path.reset(new Path{rewritten, std::move(steps), std::move(made), rules});
  }
  path_ = std::move(path);
  models_.clear();
  return absl::OkStatus();
}

std::function<absl::StatusOr<std::vector<int>>(const Replay&, const std::vector<ReplayStep>&)> SizedModels::KeepsNames(
    const RuleIndex& rules) {
  if (original_.dims.empty()) return nullptr;
  return [this, keeper = std::make_shared<NameKeeper>(source_, original_, rules)](
             const Replay& made, const std::vector<ReplayStep>& steps) {
    const std::lock_guard<std::mutex> making(making_);
    return keeper->StepsThatFixSizes(made, steps);
  };
}

absl::StatusOr<NamedModel> SizedModels::Names() {
  if (path_ == nullptr) return NamedModel();
  const std::lock_guard<std::mutex> making(making_);
  return NameKeeper(source_, original_, path_->rules).NameSizes(path_->made, path_->steps);
}

}  // namespace rewright
