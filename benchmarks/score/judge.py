"""Rank what a comparison says of a case."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from padiff.comparer.proving import Answer
from padiff.comparer.report.edit_words import worded_edit

from .case import CauseRank, OriginRank, VerdictRank

if TYPE_CHECKING:
    from padiff.comparer import Comparison, Divergence
    from padiff.comparer.proving import Execution

    from .case import Case, Expected

__all__ = ["Ranks", "rank", "rank_executed"]

Ranks = tuple[VerdictRank, OriginRank | None, CauseRank | None, str]
"""Of the verdict, the first origin and its cause; and what was said."""


def rank(case: Case, found: Comparison) -> Ranks:
    """Rank the verdict; and where a fault was rightly seen, its origin and its cause."""
    expected = case.expected
    verdict = _verdict(expected, found)
    said = _said(found)
    is_asked = expected.origins or expected.words
    if verdict is not VerdictRank.RIGHT or not is_asked or not found.reasons:
        return verdict, None, None, said
    if not found.origins:
        origin = OriginRank.WRONG if expected.origins else None
        return verdict, origin, CauseRank.NONE if expected.words else None, said
    first = found.origins[0]
    origin = _origin(expected, first) if expected.origins else None
    return verdict, origin, _cause(expected, first, origin), said


def rank_executed(case: Case, found: Comparison) -> Ranks:
    """Rank what executing both programs says: the verdict, and the first place where they part."""
    answers = {step.executed.answer for step in found.steps if step.executed is not None}
    verdict = "inconclusive"
    if Answer.DIFFERENT in answers:
        verdict = "diverged"
    elif answers == {Answer.SAME}:
        verdict = "match"
    expected = case.expected
    if verdict in expected.verdicts:
        ranked = VerdictRank.RIGHT
    elif verdict == "diverged":
        ranked = VerdictRank.FALSE_ALARM
    else:
        ranked = VerdictRank.FALSE_MATCH if verdict == "match" else VerdictRank.INCONCLUSIVE
    named, words, said = _executed_places(found)
    if ranked is not VerdictRank.RIGHT or verdict != "diverged":
        return ranked, None, None, said
    origin = cause = None
    if expected.origins:
        is_exact = any(fnmatchcase(path, one) for path in named for one in expected.origins)
        origin = OriginRank.EXACT if is_exact else OriginRank.WRONG
    if expected.words:
        cause = CauseRank.VAGUE if words else CauseRank.NONE
        if re.search(expected.words, words, re.IGNORECASE):
            cause = CauseRank.RIGHT
    return ranked, origin, cause, said


def _executed_places(found: Comparison) -> tuple[list[str], str, str]:
    """Return the modules that the first step that differs names, what is proved, and the rest."""
    for step in found.steps:
        if step.executed is not None and step.executed.answer is not Answer.SAME:
            return _places_of_step(step.executed)
    return [], "", "same"


def _places_of_step(one: Execution) -> tuple[list[str], str, str]:
    function = one.function
    words, places = "", [function.reference, function.candidate]
    if function.edits:
        words = "; ".join(map(worded_edit, function.edits))
        places = [function.edits[0].reference, function.edits[0].candidate]
    elif not any(places):
        return _leaf_or_execution(one)
    modules = [place.module for place in places if place is not None]
    operators = " / ".join(place.operator for place in places if place is not None)
    return modules, words, words or f"function: {operators}"


def _leaf_or_execution(one: Execution) -> tuple[list[str], str, str]:
    """Return what is said of a step whose functions are the same."""
    function = one.function
    unsound = next((value for value in one.unsound if value is not None), None)
    modules: list[str] = []
    words = ""
    if function.differences:
        first = function.differences[0]
        words = f"{first.kind} {first.candidate}"
        modules = [path.rpartition(".")[0] for path in (first.reference, first.candidate)]
        if first.place is not None:
            modules, words = [first.place.module], f"{words}: detached"
    elif function.coarser is not None:
        modules, words = [function.coarser.place.module], f"precision: {function.coarser.candidate}"
    elif unsound is not None:
        readers = {reader.module for reader in unsound.readers}
        modules = list(readers) if len(readers) == 1 else [unsound.module]
        words = f"{unsound.operator}: {unsound.reason}"
    said = words or f"{function.unknown} {function.detail}".strip() or "not audited"
    return modules, words, said


def _verdict(expected: Expected, found: Comparison) -> VerdictRank:
    verdict = str(found.verdict)
    if verdict in expected.verdicts:
        return VerdictRank.RIGHT
    notes = "\n".join((*found.notes, *(note for step in found.steps for note in step.notes)))
    if expected.note and verdict == "match" and re.search(expected.note, notes, re.IGNORECASE):
        return VerdictRank.RIGHT
    if verdict == "diverged":
        return VerdictRank.FALSE_ALARM
    return VerdictRank.FALSE_MATCH if verdict == "match" else VerdictRank.INCONCLUSIVE


def _named(origin: Divergence) -> list[str]:
    ends = origin.pair.reference, origin.pair.candidate
    return [end.address.module for end in ends if end is not None]


def _origin(expected: Expected, first: Divergence) -> OriginRank:
    named = _named(first)
    if any(fnmatchcase(path, one) for path in named for one in expected.origins):
        return OriginRank.EXACT
    around = any(
        not path or one.startswith(f"{path}.") for path in named for one in expected.origins
    )
    among = any(fnmatchcase(path, one) for path in first.suspects for one in expected.origins)
    return OriginRank.CONTAINER if around or among else OriginRank.WRONG


def _cause(expected: Expected, first: Divergence, origin: OriginRank | None) -> CauseRank | None:
    if not expected.words:
        return None
    evidence = "\n".join(first.evidence)
    names = {str(cause.name) for cause in first.causes}
    if origin is OriginRank.WRONG:
        return CauseRank.WRONG if names else CauseRank.NONE
    is_worded = re.search(expected.words, evidence, re.IGNORECASE) is not None
    is_of_the_sort = bool(names & expected.causes)
    if is_worded and (is_of_the_sort or not names):
        return CauseRank.RIGHT
    if is_of_the_sort or is_worded:
        return CauseRank.VAGUE
    return CauseRank.WRONG if names else CauseRank.NONE


def _said(found: Comparison) -> str:
    if not found.origins:
        return "; ".join(found.reasons[:2]) or str(found.verdict)
    first = found.origins[0]
    places = " = ".join(dict.fromkeys(path or "(root)" for path in _named(first)))
    causes = "; ".join(cause.text for cause in first.causes[:2]) or "no cause"
    return f"{first.phase} of {places}: {causes}"
