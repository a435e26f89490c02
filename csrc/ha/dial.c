/* dial.c: see dial.h. A name may stand for several addresses, and the server need not listen on the first: localhost, for example, with
 * ::1 before 127.0.0.1. */
#include "dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/error.h"

#define ADDRESSES_MAX 4    /* of one name */
#define GIVEN_UP_AFTER_MS 100 /* a stop does not wait for an address that does not answer */

/* Waits for a connect under way. 0, or an errno. */
static int finish_connect(int fd, uint32_t timeout_ms, const atomic_int *given_up) {
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int ready = 0;
    for (uint32_t left_ms = timeout_ms; ready == 0 && left_ms > 0;) {
        uint32_t step_ms = left_ms < GIVEN_UP_AFTER_MS ? left_ms : GIVEN_UP_AFTER_MS;
        ready = poll(&polled, 1, (int)step_ms);
        left_ms = atomic_load(given_up) ? 0 : left_ms - step_ms;
    }
    if (ready == 0)
        return ETIMEDOUT;
    if (ready < 0)
        return errno;
    int cause = 0;
    socklen_t size = sizeof cause;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &size) < 0 ? errno : cause;
}

/* Returns a descriptor; or a negated errno. */
static int connect_to(const struct addrinfo *one, uint32_t timeout_ms, const atomic_int *given_up) {
    int fd = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int cause = 0;
    if (connect(fd, one->ai_addr, one->ai_addrlen) < 0)
        cause = errno == EINPROGRESS ? finish_connect(fd, timeout_ms, given_up) : errno;
    if (cause != 0) {
        close(fd);
        return -cause;
    }
    int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* so that acks leave at once; without it they leave later */
    return fd;
}

int rp_dial(rp_look_ups *look_ups, const char *address, uint32_t timeout_ms, const atomic_int *given_up, char why[RP_DIAL_WHY_MAX]) {
    char host[RP_ENDPOINT_TEXT_MAX];
    const char *port = NULL;
    struct addrinfo *found = NULL;
    int status = rp_endpoint_split(address, host, &port);
    if (status == RP_OK)
        status = rp_look_up(look_ups, host, port, given_up, &found);
    if (status != RP_OK) {
        snprintf(why, RP_DIAL_WHY_MAX, "connect failed: the host name is not known%s",
                 status == RP_E_BUSY ? ": no DNS server has answered for others yet" : "");
        return -1;
    }
    const struct addrinfo *one = found;
    int fd = connect_to(one, timeout_ms, given_up);
    for (int tried = 1; fd < 0 && one->ai_next != NULL && tried < ADDRESSES_MAX && !atomic_load(given_up); tried++) {
        one = one->ai_next;
        fd = connect_to(one, timeout_ms, given_up);
    }
    freeaddrinfo(found);
    if (fd < 0)
        snprintf(why, RP_DIAL_WHY_MAX, "connect failed: %s", strerror(-fd));
    return fd < 0 ? -1 : fd;
}
