"""What the site that gets the predictions does: it asks the others for their scores, and adds them up."""

from __future__ import annotations

import numpy as np

import tacit
from tacit.errors import RunError
from tacit.federation.lead import align_sites, ask_all
from tacit.federation.protocol import (
    Agree,
    Answered,
    Begin,
    Begun,
    Key,
    Keys,
    Numbers,
    Open,
    Opened,
    Prepare,
    Prepared,
    Scores,
)
from tacit.federation.score_handler import SHARE, ScoreHandler, read_request
from tacit.federation.site import Site
from tacit.runtime.loop import Observer
from tacit.runtime.masking import unmask
from tacit.runtime.predict import load_model, predictions_of
from tacit.runtime.predictions_file import write_csv
from tacit.types import Vector

PREDICTIONS = "predictions.csv"


class ScoreLead:
    """Leads one joint prediction."""

    def __init__(self, site: Site, run: str, text: str) -> None:
        self.site, self.run, self.text, self.request = site, run, text, read_request(text)

    def go(self, observe: Observer | None = None) -> int:
        """Predict the common rows into predictions.csv of the run, in one round."""
        site, names = self.site, self.request.parties
        ask_all(site, names, Open(run=self.run, job=self.text, version=tacit.__version__), Opened)
        handler = site.handler
        if not isinstance(handler, ScoreHandler):
            raise RunError("the prediction is not open here")
        prepared = ask_all(site, names, Prepare(), Prepared)
        model = load_model(site.folder / self.request.run, own=[site.name])
        align_sites(site, names, prepared)
        begun = ask_all(site, names, Begin(rows=[], columns=[], plan=""), Begun)
        rows = {reply.rows for reply in begun.values()}
        if len(rows) != 1:
            raise RunError("the parties say different numbers of common rows: start again")
        answered = {begun[name].at > 0 for name in names[1:]}
        if len(answered) > 1 and self.request.masked:
            raise RunError("some parties have sent their scores and others lost their masks: start a new prediction")
        total = model.constant + handler.common_scores() + self._others(rows.pop(), answered == {True})
        predictions = predictions_of(model, np.array(handler.common_ids(), dtype=object), total)
        write_csv(handler.folder / PREDICTIONS, predictions, secret=True)
        site.close()
        return 1

    def _others(self, rows: int, answered: bool) -> Vector:
        """The sum of the other parties' scores; where all sent them before, the same bytes come again."""
        site, others, masked = self.site, self.request.parties[1:], self.request.masked
        if masked and not answered:
            keys = [reply.key for reply in ask_all(site, masked, Keys(), Key).values()]
            together = np.stack([key.array() for key in keys if key is not None])
            ask_all(site, masked, Agree(keys=Numbers.of(together)))
        replies = ask_all(site, others, Scores(), Answered)
        answers = [replies[name].message.message(name) for name in others]
        wanted, kind = np.dtype(np.uint64 if masked else np.float64), {SHARE}
        for answer in answers:
            if set(answer.arrays) != kind or answer.arrays[SHARE].dtype != wanted:
                raise RunError(f"party {answer.sender!r} sent something else than its scores")
        total = unmask(answers, masked)[SHARE] if masked else np.asarray(answers[0].arrays[SHARE], dtype=np.float64)
        if total.shape != (rows,):
            raise RunError(f"the parties {', '.join(others)} did not send one score for each of {rows} rows")
        return total
