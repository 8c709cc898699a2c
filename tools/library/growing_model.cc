#include "tools/library/growing_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

constexpr int64_t kFirstCapacity = 80;
constexpr int64_t kLeastPast = 38;  // at that capacity

// A model at two other pasts shows what grows. Sizes of models are seldom primes, and seldom multiples of the first
// capacity. Constants of few elements are folded while a model is read: at lengths that are alike, the same ones.
std::vector<std::vector<int64_t>> SamplesBelow(int64_t past) {
  const auto is_prime = [](int64_t n) {
    for (int64_t k = 2; k * k <= n; ++k) {
      if (n % k == 0) return false;
    }
    return true;
  };
  std::vector<int64_t> primes;
  for (int64_t n = past - 1; primes.size() < 2; --n) {
    if (is_prime(n)) primes.push_back(n);
  }
  return {primes, {29, 37}};
}

// Copies the first rows along an axis from one tensor to another that differs in their number.
void CopyRows(const Tensor& from, int axis, int64_t rows, Tensor* to) {
  int64_t outer = 1, row = static_cast<int64_t>(DTypeSize(from.dtype()));
  for (int k = 0; k < from.type().rank(); ++k) {
    if (k < axis) outer *= from.shape()[k];
    if (k > axis) row *= from.shape()[k];
  }
  for (int64_t i = 0; i < outer; ++i) {
    std::memcpy(to->as<char>() + i * to->shape()[axis] * row, from.as<char>() + i * from.shape()[axis] * row,
                static_cast<size_t>(rows * row));
  }
}

absl::StatusOr<Tensor> WithRows(const Tensor& from, int axis, int64_t kept, int64_t rows) {
  TensorType type = from.type();
  type.shape[axis] = rows;
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, "rows of a state"));
  CopyRows(from, axis, kept, &tensor);
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrowingModel>> GrowingModel::Make(SizedModels& models, const Engine& engine,
                                                                 StateNames states, int64_t capacity) {
  Device* const device = engine.device();
  if (device != nullptr && (engine.file_device() != nullptr || !device->runs() || device->memory() != nullptr)) {
    return absl::InvalidArgumentError("states: found another device, expected cpu or reference");
  }
  std::unique_ptr<GrowingModel> model(new GrowingModel(models, engine, std::move(states)));
  RETURN_IF_ERROR(model->FindAxes());
  model->capacity_ = capacity;
  return model;
}

absl::Status GrowingModel::FindAxes() {
  const ImportedModel& original = models_.original();
  ASSIGN_OR_RETURN(const auto appends, FindAppends(original.graph, states_));
  for (size_t i = 0; i < original.graph.inputs().size(); ++i) {
    const std::string& name = original.graph.node(original.graph.inputs()[i].node).name;
    const auto append = appends.find(name);
    if (append == appends.end()) continue;
    const std::string& size = original.dim_names[i][append->second.axis];
    if (size.empty() || (!past_.empty() && size != past_)) {
      return absl::InvalidArgumentError(absl::StrCat("states: input ", name, ": axis ", append->second.axis, ": found ",
                                                     size.empty() ? "a fixed size" : size, ", expected ",
                                                     past_.empty() ? "a size with a name" : past_));
    }
    past_ = size;
    axes_[i] = append->second.axis;
  }
  relations_ = models_.Relations();
  return absl::OkStatus();
}

absl::StatusOr<DimSizes> GrowingModel::SizesOf(const std::vector<Tensor>& inputs, int64_t length) const {
  std::vector<const TensorType*> types;
  for (size_t i = 0; i < inputs.size(); ++i) types.push_back(IsState(i) ? nullptr : &inputs[i].type());
  ASSIGN_OR_RETURN(DimSizes dims, models_.SizesOf(types));
  const DimSizes given = dims;
  for (const auto& [name, size] : models_.original().dims) dims.emplace(name, size);
  dims[past_] = length;
  for (const SizeRelation& relation : relations_) {
    const std::optional<int64_t> size = relation.At(dims);
    const auto found = given.find(relation.name);
    if (found != given.end() && size && *size != found->second) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", relation.name, ": found size ", found->second,
                                                     ", expected ", *size, ", since ", relation.ToString(), " and ",
                                                     past_, " is ", length));
    }
  }
  return dims;
}

DimSizes GrowingModel::DimsAt(DimSizes dims, int64_t past) const {
  dims[past_] = past;
  Complete(relations_, &dims);
  return dims;
}

absl::StatusOr<int64_t> GrowingModel::RowsOf(const DimSizes& dims) {
  ASSIGN_OR_RETURN(const ImportedModel model, models_.OriginalAt(DimsAt(dims, kLeastPast)));
  ASSIGN_OR_RETURN(const auto appends, FindAppends(model.graph, states_));
  return appends.begin()->second.rows;
}

absl::StatusOr<GrowingGraph> GrowingModel::MakeFor(const DimSizes& dims, int64_t past) {
  ASSIGN_OR_RETURN(const ImportedModel full, models_.OriginalAt(DimsAt(dims, past)));
  absl::StatusOr<GrowingGraph> made;
  for (const std::vector<int64_t>& lengths : SamplesBelow(past)) {
    std::vector<Graph> samples = {full.graph};
    for (int64_t length : lengths) {
      ASSIGN_OR_RETURN(const ImportedModel model, models_.OriginalAt(DimsAt(dims, length)));
      samples.push_back(model.graph);
    }
    made = MakeGrowing(samples, states_, full.source);
    if (made.ok()) break;
  }
  if (made.ok()) {
    ASSIGN_OR_RETURN(made->graph, models_.Rewritten(made->graph));
  }
  return made;
}

