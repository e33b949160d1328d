"""Who is answered when a publication is ordered."""

from typing import cast

from ithaca.engines.belfast.server.orderer.publishing import Asked, WaitingRequests
from ithaca.engines.belfast.speculation.outcomes import PublicationReserved
from ithaca.engines.scalog.ordering.prepared.entries import Publish
from ithaca.model.parts import Published

BASE = 2_048_001
NOTHING = Publish("", 0, "", (), 1)
RECORDS = Publish("", 0, "", (), 2)
OTHER = Publish("loader", 7, "owner", (), 3)


def asked(name: str) -> Asked:
    return cast(Asked, (name, "a request"))


def test_a_publication_of_nothing_is_not_taken_for_the_next_one_at_its_position() -> None:
    waiting = WaitingRequests()
    waiting.add(NOTHING, PublicationReserved(BASE, 0), asked("nothing"))
    waiting.add(RECORDS, PublicationReserved(BASE, 3), asked("records"))
    waiting.add(RECORDS, PublicationReserved(BASE, 3), asked("records, once more"))
    assert waiting.take(Published("", 0, "", BASE, 0)) == [asked("nothing")]
    assert waiting.take(Published("", 0, "", BASE, 3)) == [asked("records"), asked("records, once more")]
    assert waiting.take(Published("", 0, "", BASE, 3)) == []


def test_of_two_writers_that_publish_nothing_each_is_told_of_its_own() -> None:
    waiting = WaitingRequests()
    waiting.add(NOTHING, PublicationReserved(BASE, 0), asked("nothing"))
    waiting.add(OTHER, PublicationReserved(BASE, 0), asked("other"))
    assert waiting.take(Published("loader", 7, "owner", BASE, 0)) == [asked("other")]
    assert waiting.take_all() == [asked("nothing")]
    assert waiting.take_all() == []
