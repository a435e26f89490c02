/* dledger_group.h: three members of a DLedger group in one process: stores, ports, and elections decided by the test. */
#ifndef RP_TESTS_DLEDGER_GROUP_H
#define RP_TESTS_DLEDGER_GROUP_H

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "../../../csrc/ha/dledger_log.h"
#include "ledger_fixture.h"

#define MEMBERS 3
#define WAIT_TURNS 300000 /* of 0.2 ms: a minute, which only a hang takes */

typedef struct member {
    ledger ledger;
    char id[8];
    rp_dledger_log *dledger;
    rp_server *server;
    int port_fd; /* bound while the group exists, so that nobody else gets the port of a stopped member */
    uint16_t port;
    _Atomic int64_t committed; /* the last value given to on_committed; INT64_MIN: none yet */
    _Atomic int stepped_down;
} member;

typedef struct group {
    member members[MEMBERS];
    char peers[200];
    int flush_mode;
    uint32_t batch_bytes, push_timeout_ms; /* 0: a timeout that no test reaches */
} group;

#define WAIT_FOR(condition)                                                                                                                \
    do {                                                                                                                                   \
        struct timespec wait_pause = {.tv_nsec = 200000};                                                                                  \
        for (int wait_turn = 0; !(condition); wait_turn++) {                                                                               \
            CHECK(wait_turn < WAIT_TURNS);                                                                                                 \
            nanosleep(&wait_pause, NULL);                                                                                                  \
        }                                                                                                                                  \
    } while (0)

static inline void on_committed(void *context, int64_t offset) {
    member *one = context;
    atomic_store(&one->committed, offset);
    atomic_fetch_add(&one->stepped_down, offset < 0);
}

static inline void open_member(group *all, int number) {
    member *one = &all->members[number];
    rp_error error;
    rp_dledger_options options;
    rp_dledger_options_default(&options);
    options.store = one->ledger.store;
    options.group = "G";
    options.self_id = one->id;
    options.peers = all->peers;
    options.batch_bytes = all->batch_bytes;
    options.sync = all->flush_mode == RP_FLUSH_SYNC;
    options.retry_ms = 5;
    options.push_timeout_ms = all->push_timeout_ms != 0 ? all->push_timeout_ms : 20000;
    options.commit_interval_ms = 20;
    options.on_committed = on_committed;
    options.context = one;
    atomic_store(&one->committed, INT64_MIN);
    int rc = rp_dledger_open(&options, &one->dledger, &error);
    if (rc != RP_OK)
        fprintf(stderr, "%s\n", error.message);
    CHECK(rc == RP_OK);
}

static inline void listen_member(member *one) {
    rp_server_options options;
    rp_error error;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.port = one->port;
    options.reactors = 1;
    CHECK(rp_server_open(&options, rp_dledger_handler(one->dledger), &one->server, &error) == RP_OK);
    CHECK(rp_server_start(one->server, &error) == RP_OK);
}

static inline void stop_member(member *one) {
    if (one->server != NULL)
        rp_server_close(one->server);
    one->server = NULL;
    rp_dledger_close(one->dledger);
    one->dledger = NULL;
    fixture_close(one->ledger.store);
    one->ledger.store = NULL;
}

static inline void start_member(group *all, int number) {
    ledger_reopen(&all->members[number].ledger);
    open_member(all, number);
    listen_member(&all->members[number]);
}

/* A server may still listen there, because it reuses addresses. */
static inline void take_port(member *one) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int reuse = 1;
    one->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(one->port_fd >= 0 && setsockopt(one->port_fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0);
    CHECK(bind(one->port_fd, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(one->port_fd, (struct sockaddr *)&address, &size) == 0);
    one->port = ntohs(address.sin_port);
}

/* Takes the ports first. */
static inline void open_group(group *all, int flush_mode, uint32_t batch_bytes) {
    memset(all, 0, sizeof *all);
    all->flush_mode = flush_mode;
    all->batch_bytes = batch_bytes;
    for (int i = 0; i < MEMBERS; i++) {
        take_port(&all->members[i]);
        snprintf(all->members[i].id, sizeof all->members[i].id, "n%d", i);
        snprintf(all->peers + strlen(all->peers), 40, "%sn%d-127.0.0.1:%u", i == 0 ? "" : ";", i, all->members[i].port);
    }
    for (int i = 0; i < MEMBERS; i++) {
        ledger_open(&all->members[i].ledger, flush_mode);
        open_member(all, i);
        listen_member(&all->members[i]);
    }
}

static inline void close_group(group *all) {
    for (int i = 0; i < MEMBERS; i++) {
        if (all->members[i].dledger != NULL)
            stop_member(&all->members[i]);
        close(all->members[i].port_fd);
        fixture_remove(all->members[i].ledger.path);
    }
}

static inline rp_dledger_state state_of(const member *one) {
    rp_dledger_state state;
    rp_dledger_read_state(one->dledger, &state);
    return state;
}

#define TRIES 120 /* of half a second: whoever has the log may have lost its core for that long */

/* What the call, which gives its status to `rc`, says once it is not RP_E_BUSY any more. */
#define WHEN_NOT_BUSY(rc, call)                                                                                                            \
    do {                                                                                                                                   \
        for (int tries = 0; ((rc) = (call)) == RP_E_BUSY && tries < TRIES; tries++) {                                                      \
        }                                                                                                                                  \
    } while (0)

static inline int follow_status(member *one, int64_t term, const char *leader_id) {
    rp_error error;
    int rc;
    WHEN_NOT_BUSY(rc, rp_dledger_follow(one->dledger, term, leader_id, &error));
    return rc;
}

static inline int lead_status(member *one, int64_t term) {
    rp_error error;
    int rc;
    WHEN_NOT_BUSY(rc, rp_dledger_lead(one->dledger, term, &error));
    return rc;
}

static inline int pause_status(member *one, int is_paused) {
    rp_error error;
    int rc;
    WHEN_NOT_BUSY(rc, rp_dledger_pause(one->dledger, is_paused, &error));
    return rc;
}

static inline void follow(member *one, int64_t term, const char *leader_id) { CHECK(follow_status(one, term, leader_id) == RP_OK); }

static inline void lead(member *one, int64_t term) { CHECK(lead_status(one, term) == RP_OK); }

/* Tells all running members the term's leader. */
static inline void elect(group *all, int leader, int64_t term) {
    for (int i = 0; i < MEMBERS; i++)
        if (i != leader && all->members[i].dledger != NULL)
            follow(&all->members[i], term, all->members[leader].id);
    lead(&all->members[leader], term);
}

static inline void wait_committed(const member *one, int64_t index) { WAIT_FOR(state_of(one).committed_index >= index); }

/* Waits until all running members have the leader's whole log, and its messages in their queues. */
static inline void wait_same(group *all, int leader, int64_t messages) {
    member *first = &all->members[leader];
    int64_t end = state_of(first).end_index;
    for (int i = 0; i < MEMBERS; i++) {
        if (all->members[i].dledger == NULL)
            continue;
        wait_committed(&all->members[i], end);
        ledger_check_same(&first->ledger, &all->members[i].ledger);
        ledger_check_queues(&all->members[i].ledger, messages);
    }
}

#endif
