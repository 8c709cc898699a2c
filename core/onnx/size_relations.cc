#include "core/onnx/size_relations.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/integer.h"

namespace rewright {

std::optional<int64_t> SizeRelation::At(const index::NamedSizes& sizes) const {
  int64_t sum = constant;
  for (const auto& [name, factor] : terms) {
    const auto found = sizes.find(name);
    int64_t product = 0;
    if (found == sizes.end() || !CheckedMultiply(factor, found->second, &product) || !CheckedAdd(sum, product, &sum)) {
      return std::nullopt;
    }
  }
  return sum < 1 ? std::nullopt : std::optional(sum);
}

std::string SizeRelation::ToString() const {
  std::string text = name + " =";
  bool first = true;
  const auto add = [&](int64_t factor, const std::string& what) {
    absl::StrAppend(&text, first ? (factor < 0 ? " -" : " ") : (factor < 0 ? " - " : " + "), what);
    first = false;
  };
  for (const auto& [term, factor] : terms) {
    const int64_t magnitude = std::abs(factor);
    add(factor, magnitude == 1 ? term : absl::StrCat(magnitude, "*", term));
  }
  if (constant != 0 || first) add(constant, absl::StrCat(std::abs(constant)));
  return text;
}

std::optional<SizeRelation> RelationOf(const std::string& name) {
  SizeRelation relation{name, {}, 0};
  int parts = 0;
  const auto is_letter = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (absl::string_view part : absl::StrSplit(absl::StrReplaceAll(name, {{"-", "+-"}}), '+')) {
    part = absl::StripAsciiWhitespace(part);
    int64_t factor = 1, number = 0;
    if (absl::ConsumePrefix(&part, "-")) factor = -1;
    std::string symbol;
    for (absl::string_view piece : absl::StrSplit(part, '*')) {
      piece = absl::StripAsciiWhitespace(piece);
      if (absl::SimpleAtoi(piece, &number)) {
        if (!CheckedMultiply(factor, number, &factor)) return std::nullopt;
        continue;
      }
      if (piece.empty() || !symbol.empty() || !std::all_of(piece.begin(), piece.end(), is_letter)) return std::nullopt;
      symbol = std::string(piece);
    }
    ++parts;
    if (symbol.empty()) {
      if (!CheckedAdd(relation.constant, factor, &relation.constant)) return std::nullopt;
    } else {
      relation.terms.emplace_back(symbol, factor);
    }
  }
  const bool alone = parts == 1 && relation.terms.size() == 1 && relation.terms[0].second == 1;
  return alone || relation.terms.empty() ? std::nullopt : std::optional(relation);
}

void Complete(const std::vector<SizeRelation>& relations, index::NamedSizes* sizes) {
  for (const SizeRelation& relation : relations) {
    if (const std::optional<int64_t> size = relation.At(*sizes)) (*sizes)[relation.name] = *size;
  }
}

std::vector<index::NamedSizes> RelatedSamples(const std::vector<std::string>& names, const index::NamedSizes& fixed,
                                              const std::vector<SizeRelation>& relations) {
  std::vector<index::NamedSizes> samples = index::SampleSizes(names, fixed);
  for (index::NamedSizes& sample : samples) Complete(relations, &sample);
  return samples;
}

RelatedFit::RelatedFit(const std::vector<std::string>& names, const std::vector<index::NamedSizes>& samples,
                       const std::vector<SizeRelation>& relations)
    : SizeFit(names, samples) {
  for (const SizeRelation& relation : relations) {
    std::vector<int64_t> values;
    for (const index::NamedSizes& sample : samples) values.push_back(sample.at(relation.name));
    if (const std::optional<index::Form> form = Fit(values)) related_.emplace_back(relation.name, *form);
  }
}

std::string RelatedFit::NameOfSize(const index::Form& form) const {
  const index::Atom* const atom = form.AsAtom();
  if (atom != nullptr && atom->kind == index::Atom::Kind::kSymbol) return NameOf(atom);
  const auto found =
      std::find_if(related_.begin(), related_.end(), [&](const auto& related) { return related.second == form; });
  return found == related_.end() ? "" : found->first;
}

}  // namespace rewright
