/* load_broker.h: a small broker for the load generator's tests: keeps messages in memory, and lies when told to.
 *
 * One blocking thread for each connection. Knows requests 10, 310, 320, 11, 30 and 31 in both encodings, as far as the generator uses
 * them.
 */
#ifndef RP_TESTS_LOAD_BROKER_H
#define RP_TESTS_LOAD_BROKER_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/crc32.h"
#include "check.h"

#define BROKER_QUEUES 8
#define BROKER_MESSAGES_MAX 20000
#define BROKER_CONNECTIONS_MAX 64

enum broker_lie { TRUTH, LOSE, TWICE, SWAP, CORRUPT_BODY, CORRUPT_CRC, WRONG_QUEUE, SKIP_OFFSET };

typedef struct broker_message {
    uint8_t *body;
    uint32_t size;
} broker_message;

typedef struct test_broker {
    int listen_fd;
    uint16_t port;
    char address[32];
    pthread_t acceptor, threads[BROKER_CONNECTIONS_MAX];
    int fds[BROKER_CONNECTIONS_MAX];
    int connections;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t arrived;
    broker_message queues[BROKER_QUEUES][BROKER_MESSAGES_MAX];
    int counts[BROKER_QUEUES];
    int sends;
    /* set before the first connection */
    int refuse_every;  /* every n-th send is answered SYSTEM_BUSY */
    int silent_every;  /* every n-th send is never answered */
    int close_every;   /* every n-th send closes its connection */
    int other_encoding; /* answers in the encoding that was not requested */
    int lie, lie_queue, lie_offset;
    int has_lost_all; /* pulls above offset 0 are sent back there */
} test_broker;

typedef struct broker_request {
    int code, serialize_type;
    uint32_t opaque;
    const uint8_t *header, *body;
    uint32_t header_size, body_size;
} broker_request;

/* Returns a field's value as a number; -1: absent. */
static inline long long broker_field(const broker_request *request, const char *name) {
    char key[64], text[32] = "";
    size_t key_size = request->serialize_type == 0 ? (size_t)snprintf(key, sizeof key, "\"%s\":\"", name) : strlen(name) + 2;
    if (request->serialize_type != 0) {
        rp_put_u16((uint8_t *)key, (uint16_t)strlen(name));
        memcpy(key + 2, name, strlen(name));
    }
    const uint8_t *found = memmem(request->header, request->header_size, key, key_size);
    if (found == NULL)
        return -1;
    const uint8_t *value = found + key_size + (request->serialize_type == 0 ? 0 : 4);
    for (int i = 0; i < 20 && value + i < request->header + request->header_size && value[i] >= '0' && value[i] <= '9'; i++)
        text[i] = (char)value[i];
    return atoll(text);
}

static inline int broker_read(int fd, void *target, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, (uint8_t *)target + at, size - at, 0);
        if (got <= 0)
            return 0;
        at += (size_t)got;
    }
    return 1;
}

/* An answer's code, fields and body. */
typedef struct broker_response {
    int code;
    const char *const *names;
    const long long *values;
    int count; /* of names and values */
    const uint8_t *body;
    uint32_t body_size;
} broker_response;

/* Both write a header and return its size. */
static inline uint32_t broker_json_header(char *header, uint32_t opaque, const broker_response *response) {
    uint32_t at = (uint32_t)sprintf(header, "{\"code\":%d,\"extFields\":{", response->code);
    for (int i = 0; i < response->count; i++)
        at += (uint32_t)sprintf(header + at, "%s\"%s\":\"%lld\"", i == 0 ? "" : ",", response->names[i], response->values[i]);
    return at + (uint32_t)sprintf(
                    header + at, "},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%u,\"remark\":\"a \\\"remark\\\"\",\"version\":1}", opaque);
}

static inline uint32_t broker_binary_header(uint8_t *header, uint32_t opaque, const broker_response *response) {
    uint32_t at = 21;
    memset(header, 0, at);
    rp_put_u16(header, (uint16_t)response->code);
    rp_put_u32(header + 5, opaque);
    rp_put_u32(header + 9, 1); /* the flag of an answer */
    for (int i = 0; i < response->count; i++) {
        uint16_t name_size = (uint16_t)strlen(response->names[i]);
        rp_put_u16(header + at, name_size);
        memcpy(header + at + 2, response->names[i], name_size);
        at += 2 + name_size;
        uint32_t digits = (uint32_t)sprintf((char *)header + at + 4, "%lld", response->values[i]);
        rp_put_u32(header + at, digits);
        at += 4 + digits;
    }
    rp_put_u32(header + 17, at - 21); /* the fields' size */
    return at;
}

