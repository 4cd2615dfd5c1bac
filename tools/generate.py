"""Write what is made from code: CRDs, reference, rights, installation, chart, golden manifests.

`make generate` runs it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from redis_operator.api.crd import crds, redisoperator_crd
from redis_operator.api.redis import Redis
from redis_operator.api.reference import reference
from redis_operator.api.validation import load
from redis_operator.api.version import find_version
from redis_operator.install.admission import deletion_protection
from redis_operator.install.chart import chart
from redis_operator.install.managed.lifecycle import redisoperator
from redis_operator.install.managed.objects import installer_objects
from redis_operator.install.objects import MONITORING_KINDS, objects
from redis_operator.install.options import Options
from redis_operator.install.rendering import to_stream, to_yaml
from redis_operator.install.rights import cluster_role, election_role, namespaced_role
from redis_operator.manifests.build import build
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.manifests.users import BACKUP, USERS
from redis_operator.redis.versions import parse_version
from redis_operator.translation.translate import translate

ROOT = Path(__file__).parent.parent
HEADER = "# Made by `make generate` from src/redis_operator; do not edit.\n"
RIGHTS = {
    "operator.yaml": (
        "What an operator of the whole cluster may do, and nothing else.",
        cluster_role(),
    ),
    "namespaced.yaml": (
        "For an operator of some namespaces only (--namespaces): bind it in each of them.",
        namespaced_role(),
    ),
    "namespaced-cluster.yaml": (
        "For the same operator, in the whole cluster: bind it with a ClusterRoleBinding.",
        cluster_role(databases=False),
    ),
    "election.yaml": (
        "In the operator's own namespace: which of several works. Not with --no-election.",
        election_role(),
    ),
}
POLICY = """\
# Refuses to delete a database whose spec.deletion.protected is true, in whatever way it is asked.
# Not the deletion of its namespace, which takes pods, claims and Secrets away around it.
# Needs Kubernetes 1.30 or later.
"""
INSTALL = """\
# The whole operator for kubectl apply --server-side -f, as `redis-operator install --print` says.
# Set the image of the Deployment to where yours is: docs/install.md.
"""
MONITORING = """\
# Beside install.yaml, where the Prometheus Operator is: how it finds the operator and exporters,
# and alerts (docs/monitoring.md). Add the labels that your Prometheus selects by.
"""
INSTALLER = """\
# The other way to install: an installer that follows a RedisOperator (redisoperator.yaml), which is
# applied after it. Set the image of the Deployment to where yours is: docs/install.md.
"""
DESCRIBED = """\
# What the installer is to install. Set the image to where yours is: docs/install.md.
"""


def example(path: Path) -> Redis:
    """The database of an example, as the API server would give it to the operator."""
    raw = yaml.safe_load(path.read_text())
    if raw["kind"] == "RedisFailover":
        translated = translate(raw)
        if not isinstance(translated, dict):
            raise SystemExit(f"{path.name}: " + "; ".join(map(str, translated)))
        raw = translated
    redis = load(raw)
    if not isinstance(redis, Redis):
        raise SystemExit(f"{path.name}: " + "; ".join(map(str, redis)))
    metadata = msgspec.structs.replace(redis.metadata, namespace="default", uid="the-uid")
    return msgspec.structs.replace(redis, metadata=metadata)


def facts_of(redis: Redis) -> Facts:
    """Facts for an example: its version's image, and passwords that are none."""
    entry = find_version(redis.spec)
    if isinstance(entry, str):
        raise SystemExit(entry)
    version = parse_version(entry.engine.value, entry.version)
    if version is None:
        raise SystemExit(f"{entry.version} is not a version")
    words = {user: f"the-{user}-password" for user in USERS if user != BACKUP}
    return Facts(
        version=version,
        image=entry.image,
        exporter_image=entry.exporter_image,
        passwords=msgspec.convert(words, Passwords),
        operator_namespace="redis-operator",
    )


def golden(path: Path) -> str:
    """All objects of an example as one file."""
    redis = example(path)
    return HEADER + "".join(f"---\n{to_yaml(o)}" for o in build(redis, facts_of(redis)))


def generated() -> dict[Path, str]:
    """Every generated file with its content."""
    found = {ROOT / "config" / "crd" / name: HEADER + to_yaml(crd) for name, crd in crds().items()}
    for crd in (*crds().values(), redisoperator_crd()):
        page = ROOT / "docs" / "reference" / f"{crd['spec']['names']['kind'].lower()}.md"
        found[page] = reference(crd)
    for name, (about, role) in RIGHTS.items():
        found[ROOT / "config" / "rbac" / name] = f"{HEADER}# {about}\n{to_yaml(role)}"
    policy = to_stream(deletion_protection())
    found[ROOT / "config" / "admission" / "deletion-protection.yaml"] = f"{HEADER}{POLICY}{policy}"
    made = objects(Options())
    plain = to_stream(one for one in made if one["kind"] not in MONITORING_KINDS)
    found[ROOT / "config" / "install.yaml"] = f"{HEADER}{INSTALL}{plain}"
    monitored = to_stream(one for one in made if one["kind"] in MONITORING_KINDS)
    found[ROOT / "config" / "monitoring.yaml"] = f"{HEADER}{MONITORING}{monitored}"
    installer = to_stream(installer_objects(Options()))
    found[ROOT / "config" / "installer.yaml"] = f"{HEADER}{INSTALLER}{installer}"
    described = to_yaml(redisoperator(Options()))
    found[ROOT / "config" / "redisoperator.yaml"] = f"{HEADER}{DESCRIBED}{described}"
    for name, text in chart().items():
        header = HEADER if name.endswith(".yaml") else ""
        found[ROOT / "charts" / "redis-operator" / name] = header + text
    examples = (
        p
        for p in (ROOT / "examples").glob("*.yaml")
        if not p.stem.startswith(("version", "backup", "restore"))
    )
    for path in sorted(examples):
        found[ROOT / "tests" / "golden" / path.name] = golden(path)
    return found


def main() -> None:
    """Write what is missing or different, and say so."""
    for path, text in generated().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
