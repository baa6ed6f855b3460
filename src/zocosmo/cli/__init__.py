"""The command `zocosmo`: each command parses, calls the library, prints.

Results go to stdout. A user's mistake ends as one line on stderr and exit code 2.
"""

import os
import sys
from typing import Annotated

import typer

import zocosmo.cli.check  # each module registers its commands
import zocosmo.cli.compare
import zocosmo.cli.dist
import zocosmo.cli.example
import zocosmo.cli.finetune
import zocosmo.cli.minimize
import zocosmo.cli.model
import zocosmo.cli.parts
import zocosmo.cli.payload
import zocosmo.cli.plan
import zocosmo.cli.probe
import zocosmo.cli.schedule
import zocosmo.cli.screen
import zocosmo.cli.study
import zocosmo.cli.tape  # noqa: F401
from zocosmo._version import __version__
from zocosmo.cli.common import UserMistake, app, refuse, show_help
from zocosmo.cli.options import option
from zocosmo.cli.plugins import ReaderGone
from zocosmo.errors import ZocosmoError
from zocosmo.extras import extra_of, missing

__all__ = ["app", "main"]


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, option("Print the version and stop.", "--version")] = False,
) -> None:
    if version:
        print(f"zocosmo {__version__}")
        raise typer.Exit
    show_help(context)


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except (ZocosmoError, UserMistake) as error:
        code = refuse(error)
    except ModuleNotFoundError as error:
        if not extra_of(error.name):
            raise
        code = refuse(missing("this command", str(error.name)))
    except MemoryError:
        code = refuse("not enough memory; use smaller sizes")
    except (BrokenPipeError, ReaderGone):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = refuse(error)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code)
