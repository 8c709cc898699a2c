#include "tools/library/source_model.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "tools/library/named_model.h"

namespace rewright {

absl::StatusOr<SourceModel> ReadSource(ModelFile file, OnnxModel contents, ImportOptions reading, bool mapped) {
  reading.keep_source = true;
  ASSIGN_OR_RETURN(ImportedModel original, contents.Import(reading));
  const bool all_given = std::all_of(original.dims.begin(), original.dims.end(),
                                     [&](const auto& dim) { return reading.dims.contains(dim.first); });
  if (!all_given) {
    ASSIGN_OR_RETURN(original, WithRelations(contents, std::move(original), reading));
  }
  file.set_external_files(original.external_files);
  return SourceModel{std::move(file), std::move(contents), std::move(original), mapped};
}

}  // namespace rewright
