"""`ithaca bench consumers`: wires the command line to the measurements of consumers and groups."""

from typing import Annotated

import typer

from ithaca.cli.bench.options import BENCH_DIRECTORY, DirectoryOption, FreshCluster, RoundsOption, SecondsOption
from ithaca.cli.bench.report import measured, print_table
from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import JsonOption, examples

EXAMPLES = examples(
    "ithaca bench consumers",
    "ithaca bench consumers --consumers 1000 --handles 1000 --rounds 5",
    "ithaca bench consumers --engine raft --lease 1 --json",
)


@with_groups
def consumers(
    *,
    directory: DirectoryOption = BENCH_DIRECTORY,
    count: Annotated[int, typer.Option("--consumers", min=1, max=4000, help="That commit every second.")] = 1000,
    handles: Annotated[int, typer.Option(min=1, help="Connected clients that these share.")] = 20,
    processes: Annotated[int, typer.Option(min=1, help="Processes of these clients.")] = 1,
    members: Annotated[int, typer.Option(min=1, max=15, help="Members of the group, before one comes.")] = 3,
    lease: Annotated[float, typer.Option(min=1, help="Seconds of each member's lease.")] = 2.0,
    rate: Annotated[int, typer.Option(min=1, help="Records per second that the group shares.")] = 1000,
    seconds: SecondsOption = 10.0,
    rounds: RoundsOption = 3,
    cluster: FreshCluster,
    as_json: JsonOption = False,
) -> None:
    """A commit beside a lone append, what committing consumers cost the leader, how soon members have their share."""
    from ithaca.bench.consumers.run import ConsumerSettings, run_consumers

    settings = ConsumerSettings(cluster.shape(), count, handles, processes, seconds, rounds, members, lease, rate)
    report = measured(run_consumers, directory, settings, as_json)
    if not report:
        return
    print_table("one client", report["contenders"])
    print(f"commit / append: p50 {report['commit_by_append_p50']:.2f}")
    many = report["many"]
    commits = [each["commits"] for each in many["rounds"]]
    print(f"{many['consumers']} consumers that commit every second ({commits} commits) cost")
    print(f"{many['leader_cores']:.1%} of a core of the leader, {many['follower_cores']:.1%} of each follower at most")
    for each in report["group"]:
        added, killed = each["added"], each["killed"]
        print(
            f"one more member has its {added['parts']} parts {added['share_after_join_s']:.2f} s after it joined; the "
            f"others paused for {added['others_longest_pause_s']:.3f} s at most "
            f"({added['others_longest_pause_before_s']:.3f} s in the seconds before)"
        )
        print(
            f"the {killed['parts']} parts of a killed member went on {killed['went_on_after_lease_s']:.2f} s after its "
            f"lease of {killed['lease_s']:g} s"
        )
