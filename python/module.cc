// rewright._rewright: the library for Python, one call each. Arrays come and go without a copy, and no call holds the
// interpreter's lock while it computes. The comfortable interface is in rewright/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "rewright/equal.h"
#include "rewright/rewright.h"

namespace nb = nanobind;
using namespace rewright;

namespace {

// An array that the library computes with, in row-major order in the processor's memory. It comes from any object with
// DLPack or the buffer protocol; an array in another order is copied.
using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

struct Element {
  ElementType type;
  nb::dlpack::dtype dtype;
  const char* name;
};

constexpr nb::dlpack::dtype Sixteen(nb::dlpack::dtype_code code) { return {static_cast<uint8_t>(code), 16, 1}; }

const Element kElements[] = {{ElementType::kFloat32, nb::dtype<float>(), "float32"},
                             {ElementType::kFloat64, nb::dtype<double>(), "float64"},
                             {ElementType::kInt64, nb::dtype<int64_t>(), "int64"},
                             {ElementType::kInt32, nb::dtype<int32_t>(), "int32"},
                             {ElementType::kBool, nb::dtype<bool>(), "bool"},
                             {ElementType::kFloat16, Sixteen(nb::dlpack::dtype_code::Float), "float16"},
                             {ElementType::kBFloat16, Sixteen(nb::dlpack::dtype_code::Bfloat), "bfloat16"},
                             {ElementType::kInt8, nb::dtype<int8_t>(), "int8"},
                             {ElementType::kUInt8, nb::dtype<uint8_t>(), "uint8"},
                             {ElementType::kInt16, nb::dtype<int16_t>(), "int16"},
                             {ElementType::kUInt16, nb::dtype<uint16_t>(), "uint16"},
                             {ElementType::kUInt32, nb::dtype<uint32_t>(), "uint32"},
                             {ElementType::kUInt64, nb::dtype<uint64_t>(), "uint64"}};

const Element& ElementOf(ElementType type) {
  for (const Element& element : kElements) {
    if (element.type == type) return element;
  }
  throw Error(ErrorCode::kInternal, "an element type without a name");
}

std::optional<ElementType> TypeOf(const nb::dlpack::dtype& type) {
  for (const Element& element : kElements) {
    if (element.dtype == type) return element.type;
  }
  return std::nullopt;
}

nb::dlpack::dtype TypeFrom(ElementType type) { return ElementOf(type).dtype; }

const char* NameOf(ElementType type) { return ElementOf(type).name; }

// Runs `work` on a thread of its own, since the handlers of Python's signals run on this one. Where a handler raises,
// as that of Ctrl-C does, the flag that `work` is given is set, and the exception goes on when `work` has ended.
template <typename Work>
auto Interruptible(const Work& work) {
  std::atomic<bool> stop{false};
  auto result = std::async(std::launch::async, [&] {
    const StopWhen stopping([&] { return stop.load(); });
    return work(&stop);
  });
  const auto ended = [&](std::chrono::milliseconds limit) {
    const nb::gil_scoped_release unlocked;
    return result.wait_for(limit) == std::future_status::ready;
  };
  while (!ended(std::chrono::milliseconds(50))) {
    if (PyErr_CheckSignals() == 0) continue;
    const nb::python_error raised;
    stop = true;
    while (!ended(std::chrono::milliseconds(50))) {
    }
    throw raised;
  }
  return result.get();
}

// Does short work, which no other thread is worth: this one asks for signals itself, twenty times a second. The
// exception that a handler raises goes on when `work` has ended.
template <typename Work>
auto Asking(const Work& work) {
  constexpr std::chrono::milliseconds kBetween(50);
  const std::thread::id owner = std::this_thread::get_id();
  std::chrono::steady_clock::time_point next = std::chrono::steady_clock::now() + kBetween;
  std::atomic<bool> raised{false};
  std::optional<nb::python_error> error;
  const auto stopped = [&] {
    if (std::this_thread::get_id() != owner || raised || std::chrono::steady_clock::now() < next) return raised.load();
    next = std::chrono::steady_clock::now() + kBetween;
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() == 0) return false;
    error.emplace();
    raised = true;
    return true;
  };
  const auto unlocked = [&] {
    const nb::gil_scoped_release released;
    const StopWhen stopping(stopped);
    return work();
  };
  try {
    auto result = unlocked();
    if (!error) return result;
  } catch (const Error&) {
    if (!error) throw;
  }
  throw *std::move(error);
}

