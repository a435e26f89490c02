"""What the configuration says of users and rights; what is wrong with it, said without its secrets."""

from __future__ import annotations

import pytest

from rocketpy.auth.settings import AuthSettings
from rocketpy.config import ConfigError, load_config
from rocketpy.remoting.credentials import Credentials


def settings(**given: str) -> AuthSettings:
    return AuthSettings.of(load_config("broker", None, given))


def test_nothing_is_checked_unless_it_is_asked_for() -> None:
    plain = settings()
    assert not plain.is_on and plain.first_user is None and plain.credentials is None


def test_what_rocketmqs_documentation_shows_is_understood(caplog: pytest.LogCaptureFixture) -> None:
    given = settings(
        authenticationEnabled="true",
        authorizationEnabled="true",
        brokerClusterName="C1",
        authenticationWhitelist="105, 103,,apache.rocketmq.v2.MessagingService",
        authorizationWhitelist="34",
        initAuthenticationUser='{"username":"root","password":"secret-1"}',
        innerClientAuthenticationCredentials='{"accessKey":"inner","secretKey":"secret-2"}',
    )
    assert (given.authenticate, given.authorize, given.cluster_name) == (True, True, "C1")
    assert (given.authentication_whitelist, given.authorization_whitelist) == ({105, 103}, {34})
    assert given.first_user is not None and given.first_user.is_super and given.first_user.password == "secret-1"
    assert given.credentials == Credentials("inner", "secret-2")
    assert "apache.rocketmq.v2.MessagingService" in caplog.text and "secret" not in caplog.text + repr(given)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("initAuthenticationUser", "root:secret", "is no JSON object"),
        ("initAuthenticationUser", '["secret"]', "is no JSON object"),
        ("initAuthenticationUser", '{"password":"secret"}', "username or password is missing"),
        ("initAuthenticationUser", '{"username":"root","password":["secret"]}', "password is list, expected a text"),
        ("innerClientAuthenticationCredentials", '{"accessKey":"a","secretkey":"secret"}', "secretKey is missing"),
        ("innerClientAuthenticationCredentials", '{"secretKey":"secret"}', "accessKey is missing"),
        ("innerClientAuthenticationCredentials", "secret", "is no JSON object"),
    ],
)
def test_a_value_that_cannot_be_read_ends_the_start_and_is_not_shown(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: {complaint}") as fault:
        settings(**{name: text})
    assert "secret" not in str(fault.value).replace("secretKey", "")


def test_no_answer_about_the_configuration_holds_a_secret() -> None:
    config = load_config("broker", None, {"initAuthenticationUser": '{"username":"root","password":"secret"}'})
    assert "secret" not in config.format() + "".join(config.print_lines())
