"""What the site that gets the predictions does: it asks the others for their scores, and adds them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tacit
from tacit.errors import RunError
from tacit.federation.lead import Replies, align_sites, ask_all
from tacit.federation.score_work import SHARE, ScoreWork, read_request
from tacit.federation.site import Site
from tacit.federation.wire import from_plain
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

    def go(self, observe: Observer | None = None) -> dict[str, Any]:
        """Predict the common rows into predictions.csv of the run; how many there are."""
        names = self.request.parties
        opened = self._ask(names, "open", {"run": self.run, "job": self.text, "version": tacit.__version__})
        work = self.site.work
        assert isinstance(work, ScoreWork)
        model = load_model(self.site.folder / self.request.run, own=[self.site.name])
        align_sites(self.site, names, opened)
        rows = {int(reply["rows"]) for reply in self._ask(names, "begin", {}).values()}
        if len(rows) != 1:
            raise RunError("the parties say different numbers of common rows: start again")
        total = model.constant + work.common_scores() + self._others(rows.pop())
        predictions = predictions_of(model, np.array(work.common_ids(), dtype=object), total)
        write_csv(work.folder / PREDICTIONS, predictions, secret=True)
        return {"rounds": 1, "rows": len(total)}

    def _ask(self, names: Sequence[str], step: str, payload: dict[str, Any]) -> Replies:
        return ask_all(self.site, names, step, payload)

    def _others(self, rows: int) -> Vector:
        """The sum of the other parties' scores."""
        others, masked = self.request.parties[1:], self.request.masked
        if masked:
            keys = self._ask(masked, "keys", {})
            self._ask(masked, "keys", {"keys": np.stack([keys[name]["key"] for name in masked])})
        replies = self._ask(others, "scores", {})
        answers = [from_plain(replies[name].get("message"), name) for name in others]
        wanted, kind = np.dtype(np.uint64 if masked else np.float64), {SHARE}
        for answer in answers:
            if set(answer.arrays) != kind or answer.arrays[SHARE].dtype != wanted:
                raise RunError(f"party {answer.sender!r} sent something else than its scores")
        total = unmask(answers, masked)[SHARE] if masked else np.asarray(answers[0].arrays[SHARE], dtype=np.float64)
        if total.shape != (rows,):
            raise RunError(f"the parties {', '.join(others)} did not send one score for each of {rows} rows")
        return total
