"""The manifests: valid for the oldest and the newest supported cluster, closed by default, and with known settings."""

from __future__ import annotations

import copy
import shutil
import subprocess
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from riata import __version__
from riata.base.settings import Settings, env_name
from tests.deploy.manifests import DEPLOY, containers, documents, kustomization, of_kind, pod_of, workloads

VERSIONS = ("1.29", "1.37")
ROLES = {"riata-web", "riata-writer", "riata-replica"}
GRACE_S_MIN = 45


def valid(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(version: str) -> None:
    for file, document in documents():
        try:
            valid(document, version)
        except kubernetes_validate.ValidationError as error:
            pytest.fail(f"{file}: {document['kind']} {document['metadata']['name']}: {error.message}")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_validation_sees_a_misspelt_key(version: str) -> None:
    spoilt = copy.deepcopy(workloads()["riata-web"])
    pod_of(spoilt)["securityContexts"] = pod_of(spoilt).pop("securityContext")
    with pytest.raises(kubernetes_validate.ValidationError):
        valid(spoilt, version)


def test_every_file_is_named_and_every_object_has_the_namespace() -> None:
    named = {resource.removeprefix("kubernetes/") for resource in kustomization()["resources"]}
    assert named == {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    for file, document in documents():
        if document["kind"] != "Namespace":
            assert document["metadata"]["namespace"] == "riata", file
    for generator in kustomization()["configMapGenerator"]:
        assert all((DEPLOY / file).is_file() for file in generator["files"])


def test_the_roles_and_redis_are_there() -> None:
    assert set(workloads()) == ROLES | {"redis"}
    roles = {name: {e["name"]: e.get("value") for e in c["env"]} for name, c in containers() if name in ROLES}
    assert {name: f"riata-{env['RIATA_ROLE']}" for name, env in roles.items()} == {name: name for name in ROLES}


def test_no_container_can_become_more_than_it_is() -> None:
    for name, workload in workloads().items():
        pod = pod_of(workload)
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert all(not volume.keys() & {"hostPath"} for volume in pod["volumes"])
    for name, container in containers():
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not context.get("privileged", False)
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    enforced = next(of_kind("Namespace"))["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


def test_no_image_uses_the_tag_latest() -> None:
    tags = {image["name"]: image.get("newTag") or image.get("digest") for image in kustomization()["images"]}
    for name, container in containers():
        image, _, tag = container["image"].partition(":")
        assert (tag or tags.get(image)) not in (None, "", "latest"), name


def test_the_image_is_of_this_release() -> None:
    (image,) = kustomization()["images"]
    assert (image["name"], image["newTag"]) == ("riata", __version__)


def test_secrets_are_files_and_never_variables() -> None:
    for name, container in containers():
        assert all("valueFrom" not in variable for variable in container["env"]), name
        assert all("secretRef" not in source for source in container.get("envFrom", []))
    assert not list(of_kind("Secret"))  # made by who deploys
    for _, workload in workloads().items():
        modes = [volume["secret"]["defaultMode"] for volume in pod_of(workload)["volumes"] if "secret" in volume]
        assert modes
        assert all(mode & 0o027 == 0 for mode in modes)


def test_every_variable_is_a_setting() -> None:
    known = {env_name(name) for name in Settings.model_fields}
    shared = next(of_kind("ConfigMap"))["data"]
    given = {v["name"]: v["value"] for name, c in containers() if name in ROLES for v in c["env"]}
    assert set(shared) | set(given) <= known


def test_services_do_not_become_variables() -> None:
    # A Service named riata-web would be RIATA_WEB_SERVICE_HOST in every pod, which is no setting: it would not start.
    assert any(service["metadata"]["name"].startswith("riata-") for service in of_kind("Service"))
    assert all(pod_of(workload)["enableServiceLinks"] is False for workload in workloads().values())


def test_probes_and_time_to_stop() -> None:
    for name, container in containers():
        workload = workloads()[name]
        assert pod_of(workload)["terminationGracePeriodSeconds"] >= GRACE_S_MIN
        assert container.keys() >= {"startupProbe", "livenessProbe", "readinessProbe"}
        if name in ROLES:
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            assert ports["health"] == int(next(of_kind("ConfigMap"))["data"]["RIATA_HEALTH_PORT"])
            assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "health"}
            assert container["startupProbe"]["httpGet"] == {"path": "/startupz", "port": "health"}
            assert container["readinessProbe"]["httpGet"]["port"] == "health"
            pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
            stop_s = Settings.model_fields["graceful_stop_s"].default
            assert pause_s + stop_s < pod_of(workload)["terminationGracePeriodSeconds"]


def test_labels_lead_where_they_should() -> None:
    labels = {name: workload["spec"]["template"]["metadata"]["labels"] for name, workload in workloads().items()}
    for workload in workloads().values():
        assert workload["spec"]["selector"]["matchLabels"] == labels[workload["metadata"]["name"]]
    for service in of_kind("Service"):
        aims = [name for name, of in labels.items() if service["spec"]["selector"].items() <= of.items()]
        assert aims == [service["metadata"]["name"]]
        ports = {p["name"] for c in pod_of(workloads()[aims[0]])["containers"] for p in c["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for scaler in of_kind("HorizontalPodAutoscaler"):
        assert scaler["spec"]["scaleTargetRef"]["name"] in ROLES
        assert "replicas" not in workloads()[scaler["spec"]["scaleTargetRef"]["name"]]["spec"]  # or each apply would scale down
    budgets = {budget["metadata"]["name"] for budget in of_kind("PodDisruptionBudget")}
    assert budgets == ROLES


def allows(policy: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether the pods selected by a policy include those with these labels."""
    selector = policy.get("podSelector", policy)
    plain = selector.get("matchLabels", {}).items() <= labels.items()
    return plain and all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))


def callers(port: int, component: str) -> list[dict[str, Any]]:
    """The components that may connect to a port of a component."""
    labels = {"app.kubernetes.io/name": "riata", "app.kubernetes.io/component": component}
    found = []
    for policy in of_kind("NetworkPolicy"):
        if allows(policy["spec"], labels):
            for rule in policy["spec"].get("ingress", []):
                if port in {entry["port"] for entry in rule["ports"]}:
                    found += rule["from"]
    return found


def test_nothing_is_connected_that_is_not_named() -> None:
    closed = [p["spec"] for p in of_kind("NetworkPolicy") if p["spec"]["podSelector"] == {} and "egress" not in p["spec"]]
    assert closed == [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
    (redis_from,) = callers(6379, "redis")
    assert {role for role in ("web", "writer", "replica", "redis", "client") if allows(redis_from, named(role))} == {
        "web",
        "writer",
        "replica",
    }
    assert "namespaceSelector" not in redis_from
    assert not callers(8080, "redis")
    for role in ("web", "writer", "replica"):
        (metrics_from,) = callers(8081, role)
        assert metrics_from["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
        (client,) = callers(8080, role)
        assert client["podSelector"]["matchLabels"] == {"riata-client": "true"}


def named(component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "riata", "app.kubernetes.io/component": component}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed, which renders the kustomization")
def test_the_kustomization_renders_to_valid_objects() -> None:
    done = subprocess.run(["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rendered = list(yaml.safe_load_all(done.stdout))
    for document in rendered:
        valid(document, VERSIONS[0])
    assert len(rendered) == len(documents()) + len(kustomization()["configMapGenerator"])
    files = next(d for d in rendered if d["kind"] == "ConfigMap" and d["metadata"]["name"].startswith("redis-files-"))
    assert files["data"].keys() == {"redis.conf", "users.acl", "start"}
    mounted = pod_of(next(d for d in rendered if d["kind"] == "StatefulSet"))["volumes"]
    assert files["metadata"]["name"] in [volume.get("configMap", {}).get("name") for volume in mounted]
