"""The documentation site: `make docs` builds it into site/. It opens from disk and asks no network for anything."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from notebooks.markdown import NotebookParser

project = "fusiest"
html_title = "fusiest"
html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
extensions = ["myst_parser", "sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
default_role = "code"
myst_heading_anchors = 4
exclude_patterns = ["**/*.py", "*.py", "*.in.md"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]


def setup(app: object) -> None:
    """Notebooks are pages like any other."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
