// Writes the model around the nodes: opset, names, computed weights, initializers, the file.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/onnx/export/conv_biases.h"
#include "core/onnx/export/folded_weights.h"
#include "core/onnx/export/remarks.h"
#include "core/onnx/export/writer.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/named_sizes.h"
#include "core/onnx/onnx.h"
#include "core/onnx/operators.h"
#include "core/onnx/proto.h"
#include "core/onnx/serialization.h"
#include "core/onnx/source.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// The highest opset that is written: no operator needs a newer one, and more programs read an older one.
constexpr int64_t kLowestExportedOpset = 13;
constexpr int64_t kHighestExportedOpset = 22;
constexpr int64_t kDefaultOpset = 17;

// Returns the version of the format with which an opset appeared.
int64_t IrVersionOf(int64_t opset) { return opset >= 21 ? 10 : opset >= 19 ? 9 : 8; }

class Exporter {
 public:
  // `sized` marks, by position, known nodes whose shapes depend on named sizes: they are not folded.
  Exporter(const Graph& graph, const OnnxSource* source, const ModelMetadata& metadata, const ExportOptions& options,
           std::vector<bool> sized = {})
      : graph_(graph),
        metadata_(metadata),
        options_(options),
        sized_(std::move(sized)),
        source_(source != nullptr && source->arena() == graph.arena() ? source
                                                                      : nullptr),  // else it has no values of it
        biases_(graph, options.fold_weights, [this](NodeId id) { return IsFolded(id); }),
        plan_(Plan()),
        writer_(opset_) {
    for (int i = 0; source_ != nullptr && i < source_->num_nodes(); ++i) writer_.KeepNodeName(source_->node(i).name());
  }

  absl::Status Build() {
    NameOutputs();
    RETURN_IF_ERROR(NameTail());
    NameKept();
    RETURN_IF_ERROR(FoldWeights());
    for (NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (node.op == nullptr) continue;
      for (size_t k = 0; k < node.outputs.size(); ++k) WriteKept(plan_.KeptFor(Value{id, static_cast<int32_t>(k)}));
      if (!plan_.IsOwn(id) || biases_.IsAbsorbed(id)) continue;
      if (graph_.IsKnown(node) && !needed_.contains(id)) continue;
      RETURN_IF_ERROR(WriteNode(id));
    }
    WriteAliases();
    AddTail();
    return absl::OkStatus();
  }

  // Comes last: the default values of inputs.
  void AddDefaults() {
    for (Value input : graph_.inputs()) {
      const auto found = metadata_.defaults.find(graph_.node(input.node).name);
      if (found != metadata_.defaults.end()) writer_.AddInitializer(found->first, found->second);
    }
  }

  // Without initializers.
  onnx::ModelProto Model() {
    onnx::ModelProto model;
    const int64_t read = source_ == nullptr ? 0 : metadata_.ir_version;
    model.set_ir_version(std::max(IrVersionOf(writer_.opset()), read));
    onnx::OperatorSetIdProto* opset = model.add_opset_import();
    opset->set_domain("");
    opset->set_version(writer_.opset());
    std::set<std::string> domains;
    for (const onnx::NodeProto& node : writer_.nodes()) domains.insert(node.domain());
    for (const std::string& domain : domains) {
      if (domain.empty() || domain == "ai.onnx") continue;
      const auto version = metadata_.opsets.find(domain);
      opset = model.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(version == metadata_.opsets.end() ? 1 : version->second);
    }
    model.set_producer_name(metadata_.producer_name.empty() ? "rewright" : metadata_.producer_name);
    model.set_producer_version(metadata_.producer_version);
    model.set_domain(metadata_.domain);
    model.set_model_version(metadata_.model_version);
    model.set_doc_string(metadata_.doc);
    for (const auto& [key, value] : metadata_.properties) {
      onnx::StringStringEntryProto* property = model.add_metadata_props();
      property->set_key(key);
      property->set_value(value);
    }
    if (source_ != nullptr) CopyFunctions(*source_, writer_.nodes(), &model);
    AddAnnotations(model.mutable_graph());
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name(metadata_.graph_name.empty() ? "graph" : metadata_.graph_name);
    graph.set_doc_string(metadata_.graph_doc);
    for (Value input : graph_.inputs()) Describe(graph_.node(input.node).name, graph_.type(input), graph.add_input());
    DescribeOutputs(&graph);
    if (source_ != nullptr) {
      CopyRemarks(source_->graph().input(), graph.mutable_input());
      CopyRemarks(source_->graph().output(), graph.mutable_output());
    }
    // Readers infer types; if the source declares none, neither does the written file.
    if (source_ == nullptr || source_->describes()) {
      for (const auto& [name, type] : described_) Describe(name, type, graph.add_value_info());
    }
    if (source_ != nullptr) CopyRemarks(source_->graph().value_info(), graph.mutable_value_info());
    if (WritesTail()) CopyUnread(*source_, &graph);
    for (onnx::NodeProto& node : writer_.nodes()) graph.add_node()->Swap(&node);
    return model;
  }

