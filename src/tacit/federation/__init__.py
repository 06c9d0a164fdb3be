"""Training between organisations: kits, the processes of a site, and the order of a joint job.

| file | holds |
|---|---|
| protocol.py | every request and reply between sites, field by field, and why each field may leave |
| identity.py, members.py, channel.py | a party's own keys, those of the others, and what seals every payload |
| site.py | `Site`: what one organisation does when it is asked, whoever carries the messages |
| party_handler.py, node_handler.py, score_handler.py | its part in a feature split, a sample split, a prediction |
| lead.py, graph_lead.py, score_lead.py | what the site that leads does besides |
| handlers.py | from the text of a job to its handler and its lead |
| matching.py, own_data.py, parts.py | a site's common rows, its own data, its own part of the model |
| journal.py, shelf.py | what a site has answered, kept and given again as it was |
| consent.py, gate.py, budget.py, spending.py | a party's yes in stages, and what it may spend over all jobs |
| driver.py, outcome.py | sees a job through, and how it ended |
| kit.py, project.py, pages.py | the kit of each organisation, made by `tacit federation init` |
| policy.py, processes.py | what FLARE's process of a site may do, and the process |
| flare.py | NVIDIA FLARE as the carrier |
| loopback.py | sites in one process, for tests and for `tacit audit` |
"""
