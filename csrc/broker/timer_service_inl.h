/* timer_service_inl.h: shared by the files of the timer service: its state, and the steps of its thread's turn. Private to csrc/broker.
 *
 *   turn: move_times ─► enter ─► deliver ─► flush      timer_service.c, timer_enter.c, timer_deliver.c, timer_progress.c
 *   start: recover                                     timer_recovery.c
 *
 * Fields belong to the thread while it runs, otherwise to the owner, unless they say otherwise.
 */
#ifndef RP_BROKER_TIMER_SERVICE_INL_H
#define RP_BROKER_TIMER_SERVICE_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../base/thread.h"
#include "../store/message.h"
#include "../store/timer_chain.h"
#include "../store/timer_files.h"
#include "key_set.h"
#include "set_aside.h"
#include "lane.h"
#include "timer_service.h"

#define RP_TIMER_NEXT_NEVER INT64_MAX
#define RP_TIMER_NEXT_AWAKE INT64_MIN /* there is more to do at once */
#define RP_TIMER_REFUSED_MS 100       /* until the next try of what failed */
#define RP_TIMER_NOT_WRITABLE_MS 1000
#define RP_TIMER_STOP_WAIT_MS 5000 /* for the commit log, and for messages not entered yet */

/* The slot being delivered. */
typedef struct rp_timer_delivery {
    rp_timer_chain *chain; /* owned; NULL: no slot is open */
    int kind;              /* rp_timer_chain_kind */
    rp_key_set recalled;
    rp_key_set taken; /* messages that waited so long that a copy of them may be in the slot too */
    rp_timer_chain_record records[RP_TIMER_WINDOW]; /* the next ones of its chain */
    uint32_t count, over; /* for records; bit i of over says that the i-th is over */
    bool has_begun;       /* at least one of its messages was appended */
    uint32_t leadership;  /* the leadership in which it was opened (parked_responses.h) */
    int64_t end_offset;   /* commit log offset behind the last of them */
} rp_timer_delivery;

/* While the timer queue is entered again: the messages in it that wait as a later copy. */
typedef struct rp_timer_copies {
    rp_key_set originals;
    int64_t position, end; /* queue offsets: copies have been searched up to position, and must be up to end */
    bool is_begun;
} rp_timer_copies;

/* Refusals: due messages whose queue could not be made. */
typedef struct rp_timer_refusals {
    int64_t first_ms, last_ms; /* first and last of the refusals that follow each other within FORGOTTEN_MS (timer_aside.c) */
    bool is_told;
    bool asks_queues; /* an append failed, perhaps because of its queue: each queue is tried before an append to it */
} rp_timer_refusals;

/* A message on its way out of the timer queue. */
typedef struct rp_timer_outgoing {
    void *pin;       /* pin of its record */
    uint8_t *text;   /* owned; its properties */
    void *light;     /* owned; light queues it goes to */
    rp_topic *topic; /* counts the messages; NULL: not in the table */
    rp_slice name;   /* REAL_TOPIC */
    int64_t log_offset, queue_offset; /* where it waited */
    int64_t slot_ms; /* not later than the message's own */
    int32_t magic;   /* as in rp_timer_take */
    bool is_late;    /* it is in no slot */
    uint32_t index;  /* in the records */
} rp_timer_outgoing;

