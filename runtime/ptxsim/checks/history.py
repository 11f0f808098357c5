"""Tracks, at level 3, which agent knows of which accesses to shared memory: happens-before over lanes and
what they start.

Agents are the lanes of a block and the asynchronous operations beside them: for every warp its part of the products of its
warpgroup (each warp reads the operands on its own, and waits for its own part only), bulk copies out of shared memory, and
bulk copies into it, by the mbarrier that counts their bytes. Every agent stamps its accesses. `known[lane, agent]` is the last
stamp of an agent whose accesses happen before the lane's next ones. All lanes of a warp take their stamps from one counter,
which advances whenever one of them publishes what it knows. So a lane that arrives at an mbarrier publishes its own accesses,
and those of the lanes beside it only as far as it has synchronised with them (bar.warp.sync, bar.sync): `.sync` of shuffles,
matrix loads and wgmma makes lanes converge, but orders no memory.

For every byte there are: its last writer with the stamp; `visible`, the stamp of the fence.proxy.async by which the writer made
it visible to the asynchronous proxy; and for every warp the stamp and the lane of its last reads.

Source: C. Flanagan, S. N. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009; PTX ISA, "Memory
Consistency Model: Causality Order, Proxies", "Async proxy".
"""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array

OWN = 1 << 30
"""The stamp up to which a lane knows itself: all of its accesses."""
PENDING = OWN - 1
"""The stamp of a cp.async that has not been waited for: only the lane itself knows of it."""
UNFENCED = OWN + 1
"""The mark of bytes that ordinary stores wrote and no fence has made visible to the asynchronous proxy since."""
MANY = -1
"""Stands for several lanes of the warp, in place of one lane."""
STORES = 4
"""How many agents there are for bulk copies out of shared memory; lanes that start some share them round-robin."""
OBJECTS = 64
"""How many agents there are for mbarriers."""


