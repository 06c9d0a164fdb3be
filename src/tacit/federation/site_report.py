"""The page of one organisation's part in a run between sites, from what lies in its own home.

Nothing is asked of others. What is on the page is the job and the sizes, which all who take part know; the
organisation's own part of the model; its own log, releases and budget; the certificate; and at the site that led, how
the run went. `tests/report/test_site_pages.py` lists what each page may hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.columns.encoder import Encoder
from tacit.errors import InputError
from tacit.federation.budget import BudgetBook, read_limits
from tacit.federation.parts import read_masks
from tacit.federation.releases import read_steps
from tacit.files import damaged, read_toml_file, show_path, write_text
from tacit.job import Job
from tacit.job.trees import LINEAR_MODEL, TREES
from tacit.plan.terms import named_loss
from tacit.privacy.certificate import blocks, up
from tacit.privacy.events import UNITS
from tacit.report import pictures
from tacit.report import run_words as words
from tacit.report.curves import curve_section
from tacit.report.pictures import Figure, fill
from tacit.report.run import check_page, way
from tacit.report.run_words import ARROWS, DASH, number
from tacit.run.curves import Curve, party_curves
from tacit.run.folder import ABOUT, REPORT, RunFolder
from tacit.run.measures import BETTER, ORDER, TITLES
from tacit.run.predict import SavedModel, load_part
from tacit.run.result import TreePart
from tacit.run.saved import SavedRun, read_plan
from tacit.text import duration, plural, size
from tacit.types import Trace
from tacit.version import __version__

MOST_COEFFICIENTS = 30
PREDICTED = "predict-"  # begins the name of a run that predicts
AGREED = "yes or no, sizes, keys of masks, and the end"
SENT = {  # what leaves with the steps that carry more than that
    "Match": "ids under encryption",
    "Answer": "numbers of training",
    "Play": "how far each round is",
    "Put": "messages to neighbours",
    "Resend": "messages to neighbours, once more",
    "Scores": "scores of rows to predict",
}


@dataclass(frozen=True)
class SitePart:
    """One organisation's part of a finished run.

    Attributes
    ----------
    run : SavedRun
        With the organisation's own part as its only one.
    party, lead : str
        Whose it is, and who led.
    about : mapping
        What about.json holds.
    steps : sequence of mapping
        The lines of the log about this run; empty where there is none.
    """

    run: SavedRun
    party: str
    lead: str
    about: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]

    @property
    def leads(self) -> bool:
        """Whether this organisation led the run."""
        return self.party == self.lead

    @property
    def home(self) -> Path:
        """The home of the organisation, which holds the folder of the run."""
        return self.run.path.parent.parent

    @property
    def part(self) -> Any:
        """The organisation's own part of the model."""
        return self.run.model.parties[0]


def load_site(path: str | Path) -> SitePart:
    """Read one organisation's part of a finished run.

    Raises
    ------
    InputError
        Where the run has not ended here, or a file is missing or damaged; the message names the file.
    """
    folder = RunFolder(Path(path).resolve())
    about = folder.read_about()
    if about is None:
        raise InputError(f"there is no part of a joint run in {show_path(path)}: it has not ended here")
    party, lead = about.get("party"), about.get("lead")
    if not isinstance(party, str) or not isinstance(lead, str):
        raise damaged(folder.path / ABOUT, "it does not say whose part it is: it is of an older version")
    job, (plan, versions) = folder.read_job(), read_plan(folder)
    part, id_, encoder = load_part(folder.part(party))
    led = folder.finished and party == lead
    run = SavedRun(
        path=folder.path,
        job=job,
        plan=plan,
        result=folder.read_result() if led else {"rounds": about.get("answers", 0)},
        trace=folder.read_trace() if led else Trace(),
        certificate=folder.read_certificate(),
        model=_own_model(folder, job, part, id_, encoder),
        evaluation=folder.read_evaluation(),
        versions=versions,
    )
    return SitePart(run, party, lead, about, _steps(folder.path))


def _steps(path: Path) -> list[dict[str, Any]]:
    """The lines of the log about a run and the predictions by its model."""
    runs = [path.name, *(one.name for one in sorted(path.parent.glob(f"{PREDICTED}{path.name}-*")))]
    return [line for run in runs for line in read_steps(path.parent.parent / "logs", run)]


