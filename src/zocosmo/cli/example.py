"""zocosmo example: configs to start from."""

from zocosmo.cli.common import app


@app.command()
def example() -> None:
    """Print a small config to start from.

    Example: zocosmo example > first.yaml
    """
    from importlib.resources import files

    print(files("zocosmo.experiments").joinpath("example.yaml").read_text(encoding="utf-8"), end="")