struct rp_timer_service {
    rp_broker *broker; /* fixed */
    rp_topic *topic;   /* fixed */
    _Atomic(rp_consume_queue *) queue; /* released by its creator, under `lock` */
    _Atomic(rp_timer_files *) files;   /* released by the first start; never changes again */
    const rp_clock *clock;             /* owner; like the next four, from the first start */
    int32_t precision_ms, window_slots;
    uint32_t flush_interval_ms, progress_interval_ms;
    rp_thread *thread; /* owner; NULL: not running */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool stopping; /* guarded by lock */
    uint8_t checkpoint[RP_TIMER_CHECKPOINT_BYTES]; /* guarded by lock: as on disk */
    rp_timer_checkpoint followed;                  /* guarded by lock; on a slave: what its master last reported */
    bool has_followed;                             /* guarded by lock: the thread has not seen it yet */
    _Atomic int32_t delivers, is_running;
    _Atomic int64_t read_ms, queue_offset, master_queue_offset; /* written by the thread */
    _Atomic uint64_t entered, delivered, rolled, recalled, passed_over;
    /* What is due before passed_on_until_ms and lies below passed_on_below in the timer queue was delivered by a slave, */
    int64_t passed_on_until_ms, passed_on_below;
    int64_t *not_passed_on; /* except these offsets; owned, sorted */
    uint32_t not_passed_on_count;
    int64_t done_ms;        /* slots before it are over (timer_acting.c); equals read_ms if nothing is set aside */
    bool keeps_slots;       /* some slots from there on were read and are not empty */
    int64_t rolled_from_ms; /* first slot of the rolled messages that are not entered again yet; RP_TIMER_NEXT_NEVER: there are none */
    int64_t rolled_end;     /* the rolled messages all lie below this offset of the timer queue */
    rp_set_aside aside;     /* written under lock, since others read it */
    int64_t write_ms;        /* the current slot; not before the read time */
    int64_t entering_goal;   /* end of the timer queue at the start: messages below it are entered before older slots are delivered */
    int64_t version_counter, version_ms;
    bool is_changed;         /* since the last checkpoint */
    int64_t flush_again_ms, expire_again_ms, progress_again_ms;
    uint64_t progress_count; /* entered and delivered when progress was last logged */
    bool enter_refused, deliver_refused, flush_refused, anew_refused; /* each refusal that lasts has been logged */
    rp_timer_delivery delivery;
    rp_timer_copies copies;
    rp_timer_refusals refusals;
    rp_append_item items[RP_TIMER_WINDOW];
    rp_timer_outgoing outgoing[RP_TIMER_WINDOW];
    uint32_t outgoing_count;
};

