/* worker.h: what the files of a load run share: the run, its workers, connections and slots. Private to csrc/load.
 *
 *     load.c        opens, starts, waits                   worker.c      the epoll loop and its timers
 *     connection.c  sockets and buffers                    sender.c      closed and open loop, acknowledgements
 *     reader.c      pulls and what they must contain       control.c     offsets, asked once before the run
 *     result.c      sums up
 *
 * Threads  each field says: fixed (after start), worker (the owning worker's), atomic, or guarded.
 */
#ifndef RP_LOAD_WORKER_H
#define RP_LOAD_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#include "../base/clock_inl.h"
#include "../base/histogram.h"
#include "../base/thread.h"
#include "ledger.h"
#include "load.h"
#include "payload.h"
#include "request.h"
#include "response.h"

#define RP_LOAD_SCAN_NS (100 * RP_NS_PER_MS) /* interval of the scans for time-outs */

typedef struct rp_load_worker rp_load_worker;
typedef struct rp_load_connection rp_load_connection;

/* One queue as its reader sees it. A queue is read by one connection of one worker. */
typedef struct rp_load_reading {
    int64_t start_offset;             /* fixed */
    int64_t end_offset;               /* fixed: where RP_LOAD_PULL ends a queue */
    _Atomic int64_t next_offset;      /* written by the reader; atomic for rp_load_read_queue during the run */
    _Atomic int64_t acknowledged_end; /* behind the highest acknowledged offset; senders raise it, and the reader ends there */
    _Atomic uint64_t acknowledged;    /* added to by every sender */
    _Atomic uint64_t received;
    int32_t pass;                     /* worker: how often the queue has been read to its end */
    int32_t finished;                 /* worker */
    uint32_t failures;                /* worker: refusals in a row */
    uint64_t *last_sequences;         /* worker: last sequence of each producer plus one; grown on demand (check_order) */
    uint32_t last_sequence_count;     /* worker */
    int32_t given_up;                 /* worker: refused too often */
} rp_load_reading;

/* A request under way. opaque 0: none. */
typedef struct rp_load_slot {
    int32_t opaque;
    uint32_t queue;
    uint32_t generation;
    uint64_t sequence; /* of a send's first message */
    int64_t intended_ns;
    int64_t sent_ns;
    int64_t not_before_ns; /* when a parked pull may be sent again; 0: it is not parked */
} rp_load_slot;

enum rp_load_connection_state { RP_LOAD_BROKEN = 0, RP_LOAD_CONNECTING = 1, RP_LOAD_OPEN = 2, RP_LOAD_DEAD = 3 };

struct rp_load_connection { /* all worker, once started */
    rp_load_worker *worker;
    uint32_t index; /* the producer, or the number of the reading connection */
    int is_reader;
    int fd;         /* -1 when there is none */
    int state;
    int64_t broken_ns; /* when it broke */
    int64_t retry_ns;
    uint8_t *input;
    uint32_t input_begin, input_end, input_capacity;
    uint8_t *output;
    uint32_t output_begin, output_end, output_capacity;
    rp_load_slot *slots;
    uint32_t slot_count, slot_bits;
    uint32_t *free_slots;
    uint32_t free_count;
    uint64_t sequence;
    uint32_t queue_cursor;
};

/* Written by the worker alone (plain load and store, no read-modify-write); read by rp_load_read_progress. */
typedef struct rp_load_counters {
    _Atomic uint64_t sent, acknowledged, errors, bytes_sent, received, bytes_received, failures;
} rp_load_counters;

struct rp_load_worker {
    rp_load *load;      /* fixed */
    rp_thread *thread;  /* owner's */
    uint32_t index;     /* fixed */
    int epoll_fd;       /* fixed */
    int wake_fd;        /* fixed: eventfd; anyone may write */
    rp_load_connection *connections; /* fixed array: senders first */
    uint32_t sender_count, reader_count;
    rp_load_counters counters;
    rp_histogram *latency[RP_LOAD_LATENCY_KINDS]; /* recorded by the worker, read by anyone */
    /* worker; read by others after it has ended: */
    int64_t now_ns;
    int64_t next_scan_ns, next_retry_ns;
    int64_t born_ms;
    char born_digits[16];
    int measuring, senders_finished, readers_finished;
    uint64_t budget;          /* messages still to send; UINT64_MAX: no limit */
    uint64_t busy_slots;      /* of the senders */
    uint64_t refusals;        /* sends answered with a code other than SUCCESS */
    double due_step_ns;       /* open loop: time between two requests of this worker */
    uint64_t due_index;
    int64_t due_start_ns;
    uint32_t due_cursor;
    int64_t last_acknowledged_ns, last_received_ns, last_event_ns;
    uint64_t measured_sent, measured_received, measured_bytes_sent, measured_bytes_received, measured_errors;
    uint64_t cpu_ns, pull_responses, pull_empty, disconnects, late_responses, pushed_requests, other_encoding;
    uint64_t missing, duplicated, corrupted, out_of_order, unverified;
    int status;
    uint32_t error_code_count;
    rp_load_error_count error_codes[RP_LOAD_ERROR_CODES_MAX];
};

