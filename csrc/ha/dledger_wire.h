/* dledger_wire.h: encodes and decodes DLedger's PUSH and its answer: JSON bodies, with the bodies of entries in base64. Private to
 * csrc/ha.
 * DLedger: PushEntryRequest, PushEntryResponse, DLedgerEntry, as fastjson writes them (0.3.2 dledger/protocol/, entry/).
 *
 * Threads  pure functions. What is decoded points into the text or the arena.
 * Bounds   RP_PUSH_ENTRIES_MAX entries; the input is hostile, and every byte of it is checked here.
 */
#ifndef RP_HA_DLEDGER_WIRE_H
#define RP_HA_DLEDGER_WIRE_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/base64.h"
#include "../base/slice.h"
#include "../store/ledger_entry.h"

#define RP_DLEDGER_PUSH 51004 /* DLedgerRequestCode */
#define RP_DLEDGER_FRAME_CODE 200 /* of the command that carries every answer */
#define RP_PUSH_ENTRIES_MAX 10000

enum rp_dledger_code {
    RP_DLEDGER_SUCCESS = 200,
    RP_DLEDGER_UNKNOWN_GROUP = 400,
    RP_DLEDGER_UNKNOWN_MEMBER = 401,
    RP_DLEDGER_UNEXPECTED_MEMBER = 402,
    RP_DLEDGER_EXPIRED_TERM = 403,
    RP_DLEDGER_INCONSISTENT_STATE = 406,
    RP_DLEDGER_INCONSISTENT_LEADER = 409,
    RP_DLEDGER_UNEXPECTED_ARGUMENT = 411,
    RP_DLEDGER_DISK_ERROR = 414,
    RP_DLEDGER_TERM_NOT_READY = 416
};

enum rp_push_type { RP_PUSH_APPEND = 0, RP_PUSH_COMMIT = 1, RP_PUSH_COMPARE = 2, RP_PUSH_TRUNCATE = 3 };

typedef struct rp_push_entry {
    rp_ledger_entry head; /* with the size that results from its body */
    rp_slice body;        /* in base64 */
} rp_push_entry;

typedef struct rp_push_request {
    rp_slice group, remote_id, local_id, leader_id;
    int64_t term, commit_index;
    int32_t type;
    uint32_t entry_count;
    const rp_push_entry *entries; /* one, or those of a batch */
} rp_push_request;

typedef struct rp_push_response {
    int32_t code, count;
    int64_t term, index, begin_index, end_index;
} rp_push_response;

/* RP_OK; RP_E_PROTOCOL, RP_E_TOO_LARGE (entries), RP_E_NO_MEMORY. */
int rp_push_request_read(rp_slice text, rp_arena *arena, rp_push_request *request);
/* Decodes head and body into entry->head.size bytes. RP_OK; RP_E_PROTOCOL: the body is not base64. */
int rp_push_entry_decode(const rp_push_entry *entry, uint8_t *target);
/* Sender and addressee; ids and group must not contain anything that JSON escapes. */
typedef struct rp_push_envelope {
    const char *group, *local_id, *remote_id;
    int64_t term, commit_index;
    int32_t type;
} rp_push_envelope;
#define RP_PUSH_ENVELOPE_MAX 1024
#define RP_PUSH_ENTRY_HEAD_MAX 320 /* an entry without its body */
#define RP_PUSH_ENTRY_MAX(size) (RP_PUSH_ENTRY_HEAD_MAX + RP_BASE64_SIZE(size))
/* Write the text before the entries, one entry, or the text behind them; each returns its size. A batch has is_batch 1. */
uint32_t rp_push_begin(const rp_push_envelope *envelope, int is_batch, uint32_t entry_count, uint8_t *target);
uint32_t rp_push_add(const rp_ledger_entry *entry, const uint8_t *body, int is_first, uint8_t *target);
uint32_t rp_push_end(int is_batch, uint8_t *target);

/* RP_OK, RP_E_PROTOCOL, RP_E_NO_MEMORY. */
int rp_push_response_read(rp_slice text, rp_arena *arena, rp_push_response *response);
#define RP_PUSH_RESPONSE_MAX 512
uint32_t rp_push_response_write(const rp_push_response *response, const char *group, uint8_t *target, uint32_t target_size);

/* 1 for a text that needs no escapes in JSON: printable ASCII without quotes and backslashes, not empty, shorter than size_max. */
int rp_dledger_is_plain(const char *text, uint32_t size_max);

#endif
