"""Keys of listeners and outgoing connections, and rocketpy's own additions.
RocketMQ: NettyServerConfig, NettyClientConfig, TlsSystemConfig (5.3.3 remoting/netty/).
"""

from __future__ import annotations

from .keys import JAVA_IO, THREADS, Key, choice, long, number, size, switch, text
from .memory import BUFFERS_MAX, LEAST, found_memory


def server_keys(listen_port: int) -> tuple[Key, ...]:
    """The listener's keys; only the default port differs between roles."""
    return (
        text("bindAddress", "0.0.0.0", "Address the listener binds to; 0.0.0.0 is every interface, those of IPv6 too.", pattern="host"),
        number("listenPort", listen_port, "Port of the listener; 0 takes any free one.", most=65535, important=True),
        number("serverWorkerThreads", 8, "Netty worker threads.", idle=THREADS),
        number("serverCallbackExecutorThreads", 0, "Callback threads.", idle=THREADS),
        number("serverSelectorThreads", 3, "Netty selector threads; see reactorThreads.", idle=THREADS),
        number("serverOnewaySemaphoreValue", 256, "Outgoing oneway requests at once.", "requests", least=1),
        number("serverAsyncSemaphoreValue", 64, "Outgoing requests at once.", "requests", least=1),
        number("serverChannelMaxIdleTimeSeconds", 120, "A connection without traffic this long is closed.", "s", least=1),
        number("serverSocketSndBufSize", 0, "Socket send buffer; 0 leaves it to the kernel.", "bytes"),
        number("serverSocketRcvBufSize", 0, "Socket receive buffer; 0 leaves it to the kernel.", "bytes"),
        number("writeBufferHighWaterMark", 0, "Output bytes of a connection at which it stops being read; 0 is 8 MiB.", "bytes"),
        number("writeBufferLowWaterMark", 0, "Output bytes at which it is read again.", "bytes", idle=JAVA_IO),
        number("serverSocketBacklog", 1024, "Connections the kernel may hold before they are accepted.", least=1),
        switch("serverNettyWorkerGroupEnable", True, "Separate Netty worker group.", idle=THREADS),
        switch("serverPooledByteBufAllocatorEnable", True, "Netty's pooled buffers.", idle=JAVA_IO),
        switch("enableShutdownGracefully", False, "Answer GO_AWAY while shutting down."),
        number("shutdownWaitTimeSeconds", 30, "How long a graceful shutdown waits.", "s"),
        switch("useEpollNativeSelector", False, "epoll instead of NIO; here it is always epoll.", idle=JAVA_IO),
    )


CLIENT_KEYS: tuple[Key, ...] = (
    number("clientWorkerThreads", 4, "Netty worker threads.", idle=THREADS),
    number("clientCallbackExecutorThreads", 2, "Callback threads.", idle=THREADS),
    number("clientOnewaySemaphoreValue", 65535, "Outgoing oneway requests at once.", "requests", least=1),
    number("clientAsyncSemaphoreValue", 65535, "Outgoing requests at once.", "requests", least=1),
    number("connectTimeoutMillis", 3000, "How long connecting to a peer may take.", "ms", least=1),
    long("channelNotActiveInterval", 60000, "How long a channel stays unused before it is checked.", "ms", idle=JAVA_IO),
    switch("isScanAvailableNameSrv", True, "Look for reachable name servers.", idle="every call goes to all of them"),
    number("clientChannelMaxIdleTimeSeconds", 120, "An outgoing connection unused this long is closed.", "s", least=1),
    number("clientSocketSndBufSize", 0, "Socket send buffer; 0 leaves it to the kernel.", "bytes"),
    number("clientSocketRcvBufSize", 0, "Socket receive buffer; 0 leaves it to the kernel.", "bytes"),
    switch("clientPooledByteBufAllocatorEnable", False, "Netty's pooled buffers.", idle=JAVA_IO),
    switch("clientCloseSocketIfTimeout", True, "Close a connection whose request timed out."),
    switch("useTLS", False, "TLS on outgoing connections. Where it is not set: true if tls.enable is, or tls.server.mode=enforcing."),
    text("socksProxyConfig", "{}", "SOCKS proxies by address range, as JSON.", idle="outgoing connections are direct"),
    switch("disableCallbackExecutor", False, "Run callbacks on I/O threads.", idle=THREADS),
    switch("disableNettyWorkerGroup", False, "No separate Netty worker group.", idle=THREADS),
    long("maxReconnectIntervalTimeSeconds", 60, "Longest pause between reconnects after GO_AWAY.", "s"),
    switch("enableReconnectForGoAway", True, "Reconnect and repeat a request that was answered GO_AWAY."),
)

