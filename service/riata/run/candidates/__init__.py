"""Other states of the same log: how they are made, judged and put in place."""
