"""`python -m riata` is the command `riata`."""

from riata.cli.app import main

main()
