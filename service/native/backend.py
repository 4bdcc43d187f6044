"""The build backend of the package: setuptools, with the native core built before it (PEP 517, PEP 660).

A wheel is for one platform and any Python from 3.11 on: the library does not use the interpreter.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

import setuptools.build_meta as setuptools
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

sys.path.insert(0, str(Path(__file__).parent))

from build import main

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, Any] | None


def _build() -> None:
    if main(["--if-needed"]):
        raise SystemExit("the native core could not be built; the reason is above")


def build_wheel(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build a wheel with the native core. The setting `platform` names another platform, for example manylinux_2_28_x86_64."""
    _build()
    settings = dict(settings or {})
    platform = str(settings.pop("platform", sysconfig.get_platform())).replace("-", "_").replace(".", "_")
    made: str = setuptools.build_wheel(directory, {**settings, "--build-option": [f"--plat-name={platform}"]}, metadata)
    return made


def build_editable(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build the core in the source tree, and the link to it."""
    _build()
    made: str = setuptools.build_editable(directory, settings, metadata)
    return made
