"""What pages are told."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from salvit.web.events import Hub


def test_every_page_is_told_in_order_and_a_slow_one_is_told_to_load_anew():
    async def listen():
        hub = Hub(2)
        fast, slow = hub.listen(), hub.listen()
        await anext(fast), await anext(slow)
        assert hub.is_full
        hub.publish("job", {"n": 1})
        hub.publish("job", {"n": 2})
        assert await anext(fast) == 'event: job\ndata: {"n":1}\n\nevent: job\ndata: {"n":2}\n\n'
        for number in range(1000):
            hub.publish("job", {"n": number})
        told = await anext(slow)
        assert told.startswith("event: reload") and told.count("event:") <= 201
        await fast.aclose()
        assert not hub.is_full

    with ThreadPoolExecutor(1) as pool:  # another thread: the browser's tests have a loop in this one
        pool.submit(asyncio.run, listen()).result()
