#include "core/onnx/named_sizes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/index/print.h"
#include "core/onnx/import/graph_importer.h"

namespace rewright {
namespace {

constexpr int kMaxChain = 64;  // nodes of the file, one behind the other, for a constant

absl::Status Differs(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(what, " depends on the size"));
}

bool AllEqual(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
    const bool shared = tensor.type() == tensors[0].type() && tensor.data() == tensors[0].data();
    return shared || tensor.BitEqual(tensors[0]);
  });
}

class SizeNamer {
 public:
  SizeNamer(const std::vector<SizedExport>& samples, RelatedFit& fit, OnnxWriter* writer)
      : samples_(samples), fit_(fit), writer_(*writer), renamed_(samples.size()) {}

  absl::Status Run() {
    for (const auto& [name, type] : samples_[0].inputs) {
      for (auto& renamed : renamed_) renamed[name] = name;
    }
    std::vector<onnx::NodeProto> nodes = std::move(writer_.nodes());
    writer_.nodes().clear();
    for (size_t i = 0; i < nodes.size(); ++i) RETURN_IF_ERROR(NameNode(i, &nodes[i]));
    for (const auto& [name, type] : samples_[0].outputs) {
      std::vector<Tensor> tensors;
      if (TensorsOf(std::vector<std::string>(samples_.size(), name), &tensors) && !AllEqual(tensors)) {
        return Differs(absl::StrCat("output ", name));
      }
    }
    std::move(nodes.begin(), nodes.end(), std::back_inserter(writer_.nodes()));
    DropUnread();
    return absl::OkStatus();
  }

 private:
  // Removes initializers that nothing reads any more, since nodes compute their values.
  void DropUnread() {
    absl::flat_hash_set<std::string> read;
    for (const auto& [name, type] : samples_[0].outputs) read.insert(name);
    for (const onnx::NodeProto& node : writer_.nodes()) {
      for (std::string& name : ReadsOf(node)) read.insert(std::move(name));
    }
    std::erase_if(writer_.initializers(), [&](const auto& initializer) { return !read.contains(initializer.first); });
  }

  // Returns false if one is no initializer.
  bool TensorsOf(const std::vector<std::string>& names, std::vector<Tensor>* tensors) const {
    for (size_t k = 0; k < samples_.size(); ++k) {
      const auto found = samples_[k].initializers.find(names[k]);
      if (found == samples_[k].initializers.end()) return false;
      tensors->push_back(found->second);
    }
    return true;
  }

  absl::Status NameNode(size_t i, onnx::NodeProto* node) {
    const std::string where = NodeText(*node);
    for (size_t k = 0; k < samples_.size(); ++k) {
      const onnx::NodeProto& other = samples_[k].nodes[i];
      if (!ApplyTheSame(*node, other)) return Differs(absl::StrCat("what stands for ", where));
      for (int j = 0; j < node->output_size(); ++j) renamed_[k][other.output(j)] = node->output(j);
    }
    for (int j = 0; j < node->input_size(); ++j) {
      std::vector<std::string> names;
      for (const SizedExport& sample : samples_) names.push_back(sample.nodes[i].input(j));
      std::vector<Tensor> tensors;
      if (TensorsOf(names, &tensors)) {
        if (AllEqual(tensors)) continue;
        const bool is_shape = node->op_type() == "Reshape" && j == 1;
        ASSIGN_OR_RETURN(const std::string computed, Computed(names[0], tensors, is_shape));
        node->set_input(j, computed);
        continue;
      }
      for (size_t k = 0; k < samples_.size(); ++k) {
        const auto renamed = renamed_[k].find(names[k]);
        const std::string& name = renamed == renamed_[k].end() ? names[k] : renamed->second;
        if (name != node->input(j)) return Differs(absl::StrCat("what ", where, " reads"));
      }
    }
    return absl::OkStatus();
  }

  static bool ApplyTheSame(const onnx::NodeProto& a, const onnx::NodeProto& b) {
    const bool alike = a.op_type() == b.op_type() && a.domain() == b.domain() && a.input_size() == b.input_size() &&
                       a.output_size() == b.output_size() && a.attribute_size() == b.attribute_size();
    for (int i = 0; alike && i < a.attribute_size(); ++i) {
      if (a.attribute(i).SerializeAsString() != b.attribute(i).SerializeAsString()) return false;
    }
    return alike;
  }

