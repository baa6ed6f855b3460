"""import zocosmo, in a fresh interpreter: under 0.3 s, with no heavy library brought in.   make bench"""

import subprocess
import sys

from timing import race, report


def fresh(code: str) -> object:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def main() -> None:
    codes = {"nothing": "pass", "numpy": "import numpy", "zocosmo": "import zocosmo"}
    took = race({name: fresh(code) for name, code in codes.items()}, trials=15)
    ours, floor = took["zocosmo"] - took["nothing"], took["numpy"] - took["nothing"]
    report("import zocosmo, against import numpy alone", ours, floor, "< 300 ms", unit=1e3, name="ms")


if __name__ == "__main__":
    main()