  const Initializers& initializers() { return writer_.initializers(); }
  // Weights that were computed at export.
  const absl::flat_hash_map<Value, Tensor>& folded() const { return folded_; }
  // The values whose elements are initializers, by the names of these.
  std::vector<std::pair<std::string, Value>> ValuesWritten() const {
    std::vector<std::pair<std::string, Value>> values;
    for (Value value : written_) values.emplace_back(names_.at(value), value);
    for (const auto& [bias, name] : bias_names_) values.emplace_back(name, bias.first);
    std::sort(values.begin(), values.end());
    return values;
  }

  // Returns the nodes, initializers, inputs and outputs that were built at these sizes.
  SizedExport Built() {
    SizedExport built;
    built.nodes = writer_.nodes();
    for (const auto& [name, tensor] : initializers()) built.initializers.emplace(name, tensor);
    for (Value input : graph_.inputs()) built.inputs.emplace_back(graph_.node(input.node).name, graph_.type(input));
    for (const Output& output : graph_.outputs()) built.outputs.emplace_back(output.name, graph_.type(output.value));
    built.described = described_;
    built.source = source_;
    return built;
  }

  // Called after Build, on the first sample: replaces sizes by names.
  absl::Status NameSizes(const std::vector<SizedExport>& samples, RelatedFit& fit) {
    RETURN_IF_ERROR(rewright::NameSizes(samples, fit, &writer_));
    for (auto list : {&SizedExport::inputs, &SizedExport::outputs, &SizedExport::described}) {
      for (size_t i = 0; i < (samples[0].*list).size(); ++i) {
        std::vector<Shape> shapes;
        for (const SizedExport& sample : samples) shapes.push_back((sample.*list)[i].second.shape);
        named_shapes_[(samples[0].*list)[i].first] = NamedShape(shapes, fit);
      }
    }
    return absl::OkStatus();
  }

 private:
  // ---- the tail of the source: its nodes are written unchanged behind the graph

  bool WritesTail() const { return options_.tail && source_ != nullptr && !source_->tail().empty(); }

  std::vector<std::string> TailReads() const {
    std::vector<std::string> reads;
    for (int i : source_->tail()) {
      for (std::string& name : ReadsOf(source_->node(i))) reads.push_back(std::move(name));
    }
    return reads;
  }

  // Names of values that the tail gives are reserved for them, and weights that it reads keep theirs.
  absl::Status NameTail() {
    if (!WritesTail()) return absl::OkStatus();
    if (!source_->TailMeansTheSame(opset_)) {
      return Unimplemented("nodes behind what was rewritten, which are not read, may mean something else in opset ",
                           opset_);
    }
    for (int i : source_->tail()) ReserveNames(source_->node(i));
    for (const std::string& name : TailReads()) {
      if (source_->Elements(name) == nullptr) continue;
      writer_.Reserve(name);
      if (GivenName(source_->value(name)) == name) names_[source_->value(name)] = name;
    }
    return absl::OkStatus();
  }

