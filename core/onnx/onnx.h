// Reads ONNX models into graphs and writes graphs as ONNX models.
//
// A model file is untrusted input: sizes, counts, offsets and paths are checked before anything is allocated or opened,
// and a violation is an error that names the place. Errors read
//   resnet.onnx: node "conv1" (Conv): conv2d: shapes [1,3,8,8] and [4,2,3,3]: the channels of x must be ...
//
// Operators are read version by version, from opset 7 on: attributes that became inputs, defaults that changed. An ONNX
// operator without a counterpart here is composed of others: Gemm becomes matmul and add, Flatten a reshape, Dropout
// nothing, or a random mask in a training step. Values that depend on constants and shapes alone (the shape arithmetic
// that exporters write out) are computed while reading.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/ir/graph.h"
#include "core/ir/tensor.h"
#include "core/onnx/size_relations.h"

namespace rewright {

// Contents of a model file beside its graph, kept so that the written model resembles the one that was read.
struct ModelMetadata {
  int64_t ir_version = 0;                 // 0: none was read
  std::map<std::string, int64_t> opsets;  // version by domain; "" is ONNX's own
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc;
  std::string graph_name;
  std::string graph_doc;
  std::vector<std::pair<std::string, std::string>> properties;
  // Default values of inputs that a run is not given, by name. They are written as they were read.
  std::map<std::string, Tensor> defaults;
};

// Selects the meaning of nodes with training_mode = 1 (Dropout, BatchNormalization).
enum class OnnxTraining : uint8_t {
  kAsWritten,  // as one run of the model computes them; a dropout is an error, since nothing draws its mask
  kStep,       // part of a step of training: masks are drawn, running averages go on
  kOff,        // as at inference
};

// The state that masks of dropout are drawn from, i64[]: it advances by one each step.
inline constexpr char kDropoutState[] = "dropout.seed";

struct ImportOptions {
  // kStep gives a graph in mode training, whose running averages and kDropoutState have next values. Its results are
  // those that kOff gives a graph at inference with, whose states are the same but for kDropoutState.
  OnnxTraining training = OnnxTraining::kAsWritten;
  uint64_t seed = 1;  // of kDropoutState
  // Gradients are to be taken, as they are with kStep: what is composed of several operators is so composed that they
  // are PyTorch's also where a function has none (the norm of zeros). Values are the same.
  bool differentiated = false;
  // Sizes of symbolic dimensions by name. An unnamed one is called <tensor>:<axis>. Those not given are 1, with a note.
  std::map<std::string, int64_t> dims;
  // Sizes of dimensions that the model has not got are no error: another model may have them.
  bool other_dims = false;
  // Inputs with a default are no inputs but what the default says, and known. Those of a model that is trained always
  // are: they are its weights.
  bool fold_defaults = false;
  // Fills in ImportedModel::source, which holds what the file says apart from the elements of initializers.
  bool keep_source = false;
  // Nodes whose operator is not read, or not in that use, become opaque (core/ops/foreign.h) where the file declares
  // the types of their outputs. The graph can be rewritten and, with the source, written and run by who runs files;
  // nothing here computes it.
  bool keep_unknown = false;
  // With keep_unknown: nodes that cannot be opaque, since the sizes of what they give depend on values or it is no
  // tensor, and all that reads what they give, are the tail of the file: the graph ends before it, and what the tail
  // reads are outputs. With the source the tail is written behind it (ExportOptions::tail); nothing here runs it.
  bool keep_tail = false;
  // For training (kOff and kStep): initializers that are trained whatever they look like; those that are one weight
  // although they look like several, and the reverse (ImportedModel::left, ::weight_notes). Null: none.
  std::function<bool(const std::string&name)> trains, shares, parts;
  // A limit on the tensors that a model makes from little data (ConstantOfShape, Range), all together.
  int64_t max_generated_bytes = int64_t{4} << 30;
};

// The nodes of a model that was read, for writing it again.
class OnnxSource;

// A node that is kept as it was read.
struct OpaqueNode {
  std::string node;    // as errors name it: node "frob" (com.acme.Frob)
  std::string why;     // it is not read
  int64_t number = 0;  // the attribute `node` of its application (core/ops/foreign.h)
  // The node by itself, with the functions of the file where it calls one: a serialized model but for the inputs and
  // outputs of its graph.
  std::string alone;
};

// A model of the node alone, for whoever runs such nodes. Operand k is the input "x<k>", or an initializer where
// `known` has it (null elsewhere); output k is "y<k>". Types are those of the application. Errors: protobuf's limits.
absl::StatusOr<std::string> OpaqueNodeModel(const OpaqueNode& node, const std::vector<TensorType>& operands,
                                            const std::vector<const Tensor*>& known,
                                            const std::vector<TensorType>& outputs);

struct ImportedModel {
  Graph graph;
  ModelMetadata metadata;
  // The inputs' symbolic dimensions and the sizes that they have in the graph.
  std::map<std::string, int64_t> dims;
  // The relations between these sizes, if they were looked for (tools/library/named_model.h).
  std::optional<std::vector<SizeRelation>> relations;
  // By input and axis: the symbolic dimension, empty where the size is fixed.
  std::vector<std::vector<std::string>> dim_names;
  // With kOff and kStep: floating states that are no weights, each with the reason: constants of the graph,
  // initializers that training has to leave as they are.
  std::map<std::string, std::string> left;
  // Those among them that may be parameters, by all that the file says: each with a sentence about it.
  std::map<std::string, std::string> undecided;
  // For the user of the first such import: weights that an exporter wrote once for several, or twice for one.
  std::vector<std::string> weight_notes;
  // Files of external data, as the model names them: paths from its folder, sorted.
  std::vector<std::string> external_files;
  // For the user: symbolic sizes that were taken to be 1, parts of the file that were left aside.
  std::vector<std::string> notes;
  std::shared_ptr<const OnnxSource> source;  // null unless asked for
  bool has_subgraphs = false;                // nodes of the file hold graphs, as If and Loop do
  std::vector<OpaqueNode> opaque;            // none without ImportOptions::keep_unknown
  std::vector<OpaqueNode> tail;              // the nodes of the tail; of them the first two members
  bool fold_defaults = false;                // as ImportOptions has it
};

struct ModelParts;

// A model that was read once and is imported at several sizes of its symbolic dimensions. The graphs share the elements
// of their weights. Not thread-safe.
class OnnxModel {
 public:
  // As ImportOnnx and ImportOnnxBytes; with the errors of reading alone. `map`: large weights stay in their files of
  // external data, mapped into memory, as long as a graph has them. Such a file must not be written to meanwhile:
  // weights would change, and where it becomes shorter the process ends (SIGBUS). Another file may take its name.
  static absl::StatusOr<OnnxModel> Open(const std::string& path, bool map = false);
  static absl::StatusOr<OnnxModel> FromBytes(const std::string& bytes, const std::string& name,
                                             const std::string& directory);
  OnnxModel(OnnxModel&&) noexcept;
  OnnxModel& operator=(OnnxModel&&) noexcept;
  ~OnnxModel();

