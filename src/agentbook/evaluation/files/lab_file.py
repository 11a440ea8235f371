"""The files of a prompt lab.

One kind holds variants, inputs, checks and replies as JSON; an evaluation file holds
everything but the replies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._files import atomic_write
from ..experiment import Experiment
from ..model import Permissions
from .eval_file import read_lab

EVALUATION_FILES = (".yaml", ".yml")
FORMAT = "agentbook-prompt-lab"
FORMAT_VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SavedLab:
    """What a file holds of a lab.

    Attributes
    ----------
    experiment : Experiment
    agent, workspace : str or None
    notes : sequence of str
        Instructions in an evaluation file that a lab does not follow.
    """

    experiment: Experiment
    agent: str | None
    workspace: str | None
    notes: Sequence[str] = ()


def is_evaluation_file(path: str | Path) -> bool:
    """Whether a file name is that of an evaluation file.

    Examples
    --------
    >>> is_evaluation_file("cases.yaml"), is_evaluation_file("lab.json")
    (True, False)
    """
    return Path(path).suffix.lower() in EVALUATION_FILES


def read_saved_lab(path: str | Path, allowed: Permissions | None = None) -> SavedLab:
    """The lab in a file of either kind.

    Parameters
    ----------
    path : str or Path
    allowed : Permissions, optional
        What an evaluation file may use besides the files in its folder.

    Raises
    ------
    ValueError
        If the file is neither, or damaged.
    OSError
    """
    return _read_evaluation_file(path, allowed) if is_evaluation_file(path) else _read_json(path)


def _read_evaluation_file(path: str | Path, allowed: Permissions | None) -> SavedLab:
    file, experiment = read_lab(path, allowed=allowed), Experiment()
    for variant in file.variants:
        experiment.add_variant(variant)
    experiment.input_set.use(file.asked)
    experiment.repeats = file.repeats
    experiment.check(file.checks)
    return SavedLab(experiment, file.agent, file.workspace, file.notes)


def _read_json(path: str | Path) -> SavedLab:
    data = read_file(path)
    try:
        return SavedLab(Experiment.from_data(data), data["agent"], data["workspace"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def write_file(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write the data of a lab to a file, which is replaced as a whole or not at all."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **data}, ensure_ascii=False, indent=1)
    # Half a surrogate pair, which broken JSON may hold, is not valid UTF-8; its escape
    # is.
    text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    with atomic_write(target) as file:
        file.write(f"{text}\n".encode())
    return target


def read_file(path: str | Path) -> dict[str, Any]:
    """The data that `write_file` wrote.

    Raises
    ------
    ValueError
        If the file is something else, is damaged, or has a later format version.
    OSError
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); open a file that lab.save(path) wrote.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f'{path} is not a prompt lab: a file of lab.save(path) begins with "format": "{FORMAT}".')
    if data.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {data.get('version')!r}; this agentbook reads version {FORMAT_VERSION}."
        )
    return data