  void ReserveNames(const onnx::NodeProto& node) {
    for (const std::string& name : node.output()) writer_.Reserve(name);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      for (const onnx::TensorProto& tensor : attribute.g().initializer()) writer_.Reserve(tensor.name());
      for (const onnx::ValueInfoProto& info : attribute.g().input()) writer_.Reserve(info.name());
      for (const onnx::NodeProto& inner : attribute.g().node()) ReserveNames(inner);
    }
  }

  void AddTail() {
    if (!WritesTail()) return;
    absl::flat_hash_set<std::string> there;
    for (const auto& [name, tensor] : writer_.initializers()) there.insert(name);
    for (const std::string& name : TailReads()) {
      const Tensor* elements = source_->Elements(name);
      if (elements != nullptr && there.insert(name).second) writer_.AddInitializer(name, *elements);
    }
    for (int i : source_->tail()) writer_.AddCopy(source_->node(i));
  }

  // The outputs are those of the file, in its order, if there is a tail.
  void DescribeOutputs(onnx::GraphProto* graph) {
    if (!WritesTail()) {
      for (const Output& output : graph_.outputs()) {
        Describe(output.name, graph_.type(output.value), graph->add_output());
      }
      return;
    }
    for (const onnx::ValueInfoProto& info : source_->graph().output()) {
      const auto given = std::find_if(graph_.outputs().begin(), graph_.outputs().end(),
                                      [&](const Output& output) { return output.name == info.name(); });
      if (given == graph_.outputs().end()) {
        *graph->add_output() = info;
      } else {
        Describe(given->name, graph_.type(given->value), graph->add_output());
      }
    }
  }

  // Copies the file's annotations of its graph and of those quantized tensors that still exist.
  void AddAnnotations(onnx::GraphProto* graph) {
    if (source_ == nullptr) return;
    CopyUnknown(source_->graph(), graph);
    absl::flat_hash_set<std::string> tensors;
    for (const auto& [name, tensor] : writer_.initializers()) tensors.insert(name);
    for (Value input : graph_.inputs()) tensors.insert(graph_.node(input.node).name);
    for (const onnx::NodeProto& node : writer_.nodes()) tensors.insert(node.output().begin(), node.output().end());
    for (const onnx::TensorAnnotation& annotation : source_->graph().quantization_annotation()) {
      if (tensors.contains(annotation.tensor_name()) && WriteParameters(annotation, &tensors)) {
        *graph->add_quantization_annotation() = annotation;
      }
    }
  }

  // Returns the scales and zero points that an annotation names. False if one of them is missing.
  bool WriteParameters(const onnx::TensorAnnotation& annotation, absl::flat_hash_set<std::string>* tensors) {
    for (const onnx::StringStringEntryProto& parameter : annotation.quant_parameter_tensor_names()) {
      const Tensor* elements = source_->Elements(parameter.value());
      if (tensors->contains(parameter.value())) continue;
      if (elements == nullptr || !writer_.Reserve(parameter.value())) return false;
      tensors->insert(writer_.AddInitializer(parameter.value(), *elements));
    }
    return true;
  }

  void Describe(const std::string& name, const TensorType& type, onnx::ValueInfoProto* info) const {
    FillInfo(name, type, info);
    const auto named = named_shapes_.find(name);
    for (int axis = 0; named != named_shapes_.end() && axis < type.rank(); ++axis) {
      auto* dim = info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis);
      const auto& [size, symbol] = named->second[static_cast<size_t>(axis)];
      dim->clear_value();
      if (size >= 0) {
        dim->set_dim_value(size);
      } else if (!IsUnnamed(symbol)) {
        dim->set_dim_param(symbol);
      }
    }
  }

  // True if the importer made up the name (ImportOptions::dims).
  bool IsUnnamed(const std::string& name) const {
    return name.empty() || std::any_of(graph_.inputs().begin(), graph_.inputs().end(), [&](Value input) {
             return absl::StartsWith(name, graph_.node(input.node).name + ":");
           });
  }

  // Returns the imported opset, limited to those that are written or to the source's if that is higher, and raised to
  // what own forms need. A large raise means that fewer nodes of the source can stay.
  ExportPlan Plan() {
    const auto imported = metadata_.opsets.find("");
    opset_ = imported == metadata_.opsets.end() ? kDefaultOpset : imported->second;
    opset_ = std::max(opset_, kLowestExportedOpset);
    if (source_ == nullptr) opset_ = std::min(opset_, kHighestExportedOpset);
    const absl::flat_hash_map<NodeId, NodeId> sums = biases_.sums();
    absl::flat_hash_set<NodeId> sized;
    for (size_t i = 0; i < sized_.size(); ++i) {
      if (sized_[i]) sized.insert(graph_.nodes()[i]);
    }
    while (true) {
      ExportPlan plan(graph_, source_, opset_, sums, sized);
      int64_t needed = opset_;
      for (NodeId id : graph_.nodes()) {
        const Node& node = graph_.node(id);
        const OnnxForm* form = node.op == nullptr || !plan.IsOwn(id) ? nullptr : FindOnnxForm(node.op->name);
        if (form != nullptr) needed = std::max<int64_t>(needed, form->min_opset);
      }
      if (needed == opset_) {
        for (const auto& [conv, sum] : sums) {
          if (!plan.IsOwn(sum)) biases_.Drop(conv);
        }
        return plan;
      }
      opset_ = needed;
    }
  }

  bool IsLeaf(Value value) const { return graph_.node(value.node).op == nullptr; }

  // Returns the name that a value was given, if any.
  const std::string& GivenName(Value value) const {
    const Node& node = graph_.node(value.node);
    return node.name.empty() ? graph_.arena()->name(value) : node.name;
  }

  // Inputs and outputs always keep their names. A value takes the name of the first output that it is. Identity nodes
  // write a leaf, or a value that is several outputs, to the others.
  void NameOutputs() {
    for (Value input : graph_.inputs()) {
      names_[input] = graph_.node(input.node).name;
      writer_.Reserve(names_[input]);
    }
    for (const Output& output : graph_.outputs()) {
      writer_.Reserve(output.name);
      const bool leaf = IsLeaf(output.value);
      if (leaf && GivenName(output.value) == output.name) {
        names_[output.value] = output.name;
      } else if (leaf || !names_.emplace(output.value, output.name).second) {
        aliases_.push_back(output);
      }
    }
    for (NodeId id : graph_.nodes()) {
      if (graph_.node(id).leaf == LeafKind::kState) NameOf(Value{id, 0});
    }
  }

  // Values that are kept have the first claim to their names.
  void NameKept() {
    if (source_ == nullptr) return;
    for (NodeId id : graph_.nodes()) {
      for (int32_t k = 0; k < static_cast<int32_t>(graph_.node(id).outputs.size()); ++k) {
        if (plan_.KeptFor(Value{id, k}) >= 0) NameOf(Value{id, k});
      }
    }
  }

  // Returns the name of a value; a leaf becomes an initializer when its name is first asked for.
  std::string NameOf(Value value) {
    if (const auto found = names_.find(value); found != names_.end()) return found->second;
    std::string wanted = GivenName(value);
    if (wanted.empty()) {
      const Node& node = graph_.node(value.node);
      wanted = absl::StrCat(node.op == nullptr ? "constant" : node.op->name + "_out", "_", ++unnamed_);
    }
    return names_[value] = writer_.UniqueName(wanted);
  }

  // The data of a leaf or computed weight is written when something reads it.
  std::string Read(Value value) {
    const std::string& given = GivenName(value);
    if (const auto computed = computed_.find(given); computed != computed_.end() && plan_.GeneratedBy(value)) {
      return computed->second;
    }
    const std::string name = NameOf(value);
    const Node& node = graph_.node(value.node);
    if (node.leaf == LeafKind::kInput || written_.contains(value)) return name;
    if (const std::vector<int>* nodes = plan_.GeneratedBy(value)) {
      for (int i : *nodes) {
        if (copied_.insert(i).second) Copy(i, KeptNode(), false);
      }
      return computed_.at(given);
    }
    if (node.op == nullptr) {
      writer_.AddTensor(name, *graph_.arena()->Elements(value.node), options_.compact_uniform && source_ == nullptr);
    } else if (const auto folded = folded_.find(value); folded != folded_.end()) {
      writer_.AddTensor(name, folded->second, options_.compact_uniform);
    } else {
      return name;
    }
    written_.insert(value);
    return name;
  }

  // ---- conv2d and add as Conv with a bias

  // Returns the bias as a vector of one element per channel, all equal if it is a single number.
  std::string ReadBias(Value bias, int64_t channels) {
    if (const auto vector = biases_.VectorBehind(bias)) return Read(*vector);
    std::string& name = bias_names_[{bias, channels}];  // several convolutions may read it
    if (!name.empty()) return name;
    const Tensor& tensor = IsLeaf(bias) ? *graph_.arena()->Elements(bias.node) : folded_.at(bias);
    Tensor data(TensorType{tensor.dtype(), {channels}});
    auto* const to = static_cast<char*>(data.data());
    const int64_t bytes = tensor.num_bytes();
    for (int64_t at = 0; at < data.num_bytes(); at += bytes)
      std::memcpy(to + at, tensor.data(), static_cast<size_t>(bytes));
    return name = writer_.AddInitializer(writer_.UniqueName(NameOf(bias) + "_bias"), data);
  }

  // ---- weights that are computed at export

  bool IsFolded(NodeId known) const { return options_.fold_weights && !IsSized(known); }
  bool IsSized(NodeId id) const { return !sized_.empty() && sized_[graph_.index(id)]; }

  absl::Status FoldWeights() {
    const ExportedGraph exported{graph_,
                                 source_,
                                 plan_,
                                 biases_,
                                 opset_,
                                 [this](NodeId id) { return IsFolded(id); },
                                 [this](NodeId id) { return IsSized(id); }};
    WeightChoice choice = ChooseFolded(exported);
    needed_ = std::move(choice.computed);
    const std::set<Value>& folded = choice.folded;
    if (folded.empty()) return absl::OkStatus();
    const std::vector<Value> values(folded.begin(), folded.end());
    const auto tensors = ComputeKnown(graph_.arena(), values, NumThreads(0));
    if (!tensors.ok()) {
      return ErrorAt("computing weights", tensors.status());
    }
    for (size_t i = 0; i < values.size(); ++i) folded_[values[i]] = (*tensors)[i];
    for (const Output& output : graph_.outputs()) {
      if (folded.contains(output.value)) Read(output.value);
    }
    return absl::OkStatus();
  }

  // ---- nodes

  absl::Status WriteNode(NodeId id) {
    const Node& node = graph_.node(id);
    const OnnxForm* form = FindOnnxForm(node.op->name);
    if (IsForeign(node)) {
      return Unimplemented("the node that gives \"", GivenName(Value{id, 0}), "\" (", node.op->name,
                           ") is not known here, and cannot be written as it was read: in opset ", writer_.opset(),
                           " it may mean something else, or the file is not at hand");
    }
    if (form == nullptr) return Unimplemented("operator ", node.op->name, " has no form in ONNX");
    ExportedNode exported{node, {}, {}, {}};
    for (Value operand : node.operands) {
      exported.operand_types.push_back(graph_.type(operand));
      exported.inputs.push_back(Read(operand));
    }
    NodeId result = id;
    if (const auto sum = biases_.sums().find(id); sum != biases_.sums().end()) {
      result = sum->second;
      exported.inputs.push_back(ReadBias(biases_.BiasOf(result), node.outputs[0].shape[1]));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value value{result, static_cast<int32_t>(i)};
      exported.outputs.push_back(NameOf(value));
      if (!graph_.is_output(value)) described_.emplace_back(exported.outputs.back(), node.outputs[i]);
    }
    form->write(writer_, exported);
    return absl::OkStatus();
  }

  // Writes a node of the source once, after the nodes that it needs and the graph lacks. -1: none.
  void WriteKept(int i) {
    if (i < 0 || !copied_.insert(i).second) return;
    for (int before : plan_.kept(i).before) {
      if (copied_.insert(before).second) Copy(before, plan_.kept(i), false);
    }
    Copy(i, plan_.kept(i), true);
  }

  // Only the node itself reads a weight that differs from the source's.
  void Copy(int i, const KeptNode& kept, bool itself) {
    onnx::NodeProto node = source_->node(i);
    for (std::string& name : *node.mutable_input()) {
      if (!name.empty()) name = NameInCopy(name, kept, itself);
    }
    for (std::string& name : *node.mutable_output()) {
      if (name.empty()) continue;
      const Value value = plan_.KeptOutput(name);
      if (value.node >= 0) {
        name = NameOf(value);
        if (!graph_.is_output(value)) described_.emplace_back(name, graph_.type(value));
      } else {  // read by kept nodes alone, or by none
        name = computed_[name] = writer_.UniqueName(name);
      }
    }
    writer_.AddCopy(std::move(node));
  }

  std::string NameInCopy(const std::string& name, const KeptNode& kept, bool itself) {
    const Value theirs = source_->value(name);
    const auto bound = kept.bindings.find(theirs);
    if (bound != kept.bindings.end() && (graph_.IsKnown(theirs) ? itself && bound->second != theirs : true)) {
      return Read(bound->second);
    }
    const auto computed = computed_.find(name);
    return computed == computed_.end() ? Read(theirs) : computed->second;
  }

  void WriteAliases() {
    for (const Output& output : graph_.outputs()) {
      if (IsLeaf(output.value)) Read(output.value);
    }
    for (const Output& alias : aliases_) writer_.AddNode("Identity", {Read(alias.value)}, {alias.name});
  }

  const Graph& graph_;
  const ModelMetadata& metadata_;
  const ExportOptions& options_;
  const std::vector<bool> sized_;
  const OnnxSource* const source_;
  ConvBiases biases_;
  absl::flat_hash_map<std::pair<Value, int64_t>, std::string> bias_names_;  // of vectors that were written
  int64_t opset_ = 0;
  const ExportPlan plan_;
  OnnxWriter writer_;
  absl::flat_hash_map<Value, std::string> names_;
  int unnamed_ = 0;
  std::vector<Output> aliases_;
  absl::flat_hash_set<Value> written_;
  absl::flat_hash_set<int> copied_;                         // nodes of the source
  absl::flat_hash_map<std::string, std::string> computed_;  // names of the constants that copied nodes compute
  absl::flat_hash_map<Value, Tensor> folded_;
  absl::flat_hash_set<NodeId> needed_;  // known nodes that are written
  std::vector<std::pair<std::string, TensorType>> described_;
  absl::flat_hash_map<std::string, std::vector<NamedAxis>> named_shapes_;  // by tensor; empty: all sizes are numbers
};

