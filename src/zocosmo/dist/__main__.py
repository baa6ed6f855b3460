"""python -m zocosmo.dist: the entry point for torchrun; its options are in zocosmo.cli.options."""

from zocosmo.cli.rank import main

if __name__ == "__main__":
    main()
