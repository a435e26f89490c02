/* passage_test.c: what happens in a passage when one of its ends closes: everything sent before reaches the other end. */
#include "server_harness.h"

#include <arpa/inet.h>
#include <pthread.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PROXY_HEADER_SIZE 28u /* of an IPv4 client */
#define SAID_BYTES 200000u    /* more than sockets take here, and less than a passage keeps */
#define SMALL_BUFFER 4096
#define MUCH_BYTES (1u << 20)
#define MEMORY_BYTES (1u << 20) /* of all connections together */
#define SLOW_MAX 8              /* who hold more than that */

static int listen_somewhere(rp_address *address) {
    struct sockaddr_in bound = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof bound;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&bound, size) == 0 && listen(fd, 4) == 0);
    limit_waits(fd); /* whoever is accepted has it from here */
    CHECK(getsockname(fd, (struct sockaddr *)&bound, &size) == 0);
    *address = (rp_address){.bytes = {127, 0, 0, 1}, .size = 4, .port = ntohs(bound.sin_port)};
    return fd;
}

static rp_server *open_passage(const rp_address *target) {
    rp_handler handler = {0};
    rp_server_options options;
    rp_server *server;
    rp_error error;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.socket_send_buffer = SMALL_BUFFER;
    options.memory_bytes_max = MEMORY_BYTES;
    CHECK(rp_server_open(&options, &handler, &server, &error) == RP_OK && rp_server_pass_http2_on(server, target) == RP_OK);
    CHECK(rp_server_start(server, &error) == RP_OK);
    return server;
}

/* The far end of a client's passage, which has heard the client's first words. */
static int accept_far(int listener, int client) {
    uint8_t heard[PROXY_HEADER_SIZE + sizeof PREFACE - 1];
    write_all(client, PREFACE, sizeof PREFACE - 1);
    int far = accept(listener, NULL, NULL);
    CHECK(far >= 0);
    read_all(far, heard, sizeof heard);
    CHECK(memcmp(heard + PROXY_HEADER_SIZE, PREFACE, sizeof PREFACE - 1) == 0);
    return far;
}

static uint64_t connections_of(const rp_server *server) {
    rp_server_stats stats;
    rp_server_read_stats(server, &stats);
    return stats.connections_open;
}

static void what_a_server_said_last_comes_to_a_slow_client(void) {
    static uint8_t said[SAID_BYTES], heard[SAID_BYTES];
    rp_address target;
    int listener = listen_somewhere(&target);
    rp_server *server = open_passage(&target);
    int client = dial_port(rp_server_port(server), SMALL_BUFFER), far = accept_far(listener, client);
    for (uint32_t i = 0; i < SAID_BYTES; i++)
        said[i] = (uint8_t)(i * 31);
    write_all(far, said, SAID_BYTES);
    close(far);
    CHECK_AT_LAST(connections_of(server) <= 1); /* the passage knows that it is over */
    write_all(client, "more", 4);     /* which nobody hears */
    read_all(client, heard, SAID_BYTES);
    CHECK(memcmp(said, heard, SAID_BYTES) == 0 && recv(client, heard, 1, 0) == 0);
    CHECK_AT_LAST(connections_of(server) <= 0);
    close(client);
    close(listener);
    rp_server_close(server);
}

static void a_client_that_goes_takes_the_other_end_along(void) {
    uint8_t byte;
    rp_address target;
    int listener = listen_somewhere(&target);
    rp_server *server = open_passage(&target);
    int client = dial_port(rp_server_port(server), 0), far = accept_far(listener, client);
    write_all(client, "bye", 3);
    close(client);
    uint8_t last[3];
    read_all(far, last, sizeof last);
    CHECK(memcmp(last, "bye", 3) == 0 && recv(far, &byte, 1, 0) == 0);
    CHECK_AT_LAST(connections_of(server) <= 0);
    close(far);
    close(listener);
    rp_server_close(server);
}

static void *echo(void *context) {
    static uint8_t bytes[65536];
    int fd = *(int *)context;
    ssize_t count;
    while ((count = recv(fd, bytes, sizeof bytes, 0)) > 0)
        write_all(fd, bytes, (size_t)count);
    return NULL;
}

static void *say_much(void *context) {
    static uint8_t bytes[65536];
    for (uint32_t said = 0; said < MUCH_BYTES; said += sizeof bytes) {
        memset(bytes, (int)(said / sizeof bytes), sizeof bytes);
        write_all(*(int *)context, bytes, sizeof bytes);
    }
    return NULL;
}

/* Clients that do not read what is said to them. */
static void open_slow(const rp_server *server, int listener, int slow, int *clients, int *fars) {
    static const uint8_t said[SAID_BYTES];
    for (int i = 0; i < slow; i++) {
        clients[i] = dial_port(rp_server_port(server), SMALL_BUFFER);
        fars[i] = accept_far(listener, clients[i]);
        CHECK(send(fars[i], said, sizeof said, MSG_DONTWAIT) > 0);
    }
}

/* An end that was held back, also for memory, goes on as soon as there is room. */
static void much_goes_both_ways(int slow) {
    static uint8_t heard[65536];
    int clients[SLOW_MAX], fars[SLOW_MAX];
    pthread_t echoes, says;
    rp_address target;
    int listener = listen_somewhere(&target);
    rp_server *server = open_passage(&target);
    open_slow(server, listener, slow, clients, fars);
    int client = dial_port(rp_server_port(server), 0), far = accept_far(listener, client);
    CHECK(pthread_create(&echoes, NULL, echo, &far) == 0 && pthread_create(&says, NULL, say_much, &client) == 0);
    for (uint32_t number = 0; number < MUCH_BYTES / sizeof heard; number++) {
        read_all(client, heard, sizeof heard);
        CHECK(heard[0] == (uint8_t)number && memcmp(heard, heard + 1, sizeof heard - 1) == 0);
    }
    pthread_join(says, NULL);
    close(client);
    pthread_join(echoes, NULL);
    close(far);
    for (int i = 0; i < slow; i++)
        CHECK(close(clients[i]) == 0 && close(fars[i]) == 0);
    close(listener);
    rp_server_close(server);
}

int main(void) {
    much_goes_both_ways(0);
    much_goes_both_ways(SLOW_MAX);
    what_a_server_said_last_comes_to_a_slow_client();
    a_client_that_goes_takes_the_other_end_along();
    return 0;
}