// Builds an exporter and its model; `graph`, `metadata` and `options` must outlive it.
absl::StatusOr<std::unique_ptr<Exporter>> Built(const Graph& graph, const ModelMetadata& metadata,
                                                const ExportOptions& options) {
  if (options.named == nullptr) {
    auto exporter = std::make_unique<Exporter>(graph, options.source.get(), metadata, options);
    RETURN_IF_ERROR(exporter->Build());
    exporter->AddDefaults();
    return exporter;
  }
  const std::vector<SizedGraph>& samples = options.named->samples;
  ASSIGN_OR_RETURN(const std::vector<bool> sized, NodesOfVaryingShape(samples));
  std::vector<SizedExport> exports;
  std::unique_ptr<Exporter> first;
  for (const SizedGraph& sample : samples) {
    auto exporter = std::make_unique<Exporter>(sample.graph, sample.source.get(), metadata, options, sized);
    RETURN_IF_ERROR(exporter->Build());
    exports.push_back(exporter->Built());
    // Equal computed weights share one tensor.
    for (auto& [name, tensor] : exports.back().initializers) {
      const auto same = exports[0].initializers.find(name);
      if (same != exports[0].initializers.end() && tensor.BitEqual(same->second)) tensor = same->second;
    }
    if (first == nullptr) first = std::move(exporter);
  }
  RETURN_IF_ERROR(first->NameSizes(exports, options.named->fit));
  first->AddDefaults();
  return first;
}

}  // namespace

