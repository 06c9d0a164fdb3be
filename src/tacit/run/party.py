"""A party: the only code that sees features, and the only door through which anything leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tacit.blocks import block_of, coef_of_classes
from tacit.blocks.dense import RowClip
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.releases import Releaser
from tacit.run import door
from tacit.run.masking import HEARD, MASKED_KINDS, RUN, KeySigner, Masks, heard
from tacit.run.result import PartyModel, make_part
from tacit.solvers.base import PartySide, Problem
from tacit.types import Arrays, Message, Shard, Vector, Words


class Party:
    """One party of a run: its shard, its side of the solver, and its releases.

    `run` names the run where several parties must mean the same one: masks of two runs never cancel. `signer`
    vouches for the keys of masks between organisations, and `rows` is a fingerprint of the ids of its rows, bound
    into masks. `held` are rows that are not trained on, where a planned release is about them.
    """

    def __init__(
        self,
        shard: Shard,
        plan: Plan,
        shared: Any,
        run: str = "",
        signer: KeySigner | None = None,
        rows: str = "",
        held: Shard | None = None,
    ) -> None:
        self.name = shard.name
        self.columns = shard.columns
        self.block = block_of(shard)
        if plan.problem.fit_intercept and not plan.solver.noisy:  # means of the data are data
            self.block.set_centre(plan.problem.row_weights)
        self.releaser: Releaser | None = None
        self._groups = shard.groups
        self.side = self._make_side(plan, shared)
        if plan.evaluates_privately and held is not None:
            self.side.hold_out(block_of(held))  # type: ignore[attr-defined]
        self._start: Vector | None = None
        self._outputs = plan.problem.loss.outputs
        self._names = plan.asked_parties
        self._private, self._run, self._singles = plan.solver.noisy, run, plan.solver.singles
        self._signer, self._rows = signer, rows
        self._masks = self._new_masks() if plan.secure else None
        self._heard = b""  # fingerprint of all that was broadcast, which masks are bound to

    def _make_side(self, plan: Plan, shared: Any) -> PartySide:
        solver, private = plan.solver, plan.private
        if private is not None and solver.noisy:
            self.releaser = Releaser(private.releases.get(self.name, ()), self.name, private.privacy.noise_seed)
        settings = None if private is None else private.settings
        return solver.make_party(self._problem(plan), self.block, shared, settings, self.releaser)

    def _problem(self, plan: Plan) -> Problem:
        """What is minimised, with the party's own groups of columns."""
        problem = plan.problem
        return replace(problem, regularizer=problem.regularizer.for_groups(self._groups)) if self._groups else problem

    def _new_masks(self) -> Masks:
        """Fresh keys; what is beyond the range of the masks is an error, or in a private run held to it."""
        return Masks(
            self.name, self._names, f"{RUN} {self._run}", hold=self._private, signer=self._signer, rows=self._rows
        )

    def start_from(self, coef: Vector) -> None:
        """Begin the next run from these coefficients, as a model has them, instead of zero."""
        self._start = np.asarray(coef, dtype=np.float64).T.ravel()

    def retune(self, plan: Plan) -> None:
        """Go on with the alpha of another plan, after the closing broadcast."""
        self.side.retune(self._problem(plan))  # type: ignore[attr-defined]

    def answer(self, message: Message) -> Message:
        """Answer one message of the coordinator."""
        return self.send(message, self.work(message))

    def work(self, message: Message) -> Mapping[str, Vector | Words]:
        """What the answer to a message holds, before masks: for `send`, and for the party's own disk."""
        if message.kind in ("keys", "agree"):
            return self._exchange_keys(message)
        if self._masks is not None:
            self._heard = heard(self._heard, message)
        inbox = cast("Arrays", self._checked(message))
        if self.releaser is not None:
            self.releaser.begin(message)
        if message.kind == "finish":
            self.side.finish(inbox)
            return {}
        return self._begin() if message.kind == "start" else self.side.step(message.round, inbox)

    def _checked(self, message: Message) -> dict[str, Any]:
        """What came, with float32 numbers in no other place than the solver has them."""
        for name, array in message.arrays.items():
            if (array.dtype == np.float32) != (name in self._singles):
                raise RunError(f"party {self.name!r}: {name} came as numbers of type {array.dtype}")
        return dict(message.arrays)

    def _begin(self) -> Arrays:
        """What the coordinator needs to know of the first coefficients."""
        start = np.zeros(self.block.d * self._outputs) if self._start is None else self._start
        centring = (
            {} if self.block.centre is None else {"centring": np.atleast_1d(self._score_of(self.block.centre, start))}
        )
        return {**self.side.start_at(start), **centring}

    def _exchange_keys(self, message: Message) -> dict[str, Words]:
        if self._masks is None:
            raise RunError(f"party {self.name!r} was asked for keys in a run without masks")
        if message.kind == "keys":
            return {"key": self._masks.key}
        self._masks.agree(cast("Words", message.arrays["keys"]))
        return {}

    def send(self, message: Message, arrays: Mapping[str, Vector | Words]) -> Message:
        """Whatever leaves a party passes here, goes under masks where the run has them, and out by the one door."""
        arrays = {name: self._finite(message.round, name, array) for name, array in arrays.items()}
        if self._masks is not None and message.kind in MASKED_KINDS:
            arrays = self._masks.hide(message.round, arrays, seen=heard(self._heard, message))
        return door.leave(self.name, message.round, arrays, message.kind, self._singles)

    def _finite(self, round_: int, name: str, array: Vector | Words) -> Vector | Words:
        """Numbers that may leave; of a private run no answer is refused, as that would be seen: 0 takes their place."""
        if np.isfinite(array).all():
            return array
        if self._private:
            return np.where(np.isfinite(array), array, 0.0)
        raise RunError(
            f"party {self.name!r}: {name} of round {round_} is not finite: "
            "scale the party's columns to moderate size (say, standard deviation 1)"
        )

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        told = {HEARD: np.frombuffer(self._heard, np.uint8).astype(np.float64)} if self._heard else {}
        return {**self.side.state(), **({} if self.releaser is None else self.releaser.state()), **told}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`, with new keys: a round that is played again must not meet the masks of the first time."""
        if self._masks is not None:
            self._masks = self._new_masks()
            self._heard = state[HEARD].astype(np.uint8).tobytes() if HEARD in state else b""
        if self.releaser is not None:
            self.releaser.restore(state)
        self.side.restore(state)

    @property
    def fingerprint(self) -> str:
        """Of the keys that this party was told; people compare it over another channel. Empty without masks."""
        return "" if self._masks is None else self._masks.fingerprint

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Parties of which nobody here can tell whether the key of their masks is theirs."""
        return () if self._masks is None else self._masks.unchecked

    @property
    def coef(self) -> Vector:
        """The party's coefficients: they stay with it."""
        return self.side.coef

    @property
    def makes_part(self) -> bool:
        """Whether its part of the model is more than coefficients, and is made by its own side."""
        return hasattr(self.side, "part")

    def model(self, scale: float = 1.0) -> PartyModel:
        """The party's part of the joint model, from its own fit; `scale` is what the coordinator may set of it.

        Raises
        ------
        RunError
            Where `scale` is not what the plan allows.
        """
        part = getattr(self.side, "part", None)  # of a side whose model is more than coefficients
        if part is not None:
            return cast("PartyModel", make_part(self.name, self.columns, part(scale)))
        if scale != 1.0:
            raise RunError(f"party {self.name!r}: this plan has no scale that the coordinator sets")
        return PartyModel(self.name, self.columns, self.model_coef, self.offset, self.clip)

    @property
    def clip(self) -> RowClip | None:
        """How rows are clipped before they are scored, where the party's side clips them."""
        return getattr(self.side, "clip", None)

    @property
    def model_coef(self) -> Vector:
        """The coefficients as a model has them: where there are several classes, a row for each."""
        return coef_of_classes(self.coef, self._outputs)

    @property
    def offset(self) -> Any:
        """What centring takes off every score of this party; where there are several classes, a number for each."""
        none = 0.0 if self._outputs == 1 else np.zeros(self._outputs)
        return none if self.block.centre is None else self._score_of(self.block.centre, self.side.coef)

    def _score_of(self, row: Vector, coef: Vector) -> Any:
        scores = coef_of_classes(coef, self._outputs) @ row
        return scores if self._outputs > 1 else float(scores)
