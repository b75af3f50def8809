"""Sphinx's settings. ``make docs`` puts the sources together first: see scripts/docs_sources.py."""

from sphinx.ext.napoleon import Config as NapoleonConfig, GoogleDocstring

import lazynb

project = "lazynb"
version = release = lazynb.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = [".doctrees", ".jupyter", "_static"]
templates_path: list[str] = []
highlight_language = "ipython3"

# Markdown.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type"]  # a drawing stands beside lazynb's own type

# Notebooks show what they stored; the guide's pages, which say so at their top, run their cells while the
# site is built.
nb_execution_mode = "off"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # they would come from another host
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]

# Docstrings.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "lazynb"
html_static_path = ["_static"]
html_css_files = ["lazynb.css"]
html_js_files = [("lazynb.js", {"defer": "defer"})]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_sidebars = {"**": ["sidebar-nav-bs"], "index": [], "changelog": [], "contribute": [], "how-it-works": []}
html_theme_options = {
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "logo": {"text": "lazynb"},
}


def _docstring(app, what, name, obj, options, lines):
    """Google's sections as fields. Napoleon, as an extension, would take a property's text before a colon for
    its type."""
    kind = "method" if what == "property" else what
    settings = NapoleonConfig(napoleon_use_ivar=True, napoleon_use_rtype=False)
    lines[:] = GoogleDocstring(list(lines), settings, app, kind, name, obj, options).lines()


def setup(app):
    app.connect("autodoc-process-docstring", _docstring)
