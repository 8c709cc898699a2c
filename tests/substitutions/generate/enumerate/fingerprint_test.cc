// Compares pairs of equal graphs with the interpreter, which compares graphs one by one.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "core/interpreter/interpreter.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "substitutions/generate/select/redundancy.h"

namespace rewright::generate {
namespace {

std::vector<std::vector<int64_t>> Assignments(const Space& space) {
  std::vector<std::vector<int64_t>> assignments = space.assignments;
  assignments.push_back(space.nominal);
  return assignments;
}

Space Small(const std::vector<std::string>& ops, int max_ops) {
  Space space = TasoSpace();
  EXPECT_TRUE(Restrict(ops, 2, &space).ok());
  space.max_ops = max_ops;
  return space;
}

// Computes graphs of one output with the interpreter, in float64, under the first assignment.
class Judge {
 public:
  // `sign`: that of the scalars.
  Judge(const Space& space, Terms& terms, double sign) : space_(space), terms_(terms) {
    std::mt19937_64 rng(5);
    for (int i = 0; i < terms.num_inputs(); ++i) {
      Tensor tensor(TensorType{DType::kFloat64, terms.type(terms.value(i).type).shapes[0]});
      for (int64_t k = 0; k < tensor.num_elements(); ++k) {
        tensor.Set(k, static_cast<double>(static_cast<int64_t>(rng() % 2001) - 1000) / 100);
      }
      if (tensor.shape().empty()) tensor.Set(0, sign * std::abs(tensor.At(0)));
      inputs_.push_back(tensor);
    }
  }

  Tensor Compute(ValueId value, const std::vector<int>& names) {
    const TermNode& node = terms_.node(terms_.value(value).node);
    if (node.op < 0) return inputs_[names[value]];
    const OperatorChoice& choice = space_.operators[node.op];
    std::vector<Tensor> operands;
    std::vector<TensorType> types;
    for (int k = 0; k < choice.arity; ++k) {
      operands.push_back(Compute(node.operands[k], names));
      types.push_back(operands.back().type());
    }
    MeaningCache meanings;
    const auto applied =
        Apply(*FindOp(choice.op), types, terms_.application(terms_.value(value).node).attrs[0][0], meanings);
    EXPECT_TRUE(applied.ok()) << applied.status().message();
    const auto outputs =
        Interpret(*applied->meaning, BindingsOf(*applied->meaning, types, applied->attrs), applied->outputs, operands);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return (*outputs)[value - node.first];
  }