struct rp_load {
    rp_load_options options; /* fixed; its strings are in text */
    char *text;
    struct sockaddr_storage address; /* fixed */
    socklen_t address_size;
    rp_payload *payload;             /* fixed */
    rp_load_template **templates;    /* fixed: one a queue */
    rp_ledger *ledger;               /* NULL without one */
    rp_load_reading *readings;       /* queue_count of them; also count what is acknowledged */
    rp_load_worker *workers;
    uint32_t started_workers;        /* owner */
    uint32_t run;                    /* fixed: low half of the run id */
    int accept_any_run;              /* fixed */
    int64_t start_ns, measure_ns, end_ns; /* fixed at start; end_ns 0: no limit */
    int64_t wall_offset_ms;          /* fixed: wall clock minus monotonic */
    _Atomic int stop;                /* set by anyone; workers are woken through their eventfd */
    _Atomic uint32_t senders_active; /* workers whose senders have not finished; release/acquire orders acknowledged_end before it */
    _Atomic uint64_t received_total; /* for the count of RP_LOAD_PULL */
    _Atomic int64_t drain_ns;        /* until when readers may continue after the last send; 0: not set yet */
    pthread_mutex_t lock;            /* guards the two below; a leaf */
    pthread_cond_t ended;
    uint32_t running;                /* workers */
    char first_offender[RP_LOAD_OFFENDER_MAX]; /* guarded by lock */
};

static inline void rp_load_bump(_Atomic uint64_t *counter, uint64_t by) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

int64_t rp_load_now_ns(void);

/* worker.c */
void rp_load_worker_run(void *worker);
void rp_load_worker_wake_all(rp_load *load);
void rp_load_worker_error(rp_load_worker *worker, int32_t code, rp_slice remark);
void rp_load_worker_retry_at(rp_load_worker *worker, int64_t at_ns);
/* Adds count to *kind, a worker's counter of failed checks, and keeps the description of the run's first failure. */
void rp_load_worker_fail(rp_load_worker *worker, uint64_t *kind, uint64_t count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* connection.c */
int rp_load_connection_begin(rp_load_connection *connection); /* RP_OK: connecting or open; RP_E_NETWORK */
int rp_load_connection_finish(rp_load_connection *connection, int timeout_ms);  /* waits for a connect; RP_OK or RP_E_NETWORK */
int rp_load_connection_register(rp_load_connection *connection); /* with the worker's epoll */
void rp_load_connection_event(rp_load_connection *connection, uint32_t events);
void rp_load_connection_flush(rp_load_connection *connection);
void rp_load_connection_break(rp_load_connection *connection, int32_t code, const char *remark);
void rp_load_connection_close(rp_load_connection *connection);
/* At the end of the output; NULL: it does not fit at present */
uint8_t *rp_load_connection_room(rp_load_connection *connection, uint32_t size);
rp_load_slot *rp_load_connection_take_slot(rp_load_connection *connection); /* a free one, with an opaque; NULL: all are busy */
void rp_load_connection_arm_slot(rp_load_connection *connection, rp_load_slot *slot); /* gives it a fresh opaque */
void rp_load_connection_end_request(rp_load_connection *connection, rp_load_slot *slot); /* answered, failed or lost */

/* sender.c */
void rp_load_sender_fill(rp_load_connection *connection);          /* closed loop: fills every free slot with a request */
void rp_load_sender_pump(rp_load_worker *worker);                  /* open loop: sends what is due */
int64_t rp_load_sender_next_due_ns(const rp_load_worker *worker);  /* INT64_MAX: nothing */
void rp_load_sender_response(rp_load_connection *connection, rp_load_slot *slot, const rp_load_response *response);
int rp_load_sender_done(const rp_load_worker *worker);             /* nothing left to send or to wait for */

/* reader.c */
void rp_load_reader_fill(rp_load_connection *connection);
void rp_load_reader_response(rp_load_connection *connection, rp_load_slot *slot, const rp_load_response *response);
int rp_load_reader_done(rp_load_worker *worker);

/* control.c: blocks; sets start_offset (and end_offset) of the readings to the queues' offsets. */
int rp_load_query_offsets(rp_load *load, rp_error *error);

#endif
