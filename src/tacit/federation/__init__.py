"""Training between organisations: kits, the processes of a site, and the order of a joint job.

| file | holds |
|---|---|
| kit.py, project.py, pages.py | the kit of each organisation, made by `tacit federation init` |
| policy.py, processes.py | what a site lets in, and its process |
| site.py | `Site`: what one organisation does when it is asked, whoever carries the messages |
| party_work.py, node_work.py | its part in a feature split and in a sample split |
| lead.py, graph_lead.py | what the site that leads a job does besides |
| own_data.py, parts.py | a site's own rows, and its own part of the model |
| journal.py, wire.py | what a site has answered, kept; messages as plain values, read without trust |
| budget.py, consent.py, spending.py | what a party may spend over all jobs, and its yes to each |
| driver.py, outcome.py | sees a job through, and how it ended |
| flare.py | NVIDIA FLARE as the carrier |
"""
