#include "runtime/train/pipeline.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/train/layout.h"
#include "runtime/train/step.h"

namespace rewright {

std::vector<StageAction> StageSchedule(int stage, int stages, int64_t micro_batches, bool gpipe) {
  // Forward passes before the first backward pass.
  const int64_t ahead = gpipe ? micro_batches : std::min<int64_t>(micro_batches, stages - stage);
  std::vector<StageAction> actions;
  for (int64_t i = 0; i < micro_batches + ahead; ++i) {
    if (i < micro_batches) actions.push_back({true, i});
    if (i + 1 >= ahead && i + 1 - ahead < micro_batches) actions.push_back({false, i + 1 - ahead});
  }
  return actions;
}

int64_t PipelinePlan::BytesSent(int stage, int64_t micro_batches) const {
  int64_t bytes = 0;
  const auto add = [&](const std::vector<Message>& sent, int64_t times) {
    for (const Message& message : sent) {
      if (message.from != stage) continue;
      bytes += times * layers.pieces.tensors[static_cast<size_t>(message.tensor)].num_bytes();
    }
  };
  add(messages, micro_batches);
  add(weight_messages, 1);
  return bytes;
}

absl::StatusOr<PipelinePlan> PlanPipeline(const Graph& gradients, const Graph& step,
                                          const std::vector<std::string>& trained, int stages,
                                          const DeviceKnowledge& device) {
  PipelinePlan plan;
  ASSIGN_OR_RETURN(plan.gradients, Unpacked(gradients, step));
  const std::vector<std::string> weights = WeightsOfInputs(step, trained);
  std::vector<double> measured;
  if (device.seconds != nullptr) {
    ASSIGN_OR_RETURN(measured, device.seconds(plan.gradients));
  }
  const std::vector<Group> groups = device.groups == nullptr ? std::vector<Group>() : device.groups(plan.gradients);
  const Passes passes = PassesOf(plan.gradients, weights, groups, measured);
  ASSIGN_OR_RETURN(const std::vector<int> layer_of_position, LayersByTime(passes, stages));
  plan.seconds.assign(static_cast<size_t>(stages), 0);
  for (size_t i = 0; i < layer_of_position.size(); ++i) {
    plan.seconds[static_cast<size_t>(layer_of_position[i])] += passes.seconds[i];
  }
  plan.layers = CutIntoLayers(plan.gradients, passes, layer_of_position);
  const Pieces& pieces = plan.layers.pieces;

  // A stage has the weights whose gradients it makes.
  std::map<std::string, int> homes;
  for (size_t k = 0; k < weights.size(); ++k) {
    homes[weights[k]] = plan.layers.homes[k + 1];
    plan.weights.emplace_back(weights[k], plan.layers.homes[k + 1]);
  }
  for (size_t k = 0; k < step.inputs().size(); ++k) {
    plan.owners[step.node(step.inputs()[k].node).name] = plan.layers.homes[k];
  }
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    if (const auto home = homes.find(WeightOf(name)); home != homes.end()) plan.owners[name] = home->second;
  }

  const size_t first_state = plan.gradients.inputs().size();
  const std::vector<Value> states = plan.gradients.states();
  std::set<std::tuple<int, int>> found;  // tensor, to
  for (int p = 0; p < static_cast<int>(pieces.pieces.size()); ++p) {
    const int to = plan.layers.LayerOf(p);
    for (int tensor : pieces.pieces[static_cast<size_t>(p)].inputs) {
      const size_t state = static_cast<size_t>(tensor) - first_state;
      const int maker = pieces.makers[static_cast<size_t>(tensor)];
      if (maker >= 0) {
        const int from = plan.layers.LayerOf(maker);
        if (from != to && found.emplace(tensor, to).second) plan.messages.push_back({tensor, from, to, from < to});
      } else if (static_cast<size_t>(tensor) >= first_state) {
        const auto home = homes.find(plan.gradients.node(states[state].node).name);
        if (home == homes.end() || home->second == to || !found.emplace(tensor, to).second) continue;
        plan.weight_messages.push_back({tensor, home->second, to});
      }
    }
  }
  return plan;
}

