"""The names of the learners: each is a module beside this file. To add a learner, add its module and its name here.

This module imports nothing, so that the command line can name the learners without loading them.
"""

from __future__ import annotations

from typing import Final

# The first is the default of a new model.
KINDS: Final = ("truncated_gradient", "taylor_sketch", "ftrl_proximal", "particle_filter")
