from __future__ import annotations

import os
import re
import tomllib
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from brokerjobs import App
from brokerjobs.errors import ConfigurationError
from brokerjobs.settings import BrokerSettings, Settings, WorkerSettings
from brokerjobs.settings_loading import known_keys, load_settings, variable_of

GROUPS = ("worker", "broker", "coordinator", "retention", "artifacts", "telemetry", "log")
DEFAULTS = Path(__file__).parents[2] / "config" / "brokerjobs.toml"
URL = "postgresql://app:s3cret@db/pay"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.upper().startswith("BROKERJOBS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text: str, file: str = "brokerjobs.toml") -> None:
    Path(file).write_text(text, encoding="utf-8")


def refusal() -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert caught.value.__context__ is None
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_load_settings__has_the_agreed_defaults() -> None:
    settings = load_settings()

    assert (settings.database_url, settings.broker_url, settings.app) == (None, None, None)
    worker = settings.worker
    assert (worker.concurrency, worker.threads, worker.deliveries, worker.coordinator) == (20, 8, 40, True)
    assert (worker.drain, worker.heartbeat, worker.renewal) == (timedelta(seconds=25), timedelta(seconds=10), None)
    assert worker.reconcilers == timedelta(seconds=10)
    broker = settings.broker
    assert (broker.queue_type, broker.consumer_timeout, broker.delivery_limit) == ("quorum", timedelta(minutes=30), 20)
    assert (broker.heartbeat, broker.publish_timeout) == (timedelta(seconds=15), timedelta(seconds=5))
    service = settings.coordinator
    assert (service.service_lease, service.relay_poll) == (timedelta(seconds=4), timedelta(milliseconds=50))
    assert (service.tick, service.batch) == (timedelta(seconds=1), 200)
    artifacts = settings.artifacts
    assert (artifacts.url, artifacts.options, artifacts.remove_orphans_after) == (None, {}, None)
    assert (artifacts.keep, artifacts.grace) == (timedelta(days=7), timedelta(hours=1))
    assert (artifacts.keep_rejected, artifacts.incomplete) == (timedelta(days=1), timedelta(hours=1))
    assert (artifacts.sweep, artifacts.max_size) == (timedelta(minutes=1), 64 * 2**30)


def test_load_settings__takes_flag_then_variable_then_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write("app = 'file:app'\n[worker]\nthreads = 1\nconcurrency = 1\ndrain = '1m'\n")
    monkeypatch.setenv("BROKERJOBS_WORKER__THREADS", "2")
    monkeypatch.setenv("BROKERJOBS_WORKER__CONCURRENCY", "2")
    monkeypatch.setenv("BROKERJOBS_APP", "")

    settings = load_settings({"worker.concurrency": 3})

    assert (settings.worker.concurrency, settings.worker.threads) == (3, 2)
    assert (settings.worker.drain, settings.app) == (timedelta(minutes=1), "file:app")


def test_load_settings__reads_the_file_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    write("app = 'here:app'")
    write("app = 'there:app'", "other.toml")
    monkeypatch.setenv("BROKERJOBS_CONFIG", "other.toml")

    assert load_settings().app == "there:app"


@pytest.mark.parametrize(
    ("text", "says"), [(None, "No such file"), ("a =", "Invalid value"), ("\udcff", "can't decode")]
)
def test_load_settings__refuses_a_file_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, text: str | None, says: str
) -> None:
    if text is not None:
        Path("other.toml").write_bytes(text.encode(errors="surrogateescape"))
    monkeypatch.setenv("BROKERJOBS_CONFIG", "other.toml")

    with pytest.raises(ConfigurationError, match=rf"the settings file other.toml cannot be read: .*{says}"):
        load_settings()


