"""The configuration with which Sphinx builds a site of this repository's Markdown. Sphinx documents the options.

The sources are the documents that people read on GitHub. Only references.md is written for the site alone. The module
`repository.py` does what GitHub does and Sphinx does not, and `navigation.py` fills the site's left column.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "Steadlock"
html_title = "Steadlock"
root_doc = "README"
extensions = ["myst_parser", "repository", "navigation"]
include_patterns = ["*.md", "**/*.md"]
# Folders in which Sphinx would otherwise search for documents.
exclude_patterns = [".*", "dist", "target", "**/node_modules", "**/target", "**/build", "**/dist", "**/.*"]

# GitHub makes an anchor of every heading.
myst_heading_anchors = 6
highlight_language = "text"
# Examples use `…` for omitted code, which the highlighters do not accept.
suppress_warnings = ["misc.highlighting_failure"]
nitpicky = True
smartquotes = False

html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_theme_options = {
    "source_repository": "https://github.com/steadlock/steadlock/",
    "source_branch": "main",
    "source_directory": "",
    "top_of_page_buttons": ["view"],
    "light_css_variables": {"color-brand-primary": "#0068a8", "color-brand-content": "#0068a8"},
    "dark_css_variables": {"color-brand-primary": "#5ab4ec", "color-brand-content": "#5ab4ec"},
}
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
