"""The command line: one verb, one file; `main` finds the verb and turns refusals into exit codes."""
