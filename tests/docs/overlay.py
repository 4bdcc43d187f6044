"""`python -m tests.docs.overlay ...` runs `riata ...` with the files of one folder laid over those of the package.

The folder, named by OVERLAY, mirrors `service/riata`. A module that it has is imported in place of the
package's; everything else is the package's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

PACKAGE = "riata"


class Overlay(MetaPathFinder):
    """Finds the modules of the package that `folder` replaces."""

    def __init__(self, folder: Path, package: Path) -> None:
        self._folder = folder
        self._package = package

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The spec of a module in the folder; None if the folder does not have it."""
        del path, target  # given to every finder
        top, *inside = fullname.split(".")
        if top != PACKAGE or not inside:
            return None
        place = self._folder.joinpath(*inside)
        if place.with_suffix(".py").is_file():
            return spec_from_file_location(fullname, place.with_suffix(".py"))
        if not (place / "__init__.py").is_file():
            return None
        folders = [str(place), str(self._package.joinpath(*inside))]
        return spec_from_file_location(fullname, place / "__init__.py", submodule_search_locations=folders)


def lay_over() -> None:
    """From here on, import the modules of the folder."""
    import riata  # the package itself; its modules are imported after the overlay is in place

    sys.meta_path.insert(0, Overlay(Path(os.environ["OVERLAY"]), Path(riata.__file__).parent))


if __name__ == "__main__":
    lay_over()
    from riata.cli.main import main

    main()