def _own_model(folder: RunFolder, job: Job, part: Any, id_: str | None, encoder: Any) -> SavedModel:
    """The own part as a model by itself; what belongs to no party is known where this site has it."""
    joint = folder.read_joint() if folder.joint.exists() else {}
    return SavedModel(
        loss=job.model.loss,
        task=named_loss(job.model.loss).task,
        classes=tuple(joint.get("classes", ())),
        constant=joint.get("constant", math.nan),
        parties=(part,),
        ids=(id_,),
        encoders=(encoder,),
        names=job.names,
        kind=TREES if all(map(job.grows_trees, job.names)) else LINEAR_MODEL,
    )


def write_site_report(run: str | Path, out: Path | None = None) -> Path:
    """Write the page of one organisation's part of a run, which its owner alone can read; where it is.

    Raises
    ------
    InputError
        Where the run has not ended here, a file is damaged, matplotlib is missing, or the page cannot be written.
    """
    pictures.check_matplotlib()
    own = load_site(run)
    path = own.run.path / REPORT if out is None else out
    check_page(path)
    write_text(path, site_page(own), secret=True)
    return path


def site_page(own: SitePart) -> str:
    """The page as text."""
    run, (coefficients, left) = own.run, _coefficients(own)
    return fill(
        "site.html",
        title=f"{run.job.name}: the part of {own.party}",
        name=run.job.name,
        party=own.party,
        leads=own.leads,
        lead=_lead(own),
        outcome=_outcome(own),
        own_figures=_own_figures(own),
        tiles=_tiles(own),
        parties=_parties(own),
        job=_job(own),
        measures=_measures(own),
        notes=_notes(own),
        contribution=_contribution(own),
        coefficients=coefficients,
        coefficients_left=left,
        curves=curve_section(run, _curves(own)),
        sent_words=_sent_words(own),
        sent=_sent(own),
        sent_note=_sent_note(own),
        releases=_releases(own),
        budget=_budget(own),
        way=_way(own),
        traffic=words.traffic_rows(run) if own.leads and "traffic" in run.result else [],
        certificate=blocks(run.certificate),
        private=run.certificate.private,
        versions=run.versions,
        version=__version__,
        path=show_path(run.path),
        run=run.path.name,
    )


# --- what was trained, with whom -----------------------------------------------------------------------


def _lead(own: SitePart) -> str:
    run, names = own.run, list(own.run.job.names)
    who = words.listed(names) if len(names) <= 4 else f"{len(names)} organisations"
    label = next(spec.label for spec in run.job.parties if spec.label is not None)
    rounds = plural(int(run.result["rounds"]), "round")
    last = f"it took {rounds}" if own.leads else f"{own.party} answered {plural(int(own.about['answers']), 'time')}"
    return f"{who} trained one model together, to predict “{label}”, on {run.rows:,} rows. {own.lead} led; {last}."


def _tiles(own: SitePart) -> list[tuple[str, str]]:
    run, target = own.run, own.run.certificate.target
    found = [(f"{run.rows:,}", "rows trained on"), (f"{len(own.part.columns):,}", f"columns of {own.party}")]
    if own.steps:
        found.append((size(sum(int(one["bytes_out"]) for one in own.steps)), "left this machine"))
    if own.leads and "seconds" in run.result:
        found.append((duration(float(run.result["seconds"])), "of training"))
    if run.certificate.private and target is not None:
        at = f"at δ = {target.delta:g}".replace("-", "\u2011")
        return [*found, (f"ε = {run.certificate.epsilon(target.delta):.3g}", at)]
    return [*found, ("ε = ∞", "not private")]


def _parties(own: SitePart) -> tuple[list[str], list[list[str]]]:
    """Who took part, with the sizes that all know."""
    run, columns = own.run, own.about["columns"]
    rows = run.plan["rows"]
    table = []
    for at, spec in enumerate(run.job.parties):
        roles = [
            *(["you"] if spec.name == own.party else []),
            *(["led"] if spec.name == own.lead else []),
            *(["has the label"] if spec.label and not run.on_graph else []),
        ]
        count = columns[at] if at < len(columns) else columns[-1]
        held = rows[at] if isinstance(rows, list) else rows
        table.append([spec.name, ", ".join(roles) or DASH, f"{held:,}", f"{count:,}"])
    return ["organisation", "role", "rows trained on", "columns after encoding"], table