  // Returns the name of a tensor that has these elements at the samples, and is called `name` in the first.
  absl::StatusOr<std::string> Computed(const std::string& name, const std::vector<Tensor>& tensors, bool is_shape) {
    if (const auto list = FormsOf(tensors)) return Written(*list, tensors[0].shape().empty(), is_shape);
    for (size_t k = 0; k < samples_.size(); ++k) {
      const OnnxSource* source = samples_[k].source;
      const Tensor* read = source == nullptr ? nullptr : source->Elements(name);
      if (read == nullptr || !AllEqual({*read, tensors[k]})) return Differs(name);
    }
    return FromFile(name, 0);
  }

  // Computes few integers element by element.
  std::optional<std::vector<index::Form>> FormsOf(const std::vector<Tensor>& tensors) {
    const TensorType& type = tensors[0].type();
    if (type.dtype != DType::kInt64 || type.rank() > 1) return std::nullopt;
    if (std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.type() != type; })) {
      return std::nullopt;
    }
    std::vector<index::Form> forms;
    for (int64_t i = 0; i < tensors[0].num_elements(); ++i) {
      std::vector<int64_t> values;
      for (const Tensor& tensor : tensors) values.push_back(tensor.AtInt(i));
      const std::optional<index::Form> form = fit_.Fit(values);
      if (!form) return std::nullopt;
      forms.push_back(*form);
    }
    return forms;
  }

  absl::StatusOr<std::string> Written(const std::vector<index::Form>& forms, bool scalar, bool is_shape) {
    std::vector<std::string> texts = {scalar ? "scalar" : is_shape ? "shape" : "list"};
    for (const index::Form& form : forms) texts.push_back(index::Text(form));
    std::string& written = written_[absl::StrJoin(texts, ",")];
    if (!written.empty()) return written;
    const auto is_number = [](const index::Form& form) { return form.IsConstant(); };
    // One size of a reshape may follow from the others (-1).
    const bool open = std::any_of(forms.begin(), forms.end(), [](const index::Form& form) { return form.Is(-1); });
    if (is_shape && !open && std::count_if(forms.begin(), forms.end(), is_number) + 1 == std::ssize(forms)) {
      std::vector<int64_t> shape;
      for (const index::Form& form : forms) shape.push_back(form.IsConstant() ? form.constant() : -1);
      return written = writer_.Ints(shape);
    }
    std::vector<std::string> parts;
    for (size_t i = 0; i < forms.size();) {
      std::vector<int64_t> numbers;
      while (i < forms.size() && forms[i].IsConstant()) numbers.push_back(forms[i++].constant());
      if (!numbers.empty()) parts.push_back(writer_.Ints(numbers));
      if (i == forms.size()) break;
      ASSIGN_OR_RETURN(parts.emplace_back(), SizeOf(forms[i++]));
    }
    if (scalar) return written = Node("Squeeze", {parts[0]});
    if (parts.size() == 1) return written = parts[0];
    return written = Node("Concat", parts, {{"axis", 0}});
  }

  std::string Node(const std::string& op_type, const std::vector<std::string>& inputs, const OnnxAttrs& attrs = {}) {
    const std::string result = writer_.UniqueName("size");
    writer_.AddNode(op_type, inputs, {result}, attrs);
    return result;
  }

  // Returns the name of a list of one element.
  absl::StatusOr<std::string> SizeOf(const index::Form& form) {
    std::string sum;
    const auto add = [&](const std::string& term) { sum = sum.empty() ? term : Node("Add", {sum, term}); };
    for (const index::Form::Term& term : form.terms()) {
      std::string product;
      for (const index::Atom* name : index::FactorsOf(term.atom)) {
        ASSIGN_OR_RETURN(const std::string size, SizeOfName(fit_.NameOf(name)));
        product = product.empty() ? size : Node("Mul", {product, size});
      }
      add(term.factor == 1 ? product : Node("Mul", {product, writer_.Ints({term.factor})}));
    }
    if (form.constant() != 0) add(writer_.Ints({form.constant()}));
    return sum;
  }

  absl::StatusOr<std::string> SizeOfName(const std::string& name) {
    std::string& written = sizes_[name];
    if (!written.empty()) return written;
    for (size_t i = 0; i < samples_[0].inputs.size(); ++i) {
      std::vector<Shape> shapes;
      for (const SizedExport& sample : samples_) shapes.push_back(sample.inputs[i].second.shape);
      const std::vector<NamedAxis> axes = NamedShape(shapes, fit_);
      for (size_t axis = 0; axis < axes.size(); ++axis) {
        if (axes[axis].name != name) continue;
        const std::string shape = Node("Shape", {samples_[0].inputs[i].first});
        return written = Node("Gather", {shape, writer_.Ints({static_cast<int64_t>(axis)})});
      }
    }
    return Differs(absl::StrCat("no input that has the size ", name, "; what is written"));
  }

  // Copies the node of the file that gives a known tensor, after those that give its inputs.
  absl::StatusOr<std::string> FromFile(const std::string& name, int depth) {
    if (const auto found = copied_.find(name); found != copied_.end()) return found->second;
    const OnnxSource& source = *samples_[0].source;
    const int i = source.producer(name);
    if (i < 0 || depth > kMaxChain || !source.CanBeKept(i, writer_.opset())) return Differs(name);
    onnx::NodeProto node = source.node(i);
    for (std::string& input : *node.mutable_input()) {
      if (input.empty()) continue;
      ASSIGN_OR_RETURN(input, KnownInput(input, depth));
    }
    for (std::string& output : *node.mutable_output()) {
      if (output.empty()) continue;
      output = copied_[output] = writer_.UniqueName(output + "_of_size");
    }
    writer_.AddCopy(std::move(node));
    return copied_.at(name);
  }

  absl::StatusOr<std::string> KnownInput(const std::string& name, int depth) {
    std::vector<Tensor> tensors;
    for (const SizedExport& sample : samples_) {
      const Tensor* tensor = sample.source->Elements(name);
      if (tensor == nullptr) return FromFile(name, depth + 1);
      tensors.push_back(*tensor);
    }
    if (!AllEqual(tensors)) {
      if (const auto list = FormsOf(tensors)) return Written(*list, tensors[0].shape().empty(), false);
      return FromFile(name, depth + 1);
    }
    const auto there = samples_[0].initializers.find(name);
    if (there != samples_[0].initializers.end() && AllEqual({there->second, tensors[0]})) return name;
    std::string& copy = copied_[name];
    if (copy.empty()) copy = writer_.AddInitializer(writer_.UniqueName(name), tensors[0]);
    return copy;
  }

  const std::vector<SizedExport>& samples_;
  RelatedFit& fit_;
  OnnxWriter& writer_;
  std::vector<absl::flat_hash_map<std::string, std::string>> renamed_;  // by sample: to the name in the first
  absl::flat_hash_map<std::string, std::string> written_;               // by text
  absl::flat_hash_map<std::string, std::string> sizes_;                 // by name
  absl::flat_hash_map<std::string, std::string> copied_;                // tensors of the file
};

}  // namespace