@pytest.mark.parametrize("key", list(known_keys()))
def test_load_settings__every_key_can_be_set_by_its_variable(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(variable_of(key), "no such value")

    if key in {"app", "worker.name", "worker.alive_file"}:
        assert "no such value" in repr(load_settings())
    else:
        assert f"{key} = " in refusal()


def test_load_settings__names_unknown_keys_and_what_may_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    write("conurrency = 3\n[worker]\nbatch = 3\n[worker.name]\na = 1\n")
    monkeypatch.setenv("BROKERJOBS_DATABSE_URL", URL)
    monkeypatch.setenv("BROKERJOBS_WORKER", "5")
    monkeypatch.setenv("BROKERJOBS_TEST_DATABASE_URL", "for the tests alone")
    monkeypatch.setenv("BROKERJOBS_DEMO_BROKER_URL", "for the demo alone")

    lines = refusal().splitlines()

    assert "  BROKERJOBS_DATABSE_URL (environment) is not a setting; did you mean BROKERJOBS_DATABASE_URL?" in lines
    assert "  worker.batch (brokerjobs.toml) is not a setting; did you mean coordinator.batch?" in lines
    assert "  worker.name.a (brokerjobs.toml) is not a setting; did you mean worker.name?" in lines
    assert "  conurrency (brokerjobs.toml) is not a setting; did you mean worker.concurrency?" in lines
    assert any(
        line.startswith("  BROKERJOBS_WORKER (environment) is not a setting but a group of them") for line in lines
    )
    assert len(lines) == 6
    with pytest.raises(ConfigurationError, match=r"worker.x \(a flag\) is not a setting"):
        load_settings({"worker.x": 1})


def test_load_settings__says_key_value_source_and_problem_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[worker]\nconcurrency = 0\nthreads = true\n[broker]\nqueue_type = 'fast'\n[coordinator]\ntick = '3s'\n")
    monkeypatch.setenv("BROKERJOBS_WORKER__DRAIN", "2 weeks")

    no_duration = 'is not a duration; write "250ms", "30s", "5m", "1h30m", "2d", "PT30S" or a number of seconds'
    assert refusal().splitlines()[1:] == [
        "  worker.concurrency = 0 (brokerjobs.toml): Input should be greater than or equal to 1",
        "  worker.threads = True (brokerjobs.toml): must be a number, not true or false",
        f"  worker.drain = '2 weeks' (environment, BROKERJOBS_WORKER__DRAIN): {no_duration}",
        "  broker.queue_type = 'fast' (brokerjobs.toml): Input should be 'quorum' or 'classic'",
        "  coordinator: service_lease must be at least twice tick and relay_poll: the leader renews it in its ticks",
    ]


@pytest.mark.parametrize("variable", ["BROKERJOBS_DATABASE_URL", "BROKERJOBS_COORDINATOR__DATABASE_URL"])
@pytest.mark.parametrize("url", ["mysql://app:s3cret@db/x", "s3cret", "postgresql:/app:s3cret@db"])
def test_load_settings__shows_no_password_of_a_wrong_url(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str
) -> None:
    monkeypatch.setenv(variable, url)

    said = refusal()

    assert f"(environment, {variable}): must start with postgresql:// or postgres://" in said
    assert "s3cret" not in said


def test_settings__show_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERJOBS_DATABASE_URL", URL)
    monkeypatch.setenv("BROKERJOBS_BROKER_URL", "amqps://app:s3cret@mq/")

    settings = load_settings()

    assert settings.need_database_url() == URL
    assert settings.need_broker_url() == "amqps://app:s3cret@mq/"
    assert "s3cret" not in f"{settings!r} {settings} {settings.database_url} {settings.model_dump_json()}"
    assert "postgresql://app:***@db/pay" in repr(settings)


def test_settings__say_how_to_set_what_is_missing() -> None:
    with pytest.raises(
        ConfigurationError, match="database_url is not set: give --database-url, BROKERJOBS_DATABASE_URL"
    ):
        load_settings().need_database_url()
    with pytest.raises(ConfigurationError, match="app is not set"):
        load_settings().need_app()
    with pytest.raises(ConfigurationError, match=r"database_url is not set: .*; or app\.client\(database_url=…\)"):
        App("shop").client(submitted_by="tests")


@pytest.mark.parametrize(
    ("told", "after"),
    [
        ("", timedelta(minutes=5)),
        ("consumer_timeout = '10m'", timedelta(minutes=2.5)),
        ("consumer_timeout = '1h'", timedelta(minutes=5)),
        ("consumer_timeout = '10m'\nhand_back = '5m'", timedelta(minutes=5)),
        ("hand_back = '20s'", timedelta(seconds=20)),
    ],
)
def test_hand_back__comes_well_before_the_brokers_patience_ends(told: str, after: timedelta) -> None:
    write(f"[broker]\n{told}")

    assert load_settings().broker.hand_back_after == after


def test_hand_back__that_the_broker_would_not_wait_for_is_refused() -> None:
    write("[broker]\nhand_back = '16m'")

    assert "at most half of consumer_timeout" in refusal()


def test_capabilities__are_texts_and_lists_of_texts_of_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[worker.capabilities]\ngpu = 'a100'\ndataset = ['imagenet', 'coco', 'coco']\n")
    assert load_settings().worker.capabilities == {"dataset": ("coco", "imagenet"), "gpu": ("a100",)}

    # What is said in two places is joined by name.
    told = load_settings({"worker.capabilities": {"gpu": ["h100", "t4"]}}).worker.capabilities
    assert told == {"dataset": ("coco", "imagenet"), "gpu": ("h100", "t4")}

    monkeypatch.setenv("BROKERJOBS_WORKER__CAPABILITIES", "gpu=v100, dataset=a, dataset=b=c")
    assert load_settings().worker.capabilities == {"dataset": ("a", "b=c"), "gpu": ("v100",)}
    monkeypatch.setenv("BROKERJOBS_WORKER__CAPABILITIES", '{"gpu": ["a", "b,c"]}')
    assert load_settings().worker.capabilities == {"gpu": ("a", "b,c")}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("capabilities = 'gpu'", "must be texts such as"),
        ("capabilities = '{'", "Expecting property name"),
        ("capabilities = '{}}'", "Extra data"),
        ("capabilities = 3", "must be a table of texts and lists of texts"),
        ("capabilities = { GPU = 'a' }", "name 'GPU' is not 1 to 100 lower-case letters, digits, _ - ."),
        ("capabilities = { gpu = '' }", "gpu: '' is not 1 to 200 printable characters"),
        ("capabilities = { gpu = [1] }", "gpu: 1 is not 1 to 200 printable characters"),
        ("capabilities = { gpu = 1 }", "gpu: 1 is not a text or a list of texts"),
        ("capabilities = { gpu = [] }", "gpu has no text; leave it out"),
    ],
)
def test_capabilities__say_what_cannot_be(said: str, problem: str) -> None:
    write(f"[worker]\n{said}\n")

    (line,) = refusal().splitlines()[1:]
    assert line.startswith("  worker.capabilities = "), line
    assert problem in line