def _job(own: SitePart) -> list[tuple[str, str]]:
    run, model = own.run, own.run.job.model
    if run.model.is_trees and run.job.trees is not None:
        rows = [("model", f"boosted trees of at most {run.job.trees.max_leaf_nodes} leaves, {model.loss} loss")]
    else:
        rows = [("loss", f"{model.loss}, penalty {model.penalty}, alpha = {run.plan['alpha']:g}")]
        rows.append(("method", words.method_of(run)))
    if words.fixed_rounds(run):
        rows.append(("stopped", "after the number of rounds that was planned"))
    elif "converged" in run.result:
        rule = f"its rule (tol = {run.plan['tol']:g})"
        rows.append(("stopped", f"by {rule}" if run.result["converged"] else f"NOT converged: {rule} did not hold"))
    return [*words.label_rows(run), *rows, *words.held_rows(run)]


# --- how good ------------------------------------------------------------------------------------------


def _found(own: SitePart) -> dict[str, Mapping[str, Any]]:
    """Measures by name with value, interval and rows, where an evaluation was left here."""
    known = own.run.evaluation or {}
    models = known.get("models")
    if isinstance(models, list) and models:  # as a run in one process writes it: the joint model comes first
        rows = (known.get("rows") or {}).get("evaluated")
        bounds = models[0].get("intervals", {})
        measured = models[0]["measures"].items()
        return {key: {"value": value, "interval": bounds.get(key), "rows": rows} for key, value in measured}
    inner = next((known[key] for key in ("measures", "metrics") if isinstance(known.get(key), dict)), known)
    return {
        key: value if isinstance(value, dict) else {"value": value}
        for key, value in inner.items()
        if key in TITLES and isinstance(value, dict | float | int)
    }


def _measures(own: SitePart) -> tuple[list[str], list[list[str]]]:
    found, rows = _found(own), []
    for key in (key for key in ORDER if key in found):
        one = found[key]
        between = one.get("interval")
        low_high = f"{number(between[0])} to {number(between[1])}" if isinstance(between, list) and between else DASH
        count = one.get("rows")
        title = f"{TITLES[key]}{ARROWS[BETTER.get(key, 'lower')]}"
        rows.append([title, number(one.get("value")), low_high, f"{count:,}" if isinstance(count, int) else DASH])
    return ["measure", "joint model", "95 % interval", "rows held out"], rows


def _outcome(own: SitePart) -> str:
    found = _found(own)
    key = next((key for key in ORDER if key in found), "")
    return f"On rows that were held out, its {TITLES[key]} is {number(found[key].get('value'))}." if key else ""


def _notes(own: SitePart) -> list[str]:
    if _found(own):
        return [str(note) for note in (own.run.evaluation or {}).get("notes", [])]
    if own.leads:
        return [
            "This run was not evaluated. To see how good the model is, predict rows that nobody trained on "
            "(tacit join KIT --predict FILE, then tacit predict), and compare with what became of them."
        ]
    return [
        f"{own.party} was not told how good the model is: labels and predictions are with {own.lead}. Ask {own.lead}, "
        "or agree on rows to hold out before the next run."
    ]


# --- the own part --------------------------------------------------------------------------------------


def _contribution(own: SitePart) -> list[tuple[str, str]]:
    part = own.part
    rows = [("columns", f"{len(part.columns):,} after encoding: {_some(part.columns)}")]
    if isinstance(part, TreePart):
        rows.append(("own part", plural(len(part.model.trees), "tree")))
    else:
        coef = np.asarray(part.coef)
        rows.append(("coefficients", f"{coef.size:,}, of which {np.count_nonzero(coef):,} are not zero"))
    if "deviation" in own.about:
        spread = number(float(own.about["deviation"]))
        rows.append(("spread", f"{spread}: the standard deviation of what it adds to the score, over its rows"))
    answers = int(own.about.get("answers", 0))
    if answers:
        rows.append(("answers", f"{answers:,} in training"))
    return rows


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _coefficients(own: SitePart) -> tuple[tuple[list[str], list[list[str]]], str]:
    """The own coefficients, the largest first; nothing where columns are curves, which are drawn."""
    part, head = own.part, ["column", "coefficient"]
    if isinstance(part, TreePart) or _has_curves(own) or np.asarray(part.coef).ndim > 1:
        return (head, []), ""
    pairs = sorted(zip(part.columns, part.linear_coef.tolist(), strict=True), key=lambda one: -abs(one[1]))
    left = len(pairs) - MOST_COEFFICIENTS
    rows = [[name, number(value)] for name, value in pairs[:MOST_COEFFICIENTS]]
    more = f" {left:,} more with smaller coefficients are in model/{own.party}.json." if left > 0 else ""
    scaled = "Of columns as they were encoded: numbers are centred and scaled." if own.run.model.encoders[0] else ""
    return (head, rows), f"{scaled}{more}".strip()


