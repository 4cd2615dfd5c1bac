"""kubectl apply, create, edit, patch, label, scale, delete, wait, diff, replace, set."""

from __future__ import annotations

import pytest

from contract.driver import Space
from contract.kubectl import Kubectl

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: x}}
data: {%s}
"""
QUIET = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: quiet}
spec:
  replicas: 0
  paused: true
  selector: {matchLabels: {app: quiet}}
  template:
    metadata: {labels: {app: quiet}}
    spec:
      containers: [{name: main, image: "redis:7.0"}, {name: side, image: "side:1"}]
"""


def settings(**data: str) -> str:
    return SETTINGS % ", ".join(f"{name}: {value}" for name, value in data.items())


def test_client_side_apply(kubectl: Kubectl) -> None:
    kubectl.run("apply -f -", given=settings(k="v", l="v"))
    kubectl.run("apply -f -", given=settings(k="v", l="v"))
    kubectl.run("apply -f -", given=settings(k="w"))
    kubectl.run("get cm settings -o jsonpath={.data}")
    kubectl.run("apply -f - --dry-run=server", given=settings(k="x"))
    kubectl.run("apply -f - --dry-run=server -o yaml", given=settings(k="x"))
    kubectl.run("apply view-last-applied cm settings")
    kubectl.run("get cm settings -o yaml --show-managed-fields")
    kubectl.run("apply -f -", given=settings(k="v") + "odd: 1\n")
    kubectl.run("apply -f -", given=settings(k="v").replace("settings", "Bad_Name"))
    kubectl.run("apply -f - --validate=false", given=settings(k="v") + "odd: 1\n")
    kubectl.compare("apply-client-side")


def test_client_side_apply_of_a_workload(kubectl: Kubectl) -> None:
    kubectl.run("apply -f -", given=QUIET)
    kubectl.run("apply -f -", given=QUIET)
    kubectl.run("apply -f -", given=QUIET.replace("redis:7.0", "redis:7.2"))
    kubectl.run("apply -f -", given=QUIET.replace(', {name: side, image: "side:1"}', ""))
    kubectl.run("get deployment quiet -o jsonpath={.spec.template.spec.containers[*].image}")
    kubectl.run("apply -f -", given=QUIET.replace("app: quiet", "app: other"))
    kubectl.compare("apply-workload")


def test_server_side_apply(kubectl: Kubectl) -> None:
    kubectl.run("apply --server-side -f -", given=settings(k="v", l="v"))
    kubectl.run("apply --server-side -f -", given=settings(k="v", l="v"))
    kubectl.run("apply --server-side -f - --field-manager=other", given=settings(k="w"))
    kubectl.run(
        "apply --server-side -f - --field-manager=other --force-conflicts", given=settings(k="w")
    )
    kubectl.run("apply --server-side -f -", given=settings(l="v"))
    kubectl.run("get cm settings -o jsonpath={.data}")
    kubectl.run("get cm settings -o yaml --show-managed-fields")
    kubectl.run("apply --server-side -f -", given=settings(k="v") + "odd: 1\n")
    kubectl.compare("apply-server-side")


def test_server_side_apply_takes_over_client_side_apply(kubectl: Kubectl) -> None:
    kubectl.run("apply -f -", given=settings(k="v", l="v"))
    kubectl.run("apply --server-side -f -", given=settings(k="w"))
    kubectl.run("get cm settings -o yaml --show-managed-fields")
    kubectl.run("apply -f -", given=settings(k="x"))
    kubectl.run("get cm settings -o jsonpath={.data}")
    kubectl.compare("apply-migration")


CREATES = [
    "create configmap c --from-literal=k=v --from-literal=l=w",
    "create secret generic s --from-literal=k=v",
    "create secret docker-registry d --docker-server=x --docker-username=u --docker-password=p",
    "create serviceaccount robot",
    "create role r --verb=get,list --resource=pods,configmaps",
    "create rolebinding b --role=r --serviceaccount=default:robot",
    "create clusterrole contract-x --verb=get --resource=nodes --dry-run=server",
    "create clusterrolebinding contract-x --clusterrole=view --user=u --dry-run=server",
    "create deployment d --image=redis:7.0 --replicas=0",
    "create job j --image=redis:7.0 --dry-run=server -o jsonpath={.spec.backoffLimit}",
    "create poddisruptionbudget p --selector=app=a --min-available=1",
    "create quota q --hard=configmaps=100",
    "create service clusterip sc --tcp=80:8080",
    "create service clusterip sh --clusterip=None",
    "create service nodeport sn --tcp=80",
    "create service externalname se --external-name=x.y",
    "create namespace contract-dry --dry-run=server",
    "create token robot",
    "create configmap c",
    "create configmap c2 --from-literal=k=v --dry-run=client -o yaml",
    "run once --image=redis:7.0 --dry-run=server",
    "expose deployment d --port=6379",
]


