"""What a site lets in, checked on folders as FLARE would deploy them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from tacit.federation import flare_policy
from tacit.federation.flare_policy import JobCheck, OnlyJobs
from tacit.federation.flare_settings import ALLOWED_CLASSES
from tests.federation.live import ROLL_CALL, write_job

CHECK = JobCheck(ALLOWED_CLASSES)


def verdict(folder: str | Path) -> str:
    return CHECK.validate(str(Path(folder) / "app"))[0]


def changed(tmp_path: Path, **sections: Any) -> str:
    """The verdict about a roll call with some sections changed."""
    folder = write_job(tmp_path, "job")
    file = Path(folder) / "app" / "config" / "config_fed_client.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **sections}))
    return verdict(folder)


def test_a_roll_call_is_let_in(tmp_path: Path) -> None:
    folder = write_job(tmp_path, "job", files={"config/.__nvfl_sig.json": "{}", ".__nvfl_submitter.crt": ""})
    assert CHECK.validate(f"{folder}/app") == ("", {"byoc": False})


@pytest.mark.parametrize(
    "path", ["custom/evil.py", "evil.py", "config/evil.py", "config/log_config.json", "config/config_fed_client.conf"]
)
def test_files_besides_the_settings(tmp_path: Path, path: str) -> None:
    assert "a job is data and brings no code" in verdict(write_job(tmp_path, "job", files={path: "{}"}))


def test_an_empty_folder_for_code_and_a_link(tmp_path: Path) -> None:
    folder = Path(write_job(tmp_path, "job")) / "app"
    (folder / "custom").mkdir()
    assert "'custom'" in verdict(folder.parent)
    (folder / "custom").rmdir()
    settings = folder / "config" / "config_fed_client.json"
    settings.rename(tmp_path / "elsewhere.json")
    settings.symlink_to(tmp_path / "elsewhere.json")
    assert "is a link" in verdict(folder.parent)


@pytest.mark.parametrize(
    "name",
    [
        "subprocess.Popen",
        "nvflare.app_common.executors.statistics.statistics_executor.StatisticsExecutor",
        "nvflare.collab.api.module_wrapper.ModuleWrapper",
        "nvflare.collab.runtime.executor.ThreadPoolExecutor",
        "tacit.federation.flare_roll_callx.Present",
        "tacit.federation.flare_policy.OnlyJobs",
        ROLL_CALL + "collab",
        ROLL_CALL + "os",
        ROLL_CALL + "Any",
        ROLL_CALL + "Nothing",
        ROLL_CALL + "Present.present",
        ROLL_CALL,
        "Present",
        "",
    ],
)
def test_other_classes(tmp_path: Path, name: str) -> None:
    component = {"id": "x", "path": name, "args": {}}
    assert verdict_of(tmp_path, component)


def verdict_of(tmp_path: Path, component: dict[str, Any]) -> str:
    return changed(tmp_path, components=[component])


def test_classes_inside_arguments_and_by_other_keys(tmp_path: Path) -> None:
    good = {"id": "x", "path": ROLL_CALL + "Present"}
    evil = {"path": "subprocess.Popen", "args": {"args": ["touch", "x"]}}
    for number, args in enumerate([{"a": evil}, {"a": [{"b": evil}]}, {"a": {"class_path": "subprocess.Popen"}}]):
        (tmp_path / str(number)).mkdir()
        assert verdict_of(tmp_path / str(number), {**good, "args": args})
    for number, extra in enumerate([{"name": "Popen"}, {"class_path": "subprocess.Popen"}], start=3):
        (tmp_path / str(number)).mkdir()
        assert verdict_of(tmp_path / str(number), {**good, **extra})


def test_words_that_flare_would_replace(tmp_path: Path) -> None:
    for number, text in enumerate(["{x.__class__}", "${secret:token}", "}", "{@y:z=1}"]):
        (tmp_path / str(number)).mkdir()
        component = {"id": "x", "path": ROLL_CALL + "Present", "args": {"job": text}}
        assert "braces" in verdict_of(tmp_path / str(number), component)


def test_sections_filters_and_damage(tmp_path: Path) -> None:
    for number, sections in enumerate([{"@x": {}}, {"handlers": []}, {"task_result_filters": [{}]}]):
        (tmp_path / str(number)).mkdir()
        assert changed(tmp_path / str(number), **sections)
    folder = write_job(tmp_path, "job")
    file = Path(folder) / "app" / "config" / "config_fed_server.json"
    for text in ("[]", "{", '{"components": ' + "[" * 100_000):
        file.write_text(text)
        assert verdict(folder)


def test_only_orders_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(ClientRequestProcessors.request_processors)
    monkeypatch.setattr(ClientRequestProcessors, "request_processors", list(before))
    OnlyJobs()
    left = {type(processor).__name__ for processor in ClientRequestProcessors.request_processors}
    assert left == flare_policy.ORDERS
    assert not left & {"ShellCommandProcessor", "ConfigureSiteLogProcessor", "ConfigureJobLogProcessor"}
    monkeypatch.setattr(ClientRequestProcessors, "request_processors", before[:3])
    with pytest.raises(RuntimeError, match="other orders"):
        OnlyJobs()  # does not start where FLARE changed
