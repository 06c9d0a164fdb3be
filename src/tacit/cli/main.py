"""The command `tacit`: find the verb, run it, and turn what went wrong into one line and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from tacit.cli.verbs import VERBS, find_verb, further_names, need_verb
from tacit.errors import InputError, TacitError
from tacit.text import nearest, plain, plain_streams, show
from tacit.version import __version__, version_lines

RAW = argparse.RawDescriptionHelpFormatter
DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130

DESCRIPTION = """\
Train one model together with others who hold different columns about the same
people, or the same columns about different people, without showing each other
the data."""
EPILOG = """\
New here? The first five lead from nothing to a report, in this order.
tacit VERB --help describes a verb, with examples.
exit codes: 0 done, 2 wrong input, 1 anything else, 130 interrupted.
With TACIT_DEBUG=1 in the environment errors come with their traceback."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are refusals like every other."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise InputError(f"{message}: see {self.prog} --help")


def make_parser(used: Sequence[str] = ()) -> Parser:
    """The parser of all verbs, of which only the ones `used` have their arguments."""
    wide = partial(RAW, max_help_position=16)
    parser = Parser(prog="tacit", description=DESCRIPTION, epilog=EPILOG, formatter_class=wide, allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--verbose", action="store_true", help="with --version: also those of Python and all packages")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")
    for name, own in VERBS.items():
        if name in used:
            _add_verb(verbs, name, own.HELP, load_verb(name))
        else:
            verbs.add_parser(name, help=own.HELP)
    for name in used:
        if name not in VERBS and (module := load_verb(name)) is not None:
            _add_verb(verbs, name, module.HELP, module)
    return parser


def _add_verb(verbs: Any, name: str, summary: str, module: Any) -> None:
    """Describe a verb; `options.run` runs it, and `options.command` runs another command line from within it."""
    verb = verbs.add_parser(
        name,
        help=summary,
        description=module.DESCRIPTION,
        epilog=module.EPILOG,
        formatter_class=RAW,
        allow_abbrev=False,
    )
    module.add_arguments(verb)
    verb.set_defaults(run=module.run, command=main)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 2 wrong input, 1 anything else, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with plain_streams():
        return _guarded(arguments)


def _guarded(arguments: list[str]) -> int:
    """Run a verb, and say what went wrong."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt as interrupt:
        _complain(f"tacit: {interrupt}" if str(interrupt) else "tacit: stopped")
        return INTERRUPTED
    except TacitError as error:
        _trace_back()
        _complain(f"tacit: error: {error}")
        return WRONG_INPUT if isinstance(error, InputError) else FAILED
    except Exception as error:
        _trace_back()
        kind = type(error).__name__
        _complain(f"tacit: error: {kind}: {error} (set TACIT_DEBUG=1 to see where)")
        return FAILED


def _run(arguments: list[str]) -> int:
    verb = next((argument for argument in arguments if not argument.startswith("-")), None)
    if arguments and verb == arguments[0] and verb not in VERBS:
        known = list(dict.fromkeys([*VERBS, *further_names()]))
        if verb not in known:
            raise InputError(f"there is no verb {show(verb)}{nearest(verb, known)}: choose one of {', '.join(known)}")
    parser = make_parser([verb] if verb else [])
    try:
        options, unknown = parser.parse_known_args(arguments)
    except SystemExit as leave:  # after --help
        return int(leave.code or 0)
    if unknown:
        raise InputError(_unknown(options.verb, unknown[0]))
    if options.version:
        print("\n".join(version_lines() if options.verbose else [f"tacit {__version__}"]))
        return DONE
    if options.verbose:
        raise InputError("--verbose says more with --version: add it, or leave --verbose out")
    if options.verb is None:
        parser.print_help()
        return DONE
    return int(options.run(options))


def _unknown(verb: str | None, argument: str) -> str:
    """The refusal of an argument that nobody asked for."""
    from tacit.job.file import section_of

    name = argument.removeprefix("--").partition("=")[0].replace("-", "_")
    section = section_of(name) if argument.startswith("--") else None
    if section is not None:
        return f"there is no option {show(argument)}: write {name} = ... into [{section}] of the job file"
    return f"{show(argument)} is one argument too many: see {f'tacit {verb} --help' if verb else 'tacit --help'}"


def _complain(text: str) -> None:
    print(plain(" ".join(text.split())), file=sys.stderr)


def _trace_back() -> None:
    if os.environ.get("TACIT_DEBUG", "") not in ("", "0"):
        import traceback

        traceback.print_exc()


def _reader_left() -> int:
    """Whoever read our output closed it, as `head` does: end without a word."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def load_verb(name: str) -> Any:
    """The module of a verb, or None where nobody brings it.

    Raises
    ------
    InputError
        Where its distribution is not installed.
    RunError
        Where a package brings it, and it cannot be used.
    """
    own = VERBS.get(name)
    if own is None:
        return find_verb(name)
    return need_verb(name, own) if own.distribution else import_module(f"tacit.cli.{own.module or name}")


if __name__ == "__main__":
    sys.exit(main())
