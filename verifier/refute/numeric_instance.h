// A rule instance at fixed sizes and attributes, computed by the reference interpreter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/interpreter/interpreter.h"
#include "core/tensor/tensor.h"
#include "substitutions/instance/instance.h"
#include "verifier/refute/witness.h"

namespace rewright {

// Programs of one instance's nodes, each compiled once for the same sizes, attributes and precision. Not thread-safe.
class CompiledNodes {
 public:
  using Programs = std::vector<const CompiledMeaning*>;  // by node, as many as were run; null: no application

  absl::StatusOr<const CompiledMeaning*> Find(size_t node, const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& inputs,
                                              const std::vector<TensorType>& outputs, Precision precision);

 private:
  friend class NumericInstance;

  // Node, precision, values of variables and the types, bits of parameters.
  using Key = std::tuple<size_t, Precision, std::vector<int64_t>, std::vector<uint64_t>>;
  absl::flat_hash_map<Key, std::unique_ptr<CompiledMeaning>> compiled_;
  // Programs of an instance without real attributes, by precision, symbols and types of leaves.
  absl::flat_hash_map<std::tuple<Precision, std::vector<int64_t>>, Programs> of_instance_;
};

class NumericInstance {
 public:
  // Refers to the instance, which must outlive it. `symbols` and `reals` by their numbers there.
  NumericInstance(const RuleInstance& instance, std::vector<int64_t> symbols, std::vector<Number> reals)
      : instance_(instance), symbols_(std::move(symbols)), reals_(std::move(reals)) {}

  // Checks that the application is legal; the error names the condition that it breaks, or the fault of its shape. A
  // leaf is legal when its sizes are at least 1.
  absl::Status Legal(const SymbolicNode& node) const;
  TensorType TypeOf(const SymbolicNode& node, size_t output) const;

  // Values of nodes [0, end), given those of the leaves by node. `compiled` is of the same instance; null: programs are
  // not kept.
  absl::StatusOr<std::vector<std::vector<Tensor>>> Run(const std::vector<Tensor>& leaves, Precision precision,
                                                       size_t end, CompiledNodes* compiled = nullptr) const;

 private:
  absl::StatusOr<Bindings> BindingsAt(const SymbolicNode& node) const;
  // The program of an application to values of those types.
  absl::StatusOr<const CompiledMeaning*> ProgramOf(size_t n, const std::vector<Tensor>& inputs, Precision precision,
                                                   CompiledNodes* compiled) const;
  // Programs that Run is to find or leave; null: none are kept for all of the instance.
  CompiledNodes::Programs* ProgramsOf(const std::vector<Tensor>& leaves, Precision precision,
                                      CompiledNodes* compiled) const;
  absl::StatusOr<Tensor> Filled(const SymbolicNode& node, Precision precision) const;

  const RuleInstance& instance_;
  const std::vector<int64_t> symbols_;
  const std::vector<Number> reals_;
};

// True if an operator of the instance stands for any of a family: the interpreter computes none of its elements.
bool HasStandIn(const RuleInstance& instance);

// Checks a counterexample with the reference interpreter, which shares no code with the search. At these sizes and
// elements the left side must be legal. The right side must be illegal, have another shape, read out of bounds, or have
// the claimed element, which differs from the left side's. Errors say what it finds instead.
absl::Status ConfirmCounterexample(const RuleInstance& instance, const Counterexample& found);

}  // namespace rewright
