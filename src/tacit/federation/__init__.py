"""Training between organisations: kits, the processes of a site, and the order of a joint job.

| file | holds |
|---|---|
| protocol.py | every request and reply between sites, field by field, and why each field may leave |
| identity.py, members.py, channel.py | a party's own keys, those of the others, and what seals every payload |
| site.py | `Site`: what one organisation does when it is asked, whoever carries the messages |
| party_handler.py, node_handler.py, score_handler.py | its part in a feature split, a sample split, a prediction |
| leads.py | what the site that leads does besides |
| handlers.py | from the text of a job to its handler and its lead |
| matching.py, own_data.py, parts.py | a site's common rows, its own data, its own part of the model |
| journal.py | what a site has answered, kept and given again as it was |
| consent.py, budget.py, ledger_file.py, releases.py | a party's yes in stages, and what it may spend and has released |
| kit.py, project.py, own_site.py | each organisation's kit, made by `tacit federation init`, and the site it gives |
| driver.py, progress.py, status.py | sees a job through; how far it is and how it ended; what an organisation sees |
| processes.py, child.py, flare_settings.py | FLARE's process of a site, which ends with its parent; its settings |
| flare.py, flare_policy.py, flare_roll_call.py | NVIDIA FLARE as the carrier, and what it may bring in |
| loopback.py | sites in one process, for tests and for `tacit audit` |
"""
