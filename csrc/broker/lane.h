/* lane.h: what the broker keeps for one reactor, and the broker itself. Private to csrc/broker.
 *
 *   rp_broker ─ tables, settings, counters (shared, atomic) ─┬─ lane 0 ─ reactor 0 of server 0
 *                                                            ├─ lane 1 ─ reactor 1 of server 0
 *                                                            └─ …        the reactors of all attached servers, numbered consecutively
 *
 * A lane's fields belong to its reactor's thread unless they say otherwise: the sends of this turn, the responses that wait for disk or
 * slaves, the pulls that wait for messages. That is why none of them needs a lock.
 */
#ifndef RP_BROKER_LANE_H
#define RP_BROKER_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../base/histogram.h"
#include "../remoting/server.h"
#include "../store/message_store.h"
#include "answer_times.h"
#include "broker.h"
#include "broker_stats.h"
#include "cold_reads.h"
#include "get_message.h"
#include "group_table.h"
#include "inner_messages.h"
#include "long_polling.h"
#include "parked_responses.h"
#include "pending_replies.h"
#include "pop_waits.h"
#include "producer_table.h"
#include "request_header.h"
#include "schedule_service.h"
#include "send_path.h"
#include "send_response.h"
#include "timer_service.h"
#include "topic_table.h"
#include "unique_id.h"

#define RP_LANES_MAX 64
#define RP_SERVERS_MAX 4
#define RP_POP_LOCKS 256

/* Written only by the lane's thread, read by any: relaxed loads and stores, no locked instruction. */
typedef struct rp_lane_counters {
    _Atomic uint64_t sends, sends_failed, sends_punted, pulls, pulls_found, pulls_missed, pulls_punted, pulls_suspended, pulls_woken;
    _Atomic uint64_t messages_in, bytes_in, messages_out, bytes_out, parked, flush_timeouts, slave_timeouts, slaves_missing;
    _Atomic uint64_t replies, replies_failed, replies_pending;
    _Atomic uint64_t pops, pops_found, pops_punted, acks, acks_failed;
    _Atomic uint64_t get_ns_max;
    _Atomic uint64_t put_ms[RP_PUT_MS_BUCKETS];
} rp_lane_counters;

typedef struct rp_lane {
    rp_broker *broker;   /* fixed */
    rp_server *server;   /* fixed */
    rp_reactor *reactor; /* fixed */
    uint16_t index;      /* fixed; this lane's bit in a queue's waiting mask */
    uint64_t random;
    rp_unique_id unique_id;
    rp_topic *last_topic; /* topic of the last send, which the next one usually has too */
    rp_send_layout send_layout, reply_layout;
    rp_send_batch sends;
    rp_get_scratch scratch;
    rp_inner_places inner_places; /* places in batches that are popped in parts */
    rp_parked_responses parked;
    uint32_t leadership; /* value of the broker's leaderships before the append that is being answered */
    rp_replies replies; /* replies whose replier is on this lane */
    rp_pushes pushes;   /* replies pushed to requesters on this lane */
    rp_suspended_pulls suspended;
    rp_pop_waits pop_waits;
    /* Stack: pushed with release by the thread that settles, taken whole with acquire by the lane. */
    _Atomic(struct rp_pop_escape *) escaped;
    int64_t lite_due_ns; /* deadline of held lite topics, as last reported to the reactor */
    rp_cold_looks looks;
    rp_subscription_reader subscription;
    int64_t safe_deadline_ns; /* deadline of the parked responses */
    int pulled;               /* a pull was answered in this turn */
    int64_t filter_turn_ns;   /* time of the turn that filter_ns belongs to */
    int64_t filter_ns;        /* how long filters have read records in it */
    int64_t alone_turn_ns;    /* time of the turn that alone_ns belongs to */
    int64_t alone_ns;         /* how long appends that are not batched have taken in it */
    uint32_t filters_waiting; /* suspended pulls that wait for a turn with time for their filters */
    _Atomic uint64_t mapped_begun; /* sends that have looked up a global queue; written by the lane */
    _Atomic uint64_t mapped_over;  /* those of them whose turn has ended, stored or refused; written by the lane */
    uint64_t mapped_mark;          /* mapped_begun at the last mark; owned by the thread that puts mappings */
    rp_lane_counters counters;
    rp_answer_times answer_times;
} rp_lane;

