"""The build backend of the package: setuptools, with the native core built before it (PEP 517, PEP 660).

A wheel is for one platform and any Python from 3.11 on: the library does not use the interpreter. Where no C compiler is found,
the package `ziglang` is asked for, which is one.

    pip wheel .                                                    for this machine
    pip wheel . --config-settings platform=manylinux_2_28_aarch64  for every Linux of this processor with glibc 2.28 or newer
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import setuptools.build_meta as setuptools
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

sys.path.insert(0, str(Path(__file__).parent))

from build import main, own_compiler

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
HERE = Path(__file__).resolve().parent
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "service")


def _build(*arguments: str) -> None:
    if main(["--if-needed", *arguments]):
        raise SystemExit("the native core could not be built; the reason is above")


def _compiler(settings: Settings) -> list[str]:
    """Return the package of a C compiler, if one is needed."""
    lines = (HERE / "ziglang.txt").read_text(encoding="utf-8").splitlines()
    needed = [line.rstrip(" \\") for line in lines if line.startswith("ziglang==")]
    with tempfile.TemporaryDirectory(prefix="riata-build-") as folder:
        return needed if (settings or {}).get("platform") or not own_compiler(Path(folder)) else []


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    """Return what has to be installed before `build_wheel`."""
    return [*setuptools.get_requires_for_build_wheel(_without_platform(settings)), *_compiler(settings)]


def get_requires_for_build_editable(settings: Settings = None) -> list[str]:
    """Return what has to be installed before `build_editable`."""
    return [*setuptools.get_requires_for_build_editable(settings), *_compiler(settings)]


def _without_platform(settings: Settings) -> dict[str, Any]:
    return {key: value for key, value in (settings or {}).items() if key != "platform"}


def build_wheel(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build a wheel with the native core, for this machine or, in a copy of the sources, for the platform that is set."""
    platform = str((settings or {}).get("platform", ""))
    if not platform:
        _build()
        return _wheel(directory, sysconfig.get_platform(), settings, metadata)
    directory, here = str(Path(directory).resolve()), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="riata-wheel-") as copy:
        for name in SOURCES:
            if (here / name).is_dir():
                shutil.copytree(here / name, Path(copy, name), ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
            elif (here / name).exists():
                shutil.copy(here / name, copy)
        _build("--platform", platform, "--into", str(Path(copy, "service", "riata", "native")))
        os.chdir(copy)
        try:
            return _wheel(directory, platform, settings, metadata)
        finally:
            os.chdir(here)


def _wheel(directory: str, platform: str, settings: Settings, metadata: str | None) -> str:
    option = f"--plat-name={platform.replace('-', '_').replace('.', '_')}"
    made: str = setuptools.build_wheel(directory, {**_without_platform(settings), "--build-option": [option]}, metadata)
    return made


def build_editable(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build the core in the source tree, and the link to it."""
    _build()
    made: str = setuptools.build_editable(directory, settings, metadata)
    return made
