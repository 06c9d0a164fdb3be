"""From files to shards: read tables, match their rows by id, split columns, encode labels.

The modules are imported one by one (`from tacit.data.read import read_table`), so that an estimator
that only splits columns does not pay for the import of the file readers.
"""
