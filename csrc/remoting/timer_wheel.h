/* timer_wheel.h: connections that must be checked later, ordered coarsely by time. Internal to csrc/remoting.
 *
 * A node fires at or after its time, up to one tick late, or early if its time is further away than the wheel reaches: its taker checks
 * and schedules it again. So traffic on a connection costs the wheel nothing.
 *
 * Threads  one owner. Owns nothing: nodes are embedded in what they time.
 */
#ifndef RP_REMOTING_TIMER_WHEEL_H
#define RP_REMOTING_TIMER_WHEEL_H

#include <stdint.h>

#define RP_TIMER_WHEEL_SLOTS 256

typedef struct rp_timer_node {
    struct rp_timer_node *previous, *next; /* NULL: not in the wheel */
    uint64_t tick;
} rp_timer_node;

typedef struct rp_timer_wheel {
    rp_timer_node slots[RP_TIMER_WHEEL_SLOTS]; /* heads of circular lists */
    int64_t tick_ns;                           /* fixed after init */
    uint64_t current;                          /* all ticks up to this one have fired */
    uint64_t next;                             /* no node fires before this tick */
    uint64_t count;                            /* nodes in the wheel */
} rp_timer_wheel;

void rp_timer_wheel_init(rp_timer_wheel *wheel, int64_t tick_ns, int64_t now_ns);
/* Adds or moves the node so that it fires soon after due_ns. */
void rp_timer_wheel_schedule(rp_timer_wheel *wheel, rp_timer_node *node, int64_t due_ns);
/* The same, if that is earlier than its present time. */
void rp_timer_wheel_hasten(rp_timer_wheel *wheel, rp_timer_node *node, int64_t due_ns);
void rp_timer_wheel_cancel(rp_timer_wheel *wheel, rp_timer_node *node);
/* Takes out one node whose tick has passed; NULL if there is none. */
rp_timer_node *rp_timer_wheel_take(rp_timer_wheel *wheel, int64_t now_ns);
/* Returns when to call take again; INT64_MAX if the wheel is empty. */
int64_t rp_timer_wheel_next_ns(const rp_timer_wheel *wheel);

#endif
