/* ha_dial_test.c: a master whose name has several addresses, and one that is silent. */
#include <dlfcn.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../csrc/ha/dial.h"
#include "../../../csrc/ha/look_up.h"
#include "ha_pair.h"

#define UNANSWERED "master.whose.dns.says.nothing"
#define NAME "rocketmq-broker-0.rocketmq-broker-headless.production.svc.cluster.local" /* as Kubernetes makes them */

static struct addrinfo dead_end; /* in front of what the name really stands for */
static struct sockaddr_in nobody;
static _Atomic uint64_t dials; /* begun */
static atomic_int dns_answers, unanswered_begun, unanswered_over;

/* Behaves like a resolver whose servers are silent: it gives up only after a long time. */
static int wait_for_dns(void) {
    struct timespec pause = {.tv_nsec = 1000000};
    atomic_fetch_add(&unanswered_begun, 1);
    for (int i = 0; i < WAIT_S * 1000 && !atomic_load(&dns_answers); i++)
        nanosleep(&pause, NULL);
    atomic_fetch_add(&unanswered_over, 1);
    return EAI_AGAIN;
}

static pthread_t asked_by; /* of a name that is answered */
static atomic_int are_threads_refused;

/* What a look-up by a thread begins with. */
int eventfd(unsigned count, int flags) { return atomic_load(&are_threads_refused) ? -1 : (int)syscall(SYS_eventfd2, count, flags); }

/* In front of libc's, for the library too. */
int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (hints->ai_flags & AI_NUMERICHOST)
        return real(name, port, hints, found) == 0 ? (atomic_fetch_add(&dials, 1), 0) : EAI_NONAME;
    if (strncmp(name, UNANSWERED, strlen(UNANSWERED)) == 0)
        return wait_for_dns();
    atomic_fetch_add(&dials, 1);
    asked_by = pthread_self();
    if (strcmp(name, NAME) != 0)
        return real(name, port, hints, found);
    int rc = real("127.0.0.1", port, hints, found);
    if (rc == 0) {
        dead_end = **found;
        dead_end.ai_addr = (struct sockaddr *)&nobody;
        dead_end.ai_next = *found;
        *found = &dead_end;
    }
    return rc;
}

void freeaddrinfo(struct addrinfo *found) {
    void (*real)(struct addrinfo *);
    *(void **)&real = dlsym(RTLD_NEXT, "freeaddrinfo");
    real(found == &dead_end ? dead_end.ai_next : found);
}

/* A port of this host that is bound and refuses: nobody listens. */
static int take_dead_port(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof nobody;
    nobody = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&nobody, sizeof nobody) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&nobody, &size) == 0);
    return fd;
}