TLS_KEYS: tuple[Key, ...] = (
    choice("tls.server.mode", "permissive", "disabled permissive enforcing", "Whether clients may (permissive) or must speak TLS."),
    text("tls.config.file", "/etc/rocketmq/tls.properties", "File of tls keys; where it exists, it wins over the configuration."),
    switch("tls.test.mode.enable", True, "A self-signed certificate made at start, and any server trusted; the files below are idle."),
    text("tls.server.certPath", "", "PEM file: the server's certificate, then those between it and the trusted one."),
    text("tls.server.keyPath", "", "PEM file: the key of the server's certificate."),
    text("tls.server.keyPassword", "", "Password of the key in tls.server.keyPath.", secret=True),
    choice("tls.server.need.client.auth", "none", "none optional require", "Whether clients are asked for a certificate."),
    switch("tls.server.authClient", False, "Whether clients' certificates are verified."),
    text("tls.server.trustCertPath", "", "PEM file: who vouches for clients; empty: whom the system trusts."),
    switch("tls.enable", False, "TLS on outgoing connections where useTLS is not set."),
    text("tls.client.certPath", "", "PEM file: the certificate shown on outgoing connections."),
    text("tls.client.keyPath", "", "PEM file: the key of the certificate in tls.client.certPath."),
    text("tls.client.keyPassword", "", "Password of the key in tls.client.keyPath.", secret=True),
    switch("tls.client.authServer", False, "Whether servers' certificates are verified."),
    text("tls.client.trustCertPath", "", "PEM file: who vouches for servers; empty: whom the system trusts."),
)

OWN_KEYS: tuple[Key, ...] = (
    text("advertise", "", "HOST or HOST:PORT registered for clients, when it is not brokerIP1:listenPort.", pattern="advertise"),
    text("advertiseHa", "", "HOST or HOST:PORT registered for slaves, when it is not brokerIP2:haListenPort.", pattern="advertise"),
    number("reactorThreads", 0, "Reactor threads of the listener; 0 is one per core, and one on two cores.", "threads", most=64),
    number("reactorSpinMicros", 50, "Busy polling after answers to clients that ask singly, while that pays; 0 is off.", "us", most=1000),
    number("connectionsMax", 65536, "Connections at once; more are accepted and closed.", "connections", least=1),
    number("frameSizeMax", 16 * 1024 * 1024, "Largest frame accepted.", "bytes", least=1024),
    number("requestRingCapacity", 10000, "Requests waiting for Python before SYSTEM_BUSY.", "requests", least=16),
    size("memory", lambda: found_memory().size, "Memory to plan with; --memory. What takes it: operating.md, Sizes.", least=LEAST),
    long("bufferBytesMax", BUFFERS_MAX, "Buffers of all connections together; by default less with little memory.", "bytes", least=1 << 20),
    number("stallTimeoutMillis", 30000, "A connection that does not read its answers this long is closed.", "ms", least=100),
    choice("flushBackend", "AUTO", "AUTO SYSCALL IO_URING", "How syncs are made (io_uring: by pyuring); SYNC_FLUSH with AUTO times both."),
    text("logPath", "", "Directory of log files; empty writes to standard error."),
    choice("logLevel", "INFO", "DEBUG INFO WARNING ERROR", "Least level that is logged.", live=True),
    choice("logFormat", "text", "text json", "One line of text or one JSON object a record."),
    number("logFileSize", 64 * 1024 * 1024, "A log file this large is rotated.", "bytes", least=4096),
    number("logFileCount", 10, "Rotated log files kept.", "files", least=1),
)
