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
#include "core/onnx/size_relations.h"
#include "core/tensor/tensor.h"

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

// The state from which masks of dropout are drawn, i64[]: it advances by one each step.
inline constexpr char kDropoutState[] = "dropout.seed";

struct ImportOptions {
  // kStep gives a graph in mode training, whose running averages and kDropoutState have next values. Its results are
  // those of a graph imported with kOff for inference, whose states are the same except for kDropoutState.
  OnnxTraining training = OnnxTraining::kAsWritten;
  uint64_t seed = 1;  // of kDropoutState
  // True if gradients will be taken, as with kStep: compositions of several operators are then chosen so that their
  // gradients are PyTorch's, also at points without a derivative (the norm of zeros). Values are the same.
  bool differentiated = false;
  // Sizes of symbolic dimensions by name. An unnamed one is called <tensor>:<axis>. A missing size is `other_sizes`,
  // with a note.
  std::map<std::string, int64_t> dims;
  int64_t other_sizes = 1;
  // Other names of inputs and outputs in the graph, by those of the file. Error: the file has no such input or output.
  std::map<std::string, std::string> names;
  // Accepts sizes of dimensions that the model lacks: another model may have them.
  bool other_dims = false;
  // Replaces inputs that have a default by constants of that default. Those of a model that is trained always are: they
  // are its weights.
  bool fold_defaults = false;
  // Fills in ImportedModel::source, which holds the file's contents apart from the elements of initializers.
  bool keep_source = false;
  // Makes nodes opaque (core/ops/foreign.h) whose operator, or its use, cannot be imported, if the file declares the
  // types of their outputs. The graph can be rewritten and, with the source, written; only other programs can run it.
  bool keep_unknown = false;
  // With keep_unknown: some nodes cannot be opaque, since the sizes of their results depend on values or a result is no
  // tensor. These nodes, and all that depend on them, are the tail of the file. The graph ends before the tail, and the
  // values that the tail reads are outputs. With the source the tail is written behind the graph (ExportOptions::tail);
  // nothing here runs it.
  bool keep_tail = false;
  // For training (kOff and kStep): initializers that are trained regardless of how they look; those that are one weight
  // although they look like several, and the reverse (ImportedModel::left, ::weight_notes). Null: none.
  std::function<bool(const std::string&name)> trains, shares, parts;
  // The limit on the total size of tensors that a model makes from little data (ConstantOfShape, Range).
  int64_t max_generated_bytes = int64_t{4} << 30;
};

// The nodes of a model that was read, from which it can be written again.
class OnnxSource;

// A node that is kept as it was read.
struct OpaqueNode {
  std::string node;    // name in errors: node "frob" (com.acme.Frob)
  std::string why;     // it is not read
  int64_t number = 0;  // the attribute `node` of its application (core/ops/foreign.h)
  // The node by itself, with the functions of the file if it calls one: a serialized model without the inputs and
  // outputs of its graph.
  std::string alone;
};

// Returns a model of the node alone, for programs that run such nodes. Operand k is the input "x<k>", or an initializer
// if `known` has it (null elsewhere); output k is "y<k>". Types are those of the application. Errors: protobuf's
// limits.
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
  // The symbolic dimension by input and axis; empty if the size is fixed.
  std::vector<std::vector<std::string>> dim_names;
  // With kOff and kStep: floating states that are not trained, each with the reason: constants of the graph, or
  // initializers that training has to leave unchanged.
  std::map<std::string, std::string> left;
  // Those of them that may be parameters, judging by the file alone: each with a sentence about it.
  std::map<std::string, std::string> undecided;
  // Notes for the user of the first such import: weights that an exporter wrote once for several, or twice for one.
  std::vector<std::string> weight_notes;
  // Files of external data, as the model names them: paths from its folder, sorted.
  std::vector<std::string> external_files;
  // Notes for the user: symbolic sizes that were taken to be 1, parts of the file that were skipped.
  std::vector<std::string> notes;
  std::shared_ptr<const OnnxSource> source;  // null unless asked for
  bool has_subgraphs = false;                // some nodes of the file hold graphs, as If and Loop do
  std::vector<OpaqueNode> opaque;            // none without ImportOptions::keep_unknown
  std::vector<OpaqueNode> tail;              // the nodes of the tail; the first two members of each
  bool fold_defaults = false;                // as ImportOptions has it
};

struct ModelParts;

