"""What deploy/ ships for Docker and Kubernetes fits its schema, and fits together; the lock holds every package."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import nginx, server
from tests.deploy import image

DEPLOY = server.ROOT / "deploy"
LOCK = DEPLOY / "requirements.txt"

Manifest = dict[str, Any]

MANIFESTS: list[Manifest] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
COMPOSE: Manifest = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
COPIES = {name: service for name, service in COMPOSE["services"].items() if name != "nginx"}


def manifest(kind: str) -> Manifest:
    (found,) = (each for each in MANIFESTS if each["kind"] == kind)
    return found


# --- Kubernetes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("each", MANIFESTS, ids=lambda each: each["kind"])
def test_each_manifest_fits_kubernetes_own_schema_to_the_last_key(each: Manifest, version: str):
    kubernetes_validate.validate(each, version, strict=True)


def test_a_key_that_kubernetes_does_not_know_would_be_found():
    wrong = manifest("Service") | {"spec": {"ports": [{"port": 80, "targetport": "http"}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_manifests_name_each_other_rightly():
    deployment, service, ingress = manifest("Deployment"), manifest("Service"), manifest("Ingress")
    scaler, budget, policy = (
        manifest("HorizontalPodAutoscaler"),
        manifest("PodDisruptionBudget"),
        manifest("NetworkPolicy"),
    )
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": deployment["apiVersion"],
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }
    assert "replicas" not in deployment["spec"]  # it would fight with the scaler at every apply
    ((path,),) = (rule["http"]["paths"] for rule in ingress["spec"]["rules"])
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    assert path["backend"]["service"]["port"]["name"] == service["spec"]["ports"][0]["name"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert str(container["ports"][0]["containerPort"]) == image.environment()["STREAMLIT_SERVER_PORT"]
    host = ingress["spec"]["rules"][0]["host"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment["STREAMLIT_SERVER_ALLOWED_HOSTS"].split() == ["localhost", host]
    assert ingress["spec"]["tls"][0]["hosts"] == [host]
    assert policy["spec"]["egress"] == []


def test_a_pod_is_no_root_writes_into_tmp_alone_and_is_asked_whether_it_is_well():
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    ids = (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"])
    assert f"{ids[0]}:{ids[1]}" == image.values("USER")[-1]
    own = container["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]  # noqa: S108
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/_stcore/health"
        assert container[probe]["httpGet"]["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


# --- compose --------------------------------------------------------------------------------------------------------


def test_the_compose_file_fits_its_schema():
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*checker, str(DEPLOY / "compose.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_copies_of_the_compose_file_are_those_of_nginx_and_each_has_its_own_address():
    text = nginx.CONFIGURATION.read_text()
    assert re.findall(r"server (\w+):8501 ", text) == sorted(COPIES)
    assert len({service["networks"]["inside"]["ipv4_address"] for service in COPIES.values()}) == len(COPIES) == 3
    assert COMPOSE["services"]["nginx"]["depends_on"] == {name: {"condition": "service_healthy"} for name in COPIES}
    assert COMPOSE["networks"]["inside"]["internal"] is True


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_no_service_may_more_than_it_must(name: str):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"privileged", "cap_add", "pid", "network_mode"} & service.keys() == set()
    assert "mem_limit" in service
    assert ("ports" in service) is (name == "nginx")


def test_what_nginx_is_given_is_there_and_is_what_it_reads():
    service = COMPOSE["services"]["nginx"]
    configuration, certificates = (volume.split(":") for volume in service["volumes"])
    assert (DEPLOY / configuration[0]).resolve() == nginx.CONFIGURATION
    assert configuration[1] in service["command"]
    assert certificates[1] == "/etc/nginx/tls"
    assert service["ports"] == ["80:8080", "443:8443"]
    assert "listen 8080 " in nginx.CONFIGURATION.read_text()
    assert "listen 8443 ssl;" in (DEPLOY / "tls.conf").read_text()


# --- packages -------------------------------------------------------------------------------------------------------


def locked() -> Iterator[tuple[Requirement, list[str]]]:
    """Each requirement of the lock with its hashes."""
    for line in LOCK.read_text().replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split(" --hash=")
            yield Requirement(requirement.strip()), [each.strip() for each in hashes]


def test_every_line_of_the_lock_is_one_version_with_the_hashes_of_its_files():
    for requirement, hashes in locked():
        assert requirement.url or re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement


def test_the_lock_is_that_of_the_app():
    asked = [Requirement(line) for line in (server.ROOT / "requirements.txt").read_text().split()]
    found = {canonicalize_name(requirement.name): requirement for requirement, _ in locked()}
    for requirement in asked:
        entry = found[canonicalize_name(requirement.name)]
        if requirement.name == "torch":
            assert f"/torch-{str(requirement.specifier)[2:]}%2Bcpu-cp311-" in str(entry.url)
        else:
            assert entry.specifier == requirement.specifier
    assert closure([requirement.name for requirement in asked]) <= found.keys()


def closure(names: list[str]) -> set[str]:
    """These packages and all that they need, as they are installed."""
    found: set[str] = set()
    while names:
        name = canonicalize_name(names.pop())
        if name in found:
            continue
        found.add(name)
        needs = map(Requirement, importlib.metadata.requires(name) or ())
        names += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


def test_pytorch_comes_as_the_cpu_build_for_both_kinds_of_server_and_from_its_own_address():
    torches = [requirement for requirement, _ in locked() if requirement.name == "torch"]
    assert {str(torch.marker) for torch in torches} == {
        'platform_machine == "x86_64"',
        'platform_machine == "aarch64"',
    }
    assert all(str(torch.url).startswith("https://download.pytorch.org/whl/cpu/") for torch in torches)
    assert "index-url" not in LOCK.read_text()
