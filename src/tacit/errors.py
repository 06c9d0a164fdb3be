"""Refusals: every error that a user can cause has a class here and one clear line of text."""


class TacitError(Exception):
    """Anything that Tacit refuses or that went wrong in a run; the message is one clear line."""


class InputError(TacitError, ValueError):
    """Wrong input: the message names the value and the way out (exit code 2 on the command line)."""


class RunError(TacitError, RuntimeError):
    """A run that could not go on, though its input was right (exit code 1 on the command line)."""


class FaultError(RunError):
    """A run that was interrupted and may go on as it was: a full disk, a lost connection; nobody refused anything."""
