"""The lifeline: a pipe between launcher and launched, by which the latter notice that the former has ended.

The launcher never writes. However it ends, kill −9 included, the system closes its end, and the read returns.
"""

import os
import stat
import threading
from functools import cache

from zocosmo.files import say

NAME = "ZOCOSMO_LIFELINE"  # in the environment: the number of the end to read

Ends = tuple[int, int]


@cache
def lifeline() -> Ends:
    """The ends of this launcher's pipe, to read and to hold; children get the first only."""
    return os.pipe()


def hold_on() -> None:
    """In a launched process: end, and say so, once the launcher has ended."""
    number = os.environ.pop(NAME, "")  # once, and not for processes that this one starts
    if not number.isdecimal() or not _is_pipe(int(number)):
        return
    os.set_inheritable(int(number), False)
    threading.Thread(target=_end_after, args=(int(number),), daemon=True).start()


def _is_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def _end_after(number: int) -> None:
    os.read(number, 1)
    say(f"rank {os.environ.get('RANK', '?')}: its launcher has ended, so this process ends too")
    os._exit(2)  # files are always whole
