/* dledger_slow_link_test.c: on a slow link an entry takes longer to reach its follower than a push may stay unanswered; and a link that
 * carries nothing. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "dledger_group.h"

#define BODY_SIZE (1024 * 1024)
#define PIECE_SIZE (64 * 1024)
#define PIECE_NS 50000000 /* the entry has 1.4 MiB on the wire: more than a second of pieces */
#define TIMEOUT_MS 600

/* Between the leader and one follower: carries a piece at a time to the follower, and back what there is. */
typedef struct slow_link {
    member front; /* its port alone */
    uint16_t target;
    pthread_t thread;
    atomic_int stopping, is_still, pieces; /* pieces: that went to the follower */
} slow_link;

static bool carry(int from, int to, char *piece, atomic_int *pieces) {
    ssize_t got = recv(from, piece, PIECE_SIZE, MSG_DONTWAIT);
    atomic_fetch_add(pieces, got > 0);
    return got > 0 ? send(to, piece, (size_t)got, MSG_NOSIGNAL) == got : got < 0 && errno == EAGAIN;
}

static void carry_both_ways(slow_link *link, int near, int far) {
    static char piece[PIECE_SIZE];
    struct timespec pause = {.tv_nsec = PIECE_NS};
    atomic_int back = 0;
    while (!atomic_load(&link->stopping) &&
           (atomic_load(&link->is_still) || (carry(near, far, piece, &link->pieces) && carry(far, near, piece, &back))))
        nanosleep(&pause, NULL);
}

static void *run_link(void *context) {
    slow_link *link = context;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(link->target), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct pollfd polled = {.fd = link->front.port_fd, .events = POLLIN};
    while (!atomic_load(&link->stopping)) {
        int near = poll(&polled, 1, 20) > 0 ? accept(link->front.port_fd, NULL, NULL) : -1;
        if (near < 0)
            continue;
        int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(far >= 0 && connect(far, (struct sockaddr *)&address, sizeof address) == 0);
        carry_both_ways(link, near, far);
        close(near);
        close(far);
    }
    return NULL;
}

static void begin_link(slow_link *link) {
    int received = PIECE_SIZE;
    memset(link, 0, sizeof *link);
    take_port(&link->front);
    CHECK(setsockopt(link->front.port_fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof received) == 0);
    CHECK(listen(link->front.port_fd, 8) == 0);
}

static void end_link(slow_link *link) {
    atomic_store(&link->stopping, 1);
    pthread_join(link->thread, NULL);
    close(link->front.port_fd);
}

static void open_one(group *all, int number) {
    rp_message_store_options options;
    member *one = &all->members[number];
    ledger_name(&one->ledger, all->flush_mode);
    ledger_options(&one->ledger, &options);
    options.commit_log_file_size = 4 * BODY_SIZE;
    one->ledger.store = fixture_open(&options);
    open_member(all, number);
}

static void append_large(ledger *one) {
    static char body[BODY_SIZE];
    rp_append_item item = fixture_item(ledger_queue(one, 0), body, sizeof body);
    rp_commit_log_append(ledger_log(one), &item, 1);
    CHECK(item.status == RP_OK);
    one->appended++;
}

static bool has_given_up(const member *leader) {
    rp_dledger_follower_row rows[MEMBERS];
    rp_dledger_read_followers(leader->dledger, rows, MEMBERS);
    return !rows[0].is_appending && strcmp(rows[0].last_error, "a push was not answered in time") == 0;
}

static void a_slow_link_is_waited_for_and_one_that_carries_nothing_is_not(void) {
    group all;
    slow_link link;
    begin_link(&link);
    memset(&all, 0, sizeof all);
    all.push_timeout_ms = TIMEOUT_MS;
    for (int i = 0; i < 2; i++)
        snprintf(all.members[i].id, sizeof all.members[i].id, "n%d", i);
    take_port(&all.members[1]);
    link.target = all.members[1].port;
    snprintf(all.peers, sizeof all.peers, "n0-127.0.0.1:1;n1-127.0.0.1:%u;n2-127.0.0.1:2", link.front.port);
    open_one(&all, 0);
    open_one(&all, 1);
    listen_member(&all.members[1]);
    CHECK(pthread_create(&link.thread, NULL, run_link, &link) == 0);
    elect(&all, 0, 1);
    wait_committed(&all.members[0], 0); /* else the entry is sent twice: compared first */
    append_large(&all.members[0].ledger);
    wait_committed(&all.members[0], 1);
    atomic_store(&link.is_still, 1);
    ledger_append(&all.members[0].ledger, 1);
    WAIT_FOR(has_given_up(&all.members[0]));
    atomic_store(&link.is_still, 0);
    wait_committed(&all.members[0], 2);
    atomic_store(&link.pieces, 0);
    append_large(&all.members[0].ledger);
    WAIT_FOR(atomic_load(&link.pieces) > 4); /* it stands still in the middle of the entry */
    atomic_store(&link.is_still, 1);
    WAIT_FOR(has_given_up(&all.members[0]));
    atomic_store(&link.is_still, 0);
    wait_committed(&all.members[0], 3);
    ledger_check_same(&all.members[0].ledger, &all.members[1].ledger);
    for (int i = 0; i < 2; i++)
        stop_member(&all.members[i]);
    end_link(&link);
    close(all.members[1].port_fd);
    for (int i = 0; i < 2; i++)
        fixture_remove(all.members[i].ledger.path);
}

int main(void) {
    RUN(a_slow_link_is_waited_for_and_one_that_carries_nothing_is_not);
    return 0;
}