static inline int broker_answer(test_broker *broker, int fd, const broker_request *request, broker_response response) {
    uint8_t head[1024];
    int type = request->serialize_type ^ broker->other_encoding;
    uint32_t size = type == 0 ? broker_json_header((char *)head + 8, request->opaque, &response)
                              : broker_binary_header(head + 8, request->opaque, &response);
    rp_put_u32(head, 4 + size + response.body_size);
    rp_put_u32(head + 4, (uint32_t)type << 24 | size);
    return send(fd, head, 8 + size, MSG_NOSIGNAL) == (ssize_t)(8 + size) &&
           (response.body_size == 0 || send(fd, response.body, response.body_size, MSG_NOSIGNAL) == (ssize_t)response.body_size);
}

static inline void broker_store(test_broker *broker, int queue, const uint8_t *body, uint32_t size) {
    CHECK(broker->counts[queue] < BROKER_MESSAGES_MAX);
    broker_message *message = &broker->queues[queue][broker->counts[queue]++];
    message->body = malloc(size);
    message->size = size;
    memcpy(message->body, body, size);
}

static inline int broker_send(test_broker *broker, int fd, const broker_request *request) {
    static const char *const names[] = {"queueId", "queueOffset"};
    int queue = (int)broker_field(request, request->code == 10 ? "queueId" : "e");
    CHECK(queue >= 0 && queue < BROKER_QUEUES);
    pthread_mutex_lock(&broker->lock);
    int number = ++broker->sends;
    int refuse = broker->refuse_every != 0 && number % broker->refuse_every == 0;
    long long values[] = {queue, broker->counts[queue]};
    if (!refuse && request->code == 320) {
        for (uint32_t at = 0; at < request->body_size; at += rp_get_u32(request->body + at)) {
            CHECK(request->body_size - at > 22);
            broker_store(broker, queue, request->body + at + 20, rp_get_u32(request->body + at + 16));
        }
    } else if (!refuse) {
        broker_store(broker, queue, request->body, request->body_size);
    }
    pthread_cond_broadcast(&broker->arrived);
    pthread_mutex_unlock(&broker->lock);
    if (broker->silent_every != 0 && number % broker->silent_every == 0)
        return 1;
    if (broker->close_every != 0 && number % broker->close_every == 0)
        return 0;
    return broker_answer(broker, fd, request, refuse ? (broker_response){.code = 2} : (broker_response){0, names, values, 2, NULL, 0});
}

/* Writes the record as in a commit log; returns its size. */
static inline uint32_t broker_record(uint8_t *target, int queue, int64_t offset, const broker_message *message) {
    static const char topic[] = "bench";
    uint32_t size = 91 + message->size + sizeof topic - 1;
    memset(target, 0, size);
    rp_put_u32(target, size);
    rp_put_u32(target + 4, 0xDAA320A7u);
    rp_put_u32(target + 8, rp_crc32(0, message->body, message->size) & 0x7FFFFFFF);
    rp_put_u32(target + 12, (uint32_t)queue);
    rp_put_u64(target + 20, (uint64_t)offset);
    rp_put_u32(target + 84, message->size);
    memcpy(target + 88, message->body, message->size);
    target[88 + message->size] = sizeof topic - 1;
    memcpy(target + 89 + message->size, topic, sizeof topic - 1);
    return size;
}

static inline uint32_t broker_lie_about(const test_broker *broker, uint8_t *record, uint32_t size) {
    switch (broker->lie) {
    case CORRUPT_CRC:
        record[100] ^= 1;
        break;
    case CORRUPT_BODY: /* with a matching CRC, as if the broker had stored it like that */
        record[150] ^= 1;
        rp_put_u32(record + 8, rp_crc32(0, record + 88, rp_get_u32(record + 84)) & 0x7FFFFFFF);
        break;
    case WRONG_QUEUE:
        rp_put_u32(record + 12, rp_get_u32(record + 12) + 1);
        break;
    case SKIP_OFFSET:
        return 0;
    case TWICE:
        memcpy(record + size, record, size);
        return 2 * size;
    default:
        break;
    }
    return size;
}

static inline int broker_pull(test_broker *broker, int fd, const broker_request *request) {
    static const char *const names[] = {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"};
    int queue = (int)broker_field(request, "queueId");
    int64_t offset = broker_field(request, "queueOffset"), most = broker_field(request, "maxMsgNums");
    CHECK(queue >= 0 && queue < BROKER_QUEUES && offset >= 0 && most > 0);
    if (broker->has_lost_all && offset > 0) {
        static const long long from_0[] = {0, 0, 0, 0};
        return broker_answer(broker, fd, request, (broker_response){21, names, from_0, 4, NULL, 0});
    }
    uint8_t *body = malloc((size_t)most * 4096 + 8192);
    uint32_t size = 0;
    pthread_mutex_lock(&broker->lock);
    if (offset >= broker->counts[queue]) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 2000000;
        if (until.tv_nsec >= 1000000000)
            until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&broker->arrived, &broker->lock, &until);
    }
    int64_t next = offset;
    for (; next < broker->counts[queue] && next < offset + most; next++) {
        int lying = broker->lie != TRUTH && queue == broker->lie_queue && next == broker->lie_offset;
        int64_t source = next;
        if (broker->lie == LOSE && queue == broker->lie_queue && next >= broker->lie_offset)
            source = next + 1; /* all that follow move up */
        if (broker->lie == SWAP && queue == broker->lie_queue && next / 2 == broker->lie_offset / 2)
            source = next ^ 1;
        if (source >= broker->counts[queue])
            break;
        uint32_t record = broker_record(body + size, queue, next, &broker->queues[queue][source]);
        size += lying ? broker_lie_about(broker, body + size, record) : record;
    }
    long long values[] = {0, next, 0, broker->counts[queue]};
    pthread_mutex_unlock(&broker->lock);
    int alive = broker_answer(broker, fd, request, (broker_response){size > 0 ? 0 : 19, names, values, 4, body, size});
    free(body);
    return alive;
}