class History:
    """The access history of one block with `lanes` threads and `size` bytes of shared memory."""

    def __init__(self, lanes: int, size: int) -> None:
        warps = lanes // 32
        self.lanes, self.warps = lanes, warps
        self.products, self.stores, self.objects = lanes, lanes + warps, lanes + warps + STORES
        agents = self.objects + OBJECTS
        self.warp = np.arange(lanes) // 32
        self.known = np.zeros((lanes, agents), np.int32)
        self.known[np.arange(lanes), np.arange(lanes)] = OWN
        self.readers = 2 * warps + STORES
        self.least = np.zeros((lanes, self.readers), np.int32)
        """What a lane knows of all lanes of each warp (the least stamp), and of each other agent that reads."""
        self.stamp = np.ones(warps, np.int32)
        self.started = np.zeros(agents, np.int32)
        self.writer = np.zeros(size, np.int32)
        self.written = np.zeros(size, np.int32)
        self.visible = np.zeros(size, np.int32)
        self.write_line = np.zeros(size, np.int32)
        self.read = np.zeros((size, self.readers), np.int32)
        self.read_lane = np.zeros((size, self.readers), np.int16)
        self.read_line = np.zeros(size, np.int32)
        self.addresses: dict[tuple[str, int], Array] = {}
        self._columns: dict[int, int] = {}
        self._storing: dict[int, int] = {}

    # -- what lanes learn

    def publish(self, lanes: Array) -> Array:
        """Returns the joint knowledge and accesses of these lanes; their later accesses are not part of it."""
        rows = self.known[lanes]
        rows[np.arange(lanes.size), lanes] = self.stamp[self.warp[lanes]]
        self.stamp[np.unique(self.warp[lanes])] += 1
        return np.asarray(rows.max(0))

    def learn(self, lanes: Array, row: Array) -> None:
        self.known[lanes] = np.maximum(self.known[lanes], row)
        self._refresh(lanes)

    def learn_one(self, lanes: Array, agent: int, stamp: int) -> None:
        self.known[lanes, agent] = np.maximum(self.known[lanes, agent], stamp)
        self._refresh(lanes)

    def _refresh(self, lanes: Array) -> None:
        rows = self.known[lanes]
        self.least[lanes, : self.warps] = rows[:, : self.lanes].reshape(lanes.size, self.warps, 32).min(2)
        self.least[lanes, self.warps :] = rows[:, self.products : self.objects]

    def meet(self, lanes: Array) -> None:
        """Joins the knowledge of these lanes at a barrier: all accesses before it happen before all accesses
        after it."""
        self.learn(lanes, self.publish(lanes))

    def column(self, offset: int) -> int:
        """Returns the agent of the copies that an mbarrier counts."""
        found = self._columns.get(offset)
        if found is None:
            found = self._columns[offset] = self.objects + len(self._columns) % OBJECTS
        return found

    def store_agent(self, lane: int) -> int:
        """Returns the agent of the bulk copies out of shared memory that a lane starts."""
        found = self._storing.get(lane)
        if found is None:
            found = self._storing[lane] = self.stores + len(self._storing) % STORES
        return found

    # -- accesses

    def race_with_write(self, offsets: Array, known: Array) -> Array:
        """Returns which of these bytes have a last write that is not `known`; for asynchronous accesses."""
        return np.flatnonzero(self.written[offsets] > known[self.writer[offsets]])

    def race_with_read(self, offsets: Array, lane: int) -> tuple[Array, Array]:
        """Returns `lanes_race_with_read` for an asynchronous access that a lane starts."""
        return self.lanes_race_with_read(offsets, np.full(offsets.size, lane))

    def lanes_race_with_write(self, offsets: Array, lanes: Array) -> Array:
        """Returns which of these bytes, one for each of the lanes, have a last write that the lane does not
        know of."""
        return np.flatnonzero(self.written[offsets] > self.known[lanes, self.writer[offsets]])

    def lanes_race_with_read(self, offsets: Array, lanes: Array) -> tuple[Array, Array]:
        """Returns which of these bytes, one for each of the lanes, have a read that the lane does not know
        of, and the readers."""
        late = self.read[offsets] > self.least[lanes]
        if not np.count_nonzero(late):
            return _NOTHING, _NOTHING
        which, reader = np.nonzero(late)
        offset, lane = offsets[which], lanes[which]
        one = self.read_lane[offset, reader]
        single = (reader < self.warps) & (one != MANY)
        other = np.where(single, 32 * reader + one, 0)
        harmless = single & (self.read[offset, reader] <= self.known[lane, other])
        return which[~harmless], reader[~harmless]

    def wrote(self, offsets: Array, agents: Array | int, stamps: Array | int, line: int, fenced: bool) -> None:
        self.writer[offsets] = agents
        self.written[offsets] = stamps
        self.visible[offsets] = 0 if fenced else UNFENCED
        self.write_line[offsets] = line

    def lanes_wrote(self, offsets: Array, lanes: Array, line: int) -> None:
        self.wrote(offsets, lanes, self.stamp[self.warp[lanes]], line, False)

    def lanes_read(self, offsets: Array, lanes: Array, line: int) -> None:
        warp = self.warp[lanes]
        at, lane = offsets * self.readers + warp, (lanes & 31).astype(np.int16)
        stamps, readers = self.read.reshape(-1), self.read_lane.reshape(-1)
        now = self.stamp[warp]
        many = (stamps[at] == now) & (readers[at] != lane)
        stamps[at] = now
        readers[at] = lane
        many |= readers[at] != lane
        readers[at[many]] = MANY
        self.read_line[offsets] = line

    def agent_read(self, offsets: Array, agent: int, line: int) -> int:
        """Starts an asynchronous read; returns its stamp, which a lane that has waited for the read knows."""
        self.started[agent] += 1
        self.read[offsets, agent - self.products + self.warps] = self.started[agent]
        self.read_line[offsets] = line
        return int(self.started[agent])

    def landed(self, offsets: Array, lanes: Array) -> None:
        """Marks bytes that cp.async has written as written now by the lanes that waited for them."""
        here = (self.writer[offsets] == lanes) & (self.written[offsets] == PENDING)
        self.written[offsets[here]] = self.stamp[self.warp[lanes[here]]]

    # -- the asynchronous proxy

    def fence(self, lanes: Array) -> None:
        """Executes fence.proxy.async: bytes that these lanes have written become visible to the asynchronous
        proxy, for accesses that know of the fence."""
        offsets = np.flatnonzero(self.visible == UNFENCED)
        fencing = np.zeros(self.objects + OBJECTS, np.bool_)
        fencing[lanes] = True
        offsets = offsets[fencing[self.writer[offsets]] & (self.written[offsets] != PENDING)]
        self.visible[offsets] = self.stamp[self.warp[self.writer[offsets]]]

    def invisible(self, offsets: Array, known: Array) -> Array:
        """Returns which of these bytes ordinary stores wrote without a fence that is known."""
        return np.flatnonzero(self.visible[offsets] > known[self.writer[offsets]])


_NOTHING = np.zeros(0, np.int64)
