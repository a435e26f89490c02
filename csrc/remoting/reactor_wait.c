/* reactor_wait.c: how a reactor waits between two turns: it sleeps in epoll until something happens or the earliest deadline comes. An
 * idle reactor does not run. RocketMQ: netty's SelectStrategy.
 *
 * After answering a client that asks one request at a time it polls for spin_us before it sleeps, but only while that pays: each hit
 * earns credit, each miss costs more, and without credit it tries again only once in SPIN_PAUSE_MAX such turns.
 */
#include "reactor.h"

#include <limits.h>
#include <sys/epoll.h>

#include "../base/clock_inl.h"

#define SPIN_CREDIT_MAX 8u
#define SPIN_COST 2u
#define SPIN_PAUSE_MAX 16u

static int64_t earlier(int64_t left, int64_t right) { return left < right ? left : right; }

int64_t rp_reactor_next_deadline(const rp_reactor *reactor) {
    int64_t deadline = earlier(reactor->deadline_ns, rp_timer_wheel_next_ns(&reactor->wheel));
    return earlier(deadline, earlier(reactor->listener_resume_ns, reactor->drain_until_ns));
}

/* Returns milliseconds for epoll_wait, rounded up so that it does not wake just before the deadline; -1: no timeout. */
static int timeout_until(const rp_reactor *reactor, int64_t deadline) {
    if (deadline == INT64_MAX) {
        return -1;
    }
    int64_t left = deadline - rp_clock_monotonic_ns(reactor->server->options.clock);
    if (left <= 0) {
        return 0;
    }
    int64_t milliseconds = (left - 1) / RP_NS_PER_MS + 1;
    return milliseconds > INT_MAX ? INT_MAX : (int)milliseconds;
}

/* Polls until something happens or spin_until_ns is reached. Returns the number of events; *is_inbox: the inbox has something. */
static int spin(rp_reactor *reactor, struct epoll_event *events, int events_max, bool *is_inbox) {
    const rp_clock *clock = reactor->server->options.clock;
    int64_t deadline = rp_reactor_next_deadline(reactor), now;
    int looks = 0, count;
    do {
        looks++;
        count = epoll_wait(reactor->epoll_fd, events, events_max, 0);
        *is_inbox = rp_ring_count(reactor->inbox) > 0;
        now = rp_clock_monotonic_ns(clock);
    } while (count == 0 && !*is_inbox && now < reactor->spin_until_ns && now < deadline);
    /* What the first check finds was there already, so no sleep was saved. With many clients that says nothing; a single client that has
     * asked again by then does not wait for its answers. */
    bool is_hit = count != 0 || *is_inbox;
    if (looks > 1 && is_hit) {
        reactor->spin_credit += reactor->spin_credit < SPIN_CREDIT_MAX;
    } else if (!is_hit || reactor->lone_requests == RP_LONE_REQUESTS) {
        reactor->spin_credit -= reactor->spin_credit < SPIN_COST ? reactor->spin_credit : SPIN_COST;
    }
    return count;
}

/* At most half of the cores: a polling thread occupies a core that the flusher, Python or a client on this host may need. */
static bool joins_spinners(rp_server *server) {
    if (atomic_fetch_add_explicit(&server->spinners, 1, memory_order_relaxed) < server->spinners_max) {
        return true;
    }
    atomic_fetch_sub_explicit(&server->spinners, 1, memory_order_relaxed);
    return false;
}

/* True: it is one of the server's spinners now. Another thread that returns to this reactor would have to wait for the lock. */
static bool spins_now(rp_reactor *reactor) {
    if (reactor->spin_until_ns == 0 || reactor->is_away) {
        return false;
    }
    if (reactor->spin_credit == 0 && ++reactor->spin_pause < SPIN_PAUSE_MAX) {
        return false;
    }
    reactor->spin_pause = 0;
    return joins_spinners(reactor->server);
}

int rp_reactor_wait(rp_reactor *reactor, struct epoll_event *events, int events_max) {
    if (reactor->held_back != NULL || reactor->dirty != NULL || reactor->large != NULL || reactor->closing != NULL) {
        return epoll_wait(reactor->epoll_fd, events, events_max, 0);
    }
    if (spins_now(reactor)) {
        bool is_inbox = false;
        int count = spin(reactor, events, events_max, &is_inbox);
        atomic_fetch_sub_explicit(&reactor->server->spinners, 1, memory_order_relaxed);
        if (count != 0 || is_inbox) {
            return count;
        }
    }
    int timeout = timeout_until(reactor, rp_reactor_next_deadline(reactor));
    if (timeout != 0 && !rp_ring_prepare_sleep(reactor->inbox)) {
        timeout = 0;
    }
    if (timeout == 0) {
        return epoll_wait(reactor->epoll_fd, events, events_max, 0);
    }
    pthread_mutex_unlock(&reactor->turn_lock);
    int count = epoll_wait(reactor->epoll_fd, events, events_max, timeout);
    pthread_mutex_lock(&reactor->turn_lock);
    rp_ring_finish_sleep(reactor->inbox);
    return count;
}

/* A client that asks one request at a time usually asks again as soon as it has its answer; for clients with more in flight, polling
 * only makes turns smaller. A request that waits for a disk, a slave, Python or a message is not answered by the turn that has read it. */
void rp_reactor_expect_asker(rp_reactor *reactor, uint64_t turn, uint64_t answers_before) {
    const rp_server_options *options = &reactor->server->options;
    bool is_answered =
        reactor->asked_in_turn == turn && atomic_load_explicit(&reactor->stats.frames_out, memory_order_relaxed) != answers_before;
    bool is_expected = is_answered && reactor->single_requests == RP_LONE_REQUESTS && options->spin_us > 0;
    reactor->spin_until_ns = is_expected ? rp_clock_monotonic_ns(options->clock) + (int64_t)options->spin_us * 1000 : 0;
}
