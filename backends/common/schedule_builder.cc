#include "backends/common/schedule_builder.h"

namespace rewright {

int ScheduleBuilder::AddBuffer(Buffer::Kind kind, size_t bytes) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.bytes = bytes;
  schedule_.buffers.push_back(std::move(buffer));
  return static_cast<int>(schedule_.buffers.size()) - 1;
}

int ScheduleBuilder::AddConstant(std::shared_ptr<void> data, size_t bytes) {
  const int id = AddBuffer(Buffer::Kind::kConstant, bytes);
  schedule_.buffers.back().data = std::move(data);
  return id;
}

int ScheduleBuilder::AddConstant(Tensor tensor) {
  const auto held = std::make_shared<Tensor>(std::move(tensor));
  return AddConstant(std::shared_ptr<void>(held, held->data()), static_cast<size_t>(held->num_bytes()));
}

void ScheduleBuilder::AddInputs(const Graph& graph, const std::map<Value, Layout>& layouts,
                                const std::function<int(Value, const Layout&)>& add) {
  for (Value input : graph.inputs()) {
    const auto given = layouts.find(input);
    const Layout layout = given != layouts.end() ? given->second : Layout::RowMajor(graph.type(input).shape);
    schedule_.inputs.push_back(graph.contains(input.node) ? add(input, layout) : -1);
  }
}

void ScheduleBuilder::AddStates(const Graph& graph, const std::function<void(Value, int, const Layout&)>& define) {
  if (graph.mode() != Mode::kTraining) return;
  for (Value state : graph.states()) {
    const auto value = std::make_shared<Tensor>(*graph.arena()->Elements(state.node));
    const int id = AddBuffer(Buffer::Kind::kState, static_cast<size_t>(value->num_bytes()));
    buffer(id).data = std::shared_ptr<void>(value, value->data());
    schedule_.states[graph.node(state.node).name] = id;
    define(state, id, Layout::RowMajor(value->shape()));
  }
}

int ScheduleBuilder::AddView(int base, size_t offset, size_t bytes) {
  if (buffer(base).kind == Buffer::Kind::kConstant) {
    const std::shared_ptr<void>& data = buffer(base).data;
    return AddConstant(std::shared_ptr<void>(data, static_cast<char*>(data.get()) + offset), bytes);
  }
  const int id = AddBuffer(buffer(base).kind, bytes);
  buffer(id).alias_of = base;
  buffer(id).offset = offset;
  return id;
}

int ScheduleBuilder::AddPart(int base, size_t offset, size_t bytes) {
  const int id = AddView(base, offset, bytes);
  buffer(id).part = true;
  return id;
}

void ScheduleBuilder::Emit(std::unique_ptr<Kernel> kernel, std::vector<BufferUse> buffers, const std::string& label) {
  Step step;
  step.kernel = std::move(kernel);
  step.buffers = std::move(buffers);
  for (const BufferUse& use : step.buffers) {
    if (const int root = Root(use.buffer); buffer(root).kind == Buffer::Kind::kConstant) read_.insert(root);
  }
  step.group = label == "reorder" ? -1 : group_;
  step.label = label;
  schedule_.steps.push_back(std::move(step));
}

void ScheduleBuilder::DropUnusedConstants() {
  // Steps may have gone since they were made, and left constants.
  read_.clear();
  for (int id : schedule_.outputs) read_.insert(Root(id));
  for (const Step& step : schedule_.steps) {
    for (const BufferUse& use : step.buffers) read_.insert(Root(use.buffer));
  }
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) DropIfUnused(static_cast<int>(i));
}

void ScheduleBuilder::DropIfUnused(int constant) {
  Buffer& dropped = buffer(constant);
  if (dropped.kind != Buffer::Kind::kConstant || read_.contains(constant)) return;
  dropped.data = nullptr;
  dropped.bytes = 0;
}

}  // namespace rewright