def _has_curves(own: SitePart) -> bool:
    encoder = own.run.model.encoders[0]
    return isinstance(encoder, Encoder) and encoder.has_curves


def _curves(own: SitePart) -> dict[str, tuple[Curve, ...]]:
    encoder = own.run.model.encoders[0]
    if isinstance(own.part, TreePart) or not isinstance(encoder, Encoder) or not _has_curves(own):
        return {}
    return {own.party: party_curves(own.party, own.part, encoder)}


def _own_figures(own: SitePart) -> str:
    if own.run.certificate.private:
        return "The certificate says what may be published; this page says more."
    return "Its coefficients come from its rows, and nothing protects them."


# --- what left, and what it cost -----------------------------------------------------------------------


def _sent_words(own: SitePart) -> str:
    said = own.run.certificate.per_party.get(own.party, "")
    return f"By the certificate: {said}." if said else "By the certificate: nothing but that it takes part."


def _sent(own: SitePart) -> tuple[list[str], list[list[str]]]:
    """By kind: to whom, how often, and how many bytes; from the own log."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in own.steps:
        found.setdefault(SENT.get(str(one.get("step")), AGREED), []).append(one)
    rows = []
    for what in (name for name in (AGREED, *dict.fromkeys(SENT.values())) if name in found):
        whom = dict.fromkeys(str(one.get("caller", one.get("asked"))) for one in found[what])
        total = sum(int(one["bytes_out"]) for one in found[what])
        rows.append([what, ", ".join(sorted(whom)), f"{len(found[what]):,}", size(total)])
    return ["what", "to", "messages", "in all"], rows


def _sent_note(own: SitePart) -> str:
    refused = sum(bool(one.get("refused")) for one in own.steps)
    more = f" {plural(refused, 'request')} of others were refused." if refused else ""
    predicted = (
        " Predictions by this model are counted too." if any(one.get("step") == "Scores" for one in own.steps) else ""
    )
    return (
        f"From logs/steps.jsonl of {own.party}, which holds sizes and no values; bytes are counted before sealing."
        f"{predicted}{more}"
    )


def _releases(own: SitePart) -> list[tuple[str, str]]:
    book = _book(own)
    count = 0 if book is None else sum(job == own.run.path.name for job, _ in book.releases())
    rows = [("releases", f"{plural(count, 'line')} in releases.jsonl, each written before it left")] if count else []
    prints, unchecked = read_masks(own.run.path)
    if prints:
        sure = f"nobody confirmed {', '.join(unchecked)}" if unchecked else "every key was signed by its owner"
        rows.append(("masks", f"{'; then '.join(prints)} ({sure})"))
    return rows


def _book(own: SitePart) -> BudgetBook | None:
    ledger = own.home / "ledger.json"
    if not ledger.is_file():
        return None
    settings = own.home / "site.toml"
    limits, allow = read_limits(read_toml_file(settings) if settings.is_file() else {})
    return BudgetBook(ledger, limits, own.party, allow_not_private=allow, runs=own.run.path.parent)


def _budget(own: SitePart) -> list[str]:
    """What was spent of the own budget, with this run and all others."""
    book = _book(own)
    standings = [] if book is None else book.standings(dict.fromkeys(UNITS, ()))
    if not standings:
        return ["No budget is set: nothing limits what jobs learn together ([budget] in site.toml)."]
    lines = [
        f"For each {one.unit}: epsilon {up(one.before)} of {one.limit.epsilon:g} is spent over all jobs, at delta "
        f"{one.limit.delta:g}; {math.floor(1000 * max(0.0, 1 - one.share_before)) / 10:g} % is left."
        for one in standings
    ]
    if any(one.unit in ("record", "person") for one in standings) and own.party not in own.run.job.protected:
        lines.append(f"This run proves nothing for the rows of {own.party}: it stands outside the budget.")
    return lines


def _way(own: SitePart) -> list[Figure]:
    return way(own.run) if own.leads and own.run.trace else []
