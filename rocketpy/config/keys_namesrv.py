"""Keys of the name server and the controller.
RocketMQ: NamesrvConfig, ControllerConfig, JraftConfig (5.3.3 common/).
"""

from __future__ import annotations

import os

from .keys import THREADS, Key, choice, home_directory, long, number, switch, text
from .keys_metrics import EXPORTER_KEYS


def _home_file(*parts: str) -> str:
    return str(home_directory().joinpath(*parts))


def rocketmq_home() -> str | None:
    return os.environ.get("ROCKETMQ_HOME")


NAMESRV_KEYS: tuple[Key, ...] = (
    text("rocketmqHome", rocketmq_home, "RocketMQ's installation (ROCKETMQ_HOME).", idle="nothing of an installation is needed"),
    text("kvConfigPath", lambda: _home_file("namesrv", "kvConfig.json"), "File of the key-value configuration.", pattern="path"),
    text(
        "configStorePath",
        lambda: _home_file("namesrv", "namesrv.properties"),
        "File that run-time changes of configuration go to.",
        pattern="path",
    ),
    text("productEnvName", "center", "Environment that clusterTest asks for unknown topics."),
    switch("clusterTest", False, "Ask productEnvName's name servers for topics that are unknown here.", idle="a test aid of its authors"),
    switch("orderMessageEnable", False, "Put a topic's order configuration into its route.", live=True),
    switch("returnOrderTopicConfigToBroker", True, "Answer registrations with the order configuration of all topics.", live=True),
    number("clientRequestThreadPoolNums", 8, "Threads for route requests.", idle=THREADS),
    number("defaultThreadPoolNums", 16, "Threads for all other requests.", idle=THREADS),
    number("clientRequestThreadPoolQueueCapacity", 50000, "Route requests that may wait.", idle=THREADS),
    number("defaultThreadPoolQueueCapacity", 10000, "Other requests that may wait.", idle=THREADS),
    long("scanNotActiveBrokerInterval", 5000, "Pause between looks for brokers without heartbeat.", "ms", least=10),
    number("unRegisterBrokerQueueCapacity", 3000, "Brokers that may wait to be unregistered together.", "brokers", least=1),
    switch("supportActingMaster", False, "Let the slave with the least id stand in for a master that is down.", live=True),
    switch("enableAllTopicList", True, "Answer requests for the list of all topics.", live=True),
    switch("enableTopicList", True, "Answer requests for lists of topics by cluster or unit.", live=True),
    switch("notifyMinBrokerIdChanged", False, "Tell the brokers of a group when their least broker id changes.", live=True),
    switch("enableControllerInNamesrv", False, "Run a controller inside the name server."),
    switch("needWaitForService", False, "Answer no routes during waitSecondsForService, while brokers register.", live=True),
    number("waitSecondsForService", 45, "How long routes are withheld after start with needWaitForService.", "s", live=True),
    switch("deleteTopicWithBrokerRegistration", False, "Forget topics of a broker that its registration does not list.", live=True),
    text("configBlackList", "configBlackList;configStorePath;kvConfigPath", "Keys that UPDATE_NAMESRV_CONFIG must not touch."),
)

NO_JRAFT = "controllerType=jRaft is refused"

CONTROLLER_KEYS: tuple[Key, ...] = (
    text("rocketmqHome", rocketmq_home, "RocketMQ's installation (ROCKETMQ_HOME).", idle="nothing of an installation is needed"),
    text("configStorePath", lambda: _home_file("controller", "controller.properties"), "File that run-time changes go to."),
    choice("controllerType", "DLedger", "DLedger jRaft", "Consensus between controllers."),
    long("scanNotActiveBrokerInterval", 5000, "Pause between looks for brokers without heartbeat.", "ms", least=10),
    number("controllerThreadPoolNums", 16, "Threads for requests.", idle=THREADS),
    number("controllerRequestThreadPoolQueueCapacity", 50000, "Requests that may wait.", idle=THREADS),
    text("controllerDLegerGroup", None, "Name of the controllers' group."),
    text(
        "controllerDLegerPeers",
        None,
        "Members of the group, such as n0-10.0.0.1:9878;n1-10.0.0.2:9878. The controller listens on its own address among them.",
        pattern="peers",
    ),
    text("controllerDLegerSelfId", None, "Which member this is."),
    number("mappedFileSize", 1024**3, "Size of a file of the controllers' log, one for the whole group.", "bytes", least=4096),
    text("controllerStorePath", "", "Directory of the controllers' log; empty is ~/DledgerController."),
    number("electMasterMaxRetryCount", 3, "Elections tried again before giving up.", least=0),
    switch("enableElectUncleanMaster", False, "Elect outside the in-sync set when it is empty. May lose messages.", live=True),
    switch("isProcessReadEvent", False, "Pass reads through the log as well."),
    switch("notifyBrokerRoleChanged", True, "Tell brokers their new role instead of waiting until they ask.", live=True),
    long("scanInactiveMasterInterval", 5000, "Pause between looks for groups without master.", "ms", least=10),
    *EXPORTER_KEYS,
    text("configBlackList", "configBlackList;configStorePath", "Keys that UPDATE_CONTROLLER_CONFIG must not touch."),
    number("jRaftElectionTimeoutMs", 1000, "Election time-out of jRaft.", "ms", least=1, idle=NO_JRAFT),
    number("jRaftScanWaitTimeoutMs", 1000, "How long a scan waits for jRaft.", "ms", least=1, idle=NO_JRAFT),
    number("jRaftSnapshotIntervalSecs", 3600, "Pause between snapshots of jRaft.", "s", least=1, idle=NO_JRAFT),
    text("jRaftGroupId", "jRaft-Controller", "Name of the jRaft group.", idle=NO_JRAFT),
    text("jRaftServerId", "localhost:9880", "This member of the jRaft group.", idle=NO_JRAFT),
    text("jRaftInitConf", "localhost:9880,localhost:9881,localhost:9882", "First members of the jRaft group.", idle=NO_JRAFT),
    text("jRaftControllerRPCAddr", "localhost:9770,localhost:9771,localhost:9772", "Addresses of the members for brokers.", idle=NO_JRAFT),
)

