"""`tacit status`: what an organisation's part in a federation does."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.text import plain

if TYPE_CHECKING:
    from tacit.federation.status import Status

DESCRIPTION = """\
Show whether the site of a kit runs, how long its certificate is valid, what was
spent of its budget, and how far its runs are. Nothing is asked of others."""
EPILOG = """\
examples:
  tacit status credit/shop
  tacit status credit/shop --json
  tacit status credit/shop --check && echo it runs
  tacit status credit/shop --prometheus > /var/lib/node_exporter/tacit.prom"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("kit", metavar="KIT", help="your organisation's directory")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--prometheus", action="store_true", help="as metrics for Prometheus")
    form.add_argument("--check", action="store_true", help="print nothing; exit code 1 where the site does not run")
    form.add_argument("--count-again", action="store_true", help="count what the runs spent and an old ledger forgot")


def run(options: argparse.Namespace) -> int:
    """Look, and print."""
    from tacit.federation.kit import Kit
    from tacit.federation.processes import running
    from tacit.federation.status import count_again, status_of

    if options.count_again:
        found = count_again(Kit.open(options.kit))
        print("\n".join([f"counted again: {run}" for run in found] or ["nothing was forgotten"]))
        return 0
    if options.check:
        kit = Kit.open(options.kit)
        return 0 if running(kit) and kit.certificate.days > 0 else 1
    status = status_of(Kit.open(options.kit))
    if options.json:
        print(json.dumps(status.record(), indent=1, allow_nan=False))
    elif options.prometheus:
        print(metrics(status), end="")
    else:
        print("\n".join(plain(line) for line in status.lines()))
    return 0


def metrics(status: Status) -> str:
    """The status in the text form of Prometheus."""
    try:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest
    except ImportError as error:
        raise InputError("metrics need another package: pip install 'tacit[flare]'") from error
    registry, gauges = CollectorRegistry(), {}
    site = {"site": status.kit.name, "federation": status.kit.federation}

    def gauge(name: str, help_: str, value: float, **labels: str) -> None:
        if name not in gauges:
            gauges[name] = Gauge(name, help_, [*site, *labels], registry=registry)
        gauges[name].labels(**site, **labels).set(value)

    gauge("tacit_up", "Whether the site runs.", float(status.running))
    gauge("tacit_certificate_days", "Days until the certificate expires.", status.days)
    gauge("tacit_releases", "Releases so far, over all runs.", float(status.releases))
    for unit, epsilon, _, spent in status.spent:
        gauge("tacit_budget_epsilon", "The budget over all jobs.", epsilon, unit=unit)
        gauge("tacit_spent_epsilon", "What was spent of it.", spent, unit=unit)
    for one in status.runs:
        about = {"run": one.run, "state": one.state}
        gauge("tacit_run_step", "Last step of a run on this disk.", float(one.step), **about)
        gauge("tacit_run_seconds", "Time of a run, at the site that leads it.", one.seconds, **about)
        gauge("tacit_run_bytes", "Payload of a run, at the site that leads it.", float(one.bytes), **about)
    return str(generate_latest(registry).decode())
