"""The site of these pages, made by Sphinx (tools/site.sh)."""

project = "Rewright"
html_title = "Rewright"
html_theme = "furo"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["README.md", "CHANGELOG.md", "docs/**.md", "bench/README.md", "reference/*.md", "gallery/*.md"]
myst_heading_anchors = 4
# Fences name files that a test writes (tests/commands.py); CHANGELOG.md repeats headings in each version.
suppress_warnings = ["misc.highlighting_failure"]
