/* queue_names_test.c: a new file of a queue is already in use while the thread that created it has not continued: a sync that covers its
 * first entries also covers its name. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { MESSAGES = FIXTURE_QUEUE_FILE_ENTRIES + 10, IMAGES = 6 };

static power_cut *cut;
static _Thread_local bool makes_file, has_made_file;
static _Atomic bool is_held, may_go_on;

static int open_file(void *context, const char *path, int flags, uint32_t mode) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    makes_file = strcmp(name, "rp-prealloc") == 0 && strstr(path, "/consumequeue/") != NULL && (flags & O_CREAT) != 0;
    return cut->ops.open(context, path, flags, mode);
}

static void *map_file(void *context, int fd, size_t size, int writable) {
    void *address = cut->ops.map(context, fd, size, writable);
    has_made_file = makes_file;
    makes_file = false;
    return address;
}

/* In place of the library's: the thread that has made the file stops behind the first lock that it gives back. */
int pthread_mutex_unlock(pthread_mutex_t *lock) {
    static int (*_Atomic unlock)(pthread_mutex_t *);
    if (atomic_load(&unlock) == NULL) {
        *(void **)&unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    }
    int rc = atomic_load(&unlock)(lock);
    if (has_made_file) {
        has_made_file = false;
        atomic_store(&is_held, true);
        CHECK_AT_LAST(atomic_load(&may_go_on));
    }
    return rc;
}

int main(void) {
    char base[400], live[512], image[512];
    fixture_directory(base, sizeof base);
    snprintf(live, sizeof live, "%s/live", base);
    cut = power_cut_create(live);
    rp_file_ops ops = cut->ops;
    ops.open = open_file;
    ops.map = map_file;
    rp_message_store_options options;
    fixture_options(&options, live);
    options.file_ops = &ops;
    options.index_enable = 0;
    fixture_never_flush(&options);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Names", 0);
    rp_error error = {0};
    CHECK(fixture_append(store, queue, 0) == RP_OK);
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Other"), &error) == RP_OK); /* syncs log and queues */
    for (int64_t i = 1; i < MESSAGES; i++) {
        CHECK_AT_LAST(i != FIXTURE_QUEUE_FILE_ENTRIES || atomic_load(&is_held));
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Other"), &error) == RP_OK);
    power_cut_now(cut);
    atomic_store(&may_go_on, true);
    for (uint64_t seed = 1; seed <= IMAGES; seed++) {
        uint64_t dice = seed;
        snprintf(image, sizeof image, "%s/image-%llu", base, (unsigned long long)seed);
        power_cut_image(cut, "", image, &dice);
        rp_message_store_options after;
        fixture_options(&after, image);
        rp_message_store *found = fixture_open(&after);
        CHECK(rp_consume_queue_max_offset(fixture_queue(found, "Names", 0)) == MESSAGES);
        for (int64_t i = 0; i < MESSAGES; i++) {
            CHECK(fixture_check(found, fixture_queue(found, "Names", 0), i) == 0);
        }
        fixture_close(found);
    }
    CHECK(rp_message_store_close(store, &error) == RP_E_IO); /* the power is gone */
    power_cut_destroy(cut);
    fixture_remove(base);
    return 0;
}
