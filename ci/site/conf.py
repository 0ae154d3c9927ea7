"""How Sphinx makes a site of the Markdown of this repository; the options are said in its documentation.

The sources lie where they are read on GitHub, and no document is written for the site alone but references.md. What
GitHub does and Sphinx does not is in `repository.py`, what the site's left column shows in `navigation.py`.
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
# Each of these would be searched for documents.
exclude_patterns = [".*", "dist", "target", "**/node_modules", "**/target", "**/build", "**/dist", "**/.*"]

# GitHub makes an anchor of every heading.
myst_heading_anchors = 6
highlight_language = "text"
# `…` stands for what an example leaves out.
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
