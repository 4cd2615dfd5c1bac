"""An operator in one file: each Website gets a ConfigMap with its page, and a status."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import field

import kubecontroller as kc
from kubecontroller.client.objects import CONFIG_MAPS


class Website(kc.Projected, frozen=True):
    """The fields of a Website that we read."""

    spec: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] | None = None


WEBSITES = kc.Kind("example.dev", "v1", "Website", "websites", True, Website)


async def main(**options: Any) -> None:
    """Watch Websites and the ConfigMaps that they own, and reconcile them."""
    manager = kc.Manager.connected(kc.load(), name="website-operator", **options)
    sites = manager.caches(WEBSITES)
    pages = manager.caches(CONFIG_MAPS, labels="app=website")
    builder = kc.ControllerBuilder(manager, "website", sites).owns(pages)
    applier = builder.applier()

    async def reconcile(key: kc.Key) -> kc.Outcome:
        site = sites.get(key)
        if site is None or site.metadata.is_deleting:
            return kc.Done()  # the garbage collector deletes its page
        html = f"<h1>{site.spec['title']}</h1>"
        page = {
            "metadata": {"namespace": key[0], "name": key[1], "labels": {"app": "website"}},
            "data": {"index.html": html},
        }
        await applier.apply_owned(
            CONFIG_MAPS, page, owner_kind=WEBSITES, owner=site, observed=pages.get(key)
        )
        await applier.apply_status(WEBSITES, key, {"page": html}, observed=site.status)
        return kc.Done()

    builder.add(reconcile, workers=4)
    await manager.run()


if __name__ == "__main__":
    kc.set_up()
    sys.exit(kc.run_process(main))
