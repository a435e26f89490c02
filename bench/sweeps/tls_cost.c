/* tls_cost.c: what TLS costs the server. Measures its CPU time for a request of 1 KB that is answered without a body, in the clear and
 * encrypted, one at a time and 32 at a time (one TLS record each, as clients send them); for a range of 1 MB of a mapped file, as a pull
 * is answered; and for a handshake.
 *
 *   make build && cc -O2 -D_GNU_SOURCE -pthread bench/sweeps/tls_cost.c build/native/HASH/librocketpy.a -lm -ldl -o /tmp/cost && /tmp/cost
 */
#include "../../tests/unit/c/tls_client.h"

#define BODY_BYTES 1024
#define ROUNDS 5

static _Atomic uint64_t reactor_cpu_ns;
static struct harness *harness;

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    if (command->code == CODE_RANGE) {
        return harness_on_request(context, reactor, connection, command, resubmitted);
    }
    rp_command response;
    rp_command_clear_response(&response, command, 0);
    CHECK(rp_connection_write(connection, &response) == RP_OK);
    return RP_HANDLED;
}

static void on_turn_end(void *context, rp_reactor *reactor) {
    struct timespec used;
    (void)context, (void)reactor;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used); /* of the turns before this one, whose flush comes later */
    atomic_store(&reactor_cpu_ns, (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec);
}

static double used_us(uint64_t since_ns) { return (double)(atomic_load(&reactor_cpu_ns) - since_ns) / 1e3; }

static void put(const struct tls_client *client, int is_sealed, const uint8_t *bytes, int size) {
    if (is_sealed) {
        CHECK(calls.write(client->ssl, bytes, size) == size);
    } else {
        write_all(client->fd, bytes, (size_t)size);
    }
}

static void take(const struct tls_client *client, int is_sealed, void *target, size_t size) {
    if (is_sealed) {
        tls_read_all(*client, target, size);
    } else {
        read_all(client->fd, target, size);
    }
}

static void take_answer(const struct tls_client *client, int is_sealed, uint8_t *target) {
    take(client, is_sealed, target, 4);
    take(client, is_sealed, target + 4, rp_get_u32(target));
}

/* Returns the reactor's CPU time per request, for `count` requests with `in_flight` at a time. */
static double measure(const struct tls_client *client, int is_sealed, int code, const char *size, int count, int in_flight) {
    static uint8_t request[4096], answer[2 << 20], body[BODY_BYTES];
    int request_size = (int)make_request(request, sizeof request, RP_SERIALIZE_JSON, code, 1, size, (rp_slice){body, BODY_BYTES});
    uint64_t since_ns = 0;
    for (int done = 0; done < count; done += in_flight) {
        if (done == in_flight * 8) {
            since_ns = atomic_load(&reactor_cpu_ns);
        }
        for (int index = 0; index < in_flight; index++) {
            put(client, is_sealed, request, request_size);
        }
        for (int index = 0; index < in_flight; index++) {
            take_answer(client, is_sealed, answer);
        }
    }
    return used_us(since_ns) / (count - in_flight * 8);
}

static void compare(const char *what, int code, const char *size, int count, int in_flight) {
    double best[2] = {1e9, 1e9};
    for (int round = 0; round < 2 * ROUNDS; round++) {
        int is_sealed = round & 1;
        struct tls_client client = {.fd = is_sealed ? -1 : dial(harness)};
        if (is_sealed) {
            client = tls_dial(harness, 0);
        }
        double cost = measure(&client, is_sealed, code, size, count, in_flight);
        best[is_sealed] = cost < best[is_sealed] ? cost : best[is_sealed];
        if (is_sealed) {
            tls_hang_up(client);
        } else {
            close(client.fd);
        }
    }
    printf("%-22s in the clear %8.2f us, sealed %8.2f us\n", what, best[0], best[1]);
}

static void measure_handshakes(int version, int count) {
    uint64_t since_ns = atomic_load(&reactor_cpu_ns);
    for (int index = 0; index < count; index++) {
        tls_hang_up(tls_dial(harness, version));
    }
    printf("a handshake, TLS 1.%d   %8.1f us\n", version - 0x301, used_us(since_ns) / count);
}

int main(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    load_openssl();
    harness = calloc(1, sizeof *harness);
    CHECK(harness != NULL);
    harness->file_fd = memfd_create("range", 0);
    CHECK(harness->file_fd >= 0 && ftruncate(harness->file_fd, RANGE_FILE_BYTES) == 0);
    harness->file = mmap(NULL, RANGE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, harness->file_fd, 0);
    CHECK(harness->file != MAP_FAILED);
    memset(harness->file, 'x', RANGE_FILE_BYTES);
    rp_handler handler = {.context = harness, .on_request = on_request, .on_turn_end = on_turn_end};
    rp_tls_options own = {0};
    rp_error error;
    options.bind_address = "127.0.0.1";
    options.tls_mode = RP_TLS_PERMISSIVE;
    CHECK(rp_server_open(&options, &handler, &harness->server, &error) == RP_OK);
    CHECK(rp_server_load_tls(harness->server, &own, &error) == RP_OK && rp_server_start(harness->server, &error) == RP_OK);
    compare("1 KB, 1 at a time", CODE_ECHO, "x", 20000, 1);
    compare("1 KB, 32 at a time", CODE_ECHO, "x", 200000, 32);
    compare("1 MB of a file", CODE_RANGE, "1048576", 500, 1);
    measure_handshakes(TLS1_2, 1000);
    measure_handshakes(TLS1_3, 1000);
    rp_server_stop(harness->server, 0);
    return 0;
}