// Remembers what lies at some places of memory: every byte of a small one, of a large one a line in each 4 KiB.
class MemorySample {
 public:
  explicit MemorySample(std::vector<std::pair<uintptr_t, size_t>> places)
      : places_(std::move(places)), digest_(Digest()) {}
  bool Same() const { return Digest() == digest_; }

 private:
  static constexpr size_t kLine = 64, kSmall = 64 << 10, kStep = 4 << 10, kAhead = 16;
  using Lanes = std::array<uint64_t, kLine / sizeof(uint64_t)>;

  // One that a change of a single word changes for certain.
  Lanes Digest() const {
    Lanes lanes = {};
    for (const auto& [address, size] : places_) {
      const char* const bytes = reinterpret_cast<const char*>(address);
      const size_t step = size <= kSmall ? kLine : kStep;
      for (size_t at = 0; at < size; at += step) {
        if (at + kAhead * step < size) __builtin_prefetch(bytes + at + kAhead * step);
        Lanes line = {};
        std::memcpy(line.data(), bytes + at, std::min(kLine, size - at));
        for (size_t lane = 0; lane < lanes.size(); ++lane) {
          const uint64_t mixed = (lanes[lane] ^ line[lane]) * 0x9e3779b97f4a7c15u;
          lanes[lane] = mixed << 29 | mixed >> 35;
        }
      }
    }
    return lanes;
  }

  const std::vector<std::pair<uintptr_t, size_t>> places_;
  const Lanes digest_;
};

