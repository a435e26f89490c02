/* new_queue_test.c: many threads that want the same new queues at once all get them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../csrc/store/message_store.h"
#include "check.h"

#define THREADS 4
#define QUEUES 64

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
        if (self->queues[queue] == NULL) {
            fprintf(stderr, "queue %d: %s\n", queue, error.message);
            exit(1);
        }
    }
    return NULL;
}

static void threads_that_want_the_same_new_queue_all_get_it(void) {
    char root[] = "/tmp/rp_new_queue_XXXXXX", command[64];
    CHECK(mkdtemp(root) != NULL);
    rp_message_store_options options;
    rp_message_store_options_default(&options);
    options.root_path = root;
    options.commit_log_file_size = 1 << 20;
    options.consume_queue_file_size = 20 * 1000;
    rp_message_store *store = NULL;
    rp_error error = {0};
    CHECK(rp_message_store_open(&options, &store, &error) == RP_OK);
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
    CHECK(rp_message_store_close(store, &error) == RP_OK);
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
}

int main(void) {
    RUN(threads_that_want_the_same_new_queue_all_get_it);
    return 0;
}
