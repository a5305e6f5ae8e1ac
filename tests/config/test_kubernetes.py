"""The files for Kubernetes: valid by its own schemas, with little rights, and in step with our settings.

KEDA's kinds are in no schema that a package registry has: their structure alone is looked at here, and what they ask of
the ledger in tests/ledger/test_demand.py.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it comes without types
import pytest
import yaml

from brokerjobs.rules.durations import parse_duration
from brokerjobs.settings import Settings, WorkerSettings
from tests.config.expressions import CONFIG, ROOT

FOLDER: Final = CONFIG / "kubernetes"
VERSIONS: Final = ("1.29", "1.34")
PLANNED: Final = {"worker.probe_port", "worker.probe_host"}
OBJECTS: Final[dict[str, dict[str, Any]]] = {
    f"{file.stem}/{one['kind']}": one
    for file in sorted(FOLDER.glob("*.yaml"))
    for one in yaml.safe_load_all(file.read_text())
}
KEDAS: Final = {name: one for name, one in OBJECTS.items() if one["apiVersion"].startswith("keda.sh/")}
PODS: Final = {name: one["spec"]["template"] for name, one in OBJECTS.items() if "template" in one.get("spec", {})}
LONG: Final = {name: one for name, one in PODS.items() if name.endswith("/Deployment")}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (one,) = pod["spec"]["containers"]
    return dict(one)


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(pod)["env"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(OBJECTS.keys() - KEDAS.keys()))
def test_object__is_valid_and_has_no_unknown_field(name: str, version: str) -> None:
    kubernetes_validate.validate(OBJECTS[name], version, strict=True)


def test_validation__sees_a_misspelt_field() -> None:
    broken = copy.deepcopy(OBJECTS["worker/Deployment"])
    broken["spec"]["template"]["spec"]["terminationGraceSeconds"] = 1

    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pod__has_no_rights_that_it_does_not_need(name: str) -> None:
    pod = PODS[name]["spec"]
    its = container(PODS[name])["securityContext"]
    dockerfile = (CONFIG / "docker/Dockerfile").read_text()

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {pod['securityContext']['runAsUser']} " in dockerfile
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert its == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {one["mountPath"] for one in container(PODS[name])["volumeMounts"]} == {"/tmp"}
    assert "memory" in container(PODS[name])["resources"]["limits"]


@pytest.mark.parametrize("name", PODS)
def test_secrets__are_references_to_one_of_each_kind_of_process(name: str) -> None:
    urls = {key: value for key, value in environment(PODS[name]).items() if key.endswith("_URL")}
    owner = "owner" if name.startswith("setup") else name.partition("/")[0]

    assert urls == {
        f"BROKERJOBS_{what}_URL": {"secretKeyRef": {"name": f"brokerjobs-{owner}", "key": f"{what.lower()}-url"}}
        for what in ("DATABASE", "BROKER")
    }
    assert "password" not in (FOLDER / f"{name.partition('/')[0]}.yaml").read_text().lower()


@pytest.mark.parametrize("name", PODS)
def test_variables__are_settings_of_ours(name: str) -> None:
    ours = {key.removeprefix("BROKERJOBS_") for key in environment(PODS[name]) if key.startswith("BROKERJOBS_")}
    for path in (key.lower().replace("__", ".") for key in ours):
        fields: Any = Settings.model_fields
        *groups, last = path.split(".")
        for group in groups:
            fields = fields[group].annotation.model_fields
        assert last in fields or path in PLANNED, path


@pytest.mark.parametrize("name", LONG)
def test_probes__ask_the_two_paths_on_the_port_that_is_opened(name: str) -> None:
    pod = LONG[name]
    its = container(pod)
    (port,) = its["ports"]

    assert its["livenessProbe"]["httpGet"] == {"path": "/livez", "port": port["name"]}
    assert its["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}
    assert environment(pod)["BROKERJOBS_WORKER__PROBE_PORT"] == str(port["containerPort"])
    assert environment(pod)["BROKERJOBS_WORKER__PROBE_HOST"] == "0.0.0.0"


@pytest.mark.parametrize("name", LONG)
def test_grace_period__is_the_drain_limit_and_fifteen_seconds(name: str) -> None:
    pod = LONG[name]
    said = environment(pod).get("BROKERJOBS_WORKER__DRAIN")
    drain = WorkerSettings().drain if said is None else parse_duration(said)

    assert pod["spec"]["terminationGracePeriodSeconds"] == drain.total_seconds() + 15


@pytest.mark.parametrize("kind", ["worker", "coordinator"])
def test_labels__of_pods_budget_and_deployment_are_the_same(kind: str) -> None:
    deployment, budget = OBJECTS[f"{kind}/Deployment"], OBJECTS[f"{kind}/PodDisruptionBudget"]
    wanted = {"app.kubernetes.io/name": "brokerjobs", "app.kubernetes.io/component": kind}
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]

    assert deployment["spec"]["selector"]["matchLabels"] == wanted
    assert deployment["spec"]["template"]["metadata"]["labels"] == wanted
    assert budget["spec"]["selector"]["matchLabels"] == wanted
    assert spread["labelSelector"]["matchLabels"] == wanted


def test_coordinators__are_two_of_which_one_is_always_there() -> None:
    assert OBJECTS["coordinator/Deployment"]["spec"]["replicas"] == 2
    assert OBJECTS["coordinator/PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    assert "--no-coordinator" in container(PODS["worker/Deployment"])["args"]


def test_scaled_object__scales_the_workers_by_their_places_with_a_login_of_its_own() -> None:
    scaled, login = OBJECTS["scaled-object/ScaledObject"], OBJECTS["scaled-object/TriggerAuthentication"]
    (trigger,) = scaled["spec"]["triggers"]
    concurrency = environment(PODS["worker/Deployment"])["BROKERJOBS_WORKER__CONCURRENCY"]

    assert {one["apiVersion"] for one in KEDAS.values()} == {"keda.sh/v1alpha1"}
    assert scaled["spec"]["scaleTargetRef"]["name"] == OBJECTS["worker/Deployment"]["metadata"]["name"]
    assert "replicas" not in OBJECTS["worker/Deployment"]["spec"]
    assert trigger["type"] == "postgresql"
    assert trigger["metadata"]["targetQueryValue"] == concurrency
    assert trigger["authenticationRef"]["name"] == login["metadata"]["name"]
    (secret,) = login["spec"]["secretTargetRef"]
    assert secret == {"parameter": "connection", "name": "brokerjobs-scaler", "key": "database-url"}
    assert (
        scaled["spec"]["minReplicaCount"] <= scaled["spec"]["fallback"]["replicas"] <= scaled["spec"]["maxReplicaCount"]
    )


def test_page__makes_every_secret_and_grants_every_login() -> None:
    page = (ROOT / "docs/how-to/run-on-kubernetes.md").read_text()
    named = {
        name
        for file in FOLDER.glob("*.yaml")
        for name in re.findall(
            r"name: (brokerjobs-\w+), key|name: (brokerjobs-scaler)$", file.read_text(), re.MULTILINE
        )
    }
    granted = dict(
        one.removeprefix("--grant=").split("=") for one in container(PODS["setup/Job"])["args"] if "=" in one
    )

    assert {one or other for one, other in named} <= set(re.findall(r"create secret generic (\S+)", page))
    assert granted.keys() == {"coordinator", "worker", "producer", "reader"}
    for login in granted.values():
        assert f"create role {login} login" in page


def test_files__say_what_was_not_checked() -> None:
    assert "No schema of KEDA was at hand" in (FOLDER / "scaled-object.yaml").read_text()
