#include "tools/library/sized_models.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "search/replay/resize.h"

namespace rewright {

SizedModels::SizedModels(SourceModel source, const Engine& engine, int kept)
    : source_(std::move(source)), engine_(engine), kept_(static_cast<size_t>(std::max(1, kept))) {
  engine_.Use(original());
}

absl::StatusOr<DimSizes> SizedModels::SizesOf(const std::vector<TensorType>& inputs) const {
  std::vector<const TensorType*> types;
  for (const TensorType& type : inputs) types.push_back(&type);
  return SizesOf(types);
}

absl::StatusOr<DimSizes> SizedModels::SizesOf(const std::vector<const TensorType*>& inputs) const {
  const Graph& graph = original().graph;
  DimSizes dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    const TensorType &declared = graph.type(graph.inputs()[i]), &given = *inputs[i];
    const std::string where = absl::StrCat("input ", graph.node(graph.inputs()[i].node).name);
    if (given.dtype != declared.dtype || given.rank() != declared.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": found ", given.ToString(), ", expected ", declared.ToString()));
    }
    for (int axis = 0; axis < declared.rank(); ++axis) {
      const std::string& name = original().dim_names[i][axis];
      const int64_t found = given.shape[axis];
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

absl::StatusOr<ImportedModel> SizedModels::OriginalAt(const DimSizes& dims) {
  const std::lock_guard<std::mutex> making(making_);
  return Read(dims, /*keep_source=*/true);
}

absl::StatusOr<Graph> SizedModels::Rewritten(const Graph& graph) const {
  if (path_ == nullptr) return graph;
  ASSIGN_OR_RETURN(Resized replayed, ReplayResized(path_->made, path_->steps, graph, path_->rules));
  return std::move(replayed.graph);
}

absl::StatusOr<ImportedModel> SizedModels::Read(const DimSizes& dims, bool keep_source) {
  ImportOptions options;
  options.dims = dims;
  options.fold_defaults = original().fold_defaults;
  options.keep_unknown = !original().opaque.empty();
  options.keep_source = keep_source;
  ASSIGN_OR_RETURN(ImportedModel read, source_.contents.Import(options));
  engine_.Use(read);
  return read;
}

std::vector<Shape> SizedModels::InputShapes(const DimSizes& dims) const {
  const Graph& graph = original().graph;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    Shape& shape = shapes.emplace_back(graph.type(graph.inputs()[i]).shape);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const auto given = dims.find(original().dim_names[i][axis]);
      if (given != dims.end()) shape[axis] = given->second;
    }
  }
  return shapes;
}

std::vector<SizeRelation> SizedModels::Relations() {
  const std::lock_guard<std::mutex> making(making_);
  return RelationsOf(source_.contents, original());
}

absl::StatusOr<std::shared_ptr<const SizedModel>> SizedModels::Make(const DimSizes& dims) {
  auto model = std::make_shared<SizedModel>();
  model->dims = dims;
  RETURN_IF_ERROR(FindGraph(model.get()));
  // Compiling may add nodes: to an arena that no other thread reads. Another runtime adds none, and knows the nodes of
  // the file by the arena.
  const bool copied = engine_.file_device() == nullptr;
  ASSIGN_OR_RETURN(model->executable, engine_.runner().Prepare(copied ? CopyGraph(model->graph) : model->graph));
  return model;
}

absl::Status SizedModels::FindGraph(SizedModel* model) {
  if (model->dims == original().dims) {
    model->graph = path_ != nullptr ? path_->rewritten : original().graph;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ImportedModel resized, Read(model->dims, engine_.file_device() != nullptr));
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
    ASSIGN_OR_RETURN(Replay made, Replay::Run(original().graph, steps, rules));
    path.reset(new Path{rewritten, std::move(steps), std::move(made), rules});
  }
  path_ = std::move(path);
  models_.clear();
  return absl::OkStatus();
}

}  // namespace rewright
