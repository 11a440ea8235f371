"""The public names as users write them, for the reference.

`ab.plot` is a module elsewhere, and a method of ``client.agents`` is a function of an
endpoint; both are shown under the names that users write. Types in docstrings, and
names in backticks, link to where they are documented.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx

import agentbook
from agentbook import resources

MODULES = ("checks", "dask", "errors", "plot", "session_log")
TYPES = {
    "DataFrame": "pandas.DataFrame",
    "Series": "pandas.Series",
    "Timedelta": "pandas.Timedelta",
    "Timestamp": "pandas.Timestamp",
    "Path": "pathlib.Path",
    "datetime": "datetime.datetime",
    "timedelta": "datetime.timedelta",
    "tzinfo": "datetime.tzinfo",
    "ssl.SSLContext": "ssl.SSLContext",
    "VBox": "ipywidgets.VBox",
    "Listing": "agentbook.listing.Listing",
    "AsyncListing": "agentbook.listing.AsyncListing",
    "EventStream": "agentbook.events.stream.EventStream",
    "AsyncEventStream": "agentbook.events.stream.AsyncEventStream",
    "Record": "agentbook.api.record.Record",
    "Chart": "agentbook.frames.plot.chart.Chart",
    **{
        name: f"agentbook.{name}"
        for name in agentbook.__all__
        if inspect.isclass(getattr(agentbook, name))
    },
    **{name: f"agentbook.errors.{name}" for name in agentbook.errors.__all__},
}


def put_modules_where_users_find_them() -> None:
    for name in MODULES:
        sys.modules[f"agentbook.{name}"] = getattr(agentbook, name)


def show_endpoints_as_methods() -> None:
    """Give the resources methods in place of the descriptors that make them."""
    for resource in vars(resources).values():
        if not inspect.isclass(resource) or not issubclass(
            resource, resources.Resource
        ):
            continue
        for name, endpoint in list(vars(resource).items()):
            if isinstance(endpoint, resources.Endpoint | resources.ListOperation):
                setattr(resource, name, _method(endpoint.build))


def _method(build: Any) -> Any:
    @functools.wraps(build)
    def method(self: Any, *args: Any, **params: Any) -> Any:
        """Replaced by `build`'s own."""

    signature = inspect.signature(build)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(
        parameters=[itself, *signature.parameters.values()]
    )  # type: ignore[attr-defined]
    return method


def code_or_name(
    role: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Inliner,
    options: Any = None,
    content: Any = (),
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """The role of single backticks: code, which `name_links` links where it can."""
    return [nodes.literal(rawtext, text, classes=["name"])], []


def setup(app: Sphinx) -> dict[str, bool]:
    put_modules_where_users_find_them()
    show_endpoints_as_methods()
    app.add_role("code-or-name", code_or_name)
    app.config.numpydoc_xref_aliases = TYPES
    return {"parallel_read_safe": True, "parallel_write_safe": True}
