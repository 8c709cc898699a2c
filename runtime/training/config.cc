#include "runtime/training/config.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxCount = int64_t{1} << 40;
constexpr double kMaxReal = 1e6;

std::string Shown(const Json& json) {
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

// The fields of one object. The first error of all objects is kept; what is read after it has no meaning.
class Fields {
 public:
  Fields(const Json& json, std::string path, absl::Status* status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json.is_object()) Wrong(path_, json, "an object");
  }

  const Json& json() const { return json_; }

  // Null where the field is not given.
  const Json* Find(const std::string& name) {
    known_.insert(name);
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  bool Has(const std::string& name) { return Find(name) != nullptr; }

  void Int(const std::string& name, int64_t min, int64_t max, int64_t* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number_integer() || *field < min || *field > max) {
      return Wrong(At(name), *field, absl::StrCat("an integer from ", min, " to ", max));
    }
    *value = field->get<int64_t>();
  }
  void Real(const std::string& name, double min, double max, double* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    const double number = field->is_number() ? field->get<double>() : max + 1;
    if (!(number >= min && number <= max)) {
      return Wrong(At(name), *field, absl::StrCat("a number from ", min, " to ", max));
    }
    *value = number;
  }
  void Flag(const std::string& name, bool* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_boolean()) return Wrong(At(name), *field, "true or false");
    *value = field->get<bool>();
  }
  void Text(const std::string& name, std::string* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_string() || field->get_ref<const std::string&>().empty()) {
      return Wrong(At(name), *field, "a text that is not empty");
    }
    *value = field->get<std::string>();
  }
  // The position of the text among the choices.
  template <typename T>
  void Choice(const std::string& name, const std::vector<std::pair<std::string, T>>& choices, T* value) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    std::vector<std::string> names;
    for (const auto& [choice, meaning] : choices) {
      if (*field == choice) {
        *value = meaning;
        return;
      }
      names.push_back(choice);
    }
    Wrong(At(name), *field, "one of " + absl::StrJoin(names, ", "));
  }
  void Ints(const std::string& name, int64_t min, int64_t max, size_t least, size_t most,
            std::vector<int64_t>* values) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    values->clear();
    bool good = field->is_array() && field->size() >= least && field->size() <= most;
    for (size_t i = 0; good && i < field->size(); ++i) {
      const Json& item = (*field)[i];
      good = item.is_number_integer() && item >= min && item <= max;
      if (good) values->push_back(item.get<int64_t>());
    }
    if (!good) {
      Wrong(At(name), *field,
            absl::StrCat("a list of ", least, " to ", most, " integers, each from ", min, " to ", max));
    }
  }
  void Texts(const std::string& name, std::vector<std::string>* values) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_array() || !std::all_of(field->begin(), field->end(), [](const Json& t) { return t.is_string(); })) {
      return Wrong(At(name), *field, "a list of texts");
    }
    for (const Json& item : *field) values->push_back(item.get<std::string>());
  }
  template <typename Read>
  void Object(const std::string& name, const Read& read) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    Fields fields(*field, At(name), status_);
    read(fields);
    fields.Done();
  }
  // Calls read(fields) for each object of a list.
  template <typename Read>
  void Objects(const std::string& name, const Read& read) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_array()) return Wrong(At(name), *field, "a list of objects");
    for (size_t i = 0; i < field->size(); ++i) {
      Fields fields((*field)[i], absl::StrCat(At(name), "[", i, "]"), status_);
      read(fields);
      fields.Done();
    }
  }

  void Require(const std::string& name) {
    if (json_.is_object() && !Has(name) && missing_.empty()) missing_ = absl::StrCat(At(name), ": is missing");
  }
  void RequireOneOf(const std::vector<std::string>& names) {
    if (!json_.is_object()) return;
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (Has(name)) found.push_back(name);
    }
    if (found.size() == 1) return;
    const std::string wrong =
        absl::StrCat(Place(), "found ", found.empty() ? "none" : absl::StrJoin(found, " and "), ", expected one of ",
                     absl::StrJoin(names, ", "));
    if (!found.empty()) return Fail(wrong);
    if (missing_.empty()) missing_ = wrong;
  }
  void Fail(const std::string& message) {
    if (status_->ok()) *status_ = absl::InvalidArgumentError(message);
  }
  // Refuses fields that were not asked for, and then an object without a required one: that may be misspelled.
  void Done() {
    if (!json_.is_object()) return;
    for (const auto& [name, value] : json_.items()) {
      if (known_.contains(name)) continue;
      return Fail(absl::StrCat(At(name), ": is no field; expected ", absl::StrJoin(known_, ", "),
                               DidYouMean(name, {known_.begin(), known_.end()})));
    }
    if (!missing_.empty()) Fail(missing_);
  }

  std::string At(const std::string& name) const { return path_.empty() ? name : absl::StrCat(path_, ".", name); }

 private:
  std::string Place() const { return path_.empty() ? "" : path_ + ": "; }
  void Wrong(const std::string& at, const Json& found, const std::string& expected) {
    Fail(absl::StrCat(at.empty() ? "" : at + ": ", "found ", Shown(found), ", expected ", expected));
  }

  const Json& json_;
  const std::string path_;
  absl::Status* const status_;
  std::set<std::string> known_;
  std::string missing_;  // the first error about a required field
};