InputView ViewOf(const std::string& name, const Input& array, std::optional<ElementType> type) {
  if (!type) {
    std::string known;
    for (const Element& element : kElements) known += std::string(known.empty() ? "" : ", ") + element.name;
    throw Error(ErrorCode::kInvalidInput, "input " + name + ": its elements are of none of " + known);
  }
  std::vector<int64_t> shape;
  for (size_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(static_cast<int64_t>(array.shape(axis)));
  return {name, *type, std::move(shape), array.data()};
}

// Copies share the elements of an OutputArray, and so does the array, which keeps them alive.
nb::object ArrayOf(const OutputArray& output) {
  auto memory = std::make_unique<std::shared_ptr<const void>>(output.memory);
  void* const elements = const_cast<void*>(memory->get());
  // NumPy has no bfloat16: its bits leave as those of unsigned integers.
  const ElementType type = output.type == ElementType::kBFloat16 ? ElementType::kUInt16 : output.type;
  nb::capsule owner(memory.get(), [](void* held) noexcept { delete static_cast<std::shared_ptr<const void>*>(held); });
  (void)memory.release();
  const std::vector<size_t> shape(output.shape.begin(), output.shape.end());
  return nb::cast(nb::ndarray<nb::numpy>(elements, shape.size(), shape.data(), owner, nullptr, TypeFrom(type)));
}

// Runs a model or a session. Inputs whose names are in `bits` are the bits of bfloat16 as unsigned integers.
template <typename Runner>
nb::dict Run(Runner& runner, const nb::dict& inputs, const std::vector<std::string>& bits) {
  std::vector<Input> arrays;  // keep what was copied
  std::vector<InputView> views;
  for (const auto& [key, value] : inputs) {
    const std::string name = nb::cast<std::string>(key);
    arrays.emplace_back();
    if (!nb::try_cast(value, arrays.back())) {
      throw Error(ErrorCode::kInvalidInput, "input " + name + ": found " + nb::inst_name(value).c_str() +
                                                ", expected an array in the processor's memory (of PyTorch: detached)");
    }
    const bool are_bits = std::find(bits.begin(), bits.end(), name) != bits.end();
    views.push_back(ViewOf(name, arrays.back(), are_bits ? ElementType::kBFloat16 : TypeOf(arrays.back().dtype())));
  }
  const std::vector<OutputArray> outputs = Asking([&] { return runner.Run(views); });
  nb::dict results;
  for (const OutputArray& output : outputs) results[output.name.c_str()] = ArrayOf(output);
  return results;
}

// `progress` is None or takes a dict. An exception that it raises ends the search, and goes on.
OptimizeSummary Optimize(Model& model, OptimizeSettings settings, const nb::object& progress) {
  nb::object raised = nb::none();
  const auto tell = [&](std::atomic<bool>* stop, const OptimizeProgress& now) {
    const nb::gil_scoped_acquire locked;
    if (!raised.is_none()) return;
    try {
      nb::dict fields;
      fields["phase"] = now.phase;
      fields["graphs"] = now.graphs;
      fields["seconds_before"] = now.cost_before;
      fields["seconds_best"] = now.cost_best;
      progress(fields);
    } catch (nb::python_error& error) {
      raised = nb::borrow(error.value());
      *stop = true;
    }
  };
  const auto work = [&](std::atomic<bool>* stop) {
    settings.stop = stop;
    if (!progress.is_none()) settings.progress = [=](const OptimizeProgress& now) { tell(stop, now); };
    return model.Optimize(settings);
  };
  try {
    OptimizeSummary summary = Interruptible(work);
    if (raised.is_none()) return summary;
  } catch (const Error&) {
    if (raised.is_none()) throw;
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
  throw nb::python_error();
}

// A path, or the bytes of a model.
ModelContents ContentsOf(const nb::object& model) {
  if (nb::isinstance<nb::bytes>(model)) {
    const nb::bytes bytes = nb::cast<nb::bytes>(model);
    return {"", std::string(bytes.c_str(), bytes.size())};
  }
  return {nb::cast<std::string>(model), ""};
}

nb::list Infos(const std::vector<TensorInfo>& infos) {
  nb::list list;
  for (const TensorInfo& info : infos) {
    nb::list shape;
    for (size_t axis = 0; axis < info.shape.size(); ++axis) {
      if (axis < info.dims.size() && !info.dims[axis].empty()) {
        shape.append(info.dims[axis]);
      } else {
        shape.append(info.shape[axis]);
      }
    }
    list.append(nb::make_tuple(info.name, NameOf(info.type), nb::tuple(shape)));
  }
  return list;
}

}  // namespace

NB_MODULE(_rewright, m) {
  nb::set_leak_warnings(false);  // what PyTorch has compiled lives until the process ends
  m.attr("__version__") = REWRIGHT_VERSION;
  static PyObject* const kError = PyErr_NewException("rewright.Error", PyExc_RuntimeError, nullptr);
  m.attr("Error") = nb::handle(kError);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(error.code() == ErrorCode::kOutOfMemory      ? PyExc_MemoryError
                      : error.code() == ErrorCode::kInvalidSetting ? PyExc_ValueError
                                                                   : kError,
                      error.what());
    }
  });

  nb::class_<ModelOptions>(m, "ModelOptions")
      .def(nb::init<>())
      .def_rw("dims", &ModelOptions::dims)
      .def_rw("fold_defaults", &ModelOptions::fold_defaults)
      .def_rw("device", &ModelOptions::device)
      .def_rw("precision", &ModelOptions::precision)
      .def_rw("profile", &ModelOptions::profile)
      .def_rw("disabled_kernel_rules", &ModelOptions::disabled_kernel_rules)
      .def_rw("threads", &ModelOptions::threads)
      .def_rw("cached_sizes", &ModelOptions::cached_sizes);
  nb::class_<OptimizeSettings>(m, "OptimizeSettings")
      .def(nb::init<>())
      .def_rw("rules", &OptimizeSettings::rules)
      .def_rw("baseline", &OptimizeSettings::baseline, nb::arg().none())
      .def_rw("disabled_rules", &OptimizeSettings::disabled_rules)
      .def_rw("assume_finite", &OptimizeSettings::assume_finite)
      .def_rw("fix_sizes", &OptimizeSettings::fix_sizes)
      .def_rw("exact", &OptimizeSettings::exact)
      .def_rw("trust_unverified", &OptimizeSettings::trust_unverified)
      .def_rw("search", &OptimizeSettings::search)
      .def_rw("windows", &OptimizeSettings::windows)
      .def_rw("alpha", &OptimizeSettings::alpha)
      .def_rw("budget", &OptimizeSettings::budget)
      .def_rw("egraph_nodes", &OptimizeSettings::egraph_nodes)
      .def_rw("growth", &OptimizeSettings::growth)
      .def_rw("cost", &OptimizeSettings::cost)
      .def_rw("time_limit_seconds", &OptimizeSettings::time_limit_seconds)
      .def_rw("memory_limit_bytes", &OptimizeSettings::memory_limit_bytes)
      .def_rw("move_roundings", &OptimizeSettings::move_roundings)
      .def_rw("tolerance", &OptimizeSettings::tolerance)
      .def_rw("ranges", &OptimizeSettings::ranges)
      .def_rw("check", &OptimizeSettings::check)
      .def_rw("rtol", &OptimizeSettings::rtol)
      .def_rw("atol", &OptimizeSettings::atol)
      .def_rw("seed", &OptimizeSettings::seed)
      .def_rw("prove", &OptimizeSettings::prove)
      .def_rw("proof_limit_seconds", &OptimizeSettings::proof_limit_seconds);
  nb::class_<OptimizeSummary>(m, "OptimizeSummary")
      .def_ro("rewritten", &OptimizeSummary::rewritten)
      .def_ro("verdict", &OptimizeSummary::verdict)
      .def_ro("seconds_before", &OptimizeSummary::seconds_before)
      .def_ro("seconds_after", &OptimizeSummary::seconds_after)
      .def_ro("checked", &OptimizeSummary::checked)
      .def_ro("max_abs_diff", &OptimizeSummary::max_abs_diff)
      .def_ro("max_rel_diff", &OptimizeSummary::max_rel_diff)
      .def_ro("proved", &OptimizeSummary::proved)
      .def_ro("proof", &OptimizeSummary::proof)
      .def_ro("rewrites", &OptimizeSummary::rewrites)
      .def("__repr__", [](const OptimizeSummary& summary) { return "<OptimizeSummary: " + summary.verdict + ">"; });
  nb::class_<RuleJudgement>(m, "RuleJudgement")
      .def_ro("name", &RuleJudgement::name)
      .def_ro("verdict", &RuleJudgement::verdict)
      .def_ro("rule_class", &RuleJudgement::rule_class)
      .def_ro("explanation", &RuleJudgement::explanation)
      .def("__repr__", [](const RuleJudgement& judgement) {
        return "<RuleJudgement: " + judgement.name + " " + judgement.verdict + ">";
      });

  nb::class_<GrowingSession>(m, "Session")
      .def("run", &Run<GrowingSession>, nb::arg("inputs"), nb::arg("bits"))
      .def("length", &GrowingSession::length)
      .def("state", [](const GrowingSession& session, const std::string& name) { return ArrayOf(session.State(name)); })
      .def("clear", &GrowingSession::Clear);
  nb::class_<Model>(m, "Model")
      .def_static(
          "load",
          [](const std::string& path, const ModelOptions& options) {
            return Interruptible([&](auto*) { return Model::Load(path, options); });
          },
          nb::arg("path"), nb::arg("options"))
      .def_static(
          "from_bytes",
          [](nb::bytes data, const ModelOptions& options) {
            return Interruptible([&, bytes = data.data(), size = data.size()](auto*) {
              return Model::FromBytes(bytes, size, options);
            });
          },
          nb::arg("data"), nb::arg("options"))
      .def("inputs", [](const Model& model) { return Infos(model.inputs()); })
      .def("outputs", [](const Model& model) { return Infos(model.outputs()); })
      .def("dims", &Model::dims)
      .def("notes", &Model::notes)
      .def("optimize", &Optimize, nb::arg("settings"), nb::arg("progress").none())
      .def("run", &Run<const Model>, nb::arg("inputs"), nb::arg("bits"))
      .def(
          "session",
          [](const Model& model, const std::map<std::string, std::string>& states, std::int64_t capacity) {
            return Interruptible([&](auto*) { return model.MakeSession(states, capacity); });
          },
          nb::arg("states"), nb::arg("capacity"), nb::keep_alive<0, 1>())
      .def(
          "save",
          [](const Model& model, const std::string& path) { Interruptible([&](auto*) { model.Save(path); }); },
          nb::arg("path"));
  m.def(
      "verify_rules",
      [](const std::string& text, double time_limit_seconds) {
        return Interruptible(
            [&](const std::atomic<bool>* stop) { return VerifyRules(text, time_limit_seconds, stop); });
      },
      nb::arg("text"), nb::arg("time_limit_seconds"));
  nb::class_<EqualJudgement>(m, "EqualJudgement")
      .def_ro("answer", &EqualJudgement::answer, "proved, different, open, or equal up to constants")
      .def_ro("summary", &EqualJudgement::summary, "A few lines for people")
      .def_ro("dims", &EqualJudgement::dims, "Sizes of symbolic dimensions of which the answer tells")
      .def_ro("output", &EqualJudgement::output, "Of different models: the output that differs; empty otherwise")
      .def_ro("at", &EqualJudgement::at, "The place of the element of `output`")
      .def_ro("a", &EqualJudgement::a, "The element of the first model")
      .def_ro("b", &EqualJudgement::b, "The element of the second model")
      .def_ro("tolerance", &EqualJudgement::tolerance, "The difference of the elements that rounding explains")
      .def_ro("first", &EqualJudgement::first, "The first application of the second model that computes something else")
      .def_ro("open", &EqualJudgement::open, "The regions that are left, as rules")
      .def("__repr__", [](const EqualJudgement& judgement) { return "<EqualJudgement: " + judgement.answer + ">"; });
  nb::class_<EqualSettings>(m, "EqualSettings")
      .def(nb::init<>())
      .def_rw("dims", &EqualSettings::dims)
      .def_rw("map", &EqualSettings::map)
      .def_rw("fold_defaults", &EqualSettings::fold_defaults)
      .def_rw("rules", &EqualSettings::rules)
      .def_rw("time_limit_seconds", &EqualSettings::time_limit_seconds)
      .def_rw("seed", &EqualSettings::seed)
      .def_rw("threads", &EqualSettings::threads);
  m.def(
      "judge_equal",
      [](const nb::object& a, const nb::object& b, EqualSettings settings) {
        const ModelContents first = ContentsOf(a), second = ContentsOf(b);
        return Interruptible([&](const std::atomic<bool>* stop) {
          settings.stop = stop;
          return JudgeEqual(first, second, settings);
        });
      },
      nb::arg("a"), nb::arg("b"), nb::arg("settings"));
  nb::class_<MemorySample>(m, "MemorySample")
      .def(nb::init<std::vector<std::pair<uintptr_t, size_t>>>(), nb::arg("places"))
      .def("same", &MemorySample::Same, nb::call_guard<nb::gil_scoped_release>());
}