def test_create_of_typed_kinds(kubectl: Kubectl, space: Space) -> None:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    for line in CREATES:
        kubectl.run(line)
    for line in (
        "get role r -o yaml",
        "get deployment d -o jsonpath={.spec.strategy}",
        "get pdb",
        "get svc sc sh se",
        "get secret d -o jsonpath={.type}",
    ):
        kubectl.run(line)
    kubectl.compare("create")


def test_create_from_a_file(kubectl: Kubectl) -> None:
    kubectl.run("create -f -", given=settings(k="v"))
    kubectl.run("create -f -", given=settings(k="v"))
    kubectl.run("create -f -", given="apiVersion: v1\nkind: Nonsense\nmetadata: {name: a}\n")
    kubectl.run("create -f -", given="nonsense")
    kubectl.compare("create-file")


def test_edit(kubectl: Kubectl) -> None:
    kubectl.quiet("create -f -", given=settings(k="v"))
    kubectl.run("edit cm settings", env={"KUBE_EDITOR": "sed -i s/k:.v/k:\\ changed/"})
    kubectl.run("get cm settings -o jsonpath={.data}")
    kubectl.run("edit cm settings", env={"KUBE_EDITOR": "true"})
    kubectl.run("edit cm none", env={"KUBE_EDITOR": "true"})
    kubectl.compare("edit")


def test_patch(kubectl: Kubectl) -> None:
    kubectl.quiet("apply -f -", given=QUIET)
    image = '{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"redis:8"}]}}}}'
    pod = "get deployment quiet -o jsonpath={.spec.template.spec.containers[*].image}"
    kubectl.run("patch deployment quiet", words=("-p", image))
    kubectl.run(pod)
    kubectl.run("patch deployment quiet", words=("-p", image))
    kubectl.run(
        "patch deployment quiet --type=json",
        words=("-p", '[{"op":"remove","path":"/spec/template/spec/containers/1"}]'),
    )
    kubectl.run(pod)
    kubectl.run(
        "patch deployment quiet --type=merge", words=("-p", '{"spec":{"minReadySeconds":5}}')
    )
    kubectl.run("get deployment quiet -o jsonpath={.spec.minReadySeconds}")
    kubectl.run(
        "patch deployment quiet --type=json", words=("-p", '[{"op":"remove","path":"/none"}]')
    )
    kubectl.run("patch deployment quiet", words=("-p", '{"spec":{"replicas":"x"}}'))
    kubectl.run("patch deployment none", words=("-p", "{}"))
    kubectl.compare("patch")


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl.quiet("create -f -", given=settings(k="v"))
    for line in (
        "label cm settings tier=db",
        "label cm settings tier=db",
        "label cm settings tier=web",
        "label cm settings tier=web --overwrite",
        "label cm settings tier-",
        "label cm settings none-",
        "label cm -l app=x all=yes",
        "label cm settings bad!key=v",
        "annotate cm settings note=hello",
        "annotate cm settings note=bye",
        "annotate cm settings note=bye --overwrite",
        "annotate cm settings note-",
        "get cm settings -o jsonpath={.metadata.labels}",
    ):
        kubectl.run(line)
    kubectl.compare("label")


def test_scale_and_set(kubectl: Kubectl) -> None:
    kubectl.quiet("apply -f -", given=QUIET)
    for line in (
        "scale deployment quiet --replicas=3",
        "scale deployment quiet --replicas=3",
        "scale deployment quiet --current-replicas=9 --replicas=1",
        "scale deployment/quiet --replicas=0",
        "get deployment quiet -o jsonpath={.spec.replicas}",
        "set image deployment/quiet main=redis:8",
        "set env deployment/quiet A=b",
        "set env deployment/quiet A-",
        "set resources deployment quiet -c=main --limits=memory=64Mi",
        "get deployment quiet -o jsonpath={.spec.template.spec.containers[0].resources}",
        "rollout pause deployment quiet",
        "rollout resume deployment quiet",
        "rollout pause deployment quiet",
        "scale deployment none --replicas=1",
        "scale cm none --replicas=1",
    ):
        kubectl.run(line)
    kubectl.compare("scale-set")


