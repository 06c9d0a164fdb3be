"""
Reading an audit
================

A certificate is a theorem about a program. ``tacit audit`` attacks the program: it plays the job on data sets that
differ in one row, and looks for anything that tells them apart better than the certificate allows.
"""

# %%
# A job with privacy. The audit generates data of the same sizes; the rows of the files are never attacked.

import json
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tacit.cli.main import main

ROWS = 400
folder = tempfile.mkdtemp()
rng = np.random.default_rng(0)
x = rng.normal(size=(ROWS, 4))
label = (x.sum(axis=1) + rng.logistic(size=ROWS) > 0).astype(int)
pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": label}).to_csv(f"{folder}/clinic.csv", index=False)
pd.DataFrame({"c": x[:, 2], "d": x[:, 3]}).to_csv(f"{folder}/gym.csv", index=False)
Path(folder, "job.toml").write_text(
    """
[privacy]
epsilon = 2

[[party]]
name = "clinic"
data = "clinic.csv"
label = "label"

[[party]]
name = "gym"
data = "gym.csv"

[party.columns]
c = { low = -4, high = 4 }
d = { low = -4, high = 4 }
"""
)
with chdir(folder):
    code = main(["audit", "job.toml", "--quick", "--seed", "0", "--out", "audit", "--quiet"])
print("exit code", code)

# %%
# How to read it. *No violation found*: an attack stayed within what is claimed. *As stated*: an attack succeeds, and
# the certificate says that this is not covered: the labels are sent as they are, and the clinic's own part of the
# model is exact. *Broken* would be a violation, with exit code 1.
#
# An audit finds a lower bound of epsilon, and the certificate states an upper one. The truth lies between.

found = json.loads(Path(folder, "audit/audit.json").read_text())["findings"]
findings = {one["attack"]: one["details"] for one in found}
game = findings["rows of gym: guessing game"]
replay = findings["rows of gym: replayed neighbours"]
shown = {
    "claimed by the certificate": (game["claimed_epsilon"], "0.6"),
    "worst pair of rows, as a share of the claim": (replay["ratio"] * game["claimed_epsilon"], "C0"),
    "guessing game, at 95 % confidence": (game["bound"]["epsilon_curve"], "C1"),
}
figure, ax = plt.subplots(figsize=(7.4, 2.4), layout="constrained")
values, colors = zip(*shown.values(), strict=True)
drawn = ax.barh(list(shown), values, color=colors)
ax.invert_yaxis()
ax.bar_label(drawn, fmt="%.2f", padding=3)
ax.set(xlabel="epsilon", xlim=(0, 1.15 * game["claimed_epsilon"]))
plt.show()

# %%
# The replay comes near to the claim: there are rows for which the noise is just enough, so that none of it is wasted.
# The guessing game plays against an attacker who sees all messages and knows all rows but one. This one was right in
# little more than half of the runs.

right, low, high = (game["bound"][key] for key in ("guessed_right", "right_low", "right_high"))
figure, ax = plt.subplots(figsize=(7.4, 1.6), layout="constrained")
ax.axvspan(0.5, 0.5 + game["claimed_distance"] / 2, color="0.9", label="what the claim allows")
ax.errorbar([right], [0], xerr=[[right - low], [high - right]], fmt="o", color="C1", capsize=4, label="attacker")
ax.axvline(0.5, color="0.5", linestyle=":", label="tossing a coin")
ax.set(xlabel="runs guessed right", yticks=[], xlim=(0.45, 0.75))
ax.legend(loc="center right")
plt.show()
