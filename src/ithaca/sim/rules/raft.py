"""What must hold of consensus: one leader of a term, one log, one group, and every promise kept."""

from ithaca.raft.core import RaftCore
from ithaca.raft.events import Role
from ithaca.raft.messages import Configuration, Snapshot
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.sim.host import Host
from ithaca.sim.violation import Violation


class RaftRules:
    """Remembers what was seen of every orderer, and compares."""

    def __init__(self) -> None:
        self._leaders: dict[int, str] = {}
        self._joined: set[str] = set()
        self._durable: dict[int, tuple[int, int]] = {}
        """Of each orderer: its term, and how much of its log was durable at some time in it."""
        self._configurations: dict[int, tuple[Configuration, str]] = {}
        """By the entry of the log that they stand in, or at which a snapshot was taken: who said so."""
        self._snapshots: dict[str, Snapshot] = {}
        """The last of each orderer that was looked at."""
        self.committed = 0
        """The last entry that any orderer has known to be committed."""
        self._terms: dict[int, tuple[int, str]] = {}
        """Of each entry that is committed: its term, and who said so."""
        self._checked: dict[str, tuple[int, int]] = {}
        """Of each orderer: its life, and up to where its committed entries were looked at."""
        self._votes: dict[str, tuple[int, int, int]] = {}
        """Of each orderer: its life, and the last term and vote that it took for durable; 0 for no vote."""

    def check(self, host: Host, driver: RaftDriver) -> None:
        """Something has happened to this orderer."""
        if driver.role is Role.LEADER:
            first = self._leaders.setdefault(driver.term, host.name)
            if first != host.name:
                raise Violation("one-leader", f"{first} and {host.name} both lead term {driver.term}")
        self._keeps_its_word(driver._core)
        self._is_counted(host, driver._core)
        self._same_log(host, driver._core)
        self._votes_once(host, driver._core)

    def _is_counted(self, host: Host, core: RaftCore) -> None:
        """Whoever waits to be added has voted for nobody; what is agreed of the members is the same everywhere."""
        membership = core.node.membership
        if membership.current.voters:
            self._joined.add(host.name)  # who drops what is not committed may lack the entry that added it for a while
        elif core.node.vote is not None and host.name not in self._joined:
            raise Violation("waiting", f"{host.name} waits to be added, and has voted for {core.node.vote}")
        for index, configuration in membership._history:
            if configuration.voters and index <= core.commit_index:
                known, who = self._configurations.setdefault(index, (configuration, host.name))
                if known != configuration:
                    said = f"after entry {index} the members are {known} at {who}"
                    raise Violation("one-group", f"{said}, and {configuration} at {host.name}")
        if self._snapshots.get(host.name) is not core.node.snapshot:
            self._snapshots[host.name] = core.node.snapshot
            self._says_who_was_agreed_on(host, core.node.snapshot)

    def _says_who_was_agreed_on(self, host: Host, snapshot: Snapshot) -> None:
        """A snapshot has the members that were agreed on at its entry, and not those of a change under way."""
        if not snapshot.configuration.voters:
            return  # of one that waits to be added
        index = max((index for index in self._configurations if index <= snapshot.index), default=None)
        if index is not None and self._configurations[index][0] != snapshot.configuration:
            said = f"{host.name} has a snapshot at entry {snapshot.index} with the members {snapshot.configuration}"
            known, who = self._configurations[index]
            raise Violation("one-group", f"{said}, and {known} were agreed on at {who}")

    def _keeps_its_word(self, core: RaftCore) -> None:
        """What a follower has told its leader that it has is on its disk: a term takes nothing of that back."""
        node = core.node
        term, durable = self._durable.get(node.id, (0, 0))
        has = max(node.persistence.index, node.snapshot.index)  # one that is on its way replaces what was on the disk
        if node.offered is not None:  # those who committed it are a majority without this one
            has = max(has, node.offered.index)
        self._durable[node.id] = (node.term, max(durable if term == node.term else 0, has))
        if core.leadership is None:
            return
        for server, progress in core.leadership.progress.items():
            term, durable = self._durable.get(server, (0, 0))
            if term == node.term and progress.match_index > durable:
                told = f"orderer {server} has said that it has entry {progress.match_index}"
                raise Violation("promised", f"{told}, and {durable} is the last one on its disk")

    def _same_log(self, host: Host, core: RaftCore) -> None:
        """An entry that is committed is the same for everybody, for ever."""
        node = core.node
        self.committed = max(self.committed, node.commit_index)
        life, done = self._checked.get(host.name, (0, 0))
        start = done if life == host.lives else node.snapshot.index
        self._checked[host.name] = host.lives, node.commit_index
        for index in range(start + 1, node.commit_index + 1):
            term = node.log.term_at(index)
            if term is not None:
                known, who = self._terms.setdefault(index, (term, host.name))
                if known != term:
                    said = f"entry {index} that is committed is of term {known} at {who}"
                    raise Violation("one-log", f"{said} and of term {term} at {host.name}")

    def _votes_once(self, host: Host, core: RaftCore) -> None:
        """What a server took for durable of its term and vote is what its next life begins with."""
        node = core.node
        life, term, vote = self._votes.get(host.name, (0, 0, 0))
        if life != host.lives and (node.term < term or (node.term == term and vote and node.vote != vote)):
            said = f"{host.name} was in term {term} with its vote for {vote}"
            raise Violation("promised", f"{said}, and begins in term {node.term} with its vote for {node.vote}")
        if not node.persistence._outstanding:  # else something is on its way to the disk
            self._votes[host.name] = host.lives, node.term, node.vote or 0
