"""An operator in one file: each Website gets a ConfigMap with its page, and a status."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import field

from kubecontroller.client.config import load
from kubecontroller.client.meta import Key, Projected
from kubecontroller.client.objects import CONFIG_MAPS
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime import Applier, Controller, Done, Manager, Outcome, Watch, run_process
from kubecontroller.runtime.logs import set_up
from kubecontroller.runtime.owners import owned
from kubecontroller.runtime.triggers import owner


class Website(Projected, frozen=True):
    """The fields of a Website that we read."""

    spec: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] | None = None


WEBSITES = Kind("example.dev", "v1", "Website", "websites", True, Website)


async def main(**options: Any) -> None:
    """Watch Websites and the ConfigMaps they own, and bring each to where it should be."""
    manager = Manager.connected(load(), name="website-operator", **options)
    sites = manager.informer(WEBSITES)
    pages = manager.informer(CONFIG_MAPS, labels="app=website")
    applier = Applier(manager.client, annotation="example.dev/stamp")

    async def reconcile(key: Key) -> Outcome:
        site = sites.cache.get(key)
        if site is None or site.metadata.is_deleting:
            return Done()  # its page is collected with it
        html = f"<h1>{site.spec['title']}</h1>"
        page = {
            "metadata": {"namespace": key[0], "name": key[1], "labels": {"app": "website"}},
            "data": {"index.html": html},
        }
        intent = owned(WEBSITES, site, page)
        await applier.apply(CONFIG_MAPS, intent, observed=pages.cache.get(key))
        await applier.apply_status(WEBSITES, key, {"page": html}, observed=site.status)
        return Done()

    watches = [Watch(sites), Watch(pages, owner(WEBSITES))]
    manager.add(Controller("website", reconcile, watches, workers=4))
    await manager.run()


if __name__ == "__main__":
    set_up()
    sys.exit(run_process(main))
