/* bound_socket_test.c: on which interfaces a listener accepts connections. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bound_socket.h"
#include "check.h"
#include "remoting/server.h"

static int there_is_ipv6, without_ipv6;

static struct sockaddr_storage own_address(int fd) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    return address;
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage bound = own_address(fd);
    rp_address address;
    rp_address_from_socket(&address, &bound);
    return address.port;
}

static int listens_at(const char *host, uint16_t port) {
    struct sockaddr_storage address;
    uint32_t size;
    CHECK(rp_address_parse(host, port, &address, &size) == RP_OK);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = fd >= 0 && connect(fd, (struct sockaddr *)&address, size) == 0;
    close(fd);
    return connected;
}

static int listener(const char *host, uint16_t port) {
    int fd;
    CHECK(rp_bound_socket(host, port, &fd, &without_ipv6) == RP_OK && listen(fd, 8) == 0);
    return fd;
}

static void every_interface_is_of_both_kinds(void) {
    int fd = listener("0.0.0.0", 0);
    uint16_t port = port_of(fd);
    CHECK(listens_at("127.0.0.1", port) && listens_at("::1", port) == there_is_ipv6 && without_ipv6 == 0);

    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    int accepted = accept(fd, (struct sockaddr *)&peer, &size);
    rp_address address;
    rp_address_from_socket(&address, &peer);
    CHECK(accepted >= 0 && address.size == 4 && address.bytes[0] == 127); /* as on a socket of IPv4 */
    close(accepted);
    close(fd);
}

static void one_address_is_one_interface(void) {
    int fd = listener("127.0.0.1", 0);
    CHECK(listens_at("127.0.0.1", port_of(fd)) && !listens_at("::1", port_of(fd)));
    close(fd);
}

static int ipv6_alone(void) {
    int one = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0);
    CHECK(bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
    return fd;
}

static int somebody_has_it_by_ipv4(uint16_t port) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int taken = bind(fd, (struct sockaddr *)&any, sizeof any) != 0;
    close(fd);
    return taken;
}

/* The kernel, asked for a port by IPv6 alone, looks whether it is free there, and not whether anybody on this machine has it by IPv4. */
static int listener_of_ipv6_alone(void) {
    int fd = ipv6_alone();
    for (int tries = 0; somebody_has_it_by_ipv4(port_of(fd)); tries++) {
        int before = fd;
        CHECK(tries < 1000);
        fd = ipv6_alone();
        close(before);
    }
    CHECK(listen(fd, 1) == 0);
    return fd;
}

static void a_port_that_another_has_by_ipv6_alone_is_had_by_ipv4(void) {
    int other = listener_of_ipv6_alone();
    int fd = listener("0.0.0.0", port_of(other));
    CHECK(own_address(fd).ss_family == AF_INET && without_ipv6 == EADDRINUSE);
    int second;
    CHECK(rp_bound_socket("0.0.0.0", port_of(fd), &second, &without_ipv6) == RP_E_NETWORK && errno == EADDRINUSE && second == -1);
    close(fd);
    close(other);
}

static void a_server_warns_of_it(void) {
    int other = listener_of_ipv6_alone();
    const rp_handler handler = {0};
    rp_server_options options;
    rp_server *server;
    rp_error error;
    rp_server_options_default(&options);
    options.bind_address = "0.0.0.0";
    options.port = port_of(other);
    CHECK(rp_log_create(&options.log) == RP_OK && rp_server_open(&options, &handler, &server, &error) == RP_OK);
    rp_log_line line;
    CHECK(rp_log_take(options.log, &line, 1) == 1 && line.level == RP_LOG_WARNING);
    CHECK(strstr(line.text, "clients that use IPv6 cannot connect") != NULL && strstr(line.text, "another process has it there") != NULL);
    rp_server_close(server);
    rp_log_destroy(options.log);
    close(other);
}

static void what_cannot_be_bound_is_no_socket(void) {
    int fd;
    CHECK(rp_bound_socket("localhost", 0, &fd, &without_ipv6) == RP_E_INVALID && fd == -1);
    CHECK(rp_bound_socket("203.0.113.7", 0, &fd, &without_ipv6) == RP_E_NETWORK && errno == EADDRNOTAVAIL && fd == -1);
}

int main(void) {
    int probe;
    there_is_ipv6 = rp_bound_socket("::1", 0, &probe, &without_ipv6) == RP_OK;
    close(probe);
    RUN(every_interface_is_of_both_kinds);
    RUN(one_address_is_one_interface);
    if (there_is_ipv6) {
        RUN(a_port_that_another_has_by_ipv6_alone_is_had_by_ipv4);
        RUN(a_server_warns_of_it);
    }
    RUN(what_cannot_be_bound_is_no_socket);
    return 0;
}
