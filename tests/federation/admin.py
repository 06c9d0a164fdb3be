"""Submit jobs with an admin kit, in a process of its own: FLARE's client keeps threads and global state.

    python admin.py STARTUP_KIT USER JSON

where JSON is a list of what to do: ["submit", folder], ["sites"], ["order", text]. Prints a JSON list of outcomes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

SECONDS = 60


def do(session: Session, task: list[str]) -> Any:
    """Do one thing and return what came of it."""
    if task[0] == "submit":
        number = session.submit_job(task[1])
        session.wait_for_job(number, timeout=SECONDS, poll_interval=0.2)
        meta = session.get_job_meta(number)
        return {"status": meta["status"], "detail": meta.get("job_deploy_detail", [])}
    if task[0] == "sites":
        return sorted(client.name for client in session.get_system_info().client_info)
    return session.do_command(task[1])


def main() -> None:
    """Connect, do everything, and say what came of it in the last line."""
    place, user, tasks = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    session = new_secure_session(user, place, timeout=6.0, auto_login_max_tries=1)
    outcomes = []
    try:
        for task in tasks:
            try:
                outcomes.append(do(session, task))
            except Exception as error:
                outcomes.append({"error": f"{type(error).__name__}: {error}"})
    finally:
        session.close()
    print("\n" + json.dumps(outcomes, default=str))


if __name__ == "__main__":
    main()