static void a_master_is_found_behind_an_address_that_nobody_listens_on(void) {
    pair both;
    char address[RP_ENDPOINT_TEXT_MAX];
    int fd = take_dead_port();
    open_pair(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    snprintf(address, sizeof address, NAME ":%u", rp_ha_master_port(both.ha_master));
    CHECK(rp_ha_slave_set_master(both.ha_slave, address) == RP_OK);
    wait_connects(&both, 2);
    rp_ha_slave_stats stats;
    rp_ha_slave_read_stats(both.ha_slave, &stats);
    CHECK(strcmp(stats.master_address, address) == 0);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    check_equal(&both);
    close_pair(&both);
    close(fd);
}

/* A listener whose queue is full takes no connection and refuses none. */
typedef struct silence {
    int listener, waiting;
    char address[RP_ENDPOINT_TEXT_MAX];
} silence;

static silence open_silence(void) {
    silence made = {.listener = socket(AF_INET, SOCK_STREAM, 0), .waiting = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in silent = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof silent;
    CHECK(bind(made.listener, (struct sockaddr *)&silent, sizeof silent) == 0 && listen(made.listener, 0) == 0);
    CHECK(getsockname(made.listener, (struct sockaddr *)&silent, &size) == 0);
    CHECK(connect(made.waiting, (struct sockaddr *)&silent, size) == 0);
    snprintf(made.address, sizeof made.address, "127.0.0.1:%u", ntohs(silent.sin_port));
    return made;
}

static void close_silence(const silence *one) {
    close(one->waiting);
    close(one->listener);
}

static void a_dial_that_is_given_up_does_not_wait_for_a_silent_address(void) {
    char why[RP_DIAL_WHY_MAX];
    silence silent = open_silence();
    atomic_int given_up = 0;
    rp_look_ups none = {{NULL}};
    CHECK(rp_dial(&none, silent.address, 300, &given_up, why) == -1 && strstr(why, "timed out") != NULL);
    given_up = 1;
    int64_t begin_ns = rp_clock_monotonic_ns(rp_clock_system());
    CHECK(rp_dial(&none, silent.address, 600000, &given_up, why) == -1);
    CHECK(rp_clock_monotonic_ns(rp_clock_system()) - begin_ns < 300 * 1000000000ll);
    close_silence(&silent);
}

static void follow_silence(const pair *both, const silence *silent) {
    struct timespec pause = {.tv_nsec = 200000};
    uint64_t before = atomic_load(&dials);
    CHECK(rp_ha_slave_set_master(both->ha_slave, silent->address) == RP_OK);
    for (int i = 0; atomic_load(&dials) == before; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

/* Closing a dial that was given up does no harm. */
static int has_trouble(const pair *both) {
    rp_ha_slave_stats stats;
    rp_ha_slave_read_stats(both->ha_slave, &stats);
    return strstr(stats.last_error, "connect failed") != NULL;
}

/* A host that is gone does not answer. A slave that becomes the master, or follows another one, must not wait for it. */
static void a_slave_leaves_a_silent_address_for_another(void) {
    pair both;
    silence silent = open_silence();
    open_pair(&both);
    close_slave(&both);
    both.connect_timeout_ms = 600000;
    open_slave(&both);
    wait_connects(&both, 1);
    follow_silence(&both, &silent);
    follow(&both);
    wait_connects(&both, 2);
    CHECK(!has_trouble(&both));
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    follow_silence(&both, &silent);
    rp_ha_slave_let_go(both.ha_slave);
    CHECK(!has_trouble(&both));
    follow_silence(&both, &silent);
    close_pair(&both);
    close_silence(&silent);
}

static void wait_until_at_least(const atomic_int *count, int least) {
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; atomic_load(count) < least; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

/* A look-up by the system's resolver cannot be cancelled. A slave that follows another master, or stops, must not wait for it. */
static void a_slave_waits_for_no_dns_that_says_nothing(void) {
    pair both;
    open_pair(&both);
    atomic_store(&dns_answers, 0);
    CHECK(rp_ha_slave_set_master(both.ha_slave, UNANSWERED ":10912") == RP_OK);
    wait_until_at_least(&unanswered_begun, 1);
    follow(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    CHECK(rp_ha_slave_set_master(both.ha_slave, UNANSWERED ".too:10912") == RP_OK);
    wait_until_at_least(&unanswered_begun, 2);
    close_pair(&both);
    CHECK(atomic_load(&unanswered_over) == 0);
    atomic_store(&dns_answers, 1);
    wait_until_at_least(&unanswered_over, 2);
}

/* Elections that flap have a slave go to and fro between names, each time without an answer: that must not cost a thread each. */
static void who_gives_up_again_and_again_has_a_thread_a_name_and_few_names(void) {
    const atomic_int wanted = 0, given_up = 1;
    struct addrinfo *found;
    char host[RP_ENDPOINT_TEXT_MAX], why[RP_DIAL_WHY_MAX];
    rp_look_ups look_ups = {{NULL}};
    int before = atomic_load(&unanswered_begun), over = atomic_load(&unanswered_over);
    atomic_store(&dns_answers, 0);
    for (int i = 0; i < 5 * RP_LOOK_UPS_MAX; i++) {
        snprintf(host, sizeof host, UNANSWERED ".%d", i % RP_LOOK_UPS_MAX);
        CHECK(rp_look_up(&look_ups, host, "10912", &given_up, &found) == RP_E_TIMEOUT && found == NULL);
    }
    CHECK(rp_look_up(&look_ups, UNANSWERED ".more", "10912", &wanted, &found) == RP_E_BUSY && found == NULL);
    CHECK(rp_dial(&look_ups, UNANSWERED ".more:10912", 600000, &wanted, why) == -1 && strstr(why, "no DNS server") != NULL);
    CHECK(rp_look_up(&look_ups, "127.0.0.1", "10912", &wanted, &found) == RP_OK);
    freeaddrinfo(found);
    wait_until_at_least(&unanswered_begun, before + RP_LOOK_UPS_MAX);
    atomic_store(&dns_answers, 1);
    CHECK(rp_look_up(&look_ups, UNANSWERED ".0", "10912", &wanted, &found) == RP_E_NETWORK); /* the one that asked first */
    int begun = atomic_load(&unanswered_begun) - before; /* one more if that one's answer came before it was asked for: it may be old */
    CHECK(begun == RP_LOOK_UPS_MAX || begun == RP_LOOK_UPS_MAX + 1);
    wait_until_at_least(&unanswered_over, over + begun);
    CHECK(rp_look_up(&look_ups, NAME, "10912", &wanted, &found) == RP_OK); /* there is room again */
    freeaddrinfo(found);
    rp_look_ups_leave(&look_ups);
}

/* Five masters one after another: the last one's name is known. */
static void a_name_that_is_known_is_found_behind_several_that_are_not_answered(void) {
    const atomic_int wanted = 0, given_up = 1;
    struct addrinfo *found;
    char host[RP_ENDPOINT_TEXT_MAX];
    rp_look_ups look_ups = {{NULL}};
    int over = atomic_load(&unanswered_over);
    atomic_store(&dns_answers, 0);
    for (int i = 0; i < 5; i++) {
        snprintf(host, sizeof host, UNANSWERED ".%d", i);
        CHECK(rp_look_up(&look_ups, host, "10912", &given_up, &found) == RP_E_TIMEOUT);
    }
    CHECK(rp_look_up(&look_ups, NAME, "10912", &wanted, &found) == RP_OK);
    freeaddrinfo(found);
    rp_look_ups_leave(&look_ups);
    atomic_store(&dns_answers, 1);
    wait_until_at_least(&unanswered_over, over + 5);
}

static void who_asks_when_there_is_no_thread_asks_itself(void) {
    const atomic_int wanted = 0;
    struct addrinfo *found;
    rp_look_ups look_ups = {{NULL}};
    CHECK(rp_look_up(&look_ups, NAME, "10912", &wanted, &found) == RP_OK && !pthread_equal(asked_by, pthread_self()));
    freeaddrinfo(found);
    atomic_store(&are_threads_refused, 1);
    CHECK(rp_look_up(&look_ups, NAME, "10912", &wanted, &found) == RP_OK && pthread_equal(asked_by, pthread_self()));
    freeaddrinfo(found);
    atomic_store(&are_threads_refused, 0);
}

int main(void) {
    RUN(a_dial_that_is_given_up_does_not_wait_for_a_silent_address);
    RUN(a_slave_leaves_a_silent_address_for_another);
    RUN(a_slave_waits_for_no_dns_that_says_nothing);
    RUN(who_gives_up_again_and_again_has_a_thread_a_name_and_few_names);
    RUN(a_name_that_is_known_is_found_behind_several_that_are_not_answered);
    RUN(who_asks_when_there_is_no_thread_asks_itself);
    RUN(a_master_is_found_behind_an_address_that_nobody_listens_on);
    return 0;
}
