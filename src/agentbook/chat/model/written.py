"""A conversation as data: the table, JSON, Markdown and page it can be written as, and two of them compared."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import records
from .exchange import Exchange

if TYPE_CHECKING:
    import pandas as pd


class Written(ABC):
    """What a `Conversation` can be written as, and read back from. Its exchanges are all this needs to know of it."""

    session_id: str | None
    agent_name: str

    @property
    @abstractmethod
    def exchanges(self) -> list[Exchange]:
        """What was asked and answered, in order."""

    @classmethod
    @abstractmethod
    def _restored(cls, exchanges: Sequence[Exchange], session_id: str | None, agent_name: str) -> Self:
        """One that holds these exchanges, as they were read from a file."""

    def to_pandas(self) -> pd.DataFrame:
        """The transcript; see `agentbook.chat.model.transcript.to_frame`, which lists the columns."""
        from .transcript import to_frame

        return to_frame(self.exchanges)

    def to_json(self) -> str:
        """The conversation as JSON, its persisted events included; `from_json` reads it back to an equal one."""
        return json.dumps(self._data(), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, source: str | Path) -> Self:
        """The conversation that `to_json` wrote: to be read and analysed, not continued.

        Parameters
        ----------
        source : str or Path
            The JSON itself, or the name of a file that holds it.

        Raises
        ------
        ValueError
            If it is no transcript; the file is named.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> from agentbook import Conversation
        >>> Conversation.from_json(Conversation(None).to_json())
        Conversation('no agent', 0 turns, idle)
        """
        return cls._restored(*records.load(source, records.read_data))

    def to_markdown(self) -> str:
        """The transcript as Markdown: a heading for each speaker, each message as a quotation.

        Notebooks and many viewers obey the HTML they find in Markdown, so none is left in it: tags are written out, pictures
        are links, and a message that would still run or fetch something stands as a block of code.
        """
        return records.to_markdown(self.exchanges, self.agent_name)

    def to_html(self) -> str:
        """The transcript as a page of its own: sanitized, without scripts, and with nothing fetched from anywhere."""
        return records.to_html(self.exchanges, self.agent_name)

    def _data(self) -> dict[str, Any]:
        return records.as_data(self.exchanges, self.session_id, self.agent_name)

    def __eq__(self, other: object) -> bool:
        return self._data() == other._data() if isinstance(other, Written) else NotImplemented

    # By what was said, two may be equal now and not later, which no hash can follow.
    __hash__ = None  # type: ignore[assignment]
