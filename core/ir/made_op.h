// Helpers for operators that are made from other operators (core/adjoint: derivatives; core/lift: f on every device).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright {

// A MeaningCache for the operators from which others are made. Thread-safe.
class SharedMeanings {
 public:
  absl::StatusOr<std::shared_ptr<const Meaning>> Get(const OpDef& op, const StructuralKey& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cache_.Get(op, key);
  }
  absl::StatusOr<Application> Applied(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Apply(op, inputs, attrs, cache_);
  }

 private:
  std::mutex mutex_;
  MeaningCache cache_;
};

// A cache of made objects by key: each is made once and kept for good. Thread-safe.
template <typename Key, typename Made>
class Memo {
 public:
  // Makes the object without holding the lock, so that other keys can be served meanwhile. If two threads make one key,
  // the first result is kept.
  template <typename Make>
  const Made& Get(const Key& key, const Make& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = made_.find(key); found != made_.end()) return found->second;
    }
    Made made = make();
    const std::lock_guard<std::mutex> lock(mutex_);
    return made_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Made> made_;
};

// Returns the attributes with axes as plain structural integers counted from the front: they are axes of an operand of
// the original operator, which need not be the first operand here. A default that counts from the back is dropped.
std::vector<AttrSpec> WithPlainAxes(std::vector<AttrSpec> specs);

// Returns by variable of another declaration the expression that replaces it here: for sizes and attributes; null for
// all other variables.
std::vector<ExprPtr> SymbolsOf(OpBuilder& b, const Meaning& meaning,
                               const std::function<Index(int input, int axis)>& size);

// Writes expressions of another declaration in the variables and parameters of the one that `b` builds. Rewrite and
// Substitute do not serve: they would make nodes that mix old and new variable numbers.
class ExprReindexer {
 public:
  // Gives the replacement of a read of the other declaration's operand at those indices, which are in the variables of
  // `b`.
  using Read = std::function<Scalar(int operand, const std::vector<Index>& at, DType dtype)>;

  // `variables` gives the replacement of each variable of the other declaration, by number; null: the variable is
  // bound, and gets a number of its own.
  ExprReindexer(OpBuilder& b, std::vector<ExprPtr> variables, Read read)
      : b_(b), variables_(std::move(variables)), read_(std::move(read)) {}

  ExprPtr operator()(const ExprPtr& expr);

 private:
  ExprPtr Written(const ExprPtr& expr);
  ExprPtr VariableHere(int id, const std::string& name);

  OpBuilder& b_;
  std::vector<ExprPtr> variables_;
  const Read read_;
  absl::flat_hash_map<ExprPtr, ExprPtr> done_;
};

}  // namespace rewright