Pipeline::Pipeline(PipelinePlan plan, int64_t micro_batches, bool gpipe, Communicator& group, Communicator& partners)
    : plan_(std::move(plan)),
      gpipe_(gpipe),
      group_(group),
      partners_(partners),
      leaves_(LeavesOfRanks(micro_batches, partners.size())) {}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(PipelinePlan plan, int64_t micro_batches, bool gpipe,
                                                           Communicator& group, Communicator& partners,
                                                           GraphRunner& runner, const OwnedExecutable& update) {
  std::unique_ptr<Pipeline> made(new Pipeline(std::move(plan), micro_batches, gpipe, group, partners));
  RETURN_IF_ERROR(made->Init(runner, update));
  return made;
}

absl::Status Pipeline::Init(GraphRunner& runner, const OwnedExecutable& update) {
  const int stage = group_.rank(), pieces[] = {2 * plan_.layers.count - 1 - stage, stage};
  for (int forward : {0, 1}) {
    const Pieces::Piece& piece = plan_.layers.pieces.pieces[static_cast<size_t>(pieces[forward])];
    if (piece.outputs.empty()) continue;
    ASSIGN_OR_RETURN(passes_[forward], runner.Prepare(piece.graph));
  }
  first_state_ = plan_.gradients.inputs().size();
  std::map<std::string, int> homes(plan_.weights.begin(), plan_.weights.end());
  for (Value state : plan_.gradients.states()) {
    const std::string& name = plan_.gradients.node(state.node).name;
    const auto home = homes.find(name);
    if (home == homes.end()) {
      states_.push_back(*plan_.gradients.arena()->Elements(state.node));  // frozen
    } else if (home->second == stage) {
      ASSIGN_OR_RETURN(Tensor own, update.LocalState(name));
      states_.push_back(std::move(own));
    } else {
      states_.emplace_back();
    }
  }
  for (const PipelinePlan::Message& message : plan_.weight_messages) {
    if (message.to != stage) continue;
    states_[static_cast<size_t>(message.tensor) - first_state_] =
        Tensor(plan_.layers.pieces.tensors[static_cast<size_t>(message.tensor)]);
  }
  return absl::OkStatus();
}

absl::Status Pipeline::ReadWeights(Executable&) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (const PipelinePlan::Message& message : plan_.weight_messages) {
    Tensor& weight = states_[static_cast<size_t>(message.tensor) - first_state_];
    const auto bytes = static_cast<size_t>(weight.num_bytes());
    if (message.from == group_.rank()) out.push_back({message.to, weight.data(), bytes});
    if (message.to == group_.rank()) in.push_back({message.from, weight.data(), bytes});
  }
  return group_.Exchange("weights that several stages use", out, in);
}

absl::Status Pipeline::Receive(const std::string& what, bool forward, Slot* slot) {
  std::vector<Incoming> in;
  for (const PipelinePlan::Message& message : plan_.messages) {
    if (message.to != group_.rank() || message.forward != forward) continue;
    Tensor& tensor = slot->tensors[static_cast<size_t>(message.tensor)];
    if (tensor.data() == nullptr) tensor = Tensor(plan_.layers.pieces.tensors[static_cast<size_t>(message.tensor)]);
    in.push_back({message.from, tensor.data(), static_cast<size_t>(tensor.num_bytes())});
  }
  return group_.Exchange(what, {}, in);
}

