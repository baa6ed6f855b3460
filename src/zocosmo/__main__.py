from zocosmo.cli import main

main()
