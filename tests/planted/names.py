"""Planted bugs of names and of what is renewed: sessions, publications without a writer, parts under way."""

from tests.planted.bug import Bug

NAMES = (
    Bug(
        "names-lane-keeps-the-dead",
        "a lane's copies keep every session that ever was there, until those that live are dropped",
        "ithaca.storage.sessions",
        "        self._by_id.pop(producer_id, None)\n        self._gone[producer_id] = None\n",
        "        self._gone[producer_id] = None\n",
    ),
    Bug(
        "names-lane-forgets-the-idle",
        "a copy that joins the order again forgets the sessions that are at home in a lane",
        "ithaca.storage.sessions",
        "return end_lsn <= self._listed_lsn and producer_id not in self._at_home",
        "return end_lsn <= self._listed_lsn",
        needs=lambda drawn: drawn.session_churners > 0,
    ),
    Bug(
        "names-expired-though-opened-again",
        "an expiry that was meant for an earlier epoch forgets a session that was opened again",
        "ithaca.engines.scalog.ordering.sessions",
        """            return [RefusedEntry(entry, "the session was opened again")]
        return [self._expired(session)]""",
        "            pass\n        return [self._expired(session)]",
    ),
    Bug(
        "names-full-for-plain-appends",
        "when all names are taken, sessions of plain appends are refused as well",
        "ithaca.engines.scalog.ordering.sessions",
        "return name.startswith(ANONYMOUS) or self.named < ORDERING_NAMED_SESSIONS_MAX",
        "return self.named < ORDERING_NAMED_SESSIONS_MAX",
        needs=lambda drawn: drawn.session_churners > 0,
    ),
    Bug(
        "names-make-room",
        "a named session goes when there is no room for another one",
        "ithaca.engines.scalog.ordering.sessions",
        "        if session.is_anonymous:\n            self._push_idle(session)",
        "        self._push_idle(session)",
        needs=lambda drawn: drawn.session_churners > 0,
    ),
    Bug(
        "names-active-ones-expire",
        "a session that only appends, and is not opened again, counts as idle",
        "ithaca.engines.scalog.ordering.decisions.names",
        "        if next_seq != session.seen_seq:",
        "        if session.seen_seq == 0:",
        needs=lambda drawn: drawn.session_idle_s > 0,
    ),
    Bug(
        "parts-once-not-known-again",
        "a publication without a writer that is asked for again is not known",
        "ithaca.engines.scalog.ordering.prepared.parts",
        "known = self.writers.answer(entry) if entry.writer else self._published_before(entry)",
        "known = self.writers.answer(entry)",
        needs=lambda drawn: drawn.publishers > 0,
    ),
    Bug(
        "parts-published-and-kept",
        "a part that was published still waits, and expires",
        "ithaca.engines.scalog.ordering.prepared.parts",
        "parts = [self._take(lane) for lane, _ in entry.parts]",
        "parts = [self.by_lane[lane] for lane, _ in entry.parts]",
        needs=lambda drawn: drawn.publishers > 0,
    ),
    Bug(
        "parts-not-renewed",
        "a renewal is acknowledged, and the part expires under its living writer",
        "ithaca.engines.scalog.ordering.prepared.parts",
        "until_us = max(part.until_us, time_us + entry.ttl_us)",
        "until_us = part.until_us",
        needs=lambda drawn: drawn.publishers > 0,
    ),
)