static inline int64_t rp_timer_get(const _Atomic int64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static inline void rp_timer_set(_Atomic int64_t *field, int64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }
/* Stored after the appends of the slots before it: rp_timer_delivered_until. */
static inline void rp_timer_set_read(rp_timer_service *service, int64_t read_ms) {
    atomic_store_explicit(&service->read_ms, read_ms, memory_order_release);
}
static inline rp_timer_files *rp_timer_files_of(const rp_timer_service *service) {
    return atomic_load_explicit(&service->files, memory_order_acquire);
}
static inline int64_t rp_timer_floor(const rp_timer_service *service, int64_t time_ms) {
    return time_ms < 0 ? 0 : time_ms / service->precision_ms * service->precision_ms;
}
static inline bool rp_timer_is_not_passed_on(const rp_timer_service *service, int64_t queue_offset) {
    uint32_t low = 0, high = service->not_passed_on_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (service->not_passed_on[middle] < queue_offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < service->not_passed_on_count && service->not_passed_on[low] == queue_offset;
}
static inline bool rp_timer_was_passed_on(const rp_timer_service *service, int64_t queue_offset, int64_t slot_ms) {
    return slot_ms < service->passed_on_until_ms && queue_offset < service->passed_on_below &&
           !rp_timer_is_not_passed_on(service, queue_offset);
}
static inline bool rp_timer_is_on(const _Atomic int32_t *setting) { return atomic_load_explicit(setting, memory_order_relaxed) != 0; }

/* ---- timer_service.c ---- */

rp_consume_queue *rp_timer_known_queue(rp_timer_service *service); /* NULL: no message has been sent to it yet */
bool rp_timer_is_stopping(rp_timer_service *service);
/* Logs, once, that something is refused, or works again. */
void rp_timer_tell(rp_timer_service *service, bool *is_refused, const char *what, int status);

/* ---- timer_recovery.c ---- */

/* Decides from the files where entering and reading continue. RP_OK; errors of rp_timer_files_last, or of reading that message. */
int rp_timer_recover(rp_timer_service *service, int64_t now_ms, rp_error *error);
/* Counts the topics' messages again: a slave does not keep these counts. */
void rp_timer_count_anew(rp_timer_service *service, int64_t now_ms);
/* After a broken chain: rebuilds wheel and log from the timer queue. RP_OK, or an error: try again. */
int rp_timer_make_anew(rp_timer_service *service, const rp_error *why, int64_t now_ms);

/* ---- timer_enter.c ---- */

/* Enters some new messages. Returns when to look again. */
int64_t rp_timer_enter(rp_timer_service *service, int64_t now_ms);
/* For a stop, after rp_timer_leave_slot: enters what is there, for at most RP_TIMER_STOP_WAIT_MS. RocketMQ, started on these files,
 * would enter late messages where it has read already, and lose them. */
void rp_timer_enter_at_stop(rp_timer_service *service, int64_t now_ms);

/* ---- timer_copies.c ---- */

/* Before entering, while what is entered was entered before log and wheel were lost: reads some of the queue for copies. RP_OK, and
 * *is_found: entering may continue; any other status: try again. */
int rp_timer_find_copies(rp_timer_service *service, rp_consume_queue *queue, bool *is_found);
/* True if the message was rolled since: its copy is the one that waits. */
bool rp_timer_has_copy(const rp_timer_service *service, const rp_message *message);

/* For a due message: is the one that it is a copy of in its slot too, to be delivered instead? The message is remembered for copies of
 * its own. 1; 0; RP_E_NO_MEMORY. */
int rp_timer_comes_second(rp_timer_service *service, const rp_message *message);

/* ---- timer_deliver.c ---- */

/* Reads and pins the record at that place of the commit log. RP_OK; RP_E_NOT_FOUND: there is none, and it is passed over and logged; any
 * other status: try again. */
int rp_timer_read_message(rp_timer_service *service, int64_t log_offset, int32_t size, rp_message *message, void **pin);
void rp_timer_pass_over(rp_timer_service *service, int64_t log_offset, const char *why, rp_slice name);
/* Takes a message into the batch, to be delivered (magic RP_TIMER_DEFAULT) or to wait once more (RP_TIMER_ROLL); enqueue_ms: when it was
 * entered. The batch then owns the pin. RP_OK; RP_E_NOT_FOUND: it can go nowhere, which is logged; any other status: try again. */
int rp_timer_take(rp_timer_service *service, const rp_message *message, void *pin, int32_t magic, int64_t enqueue_ms, int64_t now_ms);
/* Appends the batch, and sets the bits of the messages that are over. Returns the first status that requires another try, or RP_OK. */
int rp_timer_append(rp_timer_service *service, uint32_t *over);
/* Delivers some due messages. Returns when to look again. */
int64_t rp_timer_deliver(rp_timer_service *service, int64_t now_ms);
/* For a stop: makes sure that what was delivered of the slot is not read again. RP_OK, or why it will be. */
int rp_timer_leave_slot(rp_timer_service *service, rp_error *error);

/* ---- timer_aside.c ---- */

/* Called before an append to the queue. RP_OK: no fault is known; otherwise as rp_commit_log_try_queue. */
int rp_timer_try_queue(rp_timer_service *service, rp_consume_queue *queue, int64_t now_ms);
/* For a due message whose queue cannot be created: returns until when it is set aside; 0: try it again in place. */
int64_t rp_timer_set_aside(rp_timer_service *service, const rp_message *message, int64_t now_ms);

/* ---- timer_acting.c ---- */

/* Before the thread starts: reading continues at the first slot that is not over. */
void rp_timer_begin(rp_timer_service *service);
/* Empties the slots that are over; returns the first that is not. */
int64_t rp_timer_move_done(rp_timer_service *service);
/* For a message that other masters refuse: it is over for its slot. RP_OK, also for one that is set aside already and was tried again,
 * which is not over; RP_E_BUSY, RP_E_NO_MEMORY: it waits in place. */
int rp_timer_keep_aside(rp_timer_service *service, const rp_timer_outgoing *out, uint32_t *over);
/* Tries some of the messages set aside. Returns when to look again. */
int64_t rp_timer_try_aside(rp_timer_service *service, int64_t now_ms);

/* ---- timer_progress.c ---- */

/* Returns when what was delivered by now is on disk. RP_OK, or why that is not known. */
int rp_timer_wait_durable(rp_timer_service *service, uint32_t wait_ms, rp_error *error);
/* Applies what a slave's master reported since the last turn. */
void rp_timer_follow(rp_timer_service *service);
/* Writes the checkpoint if it is due, and does other periodic work. */
void rp_timer_flush_sometimes(rp_timer_service *service, int64_t now_ms);
/* At a stop. RP_OK, or why something is not on disk. */
int rp_timer_flush_at_stop(rp_timer_service *service, int64_t now_ms, bool is_clean, rp_error *error);

#endif