// A model that is read once and imported at several sizes of its symbolic dimensions. The graphs share the elements of
// their weights. Not thread-safe.
class OnnxModel {
 public:
  // Read as ImportOnnx and ImportOnnxBytes do; errors are those of reading. With `map` large weights stay in their
  // files of external data, mapped into memory, as long as a graph has them. Such a file must not be written to
  // meanwhile: weights would change, and the process ends (SIGBUS) if the file becomes shorter. Another file may take
  // its name.
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

// Imports a file. External data is read from the folder of the model (or below it).
absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options = {});
// Imports a serialized model. `name` replaces the path in errors; external data is read from `directory`, or refused if
// that is empty.
absl::StatusOr<ImportedModel> ImportOnnxBytes(const std::string& bytes, const std::string& name,
                                              const std::string& directory, const ImportOptions& options = {});

// Counts of the operators of a model file, whether they can be imported or not.
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
// The first and the last opset that can be imported.
inline constexpr int64_t kOldestOpset = 7;
inline constexpr int64_t kNewestOpset = 28;

// A graph some of whose sizes have names: its exports at the samples of the fit, in their order.
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
  // Computes values that depend on weights alone and that run-time nodes read, and writes them as initializers;
  // otherwise their nodes are written.
  bool fold_weights = true;
  // The limit on the bytes of weights in the model file: beyond it, all go to a file next to the model (protobuf's
  // limit is 2 GiB).
  int64_t max_inline_bytes = int64_t{1500} << 20;
  // Writes large weights whose elements are all equal as ConstantOfShape nodes; with a source, only computed ones.
  bool compact_uniform = true;
  // The model that the graph was rewritten from, in the same arena: parts that no rule touched are written with their
  // original nodes. Null: everything is written in the forms of export/ops.cc.
  std::shared_ptr<const OnnxSource> source;
  // Writes the tail of the source as well; outputs that only the tail reads are then no outputs of the file.
  bool tail = false;
  // Replaces graph and source: dimensions are written by name, and values that depend on their sizes as nodes that
  // compute them. An error (kFailedPrecondition) if that is not possible.
  std::shared_ptr<NamedGraph> named;
  // Called by ExportOnnx after all is written and before the files get their names: an error leaves nothing behind. It
  // serves to check weights of files that may have changed. Empty: no check.
  std::function<absl::Status()> check;
};

// Writes a temporary file and renames it: the path names the old file or the whole new one. Inputs, outputs and named
// values keep their names. The opset is that of `metadata`, at least 13 and without a source at most 22, raised to the
// operators' needs.
absl::Status ExportOnnx(const Graph& graph, const ModelMetadata& metadata, const std::string& path,
                        const ExportOptions& options = {});
// Checks that the names of options.named can be written; the error tells why not.
absl::Status CheckNames(const ModelMetadata& metadata, const ExportOptions& options);
// Returns the serialized model; an error if it would need external data.
absl::StatusOr<std::string> ExportOnnxBytes(const Graph& graph, const ModelMetadata& metadata,
                                            const ExportOptions& options = {});

// A serialized model whose large weights are not copied: the tensors of a graph keep them, on the way into a file and
// back into a graph (docs/decisions/090).
struct SerializedModel {
  absl::Cord bytes;
  absl::flat_hash_map<Value, Tensor> computed;  // known values of the graph; none where sizes have names
  // The initializers that hold elements of the graph's values, by name; where sizes have names, of the first sample's.
  std::vector<std::pair<std::string, Value>> initializers;
};
// Serializes as ExportOnnxBytes does.
absl::StatusOr<SerializedModel> SerializeOnnx(const Graph& graph, const ModelMetadata& metadata,
                                              const ExportOptions& options = {});
// Imports as ImportOnnxBytes does, without external data. Tensors of the graph keep the memory of `bytes`.
absl::StatusOr<ImportedModel> ImportSerialized(const absl::Cord& bytes, const std::string& name,
                                               const ImportOptions& options = {});
// Writes as ExportOnnx does; `check` is ExportOptions' member.
absl::Status WriteSerialized(const absl::Cord& bytes, const std::string& path,
                             const std::function<absl::Status()>& check = nullptr);

// Reads a single tensor from a file, by the extension .npy (core/tensor/npy.h) or .pb (a TensorProto). The file is
// untrusted: its sizes are checked before memory is allocated.
absl::StatusOr<Tensor> LoadTensorFile(const std::string& path);

}  // namespace rewright
