/* dledger_hostile_test.c: a stranger that claims to be the leader: whatever it pushes, the member answers or closes the connection, its log
 * can still be opened, and the leader of the next term replaces the stranger. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "../../../csrc/ha/dledger_wire.h"
#include "../../../csrc/remoting/command.h"
#include "dledger_group.h"

#define FRAME_MAX 4096
#define ROUNDS 4000
#define TERM 5

static int dial(const member *one) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(one->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {.tv_sec = 60};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    return fd;
}

/* The code that it is answered with, or -1: the connection is gone. */
static int64_t push_body(int fd, const uint8_t *body, uint32_t size) {
    static rp_arena *arena;
    uint8_t frame[FRAME_MAX + 512], answer[FRAME_MAX];
    rp_command command;
    rp_push_response response;
    rp_command_clear(&command, RP_DLEDGER_PUSH, RP_SERIALIZE_JSON);
    command.body = (rp_slice){NULL, size};
    int64_t head = rp_command_encode(&command, frame, 512);
    CHECK(head > 0);
    memcpy(frame + head, body, size);
    if (send(fd, frame, (size_t)head + size, MSG_NOSIGNAL) < 0 || recv(fd, answer, 4, MSG_WAITALL) != 4)
        return -1;
    uint32_t length = (uint32_t)answer[0] << 24 | (uint32_t)answer[1] << 16 | (uint32_t)answer[2] << 8 | answer[3];
    CHECK(length < sizeof answer - 4 && recv(fd, answer + 4, length, MSG_WAITALL) == (ssize_t)length);
    arena = arena != NULL ? arena : rp_arena_create(4096, 1 << 20);
    rp_arena_reset(arena);
    CHECK(rp_command_decode(answer, length + 4, arena, &command, NULL) == RP_OK);
    return rp_push_response_read(command.body, arena, &response) == RP_OK ? response.code : 0;
}

/* Entries of the leader's log as a push of that type, with heads as the caller has changed them. */
typedef struct wanted {
    int type, is_batch, count;
    int64_t term, commit_index;
    rp_ledger_entry heads[3];
} wanted;

static uint32_t write_push(const ledger *leader, const wanted *push, uint8_t *target) {
    rp_push_envelope envelope = {"G", "n1", "n0", push->term, push->commit_index, push->type};
    uint32_t size = rp_push_begin(&envelope, push->is_batch, (uint32_t)push->count, target);
    for (int i = 0; i < push->count; i++) {
        rp_log_range range;
        rp_ledger_entry entry;
        int64_t index = push->heads[i].index < 0 || push->heads[i].index > 300 ? 3 : push->heads[i].index;
        CHECK(rp_commit_log_read_entry(ledger_log(leader), index, &range, &entry) == RP_OK);
        rp_ledger_entry head = push->heads[i];
        head.size = entry.size;
        size += rp_push_add(&head, range.address + RP_LEDGER_HEAD_SIZE, i == 0, target + size);
        rp_log_range_release(range.pin);
    }
    return push->count == 0 ? size + rp_push_end(0, target + size) : size + rp_push_end(push->is_batch, target + size);
}

static rp_ledger_entry head_of(const ledger *leader, int64_t index) {
    rp_log_range range;
    rp_ledger_entry entry;
    CHECK(rp_commit_log_read_entry(ledger_log(leader), index, &range, &entry) == RP_OK);
    rp_log_range_release(range.pin);
    return entry;
}

static void a_batch_that_goes_back_in_terms(member *victim, const ledger *leader) {
    uint8_t body[FRAME_MAX];
    wanted push = {.type = RP_PUSH_APPEND, .is_batch = 1, .count = 2, .term = TERM, .heads = {head_of(leader, 0), head_of(leader, 1)}};
    push.heads[0].term = 1000;
    int fd = dial(victim);
    CHECK(push_body(fd, body, write_push(leader, &push, body)) == RP_DLEDGER_INCONSISTENT_STATE);
    CHECK(state_of(victim).end_index == -1); /* otherwise its log would end in a term that nobody has entered */
    push.heads[0].term = push.heads[1].term = TERM;
    CHECK(push_body(fd, body, write_push(leader, &push, body)) == RP_DLEDGER_SUCCESS && state_of(victim).end_index == 1);
    close(fd);
}

