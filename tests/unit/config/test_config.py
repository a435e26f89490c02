"""The configuration: what a file may say, what is said about what it may not, and what changes while running."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rocketpy.config import TABLES, ConfigError, StoredConfig, file_bytes, load_config, properties_text, reach_warning
from rocketpy.config.loader import Role
from rocketpy.config.rules import MISSING


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.conf"


def test_the_defaults_are_rocketmqs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    broker = load_config("broker")
    assert (broker.integer("listenPort"), broker.integer("haListenPort"), broker.integer("defaultTopicQueueNums")) == (10911, 10912, 8)
    assert (broker.text("brokerClusterName"), broker.text("flushDiskType"), broker.integer("fileReservedTime")) == (
        "DefaultCluster",
        "ASYNC_FLUSH",
        72,
    )
    assert broker.text("namesrvAddr") == ""
    assert broker.text("storePathRootDir") == str(Path.home() / "store")
    namesrv = load_config("namesrv")
    assert (namesrv.integer("listenPort"), namesrv.integer("scanNotActiveBrokerInterval")) == (9876, 5000)


def test_a_user_without_a_home_keeps_its_files_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user that has neither HOME nor an entry in /etc/passwd."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    monkeypatch.chdir(tmp_path)
    assert load_config("broker").text("storePathRootDir") == str(tmp_path / "store")
    assert load_config("namesrv").text("kvConfigPath") == str(tmp_path / "namesrv" / "kvConfig.json")


def test_a_file_beats_the_environment_and_the_command_line_beats_both(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert load_config("broker").addresses("namesrvAddr") == ["env:9876"]
    file.write_text("namesrvAddr=file:9876;file2:9876\n")
    assert load_config("broker", file).addresses("namesrvAddr") == ["file:9876", "file2:9876"]
    assert load_config("broker", file, {"namesrvAddr": "cli:9876"}).addresses("namesrvAddr") == ["cli:9876"]


def test_a_bad_value_of_the_environment_is_told_like_any_other(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the broker that has opened its store already, and with no word of where it comes from."""
    monkeypatch.setenv("NAMESRV_ADDR", "namesrv")
    monkeypatch.setenv("NAMESRV_ADDR", "namesrv:²")
    with pytest.raises(ConfigError, match="'namesrv:²' is not valid"):
        load_config("broker")
    monkeypatch.setenv("NAMESRV_ADDR", "namesrv")
    with pytest.raises(
        ConfigError, match=r"^namesrvAddr: 'namesrv' is not valid: expected addresses .* \(the environment's NAMESRV_ADDR\)$"
    ):
        load_config("broker")
    assert load_config("namesrv").role == "namesrv"
    file.write_text("namesrvAddr=host:1\n")
    assert load_config("broker", file).text("namesrvAddr") == "host:1"


def test_values_are_trimmed(file: Path) -> None:
    file.write_text("fileReservedTime = 48 \t\nbrokerName = broker-a  \nautoCreateTopicEnable = TRUE \n")
    config = load_config("broker", file)
    assert (config.integer("fileReservedTime"), config.text("brokerName"), config.boolean("autoCreateTopicEnable")) == (
        48,
        "broker-a",
        True,
    )


def test_a_list_of_hours_may_end_as_java_splits_it(file: Path) -> None:
    file.write_text("deleteWhen=04;16;\n")
    assert load_config("broker", file).text("deleteWhen") == "04;16;"


