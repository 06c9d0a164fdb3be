"""
More rows than memory
=====================

With ``memory`` the rows stay on disk and pass by in blocks. Twenty million rows of 40 columns train in less memory
than they would take (`measured <../how-to/larger-than-memory.html#measured>`_). This page is built with 400,000
rows of 16 columns, so that it is soon done: change ``ROWS`` and wait.
"""

# %%
# Write two Parquet files, block by block: the script itself never holds the whole table either.

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tacit

ROWS = 400_000
BLOCK = 50_000
folder = tempfile.mkdtemp()


def write(rows: int) -> None:
    """Files of a bank and of a shop, with the same customers in the same order."""
    rng = np.random.default_rng(0)
    names = {"bank": [f"b{number}" for number in range(8)], "shop": [f"s{number}" for number in range(8)]}
    schemas = {party: pa.schema([(name, pa.float32()) for name in columns]) for party, columns in names.items()}
    schemas["bank"] = schemas["bank"].append(pa.field("default", pa.int8()))
    files = {party: pq.ParquetWriter(f"{folder}/{party}.parquet", schema) for party, schema in schemas.items()}
    for start in range(0, rows, BLOCK):
        count = min(BLOCK, rows - start)
        x = rng.normal(size=(count, 16)).astype(np.float32)
        score = x @ np.linspace(-0.4, 0.4, 16)
        label = (score + rng.logistic(size=count) > 0).astype(np.int8)
        for place, party in enumerate(("bank", "shop")):
            columns = list(x[:, 8 * place : 8 * place + 8].T)
            columns += [label] if party == "bank" else []
            files[party].write_table(pa.table(dict(zip(schemas[party].names, columns, strict=True))))
    for file in files.values():
        file.close()


Path(folder, "credit.toml").write_text(
    """
[job]
memory = "1GB"

[encode]
scale = "none"

[[party]]
name = "bank"
data = "bank.parquet"
label = "default"

[[party]]
name = "shop"
data = "shop.parquet"
"""
)

# %%
# Each round reads the rows twice, and there are hardly more rounds for more rows.

write(1_000)
tacit.run_job(f"{folder}/credit.toml", f"{folder}/warm", note=print)  # the first run compiles

sizes, seconds = [ROWS // 4, ROWS // 2, ROWS], []
for rows in sizes:
    write(rows)
    start = time.process_time()
    model = tacit.run_job(f"{folder}/credit.toml", f"{folder}/{rows}", note=lambda remark: None)
    seconds.append(time.process_time() - start)
    size = sum(Path(folder, f"{party}.parquet").stat().st_size for party in ("bank", "shop")) / 1e6
    print(f"{rows:>9,} rows, {size:6.1f} MB of Parquet: {model.n_rounds_} rounds, {seconds[-1]:.1f} processor seconds")

figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
axes[0].plot(np.array(sizes) / 1e3, seconds, marker="o")
axes[0].set(xlabel="thousand rows", ylabel="processor seconds", xlim=0, ylim=0, title="Time")
tacit.ConvergenceDisplay.from_estimator(model, ax=axes[1])
axes[1].set_title("Rounds")
plt.show()

# %%
# The coefficients, beside those with which the data were made:

made = np.linspace(-0.4, 0.4, 16)
found = np.concatenate([np.asarray(model.coef_by_party_[party]) for party in ("bank", "shop")])
figure, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
ax.axline((0, 0), slope=1, color="0.7", linewidth=1)
ax.plot(made, found, "o")
ax.set(xlabel="coefficient that made the data", ylabel="coefficient that was found", aspect="equal")
plt.show()
