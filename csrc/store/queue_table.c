/* queue_table.c: open addressing over queue pointers, and a list of blocks in the order of creation for visits. */
#include "queue_table.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "batch_topics.h"
#include "commit_log_inl.h"
#include "consume_queue_inl.h"
#include "light_queue.h"
#include "store_path.h"

#define BLOCK_QUEUES 256
#define SLOTS_MIN 64

/* Queues in the order of their creation. Blocks never move, so a visit needs only the count from its start. */
typedef struct block {
    rp_consume_queue *queues[BLOCK_QUEUES];
    struct block *next;
} block;

struct rp_queue_table {
    const rp_consume_queue_setup *setup, *batch_setup; /* fixed */
    uint32_t queues_max;                               /* fixed */
    pthread_mutex_t lock;
    rp_batch_topics batch_topics; /* guarded by lock */
    rp_consume_queue **slots; /* guarded by lock: open addressing, at most half full */
    uint32_t slot_count;      /* guarded by lock: a power of two */
    uint32_t count;           /* guarded by lock */
    uint32_t deleted;         /* guarded by lock: queues of deleted topics, as of the last deletion */
    uint32_t light;           /* guarded by lock: queues that count as light ones */
    bool is_loading;          /* owner, while opening: queues on disk are loaded whatever their number */
    block *first, *last;      /* guarded by lock; a queue in a block is fixed once counted */
};

int rp_queue_table_create(const rp_consume_queue_setup *setup, const rp_consume_queue_setup *batch_setup, uint32_t queues_max,
                          rp_queue_table **out, rp_error *error) {
    rp_queue_table *table = calloc(1, sizeof *table);
    if (table == NULL || (table->slots = calloc(SLOTS_MIN, sizeof *table->slots)) == NULL) {
        free(table);
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the table of queues");
    }
    table->setup = setup;
    table->batch_setup = batch_setup;
    table->queues_max = queues_max;
    table->slot_count = SLOTS_MIN;
    pthread_mutex_init(&table->lock, NULL);
    *out = table;
    return RP_OK;
}

void rp_queue_table_destroy(rp_queue_table *table) {
    if (table == NULL) {
        return;
    }
    uint32_t left = table->count;
    for (block *now = table->first; now != NULL;) {
        block *next = now->next;
        for (uint32_t i = 0; i < BLOCK_QUEUES && left > 0; i++, left--) {
            rp_consume_queue_close(now->queues[i]);
        }
        free(now);
        now = next;
    }
    pthread_mutex_destroy(&table->lock);
    rp_batch_topics_free(&table->batch_topics);
    free(table->slots);
    free(table);
}

static bool is_same(const rp_consume_queue *queue, rp_slice topic, int32_t queue_id, uint64_t hash) {
    return queue->hash == hash && queue->id == queue_id && queue->topic.size == topic.size &&
           memcmp(queue->topic.data, topic.data, topic.size) == 0;
}

/* Under lock: returns the slot that holds the queue, or the empty one where it belongs. */
static uint32_t slot_of(const rp_queue_table *table, rp_slice topic, int32_t queue_id, uint64_t hash) {
    uint32_t slot = (uint32_t)hash & (table->slot_count - 1);
    while (table->slots[slot] != NULL && !is_same(table->slots[slot], topic, queue_id, hash)) {
        slot = (slot + 1) & (table->slot_count - 1);
    }
    return slot;
}