constexpr int64_t kMaxSize = int64_t{1} << 24;

void ReadMlp(Fields& fields, MlpOptions* mlp) {
  fields.Require("sizes");
  fields.Ints("sizes", 1, kMaxSize, 2, 1000, &mlp->sizes);
  std::vector<std::pair<std::string, std::string>> activations;
  for (const std::string& name : MlpActivations()) activations.emplace_back(name, name);
  fields.Choice("activation", activations, &mlp->activation);
}

void ReadDropout(Fields& fields, double* dropout) { fields.Real("dropout", 0, 0.999, dropout); }

void ReadConvNet(Fields& fields, ConvNetOptions* net) {
  for (const char* name : {"image", "channels", "classes"}) fields.Require(name);
  fields.Ints("image", 1, kMaxSize, 3, 3, &net->image);
  fields.Ints("channels", 1, kMaxSize, 1, 20, &net->channels);
  fields.Int("classes", 2, kMaxSize, &net->classes);
  ReadDropout(fields, &net->dropout);
  const int64_t least = int64_t{1} << net->channels.size();
  for (size_t axis = 1; axis < net->image.size(); ++axis) {
    if (net->image[axis] >= least) continue;
    fields.Fail(absl::StrCat(fields.At("image"), ": found ", net->image[axis], ", expected at least ", least,
                             ", since each of the ", net->channels.size(), " blocks halves it"));
  }
}

// Reads the fields that models of tokens have in common.
template <typename Options>
void ReadTokenModel(Fields& fields, int64_t max_length, Options* model) {
  for (const char* name : {"vocabulary", "length"}) fields.Require(name);
  fields.Int("vocabulary", 2, kMaxSize, &model->vocabulary);
  fields.Int("length", 1, max_length, &model->length);
  fields.Int("width", 1, kMaxSize, &model->width);
  fields.Int("layers", 1, 1000, &model->layers);
  ReadDropout(fields, &model->dropout);
}

void ReadLstm(Fields& fields, LstmOptions* lstm) {
  ReadTokenModel(fields, 1024, lstm);  // every position is some twenty nodes
  fields.Int("hidden", 1, kMaxSize, &lstm->hidden);
}

void ReadGpt(Fields& fields, GptOptions* gpt) {
  ReadTokenModel(fields, kMaxSize, gpt);
  fields.Int("heads", 1, kMaxSize, &gpt->heads);
  if (gpt->width % gpt->heads != 0) {
    fields.Fail(
        absl::StrCat(fields.At("heads"), ": found ", gpt->heads, ", expected a divisor of the width, ", gpt->width));
  }
}

void ReadModel(Fields& fields, TrainConfig* config) {
  fields.RequireOneOf({"mlp", "conv_net", "lstm", "gpt", "onnx"});
  fields.Object("mlp", [&](Fields& mlp) { ReadMlp(mlp, &config->built_in.emplace().emplace<MlpOptions>()); });
  fields.Object("conv_net",
                [&](Fields& net) { ReadConvNet(net, &config->built_in.emplace().emplace<ConvNetOptions>()); });
  fields.Object("lstm", [&](Fields& lstm) { ReadLstm(lstm, &config->built_in.emplace().emplace<LstmOptions>()); });
  fields.Object("gpt", [&](Fields& gpt) { ReadGpt(gpt, &config->built_in.emplace().emplace<GptOptions>()); });
  fields.Text("onnx", &config->onnx);
  fields.Object("dims", [&](Fields& dims) {
    for (const auto& [name, value] : dims.json().items()) dims.Int(name, 1, kMaxCount, &config->dims[name]);
  });
  fields.Text("weights", &config->weights);
  fields.Text("output", &config->step.output);
  fields.Texts("frozen", &config->step.frozen);
  fields.Texts("trained", &config->trains);
  fields.Texts("shared", &config->shared);
  fields.Texts("parted", &config->parted);
  fields.Object("places", [&](Fields& places) {
    for (const auto& [name, value] : places.json().items()) {
      int64_t axis = 0;
      places.Int(name, 0, kMaxRank - 1, &axis);
      config->places.emplace_back(name, static_cast<int>(axis));
    }
  });
}

