// Rewright as a library: load an ONNX model, make it faster by proved rewrites, run it, save it.
//
//   rewright::ModelOptions options;
//   options.dims = {{"batch", 1}, {"sequence", 128}};
//   rewright::Model model = rewright::Model::Load("bert.onnx", options);
//   model.Optimize();
//   std::vector<rewright::OutputArray> outputs =
//       model.Run({rewright::InputView::Of("input_ids", {1, 128}, ids.data()), ...});
//   model.Save("bert.opt.onnx");
//
// Whatever goes wrong is thrown as rewright::Error, faults of the library itself among it: no call ends the process,
// starts it anew, or prints. C++17.
//
// Kernels run on threads of OpenMP. GNU's lets threads that wait spin for milliseconds, which costs much where the
// processor is shared with others; GOMP_SPINCOUNT=4000 in the environment, before the library is loaded, shortens it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define REWRIGHT_API __attribute__((visibility("default")))

namespace rewright {

enum class ErrorCode {
  kInvalidInput,  // the model, data, an option, a file or a device is not what is expected
  kOutOfMemory,
  kInternal,        // a fault of the library; the model is to be destroyed
  kStopped,         // the caller asked for it
  kInvalidSetting,  // a number among options or settings lies outside of its range
};

class REWRIGHT_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  ~Error() override;
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// While one exists, what its thread calls here ends soon once `stopped` says so, with an error of code kStopped:
// between steps of a run and of a proof, operators that are read or compiled, and parts of files. Threads that work for
// a call may ask, too. A call that is ended leaves models, sessions and files as they were. Searches ask the flag of
// their settings alone.
class REWRIGHT_API StopWhen {
 public:
  explicit StopWhen(std::function<bool()> stopped);
  ~StopWhen();
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class ElementType : std::uint8_t {
  kFloat32,
  kFloat64,
  kInt64,
  kInt32,
  kBool,
  kFloat16,   // IEEE's half precision
  kBFloat16,  // the upper half of a float
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kUInt32,
  kUInt64
};

template <typename T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
  static constexpr ElementType kValue = ElementType::kFloat32;
};
template <>
struct ElementTypeOf<double> {
  static constexpr ElementType kValue = ElementType::kFloat64;
};
template <>
struct ElementTypeOf<std::int64_t> {
  static constexpr ElementType kValue = ElementType::kInt64;
};
template <>
struct ElementTypeOf<std::int32_t> {
  static constexpr ElementType kValue = ElementType::kInt32;
};
template <>
struct ElementTypeOf<bool> {
  static constexpr ElementType kValue = ElementType::kBool;
};

// An input or output of a model, at the sizes that it was loaded with.
struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<std::string> dims;  // by axis: the symbolic dimension; empty where the size is fixed. Only inputs have it
};

// Elements of the caller, in row-major order. They are used where they lie, and must stay until Run returns.
struct InputView {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;

  template <typename T>
  static InputView Of(std::string name, std::vector<std::int64_t> shape, const T* data) {
    return {std::move(name), ElementTypeOf<T>::kValue, std::move(shape), data};
  }
};

// Memory of the caller that takes an output.
struct OutputView {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;

  template <typename T>
  static OutputView Of(std::string name, std::vector<std::int64_t> shape, T* data) {
    return {std::move(name), ElementTypeOf<T>::kValue, std::move(shape), data};
  }
};

// An output. Copies share the elements.
struct REWRIGHT_API OutputArray {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> memory;  // row-major

  std::size_t size() const;  // elements
  // Throws where T is not the element type.
  template <typename T>
  const T* data() const {
    CheckType(ElementTypeOf<T>::kValue);
    return static_cast<const T*>(memory.get());
  }

 private:
  void CheckType(ElementType wanted) const;
};

struct ModelOptions {
  // Sizes of symbolic dimensions by name, for Optimize and Save. Sizes that are not given are 1.
  std::map<std::string, std::int64_t> dims;
  // Inputs with a default are taken for what it says. Else they stay inputs, in the file that is saved as well; Run
  // uses the default of one that it is not given.
  bool fold_defaults = false;
  // cpu, cuda:N, onnxruntime, openvino, or reference: the interpreter. On cpu and onnxruntime nodes of a model that are
  // not known here, of custom operators for instance, are kept as they are where the file declares the types of their
  // outputs; onnxruntime runs them, which is looked for when they are to run ($REWRIGHT_ONNXRUNTIME, the loader,
  // Python's package). OpenVINO is looked for likewise ($REWRIGHT_OPENVINO).
  std::string device = "cpu";
  std::string precision = "f32";                   // of reals on a GPU: f32, tf32, f16, bf16
  std::string profile;                             // database of measured costs, read and filled; empty: none is kept
  std::vector<std::string> disabled_kernel_rules;  // laws by which no kernel may compute an operator
  int threads = 0;                                 // 0: all of the machine
  int cached_sizes = 8;                            // how many sizes stay compiled
};