/* Under lock: doubles the number of slots. */
static bool grow(rp_queue_table *table) {
    uint32_t before = table->slot_count;
    rp_consume_queue **old = table->slots, **larger = calloc((size_t)before * 2, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    table->slots = larger;
    table->slot_count = before * 2;
    for (uint32_t i = 0; i < before; i++) {
        if (old[i] != NULL) {
            table->slots[slot_of(table, old[i]->topic, old[i]->id, old[i]->hash)] = old[i];
        }
    }
    free(old);
    return true;
}

/* Under lock. */
static bool append_to_blocks(rp_queue_table *table, rp_consume_queue *queue) {
    if (table->count % BLOCK_QUEUES == 0) {
        block *fresh = calloc(1, sizeof *fresh);
        if (fresh == NULL) {
            return false;
        }
        *(table->last == NULL ? &table->first : &table->last->next) = fresh;
        table->last = fresh;
    }
    table->last->queues[table->count++ % BLOCK_QUEUES] = queue;
    return true;
}

/* A topic becomes a directory's name, and it came from the wire. */
int rp_queue_table_takes(rp_slice topic) {
    if (topic.size == 0 || topic.size > RP_TOPIC_SIZE_MAX || memchr(topic.data, '/', topic.size) != NULL ||
        memchr(topic.data, 0, topic.size) != NULL) {
        return 0;
    }
    return !(topic.data[0] == '.' && (topic.size == 1 || (topic.size == 2 && topic.data[1] == '.')));
}

int rp_queue_table_set_batch_topic(rp_queue_table *table, rp_slice topic, int is_batch) {
    int rc = RP_OK;
    pthread_mutex_lock(&table->lock);
    if (is_batch) {
        rc = rp_batch_topics_add(&table->batch_topics, topic);
    } else {
        rp_batch_topics_remove(&table->batch_topics, topic);
    }
    pthread_mutex_unlock(&table->lock);
    return rc;
}

int rp_queue_table_is_batch_topic(rp_queue_table *table, rp_slice topic) {
    pthread_mutex_lock(&table->lock);
    int is_batch = rp_batch_topics_has(&table->batch_topics, topic);
    pthread_mutex_unlock(&table->lock);
    return is_batch;
}

/* True if the queue has no entry and no file: nothing is lost with it. */
static bool is_void(const rp_consume_queue *queue) {
    return atomic_load(&queue->deleted) ||
           (rp_consume_queue_end_entry(queue) == 0 && rp_mapped_file_queue_end(queue->row) == rp_mapped_file_queue_begin(queue->row));
}

/* Under lock: puts a new queue into its slot; same: the queue of the other kind that was there, or NULL. */
static rp_consume_queue *add(rp_queue_table *table, rp_slice topic, int32_t queue_id, uint64_t hash, bool is_batch, rp_consume_queue *same,
                             rp_error *error) {
    if (table->count - table->deleted >= table->queues_max && !table->is_loading) {
        rp_error_set(error, RP_E_BUSY, 0, NULL, -1, "the store has %u queues, its limit", table->queues_max);
        return NULL;
    }
    rp_consume_queue *queue = NULL;
    if (table->count >= table->slot_count / 2 && !grow(table)) {
        rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the table of queues");
        return NULL;
    }
    if (rp_consume_queue_open(is_batch ? table->batch_setup : table->setup, topic, queue_id, &queue, error) != RP_OK) {
        return NULL;
    }
    if (!append_to_blocks(table, queue)) {
        rp_consume_queue_close(queue);
        rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the table of queues");
        return NULL;
    }
    table->slots[slot_of(table, topic, queue_id, hash)] = queue;
    queue->other = same;
    if (same != NULL) {
        same->other = queue;
    }
    return queue;
}

/* Under lock: returns the queue of the other kind, which is not in the slot; creates it if needed. */
static rp_consume_queue *other_of(rp_queue_table *table, rp_consume_queue *queue, rp_error *error) {
    rp_consume_queue *other = queue->other;
    if (other == NULL && (other = add(table, queue->topic, queue->id, queue->hash, !queue->is_batch, queue, error)) != NULL) {
        table->slots[slot_of(table, queue->topic, queue->id, queue->hash)] = queue;
    }
    return other;
}

/* Under lock: puts the queue of the other kind in the place of a void one. */
static rp_consume_queue *exchange(rp_queue_table *table, rp_consume_queue *queue, rp_error *error) {
    rp_consume_queue *other = other_of(table, queue, error);
    if (other != NULL) {
        table->slots[slot_of(table, queue->topic, queue->id, queue->hash)] = other;
        other->deleted_at = queue->deleted_at > other->deleted_at ? queue->deleted_at : other->deleted_at;
        atomic_store(&queue->deleted, true);
        rp_consume_queue_take_readers(other, queue);
    }
    return other;
}

void rp_queue_table_keep(rp_queue_table *table, rp_consume_queue *queue) {
    pthread_mutex_lock(&table->lock);
    rp_consume_queue *now = table->slots[slot_of(table, queue->topic, queue->id, queue->hash)];
    if (now != queue && is_void(now)) {
        (void)exchange(table, now, NULL); /* with the queue that was there: nothing is created */
        atomic_store(&queue->deleted, false);
    }
    pthread_mutex_unlock(&table->lock);
}

enum queue_kind { ANY_KIND = -1, PLAIN_QUEUE, BATCH_QUEUE };

/* Under lock: the kind of a queue to be created, if the caller leaves it open. */
static bool is_batch_kind(const rp_queue_table *table, enum queue_kind kind, rp_slice topic) {
    return kind == ANY_KIND ? rp_batch_topics_has(&table->batch_topics, topic) : kind == BATCH_QUEUE;
}

/* light_max: NULL, or the bound of light queues for a light queue that is to be counted. */
static rp_consume_queue *find(rp_queue_table *table, rp_slice topic, int32_t queue_id, int create, enum queue_kind kind,
                              const uint32_t *light_max, rp_error *error) {
    if (!rp_queue_table_takes(topic) || queue_id < 0) {
        rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                     "\"%.*s\" queue %d is not a queue: the name must do as a directory's, the id be 0 or more",
                     (int)(topic.size > 64 ? 64 : topic.size), (const char *)topic.data, queue_id);
        return NULL;
    }
    uint64_t hash = rp_hash_bytes(topic.data, topic.size, (uint64_t)(uint32_t)queue_id);
    pthread_mutex_lock(&table->lock);
    rp_consume_queue *queue = table->slots[slot_of(table, topic, queue_id, hash)];
    bool is_new_light = light_max != NULL && (queue == NULL || !queue->is_light_counted);
    if (is_new_light && table->light >= *light_max) {
        rp_error_set(error, RP_E_BUSY, 0, NULL, -1, "the store has %u light queues, its limit", table->light);
        queue = NULL;
    } else if (queue == NULL && create) {
        queue = add(table, topic, queue_id, hash, is_batch_kind(table, kind, topic), NULL, error);
    } else if (queue != NULL && create && queue->is_batch != is_batch_kind(table, kind, topic) && is_void(queue)) {
        queue = exchange(table, queue, error);
    }
    if (is_new_light && queue != NULL) {
        queue->is_light_counted = true;
        table->light++;
    }
    pthread_mutex_unlock(&table->lock);
    return queue;
}

