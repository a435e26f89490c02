"""`rocketpy config auth`: one command lets only known users in, and whoever calls it twice has the same credentials everywhere."""

from __future__ import annotations

import asyncio
import grp
import json
import os
import stat
from pathlib import Path

import pytest

from rocketpy._core.errors import StoreIOError
from rocketpy.admin.access import credentials_of
from rocketpy.auth.settings import AuthSettings
from rocketpy.config import load_config, read_properties
from rocketpy.proxy.settings import ANY_NAME_SERVER, load_settings
from rocketpy.remoting.codes import ResponseCode
from rocketpy.remoting.credentials import Credentials
from rocketpy.state_file import StateFile
from tests.unit.broker.pair import pair
from tests.unit.broker.running import run
from tests.unit.cli.processes import run_here

FIRST = 'initAuthenticationUser={"username":"root","password":"secret-of-root"}\n'
INNER = 'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"secret-of-inner"}\n'


@pytest.fixture(autouse=True)
def without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)


def broker_file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# ours\nbrokerName = broker-a\n{text}")
    return path


def set_up(*arguments: object) -> str:
    """Standard output of a call that works, and tells no secret."""
    done = run_here("config", "auth", *map(str, arguments))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(*arguments: object) -> str:
    done = run_here("config", "auth", *map(str, arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert "secret-of" not in done.stderr
    return done.stderr


def settings_of(path: Path) -> AuthSettings:
    return AuthSettings.of(load_config("broker", path))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_master_slave_proxy_and_mqadmin_have_the_same(tmp_path: Path) -> None:
    master, slave = broker_file(tmp_path / "conf/master.conf"), broker_file(tmp_path / "conf/slave.conf", "brokerId=1\nbrokerRole=SLAVE\n")
    proxy = tmp_path / "conf/rmq-proxy.json"
    proxy.write_text('{"rocketMQClusterName": "DefaultCluster", "futureKey": [1]}')
    said = set_up(master, slave, proxy)
    of_master, of_slave = settings_of(master), settings_of(slave)
    assert of_master == of_slave and of_master.authenticate and of_master.authorize
    user, inner = of_master.first_user, of_master.credentials
    assert user is not None and inner is not None and user.is_super
    assert (user.name, inner.access_key) == ("admin", "inner") and len({user.password, inner.secret_key}) == 2
    settings, others = load_settings(proxy, {"namesrvAddr": ANY_NAME_SERVER}, {})
    assert settings.credentials == inner and settings.authentication_enabled and settings.authorization_enabled
    assert others == {"futureKey": [1]}
    assert credentials_of({"ROCKETMQ_HOME": str(tmp_path)}) == Credentials(user.name, user.password)
    for path in (master, slave, proxy, tmp_path / "conf/tools.yml"):
        assert mode(path) == 0o600 and f"{path}: " in said
    assert master.read_text().startswith("# ours\nbrokerName = broker-a\n")
    assert f"ROCKETMQ_HOME={tmp_path} rocketpy admin createUser -c DefaultCluster -n" in said
    assert user.password not in said and inner.secret_key not in said
    for path in (master, slave):
        assert run_here("config", "check", str(path)).returncode == 0


def test_a_cluster_works_with_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Master, slave, mqadmin and a client, by the commands of docs/operating.md."""
    files = [broker_file(tmp_path / f"conf/{name}.conf") for name in ("master", "slave")]
    set_up(*files)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    master, slave = ({entry.key: entry.value for entry in read_properties(file.read_text())} for file in files)

    async def test() -> None:
        async with pair(tmp_path, master, slave, credentials_of(os.environ)) as brokers:
            for command in (
                ["createUser", "-u", "alice", "-p", "secret-of-alice"],
                ["createAcl", "-s", "User:alice", "-r", "Topic:orders*,Group:readers", "-a", "Pub,Sub", "-d", "Allow"],
                ["updateTopic", "-t", "orders"],
            ):
                where = ["-c", "DefaultCluster", "-n", f"127.0.0.1:{brokers.at.namesrv.port}"]
                done = await asyncio.to_thread(run_here, "admin", *command, *where)
                assert (done.returncode, done.stderr) == (0, "")
            await brokers.copy_tables()
            parts = brokers.slave_service.parts
            assert parts is not None and "orders" in parts.topics
            alice, stranger = brokers.at.peer(Credentials("alice", "secret-of-alice")), brokers.at.peer()
            assert (await alice.send("orders")).code == 0 and (await alice.pull("readers", "orders")).code == 0
            assert (await alice.send("bills")).code == (await stranger.send("orders")).code == ResponseCode.NO_PERMISSION

    run(test)


def test_a_second_call_changes_nothing(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "broker.conf")
    set_up(file)
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "has them already" in set_up(file)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == written


def test_a_broker_of_another_host_gets_those_of_a_copied_file(tmp_path: Path) -> None:
    first, second = broker_file(tmp_path / "a/broker.conf"), broker_file(tmp_path / "b/broker.conf")
    set_up(first)
    set_up(second, "--from", first)
    assert settings_of(second) == settings_of(first)
    assert not list(tmp_path.glob("b/**/tools.yml"))
    assert "is missing: --from takes" in refused(first, "--from", broker_file(tmp_path / "c/broker.conf"))


def test_what_a_file_has_counts_for_the_others(tmp_path: Path) -> None:
    old, new = broker_file(tmp_path / "old.conf", FIRST + INNER), broker_file(tmp_path / "new.conf")
    set_up(new, old)
    assert settings_of(new) == settings_of(old)
    assert settings_of(new).credentials == Credentials("inner", "secret-of-inner")


@pytest.mark.parametrize("line", [FIRST, INNER])
def test_two_files_that_differ_stay_as_they_are(tmp_path: Path, line: str) -> None:
    files = [
        broker_file(tmp_path / "a.conf", FIRST + INNER),
        broker_file(tmp_path / "b.conf", line.replace("secret-of-", "secret-of-other-")),
    ]
    before = [file.read_bytes() for file in files]
    said = refused(*files)
    assert str(files[0]) in said and f"{files[1]}: {line.partition('=')[0]}: " in said
    assert [file.read_bytes() for file in files] == before and not (tmp_path / "conf").exists()


def test_what_would_not_start_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    good = broker_file(tmp_path / "good.conf")
    proxy = tmp_path / "rmq-proxy.json"
    proxy.write_text("{}")
    commented = tmp_path / "commented.json"
    commented.write_text("{/* ours */}")
    for arguments, cause in (
        ([tmp_path / "none.conf"], "cannot be read: No such file"),
        ([broker_file(tmp_path / "bad.conf", "listenPort=ten\n")], "listenPort"),
        ([broker_file(tmp_path / "half.conf", 'initAuthenticationUser={"username":"a"}\n')], "password is missing"),
        ([commented], "no standard JSON"),
        ([broker_file(tmp_path / "first.conf", FIRST), "--user", "alice"], "is 'root' already, and --user alice"),
        (["--user", "inner"], "choose another, --user NAME"),
        (["--user", "o'hara"], "has a quote"),
        (
            [broker_file(tmp_path / "twice.conf", INNER + FIRST + INNER)],
            "twice.conf:5: innerClientAuthenticationCredentials: stands in line 3",
        ),
        (["--home", good], f"{good} is not a directory"),
    ):
        assert cause in refused(good, *arguments)
    assert "name the file of one, or --from" in refused(proxy)
    assert "Authentication" not in good.read_text() and proxy.read_text() == "{}"


def test_mqadmin_keeps_another_users_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As RocketMQ comes with."""
    file, tools = broker_file(tmp_path / "broker.conf"), tmp_path / "rocketmq/conf/tools.yml"
    tools.parent.mkdir(parents=True)
    tools.write_text("accessKey: rocketmq2\nsecretKey: 12345678\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "rocketmq"))
    assert f"{tools}: accessKey: is 'rocketmq2', whose credentials stay" in refused(file)
    assert "Authentication" not in file.read_text()
    set_up(file, "--home", tmp_path, "--user", "alice")
    assert credentials_of({"ROCKETMQ_HOME": str(tmp_path)}) is not None
    tools.write_text("# nobody's")
    set_up(file)
    found = credentials_of({"ROCKETMQ_HOME": str(tmp_path / "rocketmq")})
    assert found is not None and found.access_key == "alice" and tools.read_text().startswith("# nobody's\n")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("  accessKey: alice", "is no line"),
        ("'accessKey': alice", "is no line"),
        ("accessKey : alice", "is no line"),
        ("accessKey:\talice", "is no line"),
        ("{accessKey: alice}", "is no line"),
        ("{}", "is no line"),
        ("- accessKey", "is no line"),
        ("name: [1,", "is no line"),
        ("name: {a: 1}", "is no line"),
        ("name: |", "is no line"),
        ("name: 'open", "is no line"),
        ("name: a: b", "is no line"),
        ("name: a\tb", "is no line"),
        ("...", "is no line"),
        ("# bell \a", "is no line"),
        ("name: 1\nname: 1", "is a name that stands twice"),
        ("name: 1\n---", "is no line"),
    ],
)
def test_tools_that_mqadmin_might_read_otherwise_are_refused(tmp_path: Path, line: str, cause: str) -> None:
    file, tools = broker_file(tmp_path / "conf/broker.conf"), tmp_path / "conf/tools.yml"
    text = f"# ours\n\n{line}\n"
    tools.write_text(text)
    assert f"{tools}:{text.count(chr(10))}: accessKey: {cause}" in refused(file)
    assert tools.read_text() == text and "Authentication" not in file.read_text()


def test_tools_of_plain_lines_get_two_more(tmp_path: Path) -> None:
    file, tools = broker_file(tmp_path / "conf/broker.conf", FIRST + INNER), tmp_path / "conf/tools.yml"
    text = "---\n  # ours, größer\n  # ours, größer\n\nname: a:b#c d # why\nother:\nquoted: 'a b: {' # why\nnumber: -12"
    tools.write_text(text, encoding="utf-8")
    set_up(file)
    assert tools.read_text(encoding="utf-8") == f"{text}\naccessKey: 'root'\nsecretKey: 'secret-of-root'\n"
    assert f"{tools}: has them already" in set_up(file)


def test_secrets_that_others_could_read_are_closed(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "broker.conf", FIRST + INNER)
    file.chmod(0o644)
    assert f"{file}: written; only " in (said := set_up(file)) and "which others could before" in said
    backup = tmp_path / "broker.conf.bak"
    assert (mode(file), mode(backup)) == (0o600, 0o600) and "secret-of-root" in backup.read_text()
    backup.chmod(0o644)
    assert "others could" not in set_up(file) and mode(backup) == 0o600


def test_a_group_reads_on_where_nobody_else_could(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "broker.conf")
    file.chmod(0o640)
    assert f"and group {grp.getgrgid(file.stat().st_gid).gr_name} read it\n" in set_up(file)
    assert (mode(file), mode(tmp_path / "broker.conf.bak"), mode(tmp_path / "conf/tools.yml")) == (0o640, 0o640, 0o600)


def test_a_copy_that_others_can_read_is_told(tmp_path: Path) -> None:
    copy, file = broker_file(tmp_path / "copy", FIRST + INNER), broker_file(tmp_path / "broker.conf")
    copy.chmod(0o644)
    assert f"{copy} has the same secrets, and others can read it" in set_up(file, "--from", copy)
    copy.chmod(0o640)
    assert "others can" not in set_up(file, "--from", copy)


def test_what_was_written_is_told_before_what_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [broker_file(tmp_path / f"{name}.conf") for name in "ab"]
    real_write = StateFile.write_bytes

    def write(file: StateFile, data: bytes) -> None:
        if file.path == files[1]:
            raise StoreIOError("no more", file=str(file.path))
        real_write(file, data)

    monkeypatch.setattr(StateFile, "write_bytes", write)
    done = run_here("config", "auth", *map(str, files))
    assert done.returncode == 1 and "no more" in done.stderr
    assert done.stdout.splitlines() == [line for line in done.stdout.splitlines() if line.startswith(f"{files[0]}: written")] != []


def test_lines_of_windows_stay_so(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "broker.conf")
    file.write_bytes(b"brokerName=a\r\n")
    set_up(file)
    assert file.read_bytes().startswith(b"brokerName=a\r\n") and file.read_bytes().count(b"\r\n") == file.read_bytes().count(b"\n") == 5


def test_a_file_of_two_names_is_written_once(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "broker.conf")
    before = file.read_text()
    (tmp_path / "link.conf").symlink_to(file)
    said = set_up(file, file, tmp_path / "link.conf")
    assert said.count(": written") == 1 and (tmp_path / "broker.conf.bak").read_text() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_file_stays_its_owners(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "broker.conf")
    os.chown(file, 65534, 65534)
    assert "only nobody reads it" in set_up(file)
    assert (file.stat().st_uid, file.stat().st_gid, mode(file)) == (65534, 65534, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_who_cannot_keep_the_owner_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_root, of_group = broker_file(tmp_path / "a.conf"), broker_file(tmp_path / "b.conf")
    os.chown(of_group, 65534, 54321)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert f"{of_root}: configFile: belongs to root: call this as its owner, or as root" in refused(of_root)
    assert f"{of_group}: configFile: belongs to group 54321, which this user is not of" in refused(of_group)
    assert "Authentication" not in of_root.read_text() + of_group.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_lies_beside_a_file_stops_nobody_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups that others own and all can read; one that is a directory."""
    done, other = broker_file(tmp_path / "a.conf"), broker_file(tmp_path / "b.conf")
    set_up(done)
    for path in (done, other, tmp_path / "conf/tools.yml"):
        os.chown(path, 65534, 65534)
    foreign, directory = tmp_path / "a.conf.bak", tmp_path / "b.conf.bak"
    foreign.chmod(0o644)
    directory.mkdir()
    before = other.read_text()
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(os, "getgroups", lambda: [65534])
    said = refused(other, done)
    assert f"{other}: configFile: {directory} is no regular file: move it away" in said
    assert f"{done}: configFile: {foreign} belongs to root: move it away, or call this as root" in said
    assert other.read_text() == before and mode(foreign) == 0o644
    directory.rmdir()
    directory.touch()
    foreign.chmod(0o600)
    assert f"{other}: written" in set_up(other, done), "a backup that only its owner, and root, can read is closed"
    tmp_path.chmod(0o1777)
    other.write_text(before)
    directory.unlink()
    directory.touch()
    os.chown(tmp_path, 12345, 12345)
    assert f"{directory} belongs to root" in refused(other, done), "nobody replaces another's file here"


def test_a_link_goes_on_to_its_file(tmp_path: Path) -> None:
    file = broker_file(tmp_path / "real/broker.conf")
    link = tmp_path / "broker.conf"
    link.symlink_to(file)
    set_up(link)
    assert link.is_symlink() and settings_of(file).authenticate


def test_a_proxy_gets_the_brokers_credentials_alone(tmp_path: Path) -> None:
    file, proxy = broker_file(tmp_path / "broker.conf", FIRST + INNER), tmp_path / "rmq-proxy.json"
    proxy.write_text('{"grpcServerPort": 8081}')
    set_up(proxy, "--from", file)
    value = json.loads(proxy.read_text())
    assert value["grpcServerPort"] == 8081 and value["enableAclRpcHookForClusterMode"] is True
    assert json.loads(value["innerClientAuthenticationCredentials"]) == {"accessKey": "inner", "secretKey": "secret-of-inner"}
    assert "secret-of-root" not in proxy.read_text() and "Authentication" in file.read_text()


def test_a_proxy_that_lacks_what_to_sign_with_gets_it(tmp_path: Path) -> None:
    file, proxy = broker_file(tmp_path / "broker.conf", FIRST + INNER), tmp_path / "rmq-proxy.json"
    proxy.write_text('{"enableAclRpcHookForClusterMode": true}')
    set_up(proxy, "--from", file)
    settings, _ = load_settings(proxy, {"namesrvAddr": ANY_NAME_SERVER}, {})
    assert settings.credentials == Credentials("inner", "secret-of-inner") and settings.authentication_enabled


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"futureKey": 1e400}', "1e400, which is too large"),
        ('{"futureKey": [NaN]}', "a number that JSON has not"),
        ('{"futureKey": 1, "futureKey": 2}', "'futureKey' stands twice in one object"),
        ('{"futureKey": {"a": 1, "a": 1}}', "'a' stands twice in one object"),
    ],
)
def test_a_proxys_file_that_could_not_be_written_again_is_refused(tmp_path: Path, text: str, cause: str) -> None:
    file, proxy = broker_file(tmp_path / "broker.conf"), tmp_path / "rmq-proxy.json"
    proxy.write_text(text)
    assert cause in refused(file, proxy)
    assert proxy.read_text() == text and "Authentication" not in file.read_text()


def test_half_a_character_of_a_proxys_file_is_kept(tmp_path: Path) -> None:
    file, proxy = broker_file(tmp_path / "broker.conf"), tmp_path / "rmq-proxy.json"
    proxy.write_text('{"futureKey": "\\ud800"}')
    set_up(file, proxy)
    assert '"futureKey": "\\ud800"' in proxy.read_text()
