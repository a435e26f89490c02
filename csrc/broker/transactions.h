/* transactions.h: what Python asks of transactional messages (half_messages.h). Public, beside broker.h.
 * RocketMQ: EndTransactionProcessor, TransactionalMessageServiceImpl.check (5.3.3 broker/).
 *
 *   rp_broker_undecided_halves ─► Python decides ─► rp_broker_put_half_again ─► the next look begins behind it
 *
 * Threads  any; each blocks on the disk where messages are read from.
 */
#ifndef RP_BROKER_TRANSACTIONS_H
#define RP_BROKER_TRANSACTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "broker.h"

/* A producer's decision. */
typedef struct rp_end_transaction {
    rp_slice producer_group;
    int64_t queue_offset, log_offset; /* of the prepared message */
    int32_t decision;                 /* RP_SYSFLAG_TRANSACTION_COMMIT, RP_SYSFLAG_TRANSACTION_ROLLBACK */
    int32_t is_from_check;            /* 1 if the producer had been asked */
} rp_end_transaction;
/* Carries the decision out. Returns the response code; *remark is NULL or static text. */
int32_t rp_broker_end_transaction(rp_broker *broker, const rp_end_transaction *request, const char **remark);

#define RP_HALF_NOT_IMMUNE INT64_MIN
/* A prepared message that nobody has committed or rolled back. */
typedef struct rp_undecided_half {
    int64_t queue_offset, log_offset, born_ms;
    int64_t immune_s;    /* CHECK_IMMUNITY_TIME_IN_SECONDS; -1: not a number; RP_HALF_NOT_IMMUNE: absent */
    int32_t check_times; /* how often its producer was asked; -1: not a number */
    rp_slice topic;      /* the topic it was sent to, in the table of topics; data NULL: there is no such topic */
} rp_undecided_half;
/* Lists the undecided messages from half_position on, in order; the operations from op_position on say which are decided. Returns how
 * many, at most rows_max; RP_E_IO, RP_E_NO_MEMORY. *scanned_to: all undecided ones below it are among the rows. */
int64_t rp_broker_undecided_halves(rp_broker *broker, int64_t half_position, int64_t op_position, rp_undecided_half *rows,
                                   uint32_t rows_max, int64_t *scanned_to);
/* Counts the undecided messages for each existing topic that they were sent to, in any order. RP_OK; RP_E_IO, RP_E_NO_MEMORY. */
typedef struct rp_half_count {
    rp_slice topic;
    uint64_t count;
} rp_half_count;
int rp_broker_each_half_count(rp_broker *broker, int64_t half_position, int64_t op_position,
                              int (*visit)(void *context, const rp_half_count *count), void *context);
/* Returns the offset of the first operation from op_position on that is still needed: it decides a prepared message at or behind
 * half_position, or one of `copied` (in any order), which lie before it but have immune copies at or behind it. RP_E_IO, RP_E_NO_MEMORY. */
int64_t rp_broker_needed_operation(rp_broker *broker, int64_t op_position, int64_t half_position, const int64_t *copied,
                                   size_t copied_count);

enum rp_half_fate {
    RP_HALF_IS_ASKED_FOR = 0, /* copied behind the other prepared messages; its producer is asked about the copy */
    RP_HALF_IS_IMMUNE = 1,    /* copied behind the other prepared messages; the copy names the original's offset */
    RP_HALF_IS_GIVEN_UP = 2,  /* copied to TRANS_CHECK_MAX_TIME_TOPIC */
    RP_HALF_IS_RESUMED = 3,   /* copied from there back to the prepared ones */
};
/* Where the copy is. */
typedef struct rp_half_copy {
    int64_t queue_offset, log_offset;
    int64_t first_offset; /* queue offset of the original: an operation about that decides the copy too; -1: none, or it is decided */
    uint8_t *question; /* RP_HALF_IS_ASKED_FOR: the message as it is shown to its producer; the caller frees it; otherwise NULL */
    uint32_t question_size;
} rp_half_copy;
/* Stores the copy. check_times is written into it, except for RP_HALF_IS_GIVEN_UP and _IMMUNE. RP_OK; otherwise nothing was stored:
 * RP_E_NOT_FOUND: there is no such message at log_offset; RP_E_EXISTS: TRANS_CHECK_MAX_TIME_TOPIC has to be created first;
 * RP_E_NO_MEMORY; as rp_append_item's status. */
int rp_broker_put_half_again(rp_broker *broker, int64_t log_offset, int fate, int32_t check_times, rp_half_copy *copy);

#endif