@pytest.mark.parametrize("case", ["delete"])
def test_delete(kubectl: Kubectl, space: Space, case: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        space.create("secrets", {"metadata": {"name": name, "labels": {"n": name}}})
    space.create("secrets", {"metadata": {"name": "held", "finalizers": ["contract.test/hold"]}})
    for line in (
        "delete secret a",
        "delete secret a",
        "delete secret a --ignore-not-found",
        "delete secret -l n=b",
        "delete secret/c --wait=false",
        "delete secret d --dry-run=server",
        "delete secret d --cascade=background",
        "delete secret e --now",
        "delete secret held --wait=false",
        "delete secret held --timeout=1s",
        "get secret held -o jsonpath={.metadata.finalizers}",
        "delete secret",
    ):
        kubectl.run(line)
    space.patch("secrets/held", {"metadata": {"finalizers": None}}).done()
    kubectl.run("delete secret --all")
    kubectl.compare(case)


def test_delete_a_pod(kubectl: Kubectl, space: Space) -> None:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    quiet = {"schedulerName": "nobody", "automountServiceAccountToken": False}
    spec = {**quiet, "containers": [{"name": "main", "image": "redis:7.0"}]}
    for name in ("a", "b", "c"):
        space.create("pods", {"metadata": {"name": name}, "spec": spec})
    kubectl.run("delete pod a")
    kubectl.run("delete pod b --grace-period=0 --force")
    kubectl.run("delete pod c --grace-period=5")
    kubectl.run("get pods")
    kubectl.compare("delete-pod")


def test_wait(kubectl: Kubectl, space: Space) -> None:
    kubectl.quiet("create -f -", given=settings(k="v"))
    for line in (
        "wait --for=jsonpath={.data.k}=v cm/settings --timeout=5s",
        "wait --for=jsonpath={.data.k}=w cm/settings --timeout=1s",
        "wait --for=create cm/settings --timeout=5s",
        "wait --for=delete cm/none --timeout=5s",
        "wait --for=condition=Ready cm/none --timeout=1s",
    ):
        kubectl.run(line)
    kubectl.compare("wait")


def test_diff(kubectl: Kubectl) -> None:
    kubectl.quiet("apply -f -", given=settings(k="v"))
    external = {"KUBECTL_EXTERNAL_DIFF": "diff -U0 -N"}
    kubectl.run("diff -f -", given=settings(k="v"), env=external)
    kubectl.run("diff -f -", given=settings(k="w"), env=external)
    kubectl.run("diff --server-side -f -", given=settings(k="v", l="new"), env=external)
    kubectl.compare("diff")


def test_replace(kubectl: Kubectl) -> None:
    kubectl.run("replace -f -", given=settings(k="v"))
    kubectl.quiet("create -f -", given=settings(k="v"))
    kubectl.run("replace -f -", given=settings(k="w"))
    kubectl.run("replace --force -f -", given=settings(k="x"))
    kubectl.run("get cm settings -o jsonpath={.data}")
    kubectl.compare("replace")


NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {kubernetes.io/hostname: NAME}}
spec: {taints: [{key: contract.test/none, effect: NoSchedule}]}
"""


def test_nodes_are_cordoned_and_tainted(kubectl: Kubectl, unique: str) -> None:
    name = f"node-{unique}.contract.test"
    kubectl.words["contract-node"] = name
    kubectl.quiet("create -f -", given=NODE.replace("NAME", name))
    try:
        for line in (
            f"cordon {name}",
            f"cordon {name}",
            f"get node {name} -o jsonpath={{.spec.unschedulable}}",
            f"uncordon {name}",
            f"taint node {name} role=db:NoSchedule",
            f"taint node {name} role=db:NoSchedule",
            f"taint node {name} role:NoSchedule-",
            f"label node {name} disk=fast",
        ):
            kubectl.run(line)
    finally:
        kubectl.run(f"delete node {name}")
    kubectl.compare("nodes")
