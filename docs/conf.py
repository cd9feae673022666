"""Sphinx's settings of the site, `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import leakdet

project = "leakdet"
author = "The leakdet authors"
copyright = "the leakdet authors, Apache-2.0"  # noqa: A001  Sphinx's name
version = release = leakdet.__version__

extensions = ["myst_parser", "site_reference"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

highlight_language = "bash"

html_theme = "furo"
html_title = "leakdet"
html_show_sphinx = False
html_copy_source = False
# Colours that are told apart on either scheme; without the small print of the theme.
pygments_style = "friendly"
pygments_dark_style = "monokai"
