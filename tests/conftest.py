"""What a terminal or a CI system sets must not change what the tests see."""

import os

for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TERMINAL_WIDTH"):
    os.environ.pop(name, None)