// A path, or an object with `file` and what is done with it.
void ReadColumn(Fields& fields, const std::string& name, ColumnConfig* column) {
  fields.Require(name);
  const Json* field = fields.Find(name);
  if (field == nullptr) return;
  if (field->is_string()) return fields.Text(name, &column->file);
  fields.Object(name, [&](Fields& object) {
    object.Require("file");
    object.Text("file", &column->file);
    object.Real("scale", -kMaxReal, kMaxReal, &column->scale);
    object.Object("tokens", [&](Fields& tokens) {
      column->tokens.emplace();
      tokens.Int("stride", 1, kMaxCount, &column->tokens->stride);
      tokens.Int("shift", 0, 1, &column->tokens->shift);
    });
  });
}

void ReadData(Fields& fields, DataConfig* data) {
  fields.Require("inputs");
  fields.Object("inputs", [&](Fields& inputs) {
    if (inputs.json().empty()) inputs.Fail(fields.At("inputs") + ": found {}, expected the inputs of the model");
    for (const auto& [name, value] : inputs.json().items()) ReadColumn(inputs, name, &data->inputs[name]);
  });
  ReadColumn(fields, "target", &data->target);
}

void ReadSchedule(Fields& fields, TrainConfig* config) {
  RateSchedule& schedule = config->step.optimizer.schedule;
  fields.Require("kind");
  fields.Choice<RateSchedule::Kind>("kind",
                                    {{"constant", RateSchedule::Kind::kConstant},
                                     {"step", RateSchedule::Kind::kStep},
                                     {"cosine", RateSchedule::Kind::kCosine}},
                                    &schedule.kind);
  fields.Int("warmup", 0, kMaxCount, &schedule.warmup);
  if (schedule.kind == RateSchedule::Kind::kStep) {
    fields.Require("every");
    fields.Int("every", 1, kMaxCount, &schedule.every);
    fields.Real("gamma", 0, kMaxReal, &schedule.gamma);
  } else if (schedule.kind == RateSchedule::Kind::kCosine) {
    config->cosine_to_end = !fields.Has("steps");
    fields.Int("steps", 1, kMaxCount, &schedule.steps);
    fields.Real("final_rate", 0, kMaxReal, &schedule.final_rate);
  }
}

void ReadOptimizer(Fields& fields, TrainConfig* config) {
  using Kind = OptimizerOptions::Kind;
  OptimizerOptions& options = config->step.optimizer;
  fields.Require("kind");
  fields.Choice<Kind>("kind",
                      {{"sgd", Kind::kSgd},
                       {"momentum", Kind::kMomentum},
                       {"nesterov", Kind::kNesterov},
                       {"adam", Kind::kAdam},
                       {"adamw", Kind::kAdamW}},
                      &options.kind);
  fields.Require("learning_rate");
  fields.Real("learning_rate", 0, kMaxReal, &options.learning_rate);
  fields.Object("schedule", [&](Fields& schedule) { ReadSchedule(schedule, config); });
  if (options.kind == Kind::kMomentum || options.kind == Kind::kNesterov) {
    fields.Real("momentum", 0, 1, &options.momentum);
  } else if (options.kind != Kind::kSgd) {
    constexpr double kBelowOne = 1 - 1e-12;
    fields.Real("beta1", 0, kBelowOne, &options.beta1);
    fields.Real("beta2", 0, kBelowOne, &options.beta2);
    fields.Real("epsilon", 0, 1, &options.epsilon);
  }
  fields.Real("weight_decay", 0, kMaxReal, &options.weight_decay);
  fields.Real("clip_norm", 0, kMaxReal, &options.clip_norm);
  fields.Objects("groups", [&](Fields& object) {
    WeightGroup group;
    object.Require("match");
    object.Text("match", &group.match);
    double decay = 0;
    object.Real("weight_decay", 0, kMaxReal, &decay);
    if (object.Has("weight_decay")) group.weight_decay = decay;
    object.Real("rate_scale", 0, kMaxReal, &group.rate_scale);
    options.groups.push_back(group);
  });
}