absl::Status Pipeline::Send(const std::string& what, bool forward, Slot* slot) {
  std::vector<Outgoing> out;
  for (const PipelinePlan::Message& message : plan_.messages) {
    if (message.from != group_.rank() || message.forward != forward) continue;
    const Tensor& tensor = slot->tensors[static_cast<size_t>(message.tensor)];
    out.push_back({message.to, tensor.data(), static_cast<size_t>(tensor.num_bytes())});
  }
  if (out.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(slot->sends.emplace_back(), group_.Start(what, out, {}));
  return absl::OkStatus();
}

absl::Status Pipeline::WaitForSends(Slot* slot) {
  for (const auto& send : slot->sends) RETURN_IF_ERROR(group_.Wait(*send));
  slot->sends.clear();
  return absl::OkStatus();
}

// Where what the last backward pass sends may still be on its way, one more than are in flight.
absl::StatusOr<std::unique_ptr<Pipeline::Slot>> Pipeline::TakeSlot(size_t needed) {
  const size_t slots = free_.size() + needed - 1;
  if (slots < needed || (!free_.front()->sends.empty() && slots == needed)) return std::make_unique<Slot>();
  std::unique_ptr<Slot> slot = std::move(free_.front());
  free_.pop_front();
  RETURN_IF_ERROR(WaitForSends(slot.get()));
  return slot;
}

absl::Status Pipeline::RunPass(bool forward, Slot* slot) {
  if (passes_[forward] == nullptr) return absl::OkStatus();
  const int stage = group_.rank();
  const int number = forward ? stage : 2 * plan_.layers.count - 1 - stage;
  const Pieces::Piece& piece = plan_.layers.pieces.pieces[static_cast<size_t>(number)];
  std::vector<Tensor> inputs, outputs;
  for (int tensor : piece.inputs) {
    inputs.push_back(IsState(tensor) ? states_[static_cast<size_t>(tensor) - first_state_]
                                     : slot->tensors[static_cast<size_t>(tensor)]);
  }
  for (int tensor : piece.outputs) outputs.push_back(slot->tensors[static_cast<size_t>(tensor)]);
  RETURN_IF_ERROR(passes_[forward]->Run(inputs, &outputs));
  for (size_t k = 0; k < outputs.size(); ++k) {
    slot->tensors[static_cast<size_t>(piece.outputs[k])] = std::move(outputs[k]);
  }
  return absl::OkStatus();
}

void Pipeline::AddGradients(Slot* slot, std::vector<TreeSum>* sums) {
  for (size_t k = 0; k < sums->size(); ++k) {
    if (plan_.layers.homes[k] != group_.rank()) continue;
    const int number = plan_.layers.pieces.outputs[k];
    Tensor& made = slot->tensors[static_cast<size_t>(number)];
    // Others may read it still, or it may be several of the sums: a sum takes over what it is given.
    const bool is_read = std::any_of(plan_.messages.begin(), plan_.messages.end(),
                                     [&](const PipelinePlan::Message& message) { return message.tensor == number; });
    const auto& outputs = plan_.layers.pieces.outputs;
    if (is_read || std::count(outputs.begin(), outputs.end(), number) > 1) {
      Tensor copy(made.type());
      std::memcpy(copy.data(), made.data(), static_cast<size_t>(made.num_bytes()));
      (*sums)[k].Add(std::move(copy));
    } else {
      (*sums)[k].Add(std::exchange(made, Tensor()));
    }
  }
}

absl::StatusOr<std::vector<Tensor>> Pipeline::Sums(const std::string& what, Prefetcher& batches) {
  const int64_t count = leaves_[static_cast<size_t>(partners_.rank())].count;
  std::vector<TreeSum> sums(plan_.layers.homes.size());
  std::vector<std::unique_ptr<Slot>> in_flight;  // in the order of micro-batches
  for (const StageAction& action : StageSchedule(group_.rank(), group_.size(), count, gpipe_)) {
    const std::string of = absl::StrCat(what, action.forward ? ", forward" : ", backward", " pass of micro-batch ",
                                        action.micro_batch + 1, " of ", count, ", stage ", group_.rank());
    if (action.forward) {
      ASSIGN_OR_RETURN(in_flight.emplace_back(), TakeSlot(in_flight.size() + 1));
      most_in_flight_ = std::max(most_in_flight_, static_cast<int>(in_flight.size()));
      Slot* const slot = in_flight.back().get();
      slot->tensors.resize(plan_.layers.pieces.tensors.size());
      ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
      std::copy(batch.begin(), batch.end(), slot->tensors.begin());
      RETURN_IF_ERROR(Receive(of, true, slot));
      RETURN_IF_ERROR(RunPass(true, slot));
      RETURN_IF_ERROR(Send(of, true, slot));
      continue;
    }
    std::unique_ptr<Slot> slot = std::move(in_flight.front());
    in_flight.erase(in_flight.begin());
    RETURN_IF_ERROR(Receive(of, false, slot.get()));
    RETURN_IF_ERROR(WaitForSends(slot.get()));  // forwards: arrived long ago
    RETURN_IF_ERROR(RunPass(false, slot.get()));
    RETURN_IF_ERROR(Send(of, false, slot.get()));
    AddGradients(slot.get(), &sums);
    free_.push_back(std::move(slot));
  }
  for (const auto& slot : free_) RETURN_IF_ERROR(WaitForSends(slot.get()));
  std::vector<Tensor> inputs(sums.size());
  for (size_t k = 0; k < sums.size(); ++k) {
    if (plan_.layers.homes[k] != group_.rank()) continue;
    inputs[k] = sums[k].Take();
    RETURN_IF_ERROR(AllReduce(partners_, absl::StrCat(what, ", sum of gradients"), leaves_, &inputs[k]));
  }
  return inputs;
}

}  // namespace rewright