EVERY_REQUEST = "every request is checked"
ONE_PROVIDER = "there is one provider"
AT_ONCE = "changes are seen at once"

AUTH_KEYS: tuple[Key, ...] = (
    text("configName", None, "Name of this configuration of users and rights.", idle="it is the broker's name"),
    text("clusterName", None, "Cluster the rights are for.", idle="it is brokerClusterName"),
    text("authConfigPath", None, "Directory of users and rights.", idle="it is config below storePathRootDir, as for RocketMQ's broker"),
    switch("authenticationEnabled", False, "Ask who every request is from: it must be signed with a user's password."),
    text("authenticationProvider", None, "Class that checks who a client is.", idle=ONE_PROVIDER),
    text("authenticationMetadataProvider", None, "Class that keeps users.", idle=ONE_PROVIDER),
    text("authenticationStrategy", None, "Class that decides when to check.", idle=EVERY_REQUEST),
    text("authenticationWhitelist", None, "Request codes that need no authentication, separated by commas."),
    text(
        "initAuthenticationUser",
        None,
        "First super user, as JSON with username and password; made when there is none of that name.",
        secret=True,
    ),
    text(
        "innerClientAuthenticationCredentials",
        None,
        "What this broker signs its own requests with, to masters and slaves: JSON with accessKey and secretKey of a user, a super user "
        "that is made when there is none.",
        secret=True,
    ),
    switch("authorizationEnabled", False, "Check that a request's user has the right to what it asks for."),
    text("authorizationProvider", None, "Class that checks rights.", idle=ONE_PROVIDER),
    text("authorizationMetadataProvider", None, "Class that keeps rights.", idle=ONE_PROVIDER),
    text("authorizationStrategy", None, "Class that decides when to check.", idle=EVERY_REQUEST),
    text("authorizationWhitelist", None, "Request codes that need no rights, separated by commas."),
    switch(
        "migrateAuthFromV1Enabled",
        False,
        "Take users and rights over from conf/plain_acl.yml and conf/acl below rocketmqHome: those who are not there yet, at each start.",
    ),
    number("userCacheMaxNum", 1000, "Users kept in memory.", idle="all of them are"),
    number("userCacheExpiredSecond", 600, "How long a user is kept.", "s", idle=AT_ONCE),
    number("userCacheRefreshSecond", 60, "How often a user is read again.", "s", idle=AT_ONCE),
    number("aclCacheMaxNum", 1000, "Rights kept in memory.", idle="all of them are"),
    number("aclCacheExpiredSecond", 600, "How long rights are kept.", "s", idle=AT_ONCE),
    number("aclCacheRefreshSecond", 60, "How often rights are read again.", "s", idle=AT_ONCE),
    number("statefulAuthenticationCacheMaxNum", 10000, "Users remembered.", idle=EVERY_REQUEST),
    number("statefulAuthenticationCacheExpiredSecond", 60, "How long it is remembered.", "s", idle=EVERY_REQUEST),
    number("statefulAuthorizationCacheMaxNum", 10000, "Rights remembered.", idle=EVERY_REQUEST),
    number("statefulAuthorizationCacheExpiredSecond", 60, "How long they are remembered.", "s", idle=EVERY_REQUEST),
)
