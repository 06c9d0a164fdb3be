"""The page in every kit: what to install, what to run, what to compare by telephone, what to keep secret."""

from __future__ import annotations

from jinja2 import Environment

from tacit.federation.kit import SERVER, Kit
from tacit.runtime.files import write_text

__all__ = ["write_page"]

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ kit.organisation }} in the federation {{ kit.federation }}</title>
<style>
 body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; color: #1c2430; }
 pre { background: #f1f3f6; padding: .7rem 1rem; overflow-x: auto; border-radius: 4px; }
 code { background: #f1f3f6; } h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
 .print { font-family: monospace; word-break: break-all; font-weight: 600; }
</style>
<h1>{{ kit.organisation }}: {{ "the server" if server else "a party" }} of the federation {{ kit.federation }}</h1>
<p>This directory is a kit. {% if server -%}
With it {{ kit.organisation }} runs the server, which the parties
{{ kit.parties | join(", ") }} connect to, and submits jobs. {{ kit.organisation }} takes part with its own data by a
second kit, if it has one.
{%- else -%}
With it {{ kit.organisation }} takes part in training with its own data. The data stay on your
machine; the model's parts are computed there.
{%- endif %} <strong>It holds the private key of a TLS certificate: whoever has it can connect in your name.</strong>
Hand it over by a channel you trust, and do not send it by plain e-mail. After unpacking, make it readable by one
account only; keys that others can read are refused:</p>
<pre>chmod -R go-rwx {{ kit.name }}</pre>

<h2>1. Install</h2>
<p>Python 3.11 or newer on Linux or macOS, then:</p>
<pre>python3 -m venv tacit-env
. tacit-env/bin/activate
pip install 'tacit[flare]'</pre>
<p>Every organisation installs the same version of Tacit.</p>

<h2>2. Compare the fingerprint by telephone</h2>
<p>Call the organisation that made the kits, at a number you knew before, and read this number to each other. It is
the fingerprint of the federation's own certificate, the same in every kit, and <code>tacit join</code> and
<code>tacit serve</code> show it at the start. If one character differs, do not go on.</p>
<p class="print">{{ kit.authority.fingerprint }}</p>

<h2>3. Open the way</h2>
{% if server -%}
<p>Let the parties reach TCP port <strong>{{ kit.port }}</strong> of <strong>{{ kit.host }}</strong>, and open no
other port. Both sides of every connection must show a certificate of this federation (mutual TLS); anybody else is
turned away.</p>
{%- else -%}
<p>Your machine must be able to connect to TCP port <strong>{{ kit.port }}</strong> of <strong>{{ kit.host }}</strong>.
Open no port of your own: nobody connects to you.</p>
{%- endif %}

<h2>4. Start</h2>
{% if server -%}
<pre>tacit serve {{ kit.name }}</pre>
<p>The server has no data: it carries what the parties send each other, which it cannot read. {{ kit.organisation }}
joins with its own data by its party's kit.</p>
{%- else -%}
<pre>tacit join {{ kit.name }} --data your-file.csv</pre>
<p>With <code>--id COLUMN</code> it also checks that the file has that column.</p>
{%- endif %}
<p>The command stays in the foreground, says in one line when it is ready, starts FLARE again if it dies, and ends
everything it started when you press Ctrl-C. Nothing is written into this directory: what is your own lies in your home,
<code>~/.tacit/{{ home }}</code> (set <code>TACIT_HOME</code> for another place than <code>~/.tacit</code>): settings in
<code>site.toml</code>, logs in <code>logs</code>. It never leaves your machine, and every setting that holds is printed
at the start.</p>
{% if not server -%}
<p>At the first start you get keys of your own, with which everything you send is sealed; nobody else has them, not
even who made this kit. Call the organisations you work with, read fingerprints to each other, and confirm theirs:</p>
<pre>tacit federation members {{ kit.name }}
tacit federation members {{ kit.name }} --confirm NAME</pre>
{%- endif %}

<h2>5. {% if server %}Hand jobs in{% else %}Say yes, or no{% endif %}</h2>
{% if server -%}
<pre>tacit train job.toml --kit {{ kit.name }}</pre>
<p>A job has <code>engine = "flare"</code> and no paths of data. Every party is asked before anything of it leaves.
<code>tacit status {{ kit.name }}</code> shows how far jobs are.</p>
{%- else -%}
<pre>tacit accept {{ kit.name }} --show
tacit accept {{ kit.name }}
tacit accept {{ kit.name }} --refuse</pre>
<p>Each job shows what would leave you, to whom, and what it would spend of your budget, and waits for your answer:
here, or in the terminal of <code>tacit join</code>. <code>tacit status {{ kit.name }}</code> shows your jobs and what
is left of the budget that you set in <code>site.toml</code>.</p>
{%- endif %}

<h2>6. What is let in</h2>
<p>Jobs are data. A job that brings code or other files, or that names a class outside Tacit, is refused by your
site, whoever sends it; so are orders to show files, run shell commands, change logging, or stop your site, and messages
that no organisation sealed which you confirmed. The rules come from the package you installed, not from this kit: one
that brings settings, a ledger, runs or code is refused.</p>

<h2>7. Renew in time</h2>
<p>Your certificate is valid until <strong>{{ kit.certificate.until.date() }}</strong>, the federation's own until
{{ kit.authority.until.date() }}. Before that day the organisation that made the kits runs
<code>tacit federation renew DIRECTORY</code>, and you copy the new keys over the old ones:</p>
<pre>cp renewed/{{ kit.name }}/flare/startup/*.* {{ kit.name }}/flare/startup/
{%- if server %}
cp renewed/{{ kit.name }}/admin/startup/*.* {{ kit.name }}/admin/startup/{% endif %}</pre>
<p>and start again. Old certificates stay valid until their day: FLARE keeps no list of revoked ones. Who stole one can
connect until then, and cannot speak for you, as that needs your own keys. If those were stolen:
<code>tacit federation rotate {{ kit.name }} --stolen</code>, and call the others.</p>
</html>
"""


def write_page(kit: Kit) -> None:
    """Write README.html into a kit."""
    template = Environment(autoescape=True).from_string(PAGE)
    write_text(
        kit.path / "README.html",
        template.render(kit=kit, server=kit.role == SERVER, home="/".join(kit.home.parts[-2:])),
    )
