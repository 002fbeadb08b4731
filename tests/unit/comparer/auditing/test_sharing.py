"""Answers of audits are kept: the same question is asked once, and old answers are forgotten."""

from __future__ import annotations

from itertools import count

from padiff.comparer.auditing import Answers


def test_a_question_is_asked_once() -> None:
    answers: Answers[int] = Answers()
    numbers = count(1)

    found = [answers.get(key, lambda: next(numbers)) for key in ("a", "b", "a", "c")]

    assert found == [1, 2, 1, 3]


def test_no_answer_is_an_answer_too() -> None:
    answers: Answers[int | None] = Answers()

    assert answers.get("a", lambda: None) is None
    assert answers.get("a", lambda: 1) is None


def test_the_answers_that_were_asked_for_last_are_kept() -> None:
    answers: Answers[int] = Answers()
    for key in ("a", "b", "c", "a"):
        answers.get(key, lambda: 1)

    answers.forget(but=2)

    assert len(answers) == 2
    assert [answers.get(key, lambda: 2) for key in ("a", "c", "b")] == [1, 1, 2]
    answers.forget(but=5)
    assert len(answers) == 3
