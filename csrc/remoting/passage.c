/* passage.c: see passage.h. */
#include "passage.h"

#include <stdlib.h>
#include <string.h>

#include "proxy_header.h"
#include "reactor.h"

#define PASSAGE_BYTES_MAX (256u * 1024)
#define PREFACE "PRI " /* a frame that begins so would have 1.3 GB */
#define PREFACE_SIZE (sizeof PREFACE - 1)

/* Two connections of one reactor; an end that is closed is NULL. */
typedef struct pair {
    rp_connection *near, *far;
} pair;

int rp_passage_scan(const uint8_t *data, uint32_t size) {
    if (memcmp(data, PREFACE, size < PREFACE_SIZE ? size : PREFACE_SIZE) != 0) {
        return RP_E_PROTOCOL;
    }
    return size >= PREFACE_SIZE;
}

static rp_connection *other_of(const rp_connection *connection) {
    const pair *both = connection->spoken;
    return both->near == connection ? both->far : both->near;
}

static int say_who_asks(rp_connection *far, const rp_address *client) {
    uint8_t header[RP_PROXY_HEADER_WRITTEN_MAX];
    return rp_connection_put(far, header, rp_proxy_header_write(client, header));
}

/* Begins the near connection, and opens the far one. */
static int begin(void *context, rp_connection *connection) {
    const rp_passage *passage = context;
    pair *both = malloc(sizeof *both);
    rp_connection *far = NULL;
    if (both == NULL || rp_reactor_dial(connection->reactor, &passage->target, &far) != RP_OK) {
        free(both);
        return RP_E_NETWORK;
    }
    *both = (pair){connection, far};
    connection->spoken = far->spoken = both;
    far->protocol = connection->protocol;
    if (say_who_asks(far, &connection->address) != RP_OK) {
        rp_connection_close(far, "memory is out");
    }
    return RP_OK;
}

/* While all connections together hold too much, more is read only after everything has left. */
static bool is_full(const rp_connection *connection) {
    return rp_connection_unsent_bytes(connection) >= (rp_connection_may_hold(connection, 0) ? PASSAGE_BYTES_MAX : 1);
}

static int take(void *context, rp_connection *connection, const uint8_t *data, uint32_t size) {
    rp_connection *other = other_of(connection);
    (void)context;
    if (other == NULL || other->is_closing) { /* nobody receives it; what the other end sent earlier may still be on its way */
        return RP_OK;
    }
    int status = rp_connection_put(other, data, size);
    if (status == RP_OK) {
        other->has_more = true; /* until that has left, fill checks whether this one may be read again */
        rp_connection_mark_dirty(other);
    }
    return status;
}

static bool may_read(void *context, const rp_connection *connection) {
    const rp_connection *other = other_of(connection);
    (void)context;
    return other == NULL || !is_full(other);
}

/* Nothing waits except what was put. While some of that does, each flush calls this afterwards: either the other end may be read again,
 * or it has closed, and so does this one once everything is sent. */
static enum rp_fill fill(void *context, rp_connection *connection) {
    rp_connection *other = other_of(connection);
    uint64_t unsent = rp_connection_unsent_bytes(connection);
    (void)context;
    if (other == NULL && unsent == 0) {
        rp_connection_close(connection, "the other end is over");
    } else if (other != NULL && (other->pauses & RP_PAUSE_OUTPUT) != 0 && unsent < PASSAGE_BYTES_MAX / 2 && !is_full(connection)) {
        rp_connection_mark_dirty(other); /* its flush continues reading */
    }
    return unsent > 0 ? RP_FILL_MORE : RP_FILL_ALL;
}

/* The server at the far end detects idle connections. */
static int64_t look(void *context, rp_connection *connection, int64_t now_ns) {
    (void)context, (void)connection, (void)now_ns;
    return INT64_MAX;
}

static void on_item(void *context, rp_reactor *reactor, rp_connection *connection, rp_posted *item) {
    (void)context, (void)reactor, (void)connection; /* nobody posts to these connections */
    free(item);
}

static void drain(void *context, rp_connection *connection) {
    (void)context;
    rp_connection_close(connection, "the server stops");
}

static bool is_busy(void *context, const rp_connection *connection) {
    (void)context, (void)connection;
    return false;
}

static void end(void *context, rp_connection *connection) {
    pair *both = connection->spoken;
    rp_connection *other = other_of(connection);
    (void)context;
    *(both->near == connection ? &both->near : &both->far) = NULL;
    if (other == NULL) {
        free(both);
    } else if (rp_connection_unsent_bytes(other) == 0 || other->opening != RP_OPENING_DONE) {
        rp_connection_close(other, "the other end is over");
    } else {
        other->has_more = true; /* fill closes it */
        rp_connection_mark_dirty(other);
    }
}

void rp_passage_open(rp_passage *passage, const rp_address *target) {
    passage->target = *target;
    passage->protocol = (rp_protocol){.context = passage,
                                      .alpn = "h2",
                                      .begin = begin,
                                      .take = take,
                                      .fill = fill,
                                      .may_read = may_read,
                                      .look = look,
                                      .on_item = on_item,
                                      .drain = drain,
                                      .is_busy = is_busy,
                                      .end = end};
}
