#!/bin/sh
# Makes README.md, docs/, the decisions, the references of C++ and Python, and a gallery of reports (where the program is
# built) a site with search, by Sphinx from PyPI. Fails at a link that leads nowhere and at a page that no other leads to.
#
#   tools/site.sh [OUT]    # default build/site: open OUT/index.html
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out="${1:-$root/build/site}"
environment="$root/build/site_environment"
packages="sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19"

if [ "$(cat "$environment/packages" 2>/dev/null)" != "$packages" ]; then
  "${PYTHON:-python3}" -m venv "$environment"
  # shellcheck disable=SC2086
  "$environment/bin/pip" install --quiet --disable-pip-version-check $packages
  echo "$packages" > "$environment/packages"
fi

# The files as they lie in the repository, since pages lead to sources as well, with a list of pages behind README.md.
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
git -C "$root" ls-files -z | tar -C "$root" --null --files-from=- --ignore-failed-read -c 2>/dev/null | tar -C "$pages" -x
"$environment/bin/python" "$root/tools/reference.py" "$pages/reference"
program="$root/build/release/rewright"
if [ -x "$program" ]; then "$environment/bin/python" "$root/tools/gallery.py" "$program" "$pages/gallery"; fi
list() {
  printf '\n```{toctree}\n:hidden:\n:caption: %s\n' "$1"
  shift
  [ "$1" != "--glob" ] || { echo ":glob:"; shift; }
  printf '\n'
  printf '%s\n' "$@"
  echo '```'
}
{
  cat "$root/README.md"
  list "First steps" docs/tour docs/deploying docs/questions docs/models docs/glossary \
    $([ -d "$pages/gallery" ] && echo gallery/README)
  list "Reference" reference/python reference/cpp docs/rules CHANGELOG
  list "Subjects" --glob 'docs/*'
  list "For changes to the sources" --glob 'docs/paths/*' bench/README 'docs/decisions/*'
} > "$pages/README.md"
"$environment/bin/sphinx-build" --quiet --fail-on-warning --keep-going -j auto -c "$root/docs" "$pages" "$out"
ln -sf README.html "$out/index.html"
echo "$out/index.html"
