"""The documentation as a site: ``pip install '.[docs]' && sphinx-build docs site``.

The pages are those that the agent `guide` quotes, the tutorials are the notebooks with
their stored outputs, and the references are made from the docstrings, openapi.yaml and
the commands. Nothing is fetched: the inventories of other projects are in this folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import agentbook
from agentbook.service.demo.manual import ORDER, order

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "agentbook"
author = "The agentbook authors"
version = release = agentbook.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_click",
    "sphinx_design",
    # In the folder _extensions
    "llms_txt",
    "manual_pages",
    "name_links",
    "notebook_pages",
    "public_names",
    "rest_reference",
]
exclude_patterns = ["**.ipynb_checkpoints"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_start": ["navbar-logo", "version"],
}
html_title = "agentbook"
html_sidebars = {"gallery": []}  # a page without pages below it
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(
    HERE / "_static" / "scorer.js"
)  # knows the manual's order by this script:
html_js_files = [
    (
        None,
        {
            "body": f"const MANUAL = {json.dumps(order((HERE / ORDER).read_text('utf-8')))};"
        },
    )
]
html_show_sourcelink = False
templates_path = ["_templates"]

nb_execution_mode = "off"  # the stored outputs are tested
nb_mime_priority_overrides = [
    ("html", "application/vnd.jupyter.widget-view+json", None)
]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = [
    "misc.highlighting_failure",  # cells with magics
    "ref.python",  # numpydoc looks up the attribute `PartialLoad.resume` by its last name, which methods have too
]

autosummary_generate = True
autodoc_typehints = "none"
default_role = "code-or-name"
intersphinx_mapping = {
    name: (address, str(HERE / "inventories" / f"{name}.inv"))
    for name, address in {
        "python": "https://docs.python.org/3/",
        "pandas": "https://pandas.pydata.org/docs/",
        "ipywidgets": "https://ipywidgets.readthedocs.io/en/stable/",
    }.items()
}
intersphinx_disabled_reftypes = ["std:doc"]
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = (
    "all"  # words such as "of"; the names that link are those of the aliases
)
nitpicky = True

# Pages that had another name: links to them still lead somewhere.
agentbook_moved = {
    "06-analyses": "analyses",
    "18-binder-and-tutorials": "binder",
    "09-chat-panel": "chat-panel",
    "02-connecting": "connecting",
    "08-credentials": "credentials",
    "05-dataframes": "dataframes",
    "24-deployment": "deployment",
    "17-embedded-service": "embedded-service",
    "11-errors-and-limits": "errors-and-limits",
    "23-evaluation-files": "evaluation-files",
    "01-getting-started": "getting-started",
    "20-glossary": "glossary",
    "10-prompt-lab": "prompt-lab",
    "26-questions": "questions",
    "12-scopes-and-keys": "scopes-and-keys",
    "03-sessions-and-events": "sessions-and-events",
    "07-store-and-dask": "store-and-dask",
    "04-streaming": "streaming",
    "19-troubleshooting": "troubleshooting",
    "15-workspaces-and-agents": "workspaces",
    "25-your-own-agent": "your-own-agent",
}
