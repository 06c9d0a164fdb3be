"""Services as processes: the same predictions as in one process, parties that are away, tokens and certificates."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tacit.cli.main import main
from tests.service.certificates import make_certificates
from tests.service.company import IDS, NAMES, ROWS, TOKEN, Company, secret_file, train


def call(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


def scores(text: str) -> np.ndarray:
    return np.array([float(row["score"]) for row in csv.DictReader(io.StringIO(text))])


def sources(company: Company) -> list[str]:
    return [f"{name}={url}" for name, url in company.urls.items()]


def in_one_process(capsys: pytest.CaptureFixture[str], company: Company, names: tuple[str, ...]) -> str:
    files = [company.folder / f"{name}.csv" for name in ("bank", *names)]
    return call(capsys, "predict", company.run, *files)[1]


def own_part(company: Company) -> None:
    """Take the others' parts away from the bank's copy of the run, once their services have read them."""
    for name in NAMES:
        (company.run / "model" / f"{name}.json").unlink(missing_ok=True)


def await_logs(folder: Path, names: tuple[str, ...], ids: int) -> list[dict[str, Any]]:
    """The lines of all logs, which are written after the answers have left."""
    until = time.monotonic() + 10
    while True:
        logs = [json.loads(line) for name in names for line in (folder / f"{name}.log").read_text().splitlines()]
        if sum(line.get("ids", 0) for line in logs) >= ids or time.monotonic() > until:
            return logs
        time.sleep(0.05)


@pytest.mark.parametrize("count", [1, 3])  # alone, with numbers for ids, and under masks; two see below
def test_sums_are_those_of_one_process(
    count: int, tmp_path: Path, trained: Path, company: Company, capsys: pytest.CaptureFixture[str]
) -> None:
    names = NAMES[:count]
    if count < 3:
        train(tmp_path, names, numbers=True)
    expected = in_one_process(capsys, company, names)
    tokens = secret_file(tmp_path / "callers.txt", f"# who may ask\nbank {TOKEN}\n")
    how = ["--alone"] if count == 1 else ["--peers", company.write_peers(names)]
    company.start_all(names, *how, "--token-file", tokens, "--most-ids", 25)  # several requests for each
    own_part(company)
    mine = secret_file(tmp_path / "mine.txt", "".join(f"{name} {TOKEN}\n" for name in names))
    words = ("ask", company.run, "--data", tmp_path / "bank.csv", "--from", *sources(company), "--token-file", mine)
    code, out, err = call(capsys, *words)
    assert code == 0, err
    np.testing.assert_allclose(scores(out), scores(expected), rtol=0, atol=1e-9)
    assert [row.split(",")[0::2] for row in out.splitlines()] == [row.split(",")[0::2] for row in expected.splitlines()]
    assert ("fingerprint" in err) == (count > 1)
    logs = await_logs(tmp_path, names, count * ROWS)
    assert sum(line.get("ids", 0) for line in logs) == count * ROWS
    assert {line["caller"] for line in logs if "caller" in line} == {"bank"}
    assert not re.search(r"\bc\d\d\d\b", "".join((tmp_path / f"{name}.log").read_text() for name in names))


def test_a_party_that_is_away_counts_as_average_where_the_others_allow_it(
    company: Company, capsys: pytest.CaptureFixture[str]
) -> None:
    peers = company.write_peers()
    company.start_all(NAMES, "--peers", peers, "--least", 2, "--insecure")
    where = sources(company)
    company.stop("water")
    words = ("ask", company.run, "--data", company.folder / "bank.csv", "--from", *where)
    code, _, err = call(capsys, *words)
    assert (code, '"water" is away' in err) == (1, True)
    code, out, err = call(capsys, *words, "--degrade")
    assert code == 0, err
    assert 'counted as average in every row: "water"' in err
    model = json.loads((company.run / "model" / "water.json").read_text())
    model |= {"coef": [0.0, 0.0], "offset": 0.0}
    (company.run / "model" / "water.json").write_text(json.dumps(model))
    expected = in_one_process(capsys, company, NAMES)
    np.testing.assert_allclose(scores(out), scores(expected), rtol=0, atol=1e-9)
    # It comes back: the sum with it would tell its scores, by the difference.
    company.start("water", "--peers", peers, "--least", 2, "--insecure")
    code, out, err = call(
        capsys, "ask", company.run, "--data", company.folder / "bank.csv", "--from", *sources(company)
    )
    assert (code, out) == (1, "")
    assert f"{ROWS} ids of these were answered together with other parties" in err


def test_without_leave_of_the_others_nobody_is_left_out(company: Company, capsys: pytest.CaptureFixture[str]) -> None:
    peers = company.write_peers()
    company.start_all(NAMES[:2], "--peers", peers, "--insecure")
    where = [*sources(company), "water=http://127.0.0.1:9"]
    code, out, err = call(
        capsys, "ask", company.run, "--data", company.folder / "bank.csv", "--from", *where, "--degrade"
    )
    assert (code, out) == (1, "")
    assert "answers together with at least 2 others" in err


def test_the_budget_of_a_day_survives_a_restart(company: Company) -> None:
    tokens = secret_file(company.folder / "callers.txt", f"bank {TOKEN}\nother {TOKEN[::-1]}x\n")
    words = ("--alone", "--token-file", tokens, "--per-day", 5)
    url = company.start("shop", *words)

    def ask(ids: list[str], token: str = TOKEN) -> httpx.Response:
        body = {"number": 0, "ids": ids}
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.post(f"{url}/v1/scores", json=body, headers=headers, timeout=10, trust_env=False)

    assert ask(IDS[:3]).status_code == 200
    company.stop("shop")
    url = company.start("shop", *words)
    refused = ask(IDS[3:6])
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 86400
    assert "2 ids of 5" in refused.json()["detail"]
    assert ask(IDS[3:5]).status_code == 200
    assert ask(IDS[:1]).status_code == 429
    assert ask(IDS[:5], f"{TOKEN[::-1]}x").status_code == 200  # another caller's own budget


def test_certificates_let_in_whom_they_were_made_for(company: Company, capsys: pytest.CaptureFixture[str]) -> None:
    good, stranger = (make_certificates(company.folder / name) for name in ("good", "stranger"))
    company.start("shop", "--alone", "--cert", good.server, "--key", good.server_key, "--ca", good.ca)
    url = company.urls["shop"].replace("127.0.0.1", "localhost")
    run = company.folder / "two"
    run.mkdir()
    train(run, NAMES[:1])
    words = ("ask", run / "run", "--data", run / "bank.csv", "--from", f"shop={url}", "--ca", good.ca)
    code, out, err = call(capsys, *words, "--cert", good.client, "--key", good.client_key)
    assert (code, len(out.splitlines())) == (0, ROWS + 1), err
    await_logs(company.folder, ("shop",), ROWS)
    answered = (company.folder / "shop.log").read_text()
    assert '"caller": "certificate CN=client"' in answered
    for extra in ((), ("--cert", stranger.client, "--key", stranger.client_key)):
        code, out, err = call(capsys, *words, *extra)
        assert (code, out) == (1, "")
        assert "ertificate" in err or "nobody is there" in err
    assert (company.folder / "shop.log").read_text() == answered  # no request came through
    code, _, err = call(capsys, *words[:-1], stranger.ca, "--cert", good.client, "--key", good.client_key)
    assert (code, "do not trust" in err) == (1, True)


def test_a_port_that_is_taken_is_named_and_is_free_when_the_service_is_told_to_end(company: Company) -> None:
    port = company.start("shop", "--alone", "--insecure").rsplit(":", 1)[1]
    words = ["answer", company.run, "--party", "phone", "--data", company.folder / "phone.csv", "--alone", "--insecure"]
    done = subprocess.run(
        [*company.running["shop"].args[:3], *map(str, words), "--port", port],  # type: ignore[index]
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    process = company.running["shop"]
    company.stop("shop")
    assert process.returncode is not None
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{company.urls['shop']}/v1/health", timeout=2, trust_env=False)