absl::StatusOr<GrowingModel::Compiled*> GrowingModel::Prepare(const DimSizes& dims) {
  DimSizes key = dims;
  key.erase(past_);
  for (const SizeRelation& relation : relations_) key.erase(relation.name);
  const auto found = compiled_.find(key);
  if (found != compiled_.end() && length_ + found->second.rows <= capacity_) return &found->second;
  int64_t capacity = std::max(capacity_, kFirstCapacity);
  ASSIGN_OR_RETURN(const int64_t rows, RowsOf(dims));
  while (capacity < length_ + rows || capacity - rows < kLeastPast) capacity *= 2;
  Compiled compiled;
  compiled.rows = rows;
  ASSIGN_OR_RETURN(compiled.growing, MakeFor(dims, capacity - rows));
  ASSIGN_OR_RETURN(compiled.executable, engine_.runner().Prepare(compiled.growing.graph));
  if (capacity != capacity_) compiled_.clear();
  capacity_ = capacity;
  return &(compiled_[key] = std::move(compiled));
}

absl::Status GrowingModel::CheckLength(const DimSizes& dims, Compiled* compiled) {
  if (length_ == 0) RETURN_IF_ERROR(compiled->growing.CheckEmpty());
  const int64_t length = std::max<int64_t>(length_, 2);  // no size is 0, and a size of 1 may be read as a broadcast
  if (compiled->checked.contains(length)) return absl::OkStatus();
  const DimSizes sizes = DimsAt(dims, length);
  if (!compiled->growing.CheckChanges(length, models_.InputShapes(sizes))) {
    ASSIGN_OR_RETURN(const ImportedModel model, models_.OriginalAt(sizes));
    RETURN_IF_ERROR(compiled->growing.Check(model.graph));
  }
  compiled->checked.insert(length);
  return absl::OkStatus();
}

absl::Status GrowingModel::Reserve(const Compiled& compiled) {
  const Graph& graph = compiled.growing.graph;
  for (const auto& [input, axis] : axes_) {
    const TensorType& type = graph.type(graph.inputs()[input]);
    Tensor& memory = memory_[input];
    if (memory.data() != nullptr && memory.type() == type) continue;
    if (length_ == 0) {
      ASSIGN_OR_RETURN(memory, AllocateTensor(type, "a state"));
      continue;
    }
    TensorType held = memory.type();
    held.shape[axis] = type.shape[axis];
    if (held != type) {
      return absl::InvalidArgumentError(absl::StrCat("input ", graph.node(graph.inputs()[input].node).name,
                                                     ": the state is ", held.ToString(), ", these inputs need ",
                                                     type.ToString()));
    }
    ASSIGN_OR_RETURN(memory, WithRows(memory, axis, length_, type.shape[axis]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<size_t, Tensor>> GrowingModel::Run(const std::vector<Tensor>& inputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ASSIGN_OR_RETURN(const DimSizes dims, SizesOf(inputs, length_));
  ASSIGN_OR_RETURN(Compiled* const compiled, Prepare(dims));
  RETURN_IF_ERROR(CheckLength(dims, compiled));
  RETURN_IF_ERROR(Reserve(*compiled));
  std::vector<Tensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int axis = compiled->growing.growing[i];
    if (IsState(i)) {
      given.push_back(memory_.at(i));
    } else if (axis >= 0) {
      ASSIGN_OR_RETURN(given.emplace_back(), WithRows(inputs[i], axis, inputs[i].shape()[axis], capacity_));
    } else {
      given.push_back(inputs[i]);
    }
  }
  given.push_back(Tensor::Scalar(DType::kInt64, static_cast<double>(length_)));
  std::vector<Tensor> results;
  if (absl::Status status = compiled->executable->Run(given, &results); !status.ok()) {
    ClearBehind();
    return status;
  }
  length_ += compiled->rows;
  std::map<size_t, Tensor> outputs;
  const std::vector<Output>& all = compiled->growing.graph.outputs();
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k].updates.node < 0) outputs[k] = std::move(results[outputs.size()]);
  }
  return outputs;
}

int64_t GrowingModel::length() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return length_;
}

absl::StatusOr<Tensor> GrowingModel::Read(const std::string& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Graph& graph = models_.original().graph;
  for (const auto& [input, axis] : axes_) {
    if (graph.node(graph.inputs()[input].node).name != state) continue;
    if (length_ == 0) return absl::InvalidArgumentError(absl::StrCat("state ", state, ": found no rows yet"));
    return WithRows(memory_.at(input), axis, length_, length_);
  }
  return absl::InvalidArgumentError(absl::StrCat("input ", state, ": found no state of that name"));
}

void GrowingModel::ClearBehind() {
  for (auto& [input, tensor] : memory_) {
    const int axis = axes_.at(input);
    const Tensor old = tensor;
    tensor = Tensor(old.type());
    CopyRows(old, axis, length_, &tensor);
  }
}

void GrowingModel::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  length_ = 0;
  memory_.clear();
}

}  // namespace rewright
