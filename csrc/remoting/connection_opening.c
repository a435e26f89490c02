/* connection_opening.c: the beginning of a connection, and its TLS if it has any. RocketMQ: HandshakeHandler, TlsModeHandler
 * (NettyRemotingServer).
 *
 *   a load balancer's header (proxy_header.h), or nothing ─ 0x16: a TLS handshake, by the server's mode ─ frames
 *                                                         └ else: frames, unless the server enforces TLS
 *
 * Where frames may follow, HTTP/2 may follow too if the server forwards it (passage.h).
 */
#include "reactor.h"

#include <stdlib.h>

#include "../base/log_inl.h"
#include "proxy_header.h"

static void refuse(rp_connection *connection, const char *what, const char *reason) {
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(&connection->address, address);
    rp_log_write(connection->reactor->server->options.log, RP_LOG_WARNING, "connection %s closed: %s%s", address, what, reason);
    rp_connection_close(connection, "TLS refused");
}

/* Returns the size of the balancer's header before the first frame; 0 if more bytes are needed to know; negative if there is none. */
static int take_proxy_header(rp_connection *connection, const uint8_t *data, uint32_t size) {
    rp_address source;
    int taken = rp_proxy_header_scan(data, size, &source);
    if (taken > 0) {
        connection->opening = RP_OPENING_PROXIED;
        if (source.size > 0) {
            connection->address = source;
        }
    }
    return taken;
}

static bool make_sealed_buffer(rp_reactor *reactor) {
    if (reactor->sealed == NULL) {
        reactor->sealed = malloc(RP_READ_BYTES_MAX);
    }
    return reactor->sealed != NULL;
}

static void begin_tls(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    rp_tls_context *context = rp_server_share_tls(reactor->server);
    if (context == NULL) {
        refuse(connection, "Trying to establish an SSL connection but sslContext is null", ": no certificate was loaded");
    } else if (rp_server_memory_is_over(reactor->server, RP_TLS_HANDSHAKE_BYTES)) {
        refuse(connection, "no memory for its TLS handshake", ": all connections together hold too much; raise --memory");
    } else if (!make_sealed_buffer(reactor) || (connection->tls = rp_tls_create(context, &reactor->pool)) == NULL) {
        refuse(connection, "memory is out", "");
    } else {
        connection->opening = RP_OPENING_HANDSHAKE;
        connection->progress_ns = reactor->now_ns;
        rp_connection_account_input(reactor, RP_TLS_HANDSHAKE_BYTES, 0);
        rp_connection_look_again(connection);
    }
    rp_tls_context_release(context);
}

/* Returns true if it is known what data begins. */
static bool take_handshake(rp_connection *connection, const uint8_t *data, uint32_t size) {
    int found = rp_tls_scan(data, size);
    if (connection->reactor->server->options.tls_mode == RP_TLS_DISABLED) {
        refuse(connection, "Clients intend to establish an SSL connection while this server is running in SSL disabled mode", "");
    } else if (found < 0) {
        refuse(connection, "it begins as a TLS handshake does, and does not go on so", "");
    } else if (found > 0) {
        begin_tls(connection);
        if (connection->tls != NULL) {
            rp_connection_open_sealed(connection, data, size, 0);
        }
    } else {
        return false;
    }
    return true;
}

bool rp_connection_begin(rp_connection *connection, const uint8_t **data, uint32_t *size) {
    int taken = connection->opening == RP_OPENING_FIRST ? take_proxy_header(connection, *data, *size) : RP_E_PROTOCOL;
    if (taken >= 0) {
        *data += taken;
        *size -= (uint32_t)taken;
        return taken > 0;
    }
    if (**data == RP_TLS_FIRST_BYTE) {
        bool is_known = take_handshake(connection, *data, *size);
        *size = is_known ? 0 : *size;
        return is_known;
    }
    if (connection->reactor->server->options.tls_mode == RP_TLS_ENFORCING) {
        refuse(connection, "Clients intend to establish an insecure connection while this server is running in SSL enforcing mode", "");
    }
    connection->opening = RP_OPENING_DONE;
    return true;
}

int rp_connection_decide(rp_connection *connection, const uint8_t *data, uint32_t size) {
    int found = rp_passage_scan(data, size);
    connection->is_undecided = found == 0;
    if (found == 1) {
        connection->protocol = &connection->reactor->server->passage.protocol;
    }
    return found;
}

/* Output that waited for the handshake may leave now. */
static void finish_handshake(rp_connection *connection) {
    connection->opening = RP_OPENING_DONE;
    rp_connection_account_input(connection->reactor, RP_TLS_BYTES, RP_TLS_HANDSHAKE_BYTES);
    rp_connection_mark_dirty(connection);
}

void rp_connection_open_sealed(rp_connection *connection, const uint8_t *bytes, uint32_t size, uint32_t size_before) {
    rp_reactor *reactor = connection->reactor;
    rp_tls *tls = connection->tls;
    uint32_t start = reactor->read_cursor + size_before;
    bool is_handshake = connection->opening == RP_OPENING_HANDSHAKE;
    const char *reason = NULL;
    reactor->handshakes += is_handshake;
    int64_t opened = rp_tls_open(tls, bytes, size, reactor->read_arena + start, RP_READ_ARENA_BYTES - start, &reason);
    if (tls->sealed.unsent_bytes > 0) {
        rp_connection_mark_dirty(connection);
    }
    if (opened < 0) {
        refuse(connection, is_handshake && !tls->is_established ? "TLS handshake failed: " : "TLS failed: ", reason);
        return;
    }
    if (is_handshake && tls->is_established) {
        finish_handshake(connection);
    }
    if (opened > 0) {
        rp_connection_take_opened(connection, (uint32_t)opened);
    }
    if (tls->has_ended) {
        rp_connection_close(connection, "closed by the other side");
    }
}

void rp_connection_end_tls(rp_connection *connection) {
    rp_tls_say_end(connection->tls, connection->fd);
    rp_connection_account_input(connection->reactor, 0, connection->opening == RP_OPENING_DONE ? RP_TLS_BYTES : RP_TLS_HANDSHAKE_BYTES);
    rp_tls_destroy(connection->tls);
    connection->tls = NULL;
}
