"""Links from code in the text, such as ``ab.turns(events)``, to the reference."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

_NAME = re.compile(r"((?:\w+\.)*\w+)(?:\(.*\))?")
# What the first names of an expression are in the reference. In the manual and the
# tutorials these variables are always of these classes.
OWNERS = {
    "ab": "agentbook",
    "client": "agentbook.Client",
    "client.agents": "agentbook.resources.Agents",
    "client.credentials": "agentbook.resources.Credentials",
    "client.me": "agentbook.resources.Me",
    "client.organizations": "agentbook.resources.Organizations",
    "client.sessions": "agentbook.resources.Sessions",
    "client.skills": "agentbook.resources.Skills",
    "client.workspaces": "agentbook.resources.Workspaces",
    "compare": "agentbook.Compare",
    "explorer": "agentbook.Explorer",
    "history": "agentbook.History",
    "lab": "agentbook.PromptLab",
    "panel": "agentbook.ChatPanel",
    "store": "agentbook.Store",
    "watch": "agentbook.Watch",
}


def full_name(code: str) -> str | None:
    """The name in the reference that a piece of code uses; None if it uses none.

    >>> full_name("client.sessions.stream(session.id)")
    'agentbook.resources.Sessions.stream'
    >>> full_name("ab.plot.latency")
    'agentbook.plot.latency'
    >>> full_name("stream")
    """
    match = _NAME.fullmatch(code)
    owner, _, name = match[1].rpartition(".") if match else ("", "", "")
    while owner and owner not in OWNERS:
        owner, _, head = owner.rpartition(".")
        name = f"{head}.{name}"
    return f"{OWNERS[owner]}.{name}" if owner else None


class LinkNames(SphinxPostTransform):
    """Make links of the literals that are names of the reference."""

    default_priority = 20  # after the links that pages write themselves

    def run(self, **options: Any) -> None:
        objects = self.env.get_domain("py").objects
        for literal in list(self.document.findall(nodes.literal)):
            name = self._name(literal)
            if name not in objects or _is_linked(literal):
                continue
            entry = objects[name]
            link = make_refnode(
                self.app.builder,
                self.env.docname,
                entry.docname,
                entry.node_id,
                literal.deepcopy(),
                name,
            )
            literal.replace_self(link)

    def _name(self, literal: nodes.literal) -> str | None:
        """The name in the reference; docstrings leave out ``ab.``, and say `turns`."""
        code = literal.astext()
        return full_name(
            f"ab.{code}"
            if "name" in literal["classes"] and not code.startswith("ab.")
            else code
        )


def _is_linked(node: nodes.Node) -> bool:
    """Whether a link or a title is around the node."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.reference | nodes.title):
            return True
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