static inline int broker_offset(test_broker *broker, int fd, const broker_request *request) {
    static const char *const names[] = {"offset"};
    int queue = (int)broker_field(request, "queueId");
    pthread_mutex_lock(&broker->lock);
    long long value = request->code == 30 ? broker->counts[queue] : 0;
    pthread_mutex_unlock(&broker->lock);
    return broker_answer(broker, fd, request, (broker_response){0, names, &value, 1, NULL, 0});
}

static inline int broker_serve(test_broker *broker, int fd, const uint8_t *frame, uint32_t size) {
    broker_request request = {.serialize_type = frame[4], .header = frame + 8, .header_size = rp_get_u32(frame + 4) & 0xFFFFFF};
    CHECK(request.header_size <= size - 8);
    request.body = request.header + request.header_size;
    request.body_size = size - 8 - request.header_size;
    if (request.serialize_type == 0) {
        const uint8_t *code = memmem(request.header, request.header_size, "\"code\":", 7);
        const uint8_t *opaque = memmem(request.header, request.header_size, "\"opaque\":", 9);
        CHECK(code != NULL && opaque != NULL);
        request.code = atoi((const char *)code + 7);
        request.opaque = (uint32_t)strtoul((const char *)opaque + 9, NULL, 10);
    } else {
        request.code = rp_get_u16(request.header);
        request.opaque = rp_get_u32(request.header + 5);
    }
    if (request.code == 11)
        return broker_pull(broker, fd, &request);
    if (request.code == 30 || request.code == 31)
        return broker_offset(broker, fd, &request);
    return broker_send(broker, fd, &request);
}

typedef struct broker_thread {
    test_broker *broker;
    int fd;
} broker_thread;

static inline void *broker_connection(void *context) {
    broker_thread self = *(broker_thread *)context;
    free(context);
    uint8_t length[4];
    int alive = 1;
    while (alive && broker_read(self.fd, length, 4)) {
        uint32_t size = rp_get_u32(length) + 4;
        uint8_t *frame = malloc(size);
        memcpy(frame, length, 4);
        alive = broker_read(self.fd, frame + 4, size - 4) && broker_serve(self.broker, self.fd, frame, size);
        free(frame);
    }
    shutdown(self.fd, SHUT_RDWR);
    return NULL;
}

static inline void *broker_accept(void *context) {
    test_broker *broker = context;
    for (;;) {
        int fd = accept(broker->listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        CHECK(broker->connections < BROKER_CONNECTIONS_MAX);
        int on = 1; /* an answer is sent in two writes */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        broker_thread *thread = malloc(sizeof *thread);
        *thread = (broker_thread){broker, fd};
        broker->fds[broker->connections] = fd;
        CHECK(pthread_create(&broker->threads[broker->connections++], NULL, broker_connection, thread) == 0);
    }
}

static inline test_broker *broker_open(void) {
    test_broker *broker = calloc(1, sizeof *broker);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    broker->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(broker->listen_fd, (struct sockaddr *)&address, size) == 0 && listen(broker->listen_fd, 64) == 0);
    CHECK(getsockname(broker->listen_fd, (struct sockaddr *)&address, &size) == 0);
    broker->port = ntohs(address.sin_port);
    snprintf(broker->address, sizeof broker->address, "127.0.0.1:%u", broker->port);
    pthread_mutex_init(&broker->lock, NULL);
    pthread_cond_init(&broker->arrived, NULL);
    CHECK(pthread_create(&broker->acceptor, NULL, broker_accept, broker) == 0);
    return broker;
}

static inline void broker_close(test_broker *broker) {
    shutdown(broker->listen_fd, SHUT_RDWR);
    pthread_join(broker->acceptor, NULL);
    close(broker->listen_fd);
    for (int i = 0; i < broker->connections; i++) {
        shutdown(broker->fds[i], SHUT_RDWR);
        pthread_join(broker->threads[i], NULL);
        close(broker->fds[i]);
    }
    for (int queue = 0; queue < BROKER_QUEUES; queue++) {
        for (int i = 0; i < broker->counts[queue]; i++)
            free(broker->queues[queue][i].body);
    }
    pthread_mutex_destroy(&broker->lock);
    pthread_cond_destroy(&broker->arrived);
    free(broker);
}

#endif
