"""``python -m symgrad_cli`` is ``symgrad``."""

from symgrad_cli.main import main

main()
