#include "core/onnx/parse.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class CordStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit CordStream(const absl::Cord& cord) : next_(cord.chunk_begin()), end_(cord.chunk_end()) {}

  bool Next(const void** data, int* size) override {
    while (left_.empty()) {
      if (next_ == end_) return false;
      left_ = *next_++;
    }
    given_ = std::exchange(left_, {});
    *data = given_.data();
    *size = static_cast<int>(given_.size());
    count_ += *size;
    return true;
  }
  void BackUp(int count) override {
    left_ = given_.substr(given_.size() - static_cast<size_t>(count));
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    for (int size = 0; count > 0; count -= size) {
      if (!Next(&data, &size)) return false;
      if (size <= count) continue;
      BackUp(size - count);
      size = count;
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  absl::Cord::ChunkIterator next_, end_;
  absl::string_view given_, left_;  // the chunk of the last Next; what of it comes again
  int64_t count_ = 0;
};

// The bytes of a message but for its fields of that number with a length, each of which `read` takes from the stream.
// False: the message is damaged.
template <typename Read>
bool ReadApart(CodedInputStream& in, int number, const Read& read, std::string* rest) {
  google::protobuf::io::StringOutputStream stream(rest);
  google::protobuf::io::CodedOutputStream out(&stream);
  const uint32_t apart = WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != apart) {
      if (!WireFormatLite::SkipField(&in, tag, &out)) return false;
      continue;
    }
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length) || length > in.BytesUntilLimit()) return false;
    const CodedInputStream::Limit outer = in.PushLimit(length);
    if (!read(length) || in.BytesUntilLimit() != 0) return false;
    in.PopLimit(outer);
  }
  return in.ConsumedEntireMessage();
}

class Parser {
 public:
  Parser(const absl::Cord& bytes, onnx::ModelProto* model, absl::flat_hash_map<std::string, Tensor>* initializers)
      : bytes_(std::make_shared<absl::Cord>(bytes)),
        stream_(*bytes_),
        in_(&stream_),
        model_(*model),
        initializers_(*initializers) {}

  bool Model() {
    in_.PushLimit(static_cast<int>(bytes_->size()));
    std::string rest;
    return ReadApart(
               in_, onnx::ModelProto::kGraphFieldNumber, [&](int) { return Graph(); }, &rest) &&
           model_.MergeFromString(rest);
  }

 private:
  bool Graph() {
    std::string rest;
    return ReadApart(
               in_, onnx::GraphProto::kInitializerFieldNumber, [&](int) { return Initializer(); }, &rest) &&
           model_.mutable_graph()->MergeFromString(rest);
  }

  bool Initializer() {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    absl::string_view in_place;
    std::string rest;
    const auto read = [&](int length) { return Elements(length, &in_place, &proto); };
    if (!ReadApart(in_, onnx::TensorProto::kRawDataFieldNumber, read, &rest)) return false;
    if (!proto.MergeFromString(rest)) return false;
    if (in_place.empty()) return true;
    const std::optional<TensorType> type = TypeOfRawData(proto, in_place.size());
    if (type) {
      initializers_.emplace(proto.name(), Tensor(*type, bytes_, const_cast<char*>(in_place.data())));
    } else {
      proto.set_raw_data(in_place.data(), in_place.size());
    }
    return true;
  }

  bool Elements(int length, absl::string_view* in_place, onnx::TensorProto* proto) {
    const void* data = nullptr;
    int size = 0;
    *in_place = {};  // of several the last one counts
    const bool many = static_cast<size_t>(length) >= kManyElementBytes && in_.GetDirectBufferPointer(&data, &size) &&
                      size == length && reinterpret_cast<uintptr_t>(data) % alignof(std::max_align_t) == 0;
    if (!many) return in_.ReadString(proto->mutable_raw_data(), length);
    *in_place = {static_cast<const char*>(data), static_cast<size_t>(length)};
    return in_.Skip(length);
  }

  const std::shared_ptr<absl::Cord> bytes_;
  CordStream stream_;
  CodedInputStream in_;
  onnx::ModelProto& model_;
  absl::flat_hash_map<std::string, Tensor>& initializers_;
};

absl::Status Parsed(bool whole) {
  return whole ? absl::OkStatus() : absl::InvalidArgumentError("not an ONNX model, or damaged");
}

}  // namespace

absl::Status ParseModel(google::protobuf::io::ZeroCopyInputStream* stream, onnx::ModelProto* model) {
  CodedInputStream coded(stream);
  return Parsed(model->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage());
}

absl::Status ParseModel(const absl::Cord& bytes, onnx::ModelProto* model,
                        absl::flat_hash_map<std::string, Tensor>* initializers) {
  return Parsed(Parser(bytes, model, initializers).Model());
}

}  // namespace rewright