BAD_LINES = [
    ("listenPort=1o911", "listenPort: '1o911' is not valid: expected a whole number from 0 to 65535"),
    ("listenPort=65536", "listenPort: '65536' is not valid: expected a whole number from 0 to 65535"),
    ("fileReservedTime=-1", "fileReservedTime: '-1' is not valid: expected a whole number of h from 0 to 2147483647"),
    ("fileReservedTime=", "fileReservedTime: '' is not valid: expected a whole number of h from 0 to 2147483647"),
    ("diskMaxUsedSpaceRatio=101", "diskMaxUsedSpaceRatio: '101' is not valid: expected a whole number of % from 10 to 95"),
    ("flushDiskType=SYNC", "flushDiskType: 'SYNC' is not valid: expected one of ASYNC_FLUSH, SYNC_FLUSH"),
    (
        "listenPort=10911 # as ever",
        "listenPort: '10911 # as ever' is not valid: expected a whole number from 0 to 65535; a comment has to stand on a line of its own",
    ),
    ("brokerRole=MASTER", "brokerRole: 'MASTER' is not valid: expected one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
    ("autoCreateTopicEnable=yes", "autoCreateTopicEnable: 'yes' is not valid: expected true or false"),
    ("longPollingEnable=1", "longPollingEnable: '1' is not valid: expected true or false"),
    ("deleteWhen=24", 'deleteWhen: \'24\' is not valid: expected hours of the day such as "04" or "04;16"'),
    ("messageDelayLevel=9999999999d", "messageDelayLevel: '9999999999d' is not valid: expected delays such as \"1s 5s 10s 1m 2h 1d\""),
    ("messageDelayLevel=1x", "messageDelayLevel: '1x' is not valid: expected delays such as \"1s 5s 10s 1m 2h 1d\""),
    ("namesrvAddr=localhost", "namesrvAddr: 'localhost' is not valid: expected addresses such as \"127.0.0.1:9876;192.168.0.1:9876\""),
    ("namesrvAddr=a:99999", "namesrvAddr: 'a:99999' is not valid: expected a port from 1 to 65535"),
    ("brokerIP1=not an ip", "brokerIP1: 'not an ip' is not valid: expected a host name or an IP address"),
    ("brokerName=a b", "brokerName: 'a b' is not valid: expected a name of 1 to 127 characters out of letters, digits, % | _ - ."),
    ("brokerName=", "brokerName: '' is not valid: expected a name of 1 to 127 characters out of letters, digits, % | _ - ."),
    ("deleteWhen=", 'deleteWhen: \'\' is not valid: expected hours of the day such as "04" or "04;16"'),
    ("storePathRootDir=", "storePathRootDir: '' is not valid: expected the path of a file or directory"),
    ("logicalDiskSpaceCleanForciblyThreshold=x", "logicalDiskSpaceCleanForciblyThreshold: 'x' is not valid: expected a number from 0 to 1"),
    ("consumerFallbehindThreshold=99999999999999999999", None),
    ("brokerRole=SLAVE", "brokerId: Slave's brokerId must be > 0"),
    (
        "aclEnable=true",
        "aclEnable: true is not supported by this release: anybody could do anything; set authenticationEnabled, authorizationEnabled and "
        "migrateAuthFromV1Enabled",
    ),
    ("haListenPort=10911", "haListenPort: 10911 is the port of the listener too"),
    ("haListenPort=10909", "haListenPort: 10909 is the port of the VIP channel too, listenPort - 2"),
    ("listenPort=65535", "haListenPort: is needed with listenPort=65535: there is no port above it for slaves"),
    ("haMasterAddress=10.0.0.1:10912;10.0.0.2:10912", "haMasterAddress: names several masters: a slave follows one"),
    ("haMasterAddress=10.0.0.1:99999", "haMasterAddress: '10.0.0.1:99999' is not valid: expected a port from 1 to 65535"),
    ("inSyncReplicas=18", "inSyncReplicas: '18' is not valid: expected a whole number of replicas from 1 to 17"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=[line.partition("=")[0] + str(i) for i, (line, _) in enumerate(BAD_LINES)])
def test_a_bad_value_refuses_the_start_with_file_line_and_what_was_expected(file: Path, line: str, message: str | None) -> None:
    file.write_text(f"# a comment\nbrokerClusterName=c\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load_config("broker", file)
    (problem,) = caught.value.problems
    if message is not None:
        written_there = problem.key in line.split("=")[0] or problem.key in line
        assert str(problem) == (f"{file}:3: {message}" if written_there else message)


def test_every_bad_line_is_told_at_once(file: Path) -> None:
    file.write_text("listenPort=x\n\nfileReservedTime=y\n")
    with pytest.raises(ConfigError) as caught:
        load_config("broker", file)
    assert [problem.line for problem in caught.value.problems] == [1, 3]
    assert str(caught.value).count("\n") == 1


def test_a_bad_value_of_the_command_line_is_told_without_a_file() -> None:
    with pytest.raises(ConfigError, match=r"^namesrvAddr: 'x' is not valid"):
        load_config("broker", None, {"namesrvAddr": "x"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.conf: configFile: cannot be read: No such file or directory"):
        load_config("broker", tmp_path / "missing.conf")


def test_what_is_not_utf8_is_refused_in_a_value_and_nowhere_else(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """RocketMQ reads files as Latin-1: comments in any encoding are common."""
    file.write_bytes(b"\xef\xbb\xbfbrokerName=a\n# \xc3\xfb\xd7\xd6\\\nlistenPort=11\nxyzzy=\xe9\n\xe9=1\n")
    config = load_config("broker", file)
    assert (config.text("brokerName"), config.integer("listenPort"), config.shown()["xyzzy"]) == ("a", 11, "\ufffd")
    config.report_remarks()
    assert "".join(caplog.messages).encode()
    changed = file_bytes(config.stored_text(properties_text(file.read_bytes()), {"listenPort": "12"}))
    assert changed == b"brokerName=a\n# \xc3\xfb\xd7\xd6\\\nlistenPort=12\nxyzzy=\xe9\n\xe9=1\n"
    file.write_bytes(b"\nstorePathRootDir=/data/\xc3\xfb\n")
    with pytest.raises(ConfigError, match=r":2: storePathRootDir: '/data/\ufffd\ufffd' is not UTF-8"):
        load_config("broker", file)


def test_an_unknown_key_is_kept_and_reported_once_with_the_nearest_name(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("brokerIp1=10.0.0.1\nxyzzy=1\n")
    with caplog.at_level(logging.WARNING):
        config = load_config("broker", file)
        config.report_remarks()
        config.report_remarks()
    assert caplog.messages == [
        f"{file}:1: unknown key brokerIp1 is kept and has no effect; did you mean brokerIP1?",
        f"{file}:2: unknown key xyzzy is kept and has no effect",
    ]
    assert config.shown()["brokerIp1"] == "10.0.0.1"
    assert "xyzzy=1" in config.format().splitlines()


def test_an_update_that_is_refused_changes_no_unknown_key_either(file: Path) -> None:
    file.write_text("xyzzy=1\n")
    config = load_config("broker", file)
    with pytest.raises(ConfigError, match="listenPort: 'many' is not valid"):
        config.update({"xyzzy": "2", "listenPort": "many"})
    assert config.shown()["xyzzy"] == "1"
    config.update({"xyzzy": "2"})
    assert config.shown()["xyzzy"] == "2"


def test_keys_of_another_role_and_keys_without_effect_are_told(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("kvConfigPath=/x\nsendMessageThreadPoolNums=16\nbrokerConfigPaths=a.conf:b.conf\n")
    with caplog.at_level(logging.INFO):
        load_config("broker", file).report_remarks()
    assert caplog.messages[0] == f"{file}:1: kvConfigPath is a key of the namesrv, not of the broker; it is kept and has no effect"
    assert caplog.messages[1].startswith(f"{file}:2: sendMessageThreadPoolNums has no effect: ")
    container = "is a key of mqbrokercontainer's, without effect here: start a broker for each of the files"
    assert caplog.messages[2] == f"{file}:3: brokerConfigPaths {container}"


def test_a_file_that_rocketmq_4_wrote_is_no_heap_of_warnings_and_a_key_with_another_name_now_is_told_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It writes every key when an operator changes one."""
    file.write_text("commercialEnable=true\nfilterServerNums=0\nhaSlaveFallbehindMax=268435456\n")
    load_config("broker", file).report_remarks()
    assert not caplog.messages
    file.write_text("haSlaveFallbehindMax=1000\n")
    config = load_config("broker", file)
    config.report_remarks()
    assert caplog.messages == [
        f"{file}:1: haSlaveFallbehindMax is a key of RocketMQ 4, kept without effect: haMaxGapNotInSync has its meaning since 5.0"
    ]
    assert config.shown()["haSlaveFallbehindMax"] == "1000"


def test_a_secret_that_a_tool_sends_back_as_it_was_shown_stays(file: Path) -> None:
    given = 'initAuthenticationUser={"username":"u","password":"hush"}\n'
    file.write_text(given)
    for role in ("broker", "namesrv"):
        config = load_config(role, file)
        changes = {"initAuthenticationUser": config.shown()["initAuthenticationUser"]}
        assert not str(config.update(changes)) and config.stored_text(given, changes) == given
        assert "hush" in (config.text("initAuthenticationUser") if role == "broker" else config.unknown["initAuthenticationUser"])


def test_what_no_file_keeps_is_told() -> None:
    updated = load_config("broker").update({"fileReservedTime": "71", "mappedFileSizeCommitLog": "1048576"})
    assert updated.told(is_stored=True) == str(updated) == "takes effect at the next start: mappedFileSizeCommitLog"
    assert updated.told(is_stored=False) == (
        "without effect, as a start reads it and there is no file (-c) to keep it: mappedFileSizeCommitLog; "
        "lasts until this process ends, as there is no file (-c) to keep it: fileReservedTime"
    )


def test_names_that_nobody_knows_are_told_in_a_few_words(file: Path) -> None:
    file.write_text("")
    told = str(load_config("broker", file).update({"x" * 1_000_000: "1", **{f"listenPort{number}": "1" for number in range(300)}}))
    assert "listenPort8 is ignored: no such key; did you mean listenPort?" in told and "291 more are ignored" in told and len(told) < 2000


def test_what_mqadmin_exports_of_a_broker_is_shown() -> None:
    """exportConfigs of 4.9.7 ends with a NullPointerException at the first that is missing."""
    exported = """brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums flushDiskType maxMessageSize
        messageDelayLevel msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS autoCreateTopicEnable
        autoCreateSubscriptionGroup"""
    assert set(exported.split()) <= load_config("broker").shown().keys()


def test_a_key_set_twice_counts_once_and_is_told(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("listenPort=1\nlistenPort=2\n")
    with caplog.at_level(logging.WARNING):
        config = load_config("broker", file)
        config.report_remarks()
    assert config.integer("listenPort") == 2
    assert caplog.messages == [f"{file}:2: listenPort was set in line 1 already; the later value counts"]


def test_keys_that_nobody_read_are_told_when_everything_has_started(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """But not those that say what holds anyway: RocketMQ writes every key into a file that was changed through it."""
    file.write_text(
        "brokerName=a\nprintChannelGroupsMinNum=7\nsendMessageThreadPoolNums=1\ncleanOfflineBrokerInterval=30000\npullMessageThreadPoolNums=20\n"
    )
    config = load_config("broker", file, {"forwardTimeout": "5"})
    with caplog.at_level(logging.INFO):
        config.report_remarks()
    assert [message.split()[1] for message in caplog.messages] == ["sendMessageThreadPoolNums"]
    config.text("brokerName")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        config.report_unread()
    assert caplog.messages == ["set, but nothing in this release uses them: printChannelGroupsMinNum, forwardTimeout"]


@pytest.mark.parametrize("name", MISSING)
def test_what_an_operator_relies_on_and_is_not_there_refuses_the_start(name: str) -> None:
    role: Role = "namesrv" if name in TABLES["namesrv"] else "broker"
    key = TABLES[role][name]
    missing = key.format(MISSING[name][0])
    with pytest.raises(ConfigError, match=f"{name}: {missing} is not supported by this release"):
        load_config(role, None, {name: missing})
    load_config(role, None, {name: key.format(key.default() if callable(key.default) else key.default)})


def test_values_that_rocketmq_replaces_are_replaced_and_told(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("brokerRole=SYNC_MASTER\nbrokerId=3\nlistenPort=2000\nmappedFileSizeConsumeQueue=25\n")
    with caplog.at_level(logging.WARNING):
        config = load_config("broker", file)
        config.report_remarks()
    assert (config.integer("brokerId"), config.integer("haListenPort"), config.integer("mappedFileSizeConsumeQueue")) == (0, 2001, 40)
    assert "brokerId = 3 is replaced by 0: brokerRole is SYNC_MASTER" in caplog.messages


def test_updates_change_live_keys_at_once_and_keep_others_for_the_next_start() -> None:
    config = load_config("broker")
    heard: list[dict[str, object]] = []
    config.subscribe(lambda changes: heard.append(dict(changes)))
    assert config.update({"fileReservedTime": "20", "listenPort": "11", "nonsense": "1"}).waiting == ("listenPort",)
    assert (config.integer("fileReservedTime"), config.integer("listenPort")) == (20, 10911)
    assert config.shown()["listenPort"] == "11"
    assert heard == [{"fileReservedTime": 20}]
    assert "nonsense" not in config.shown()


def test_an_update_between_two_masters_counts_at_once_and_one_to_or_from_a_slave_at_the_next_start(file: Path) -> None:
    file.write_text("brokerRole=SYNC_MASTER\n")
    master = load_config("broker", file)
    assert str(master.update({"brokerRole": "ASYNC_MASTER"})) == ""
    assert master.text("brokerRole") == master.shown()["brokerRole"] == "ASYNC_MASTER"
    assert "next start: brokerRole" in str(master.update({"brokerRole": "SLAVE", "brokerId": "1"}))
    assert (master.text("brokerRole"), master.shown()["brokerRole"]) == ("ASYNC_MASTER", "SLAVE")
    assert "brokerRole" not in str(master.update({"brokerRole": "SYNC_MASTER", "brokerId": "0"}))
    assert master.text("brokerRole") == master.shown()["brokerRole"] == "SYNC_MASTER"
    file.write_text("brokerRole=SLAVE\nbrokerId=1\n")
    slave = load_config("broker", file)
    assert "next start: brokerRole" in str(slave.update({"brokerRole": "ASYNC_MASTER"}))
    assert slave.text("brokerRole") == "SLAVE"


def test_an_update_with_one_bad_value_changes_nothing() -> None:
    config = load_config("broker")
    with pytest.raises(ConfigError, match="fileReservedTime: 'x' is not valid"):
        config.update({"brokerPermission": "4", "fileReservedTime": "x"})
    with pytest.raises(ConfigError, match="brokerId: Slave's brokerId must be > 0"):
        config.update({"brokerRole": "SLAVE", "brokerId": "0"})
    assert config.integer("brokerPermission") == 6


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"brokerRole": "SLAVE"}, "brokerId: Slave's brokerId must be > 0"),
        ({"haListenPort": "10911"}, "haListenPort: 10911 is the port of the listener too"),
        ({"listenPort": "65535"}, "haListenPort: is needed with listenPort=65535"),
        ({"aclEnable": "true"}, "aclEnable: true is not supported"),
        ({"storePathCommitLog": "/a,/b"}, "storePathCommitLog: names several directories"),
        ({"totalReplicas": "2", "inSyncReplicas": "3"}, "inSyncReplicas: 3 is more than totalReplicas=2"),
    ],
)
def test_an_update_that_would_end_the_next_start_is_refused(changes: dict[str, str], complaint: str) -> None:
    """RocketMQ takes `brokerRole=SLAVE` at a master, with half an effect at once, and does not start again."""
    config = load_config("broker")
    with pytest.raises(ConfigError, match=complaint):
        config.update(changes)
    assert (config.text("brokerRole"), config.integer("listenPort")) == ("ASYNC_MASTER", 10911)
    config.update({"brokerRole": "SLAVE", "brokerId": "1"})


def test_a_port_next_to_the_one_in_use_may_be_set_for_the_next_start() -> None:
    """Its slaves' port was worked out from the old one, and is worked out again."""
    config = load_config("broker")
    assert config.update({"listenPort": "10912"}).waiting == ("listenPort",)


def test_an_update_says_what_the_next_start_sees_otherwise_and_which_key_there_is_not() -> None:
    config = load_config("broker", None, {"namesrvAddr": "127.0.0.1:9876", "listenPort": "0"})
    updated = config.update({"namesrvAddr": "127.0.0.1:9877", "listenPort": "10911", "fileReservdTime": "1", "flushDiskType": "SYNC_FLUSH"})
    assert config.text("namesrvAddr") == "127.0.0.1:9877"
    assert str(updated) == (
        "takes effect at the next start: flushDiskType; namesrvAddr is set on the command line, which wins at the next start; "
        "listenPort is set on the command line, which wins at the next start; "
        "fileReservdTime is ignored: no such key; did you mean fileReservedTime?"
    )


def test_an_update_of_a_key_without_effect_says_so(caplog: pytest.LogCaptureFixture) -> None:
    config = load_config("broker")
    config.integer("listenPort")
    config.report_unread()
    updated = config.update({"useStaticSubscription": "true", "sendMessageThreadPoolNums": "9", "listenPort": "1"})
    assert str(updated).startswith("takes effect at the next start: listenPort; useStaticSubscription has no effect: nothing in this ")
    assert [record.getMessage().split()[0] for record in caplog.records if record.levelno == logging.WARNING] == [
        "useStaticSubscription",
        "sendMessageThreadPoolNums",
    ]


def test_a_reload_applies_what_the_file_changed(file: Path) -> None:
    file.write_text("fileReservedTime=48\nlistenPort=2000\n")
    config = load_config("broker", file)
    file.write_text("fileReservedTime=24\nlistenPort=2000\n")
    assert str(config.reload()) == ""
    assert config.integer("fileReservedTime") == 24
    assert str(load_config("broker").reload()) == ""


@pytest.mark.parametrize(
    "lines",
    ["storePathCommitLog=/a/commitlog,/b/commitlog", "readOnlyCommitLogStorePaths=/a", "fetchNamesrvAddrByAddressServer=true"],
)
def test_a_deployment_whose_messages_or_name_servers_would_not_be_found_is_refused(
    file: Path, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    file.write_text(f"\n{lines}\n")
    with pytest.raises(ConfigError, match=f"{file}:2: {lines.partition('=')[0]}: "):
        load_config("broker", file)


@pytest.mark.parametrize(
    ("path", "doubt"),
    [("/data/store", ""), ("store", "is relative"), ("~/store", "taken as it stands"), ("$ROCKETMQ_HOME/store", "taken as it stands")],
)
def test_a_path_that_may_not_be_what_its_author_thinks_is_told(file: Path, path: str, doubt: str, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(f"storePathRootDir={path}\n")
    load_config("broker", file).report_remarks()
    assert [doubt in message for message in caplog.messages] == [True] * bool(doubt)


def test_a_reload_names_the_line_of_a_bad_value_and_changes_nothing(file: Path) -> None:
    file.write_text("fileReservedTime=48\n")
    config = load_config("broker", file)
    file.write_text("fileReservedTime=24\n\ndeleteWhen=25\n")
    with pytest.raises(ConfigError, match=f"^{file}:3: deleteWhen: '25' is not valid: expected hours"):
        config.reload()
    assert config.integer("fileReservedTime") == 48


def test_a_reload_reports_a_key_that_nobody_knows_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("fileReservedTime=48\n")
    config = load_config("broker", file)
    file.write_text("fileReservedTime=48\nautoCreateTopicEnabled=false\n")
    config.reload()
    config.reload()
    assert caplog.messages == [
        f"{file}:2: unknown key autoCreateTopicEnabled is kept and has no effect; did you mean autoCreateTopicEnable?"
    ]
    assert config.shown()["autoCreateTopicEnabled"] == "false"


def test_a_reload_leaves_what_the_command_line_set(file: Path) -> None:
    file.write_text("namesrvAddr=file:1\nfileReservedTime=48\n")
    config = load_config("broker", file, {"namesrvAddr": "cli:1"})
    file.write_text("namesrvAddr=file:2\nfileReservedTime=24\n")
    config.reload()
    assert (config.text("namesrvAddr"), config.integer("fileReservedTime")) == ("cli:1", 24)


def test_a_reload_of_an_unchanged_file_changes_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not even keys whose value this process has replaced, or that are written in another way than they are shown."""
    file.write_text(
        "listenPort=0\nhaListenPort=0\nbrokerId=3\nmappedFileSizeConsumeQueue=25\nautoCreateTopicEnable=FALSE\nfileReservedTime=048\n"
        "haMasterAddress=\nlogicalDiskSpaceCleanForciblyThreshold=0.80\n"
    )
    config = load_config("broker", file)
    config.override("listenPort", 11911)  # as a broker does that has found a free one
    config.override("haListenPort", 11912)
    config.report_remarks()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert str(config.reload()) == "" and caplog.messages == []
    assert (config.shown()["listenPort"], config.shown()["haListenPort"], config.shown()["brokerId"]) == ("11911", "11912", "0")
    file.write_text(file.read_text().replace("listenPort=0", "listenPort=2000", 1))
    assert config.reload().waiting == ("listenPort",) and config.integer("listenPort") == 11911
    assert str(config.reload()) == "", "it is said once"


def test_what_the_command_line_sets_in_vain_is_told(caplog: pytest.LogCaptureFixture) -> None:
    load_config("broker", None, {"brokerNmae": "a", "sendMessageThreadPoolNums": "9", "brokerName": "b"}).report_remarks()
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "command line: unknown key brokerNmae is kept and has no effect",
    ]
    assert caplog.messages[0].endswith("; did you mean brokerName?")


def test_a_path_that_nothing_uses_is_told_like_any_other_key(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("storePathEpochFile=/data/epoch\n")
    config = load_config("broker", file)
    config.report_remarks()
    config.report_unread()
    assert caplog.messages == ["set, but nothing in this release uses them: storePathEpochFile"]


def test_the_stored_file_keeps_comments_and_order(file: Path) -> None:
    text = "# mine\nfileReservedTime = 48\n\n! other\nlistenPort=2000\n"
    file.write_text(text)
    config = load_config("broker", file)
    stored = config.stored_text(text, {"fileReservedTime": "20", "brokerPermission": "4", "nonsense": "1"})
    assert stored == "# mine\nfileReservedTime=20\n\n! other\nlistenPort=2000\nbrokerPermission=4\n"


def test_printing_shows_every_key_or_the_important_ones() -> None:
    config = load_config("namesrv", None, {"listenPort": "1234"})
    assert "listenPort=1234" in config.print_lines()
    assert "listenPort=1234" in config.print_lines(important=True)
    assert "enableTopicList=true" not in config.print_lines(important=True)


def test_reading_a_name_outside_the_table_is_an_error() -> None:
    config = load_config("namesrv")
    for read in (config.text, config.integer, config.boolean, config.number):
        with pytest.raises(KeyError):
            read("brokerName")


@pytest.mark.parametrize("role", list(TABLES))
def test_every_row_of_the_table_is_whole(role: Role) -> None:
    alone = {"controllerDLegerPeers": "n0-127.0.0.1:9878", "controllerDLegerSelfId": "n0"}
    config = load_config(role, None, alone if role == "controller" else None)
    for key in TABLES[role].values():
        assert key.help.endswith("."), key.name
        shown = config.shown().get(key.name)
        if shown:
            assert config.parse(key.name, shown) is not None, f"the default of {key.name} does not pass its own check"


@pytest.mark.parametrize(
    ("host", "warning"),
    [
        ("127.0.0.1", "loopback"),
        ("localhost", "loopback"),
        ("[::1]", "loopback"),
        ("10.1.2.3", "private"),
        ("192.168.1.1", "private"),
        ("169.254.1.1", "link-local"),
        ("0.0.0.0", "not an address"),
        ("8.8.8.8", None),
        ("broker.example.com", None),
    ],
)
def test_addresses_that_others_cannot_reach_are_told(host: str, warning: str | None) -> None:
    told = reach_warning(host)
    assert told is None if warning is None else warning in (told or "")


def test_secrets_are_neither_shown_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    config = load_config("broker", None, {"initAuthenticationUser": '{"username":"u","password":"hush"}'})
    assert config.text("initAuthenticationUser") == '{"username":"u","password":"hush"}'
    caplog.set_level("INFO")
    config.update({"innerClientAuthenticationCredentials": '{"accessKey":"a","secretKey":"hush"}'})
    told = config.format() + "\n".join(config.print_lines()) + caplog.text
    assert "initAuthenticationUser=******" in told and "innerClientAuthenticationCredentials = ******" in told and "hush" not in told


def test_what_is_said_of_a_secrets_characters_does_not_show_it(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    secret = 'initAuthenticationUser={"username":"u","password":"hüsh-hush"}\n'
    file.write_text(secret, encoding="latin-1")
    with pytest.raises(ConfigError, match=r":1: initAuthenticationUser: \*{6} is not UTF-8") as raised:
        load_config("broker", file)
    assert "hush" not in str(raised.value)
    file.write_text(secret, encoding="utf-8")
    for role in ("broker", "namesrv"):  # which has no such key, and keeps it
        config = load_config(role, file)
        told = "\n".join(config.remarks()) + config.format()
        assert "initAuthenticationUser has characters beyond ASCII" in told and "initAuthenticationUser=******" in told
        assert "hush" not in told


LEDGER = {"enableDLegerCommitLog": "true", "dLegerGroup": "g", "dLegerPeers": "n0-127.0.0.1:40911;n1-127.0.0.1:40912", "dLegerSelfId": "n1"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"dLegerGroup": ""}, "dLegerGroup: is needed with enableDLegerCommitLog=true"),
        ({"dLegerPeers": ""}, "dLegerPeers: is needed with enableDLegerCommitLog=true"),
        ({"dLegerSelfId": "n7"}, "n7 is not one of dLegerPeers: n0, n1"),
        ({"dLegerPeers": "n1-127.0.0.1:40911;n1-127.0.0.1:40912"}, "names the member n1 twice"),
        ({"dLegerPeers": "n0-127.0.0.1:40911;n1-127.0.0.1:40911"}, "names the address 127.0.0.1:40911 twice"),
        ({"dLegerPeers": "n0-127.0.0.1:40911;n1-127.0.0.1:70000"}, "a port from 1 to 65535"),
        ({"dLegerPeers": "a-127.0.0.1:40911;n1-127.0.0.1:40912"}, "'a' is not a letter with a number"),
        ({"dLegerPeers": "n1-127.0.0.1:40911;m1-127.0.0.1:40912"}, "n1 and m1 would both be brokerId 2"),
        ({"dLegerPeers": ";".join(f"n{each}-127.0.0.1:{40000 + each}" for each in range(17))}, "names 17 members"),
        ({"listenPort": "40912"}, "40912 is the port of the listener too"),
        ({"storePathDLedgerCommitLog": "/a,/b"}, "names several directories"),
        ({"enableControllerMode": "true", "controllerAddr": "127.0.0.1:1"}, "cannot both be true"),
    ],
)
def test_a_group_that_could_not_agree_ends_the_start(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config("broker", None, {**LEDGER, **given})
    assert complaint in str(raised.value)


def test_services_that_share_a_configuration_lose_no_update_of_each_other(tmp_path: Path) -> None:
    """A name server and the controller within it, each of which is told to change something."""
    file = tmp_path / "namesrv.conf"
    file.write_text("# ours\n")
    config = load_config("namesrv", file)
    changes = [{"enableTopicList": "false"}, {"enableElectUncleanMaster": "true"}, {"enableAllTopicList": "false"}]

    async def scenario() -> None:
        await asyncio.gather(*(StoredConfig(config).store(change) for change in changes))

    asyncio.run(scenario())
    assert sorted(file.read_text().splitlines()) == [
        "# ours",
        "enableAllTopicList=false",
        "enableElectUncleanMaster=true",
        "enableTopicList=false",
    ]