void ReadLength(Fields& fields, TrainConfig* config) {
  fields.RequireOneOf({"steps", "epochs"});
  fields.Int("steps", 1, kMaxCount, &config->steps);
  fields.Int("epochs", 1, kMaxCount, &config->epochs);
  fields.Object("validation", [&](Fields& validation) {
    config->validation.emplace();
    ReadData(validation, &*config->validation);
    if (validation.Has("every_steps") && validation.Has("every_epochs")) {
      validation.Fail("validation: found both every_steps and every_epochs, expected one of them");
    }
    validation.Int("every_steps", 1, kMaxCount, &config->validate_steps);
    validation.Int("every_epochs", 1, kMaxCount, &config->validate_epochs);
    validation.Int("patience", 1, kMaxCount, &config->patience);
  });
  fields.Object("checkpoint", [&](Fields& checkpoint) {
    checkpoint.Int("every_steps", 1, kMaxCount, &config->checkpoint_steps);
    checkpoint.Int("keep", 1, 1'000'000, &config->checkpoint_keep);
  });
}

}  // namespace

absl::StatusOr<TrainConfig> ParseTrainConfig(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("is no JSON: ", error.what()));
  }
  absl::Status status;
  TrainConfig config;
  Fields fields(json, "", &status);
  for (const char* name : {"model", "data", "loss", "optimizer"}) fields.Require(name);
  fields.Object("model", [&](Fields& model) { ReadModel(model, &config); });
  fields.Object("data", [&](Fields& data) {
    ReadData(data, &config.train);
    data.Require("batch");
    data.Int("batch", 1, int64_t{1} << 24, &config.batch);
    data.Flag("shuffle", &config.shuffle);
    data.Int("micro_batches", 1, int64_t{1} << 24, &config.step.micro_batches);
    if (config.batch % config.step.micro_batches != 0) {
      data.Fail(absl::StrCat("data.micro_batches: found ", config.step.micro_batches,
                             ", expected a divisor of data.batch, ", config.batch));
    }
    data.Int("prefetch_threads", 0, 64, &config.prefetch_threads);
  });
  fields.Choice<LossKind>(
      "loss", {{"cross_entropy", LossKind::kCrossEntropy}, {"mean_squared_error", LossKind::kMeanSquaredError}},
      &config.step.loss);
  fields.Object("optimizer", [&](Fields& optimizer) { ReadOptimizer(optimizer, &config); });
  fields.Choice<bool>("non_finite", {{"stop", false}, {"skip", true}}, &config.skip_non_finite);
  int64_t seed = 1;
  fields.Int("seed", 0, INT64_MAX, &seed);
  config.seed = static_cast<uint64_t>(seed);
  ReadLength(fields, &config);
  fields.Done();
  RETURN_IF_ERROR(status);
  for (const char* name : {"model", "data", "loss", "optimizer", "non_finite"}) {
    if (json.contains(name)) config.identity[name] = json[name];
  }
  config.identity["model"].erase("places");
  config.identity["data"].erase("prefetch_threads");
  if (config.step.micro_batches == 1) config.identity["data"].erase("micro_batches");
  config.sha256 = Sha256::HexOf(nlohmann::json(json).dump());
  return config;
}

std::string FirstDifference(const Json& found, const Json& checkpoint, const std::string& path) {
  if (found == checkpoint) return "";
  if (!found.is_object() || !checkpoint.is_object()) {
    const auto shown = [](const Json& json) { return json.is_null() ? "nothing" : Shown(json); };
    return absl::StrCat(path, ": found ", shown(found), ", the checkpoint has ", shown(checkpoint));
  }
  std::set<std::string> names;
  for (const auto& [name, value] : found.items()) names.insert(name);
  for (const auto& [name, value] : checkpoint.items()) names.insert(name);
  for (const std::string& name : names) {
    const std::string difference = FirstDifference(found.value(name, Json()), checkpoint.value(name, Json()),
                                                   path.empty() ? name : absl::StrCat(path, ".", name));
    if (!difference.empty()) return difference;
  }
  return "";  // the same fields in another order
}

}  // namespace rewright
