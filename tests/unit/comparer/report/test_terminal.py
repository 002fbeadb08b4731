"""The terminal report says what a reader needs, in order, and nothing dangerous."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from padiff.comparer.result import Kind, Verdict
from padiff.dumpfile import Phase, Role
from tests.support.comparisons import (
    comparison,
    divergence,
    endpoint,
    metrics,
    pair,
    resnet_like,
    tree,
)
from tests.support.drawing import draw

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison


def match() -> Comparison:
    """Give a comparison in which all agrees, one pair not bit for bit."""
    near = pair(endpoint("fc"), endpoint("fc"), measured=metrics(3.21e-6))
    return comparison(
        [pair(endpoint("conv1"), endpoint("conv1")), near], tree(["", "conv1", "fc"], {})
    )


def test_first_screen_has_verdict_origin_and_evidence() -> None:
    screen = "\n".join(draw(resnet_like(), width=80).splitlines()[:24])

    assert screen.startswith("DIVERGED: 1 origin, 1 inherited")
    assert "layer2.0.bn1  BatchNorm2d" in screen
    assert "layer2.0.bn1  BatchNorm2D" in screen
    assert "models/resnet.py:93" in screen
    assert "all agree" in screen
    assert "attribute eps: 1e-05 | 0.001" in screen
    assert re.search(r"0\.01235 at \[0, 2\] +allowed 0\.0001 \+ 1\.3e-06 \* \|ref\|", screen)


def test_sections_come_in_order_of_importance() -> None:
    text = draw(resnet_like())
    titles = [line.split("  ")[0] for line in text.splitlines() if line[:2].isupper()]

    assert titles == [
        "DIVERGED: 1 origin, 1 inherited",
        "FIRST ORIGIN",
        "MODULE TREE",
        "WEIGHTS AND GRADIENTS",
        "COMPARED",
    ]


def test_covered_records_are_counted_as_compared() -> None:
    text = " ".join(draw(resnet_like()).split())

    assert "3 diverged; 1 record judged elsewhere, as the value of another module" in text
    assert "NOT COMPARED" not in text


def test_module_whose_records_are_all_covered_is_not_called_skipped() -> None:
    both = frozenset({Phase.FORWARD, Phase.BACKWARD})
    rows = tree([("", ""), ("relu", None), ("drop", None)], {})
    rows = tuple(replace(row, covered=both) if row.reference == "relu" else row for row in rows)

    lines = draw(comparison([pair(endpoint(""), endpoint(""))], rows)).splitlines()

    assert re.search(r"elsewhere +elsewhere", next(line for line in lines if "relu" in line))
    assert re.search(r"skipped +skipped", next(line for line in lines if "drop" in line))


def test_here_marks_exactly_the_origin() -> None:
    marked = [line for line in draw(resnet_like()).splitlines() if "<--- HERE" in line]

    assert len(marked) == 1
    assert "bn1  Bn" in marked[0]
    assert "DIVERGED" in marked[0]


def test_verdicts_are_words_so_that_colour_is_not_needed() -> None:
    text = draw(resnet_like())

    assert "\x1b" not in text
    assert re.search(r"relu .*diverged .*inherited", text)
    assert re.search(r"relu .*reference only", text)
    assert re.search(r"head_dropout .*candidate only", text)


def test_match_states_how_close_it_was_and_draws_the_tree() -> None:
    text = draw(match())

    assert text.startswith("MATCH")
    assert "ORIGIN" not in text
    assert "HERE" not in text
    assert "max abs 3.21e-06 at fc output, allowed 0.0001" in text
    assert "2 match (1 bit-equal)" in text


@pytest.mark.parametrize("width", [40, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, draw(resnet_like(), width=width).splitlines())) <= width


@pytest.mark.parametrize(
    "name",
    [
        "[red]bold[/red]",
        "a\x1b[31mb",
        "a\nDIVERGED",
        "a\rb",
        "\u202eevil",
        ":smile:",
        "\ud800",
        "[/]",
        "[link=http://x]y",
    ],
)
def test_hostile_names_are_printed_and_not_obeyed(name: str) -> None:
    judged = pair(
        endpoint(name, name),
        endpoint(name, name),
        Verdict.DIVERGED,
        kind=Kind.ORIGIN,
        measured=metrics(),
    )
    alone = pair(endpoint(name, name), None, Verdict.MISSING, reason=f"no {name}")
    rows = tree(["", name], {name: Verdict.DIVERGED}, origins=[name])
    result = comparison([judged, alone], rows, [divergence(judged, name)], notes=(name,))

    text = draw(result, encoding="utf-8", verbose=True, explain_pairing=True)

    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert text.splitlines()[0] == "DIVERGED: 1 origin, 0 inherited"
    if name.isprintable():
        assert name in text


def test_plain_output_is_ascii_whatever_the_names() -> None:
    judged = pair(endpoint("couché"), endpoint("層"), measured=metrics())
    result = comparison([judged], tree(["", ("couché", "層")], {}))

    text = draw(result, encoding="ascii", explain_pairing=True)

    assert text.isascii()
    assert "couch\\xe9 = \\u5c64" in text


def test_unicode_terminal_gets_lines_and_names_as_they_are() -> None:
    result = comparison([], tree(["", "couché"], {}))

    assert "└─ couché" in draw(result, encoding="utf-8")


def test_origin_in_backward_does_not_claim_the_forward() -> None:
    gradient = pair(
        endpoint("fc", role=Role.GRAD_INPUT, phase=Phase.BACKWARD),
        endpoint("fc", role=Role.GRAD_INPUT, phase=Phase.BACKWARD),
        Verdict.DIVERGED,
        kind=Kind.ORIGIN,
        measured=metrics(),
    )
    rows = tree(["", "fc"], {}, origins=["fc"])
    worst = {Phase.FORWARD: Verdict.MATCH, Phase.BACKWARD: Verdict.DIVERGED}
    rows = (rows[0], replace(rows[1], worst=worst))

    text = draw(comparison([gradient], rows, [divergence(gradient)]))

    assert "FIRST ORIGIN  backward" in text
    assert re.search(r"fc +Fc +match +DIVERGED +<--- HERE", text)


def test_further_origins_are_numbered_in_table_and_tree() -> None:
    pairs = [
        pair(endpoint(n), endpoint(n), Verdict.DIVERGED, kind=Kind.ORIGIN, measured=metrics())
        for n in ("a", "b")
    ]
    bad = {"a": Verdict.DIVERGED, "b": Verdict.DIVERGED}
    rows = tree(["", "a", "b"], bad, origins=["a", "b"])

    text = draw(comparison(pairs, rows, [divergence(p) for p in pairs]))

    assert text.startswith("DIVERGED: 2 origins, 0 inherited")
    assert "FURTHER ORIGINS" in text
    assert "<--- HERE #2" in text


def test_suspects_are_all_named() -> None:
    judged = pair(endpoint("b"), endpoint("b"), Verdict.DIVERGED, kind=Kind.ORIGIN)
    found = replace(divergence(judged), suspects=("b.q", "b.k", ""))
    rows = tree(["", "b"], {"b": Verdict.DIVERGED}, origins=["b"])

    text = draw(comparison([judged], rows, [found]))

    assert "b.q, b.k, (root) (the evidence cannot tell them apart)" in text


def test_nan_and_inf_are_always_told() -> None:
    judged = pair(
        endpoint("a"),
        endpoint("a"),
        Verdict.DIVERGED,
        kind=Kind.ORIGIN,
        measured=metrics(nan_candidate=7),
    )
    rows = tree(["", "a"], {"a": Verdict.DIVERGED}, origins=["a"])

    text = draw(comparison([judged], rows, [divergence(judged)]))

    assert "candidate 7 nan" in text
    assert "7 positions disagree" in text


def test_missing_root_output_without_any_divergence_says_why() -> None:
    alone = pair(endpoint(""), None, Verdict.MISSING, reason="no such output on the candidate")
    rows = tree([""], {"": Verdict.MISSING})

    text = draw(comparison([alone], rows, reasons=("the root output has no counterpart",)))

    assert text.startswith("DIVERGED\n  the root output has no counterpart")
    assert "no such output on the candidate" in text


def test_what_was_not_compared_is_listed() -> None:
    skipped = pair(endpoint("a"), None, Verdict.SKIPPED, reason="excluded by the user")
    missing = pair(None, endpoint("b"), Verdict.MISSING, reason="no call of 'b'")
    base = comparison([skipped, missing], tree(["", "a", "b"], {}))
    result = replace(base, candidate=replace(base.candidate, phase=Phase.FORWARD))

    text = draw(result).partition("NOT COMPARED")[2]

    assert "1 record skipped (reference): excluded by the user" in text
    assert re.search(r"candidate +b +output +no call of 'b'", text)
    assert "the candidate was recorded forward only" in text


def test_what_many_modules_lack_shares_a_row() -> None:
    missing = [
        pair(endpoint(f"h.{n}"), None, Verdict.MISSING, reason=f"no call of 'h.{n}' on that side")
        for n in range(3)
    ]

    text = draw(comparison(missing, tree(["", "h", "h.0", "h.1", "h.2"], {})))

    assert re.search(r"reference +h.0 output and 2 more +no such call on that side", text)


def test_parameters_of_several_steps_say_of_which() -> None:
    end = endpoint("fc", role=Role.WEIGHT, slot=".weight")
    found = pair(end, end, Verdict.DIVERGED, kind=Kind.ORIGIN, measured=metrics())
    later = replace(end, address=replace(end.address, step=7, rank=1))
    whole = comparison([found], tree(["", "fc"], {"fc": Verdict.DIVERGED}), [divergence(found)])
    step = replace(whole.steps[0], step=7, rank=1, pairs=(replace(found, reference=later),))

    for width in (70, 140):
        text = draw(replace(whole, steps=(*whole.steps, step)), width=width)
        assert "fc.weight  step 0" in text
        assert "fc.weight  step 7 rank 1" in text
        assert "fc.weight  step" not in draw(whole, width=width)


def test_buffers_that_are_all_skipped_do_not_match() -> None:
    skipped = pair(endpoint("bn", role=Role.BUFFER), None, Verdict.SKIPPED, reason="other side")

    assert "2 buffers skipped" in draw(comparison([skipped, skipped], ()))


def test_statistics_of_both_sides_stand_below_each_other() -> None:
    known, found = endpoint("fc"), endpoint("fc")
    assert known.statistics is not None
    found = replace(found, statistics=replace(known.statistics, mean=-1.23456e-12))
    bad = pair(known, found, Verdict.DIVERGED, kind=Kind.ORIGIN, measured=metrics())
    result = comparison([bad], tree(["", "fc"], {}), [divergence(bad)])

    for width in (74, 140):
        lines = [line for line in draw(result, width=width).splitlines() if " mean " in line]
        assert len({line.index("max") for line in lines[:2]}) == 1
        assert len({line.index("L2") for line in lines[:2]}) == 1


def test_long_lists_of_reasons_are_cut_with_a_count() -> None:
    reasons = tuple(f"reason {n}" for n in range(10))

    text = draw(comparison([], tree([""], {}), reasons=reasons))

    assert "and 7 more reasons" in text


def test_mean_mode_puts_the_allowed_value_beside_the_mean() -> None:
    result = resnet_like()

    text = draw(replace(result, settings={"mode": "mean"}))

    assert re.search(r"mean abs +1\.235e-07   allowed 0\.0001 \+ 1\.3e-06 \* mean", text)
    assert re.search(r"max abs +0\.01235 at \[0, 2\]$", text, re.MULTILINE)


def test_inherited_gradients_are_folded_and_counted() -> None:
    pairs = [
        pair(
            endpoint(f"fc{place}", role=Role.WEIGHT_GRAD, slot=".weight"),
            endpoint(f"fc{place}", role=Role.WEIGHT_GRAD, slot=".weight"),
            Verdict.DIVERGED,
            kind=Kind.INHERITED,
            measured=replace(metrics(), relative_l2=float(place)),
        )
        for place in range(12)
    ]
    result = comparison(pairs, tree([""], {}), reasons=("12 records diverged",))

    text, whole = draw(result), draw(result, verbose=True)

    assert "... 7 more, all inherited (--verbose lists all)" in text
    assert [f"fc{place}.weight" in text for place in (11, 7, 6)] == [True, True, False]
    assert all(f"fc{place}.weight" in whole for place in range(12))


def test_steps_that_match_are_counted_and_the_others_listed() -> None:
    bad = pair(endpoint("fc"), endpoint("fc"), Verdict.DIVERGED, kind=Kind.ORIGIN)
    one = comparison([bad], tree([""], {}), [divergence(bad)], reasons=("1 record diverged",))
    fine = replace(one.steps[0], divergences=())
    steps = tuple(replace(fine, step=step) for step in range(99))
    result = replace(one, steps=(*steps, replace(one.steps[0], step=99)))

    text = draw(result)

    assert "99 steps of 100 match" in text
    assert "step 99: 1 divergence" in text
    assert "step 42" not in text
