#include "verifier/check/certificate_steps.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "verifier/certificate/certificate_text.h"
#include "verifier/check/proof_check.h"
#include "verifier/check/rule_instances.h"
#include "verifier/check/step_reader.h"

namespace rewright {

absl::StatusOr<ToldCertificate> CheckToldSteps(const std::string& text, const std::string& file, StepChecker* steps) {
  CertificateReader reader(text, file);
  RETURN_IF_ERROR(reader.Run());
  const std::string seal = SealOf(text.substr(0, text.rfind("seal ")));
  if (SealAtEnd(text) != seal) {
    const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    return reader.ErrorAt(lines - 1, absl::StrCat("found seal ", SealAtEnd(text), ", expected ", seal));
  }
  ToldCertificate out;
  out.law = reader.law();
  for (const auto& [line, query] : reader.queries()) {
    out.queries.push_back(query);
    out.query_lines.push_back(line);
  }
  const auto visit = [&](const RuleInstance& instance) -> absl::Status {
    const size_t number = out.instances++;
    if (number >= reader.steps().size()) {
      return reader.ErrorAt(static_cast<size_t>(reader.law_line()),
                            absl::StrCat("found steps of ", number, " instances, expected those of ",
                                         instance.description.empty() ? "one" : instance.description, " too"));
    }
    const CertificateReader::Steps& told = reader.steps()[number];
    ProofCheck proof(instance, steps);
    StepReader lines(file, told.first);
    if (const absl::Status read = lines.Tell(told.lines, &proof); !read.ok()) {
      out.missing.emplace_back(read.message());
      return absl::OkStatus();
    }
    for (const std::string& missing : proof.Finish()) {
      out.missing.push_back(absl::StrCat(file, ":", told.first - 1, ": ", missing));
    }
    return absl::OkStatus();
  };
  if (const absl::Status read = check::ForEachInstance(reader.law(), reader.domain(), visit); !read.ok()) {
    return absl::StartsWith(read.message(), absl::StrCat(file, ":"))
               ? read
               : reader.ErrorAt(static_cast<size_t>(reader.law_line()),
                                absl::StrCat("found a law that makes no sense, expected one that was proved: ",
                                             std::string(read.message())));
  }
  if (out.instances != reader.steps().size()) {
    return reader.ErrorAt(reader.steps().back().first - 2, absl::StrCat("found steps of ", reader.steps().size(),
                                                                        " instances, expected ", out.instances));
  }
  return out;
}

}  // namespace rewright
