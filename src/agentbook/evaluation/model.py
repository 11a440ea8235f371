"""The parts of an evaluation file: prompts, cases and checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .check import Check


@dataclass(frozen=True, slots=True)
class Permissions:
    """What an evaluation file may use besides the files in its own folder.

    Whoever runs the file says so; the file itself cannot.

    Attributes
    ----------
    paths : tuple of Path
        Folders whose files it may read too.
    env : tuple of str
        Variables of the environment that its templates may use.
    javascript : bool
        Whether ``javascript`` asserts run.
    """

    paths: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    javascript: bool = False

    @classmethod
    def of(
        cls, paths: str | Path | Iterable[str | Path] = (), env: str | Iterable[str] = (), javascript: bool = False
    ) -> Permissions:
        """The permissions for these; a single one may be passed as it is.

        Examples
        --------
        >>> Permissions.of(env="REGION").env
        ('REGION',)
        """
        paths = [paths] if isinstance(paths, str | Path) else paths
        return cls(tuple(map(Path, paths)), (env,) if isinstance(env, str) else tuple(env), javascript)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to send, or the messages of a chat as JSON.

    Attributes
    ----------
    label : str
    text : str
        A template.
    settings : mapping
        The prompt's ``config``: model, temperature and the like.
    """

    label: str
    text: str
    id: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """Values for the prompts, and the asserts on the replies.

    Attributes
    ----------
    vars : mapping of str to object
        A list of strings stands for several cases.
    asserts : tuple of Check
    threshold : float or None
        The score from which the case passes, whatever its asserts say.
    prompts : tuple of str or None
        Labels or ids of the prompts it is for; None for all.
    reply : str or None
        A stored reply (``providerOutput``), for which nothing is sent.
    turn : Reply or None
        A past turn with a reply, of which more is known than its text.
    options : mapping
        prefix, suffix, rubricPrompt, disableVarExpansion, disableDefaultAsserts.
    """

    vars: Mapping[str, Any] = field(default_factory=dict)
    asserts: tuple[Check, ...] = ()
    threshold: float | None = None
    description: str | None = None
    prompts: tuple[str, ...] | None = None
    reply: Any = None
    turn: Any = field(default=None, compare=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """An evaluation file: every prompt is sent with the values of every case.

    Attributes
    ----------
    prompts : tuple of Prompt
    cases : tuple of Case
        The cases as in the file; `agentbook.evaluation.files.cells.expand` merges and
        multiplies them.
    default : Case
        The defaults of all cases.
    repeat : int
        Number of times to send each prompt and case.
    agent, judge, workspace : str or None
        Agents of the platform, from ``agentbook:NAME`` in the file's providers.
    folder : Path
        The folder of the file.
    notes : tuple of str
        Parts of the file that have no effect here.
    skipped : tuple of str
        Parts that were left out because they cannot run here, with the reasons.
    allowed : Permissions
        What it may use besides the files in its folder.
    """

    prompts: tuple[Prompt, ...]
    cases: tuple[Case, ...] = ()
    default: Case = field(default_factory=Case)
    repeat: int = 1
    description: str | None = None
    agent: str | None = None
    judge: str | None = None
    workspace: str | None = None
    folder: Path = field(default_factory=Path)
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    allowed: Permissions = field(default_factory=Permissions)
