"""Past turns as test inputs: adds them, and finds them again in a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...evaluation.additions import matches_inputs, to_frame
from ...evaluation.inputs import read_turns
from .controller import LabController

if TYPE_CHECKING:
    import pandas as pd


class TurnInputs:
    """The part of `PromptLab` that handles past turns.

    Parameters
    ----------
    controller : LabController
    """

    def __init__(self, controller: LabController) -> None:
        self._controller = controller

    def add_inputs(self, turns: Any, *, mask: bool = True) -> pd.DataFrame:
        """Add past turns to the test inputs. Nothing is sent.

        Parameters
        ----------
        turns : DataFrame, Turn, str, or iterable of these
            Such as `Explorer.selection`. A frame needs the column ``prompt``.
        mask : bool
            Whether keys, passwords, e-mail addresses and card numbers are masked.

        Returns
        -------
        DataFrame
            What was added, with the columns of `preview_inputs`: ``input``, ``masked``
            and where it comes from.

        Raises
        ------
        TypeError, ValueError
            If there is no question in them.
        """
        additions = read_turns(turns, mask=mask)
        experiment = self._controller.experiment
        experiment.input_set.add(each.text for each in additions)
        experiment.origins.update((each.text, each.origin) for each in additions)
        experiment.notify()
        return to_frame(additions)

    def preview_inputs(self, turns: Any, *, mask: bool = True) -> pd.DataFrame:
        """What `add_inputs` would add; nothing is added.

        Parameters
        ----------
        turns : DataFrame, Turn, str, or iterable of these
            As for `add_inputs`.
        mask : bool
            As for `add_inputs`.

        Returns
        -------
        DataFrame
            A row per question: ``input``, ``masked`` (what was masked, in words) and
            where it comes from: ``session_id``, ``message_id``, ``turn``, ``asked_at``
            and ``agent``.

        Raises
        ------
        TypeError, ValueError
            If there is no question in them.
        """
        return to_frame(read_turns(turns, mask=mask))

    def in_test_set(self, turns: Any) -> pd.Series:
        """Which turns asked one of the test inputs, outside this lab's own runs.

        In a history, this shows whether these questions improved with a version.

        Parameters
        ----------
        turns : DataFrame, History, or any other table
            With the columns ``prompt`` and ``session_id``.

        Returns
        -------
        Series
            bool, with the index of the turns and the name ``in_test_set``.

        Raises
        ------
        TypeError, ValueError
            If these are not turns with texts.
        """
        experiment = self._controller.experiment
        sent = (experiment.input_set.message_of(text) for text in experiment.inputs)
        own = (answer.session_id for answer in experiment.all_answers if answer.session_id is not None)
        return matches_inputs(turns, sent, own)
