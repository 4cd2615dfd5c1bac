"""The example operator: killed in the middle, stopped gracefully, and with a standby."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.driver import Api, Space, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "website"
PROGRAM = """
import runpy, sys
from functools import partial
from kubecontroller import LeaseSettings, run_process
from kubecontroller.runtime import default_identity
from kubecontroller.runtime.logs import set_up

set_up()
main = runpy.run_path(sys.argv[1])["main"]
lease = LeaseSettings(
    sys.argv[2], "website-operator", default_identity(),
    duration=float(sys.argv[3]), renew_deadline=2.0, retry_period=0.4,
)
sys.exit(run_process(partial(main, lease=lease)))
"""
# Its kind has one name on a server that workers may share.
pytestmark = pytest.mark.xdist_group("websites")

SHORT, LONG = 3.0, 90.0  # seconds that a lease lasts

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def websites(api: Api) -> Iterator[None]:
    """The example's kind, defined as its users would."""
    definition = yaml.safe_load((EXAMPLE / "definition.yaml").read_text())
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.request("POST", path, definition).done()
    until("Websites are served", lambda: api.request("GET", "/apis/example.dev/v1").status == 200)
    yield
    api.request("DELETE", f"{path}/websites.example.dev")


@pytest.fixture
def place(space: Space, websites: None) -> Space:
    space.learn("websites", "example.dev/v1", "Website")
    return space


@pytest.fixture
def start(environment: dict[str, str], space: Space, tmp_path: Path) -> Iterator[Start]:
    """Start a replica of the example; all are ended at the end, by their own process id."""
    replicas: list[subprocess.Popen[bytes]] = []

    def begin(lease: float = SHORT) -> subprocess.Popen[bytes]:
        log = (tmp_path / f"replica-{len(replicas)}.log").open("wb")
        words = [str(EXAMPLE / "website.py"), space.name, str(lease)]
        program = [sys.executable, "-c", PROGRAM, *words]
        replicas.append(
            subprocess.Popen(program, env=environment, stdout=log, stderr=subprocess.STDOUT)
        )
        log.close()
        return replicas[-1]

    yield begin
    for replica in replicas:
        if replica.poll() is None:
            replica.kill()
        replica.wait(10)


def site(place: Space, name: str, title: str) -> None:
    place.create("websites", {"metadata": {"name": name}, "spec": {"title": title}})


def pages(place: Space) -> dict[str, str]:
    found = place.get("configmaps", labelSelector="app=website").object["items"]
    return {page["metadata"]["name"]: page["data"]["index.html"] for page in found}


def holder(place: Space) -> str:
    reply = place.get("leases/website-operator")
    return reply.object["spec"].get("holderIdentity") or "" if reply.status == 200 else ""


def change(place: Space, name: str, title: str) -> None:
    place.patch(f"websites/{name}", {"spec": {"title": title}}).done()


def test_a_website_gets_its_page_its_status_and_its_owner(place: Space, start: Start) -> None:
    start()
    site(place, "hello", "Hello")
    until("the page is there", lambda: pages(place) == {"hello": "<h1>Hello</h1>"})
    page, owner = place.read("configmaps/hello"), place.read("websites/hello")
    assert page["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    until(
        "the status says so",
        lambda: place.read("websites/hello").get("status") == {"page": "<h1>Hello</h1>"},
    )
    change(place, "hello", "Changed")
    until("the page follows", lambda: pages(place) == {"hello": "<h1>Changed</h1>"})
    place.delete("configmaps/hello").done()
    until("a page somebody deleted comes back", lambda: "hello" in pages(place))
    place.patch("configmaps/hello", {"data": {"index.html": "vandalised"}}).done()
    until("a page somebody changed is put right", lambda: "Changed" in pages(place)["hello"])


def test_an_operator_killed_in_the_middle_and_started_again_converges(
    place: Space, start: Start
) -> None:
    first = start()
    until("it leads", lambda: holder(place))
    for n in range(40):
        site(place, f"site-{n}", f"Site {n}")
        if n == 20:
            first.kill()  # in the middle of the work, without a word
    first.wait(10)
    change(place, "site-0", "changed while nobody looked")
    place.delete("websites/site-1").done()
    assert place.delete("configmaps/site-2").status in {200, 404}
    start()
    wanted = {f"site-{n}": f"<h1>Site {n}</h1>" for n in range(2, 40)}
    wanted["site-0"] = "<h1>changed while nobody looked</h1>"

    def converged() -> bool:
        have = pages(place)
        have.pop("site-1", None)  # collected with its owner, where somebody collects
        return have == wanted

    until("every website has its page", converged, seconds=30)


def test_a_standby_takes_over_when_the_lease_of_a_killed_leader_ends(
    place: Space, start: Start
) -> None:
    first = start()
    leader = until("the first leads", lambda: holder(place))
    start()
    site(place, "before", "Before")
    until("the first works", lambda: "before" in pages(place))
    time.sleep(1.0)  # let the standby look at the lease at least once
    first.kill()
    site(place, "after", "After")
    until("the standby works", lambda: "after" in pages(place), seconds=30)
    assert holder(place) != leader


def test_a_standby_takes_over_at_once_after_a_graceful_stop(place: Space, start: Start) -> None:
    first = start(lease=LONG)
    leader = until("the first leads", lambda: holder(place))
    start(lease=LONG)
    time.sleep(1.5)  # the standby is warm
    assert holder(place) == leader
    first.terminate()
    assert first.wait(15) == 0
    # Without the release it would take the whole lease.
    until("the standby leads", lambda: holder(place) not in {"", leader}, seconds=30)
    site(place, "after", "After")
    until("the standby works", lambda: "after" in pages(place))


def test_the_file_runs_as_it_is(place: Space, environment: dict[str, str]) -> None:
    site(place, "hello", "Hello")
    process: Any = subprocess.Popen([sys.executable, str(EXAMPLE / "website.py")], env=environment)
    try:
        until("the page is there", lambda: "hello" in pages(place))
        process.terminate()
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.wait(10)
    assert holder(place) == "", "the lease was given back"
