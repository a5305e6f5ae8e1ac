"""Each alert goes to whom its severity says, and causes silence what follows from them."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml

from tests.config.expressions import CONFIG
from tests.config.test_prometheus import ALERTS, kept, program

FILE: Final = "alertmanager/alertmanager.yml"
SETTINGS: Final[dict[str, Any]] = yaml.safe_load((CONFIG / FILE).read_text())


def test_amtool__takes_the_configuration() -> None:
    assert "SUCCESS" in program("amtool", "check-config", FILE)


@pytest.mark.parametrize("severity", ["page", "ticket", "info"])
def test_amtool__sends_an_alert_to_whom_its_severity_says(severity: str) -> None:
    route = ("config", "routes", "test", f"--config.file={FILE}", f"--verify.receivers={severity}")

    program("amtool", *route, f"severity={severity}", "alertname=Any", "brokerjobs_namespace=shop")


def test_amtool__sends_an_alert_of_an_unknown_severity_to_those_who_read_tickets() -> None:
    program("amtool", "config", "routes", "test", f"--config.file={FILE}", "--verify.receivers=ticket", "severity=odd")


def test_routes__are_for_the_severities_that_alerts_have() -> None:
    routed = {one["matchers"][0]: one["receiver"] for one in SETTINGS["route"]["routes"]}

    assert routed == {f"severity = {word}": word for word in ("page", "ticket", "info")}
    assert {alert["labels"]["severity"] for alert in ALERTS.values()} == set(routed.values())
    assert {one["name"] for one in SETTINGS["receivers"]} == set(routed.values())


@pytest.mark.parametrize("rule", SETTINGS["inhibit_rules"], ids=lambda rule: rule["source_matchers"][0])
def test_inhibition__is_between_alerts_that_exist_and_have_its_labels(rule: dict[str, Any]) -> None:
    alerts = re.findall(r"Brokerjobs\w+", str(rule))

    assert len(alerts) >= 2
    for name in alerts:
        assert set(rule.get("equal", [])) <= kept(ALERTS[name]["expr"])