rp_consume_queue *rp_queue_table_find(rp_queue_table *table, rp_slice topic, int32_t queue_id, int create, rp_error *error) {
    return find(table, topic, queue_id, create, ANY_KIND, NULL, error);
}

rp_consume_queue *rp_queue_table_find_kind(rp_queue_table *table, rp_slice topic, int32_t queue_id, int is_batch, rp_error *error) {
    return find(table, topic, queue_id, 1, is_batch ? BATCH_QUEUE : PLAIN_QUEUE, NULL, error);
}

rp_consume_queue *rp_queue_table_of_kind(rp_queue_table *table, rp_slice topic, int32_t queue_id, int is_batch, rp_error *error) {
    rp_consume_queue *queue = rp_queue_table_find_kind(table, topic, queue_id, is_batch, error);
    if (queue != NULL && queue->is_batch != is_batch) {
        pthread_mutex_lock(&table->lock);
        bool is_new = queue->other == NULL;
        queue = other_of(table, queue, error);
        if (is_new && queue != NULL) {
            atomic_store(&queue->deleted, true); /* it does not belong to the topic yet */
        }
        pthread_mutex_unlock(&table->lock);
    }
    return queue;
}

rp_consume_queue *rp_queue_table_find_light(rp_queue_table *table, rp_slice topic, uint32_t queues_max, rp_error *error) {
    return find(table, topic, RP_LIGHT_QUEUE_ID, 1, PLAIN_QUEUE, &queues_max, error);
}

void rp_queue_table_each(rp_queue_table *table, int (*visit)(void *context, rp_consume_queue *queue), void *context) {
    pthread_mutex_lock(&table->lock);
    uint32_t left = table->count;
    block *now = table->first;
    pthread_mutex_unlock(&table->lock);
    while (left > 0) {
        uint32_t here = left < BLOCK_QUEUES ? left : BLOCK_QUEUES;
        for (uint32_t i = 0; i < here; i++) {
            if (visit(context, now->queues[i]) != 0) {
                return;
            }
        }
        left -= here;
        now = left > 0 ? now->next : NULL;
    }
}

uint32_t rp_queue_table_count(rp_queue_table *table) {
    pthread_mutex_lock(&table->lock);
    uint32_t count = table->count;
    pthread_mutex_unlock(&table->lock);
    return count;
}

typedef struct deleted_count {
    rp_queue_table *table;
    uint32_t deleted;
} deleted_count;

static int count_deleted(void *context, rp_consume_queue *queue) {
    deleted_count *count = context;
    if (!atomic_load(&queue->deleted)) {
        return 0;
    }
    count->deleted++;
    pthread_mutex_lock(&count->table->lock);
    count->table->light -= queue->is_light_counted;
    queue->is_light_counted = false;
    pthread_mutex_unlock(&count->table->lock);
    return 0;
}

void rp_queue_table_make_room(rp_queue_table *table) {
    deleted_count count = {table, 0};
    rp_queue_table_each(table, count_deleted, &count);
    pthread_mutex_lock(&table->lock);
    table->deleted = count.deleted;
    pthread_mutex_unlock(&table->lock);
}