// The rules of an optimization.
struct RuleSettings {
  std::vector<std::string> rules;           // files; empty: those that come with the library
  std::optional<bool> baseline;             // start from the baseline's graph too; not given: where `rules` is empty
  std::vector<std::string> disabled_rules;  // by name
  bool assume_finite = false;               // also rules that need every value to be finite
  bool exact = false;                       // only rules that keep every bit in the reference interpreter
  bool trust_unverified = false;            // also rules without a valid record of their proof
};

// The state of an optimization that is under way.
struct OptimizeProgress {
  std::string phase;        // "searching", "timing candidate 2 of 3"
  std::int64_t graphs = 0;  // of the search so far, as the two costs in seconds
  double cost_before = 0, cost_best = 0;
};

// The flags of `rewright optimize` (--help explains them): the same model, settings and profile give the same graph.
struct OptimizeSettings : RuleSettings {
  std::string search = "backtrack";     // backtrack, greedy, eqsat
  std::string windows = "auto";         // search parts of the graph by themselves: auto, always, never
  double alpha = 1.05;                  // graphs up to so many times the best cost are pursued
  std::int64_t budget = 1000;           // graphs to build at most
  std::int64_t egraph_nodes = 2000;     // that one saturation of eqsat may add
  double growth = 0.01;                 // how much larger the file may become, as a share of it
  std::string cost = "measured";        // or analytic:NAME: nothing is timed, the cheapest graph is taken
  double time_limit_seconds = 0;        // for search, timing, checks and proof; 0: none
  std::int64_t memory_limit_bytes = 0;  // of the process; 0: none
  bool fix_sizes = false;               // also rewrites that hold at these sizes alone, which Save() then fixes
  bool move_roundings = false;          // also rewrites that round otherwise in front of what rounds on purpose
  double tolerance = 0;  // how far outputs may move, as a share of the largest element, for products in 16 bits
  std::map<std::string, std::pair<double, double>> ranges;  // where elements of inputs lie
  bool check = true;                                        // compare outputs with the original's on seeded inputs
  double rtol = 1e-3;
  double atol = -1;  // negative: 1e-4 times the largest element; 8 roundings of it in 16 bits
  std::uint64_t seed = 1;
  bool prove = true;  // the result equal to the original as a whole, over the real numbers
  double proof_limit_seconds = 10;
  // Set from elsewhere, a signal handler or another thread: Optimize ends soon, with an error of code kStopped.
  const std::atomic<bool>* stop = nullptr;
  // Called with each phase and, in a search, several times a second, on the thread of Optimize. Must not throw.
  std::function<void(const OptimizeProgress&)> progress;
};

struct OptimizeSummary {
  bool rewritten = false;     // false: the model stays as it was; `verdict` says why
  std::string verdict;        // one sentence
  double seconds_before = 0;  // median latencies; 0 where nothing was timed
  double seconds_after = 0;
  bool checked = false;
  double max_abs_diff = 0;
  double max_rel_diff = 0;  // as a share of the output's largest element
  bool proved = false;  // a rewritten model equal to the original as a whole
  std::string proof;    // "proved equal as a whole (12 regions)", or "open: " and why; empty: none was asked for
  std::vector<std::pair<std::string, int>> rewrites;  // rules and how often, most frequent first
};

// The way a model runs at the sizes of some inputs.
struct SizeSummary {
  std::map<std::string, std::int64_t> dims;
  int operators = 0;                  // that a run computes
  std::vector<std::string> left_out;  // rules of steps of the optimization that do not apply at these sizes
};