static int64_t odd_number(uint32_t *seed) {
    static const int64_t numbers[] = {-1, 0, 1, 2, 3, 4, 7, TERM, INT32_MAX, INT64_MAX, INT64_MAX / 32, INT64_MIN, 65536, 1 << 20};
    *seed = *seed * 1103515245 + 12345;
    return numbers[(*seed >> 8) % (sizeof numbers / sizeof *numbers)];
}

static void whatever_is_pushed(member *victim, const ledger *leader) {
    uint8_t body[FRAME_MAX];
    uint32_t seed = 4711;
    int fd = dial(victim);
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245 + 12345;
        int pick = (int)(seed >> 8) % 64;
        wanted push = {
            .type = pick % 4, .is_batch = pick / 4 % 2, .count = pick % 4 == RP_PUSH_COMMIT ? 0 : 1 + pick / 8 % 3, .term = TERM};
        push.count = push.is_batch || push.count == 0 ? push.count : 1;
        push.commit_index = odd_number(&seed) % 3; /* little is committed, because committed entries cannot be cut */
        for (int i = 0; i < push.count; i++) {
            push.heads[i] = head_of(leader, (pick + i + round) % 9);
            int64_t *fields[] = {&push.heads[i].index, &push.heads[i].term, &push.heads[i].position};
            if (round % 3 == 0)
                *fields[(seed >> 16) % 3] = odd_number(&seed);
        }
        uint32_t size = write_push(leader, &push, body);
        if (round % 5 == 0)
            body[(seed >> 4) % size] = (uint8_t)(seed >> 12);
        if (push_body(fd, body, size) < 0) {
            close(fd);
            fd = dial(victim);
        }
    }
    close(fd);
}

static atomic_int maps_fail;

static void *map_or_fail(void *context, int fd, size_t size, int writable) {
    if (atomic_load(&maps_fail)) {
        errno = ENOMEM;
        return NULL;
    }
    return rp_file_ops_system()->map(context, fd, size, writable);
}

/* Otherwise the leader would have the entry cut, although a majority may rely on it. */
static void what_cannot_be_read_just_now_is_no_other(void) {
    group all;
    uint8_t body[FRAME_MAX];
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.map = map_or_fail;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    member *victim = &all.members[0], *leader = &all.members[1];
    stop_member(&all.members[2]);
    elect(&all, 1, TERM);
    ledger_append(&leader->ledger, 500);
    wait_same(&all, 1, 500);
    stop_member(victim);
    ledger_options(&victim->ledger, &options);
    options.file_ops = &ops;
    options.index_enable = 0; /* its thread may map the files that it has yet to read */
    victim->ledger.store = fixture_open(&options);
    open_member(&all, 0);
    listen_member(victim);
    follow(leader, TERM + 1, NULL);
    follow(victim, TERM + 1, "n1");
    wanted push = {.type = RP_PUSH_COMPARE, .count = 1, .term = TERM + 1, .heads = {head_of(&leader->ledger, 250)}};
    int fd = dial(victim);
    uint32_t size = write_push(&leader->ledger, &push, body);
    atomic_store(&maps_fail, 1);
    CHECK(push_body(fd, body, size) == RP_DLEDGER_DISK_ERROR);
    atomic_store(&maps_fail, 0);
    CHECK(push_body(fd, body, size) == RP_DLEDGER_SUCCESS);
    close(fd);
    close_group(&all);
}

static void a_strangers_pushes_do_no_harm(void) {
    group all;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    member *victim = &all.members[0], *leader = &all.members[1];
    stop_member(&all.members[2]);
    lead(leader, TERM);
    ledger_append(&leader->ledger, 10);
    follow(leader, TERM + 1, NULL); /* its words are the stranger's now */
    follow(victim, TERM, "n1");
    a_batch_that_goes_back_in_terms(victim, &leader->ledger);
    whatever_is_pushed(victim, &leader->ledger);
    CHECK(state_of(victim).end_term <= TERM);
    stop_member(victim);
    start_member(&all, 0);
    elect(&all, 1, TERM + 2);
    wait_same(&all, 1, 10);
    close_group(&all);
}

int main(void) {
    RUN(what_cannot_be_read_just_now_is_no_other);
    RUN(a_strangers_pushes_do_no_harm);
    return 0;
}
