/* schedule_service_inl.h: shared by the files of the schedule service: its state, one message, the positions. Private to csrc/broker.
 *
 *   schedule_service.c   due messages of each level, the thread
 *   schedule_aside.c     messages set aside, and the positions as others see them
 *
 * Fields belong to the thread while it runs, otherwise to the owner, unless they say otherwise.
 */
#ifndef RP_BROKER_SCHEDULE_SERVICE_INL_H
#define RP_BROKER_SCHEDULE_SERVICE_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "lane.h"
#include "schedule_service.h"
#include "set_aside.h"

#define RP_SCHEDULE_NEVER INT64_MAX
#define RP_SCHEDULE_AWAKE INT64_MIN /* in looks_again_ms: the thread need not be woken */
#define RP_SCHEDULE_BYTES_MAX (1 << 20)
#define RP_SCHEDULE_NOT_WRITABLE_MS 1000
#define RP_SCHEDULE_NO_POSITION (-1)

/* A level, and the entries from where it has reached: bit i says that the i-th of them is over, or set aside. */
typedef struct rp_delay_level {
    _Atomic(rp_consume_queue *) queue; /* released by its creator, under `lock`; NULL: no message had this delay yet */
    int64_t delay_ms;                  /* fixed */
    _Atomic int64_t position; /* offset of the first that is not over; RP_SCHEDULE_NO_POSITION: none was ever delivered */
    int64_t reached;     /* like the next, written under position_lock where others read it */
    rp_set_aside aside;
    uint32_t over;
    bool is_refused;     /* the last append was refused, and that was logged */
    bool is_told_aside;  /* and so were the messages set aside */
} rp_delay_level;

/* One message on its way out of its level. */
typedef struct rp_due_message {
    uint32_t index; /* index of its entry in the window */
    void *pin; /* of its record */
    uint8_t *text; /* owned; its properties if they are not the record's */
    void *light; /* owned; light queues it goes to */
    rp_topic *topic; /* NULL: not in the table */
} rp_due_message;

struct rp_schedule_service {
    rp_broker *broker; /* fixed */
    rp_topic *topic; /* fixed */
    int32_t level_max; /* fixed */
    rp_thread *thread; /* started and joined by the broker's owner */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    pthread_mutex_t position_lock;
    bool stopping, roused; /* guarded by lock */
    _Atomic int64_t looks_again_ms; /* wall clock; sequentially consistent against the queues' max offsets */
    uint32_t count; /* of the next two */
    rp_append_item items[RP_SCHEDULE_WINDOW];
    rp_due_message due[RP_SCHEDULE_WINDOW];
    rp_delay_level levels[RP_DELAY_LEVELS_MAX + 1]; /* by level, from 1 */
};

/* Entries taken out of their level together; bit i of each mask stands for the i-th. */
typedef struct rp_schedule_window {
    rp_queue_entry entries[RP_SCHEDULE_WINDOW];
    uint32_t over;
    uint32_t stuck; /* these cannot go to their target; others may */
    int refused;    /* the first status for which all are tried again in place, or RP_OK */
} rp_schedule_window;

static inline int64_t rp_schedule_now_ms(void) { return rp_clock_wall_ms(rp_clock_system()); }
static inline int64_t rp_schedule_earlier(int64_t left, int64_t right) { return left < right ? left : right; }
static inline rp_consume_queue *rp_schedule_queue_of(const rp_delay_level *level) {
    return atomic_load_explicit(&level->queue, memory_order_acquire);
}
static inline int rp_schedule_number_of(const rp_schedule_service *service, const rp_delay_level *level) {
    return (int)(level - service->levels);
}

/* ---- schedule_service.c ---- */

/* Takes the window's index-th entry into the batch, or notes its result in the window. */
void rp_schedule_take(rp_schedule_service *service, rp_schedule_window *window, uint32_t index);
/* Appends the batch, and notes each result in the window. */
void rp_schedule_append(rp_schedule_service *service, rp_schedule_window *window);

/* ---- schedule_aside.c ---- */

/* Returns where the level continues: within what its queue has, or will have. RocketMQ corrects the position in the same way. */
int64_t rp_schedule_position(rp_schedule_service *service, rp_delay_level *level);
/* Moves on behind what is over, and sets aside what is stuck, in a window that begins where the level has reached. RP_OK; RP_E_BUSY,
 * RP_E_NO_MEMORY: part of it is tried again in place. */
int rp_schedule_move_on(rp_schedule_service *service, rp_delay_level *level, const rp_schedule_window *window, int64_t now_ms);
/* Tries some of the messages set aside. Returns when to look again. */
int64_t rp_schedule_try_aside(rp_schedule_service *service, rp_delay_level *level);
/* Before a start: messages set aside behind the level's position will be met again. */
void rp_schedule_forget_window(rp_schedule_service *service, rp_delay_level *level);

#endif