// Runs of a model that pass some of its outputs on to the next run, as a language model that decodes passes its caches
// of keys and values. Each of them is an input with new rows joined behind it (Concat along an axis whose size has a
// name):
//
//   GrowingSession session = model.MakeSession({{"past.0.key", "present.0.key"}, {"past.0.value", "present.0.value"}});
//   session.Run({prompt, ..});                                        // the past is empty
//   std::vector<OutputArray> logits = session.Run({token, ..});       // and now has the rows of the prompt
//
// The rows are kept here, with room for more, so a run writes its new rows and copies no old ones. It is compiled for
// as many rows as there is room for, and again when that is doubled. Results are those of Model::Run up to the order of
// sums. Calls from several threads take turns. A session must not outlive its model, nor be used while that is
// optimized.
class REWRIGHT_API GrowingSession {
 public:
  GrowingSession(GrowingSession&&) noexcept;
  GrowingSession& operator=(GrowingSession&&) noexcept;
  ~GrowingSession();

  // All inputs but the states, in any order; gives all outputs but their next values. An error leaves the states as
  // they were.
  std::vector<OutputArray> Run(const std::vector<InputView>& inputs);
  // The rows of the past.
  std::int64_t length() const;
  // A copy of a state, by the name of its input. Error: there is none, or it has no rows yet.
  OutputArray State(const std::string& input) const;
  // Empties the past.
  void Clear();

 private:
  friend class Model;
  struct Impl;
  explicit GrowingSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A model. Run and the functions that only tell may be called from several threads at a time, each run with memory of
// its own; Optimize and moving from a model may not while others use it.
//
// A model with symbolic dimensions is optimized once, at the sizes of ModelOptions::dims. At other sizes every step of
// that optimization is looked at again: one whose conditions do not hold there is left out. Each size is compiled when
// it is first met, and the last ModelOptions::cached_sizes of them are kept.
class REWRIGHT_API Model {
 public:
  static Model Load(const std::string& path, const ModelOptions& options = ModelOptions());
  // A serialized model. It names no external data.
  static Model FromBytes(const void* data, std::size_t size, const ModelOptions& options = ModelOptions());

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  std::map<std::string, std::int64_t> dims() const;
  // Notes of the reader of the file: symbolic sizes taken to be 1, parts left aside.
  std::vector<std::string> notes() const;

  // Searches, measures, checks and proves, as `rewright optimize` does: the original stays where the file of the result
  // would be the same, too large, or not faster. Starts from the model as it was loaded, however often it is called.
  // After an error the model is as before.
  OptimizeSummary Optimize(const OptimizeSettings& settings = OptimizeSettings());

  // Inputs in any order, all of them; outputs in the order of the model.
  std::vector<OutputArray> Run(const std::vector<InputView>& inputs) const;
  // Writes outputs into the caller's memory. Outputs that are not named are computed and dropped.
  void Run(const std::vector<InputView>& inputs, const std::vector<OutputView>& outputs) const;
  // Describes a run on these inputs; their data may be null. Compiles where it must.
  SizeSummary Prepare(const std::vector<InputView>& inputs) const;
  // `states`: inputs, and the outputs that are their next values. `capacity`: rows to have room for at first; 0: a few.
  // Devices: cpu and reference. Errors: an output that is not its input with rows joined behind it.
  GrowingSession MakeSession(const std::map<std::string, std::string>& states, std::int64_t capacity = 0) const;

  // The optimized model: the file that Optimize has read back and compared with the original. It keeps the names of
  // symbolic dimensions that no rewrite read the size of; the others have the sizes of ModelOptions::dims. A model that
  // was not rewritten is written byte for byte, with the external data that it names.
  void Save(const std::string& path) const;

 private:
  friend class GrowingSession;
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The prover's verdict on one rule (docs/rules.md has the language).
struct RuleJudgement {
  std::string name;
  std::string verdict;     // proved: for tensors of every size; refuted; unknown; error: ill-formed
  std::string rule_class;  // of a proved one: exact, reassociating, finite-only, numerically-risky
  // For a proved rule the ranks; else the open part, or sizes and values of a counterexample.
  std::string explanation;
};

// Judges the rules of a text one by one, without a device and without a model; the explanation of an ill-formed rule
// says where it is wrong. `time_limit_seconds`: of work, counted in steps, for each rule. `stop`: as that of
// OptimizeSettings.
REWRIGHT_API std::vector<RuleJudgement> VerifyRules(const std::string& text, double time_limit_seconds = 60,
                                                    const std::atomic<bool>* stop = nullptr);

// Sets the folder of the rules and other data files: the installed share/rewright. Needed only where they are not found
// by the place of the library. For the whole process; to be called first.
REWRIGHT_API void SetDataFolder(const std::string& folder);

}  // namespace rewright
