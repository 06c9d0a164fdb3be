"""
From zero to a certificate
==========================

Two CSV files, a job with an epsilon, and three commands: ``plan``, ``train``, ``verify``. At the end there is a
model, and a certificate that says who is protected from whom, and how strongly.
"""

# %%
# The files. A gym knows habits, and a clinic knows who had a heart attack.

import json
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tacit
from tacit.cli.main import main

ROWS = 2_000
folder = tempfile.mkdtemp()
rng = np.random.default_rng(0)
person = [f"p{number:05d}" for number in range(ROWS)]
age, pressure = rng.uniform(30, 80, ROWS).round(), rng.normal(130, 15, ROWS).round()
visits, weight = rng.poisson(3, ROWS), rng.normal(80, 14, ROWS).round()
score = 0.06 * (age - 60) + 0.02 * (pressure - 130) - 0.35 * (visits - 3) + 0.03 * (weight - 80) - 0.5
clinic = pd.DataFrame({"person": person, "age": age, "pressure": pressure})
clinic["attack"] = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-score)), "yes", "no")
clinic.to_csv(f"{folder}/clinic.csv", index=False)
gym = pd.DataFrame({"person": person, "visits": visits, "weight": weight})
gym.sample(frac=1).to_csv(f"{folder}/gym.csv", index=False)

# %%
# The job. Ranges are facts that everybody knows. They are not taken from the files: that would tell something about
# the rows.

JOB = """
[job]
holdout = 0.25

[privacy]
epsilon = {epsilon}

[[party]]
name = "clinic"
data = "clinic.csv"
id = "person"
label = "attack"
positive = "yes"

[[party]]
name = "gym"
data = "gym.csv"
id = "person"

[party.columns]
visits = {{ low = 0, high = 14 }}
weight = {{ low = 40, high = 150 }}
"""
Path(folder, "heart.toml").write_text(JOB.format(epsilon=1))

# %%
# ``tacit plan`` says what will happen before a row is read.

with chdir(folder):
    main(["plan", "heart.toml"])

# %%
# ``tacit train`` runs it.

with chdir(folder):
    main(["train", "heart.toml", "--out", "runs/heart"])

# %%
# ``tacit verify`` computes the epsilon anew from the listed releases, with a second accountant.

with chdir(folder):
    main(["verify", "runs/heart/certificate.json"])

# %%
# The certificate holds a whole curve: at each delta an epsilon is proven.

model = tacit.load(f"{folder}/runs/heart")
tacit.PrivacyDisplay.from_estimator(model)
plt.show()

# %%
# What does privacy cost here? The same job at several epsilons, evaluated on held-out rows. In reality each run would
# be charged to the budget of the gym's members; on generated data nobody is harmed.

epsilons, joint = [0.05, 0.1, 0.25, 0.5, 1, 2, 4], []
for epsilon in epsilons:
    Path(folder, "price.toml").write_text(JOB.format(epsilon=epsilon))
    tacit.run_job(f"{folder}/price.toml", f"{folder}/price", overwrite=True, note=print)
    figures = json.loads(Path(folder, "price/evaluation.json").read_text())
    found = {(one["kind"], one["party"]): one for one in figures["models"]}
    joint.append(found["joint", ""])

middle = np.array([one["measures"]["log_loss"] for one in joint])
ends = np.array([one["intervals"]["log_loss"] for one in joint])
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.errorbar(epsilons, middle, yerr=np.abs(ends.T - middle), marker="o", capsize=3, label="joint, private")
own = found["alone", "clinic"]["measures"]["log_loss"]
ax.axhline(own, color="0.4", linestyle="--", label="clinic alone, without the gym")
ax.set(xscale="log", xlabel="epsilon of the whole run", ylabel="log loss on held-out rows")
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.minorticks_off()
ax.legend(loc="upper right")
plt.show()
