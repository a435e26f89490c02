/* request_queue.h: requests and connection events on their way to Python, first in, first out. Internal to csrc/remoting, C only.
 *
 *   reactors: hold → put (a batch a turn) ─ list ─ eventfd ─ take: Python
 *
 * Threads  put from any reactor, take from one consumer, free from any thread.
 * Owns     what is in the list. Lock order: `lock` is a leaf.
 * Bounds   waiting commands, calls and their messages ≤ capacity (rp_request_queue_admits refuses beyond that); other events are always
 *          accepted, so the order OPENED, requests, CLOSED of a connection holds and none is lost.
 */
#ifndef RP_REMOTING_REQUEST_QUEUE_H
#define RP_REMOTING_REQUEST_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "inbox.h"

typedef struct rp_request_queue rp_request_queue;

/* An rp_request in one block: only request.command.field_count fields are allocated, the copied bytes follow them. */
typedef struct rp_held_request {
    rp_inbox_item inbox; /* used while it travels back by rp_server_resubmit */
    int resubmitted;     /* as what: the argument of rp_server_resubmit */
    rp_request_queue *queue;
    struct rp_held_request *next;
    uint64_t bytes; /* of this block */
    rp_request request;
} rp_held_request;

/* A turn's requests before they are put, in order. */
typedef struct rp_request_batch {
    rp_held_request *first, *last;
} rp_request_batch;

struct rp_request_queue {
    pthread_mutex_t lock;
    rp_held_request *first, *last;  /* lock */
    int is_signalled;               /* lock: the eventfd is readable */
    int event_fd;                   /* fixed after init */
    uint32_t capacity;              /* fixed after init */
    _Atomic uint32_t waiting;       /* commands admitted and not yet taken; a bound, so relaxed */
    _Atomic uint64_t bytes;         /* of all held requests, taken or not */
    _Atomic uint64_t bytes_reserved; /* for requests about to be held beyond the memory bound; moved to bytes when they are copied */
};

int rp_request_queue_init(rp_request_queue *queue, uint32_t capacity); /* RP_OK, RP_E_IO */
/* Closes the queue and frees what nobody took. */
void rp_request_queue_close(rp_request_queue *queue);
int rp_request_is_admitted(int32_t kind); /* 1: requests of this kind count against the capacity; 0: they are always taken */
/* 1, and one more is counted, if another request that counts against the capacity may wait; else 0. */
int rp_request_queue_admits(rp_request_queue *queue);
/* Copies command (NULL for a connection event) into a block of its own. NULL if memory is exhausted. */
rp_held_request *rp_request_hold(rp_request_queue *queue, enum rp_request_kind kind, uint64_t connection_id, const rp_address *remote,
                                 const rp_command *command);
uint64_t rp_request_copy_size(const rp_command *command); /* bytes of its slices, which are what may be large */
/* 1 if all held and reserved requests, with these bytes more, stay within bytes_max; the bytes are then reserved until
 * rp_request_queue_release. */
int rp_request_queue_reserve(rp_request_queue *queue, uint64_t bytes, uint64_t bytes_max);
void rp_request_queue_release(rp_request_queue *queue, uint64_t bytes);
void rp_request_batch_add(rp_request_batch *batch, rp_held_request *held);
void rp_request_queue_put(rp_request_queue *queue, rp_request_batch *batch); /* empties the batch */
uint32_t rp_request_queue_take(rp_request_queue *queue, rp_request **requests, uint32_t requests_max);
rp_held_request *rp_held_request_of(rp_request *request);
void rp_held_request_free(rp_held_request *held);

#endif
