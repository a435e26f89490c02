/* new_queue_test.c: many threads that need the same new queues at once all get them; a queue that is deleted meanwhile can be written
 * later;
 * a new file uses memory only for its entries. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"
#include "store_fixture.h"

#define THREADS 4
#define QUEUES 64
#define DELETIONS 300

typedef struct opener {
    rp_message_store *store;
    pthread_barrier_t *barrier;
    rp_consume_queue *queues[QUEUES];
} opener;

static void *open_all(void *context) {
    opener *self = context;
    const rp_slice topic = {(const uint8_t *)"fresh", 5};
    for (int32_t queue = 0; queue < QUEUES; queue++) {
        rp_error error = {0};
        pthread_barrier_wait(self->barrier); /* all at the same queue */
        self->queues[queue] = rp_message_store_queue(self->store, topic, queue, 1, &error);
        if (self->queues[queue] == NULL || rp_message_store_prepare_queue(self->store, self->queues[queue], &error) != RP_OK) {
            fprintf(stderr, "queue %d: %s\n", queue, error.message);
            exit(1);
        }
    }
    return NULL;
}

static void threads_that_want_the_same_new_queue_all_get_it(void) {
    char root[400];
    rp_message_store_options options;
    fixture_directory(root, sizeof root);
    fixture_options(&options, root);
    rp_message_store *store = fixture_open(&options);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    static opener openers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        openers[i] = (opener){.store = store, .barrier = &barrier};
        CHECK(pthread_create(&threads[i], NULL, open_all, &openers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        CHECK(memcmp(openers[i].queues, openers[0].queues, sizeof openers[0].queues) == 0);
    pthread_barrier_destroy(&barrier);
    fixture_close(store);
    fixture_remove(root);
}

static void *want_one_again_and_again(void *context) {
    rp_consume_queue *queue = rp_message_store_queue(context, fixture_slice("T"), 0, 1, NULL);
    for (int i = 0; i < 60; i++)
        rp_message_store_prepare_queue(context, queue, NULL); /* or not, while it is being deleted */
    return NULL;
}

static void a_queue_that_was_wanted_during_its_deletion_can_be_written(void) {
    char root[400];
    rp_message_store_options options;
    fixture_directory_below(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", root, sizeof root); /* names come and go faster there */
    fixture_options(&options, root);
    rp_message_store *store = fixture_open(&options);
    for (int round = 0; round < DELETIONS; round++) {
        pthread_t threads[2];
        rp_error error = {0};
        for (int i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, want_one_again_and_again, store) == 0);
        for (int i = 0; i < 5; i++)
            CHECK(rp_message_store_delete_topic(store, fixture_slice("T"), &error) == RP_OK);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        CHECK(fixture_append(store, fixture_queue(store, "T", 0), 0) == RP_OK);
    }
    fixture_close(store);
    fixture_remove(root);
}

static size_t pages_in_memory(const char *path, size_t size) {
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    void *address = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    static unsigned char pages[2048];
    CHECK(address != MAP_FAILED && size / 4096 < sizeof pages && mincore(address, size, pages) == 0);
    size_t count = 0;
    for (size_t i = 0; i < size / 4096; i++)
        count += pages[i] & 1;
    munmap(address, size);
    close(fd);
    return count;
}

/* A fault in a hole is a read of it, and the kernel reads ahead: up to the whole file, for every new queue. */
static void a_new_file_takes_the_memory_of_its_entries(void) {
    char root[400], path[512];
    rp_message_store_options options;
    fixture_directory(root, sizeof root);
    fixture_options(&options, root);
    options.consume_queue_file_size = 300000 * RP_CONSUME_QUEUE_ENTRY_SIZE;
    rp_message_store *store = fixture_open(&options);
    for (int32_t queue = 0; queue < 4; queue++) {
        CHECK(fixture_append(store, fixture_queue(store, "T", queue), 0) == RP_OK);
        snprintf(path, sizeof path, "%s/consumequeue/T/%d/%020d", root, (int)queue, 0);
        CHECK(pages_in_memory(path, options.consume_queue_file_size) <= 2);
    }
    fixture_close(store);
    fixture_remove(root);
}

int main(void) {
    RUN(threads_that_want_the_same_new_queue_all_get_it);
    RUN(a_queue_that_was_wanted_during_its_deletion_can_be_written);
    RUN(a_new_file_takes_the_memory_of_its_entries);
    return 0;
}