absl::Status CheckNames(const ModelMetadata& metadata, const ExportOptions& options) {
  return Built(options.named->samples[0].graph, metadata, options).status();
}

absl::Status ExportOnnx(const Graph& graph, const ModelMetadata& metadata, const std::string& path,
                        const ExportOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Exporter> exporter, Built(graph, metadata, options));
  onnx::ModelProto model = exporter->Model();
  std::optional<OutputFile> data;
  Initializers inside;
  if (TotalBytes(exporter->initializers()) > options.max_inline_bytes) {
    RETURN_IF_ERROR(CheckFilesBeside(path));
    ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path + ".data"));
    data.emplace(std::move(file));
    RETURN_IF_ERROR(AddExternal(exporter->initializers(), FileNameOf(path) + ".data", *data, model.mutable_graph()));
  } else {
    inside = exporter->initializers();
  }
  ASSIGN_OR_RETURN(const absl::Cord bytes, SerializeWith(std::move(model), inside));
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(WriteTo(file, bytes));
  if (options.check) RETURN_IF_ERROR(options.check());
  return data ? OutputFile::CommitTogether({&*data, &file}) : file.Commit();
}

absl::StatusOr<SerializedModel> SerializeOnnx(const Graph& graph, const ModelMetadata& metadata,
                                              const ExportOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Exporter> exporter, Built(graph, metadata, options));
  if (TotalBytes(exporter->initializers()) > options.max_inline_bytes) {
    return InvalidArgument("the weights have more than ", options.max_inline_bytes,
                           " bytes: they need a file of their own");
  }
  SerializedModel serialized;
  ASSIGN_OR_RETURN(serialized.bytes, SerializeWith(exporter->Model(), exporter->initializers()));
  if (options.named == nullptr) serialized.computed = exporter->folded();
  serialized.initializers = exporter->ValuesWritten();
  return serialized;
}

absl::StatusOr<std::string> ExportOnnxBytes(const Graph& graph, const ModelMetadata& metadata,
                                            const ExportOptions& options) {
  ASSIGN_OR_RETURN(const SerializedModel serialized, SerializeOnnx(graph, metadata, options));
  return std::string(serialized.bytes);
}

}  // namespace rewright
