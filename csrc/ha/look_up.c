/* look_up.c: see look_up.h. The question and the answer belong to both threads; the last one frees them. */
#include "look_up.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/error.h"
#include "../base/thread.h"

#define STEP_MS 100

typedef struct rp_asked_name {
    char host[RP_ENDPOINT_TEXT_MAX], port[RP_ENDPOINT_TEXT_MAX];
    int done_fd;
    atomic_int owners;
    atomic_int is_done;     /* status and found are final */
    int status;             /* owned by the asking thread, then by the other one */
    struct addrinfo *found; /* like status */
} rp_asked_name;

static void let_go(rp_asked_name *one) {
    if (atomic_fetch_sub(&one->owners, 1) > 1)
        return;
    if (one->found != NULL)
        freeaddrinfo(one->found);
    close(one->done_fd);
    free(one);
}

static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

static void ask(void *context) {
    rp_asked_name *one = context;
    one->status = getaddrinfo(one->host, one->port, &hints, &one->found);
    atomic_store(&one->is_done, 1);
    eventfd_write(one->done_fd, 1);
    let_go(one);
}

/* Asks in a thread of its own. NULL: no thread is available. */
static rp_asked_name *begin(const char *host, const char *port) {
    rp_asked_name *one = calloc(1, sizeof *one);
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

static int wait_for_answer(rp_asked_name **under_way, const atomic_int *given_up, struct addrinfo **found) {
    rp_asked_name *one = *under_way;
    struct pollfd polled = {.fd = one->done_fd, .events = POLLIN};
    while (!atomic_load(&one->is_done) && !atomic_load(given_up))
        (void)poll(&polled, 1, STEP_MS);
    if (!atomic_load(&one->is_done))
        return RP_E_TIMEOUT;
    int status = one->status == 0 ? RP_OK : RP_E_NETWORK;
    *found = one->found;
    one->found = NULL;
    *under_way = NULL;
    let_go(one);
    return status;
}

/* The place of this name's look-up, or a free one, which is NULL. NULL: all are taken. Answers that nobody waited for are dropped: they
 * may be old. */
static rp_asked_name **place_of(rp_look_ups *look_ups, const char *host, const char *port) {
    rp_asked_name **place = NULL;
    for (int i = 0; i < RP_LOOK_UPS_MAX; i++) {
        rp_asked_name **one = &look_ups->under_way[i];
        if (*one != NULL && atomic_load(&(*one)->is_done)) {
            let_go(*one);
            *one = NULL;
        }
        if (*one != NULL && strcmp((*one)->host, host) == 0 && strcmp((*one)->port, port) == 0)
            return one;
        if (*one == NULL)
            place = one;
    }
    return place;
}

int rp_look_up(rp_look_ups *look_ups, const char *host, const char *port, const atomic_int *given_up, struct addrinfo **found) {
    const struct addrinfo numbers = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (getaddrinfo(host, port, &numbers, found) == 0)
        return RP_OK;
    *found = NULL;
    rp_asked_name **place = place_of(look_ups, host, port);
    if (place == NULL)
        return RP_E_BUSY;
    if (*place == NULL)
        *place = begin(host, port);
    if (*place == NULL)
        return getaddrinfo(host, port, &hints, found) == 0 ? RP_OK : RP_E_NETWORK;
    return wait_for_answer(place, given_up, found);
}

void rp_look_ups_leave(rp_look_ups *look_ups) {
    for (int i = 0; i < RP_LOOK_UPS_MAX; i++) {
        if (look_ups->under_way[i] != NULL)
            let_go(look_ups->under_way[i]);
        look_ups->under_way[i] = NULL;
    }
}
