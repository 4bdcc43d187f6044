"""`python -m riata` is the command `riata`."""

from riata.cli.main import main

main()
