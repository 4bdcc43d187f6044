"""Reads deploy/kubernetes as a cluster would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"

Document = dict[str, Any]


def kustomization() -> Document:
    """The file that names all others."""
    document: Document = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))
    return document


def documents() -> list[tuple[str, Document]]:
    """Every object of every file that the kustomization names, with the file's name."""
    found = []
    for resource in kustomization()["resources"]:
        text = (DEPLOY / resource).read_text(encoding="utf-8")
        found += [(str(resource), document) for document in yaml.safe_load_all(text) if document is not None]
    return found


def of_kind(*kinds: str) -> Iterator[Document]:
    """Every object of these kinds."""
    return (document for _, document in documents() if document["kind"] in kinds)


def workloads() -> dict[str, Document]:
    """The deployments and stateful sets by name."""
    return {document["metadata"]["name"]: document for document in of_kind("Deployment", "StatefulSet")}


def pod_of(workload: Document) -> Document:
    """The specification of a workload's pods."""
    pod: Document = workload["spec"]["template"]["spec"]
    return pod


def containers() -> Iterator[tuple[str, Document]]:
    """Every container of every workload, with the workload's name."""
    for name, workload in workloads().items():
        for container in pod_of(workload)["containers"]:
            yield name, container