  absl::StatusOr<ImportedModel> Import(const ImportOptions& options = {});

 private:
  explicit OnnxModel(std::unique_ptr<ModelParts> parts);
  std::unique_ptr<ModelParts> parts_;
};

// External data is read from the folder of the model (or below it).
absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options = {});
// From a serialized model. `name` stands in errors for the path; external data is read from `directory`, or refused
// where that is empty.
absl::StatusOr<ImportedModel> ImportOnnxBytes(const std::string& bytes, const std::string& name,
                                              const std::string& directory, const ImportOptions& options = {});

// The operators of a model file, whether they can be imported or not.
struct OnnxContents {
  ModelMetadata metadata;
  std::map<std::string, int> operators;    // nodes by operator, "domain.Operator" outside ONNX's own domain
  std::map<std::string, int> unsupported;  // those of them that cannot be imported
};
absl::StatusOr<OnnxContents> InspectOnnx(const std::string& path);

// An operator of ONNX that can be imported, from `first_opset` on; `newest_version` is the last version of its
// definition that is known here.
struct OnnxOperatorVersions {
  std::string name;
  int first_opset = 1;
  int newest_version = 1;
};
std::vector<OnnxOperatorVersions> OnnxOperators();
// The first and the last opset that are read.
inline constexpr int64_t kOldestOpset = 7;
inline constexpr int64_t kNewestOpset = 28;

