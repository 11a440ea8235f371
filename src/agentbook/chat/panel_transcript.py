"""The static transcript of a panel, which a saved notebook shows."""

from __future__ import annotations

from collections.abc import Sequence

from .html.saving_pace import SavingPace
from .html.static_transcript import StaticTranscript, panel_html
from .model.conversation import Conversation
from .model.exchange import Exchange
from .model.transcript import Transcript


class PanelTranscript:
    """Shows a panel's conversation as static HTML and keeps it up to date.

    Parameters
    ----------
    conversation : Conversation
    uid : str
        As for `StaticTranscript`.
    """

    def __init__(self, conversation: Conversation, uid: str) -> None:
        self._conversation = conversation
        self._static = StaticTranscript(uid, panel_html)
        self._pace = SavingPace()

    def show(self) -> None:
        """Display it in the running cell."""
        self._static.show(*self.content())

    def update(self, *, at_once: bool = False) -> None:
        """Update it, unless a reply has hardly grown since the last time."""
        pending = self._conversation.pending
        text = sum(len(exchange.text) for exchange in pending) if pending else None
        if at_once or self._pace.is_due(text):
            self._static.update(*self.content())
            self._pace.note(text, self._static.size)

    def content(self) -> tuple[Sequence[Exchange], str, list[Transcript], str]:
        """The arguments of `panel_html` before the uid."""
        conversation = self._conversation
        kept = conversation.kept
        empty = Transcript([], agent_name=conversation.own_agent_name)
        shown_id = (conversation.recording or conversation).session_id
        current = next((each for each in kept if each.session_id == shown_id), empty)
        others = [each for each in kept if each.exchanges and each is not current]
        return current.exchanges, current.agent_name, others, current.incomplete
