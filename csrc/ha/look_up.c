/* look_up.c: see look_up.h. The question and the answer belong to both threads; the last one frees them. */
#include "look_up.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/error.h"
#include "../base/thread.h"

#define STEP_MS 100

typedef struct look_up {
    char host[RP_ENDPOINT_TEXT_MAX], port[RP_ENDPOINT_TEXT_MAX];
    int done_fd;
    atomic_int owners;
    atomic_int is_done;     /* status and found are final */
    int status;             /* owned by the asking thread, then by the other one */
    struct addrinfo *found; /* like status */
} look_up;

static void let_go(look_up *one) {
    if (atomic_fetch_sub(&one->owners, 1) > 1)
        return;
    if (one->found != NULL)
        freeaddrinfo(one->found);
    close(one->done_fd);
    free(one);
}

static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

static void ask(void *context) {
    look_up *one = context;
    one->status = getaddrinfo(one->host, one->port, &hints, &one->found);
    atomic_store(&one->is_done, 1);
    eventfd_write(one->done_fd, 1);
    let_go(one);
}

/* Asks in a thread of its own. NULL: no thread is available. */
static look_up *begin(const char *host, const char *port) {
    look_up *one = calloc(1, sizeof *one);
    if (one == NULL)
        return NULL;
    snprintf(one->host, sizeof one->host, "%s", host);
    snprintf(one->port, sizeof one->port, "%s", port);
    one->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    one->owners = 2;
    if (one->done_fd >= 0 && rp_thread_start_alone("look-up", ask, one) == RP_OK)
        return one;
    if (one->done_fd >= 0)
        close(one->done_fd);
    free(one);
    return NULL;
}

int rp_look_up(const char *host, const char *port, const atomic_int *given_up, struct addrinfo **found) {
    const struct addrinfo numbers = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (getaddrinfo(host, port, &numbers, found) == 0)
        return RP_OK;
    look_up *one = begin(host, port);
    *found = NULL;
    if (one == NULL)
        return getaddrinfo(host, port, &hints, found) == 0 ? RP_OK : RP_E_NETWORK;
    struct pollfd polled = {.fd = one->done_fd, .events = POLLIN};
    while (!atomic_load(&one->is_done) && !atomic_load(given_up))
        (void)poll(&polled, 1, STEP_MS);
    int status = RP_E_TIMEOUT;
    if (atomic_load(&one->is_done)) {
        status = one->status == 0 ? RP_OK : RP_E_NETWORK;
        *found = one->found;
        one->found = NULL;
    }
    let_go(one);
    return status;
}