// A graph of which some sizes are names: what it is at the samples of the fit, in their order.
struct SizedGraph {
  Graph graph;
  std::shared_ptr<const OnnxSource> source;  // of the model at those sizes; may be null
};
struct NamedGraph {
  NamedGraph(const std::vector<std::string>& names, const std::vector<index::NamedSizes>& sizes,
             const std::vector<SizeRelation>& relations)
      : fit(names, sizes, relations) {}
  RelatedFit fit;
  std::vector<SizedGraph> samples;
};

struct ExportOptions {
  // Weight-only values that run-time nodes read are computed and written as initializers; otherwise their nodes are
  // written.
  bool fold_weights = true;
  // Weights of more bytes than this, all together, go to a file next to the model (protobuf ends at 2 GiB).
  int64_t max_inline_bytes = int64_t{1500} << 20;
  // Large weights whose elements are all equal are written as ConstantOfShape nodes; with a source, computed ones
  // alone.
  bool compact_uniform = true;
  // The model that the graph was rewritten from, in the same arena: what no rule touched is written with its nodes as
  // they were read. Null: everything is written in the forms of export_ops.cc.
  std::shared_ptr<const OnnxSource> source;
  // The tail of the source is written as well, and outputs that only it reads are none of the file.
  bool tail = false;
  // Takes the place of graph and source: dimensions are written by name, and what depends on their sizes as nodes that
  // compute it. An error (kFailedPrecondition) where that cannot be.
  std::shared_ptr<NamedGraph> named;
  // Asked by ExportOnnx when all is written and before it takes its names: an error leaves nothing. For weights of
  // files that may have changed. Empty: nothing is asked.
  std::function<absl::Status()> check;
};

// Writes a temporary file and renames it: the path holds the old file or the whole new one. Inputs, outputs and named
// values keep their names. The opset is that of `metadata`, at least 13 and without a source at most 22, raised to what
// the operators need.
absl::Status ExportOnnx(const Graph& graph, const ModelMetadata& metadata, const std::string& path,
                        const ExportOptions& options = {});
// Checks that the names of options.named can be written; the error tells why not.
absl::Status CheckNames(const ModelMetadata& metadata, const ExportOptions& options);
// The serialized model; an error where it would need external data.
absl::StatusOr<std::string> ExportOnnxBytes(const Graph& graph, const ModelMetadata& metadata,
                                            const ExportOptions& options = {});

// A serialized model whose large weights are not copied: they stay where the tensors of a graph have them, on the way
// into a file and back into a graph (docs/decisions/090).
struct SerializedModel {
  absl::Cord bytes;
  absl::flat_hash_map<Value, Tensor> computed;  // known values of the graph; none where sizes have names
};
// As ExportOnnxBytes.
absl::StatusOr<SerializedModel> SerializeOnnx(const Graph& graph, const ModelMetadata& metadata,
                                              const ExportOptions& options = {});
// As ImportOnnxBytes without external data. Tensors of the graph keep the memory of `bytes`.
absl::StatusOr<ImportedModel> ImportSerialized(const absl::Cord& bytes, const std::string& name,
                                               const ImportOptions& options = {});
// As ExportOnnx writes; `check` as ExportOptions has it.
absl::Status WriteSerialized(const absl::Cord& bytes, const std::string& path,
                             const std::function<absl::Status()>& check = nullptr);

// A single tensor from a file, by the extension .npy (core/ir/npy.h) or .pb (a TensorProto). The file is untrusted: its
// sizes are checked before memory is taken.
absl::StatusOr<Tensor> LoadTensorFile(const std::string& path);

}  // namespace rewright
