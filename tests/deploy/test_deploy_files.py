"""What deploy/ has is right: units, rules and files check out, and metrics that are named are exported."""

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ithaca.model.config.cluster import load_cluster
from ithaca.testing import Cluster

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "ithaca-rules.yaml"
DASHBOARD = DEPLOY / "grafana" / "ithaca.json"
UNITS = sorted((DEPLOY / "systemd").iterdir())
METRIC = re.compile(r"\b(?:ithaca|process)_[a-z_]+\b")


def needed(command: str) -> str:
    path = shutil.which(command)
    if path is None:
        pytest.skip(f"{command} is not installed")
    return path


def exported() -> set[str]:
    """Every name that servers of every role export, once something was appended."""
    with Cluster(aggregators=1) as cluster:
        addresses = [str(server.place.address) for server in cluster.status().servers]
        texts = [urllib.request.urlopen(f"http://{address}/metrics").read().decode() for address in addresses]
    lines = [line.split() for text in texts for line in text.splitlines() if line.startswith("# TYPE")]
    kinds = {name: kind for _, _, name, kind in lines}
    found = set(kinds)
    for name, kind in kinds.items():
        if kind == "histogram":
            found |= {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
    return found


def test_metrics_of_rules_and_dashboard_are_exported() -> None:
    named = {RULES: rule_metrics(), DASHBOARD: dashboard_metrics()}
    known = exported()
    for file, metrics in named.items():
        assert len(metrics) > 10
        assert metrics <= known, f"{file.name} names what no server exports: {sorted(metrics - known)}"


def rule_metrics() -> set[str]:
    """Those in expressions, which stand behind `expr:` up to the next field."""
    expressions = re.findall(r"^ +expr: (.*?)^ +(?:for|labels):", RULES.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return set(METRIC.findall("\n".join(expressions)))


def dashboard_metrics() -> set[str]:
    def expressions(node: Any) -> list[str]:
        if isinstance(node, list):
            return [each for item in node for each in expressions(item)]
        if isinstance(node, dict):
            own = [value for name, value in node.items() if name in ("expr", "query") and isinstance(value, str)]
            return own + [each for item in node.values() for each in expressions(item)]
        return []

    return set(METRIC.findall("\n".join(expressions(json.loads(DASHBOARD.read_text("utf-8"))))))


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (column, row)
        for place in places
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "operator.md").read_text("utf-8")
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))
    assert alerts
    assert not [alert for alert in alerts if f"`{alert}`" not in guide]


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool = needed("promtool")
    for command in (["check", "rules", RULES.name], ["test", "rules", "ithaca-rules-test.yaml"]):
        ran = subprocess.run([promtool, *command], cwd=RULES.parent, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    systemd = needed("systemd-analyze")
    instance = tmp_path / unit.name.replace("@", "@0-1")
    program = shutil.which("true")  # what the unit starts is not installed where it is only checked
    instance.write_text(unit.read_text("utf-8").replace("/opt/ithaca/bin/ithaca", str(program)), "utf-8")
    ran = subprocess.run([systemd, "verify", "--man=no", str(instance)], capture_output=True, text=True)
    if "Failed to" in ran.stderr and "bus" in ran.stderr.lower():
        pytest.skip("systemd-analyze cannot work here")
    assert not [line for line in ran.stderr.splitlines() if instance.name in line or str(instance) in line], ran.stderr
    assert ran.returncode == 0, ran.stderr


def test_nothing_trusts_the_network_but_the_file_of_the_demonstration() -> None:
    for path in (*UNITS, DEPLOY / "docker" / "compose.yaml"):
        assert "insecure" not in path.read_text("utf-8"), path.name
    assert load_cluster(DEPLOY / "docker" / "cluster.toml").is_open


def test_what_the_guide_puts_beside_the_servers_closes_the_cluster(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "operator.md").read_text("utf-8")
    [tables] = re.findall(
        r'^```toml title="cluster.toml, beside its servers"\n(.*?)^```', guide, re.MULTILINE | re.DOTALL
    )
    servers = (DEPLOY / "docker" / "cluster.toml").read_text("utf-8")
    path = tmp_path / "cluster.toml"
    path.write_text(re.sub(r"^insecure = .*\n", "", servers, flags=re.MULTILINE) + tables, "utf-8")
    file = load_cluster(path)
    assert file.is_closed
    assert file.users is not None
    assert file.audit is not None
    [logs] = {re.findall(r"^LogsDirectory=(.*)$", unit.read_text("utf-8"), re.MULTILINE)[0] for unit in UNITS}
    assert file.audit.of_server("orderer-1") == f"/var/log/{logs}/orderer-1.jsonl"


def test_units_name_options_that_serve_has() -> None:
    known = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    serve = known.split("\n## ithaca serve\n")[1].split("\n## ")[0]
    for unit in UNITS:
        [command] = re.findall(r"^ExecStart=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
        for option in re.findall(r"--[\w-]+", command):
            assert f"`{option}`" in serve, f"{unit.name}: {option}"
        assert "RestartPreventExitStatus=3" in unit.read_text("utf-8")


def test_the_compose_file_starts_every_server_of_its_cluster() -> None:
    cluster = load_cluster(DEPLOY / "docker" / "cluster.toml")
    compose = (DEPLOY / "docker" / "compose.yaml").read_text("utf-8")
    for orderer in cluster.orderers:
        assert f"  {orderer.address.host}:\n" in compose
        assert f"--orderer {orderer.server} " in compose
    for shard in cluster.shards:
        for place in shard.replicas:
            assert f"  {place.address.host}:\n" in compose
            assert f"--replica {shard.shard}/{place.replica} " in compose
