"""Every worker is replaced while people talk over sockets, steer, and platforms call: nothing is lost, and nobody sees more than a reconnect."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import pytest
from tests.channels.telegram.bot_api import serving
from tests.fleet.cluster import Cluster
from tests.fleet.model import ModelServer
from tests.fleet.postgres import running
from tests.fleet.test_cluster import NOTHING, Load

pytestmark = pytest.mark.deep
LENGTH = 60.0


async def replaced(cluster: Cluster, old: str, new: str) -> None:
    await cluster.start(new)
    gone = cluster.workers[old]
    gone.signal(signal.SIGTERM)
    assert await asyncio.to_thread(gone.process.wait, 300) == 0


async def test_all_workers_are_replaced_while_people_talk_over_sockets(tmp_path):
    with contextlib.closing(ModelServer()) as model, running() as server:
        async with serving() as api, Cluster(server.tcp(), tmp_path, model) as cluster:
            load = Load(cluster, api, LENGTH)
            await load.prepare()
            await cluster.start("old1", "old2")
            talking = asyncio.ensure_future(load.run())
            for number in (1, 2):
                await asyncio.sleep(LENGTH / 6)
                await replaced(cluster, f"old{number}", f"new{number}")
            await talking
            await load.answered()
            result = await asyncio.to_thread(load.check)
            waits = sorted(wait for _, wait in cluster.stalls)
            print(f"\n{len(waits)} messages: {result}, longest stall {waits[-1]:.1f} s; {cluster.slow}")  # noqa: T201
            assert result == NOTHING
            assert not cluster.refusals, "nobody hears more than that they are to come again"