/* Parses a directory's name as a queue id; -1 for any other name. */
static int32_t queue_id_of_name(const char *name) {
    int32_t id = 0;
    size_t digits = 0;
    for (; name[digits] >= '0' && name[digits] <= '9'; digits++) {
        if (__builtin_mul_overflow(id, 10, &id) || __builtin_add_overflow(id, name[digits] - '0', &id)) {
            return -1;
        }
    }
    return digits == 0 || name[digits] != 0 || (digits > 1 && name[0] == '0') ? -1 : id;
}

/* Logs a queue whose topic has queues of the other kind, and leaves it alone. */
static void leave_alone(const rp_queue_table *table, const char *topic, const rp_consume_queue_setup *setup) {
    rp_log_write(setup->log->setup.log, RP_LOG_WARNING,
                 "%s/%s: the topic has %s queues, these are left alone; RocketMQ does not start before they are taken away",
                 setup->directory, topic, setup == table->setup ? "batch" : "plain");
}

static int load_queue(rp_queue_table *table, const rp_consume_queue_setup *setup, rp_slice name, int32_t queue_id, rp_error *error) {
    bool is_batch = setup == table->batch_setup, is_light = rp_is_light_queue(name) && queue_id == RP_LIGHT_QUEUE_ID && !is_batch;
    rp_consume_queue *queue = is_light ? rp_queue_table_find_light(table, name, UINT32_MAX, error)
                                       : rp_queue_table_find_kind(table, name, queue_id, is_batch, error);
    if (queue != NULL && queue->is_batch != is_batch) {
        leave_alone(table, (const char *)queue->topic.data, setup);
        return RP_OK;
    }
    int rc = queue == NULL ? error->status : rp_consume_queue_load(queue, error);
    if (rc == RP_E_IO && error->os_errno != EIO) { /* descriptors are out, or the file belongs to another user: the disk has lost nothing */
        return rc;
    }
    return rc == RP_E_NO_MEMORY || rc == RP_OK ? rc : RP_E_CORRUPT;
}

static int cannot_read(const char *directory, int os_errno, rp_error *error) {
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, directory, -1, "cannot read the directory: %s",
                        strerror(os_errno));
}

static bool goes_on(int rc) { return rc == RP_OK || rc == RP_E_CORRUPT; }

/* True for a plain file, and for the directory that only root can read, where fsck puts what it finds if queues have their own disk.
 * RocketMQ passes it over too. */
static bool is_not_ours(const char *name, int os_errno) {
    return os_errno == ENOTDIR || os_errno == ENOENT || (os_errno == EACCES && strcmp(name, "lost+found") == 0);
}

static int load_topic(rp_queue_table *table, const rp_consume_queue_setup *setup, const char *topic, rp_error *error) {
    char path[RP_PATH_MAX];
    rp_slice name = {(const uint8_t *)topic, (uint32_t)strlen(topic)};
    if (setup == table->setup && rp_queue_table_is_batch_topic(table, name)) {
        leave_alone(table, topic, setup);
        return RP_OK;
    }
    int rc = rp_path_join(path, setup->directory, topic, error), result = RP_OK;
    DIR *directory = rc == RP_OK ? opendir(path) : NULL;
    if (directory == NULL) {
        return rc != RP_OK || is_not_ours(topic, errno) ? rc : cannot_read(path, errno, error);
    }
    struct dirent *entry;
    for (errno = 0; goes_on(result) && (entry = readdir(directory)) != NULL; errno = 0) {
        int32_t id = queue_id_of_name(entry->d_name);
        rc = id >= 0 ? load_queue(table, setup, name, id, error) : RP_OK;
        result = rc != RP_OK ? rc : result;
    }
    result = errno != 0 ? cannot_read(path, errno, error) : result;
    closedir(directory);
    return result;
}

static int load_kind(rp_queue_table *table, const rp_consume_queue_setup *setup, rp_error *error) {
    DIR *directory = opendir(setup->directory);
    if (directory == NULL) {
        return errno == ENOENT ? RP_OK : cannot_read(setup->directory, errno, error);
    }
    struct dirent *entry;
    int result = RP_OK;
    for (errno = 0; goes_on(result) && (entry = readdir(directory)) != NULL; errno = 0) {
        if (entry->d_name[0] != '.') {
            int rc = load_topic(table, setup, entry->d_name, error);
            result = rc != RP_OK ? rc : result;
        }
    }
    result = errno != 0 ? cannot_read(setup->directory, errno, error) : result;
    closedir(directory);
    return result;
}

int rp_queue_table_load(rp_queue_table *table, rp_error *error) {
    rp_error local = {0};
    error = error == NULL ? &local : error;
    table->is_loading = true;
    int result = load_kind(table, table->setup, error);
    int batches = goes_on(result) ? load_kind(table, table->batch_setup, error) : RP_OK;
    table->is_loading = false;
    return batches != RP_OK ? batches : result;
}