/* rp_broker_settings as the hot path reads them: each field by itself, relaxed. */
typedef struct rp_live_settings {
    _Atomic int32_t permission, role, slave_read_enable, offset_check_in_slave, lite_pull_enable, property_filter_enable, store_writable,
        flush_mode, slave_acks, slaves_min, long_polling_enable, store_reply_enable, transaction_enable, timer_enable, timer_precision_ms,
        timer_stop_enqueue, timer_stop_dequeue, retry_topic_version, retry_topic_v1_too, separate_retry_queues, pop_from_retry_percent,
        pop_from_retry_percent_by_priority, priority_ascends, pop_begins_in_memory, cold_flow_enable;
    _Atomic uint32_t message_size_max, transfer_bytes_max_memory, transfer_count_max_memory, transfer_bytes_max_disk,
        transfer_count_max_disk, filter_bytes_max, memory_ratio_max, short_polling_ms, sync_flush_timeout_ms, slave_timeout_ms;
    _Atomic int64_t accept_after_ms, broker_id_min, slave_gap_bytes_max, transaction_timeout_ms, timer_delay_max_ms,
        timer_slot_messages_max, cold_group_bytes, cold_all_bytes;
    pthread_mutex_t reason_mutex; /* leaf; only on the way to an error */
    char store_reason[128];       /* guarded by reason_mutex */
} rp_live_settings;

struct rp_broker {
    rp_broker_options options; /* fixed; strings are copies */
    char *strings;             /* fixed; behind the options' strings */
    rp_slice property_tail;    /* fixed: \2, then MSG_REGION, TRACE_ON and CLUSTER pairs */
    rp_slice reply_tail;       /* fixed: the same without CLUSTER */
    rp_send_template send_template; /* fixed */
    rp_field send_fields[RP_SEND_FIELD_COUNT]; /* fixed; fields of answers to refused sends */
    rp_handler handler; /* fixed */
    rp_message_store *store;
    rp_commit_log *commit_log;
    rp_topic_table *topics;
    rp_group_table *groups;
    rp_producer_table *producers;
    rp_schedule_service *schedule; /* fixed */
    rp_timer_service *timers;      /* fixed */
    rp_histogram *put_ns;
    rp_cold_reads *cold_reads; /* fixed */
    rp_cold_use cold_use;      /* of all groups */
    struct rp_pop_revive *revive; /* fixed */
    struct rp_lite_readers *lite; /* fixed */
    struct rp_escape_bridge *escape; /* fixed */
    struct rp_foreign_messages *foreign; /* fixed */
    rp_slice revive_topic; /* fixed; behind the options' strings */
    pthread_mutex_t pop_locks[RP_POP_LOCKS]; /* chosen by offset cell: pop_choice.h */
    rp_live_settings settings;
    _Atomic uint64_t offset_version;   /* counts changes: see rp_note_change */
    _Atomic uint64_t timer_count_version;
    _Atomic int64_t in_sync_offset;    /* relaxed */
    _Atomic int64_t replicated_offset; /* released by rp_broker_set_replicated or _committed, before the parked lanes are woken */
    /* For a store with entries: increased at the end of each leadership; released before replicated_offset. */
    _Atomic uint32_t leaderships;
    int32_t waits_for_commit;          /* fixed: the store's log has entries */
    _Atomic int32_t pulls_dismissed;   /* released by rp_broker_dismiss_pulls, before all lanes are woken; acquire */
    _Atomic uint32_t suspended_now;    /* relaxed; sum of all lanes, for the bound */
    _Atomic uint64_t suspended_words;  /* relaxed; likewise: words of the filters that waiting pulls brought with them */
    _Atomic uint32_t pops_waiting;     /* relaxed; sum of all lanes, for the bound */
    _Atomic uint32_t pop_serial;       /* relaxed; spreads checkpoints over the revive queues */
    _Atomic uint64_t pop_order_version; /* counts changes */
    _Atomic int64_t pop_log_due_ns, light_due_ns; /* limit how often certain lines are logged */
    _Atomic uint32_t push_serial;      /* relaxed; makes opaques differ */
    _Atomic uint64_t push_bytes;       /* relaxed; for a bound: bytes of frames that no requester's socket has taken */
    _Atomic uint64_t puts_inside;      /* relaxed; records counted by rp_count_put_inside */
    _Atomic uint32_t lane_count; /* released after lanes[count - 1] is complete */
    rp_lane *lanes[RP_LANES_MAX];
    uint32_t server_count;                    /* owner's thread */
    uint32_t server_lanes[RP_SERVERS_MAX];    /* owner's thread: index of each server's first lane */
    uint32_t server_reactors[RP_SERVERS_MAX]; /* owner's thread: number of each server's lanes */
};

