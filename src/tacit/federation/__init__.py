"""Several organisations: kits, sites, the order of a joint job, journals, budgets and consent.

| file | holds |
|---|---|
| wire.py | messages as plain values, read without trust |
| journal.py | what a site has answered, so that no answer is ever made twice |
| own_data.py | a site's own rows, as the job wants them |
| site.py | `Site`: what one organisation does when it is asked, whoever carries the messages |
| lead.py | what the site that leads a job does: the holder of the labels, or the first node |
"""
