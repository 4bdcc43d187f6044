"""`python -m tests.docs.overlay ...` runs `riata ...` with the files of one folder laid over those of the package.

The folder, named by OVERLAY, mirrors `service/riata`. A file that it has is imported in place of the
package's; everything else is the package's own, with its compiled kernels.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path


def lay_over(folder: Path) -> None:
    """Put the subfolders of `folder` in front of the search paths of the packages that they mirror."""
    for place in sorted(path for path in folder.rglob("*") if path.is_dir()):
        inside = place.relative_to(folder)
        if not (place / "__init__.py").exists() and inside.name != "__pycache__":
            importlib.import_module(f"riata.{'.'.join(inside.parts)}").__path__.insert(0, str(place))


if __name__ == "__main__":
    lay_over(Path(os.environ["OVERLAY"]))
    from riata.cli.app import main  # after the files are laid over the package's

    main()