/* The number of the current leadership, or of the next one. */
static inline uint32_t rp_leadership(const rp_broker *broker) { return atomic_load_explicit(&broker->leaderships, memory_order_acquire); }

/* To be called after a change of something that is saved from time to time. A thread that sees the new number sees the change; otherwise
 * the earlier state could be saved under this number and stay in the file until the next change. */
static inline void rp_note_change(_Atomic uint64_t *changes) { atomic_fetch_add_explicit(changes, 1, memory_order_release); }
static inline uint64_t rp_change_number(const _Atomic uint64_t *changes) { return atomic_load_explicit(changes, memory_order_acquire); }

static inline void rp_count(_Atomic uint64_t *counter, uint64_t more) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}
/* Counts a record that the broker itself appends for a message it was sent: due or rolled, committed, asked about, revived, recalled.
 * RocketMQ: incTopicPutNums and incBrokerPutNums. */
static inline void rp_count_put_inside(rp_broker *broker, rp_topic *topic, enum rp_message_type type, uint32_t size) {
    rp_intake_add_one(&topic->in[type], size);
    atomic_fetch_add_explicit(&broker->puts_inside, 1, memory_order_relaxed);
}
static inline uint64_t rp_lane_random(rp_lane *lane) {
    lane->random ^= lane->random << 13;
    lane->random ^= lane->random >> 7;
    lane->random ^= lane->random << 17;
    return lane->random;
}
static inline void rp_count_max(_Atomic uint64_t *counter, uint64_t value) {
    if (value > atomic_load_explicit(counter, memory_order_relaxed))
        atomic_store_explicit(counter, value, memory_order_relaxed);
}

rp_lane *rp_lane_create(rp_broker *broker, rp_server *server, rp_reactor *reactor, uint16_t index);
void rp_lane_destroy(rp_lane *lane);
int64_t rp_lane_deadline(const rp_lane *lane); /* the earliest, in monotonic ns; INT64_MAX: none; for lite topics as last reported */
/* Reports the earliest of the lane's deadlines to the reactor. */
void rp_lane_schedule(rp_lane *lane);
/* Answers what has become safe or late, and schedules what still waits. */
void rp_lane_complete(rp_lane *lane);
/* 1 if another append has held the log for longer than one takes, or the single appends of this turn together have been slow: a request
 * that is not batched with the turn's sends waits alone, and the reactor with it. */
int rp_lane_log_is_slow(rp_lane *lane);
/* Notes that such an append, with the reads it needed, began at begun_ns and has ended. */
void rp_lane_spent(rp_lane *lane, int64_t begun_ns);

#endif
