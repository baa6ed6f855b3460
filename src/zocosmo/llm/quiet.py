"""What is printed: progress as lines of text, and neither bars, warnings nor long errors of libraries."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

Say = Callable[[str], None]  # prints a line of progress


def silent(text: str) -> None:
    """Print nothing."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Turn off transformers' progress bars and all log messages below errors."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