absl::StatusOr<std::vector<bool>> NodesOfVaryingShape(const std::vector<SizedGraph>& samples) {
  const Graph& first = samples[0].graph;
  std::vector<bool> varying(first.nodes().size());
  for (const SizedGraph& sample : samples) {
    const Graph& graph = sample.graph;
    if (graph.nodes().size() != first.nodes().size()) return Differs("the number of operators");
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node &a = first.node(first.nodes()[i]), &b = graph.node(graph.nodes()[i]);
      if (a.op != b.op || a.leaf != b.leaf) return Differs("the order of operators");
      if (first.IsKnown(a) && a.outputs != b.outputs) varying[i] = true;
    }
  }
  return varying;
}

absl::Status NameSizes(const std::vector<SizedExport>& samples, RelatedFit& fit, OnnxWriter* writer) {
  for (const SizedExport& sample : samples) {
    if (sample.nodes.size() != samples[0].nodes.size()) return Differs("the number of nodes");
  }
  return SizeNamer(samples, fit, writer).Run();
}

std::vector<NamedAxis> NamedShape(const std::vector<Shape>& shapes, RelatedFit& fit) {
  std::vector<NamedAxis> axes(shapes[0].size());
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<int64_t> sizes;
    for (const Shape& shape : shapes) sizes.push_back(shape[axis]);
    const std::optional<index::Form> form = fit.Fit(sizes);
    if (!form) continue;
    if (form->IsConstant()) {
      axes[axis].size = form->constant();
    } else {
      axes[axis].name = fit.NameOfSize(*form);
    }
  }
  return axes;
}

}  // namespace rewright
