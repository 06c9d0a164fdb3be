"""What the page of a run says and draws where the model is of boosted trees."""

from __future__ import annotations

from typing import Any

from tacit.report.pictures import Figure, figure
from tacit.report.run_pictures import SIZE, columns, losses
from tacit.report.run_words import DASH, number
from tacit.run.saved import SavedRun
from tacit.text import plural

MOST_COLUMNS = 12  # that a page draws


def revealed(run: SavedRun) -> str:
    """What a run of trees told, and to whom; of private rows the certificate says it."""
    labels = "randomized labels" if run.certificate.private else "labels"
    each = "what each party's new trees add to each row, from which cells can be guessed well"
    total = "the sum over the others of what their new trees add to each row, which tells of cells too"
    covered = (
        "Labels are protected, and no row is"
        if run.certificate.private
        else "Nothing here is protected, and epsilon is infinite"
    )
    return (
        f"What this run revealed: every party got the {labels} of the rows that trees were grown on, and in each round "
        f"their joint score; the label holder got {total if run.plan['secure_aggregation'] else each}. {covered}: see "
        "the certificate below."
    )


def job_rows(run: SavedRun) -> list[tuple[str, str]]:
    """What was trained and how."""
    settings, trees = run.plan["trees"], run.job.trees
    assert trees is not None
    loss = f"{run.job.model.loss}" + (f", quantile {settings['loss']['quantile']:g}" if _is_quantile(run) else "")
    part = f"{trees.validation_fraction:.0%} of the trained rows chose how much of each party's trees is kept"
    return [
        ("loss", loss),
        ("model", f"boosted trees of at most {trees.max_leaf_nodes} leaves, learning rate {trees.learning_rate:g}"),
        ("steps", part if trees.validation_fraction else "chosen on the rows that trees were grown on"),
        ("stopped", _stopped(run)),
    ]


def _is_quantile(run: SavedRun) -> bool:
    return run.job.model.loss == "quantile"


def _stopped(run: SavedRun) -> str:
    rounds = plural(int(run.result["rounds"]), "round")
    if run.result["converged"]:
        return f"after {rounds}: the loss on rows that choose the steps no longer fell (tol = {run.plan['tol']:g})"
    return f"NOT converged: the loss on rows that choose the steps had not stopped falling after {rounds}"


def share_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """What each party adds: trees, how much of them was kept, and how far its part of the score spreads."""
    known = (run.evaluation or {}).get("shares", {})
    history = run.result["boosting"]
    kept = dict(zip(history["parties"], (sum(steps) for steps in zip(*history["steps"], strict=True)), strict=True))
    rounds = len(history["steps"])
    head = ["party", "trees", f"steps, of {rounds}", "spread of its part of the score"]
    rows = []
    for part in run.model.parties:
        trees: Any = part
        spread = number(known[part.name]["deviation"]) if part.name in known else DASH
        rows.append([part.name, f"{len(trees.model.trees):,}", number(kept[part.name], 3), spread])
    return head, rows


def across(run: SavedRun) -> str:
    """What the test for interactions across parties says, as a sentence of its own; empty where none was made."""
    text = str(run.result["boosting"].get("interaction", {}).get("sentence", ""))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def way(run: SavedRun) -> list[Figure]:
    """Both losses by round."""
    history = run.result["boosting"]
    caption = "Mean loss of the constant (round 0) and after each round. Steps are chosen where it is held out."
    return [figure(losses(history["held_out"], history["fitted"]), "losses", "Loss by round", caption)]


def importance(run: SavedRun) -> list[Figure]:
    """The columns that move the score most."""
    known = (run.evaluation or {}).get("importance")
    if not known:
        return []
    found = [(value, column, party) for party, own in known.items() for column, value in own.items()]
    largest = sorted(found, key=lambda one: (-one[0], one[2], one[1]))[:MOST_COLUMNS]
    left = len(found) - len(largest)
    more = f" {plural(left, 'column')} with less are not drawn." if left else ""
    caption = f"Mean size of what a column adds to the score of a row (TreeSHAP), by party.{more}"
    rows = [(f"{column}", party, value) for value, column, party in largest]
    tall = 1.3 + 0.3 * len(rows)
    return [figure(columns(rows, list(known)), "importance", "Columns that matter most", caption, (SIZE[0], tall))]