def test_settings__do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().worker.concurrency = 3  # type: ignore[misc]  # what is tested


def test_default_file__has_every_key_with_its_default() -> None:
    text = DEFAULTS.read_text(encoding="utf-8")
    assert tomllib.loads(text) == {group: {} for group in GROUPS}

    write(re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE))
    settings = load_settings()

    examples = {"database_url", "broker_url", "app", "worker.prefetch", "worker.renewal", "worker.name"}
    examples |= {"worker.alive_file", "coordinator.database_url", "coordinator.broker_url", "broker.hand_back"}
    examples |= {"broker.management_url", "worker.processes", "worker.leaked_threads", "worker.capabilities"}
    examples |= {"artifacts.url", "artifacts.options", "artifacts.remove_orphans_after"}
    examples |= {"worker.probe_port", "telemetry.metrics_port"}
    set_there = {group or key for group, key in _keys_of(settings)}
    assert set_there == set(known_keys())
    for key in set_there - examples:
        group, _, name = key.rpartition(".")
        read = getattr(settings, group)
        assert getattr(read, name) == getattr(type(read)(), name), key
    assert settings.worker.deliveries == WorkerSettings().deliveries
    assert settings.broker.hand_back_after == BrokerSettings().hand_back_after


def _keys_of(settings: Settings) -> list[tuple[str, str]]:
    inner = [(f"{group}.{name}", name) for group in GROUPS for name in getattr(settings, group).model_fields_set]
    return inner + [("", name) for name in settings.model_fields_set if name not in GROUPS]