 private:
  const Space& space_;
  Terms& terms_;
  std::vector<Tensor> inputs_;
};

bool Close(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  for (int64_t k = 0; k < a.num_elements(); ++k) {
    if (std::abs(a.At(k) - b.At(k)) > 1e-9 * (1 + std::abs(a.At(k)))) return false;
  }
  return true;
}

// Rebuilds from all graphs the classes that FindPairs uses: graphs with equal fingerprints in the table.
TEST(Fingerprints, NoTruePairIsLost) {
  for (const std::vector<std::string>& ops :
       {std::vector<std::string>{"matmul", "add", "transpose"}, std::vector<std::string>{"add", "mul", "relu"},
        std::vector<std::string>{"concat0_2d", "split0", "relu", "add"}}) {
    const Space space = Small(ops, 2);
    Terms terms(space, Assignments(space), true, 1);
    Judge judge(space, terms, 1), other(space, terms, -1);
    // Returns all graphs of one output and at most two operators, under their canonical names.
    std::vector<ValueId> graphs;
    std::vector<std::string> texts;
    for (int input : {0, 2}) {
      graphs.push_back(input);
      texts.push_back("an input");
    }
    for (int size = 1; size <= 2; ++size) {
      std::vector<SmallGraph> walked;
      Walk walk(terms, size, [&](const SmallGraph& graph, const ValueId*) {
        if (OutputsOf(space, graph).size() == 1) walked.push_back(graph);
        return true;
      });
      walk.Run();
      for (const SmallGraph& graph : walked) {
        const std::vector<ValueId> value = EvaluateGraph(terms, graph);
        ASSERT_EQ(value.size(), 1u) << ToString(space, graph);
        graphs.push_back(value[0]);
        texts.push_back(ToString(space, graph));
      }
    }
    // The interpreter and the hashes agree on equality under every naming of two inputs of each kind.
    std::vector<int> same(static_cast<size_t>(terms.num_inputs()));
    for (size_t i = 0; i < same.size(); ++i) same[i] = static_cast<int>(i);
    std::vector<std::pair<Tensor, Tensor>> results;
    for (ValueId value : graphs) results.emplace_back(judge.Compute(value, same), other.Compute(value, same));
    int equal = 0;
    for (size_t a = 0; a < graphs.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const bool expected = Close(results[a].first, results[b].first) && Close(results[a].second, results[b].second);
        EXPECT_EQ(terms.value(graphs[a]).hash == terms.value(graphs[b]).hash, expected)
            << texts[a] << " and " << texts[b];
        equal += expected;
      }
    }
    EXPECT_GT(equal, 0);
  }
}

// sub(a, b) = neg(sub(b, a)) needs the inputs of one side exchanged, for any names that the walk gives them.
TEST(Fingerprints, FindsEqualityUpToExchangedInputs) {
  Space space = Small({"add"}, 2);
  OperatorChoice sub{.name = "sub", .op = "sub", .arity = 2, .distinct = true, .same_shape = true};
  OperatorChoice neg{.name = "neg", .op = "neg"};
  space.operators = {sub, neg};
  const auto found = FindPairs(space, {});
  ASSERT_TRUE(found.ok());
  std::set<std::string> pairs;
  for (const Pair& pair : found->pairs)
    pairs.insert(ToString(space, pair.first) + " = " + ToString(space, pair.second));
  EXPECT_TRUE(pairs.count("t0 = sub(x1, x2) = t0 = sub(x2, x1); t1 = neg(t0.0)") == 1 ||
              pairs.count("t0 = sub(x2, x1) = t0 = sub(x1, x2); t1 = neg(t0.0)") == 1)
      << testing::PrintToString(pairs);
}

// A graph that does not depend on an input equals one without that input.
TEST(Fingerprints, LeavesOutInputsThatDoNotMatter) {
  const Space space = Small({"concat0_2d", "split0", "relu"}, 3);
  const auto found = FindPairs(space, {});
  ASSERT_TRUE(found.ok());
  bool both = false;
  for (const Pair& pair : found->pairs) both = both || (pair.first.size == 0 && pair.first.num_inputs == 2);
  EXPECT_TRUE(both) << "split(concat(x, y)) = { x, y }";
}

// Passes over parts of the fingerprints find the same pairs as one over all.
TEST(Fingerprints, SeveralPassesFindTheSame) {
  const Space space = Small({"matmul", "add", "relu", "concat"}, 3);
  const auto whole = FindPairs(space, {});
  const auto parts = FindPairs(space, {.memory_limit = 700000});
  ASSERT_TRUE(whole.ok() && parts.ok());
  EXPECT_GT(parts->passes, 1);
  const auto texts = [&](const FoundPairs& found) {
    std::multiset<std::string> result;
    for (const Pair& pair : found.pairs) result.insert(ToString(space, pair.first) + ToString(space, pair.second));
    return result;
  };
  EXPECT_EQ(texts(*whole), texts(*parts));
  EXPECT_EQ(whole->counts.distinct, parts->counts.distinct);
  EXPECT_EQ(whole->counts.graphs, parts->counts.graphs);
}

std::vector<std::string> Texts(const Space& space, const std::vector<Pair>& pairs) {
  std::vector<std::string> texts;
  for (const Pair& pair : pairs) texts.push_back(ToString(space, pair.first) + " = " + ToString(space, pair.second));
  return texts;
}

TEST(Fingerprints, ThreadsDoNotChangeTheOrder) {
  const Space space = Small({"matmul", "relu", "concat0_2d", "split0"}, 4);
  const auto one = FindPairs(space, {.threads = 1});
  const auto three = FindPairs(space, {.threads = 3});
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_GT(one->pairs.size(), 10u);
  EXPECT_EQ(Texts(space, one->pairs), Texts(space, three->pairs));
  EXPECT_EQ(one->counts.reducible, three->counts.reducible);
}

// A graph that is left out as reducible equals one that is not, unless its outputs share nothing.
TEST(Fingerprints, EveryGraphLeadsToOneThatIsNotReducible) {
  for (const std::vector<std::string>& ops :
       {std::vector<std::string>{"matmul", "add", "relu"}, std::vector<std::string>{"mul", "relu", "max_pool2d", "one"},
        std::vector<std::string>{"concat0_2d", "split0", "transpose", "relu"}}) {
    const Space space = Small(ops, 3);
    const auto code = GraphCode::For(space);
    ASSERT_TRUE(code.ok());
    Terms terms(space, Assignments(space), true, 1);
    Classes classes(space, *code);
    const Classes none(space, *code);
    Fingerprinter fingerprinter(terms, *code, classes), all(terms, *code, none);
    std::vector<Record> kept, every;
    fingerprinter.AddSingles(&kept);
    uint64_t reducible = 0;
    for (int size = 0; size <= space.max_ops; ++size) {
      if (size > 0) {
        Walk walk(terms, size, [&](const SmallGraph& graph, const ValueId* values) {
          fingerprinter.Add(graph, values, &kept);
          const size_t before = every.size();
          all.Add(graph, values, &every);
          if (every.size() > before && OutputsOf(space, graph).size() > 1 && !SharesWork(space, graph))
            every.resize(before);
          return true;
        });
        ASSERT_TRUE(walk.Run());
      }
      classes.Add(kept.data(), kept.size());
      classes.Finish();
      kept.clear();
      fingerprinter.Release({});  // parts meet more classes now
      reducible = fingerprinter.TakeCounts().reducible;
      for (const Record& record : every) {
        EXPECT_NE(classes.Find(record.fingerprint), nullptr) << ToString(space, code->Unpack(record.graph));
      }
      every.clear();
    }
    EXPECT_GT(reducible, 0u);
  }
}

}  // namespace
}  // namespace rewright::generate
